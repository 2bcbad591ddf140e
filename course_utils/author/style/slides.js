const HEIGHT = 690;
function fitted(slide) {  // pictures give way first, then all but the heading, down to what the last row can still read
  fit(slide);
  const pictures = slide.querySelectorAll("img"), rest = slide.querySelectorAll(":scope > :not(h2, .notes)");
  for (let share = 0.85; slide.scrollHeight > HEIGHT && share > 0.45; share -= 0.05)
    pictures.forEach((picture) => (picture.style.maxHeight = `${share * HEIGHT}px`));
  for (let zoom = 0.95; slide.scrollHeight > HEIGHT && zoom > 0.45; zoom -= 0.05)
    rest.forEach((block) => (block.style.zoom = zoom));
}
addEventListener("load", async () => {  // once every picture has its size
  microscope.bringAlive(null); // with what was stored
  await Promise.all([...document.images].map((image) => image.decode().catch(() => null)));
  document.body.classList.add("measured"); // all slides are laid out, and no fragment hides
  document.querySelectorAll(".slides > section").forEach(fitted);
  document.body.classList.remove("measured");
  Reveal.initialize({
    width: 1280, height: 720, margin: 0.03, center: false, hash: true, slideNumber: "c/t",
    transition: "none", backgroundTransition: "none", pdfSeparateFragments: false, plugins: [RevealNotes],
  });
});
