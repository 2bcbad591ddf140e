// The page's side of the microscope: it shows the drawing, and reports what is pressed. The kernel draws.
const VIEWS = ["attention", "stream", "paths", "doors"];
const GROUPS = [".col", ".lane", "[data-do=ask], [data-do=step], [data-do=doors], .door"];
const KEYS = "Arrows move, Enter asks or opens, x cuts, Esc undoes all cuts; 1–4 view, v values, s step";

function button(label, title, press) {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = label;
  element.title = title;
  element.addEventListener("click", press);
  return element;
}

function hideStill(el) {
  // the still drawing of the same cell stands just before the live one; nothing stands anywhere before it is laid out
  const laidOut = new ResizeObserver(() => {
    const before = [...document.querySelectorAll(".microscope-still")].filter(
      (still) => still.compareDocumentPosition(el) & Node.DOCUMENT_POSITION_FOLLOWING,
    );
    before.at(-1)?.classList.add("microscope-hidden");
    laidOut.disconnect();
  });
  laidOut.observe(el);
}

function render({ model, el }) {
  const send = (what, key = "") => {
    drawing.setAttribute("aria-busy", "true");
    model.send({ do: what, key: String(key) });
  };
  const root = document.createElement("div");
  root.className = "micro micro-live";
  root.dataset.lmSuppressShortcuts = "true"; // else x would cut the notebook's cell
  const bar = document.createElement("div");
  bar.className = "micro-bar";
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "microscope");
  const views = VIEWS.map((view, i) =>
    button(view, `${view} (key ${i + 1})`, () => send("view", view)),
  );
  const weighted = button("× values", "weight attention by what is given (key v)", () => send("weighted"));
  const reset = button("undo cuts", "as it was (Esc)", () => send("reset"));
  const gap = document.createElement("span");
  gap.className = "micro-gap";
  bar.append(...views, gap, weighted, reset);
  const drawing = document.createElement("div");
  const keys = document.createElement("div");
  keys.className = "micro-keys";
  keys.textContent = KEYS;
  const said = document.createElement("div");
  said.className = "micro-said";
  said.setAttribute("aria-live", "polite");
  root.append(bar, drawing, keys, said);
  el.append(root);

  const all = (selector) => [...drawing.querySelectorAll(selector)];
  const groupOf = (element) => GROUPS.find((group) => element.matches(group));
  const current = Object.fromEntries(GROUPS.map((group) => [group, null])); // the key of each group's tab stop

  function name(element) {
    return `${element.dataset.do} ${element.dataset.key}`;
  }

  function stops() {
    // one element of each group takes the Tab key, the arrows move on from there
    for (const group of GROUPS) {
      const members = all(group);
      const chosen = group === ".col" ? (m) => m.matches(".sel") : () => false;
      const stop = members.find((m) => name(m) === current[group]) ?? members.find(chosen) ?? members[0];
      members.forEach((m) => m.setAttribute("tabindex", m === stop ? "0" : "-1"));
    }
  }

  function draw() {
    const active = drawing.contains(document.activeElement) ? name(document.activeElement) : null;
    drawing.innerHTML = model.get("svg");
    drawing.removeAttribute("aria-busy");
    stops();
    if (active) all("[data-do]").find((m) => name(m) === active)?.focus({ preventScroll: true });
    said.textContent = drawing.firstElementChild.getAttribute("aria-label");
    const state = model.get("state");
    views.forEach((v) => v.setAttribute("aria-pressed", String(v.textContent === state.view)));
    weighted.setAttribute("aria-pressed", String(state.weighted));
    reset.disabled = !state.cuts.length;
  }

  function focus(element) {
    if (!element) return;
    current[groupOf(element)] = name(element);
    stops();
    element.focus({ preventScroll: true });
  }

  function move(from, key) {
    const group = groupOf(from);
    const members = all(group);
    const at = members.indexOf(from);
    const forward = key === "ArrowRight" || key === "ArrowDown";
    const along = group === ".lane" ? ["ArrowUp", "ArrowDown"] : ["ArrowLeft", "ArrowRight"];
    if (along.includes(key)) return focus(members[at + (forward ? 1 : -1)]);
    const next = group === ".lane" ? GROUPS[0] : group === GROUPS[0] && key === "ArrowUp" ? ".lane" : null;
    if (next) return focus(all(next).find((m) => m.getAttribute("tabindex") === "0"));
    if (group === GROUPS[0]) return focus(all(GROUPS[2])[0]);
    return focus(members[at + (forward ? 1 : -1)] ?? (forward ? null : all(".col.sel")[0]));
  }

  drawing.addEventListener("click", (event) => {
    const pressed = event.target.closest("[data-do]");
    if (!pressed) return;
    if (groupOf(pressed)) focus(pressed);
    send(pressed.dataset.do, pressed.dataset.key);
  });

  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const on = event.target.closest("[data-do]");
    const key = event.key;
    if (on && key.startsWith("Arrow") && groupOf(on)) move(on, key);
    else if (on && (key === "Enter" || key === " ")) send(on.dataset.do, on.dataset.key);
    else if (on && key === "x" && on.matches(".col, .lane, .door")) send("cut", on.dataset.key);
    else if (key === "Escape") send("reset");
    else if (VIEWS[key - 1]) send("view", VIEWS[key - 1]);
    else if (key === "v") send("weighted");
    else if (key === "s") send("step", (model.get("state").step % 4) + 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  model.on("change:svg", draw);
  draw();
  hideStill(el);
  return () => model.off("change:svg", draw);
}

export default { render };
