// The page's side of a bet: a form that one press locks. The kernel keeps the bet and words every answer.
const SENT = "Sent. If no answer follows, the kernel is busy, or gone: then run this cell again.";

function radios(name, labels) {
  const one = (label, i) =>
    `<label><input type="radio" name="${name}" value="${i}"><span>${label}</span><em></em></label>`;
  return `<div class="bet-choices">${labels.map(one).join("")}</div>`;
}

function render({ model, el }) {
  const { name, question, choices, steps, unit, about } = model.get("asked");
  const form = document.createElement("form");
  form.className = "bet-live";
  form.dataset.name = name;
  form.dataset.lmSuppressShortcuts = "true"; // else letters would be JupyterLab's commands
  const number = `<label class="bet-number"><input name="answer" inputmode="decimal" autocomplete="off"
    aria-label="your number"> <span></span></label> <small>${about}</small>`;
  form.innerHTML = `<style>.bet-still[data-bet="${CSS.escape(name)}"] { display: none }</style>
    <fieldset class="bet-answer"><legend>${question}</legend>${choices.length ? radios("answer", choices) : number}</fieldset>
    <fieldset class="bet-sure"><legend>How sure are you?</legend>${radios("confidence", steps)}</fieldset>
    <button type="submit"></button><div class="bet-said" tabindex="-1" aria-live="polite"></div>`;
  const find = (selector) => form.querySelector(selector);
  const button = find("button");
  if (!choices.length) find(".bet-number span").textContent = unit;

  function draw() {
    const state = model.get("state");
    const had = form.contains(document.activeElement);
    for (const name of ["answer", "confidence"]) {
      if (state[name] !== null) form.elements[name].value = state[name];
    }
    form.querySelectorAll("input").forEach((input) => (input.disabled = !state.open));
    form.querySelectorAll(".bet-answer em").forEach((mark, i) => (mark.textContent = state.marks[i] ?? ""));
    form.classList.toggle("bet-locked", !state.open);
    button.textContent = state.open ? "Lock my bet" : state.again ? "Bet again" : "Locked";
    button.hidden = !state.open && !state.again;
    find(".bet-said").innerHTML = state.said;
    if (had && !state.open) find(".bet-said").focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { open, again } = model.get("state");
    if (!open && !again) return;
    const { answer, confidence } = form.elements;
    find(".bet-said").textContent = SENT;
    model.send(open ? { answer: answer.value, confidence: confidence.value } : { again: true });
  });
  form.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !(event.shiftKey && event.key === "Enter")) event.stopPropagation();
  }); // JupyterLab would take the arrows and Enter
  model.on("change:state", draw);
  draw();
  el.append(form);
  return () => model.off("change:state", draw);
}

export default { render };
