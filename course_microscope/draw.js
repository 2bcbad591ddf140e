// The one drawing of the microscope: facts become a page. Who computes them, a kernel, the page or nobody, is `source`.
const VIEWS = {
  attention: "Where the open head looks from here: the score, the share that softmax makes of it, and what the source gives.",
  stream: "What the model would expect if it stopped here, and how much each head adds to the stream.",
  paths: "The logit is a sum: what came straight from the token, and what each head added.",
  doors: "What an early head writes, a later one reads as queries, keys or values. Press a door to shut it.",
};
const KEYS = "Arrows move between tokens, heads and doors · Enter selects or opens · x cuts · Esc undoes all cuts · 1–4 choose a view · v weights by values";
const OPEN = 4, LEAST = 0.04; // heads that are open at a time; attention below this has no arc
const GROUPS = [".tok", ".name", ".switch", "[data-do=ask]", ".door, [data-do=doors]"];
const safe = (words) => String(words).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const number = (value, digits = 2) => (value.toFixed(digits).replace(/^-(?=0\.0*$)/, "")).replace("-", "−");
const percent = (share) => (share > 0 && share < 0.005 ? "<1 %" : `${(100 * share).toFixed(0)} %`);
const ink = (head) => `l${head[0] % 2}`;

function morph(from, to) {
  // make `from` what `to` is and keep its elements: what moves, moves, and the focus stays
  if (from.nodeType === 3 && to.nodeType === 3) return void (from.data !== to.data && (from.data = to.data));
  if (from.nodeName !== to.nodeName) return from.replaceWith(to);
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  if (from.hasAttribute("data-kept")) return;
  const id = (node) => node.dataset?.key && `${node.dataset.do} ${node.dataset.key}`;
  const wanted = [...to.childNodes];
  wanted.forEach((child, i) => {
    const same = id(child) && [...from.childNodes].slice(i).find((node) => id(node) === id(child));
    const now = same || from.childNodes[i];
    if (same && same !== from.childNodes[i]) from.insertBefore(same, from.childNodes[i]);
    if (now) morph(now, child);
    else from.append(child);
  });
  while (from.childNodes.length > wanted.length) from.lastChild.remove();
}

const bar = (p, before = null, style = "") =>
  `<span class="bar ${style}"><i style="width:${(100 * p).toFixed(1)}%"></i>${before === null || before < 0.005 ? "" : `<b style="width:${(100 * before).toFixed(1)}%"></b>`}</span>`;

function tokens(f) {
  const share = f.open.length ? f.curves[f.open.at(-1)].now[f.position] : [], most = f.open.length ? f.curves[f.open.at(-1)].most : 1;
  const boxes = f.names.map((name, i) => {
    const [guess, p, right] = f.best?.[i] ?? ["", 0, null], gone = f.cuts.includes(String(i));
    const look = `tok${i === f.position ? " sel" : ""}${gone ? " gone" : ""}`, mark = right === null ? "open" : right ? "right" : "wrong";
    return `<button type="button" class="${look}" data-do="select" data-key="${i}" style="--a:${((share[i] ?? 0) / most).toFixed(3)}" aria-pressed="${i === f.position}"
      aria-label="${safe(name)}, position ${i}${gone ? ", hidden" : ""}${f.best ? `; expects ${safe(guess)}, ${percent(p)}` : ""}"><span class="t">${safe(name)}</span><span class="g">${safe(guess)}</span><span class="p ${mark}"><i style="width:${(100 * p).toFixed(0)}%"></i></span></button>`;
  });
  const last = f.open.at(-1);
  const note = `Below each token: what the model expects next, and how sure it is of it${f.text ? " (solid where that came)" : ""}.`;
  return `<div class="stage ${last ? ink(last) : ""}"><div class="strip"><svg class="arcs" data-kept aria-hidden="true"></svg><div class="tokens" role="group" aria-label="the text">${boxes.join("")}</div></div></div><p class="small note">${note}</p>`;
}

function left(f, guide) {
  // what the cuts leave of the best guess: it stays in sight while heads and doors are pressed
  const cut = f.cuts.length > 0, was = cut && f.rows.reduce((a, b) => (b.before > a.before ? b : a));
  const asks = f.press && !cut ? `<b>Press the switch of head ${f.press}</b>, and see what is left.` : "Nothing is cut. A switch takes a head out.";
  const big = cut ? `<code>${safe(was.name)}</code> <span>${percent(was.before)}</span> <span class="to">→</span> <b>${percent(was.p)}</b>` : asks;
  return `<div class="change${cut ? " cut" : ""}"><p class="big">${big}</p><p class="small">${cut ? `without ${safe(f.words.join(", "))}` : ""}</p>
    <button type="button" data-do="reset" data-key="" ${cut ? "" : "disabled"}>undo</button>${guide ? `<div class="guide" role="status">${guide}</div>` : ""}</div>`;
}

function message(f) {
  const cut = f.cuts.length > 0, here = String(f.position);
  const rows = f.rows.slice(0, 6).map((row, i) => {
    const label = `${safe(row.name)}: ${percent(row.p)}${cut ? `, before the cut ${percent(row.before)}` : ""}. Take its logit apart`;
    return `<button type="button" class="row${i ? "" : " first"}${row.token === f.token ? " asked" : ""}" data-do="ask" data-key="${row.token}" aria-label="${label}"><code>${safe(row.name)}</code>${bar(row.p, row.before, row.right ? "right" : "")}
      <span class="n">${percent(row.p)}</span><span class="n was">${cut ? percent(row.before) : ""}</span></button>`;
  });
  const came = f.came ? `${f.text ? "came" : "right is"} <code>${safe(f.came[0])}</code>, loss ${number(f.came[1])}${cut ? ` (before ${number(f.came[2])})` : ""} nats` : "";
  const mean = f.mean ? `mean loss of all positions ${number(f.mean[0])}${cut ? ` (before ${number(f.mean[1])})` : ""} nats` : "";
  const seen = `<p class="small"><button type="button" class="switch" role="switch" data-do="cut" data-key="${here}" aria-checked="${!f.cuts.includes(here)}" aria-label="position ${here} can be seen"></button> later tokens see <code>${safe(f.names[f.position])}</code>, position ${here}</p>`;
  return `<div class="said"><h3>After <code>${safe(f.names[f.position])}</code> the model expects<span class="n was">${cut ? "before" : ""}</span></h3><div class="rows">${rows.join("")}</div>
    <p class="small">${[came, mean].filter(Boolean).join(" · ")}</p>${f.position < f.names.length - 1 || f.cuts.includes(here) ? seen : ""}</div>`;
}

function heads(f) {
  const layers = [...Array(f.layers).keys()].reverse().map((layer) => {
    const chips = [...Array(f.heads).keys()].map((head) => {
      const name = `${layer}.${head}`, off = f.cuts.includes(name), open = f.open.includes(name), row = f.glance[name];
      const line = row.map((share, i) => (share < 0.01 ? "" : `M${i} 1v-${share.toFixed(2)}h1v${share.toFixed(2)}z`)).join("");
      return `<div class="chip ${ink(name)}${off ? " off" : ""}${open ? " open" : ""}" data-do="chip" data-key="${name}"><button type="button" class="name" data-do="open" data-key="${name}" aria-pressed="${open}" aria-label="head ${name}: ${open ? "close" : "show where it looks"}">${name}<svg viewBox="0 0 ${f.names.length} 1" preserveAspectRatio="none" aria-hidden="true"><path d="${line}"/></svg></button>
        <button type="button" class="switch${f.press === name && !f.cuts.length ? " asks" : ""}" role="switch" data-do="cut" data-key="${name}" aria-checked="${!off}" aria-label="head ${name}"></button></div>`;
    });
    return `<h4>layer ${layer}</h4><div class="chips" style="--n:${Math.min(4, f.heads)}">${chips.join("")}</div>`;
  });
  return `<div class="heads"><h3>${f.layers ? "Heads: the switch cuts, the name shows where it looks" : "This model has no heads"}</h3>${layers.join("")}</div>`;
}

const PANELS = {
  attention(f) {
    const panel = f.panel;
    if (!panel) return `<p>Open a head, and see how its pattern comes about.</p>`;
    const most = Math.max(...panel.rows.map((row) => row.gives), 1e-9), cut = f.cuts.length > 0;
    const rows = panel.rows.map((row) => `<tr><td><code>${safe(row.name)}</code> <small>${row.at}</small></td><td class="n">${number(row.score)}</td><td class="wide">${bar(row.share, row.before)}</td><td class="n">${percent(row.share)}${cut ? ` <small>(${percent(row.before)})</small>` : ""}</td>
      <td class="n">${number(row.length)}</td><td class="wide">${bar(row.gives / most)}</td><td class="n">${number(row.gives)}</td></tr>`);
    const [count, share] = panel.rest, mask = panel.masked;
    const rest = count ? `<tr class="soft"><td>${count} other${count > 1 ? "s" : ""}</td><td></td><td class="wide">${bar(share)}</td><td class="n">${percent(share)}</td><td></td><td class="wide"></td><td></td></tr>` : "";
    const later = mask ? `<tr class="soft"><td><code>${safe(mask.name)}</code> <small>${mask.at}</small></td><td class="n">${number(mask.score)}</td><td colspan="5">→ −∞ behind the mask, as all ${mask.count} later positions: this is the largest score there</td></tr>` : "";
    return `<div class="two ${ink(panel.head)}"><div class="scroll"><table><caption>Head ${panel.head}, from position ${f.position}: its largest sources</caption><thead><tr><th>source</th><th class="n">score</th><th class="wide"></th><th class="n">attention</th><th class="n" title="length of what the source’s value writes">× length</th><th class="wide"></th><th class="n">gives</th></tr></thead><tbody>${rows.join("")}${rest}${later}</tbody></table></div>${pattern(f, panel.head)}</div>`;
  },
  stream(f) {
    const most = Math.max(...Object.values(f.written), 1e-9);
    const levels = f.panel.map((level, at) => `<tr><td>${at ? `after layer ${at - 1}` : "embedding"}</td><td class="n">${number(level.length)}</td>${level.top.map(([name, p]) => `<td><code>${safe(name)}</code> <small>${percent(p)}</small>${bar(p)}</td>`).join("")}</tr>`).reverse();
    const added = Object.entries(f.written).map(([head, size]) => `<div class="line ${ink(head)}"><span>${head}</span>${bar(size / most)}<span class="n">${number(size)}</span></div>`);
    return `<div class="two"><div class="scroll"><table><caption>The stream at position ${f.position}</caption><thead><tr><th>level</th><th class="n">length</th><th colspan="3">what the unembedding reads off here</th></tr></thead><tbody>${levels.join("")}</tbody></table></div>
      <div><p class="caption">Length of what each head adds here</p><div class="lines">${added.join("")}</div></div></div>`;
  },
  paths(f) {
    const { terms, total, pairs } = f.panel, cut = total[1] !== null;
    const all = terms.flatMap(([, now, before]) => [now, before ?? 0]), low = Math.min(0, ...all), room = Math.max(0, ...all) - low || 1;
    const place = (value) => `left:${((100 * (Math.min(0, value) - low)) / room).toFixed(1)}%;width:${((100 * Math.abs(value)) / room).toFixed(1)}%`;
    const line = ([name, now, before]) => `<div class="line ${/\d/.test(name) ? ink(name) : ""}"><span>${name}</span><span class="bar signed" style="--zero:${((-100 * low) / room).toFixed(1)}%"><i style="${place(now)}"></i>${cut ? `<b style="${place(before)}"></b>` : ""}</span><span class="n">${number(now)}</span></div>`;
    const sources = ["direct", ...[...Array(f.heads).keys()].map((head) => `0.${head}`)], most = pairs && Math.max(...pairs.flat().map(Math.abs), 1e-9);
    const table = pairs && `<div class="scroll"><table class="grid l1"><caption>What the values of layer 1 were made from; a row is a bar of layer 1</caption><thead><tr><th></th>${sources.map((name) => `<th class="n">${name}</th>`).join("")}</tr></thead><tbody>${pairs.map((row, head) =>
      `<tr><th>1.${head}</th>${row.map((value) => `<td class="n" style="--a:${(Math.abs(value) / most).toFixed(2)}">${number(value)}</td>`).join("")}</tr>`).join("")}</tbody></table></div>`;
    return `<p class="caption">The logit of <code>${safe(f.called)}</code>: <b>${number(total[0])}</b> = the sum of all bars${cut ? ` (before: ${number(total[1])})` : ""}</p><div class="${pairs ? "two" : ""}"><div class="lines">${terms.map(line).join("")}</div>${table ?? ""}</div>`;
  },
  doors(f) {
    const { why, reader, scores, shut } = f.panel;
    if (why) return `<p>${why}</p>`;
    const most = Math.max(...Object.values(scores).flat()), earlier = scores.q.map((_, at) => `${Math.floor(at / f.heads)}.${at % f.heads}`);
    const rows = Object.entries({ q: "queries", k: "keys", v: "values" }).map(([path, words]) => `<button type="button" class="all" data-do="doors" data-key="${path}" aria-label="shut or open all ${words} of head ${reader}">${words}</button>${earlier.map((head, at) => {
      const key = `${head}${path}${reader}`, off = shut.includes(key);
      return `<button type="button" class="door ${ink(head)}${off ? " shut" : ""}" data-do="cut" data-key="${key}" aria-pressed="${off}" style="--a:${(scores[path][at] / most).toFixed(2)}" aria-label="${off ? "open" : "shut"}: ${head} in the ${words} of ${reader}, score ${number(scores[path][at])}">${number(scores[path][at])}</button>`; }).join("")}`);
    return `<p class="caption">The doors of head ${reader}: composition scores</p><div class="doors" style="--n:${earlier.length}"><span></span>${earlier.map((head) => `<code>${head}</code>`).join("")}${rows.join("")}</div>`;
  },
};

function pattern(f, head) {
  // the whole triangle, in eight shades
  const rows = f.curves[head].now, n = rows.length, shades = Array(9).fill("");
  rows.forEach((row, dest) => row.forEach((share, src) => (shades[Math.ceil(Math.min(1, share / f.curves[head].most) * 8 - 0.08)] += `M${src} ${dest}h1v1h-1z`)));
  const cells = shades.map((d, shade) => (shade && d ? `<path d="${d}" opacity="${shade / 8}"/>` : "")).join("");
  return `<figure><svg class="pattern" viewBox="-0.2 -0.2 ${n + 0.4} ${n + 0.4}" role="img" aria-label="the whole pattern of head ${head}"><path class="edge" d="M0 0${[...Array(n).keys()].map(() => "h1v1").join("")}H0z"/>${cells}<path class="here" d="M0 ${f.position}h${f.position + 1}v1H0z"/></svg><figcaption>The whole pattern: a row reads, a column is read</figcaption></figure>`;
}

function arcs(root, f, dest) {
  // from the place that reads to the places that are read, above the boxes
  const svg = root.querySelector(".arcs"), boxes = [...root.querySelectorAll(".tok")], drawn = [];
  if (!boxes[dest]?.offsetWidth) return; // hidden boxes stand nowhere
  const middle = (box) => box.offsetLeft + box.offsetWidth / 2, y = boxes[dest].offsetTop, u = middle(boxes[dest]);
  f.open.forEach((head, which) => {
    const { now, was, most } = f.curves[head], strong = [...now[dest].keys()].sort((a, b) => now[dest][b] - now[dest][a]).slice(0, 4);
    for (const [row, look] of [[was?.[dest], "was"], [now[dest], ""]]) row?.forEach((value, src) => {
      const share = value / most, x = middle(boxes[src]);
      if (share < LEAST) return;
      const rise = Math.min(34, 11 + 0.12 * (u - x)) + 3 * which, reach = src === dest ? 13 : 0;
      drawn.push(`<path class="${ink(head)} ${look}" stroke-width="${Math.max(0.8, 4.5 * share).toFixed(1)}" d="M${x} ${y - 1}C${x - reach} ${y - rise} ${u + reach} ${y - rise} ${u} ${y - 1}"/>`);
      if (!look && share >= 0.08 && strong.includes(src)) drawn.push(`<text x="${(x + u) / 2}" y="${y - 0.75 * rise - 3}">${f.weighted ? number(value) : percent(value)}</text>`);
    });
  });
  svg.innerHTML = drawn.join("");
}

export function mount(el, source) {
  const root = document.createElement("div"), body = document.createElement("div"), own = document.createElement("div"), said = document.createElement("div");
  // what is drawn, what was asked for since, the places whose arcs are drawn (the first that there is), and what the strip shows
  let f = source.facts, next = f, hovered = null, looked = null, asked = 0, seen = "", shown = "", live;
  const looksFrom = () => hovered ?? looked ?? f.position;
  root.className = "micro";
  root.dataset.lmSuppressShortcuts = "true"; // in JupyterLab, x would cut the notebook's cell
  own.className = "own";
  said.className = "aloud";
  said.setAttribute("aria-live", "polite");
  if (source.tokens) {
    own.innerHTML = `<label>Your text<textarea rows="2" spellcheck="false"></textarea></label><p class="small" role="status"></p>`;
    own.querySelector("textarea").value = source.text;
  }
  root.append(own, body, said);
  el.append(root);
  const all = (selector) => [...body.querySelectorAll(selector)], id = (element) => `${element.dataset.do} ${element.dataset.key}`;
  const groupOf = (element) => GROUPS.find((group) => element?.matches(group)), current = new Map();

  function draw() {
    const tabs = Object.keys(VIEWS).map((view, i) => `<button type="button" role="tab" data-do="view" data-key="${view}" aria-selected="${view === f.view}" title="key ${i + 1}">${view}</button>`);
    const made = document.createElement("div");
    made.className = "inside";
    made.innerHTML = `${tokens(f)}${left(f, source.guide?.(f))}<div class="main">${message(f)}${heads(f)}</div><div class="tabs" role="tablist">${tabs.join("")}<span></span><button type="button" data-do="weighted" data-key="" aria-pressed="${f.weighted}" title="weight attention by the length of what is given (key v)">× values</button></div>
      <div class="panel"><p class="small">${VIEWS[f.view]}</p>${PANELS[f.view](f)}</div><details class="keys"><summary>Keys</summary>${KEYS}</details>`;
    const folded = body.querySelector("details")?.open;
    if (folded) made.querySelector("details").open = true;
    morph(body, made);
    for (const group of GROUPS) {
      const members = all(group), stop = members.find((m) => id(m) === current.get(group)) ?? members.find((m) => m.matches(".sel")) ?? members[0];
      members.forEach((m) => m.setAttribute("tabindex", m === stop ? "0" : "-1"));
    }
    const now = `After ${f.names[f.position]} it expects ${f.rows[0].name}, ${percent(f.rows[0].p)}. ${f.cuts.length ? `Without ${f.words.join(", ")}.` : "Nothing is cut."}`;
    if (now !== seen) said.textContent = seen = now;
    arcs(root, f, looksFrom());
    scroll(looked ?? f.position);
    source.changed?.(f);
  }

  function scroll(to) {
    // the strip shows the place that was chosen, and what stands before it
    const stage = body.querySelector(".stage"), box = body.querySelectorAll(".tok")[to], place = `${f.names.length} ${to}`;
    if (!box?.offsetWidth || shown === place) return;
    const right = box.offsetLeft + box.offsetWidth + 8, inSight = box.offsetLeft >= stage.scrollLeft && right <= stage.scrollLeft + stage.clientWidth;
    if (!inSight) stage.scrollLeft = right - stage.clientWidth;
    shown = place;
  }

  function waits(words) {
    const line = body.querySelector(".change .big");
    line.innerHTML = `<progress></progress> <span class="small">${safe(words)}</span>`;
  }

  async function go(change) {
    const turn = ++asked, state = (next = { ...next, ...change });
    const slow = setTimeout(() => waits(source.waits ?? "computing …"), 150);
    root.setAttribute("aria-busy", "true");
    try {
      for (const soon of source.later ? [true, false] : [false]) {
        const found = await source.ask(state, soon);
        if (turn !== asked) return;
        clearTimeout(slow);
        root.removeAttribute("aria-busy");
        const same = f.best?.length === found?.names.length;
        if (found) f = soon && same ? { ...found, best: f.best, mean: f.mean && [f.mean[0], found.cuts.length ? (f.mean[1] ?? f.mean[0]) : null] } : found;
        next = f;
        draw();
        if (soon) await new Promise((done) => setTimeout(done, 30)); // the picture first, then the rest of the text
      }
    } catch (error) {
      next = f;
      draw();
      waits(error.message);
    } finally {
      clearTimeout(slow);
    }
  }

  function flip(key) {
    // a switch moves at once; the answer, which draws the rest, may take longer
    for (const pressed of all(`[data-do=cut][data-key="${key}"]`))
      for (const name of ["aria-checked", "aria-pressed"])
        if (pressed.hasAttribute(name)) pressed.setAttribute(name, pressed.getAttribute(name) !== "true");
  }

  function press(what, key) {
    looked = null;
    if (what === "select") return go({ position: Number(key), token: null });
    if (what === "ask") return go({ token: Number(key), view: "paths" });
    if (what === "view") return go({ view: key });
    if (what === "weighted") return go({ weighted: !next.weighted });
    if (what === "guide") return source.guided(key, live);
    if (what === "reset") return go({ cuts: [] });
    if (what === "open") return go({ open: next.open.includes(key) ? next.open.filter((one) => one !== key) : [...next.open, key].slice(-OPEN) });
    if (what === "cut") {
      flip(key);
      return go({ cuts: next.cuts.includes(key) ? next.cuts.filter((one) => one !== key) : [...next.cuts, key] });
    }
    if (what === "doors") {
      const these = all(".door").map((door) => door.dataset.key).filter((door) => door.includes(key)), kept = next.cuts.filter((one) => !these.includes(one));
      return go({ cuts: kept.length === next.cuts.length - these.length ? kept : [...kept, ...these] });
    }
  }

  function focus(element) {
    if (!element) return;
    current.set(groupOf(element), id(element));
    all(groupOf(element)).forEach((m) => m.setAttribute("tabindex", m === element ? "0" : "-1"));
    element.focus({ preventScroll: true });
  }

  let still = ""; // where the mouse last pressed: a page that scrolls below it is no hover
  const spot = (event) => `${Math.floor(event.clientX)} ${Math.floor(event.clientY)}`;
  body.addEventListener("click", (event) => {
    still = spot(event);
    const pressed = event.target.closest("button[data-do]");
    if (!pressed) return;
    if (groupOf(pressed)) focus(pressed);
    press(pressed.dataset.do, pressed.dataset.key);
  });
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("textarea")) return event.target.matches("textarea") && event.stopPropagation();
    const on = event.target.closest("[data-do]"), key = event.key, members = on && groupOf(on) ? all(groupOf(on)) : [];
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    if (step && members.length) focus(members[members.indexOf(on) + step]);
    else if (on && key === "x" && on.matches(".tok, .name, .switch, .door")) press("cut", on.dataset.key);
    else if (key === "Escape") press("reset");
    else if (Object.keys(VIEWS)[key - 1]) press("view", Object.keys(VIEWS)[key - 1]);
    else if (key === "v") press("weighted");
    else return key === "Enter" || key === " " ? event.stopPropagation() : undefined; // a button presses itself
    event.preventDefault();
    event.stopPropagation();
  });
  const hover = (event) => {
    if (spot(event) === still) return;
    const box = event.target.closest(".tok");
    hovered = event.type === "pointerleave" || !box ? null : Number(box.dataset.key);
    arcs(root, f, looksFrom());
  };
  body.addEventListener("pointerover", hover);
  body.addEventListener("pointerleave", hover);
  let typed = 0;
  async function read(text, change = {}) {
    // another text; `change` may say what else there is to see. One that can't be drawn leaves no old picture
    const status = own.querySelector("p"), turn = ++typed, slow = setTimeout(() => (status.textContent = source.waits ?? ""), 150);
    try {
      const tokens = await source.tokens(text), cuts = next.cuts.filter((one) => one.includes("."));
      if (turn !== typed) return;
      body.hidden = false;
      status.textContent = `${tokens.length} of ${source.most} tokens`;
      await go({ tokens, position: tokens.length - 1, token: null, cuts, press: null, ...change });
    } catch (error) {
      if (turn !== typed) return;
      status.textContent = error.message;
      body.hidden = true;
    } finally {
      clearTimeout(slow);
    }
  }
  own.querySelector("textarea")?.addEventListener("input", ({ target }) => read(target.value));
  const look = (position) => ((looked = position), draw());
  live = { root, go, read, look, show: (facts) => ((next = f = facts), draw()), close: () => resized.disconnect() };
  const resized = new ResizeObserver(() => (arcs(root, f, looksFrom()), scroll(looked ?? f.position))); // whatever moves the boxes
  resized.observe(body);
  draw();
  return live;
}
