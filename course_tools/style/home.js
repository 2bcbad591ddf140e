// The first page: a puzzle, its answer in two arcs and one kind of door, and other texts. What the puzzle asks is stored; the rest the model computes, once it is loaded.
addEventListener("DOMContentLoaded", () => {
  const still = document.querySelector(".microscope-still[data-text]"), place = document.createElement("div");
  const { answers, texts, found, readers } = JSON.parse(document.getElementById("stored").textContent);
  const { mount, loaded, stored, percent, MOST, WAITS } = microscope, opening = still.dataset.text, name = "two-layer";
  const first = answers[""], model = async () => loaded(name, "_static/models/");
  const doors = (path) => readers.map((reader) => `${found}${path}${reader}`).join();
  const code = (word) => `<code>${word}</code>`;
  const button = (key, words, pressed = null) => `<button type="button" data-do="guide" data-key="${key}"${pressed === null ? "" : ` aria-pressed="${pressed}"`}>${words}</button>`;
  let text = opening, step = "puzzle", tried = new Set();

  // 1. what is stored answers at once
  function answer(state) {
    const { position, token, view, weighted, open, cuts, tokens } = state, now = answers[cuts.join()];
    if (!now || String(tokens) !== String(first.tokens) || position !== first.position || ![null, first.token].includes(token) || view !== "attention" || weighted) return null;
    const last = open.at(-1), was = (head) => (cuts.length ? first.curves[head] : null);
    const curves = open.map((head) => [head, { now: now.curves[head] ?? first.curves[head], was: was(head), most: 1 }]);
    const panel = last ? { ...(now.panels[last] ?? first.panels[last]) } : null;
    if (panel) panel.rows = panel.rows.map((row) => ({ ...row, before: cuts.length ? first.curves[last][position][row.at] : null }));
    return { ...now, open, curves: Object.fromEntries(curves), panel };
  }

  // 2. the guide: it speaks once something was pressed
  const of = (f, token) => f.rows.find((row) => row.token === token)?.p ?? 0;
  const GUIDE = {
    puzzle(f) {
      if (!f.cuts.length) return "";
      const rest = percent(of(f, first.token));
      if (f.cuts.includes(found))
        return `<b>Found.</b> Yet head ${found} doesn’t look at the first ${code("per")}: it looks one token back. Why does that break 1.6, which does? ${button("label", "Show me")}`;
      if (f.cuts.length > 1) return `Not these. Undo, and cut one at a time.`;
      return f.cuts[0] === "1.6" ? `1.6 looks at the first ${code("per")}, but without it ${rest} are left: it is not alone.` : `Not this one: ${rest} are left. Undo, and press another.`;
    },
    label: () => `<b>1.</b> At the first ${code("per")}, head ${found} looks one token back and writes a label there: <i>before me stood</i> ${code("e")}. ${button("match", "Next")}`,
    match: () => `<b>2.</b> At the last ${code("e")}, head 1.6 looks for a place with just this label, finds ${code("per")}, and copies it. So does 1.1. ${button("door", "Next")}`,
    door(f) {
      const three = Object.entries({ k: "keys", q: "queries", v: "values" }).map(([path, words]) => button(path, words, f.cuts.join() === doors(path)));
      const said = !f.cuts.length ? "" : f.cuts.join() === doors("k") ? "<b>The keys.</b> " : "Not this door. ";
      const end = tried.has("k") && tried.size > 1 ? `This is an <b>induction head</b>, and you have done <a href="07_induction_heads.html">lesson 07</a> in a minute. ${button("end", "Try another text")}` : "";
      return `<b>3.</b> A head reads through three doors. Through which does the label reach 1.6 and 1.1? Shut one of them for what ${found} writes, and nothing else. ${said}<br>${three.join("")}${end}`;
    },
  };

  function guide(f) {
    if (text === opening) return GUIDE[step](f);
    const [, , said] = texts.find(([, words]) => words === text) ?? [];
    return said ? `${said} ${button("home", "Back to the puzzle")}` : "";
  }

  function guided(key, live) {
    if (key === "end") return own.querySelector("textarea").focus();
    if (key === "home") return show(opening);
    if ("kqv".includes(key)) {
      tried.add(key);
      return live.go({ cuts: doors(key).split(","), open: ["1.6"] });
    }
    step = key;
    const at = key === "label" ? first.names.indexOf("per") : null;
    live.go({ cuts: [], open: [key === "label" ? found : "1.6"], position: first.position, token: null, view: "attention", weighted: false }).then(() => live.look(at));
    if (key !== "door") live.root.scrollIntoView({ block: "start" }); // the arc stands above
  }

  // 3. the address holds what is shown
  const link = (f) => {
    const words = new URLSearchParams({ text });
    if (f.cuts.length) words.set("cut", f.cuts);
    words.set("open", f.open);
    if (f.view !== "attention") words.set("view", f.view);
    if (f.position < f.names.length - 1) words.set("at", f.position);
    if (f.weighted) words.set("weighted", 1);
    return `#${words}`;
  };

  function linked() {
    // the state that the address asks for; what makes no sense in it is left out
    const words = new URLSearchParams(location.hash.slice(1)), list = (key, form) => (words.get(key) ?? "").split(",").filter((one) => form.test(one));
    if (!words.has("text")) return null;
    const change = { cuts: list("cut", /^(\d{1,2}|[01]\.[0-7]|0\.[0-7][qkv]1\.[0-7])$/), open: list("open", /^[01]\.[0-7]$/).slice(-4) };
    if (["stream", "paths", "doors"].includes(words.get("view"))) change.view = words.get("view");
    if (/^\d{1,2}$/.test(words.get("at"))) change.position = Number(words.get("at"));
    if (words.has("weighted")) change.weighted = true;
    return { text: words.get("text"), change };
  }

  let touched = false;
  const source = {
    facts: answer(stored(still)[0]), text: opening, most: MOST, waits: WAITS, later: true, guide, guided,
    tokens: async (words) => {
      const tokens = words === opening ? first.tokens : (await model()).tokens(words);
      text = words;
      return tokens;
    },
    ask: async (state, soon) => answer(state) ?? (await model()).facts(state, soon),
    changed: (f) => touched && history.replaceState(null, "", link(f)),
  };
  still.replaceWith(place);
  const live = mount(place, source), own = live.root.querySelector(".own");
  live.root.classList.add("home");
  live.root.addEventListener("click", () => (touched = true), true);
  live.root.addEventListener("input", () => (touched = true), true);

  function show(words, change) {
    own.querySelector("textarea").value = words;
    touched = true;
    return live.read(words, change);
  }

  // other texts, and the link
  own.querySelector("label").firstChild.data = "Your text: the model has read only Python";
  const chips = document.createElement("p"), copy = document.createElement("p");
  chips.className = copy.className = "chosen";
  chips.innerHTML = texts.map(([label], i) => `<button type="button" data-text="${i}">${label}</button>`).join("");
  chips.addEventListener("click", ({ target }) => {
    if (!target.dataset.text) return;
    show(texts[target.dataset.text][1], { cuts: [], view: "attention", weighted: false });
    live.root.scrollIntoView({ block: "start" });
  });
  copy.innerHTML = `<button type="button">Copy a link to what you see</button> <input readonly aria-label="the link" hidden><span role="status"></span>`;
  copy.querySelector("button").addEventListener("click", async () => {
    const box = copy.querySelector("input"), said = copy.querySelector("span");
    try {
      await navigator.clipboard.writeText(location.href);
      said.textContent = "copied";
    } catch {
      [box.value, box.hidden, said.textContent] = [location.href, false, ""];
      box.select();
    }
    setTimeout(() => (said.textContent = ""), 2000);
  });
  own.append(chips, copy);

  const asked = () => linked() && show(linked().text, linked().change);
  addEventListener("hashchange", asked);
  asked();
});
