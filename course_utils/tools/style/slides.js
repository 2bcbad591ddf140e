const deck = document.querySelector(".deck"), HEIGHT = 680;
function divide(block, slide, least) {  // a table or list that is too high: what is left over when this slide is full
  const rows = (list) => [...list.querySelectorAll(":scope > tbody > tr, :scope > li")];
  const all = rows(block), rest = block.cloneNode(true);
  let kept = all.length;
  while (kept > least && slide.scrollHeight > HEIGHT) all[--kept].remove();
  if (slide.scrollHeight > HEIGHT) all.slice(kept).forEach((row) => all[0].parentNode.append(row));
  if (slide.scrollHeight > HEIGHT || kept === all.length) return null;
  rows(rest).slice(0, kept).forEach((row) => row.remove());
  if (rest.tagName === "OL") rest.start = block.start + kept;
  return rest;
}
for (const topic of [...deck.children]) {
  const blocks = [...topic.children];
  let slide;
  const start = () => topic.append((slide = document.createElement("section")));
  const full = () => (fit(slide), slide.scrollHeight > HEIGHT);
  function place(block) {
    slide.append(block);
    if (!full()) return;
    let rest = slide.children.length > 1 ? divide(block, slide, 3) : null;
    if (!rest && slide.children.length > 1) { start(); slide.append(block); }
    if (full()) rest = divide(block, slide, 1);
    for (let zoom = 0.95; full() && zoom > 0.5; zoom -= 0.05) block.style.zoom = zoom;
    if (rest) { start(); place(rest); }
  }
  topic.replaceChildren();
  start();
  for (const block of blocks) {
    if (block.matches(".new") && slide.children.length) start();
    place(block);
  }
  for (const part of [...topic.children]) part.firstElementChild?.classList.remove("fragment");
}
const reveal = document.createElement("div");
reveal.className = "reveal";
document.body.append(reveal);
deck.classList.add("slides");
reveal.append(deck);
Reveal.initialize({
  width: 1280, height: 720, margin: 0.03, center: false, hash: true, slideNumber: "h.v",
  transition: "none", backgroundTransition: "none", pdfSeparateFragments: false,
});
