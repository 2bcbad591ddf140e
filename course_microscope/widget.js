// In a notebook: a Python kernel computes, or, of a bundled model, the page itself.
function hideStill(el) {
  // the still picture of the same cell stands just before the live one; nothing stands anywhere before it is laid out
  const laidOut = new ResizeObserver(() => {
    const before = [...document.querySelectorAll(".microscope-still")].filter((still) => still.compareDocumentPosition(el) & Node.DOCUMENT_POSITION_FOLLOWING);
    const still = before.at(-1);
    if (still) (still.closest(".jp-OutputArea-child, .output_area") ?? still).classList.add("microscope-hidden");
    laidOut.disconnect();
  });
  laidOut.observe(el);
}

function fromKernel(model) {
  let turn = 0;
  return { facts: model.get("facts"), ask(state) {
    const { tokens, view, open, weighted, position, token, cuts, press, model: name } = state;
    return new Promise((done) => {
      const mine = ++turn, answered = (message) => message.turn === mine && (model.off("msg:custom", answered), done(message.facts));
      model.on("msg:custom", answered);
      model.send({ turn: mine, state: { tokens, view, open, weighted, position, token, cuts, press, model: name } });
    });
  } };
}

function render({ model, el }) {
  const described = model.get("described");
  let source;
  if (described) {
    const view = model.get("weights"), bytes = new Uint8Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
    source = alive(new Engine(described.config, described.tokenizer, bytes), model.get("text"), model.get("state"));
  } else source = fromKernel(model);
  const live = mount(el, source);
  live.root.classList.add("micro-live");
  if (!described) hideStill(el); // else it comes after the live one, which needs no Python to stand
  return live.close;
}

export default { render };
