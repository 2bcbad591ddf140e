// The explorer, live: a token or a head that is pressed, or a source that is typed, goes to the kernel, which draws.
function render({ model, el }) {
  const root = document.createElement("div"), pressed = "[data-source], [data-head]";
  root.className = "explorer-live";
  root.dataset.lmSuppressShortcuts = "true"; // in JupyterLab, a letter would be a command
  root.innerHTML = `<p><label>source <input spellcheck="false"></label> <span role="status"></span></p><div></div>`;
  const box = root.querySelector("input"), said = root.querySelector("span"), picture = root.lastElementChild;
  const ask = (change) => {
    model.set("asked", { ...model.get("asked"), ...change });
    model.save_changes();
  };
  function draw() {
    const key = (element) => JSON.stringify({ ...element.dataset }), held = picture.contains(document.activeElement) && key(document.activeElement);
    picture.innerHTML = model.get("html");
    said.textContent = model.get("said");
    picture.querySelectorAll(pressed).forEach((one) => Object.assign(one, { role: "button", tabIndex: 0 }));
    if (held) [...picture.querySelectorAll(pressed)].find((one) => key(one) === held)?.focus();
    if (box !== document.activeElement) box.value = model.get("asked").source;
  }
  function press(event) {
    const on = event.target.closest(pressed);
    if (!on || event.button > 0 || (event.key && event.key !== "Enter" && event.key !== " ")) return;
    if (event.key) event.preventDefault();
    if ("source" in on.dataset) box.value = on.dataset.source;
    ask("head" in on.dataset ? { head: Number(on.dataset.head) } : { source: box.value });
  }
  box.addEventListener("input", () => ask({ source: box.value }));
  root.addEventListener("keydown", (event) => event.stopPropagation());
  picture.addEventListener("keydown", press);
  picture.addEventListener("mousedown", press); // no click follows if an answer draws the picture anew before the button is let go
  picture.addEventListener("click", press); // for a screen reader, which presses without a mouse; asking twice changes nothing
  model.on("change:html change:said", draw);
  el.append(root);
  draw();
}

export default { render };
