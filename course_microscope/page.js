// On a page without a kernel: stored pictures come alive, and what was not stored is computed here, once the model is loaded.
const engines = new Map();

function loaded(name, folder) {
  // a script beside the page, since a page on disk may not fetch
  if (!window.microscopeModels?.[name] && !engines.has(name))
    return new Promise((done, failed) => {
      const script = Object.assign(document.createElement("script"), { src: `${folder}${name}.js`, onload: () => done(loaded(name, folder)),
        onerror: () => failed(Error("The model could not be loaded: look for it again when you are online.")) });
      document.head.append(script);
    });
  if (!engines.has(name)) {
    const { config, tokenizer, weights } = window.microscopeModels[name], letters = atob(weights), bytes = new Uint8Array(letters.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
    delete window.microscopeModels[name].weights;
    engines.set(name, new Engine(config, tokenizer, bytes));
  }
  return engines.get(name);
}

const same = (one, other) => ["view", "open", "weighted", "position", "cuts"].every((key) => String(one[key]) === String(other[key])) && [null, one.token].includes(other.token);

const WAITS = "loading the model, once: 5 MB …";

function fromStored(facts, folder) {
  // what was stored answers at once, the rest the model if this page has it
  return { facts: facts[0], waits: WAITS, async ask(state) {
    const found = facts.find((one) => same(one, state));
    if (found) return found;
    return state.model && folder !== null ? (await loaded(state.model, folder)).facts(state) : null;
  } };
}

function alive(engine, text, state) {
  const tokens = (own) => engine.tokens(own), first = { weighted: false, position: null, token: null, cuts: [], press: null, view: "attention", open: [], ...state };
  const all = { ...first, tokens: engine.tokens(text) };
  return { facts: engine.facts(all), ask: (asked, soon) => engine.facts(asked, soon), later: true, tokens, text, most: MOST };
}

function bringAlive(folder) {
  // the first page's has its own script
  for (const still of document.querySelectorAll(".microscope-still[data-facts]:not([data-text])")) {
    const place = document.createElement("div"), facts = stored(still);
    still.replaceWith(place);
    mount(place, fromStored(facts, folder));
  }
}

function stored(still) {
  const bytes = Uint8Array.from(atob(still.dataset.facts), (letter) => letter.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}
