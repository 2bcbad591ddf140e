// The site: stored microscopes come alive, and a search from disk quotes what it found.
addEventListener("DOMContentLoaded", () => {
  microscope.bringAlive("_static/models/");
  const found = document.getElementById("search-results");
  if (!found) return;
  const script = Object.assign(document.createElement("script"), { src: "_static/texts.js", onload: quote });
  function quote() {
    const words = new URLSearchParams(location.search).get("q").toLowerCase().split(/\s+/).filter(Boolean);
    const seen = new MutationObserver(() => found.querySelectorAll("li:not([data-quoted])").forEach((item) => {
      item.dataset.quoted = "";
      const text = TEXTS[item.querySelector("a")?.getAttribute("href").split(/[?#]/)[0]] ?? "", low = text.toLowerCase();
      const at = words.map((word) => low.indexOf(word)).find((place) => place >= 0);
      if (at === undefined || item.querySelector("p.context")) return;
      const line = document.createElement("p");
      line.className = "context";
      line.textContent = `… ${text.slice(Math.max(0, at - 80), at + 140)} …`;
      item.append(line);
    }));
    seen.observe(found, { childList: true, subtree: true });
    found.append("");
  }
  document.head.append(script);
});
