const HEIGHT = 690, LEAST = 500; // of a slide, and of a picture that gives way to what stands above and below it
const tooHigh = (slide) => slide.scrollHeight > HEIGHT;

function fitted(slide) {  // what doesn't fit goes on, on a slide of its own: what is to be seen after what is asked
  fit(slide);
  const pictures = [...slide.querySelectorAll("img")], blocks = [...slide.querySelectorAll(":scope > :not(h2, .notes)")];
  for (let height = 575; tooHigh(slide) && height >= LEAST; height -= 15)
    pictures.forEach((picture) => (picture.style.maxHeight = `${height}px`));
  if (!tooHigh(slide)) return;
  pictures.forEach((picture) => (picture.style.maxHeight = ""));
  const shown = blocks.findIndex((block) => block.matches(".fragment, .picture, .code, .beside"));
  let first = shown > 0 ? shown : blocks.length - 1;
  if (first < 1) return shrunk(slide, blocks);
  const next = slide.cloneNode(false), notes = slide.querySelector(".notes");
  next.append(slide.querySelector("h2").cloneNode(true), ...blocks.slice(first), ...(notes ? [notes.cloneNode(true)] : []));
  blocks[first].classList.remove("fragment");
  slide.after(next);
  [slide, next].forEach(fitted);
}

function shrunk(slide, blocks) {  // a block that can't be split: as large as there is room
  const above = blocks[0]?.offsetTop ?? 0;
  for (let turn = 0; tooHigh(slide) && turn < 4; turn++)
    blocks.forEach((block) => (block.style.zoom = (block.style.zoom || 1) * 0.99 * (HEIGHT - above) / (slide.scrollHeight - above)));
}

function enlarged(micro) {  // the microscope has its slide for itself
  const slide = micro.closest("section"), room = HEIGHT - slide.scrollHeight + micro.offsetHeight;
  let zoom = Math.min(1.5, (0.98 * room) / micro.offsetHeight);
  do micro.style.zoom = zoom;
  while (tooHigh(slide) && (zoom -= 0.03) > 0.85); // larger letters take more lines
  micro.querySelector(".inside").dispatchEvent(new Event("pointerleave")); // the arcs, anew
}

addEventListener("load", () => {  // once every picture has its size
  document.body.classList.add("measured"); // all slides are laid out, and no fragment hides
  microscope.bringAlive(null); // with what was stored
  document.querySelectorAll(".slides > section").forEach(fitted);
  document.querySelectorAll(".micro").forEach(enlarged);
  document.body.classList.remove("measured");
  Reveal.initialize({
    width: 1280, height: 720, margin: 0.03, center: false, hash: true, slideNumber: "c/t",
    transition: "none", backgroundTransition: "none", pdfSeparateFragments: false, plugins: [RevealNotes],
  });
});
