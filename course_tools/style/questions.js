// Lesson 12 on the site: cards that keep their answers in this browser, in the form of my_predictions.json.
const ASKED = JSON.parse(document.getElementById("questions").textContent);
const STEPS = ["a guess", "likely", "sure"];
const BEGINS = { before: "12_before_", after: "12_", later: "12_later_" }; // how the names of a sitting's bets begin
const CALLED = { before: "before", after: "after", later: "30 days later" };
const KEPT = "transformer-circuits-12", WHICH = "transformer-circuits-12-sitting", FILE = "my_questions.json";
const panel = document.querySelector("form.sitting"), score = document.querySelector(".score");
let sitting = "before", changing = "", unkept = {}; // what this browser would not keep

// What is kept. Of other lessons' bets, which a file from JupyterLab has too, nothing is taken.
const answerOf = (bet, { options }) => {
  const first = bet?.first ?? bet; // the bet that was made before the key was known
  const at = options.indexOf(first?.guess);
  return at < 0 ? null : { at, sure: STEPS[first.confidence - 1] ?? "" };
};
function fitting(found) {
  const known = {};
  for (const begins of Object.values(BEGINS)) {
    for (const asked of ASKED) {
      const name = begins + asked.name;
      if (answerOf(found?.[name], asked)) known[name] = found[name];
    }
  }
  return known;
}
function stored() {
  let found = {};
  try { found = JSON.parse(localStorage.getItem(KEPT) ?? "{}"); } catch { /* no storage, or not ours: none is kept */ }
  return { ...fitting(found), ...unkept };
}
function keep(bets) { // another tab may have kept others meanwhile
  const all = { ...stored(), ...bets };
  try {
    localStorage.setItem(KEPT, JSON.stringify(all));
    unkept = {};
    return "";
  } catch {
    unkept = all;
    return " This browser keeps nothing for this page: save the file before you leave it.";
  }
}
const given = (which, kept = stored()) => ASKED.map((asked) => answerOf(kept[BEGINS[which] + asked.name], asked));
const made = (which, kept) => given(which, kept).filter(Boolean).length;

// One card, as it stands in this sitting.
function draw(form, asked, kept, fresh) {
  const find = (part) => form.querySelector(part), name = BEGINS[sitting] + asked.name;
  const answer = answerOf(kept[name], asked), locked = answer !== null && changing !== name;
  const told = locked && sitting !== "before", right = answer?.at === asked.key;
  form.classList.toggle("bet-locked", locked);
  form.querySelectorAll("label").forEach((label, i) => {
    const input = label.querySelector("input"), mine = answer?.at === i, isKey = i === asked.key;
    if (locked || fresh) input.checked = mine;
    input.disabled = locked;
    label.classList.toggle("right", told && isKey);
    label.classList.toggle("wrong", told && mine && !isKey);
    let words = mine ? "your answer" : "";
    if (told && isKey) words = mine ? "✓ your answer, and the key" : "✓ the key";
    else if (told && mine) words = "✗ your answer";
    label.querySelector("em").textContent = locked ? words : "";
  });
  find(".sure").hidden = locked;
  find(".change").hidden = !locked || told || made("before", kept) === ASKED.length;
  const how = answer?.sure ? ` You said: ${answer.sure}.` : "", count = `${made(sitting, kept)} of ${ASKED.length}`;
  let said = locked ? `Kept.${how} ${count} are answered.` : "";
  if (told) said = `${right ? "✓ Right." : "✗ Not this time."}${how} Why stands below.`;
  find(".bet-said").textContent = said;
  const key = form.parentNode.querySelector(`details.key[data-name="${asked.name}"]`);
  key.hidden = !told;
  if (!told) key.open = false;
}

function redraw(fresh) {
  const kept = stored();
  for (const form of document.querySelectorAll("form.question")) {
    draw(form, ASKED.find(({ name }) => name === form.dataset.name), kept, fresh);
  }
  const keys = sitting === "before" ? "No key is told." : "A key follows each answer.";
  const early = sitting !== "before" && made("before", kept) < ASKED.length;
  const first = early ? " If you mean to take the course, answer “before the course” first." : "";
  const count = `${made(sitting, kept)} of ${ASKED.length} are answered in this sitting.`;
  panel.querySelector(".told").textContent = `${count} ${keys}${first}`;
  panel.elements.sitting.value = sitting;
  drawScore(kept);
}

// The score: of the first sitting once it is whole, or else one could try an answer and look.
function drawScore(kept) {
  const link = ({ name, number }) => `<a href="#question-${name}">${number}</a>`;
  const parts = (which) => {
    const marks = given(which, kept).map((answer, i) => answer && { ...answer, right: answer.at === ASKED[i].key });
    const cell = (some) => (some.length ? `${some.filter(({ right }) => right).length} of ${some.length}` : "");
    const all = marks.filter(Boolean);
    return [cell(all), ...[...STEPS].reverse().map((step) => cell(all.filter(({ sure }) => sure === step)))];
  };
  const counts = (which) => made(which, kept) >= (which === "before" ? ASKED.length : 1);
  const rows = Object.keys(BEGINS).filter(counts);
  const heads = ["", "right", ...[...STEPS].reverse().map((step) => `“${step}”`)];
  const row = (tag, cells) => `<tr>${cells.map((cell) => `<${tag}>${cell}</${tag}>`).join("")}</tr>`;
  const body = rows.map((which) => row("td", [CALLED[which], ...parts(which)])).join("");
  let html = rows.length ? `<table><thead>${row("th", heads)}</thead><tbody>${body}</tbody></table>` : "";
  const answers = given(sitting, kept), open = ASKED.filter((_, i) => !answers[i]);
  if (open.length) {
    html += `<p>Open in this sitting: ${open.map(link).join(", ")}.</p>`;
    if (sitting === "before") html += "<p>The score comes with the last answer.</p>";
  }
  const chance = Math.round(ASKED.reduce((sum, { options }) => sum + 1 / options.length, 0));
  if (rows.length) html += `<p>Whoever only guesses gets about ${chance} of ${ASKED.length}.</p>`;
  if (sitting !== "before") {
    const wrong = ASKED.filter(({ key }, i) => answers[i] && answers[i].at !== key);
    if (wrong.length) html += `<p>Wrong in this sitting: ${wrong.map(link).join(", ")}.</p>`;
  } else if (!open.length) html += "<p>Which answers are right, you learn in the course, and here after it.</p>";
  const days = ASKED.map(({ name }) => Date.parse(kept[BEGINS.after + name]?.day)).filter(Number.isFinite);
  if (days.length && made("after", kept) === ASKED.length && made("later", kept) < ASKED.length) {
    const then = new Date(Math.max(...days) + 30 * 864e5);
    const back = then.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });
    html += `<p>Come back on ${back} for the third sitting, and save the file until then: browsers forget.</p>`;
  }
  score.innerHTML = html;
}

// What a reader does.
function lock(form, step) {
  const asked = ASKED.find(({ name }) => name === form.dataset.name), name = BEGINS[sitting] + asked.name;
  const chosen = form.querySelector("input:checked"), said = form.querySelector(".bet-said");
  if (!chosen) {
    said.textContent = "Choose an answer, and then say how sure you are.";
    return;
  }
  const guess = asked.options[chosen.value], truth = asked.options[asked.key];
  const bet = { question: asked.question, confidence: step + 1, guess, day: new Date().toISOString().slice(0, 10) };
  if (sitting !== "before") Object.assign(bet, { truth, right: guess === truth });
  changing = "";
  const fault = keep({ [name]: bet });
  redraw(false);
  said.textContent += fault;
  said.focus();
  if (sitting !== "before") form.parentNode.querySelector(`details.key[data-name="${asked.name}"]`).open = true;
}
function save() {
  if (!Object.keys(stored()).length) return "There is no answer to save yet.";
  const text = `${JSON.stringify(stored(), null, 1)}\n`, link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = FILE;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  return `Your answers are in ${FILE}, where your browser puts downloads.`;
}
async function load(file) {
  let found = null;
  try { found = JSON.parse(await file.text()); } catch { /* said below */ }
  const here = stored(), new_ = fitting(found), names = Object.keys(new_).filter((name) => !(name in here));
  if (!Object.keys(new_).length) return `${file.name} has no answers to these questions.`;
  const fault = keep(Object.fromEntries(names.map((name) => [name, new_[name]])));
  return `New from ${file.name}: ${names.length}. What you answered here stays as it is.${fault}`;
}
function forget() {
  if (!confirm("Delete all your answers in this browser? A file that you saved stays.")) return "";
  unkept = {};
  try { localStorage.removeItem(KEPT); } catch { /* then there is none */ }
  return "Your answers are deleted.";
}

panel.hidden = false;
panel.addEventListener("submit", (event) => event.preventDefault());
panel.addEventListener("change", async ({ target }) => {
  const said = panel.querySelector(".bet-said");
  if (target.type === "file") {
    if (target.files.length) said.textContent = await load(target.files[0]);
    target.value = "";
  } else {
    sitting = target.value;
    said.textContent = "";
    try { localStorage.setItem(WHICH, sitting); } catch { /* asked again next time */ }
  }
  changing = "";
  redraw(true);
});
panel.addEventListener("click", ({ target }) => {
  const said = panel.querySelector(".bet-said"), what = target.dataset.do;
  if (what === "load") panel.querySelector("[type=file]").click();
  if (what === "save") said.textContent = save();
  if (what === "forget") {
    said.textContent = forget();
    redraw(true);
  }
});
for (const form of document.querySelectorAll("form.question")) {
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelectorAll(".sure button").forEach((button, step) => button.addEventListener("click", () => lock(form, step)));
  form.querySelector(".change").addEventListener("click", () => {
    changing = BEGINS[sitting] + form.dataset.name;
    redraw(false);
    form.querySelector("input:checked").focus();
  });
}
addEventListener("storage", () => redraw(false)); // another tab
try { sitting = localStorage.getItem(WHICH) ?? sitting; } catch { /* the first, then */ }
if (!(sitting in BEGINS)) sitting = "before";
redraw(true);
