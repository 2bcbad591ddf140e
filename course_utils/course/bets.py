"""Bets: `predict` asks for a guess before the number comes; a claim's `predicted=` answers it.

`my_predictions.json` beside the notebook keeps for each name "question", "guess", "confidence" (1
to 3), how the guess is judged ("between" or "within"), and, once the claim came, "truth", "right"
and "because". Somebody who bets again when the truth is known keeps the bet made before it under
"first"; what is counted is that one.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from course_utils._arguments import validated
from course_utils._words import true_minus
from course_utils.course import keeping, widgets
from course_utils.course.values import is_recorded, shown

HERE = Path(__file__).resolve().parent
PREDICTIONS = "my_predictions.json"  # beside the notebook that asks
NONE = "No predictions yet."
STEPS = ("a guess", "likely", "sure")  # of confidence, 1 to 3
STILL = (HERE / "bet_still.css").read_text(encoding="utf-8").replace("\n", "")  # for drawn cards
# What becomes a tag, in text and in formulas.
EMPHASIS = {r"\*\*(.+?)\*\*": "b", r"\*(.+?)\*": "i"}
SCRIPTS = {r"_\{(.+?)\}": "sub", r"_(\w)": "sub", r"\^\{(.+?)\}": "sup", r"\^(\w)": "sup"}
# What a scale is drawn of.
LINE = '<line x1="{}%" x2="{}%" y1="{}" y2="{}" stroke="currentColor" stroke-width="{}"/>'
BAND = '<rect x="{}%" width="{:.1f}%" y="26" height="16" rx="3" fill-opacity=".16"/>'
RING = '<circle cx="{}%" cy="34" r="6" fill="none" stroke="currentColor" stroke-width="2"/>'
LABEL = '<text x="{}%" y="{}" text-anchor="{}"{}>{}</text>'
SCALE = (
    '<svg width="100%" height="84" font-size="13" fill="currentColor" aria-hidden="true">{}</svg>'
)
_cards: dict[str, "Card"] = {}  # of this kernel, by name


@validated
def predict(
    name: str,
    question: str,
    options: Sequence[str] = (),
    *,
    unit: str = "",
    bands: Sequence[float] = (),
    within: float | None = None,
) -> None:
    """Ask for a guess before the number comes: an option, a band, or a number in the `unit`.

    `bands` are the edges between choices: (0.2, 0.5) and "%" ask for "under 20 %", "20 to 50 %" or
    "over 50 %". `within` is how far a number may be off, in the claim's own units (0.1 for ten
    percentage points); without it, a quarter of the truth. Leaving the card blank stops nothing.
    Raises ValueError for what can't be bet on.
    """
    if (options or bands) and within is not None:
        raise ValueError(
            "within is for a number that is typed: an option or a band is right or wrong."
        )
    if within is not None and not 0 < within < math.inf:
        raise ValueError(f"within must be above 0, not {within!r}.")
    choices = _choices(options, bands, unit)
    card = Card(name, question, choices, unit, bands, within)
    _cards[name] = card
    card.still = display(card.drawn(), raw=True, display_id=True)
    display(widgets.view(card), raw=True)


def answered(name: str, truth: Any, unit: str = "", because: str = "") -> str:
    """What a claim's row says of a bet, as "your bet 30 % ✗"; nothing where none was made.

    Keeps the truth and whether the bet was right, and shows both on the card. `because` is
    Markdown: why it is so.
    """
    if is_recorded():
        return ""
    card = _cards.get(name)
    made = card.bet if card else guesses().get(name, {})
    bet = {**made, "truth": truth, "because": because}
    if "guess" in bet:
        bet["right"] = _is_right(bet, truth)
        unkept = keeping.enter(PREDICTIONS, name, bet)
        if card:
            card.unkept = unkept
    if card:
        card.tell(bet)
    if "guess" not in bet:
        return ""
    guess = shown(bet["guess"], unit).replace("`", "")
    colon = ":" if isinstance(bet["guess"], str) else ""
    return f"your bet{colon} {guess} {'✓' if bet['right'] else '✗'}"


def _choices(options: Sequence[str], bands: Sequence[float], unit: str) -> list[dict]:
    """What one can choose: a "guess", and the ends of a band, "between", None for no end."""
    if options and bands:
        raise ValueError("Give options or bands, not both.")
    if len(options) == 1 or len({*options}) < len(options):
        raise ValueError("A choice needs two options or more, each of them once.")
    if any(low >= high for low, high in itertools.pairwise(bands)):
        raise ValueError(f"bands must rise, as (0.2, 0.5, 0.8), and {tuple(bands)} do not.")
    if not bands:
        return [{"guess": option} for option in options]
    edges = [_plain_number(edge, unit) for edge in bands]
    in_unit = f" {unit}".rstrip()
    names = [f"{low} to {high}{in_unit}" for low, high in itertools.pairwise(edges)]
    names = [f"under {edges[0]}{in_unit}", *names, f"over {edges[-1]}{in_unit}"]
    ends = itertools.pairwise([None, *bands, None])
    return [{"guess": name, "between": both} for name, both in zip(names, ends, strict=True)]


class Card(anywidget.AnyWidget):
    """A question on the page. `lock` does what the button does."""

    # as text: of a path, anywidget watches the file, and so keeps every card
    _esm = (HERE / "bet.js").read_text(encoding="utf-8")
    _css = (HERE / "bet.css").read_text(encoding="utf-8")
    asked = traitlets.Dict().tag(sync=True)  # what the form is made of
    state = traitlets.Dict().tag(sync=True)  # what has become of it

    def __init__(
        self, name: str, text: str, choices: list, unit: str, edges: Sequence, within: float | None
    ):
        super().__init__()
        self.name, self.text = name, text
        self.choices, self.edges = choices, edges
        self.unit, self.within = unit, within
        self.guesses = [choice["guess"] for choice in choices]
        self.unkept = ""  # why the bet could not be written, as a sentence
        self.still: Any = None  # the handle of the output that is stored

        # What was kept under this name may be the bet of another question.
        kept = {} if is_recorded() else guesses().get(name, {})
        guess = kept.get("guess")
        fits = guess in self.guesses if choices else isinstance(guess, int | float)
        self.bet: dict = kept if fits else {}
        self.may_again = "truth" in self.bet  # whether one may bet on what is known
        self.again = False  # and does

        about = "right within a quarter of the answer"
        if within:
            points = " percentage points" if unit == "%" else ""
            about = f"right within ±\N{NO-BREAK SPACE}{_plain_number(within, unit)}{points}"
        labels = [markup(guess) for guess in self.guesses]
        form = {"question": markup(text), "choices": labels, "about": about}
        self.asked = form | {"name": name, "unit": unit, "steps": STEPS}
        self._draw()
        self.on_msg(lambda _, content, __: self.lock(**content))

    def lock(self, answer: str = "", confidence: str = "", again: bool = False) -> None:
        """Keep a bet, or open the form for a new one, and say so."""
        if again:
            self.again = self.may_again
        elif self.again or "guess" not in self.bet:
            try:
                new = self._read(answer, confidence)
            except ValueError as error:
                return self._draw(f"<p>{error}</p>")
            if self.again:
                new["first"] = self.bet.get("first", self.bet)
            elif "truth" in self.bet:  # pressed before it came, and heard after
                new |= self.bet | {"right": _is_right(new, self.bet["truth"])}
            self.bet = new
            self.again = self.may_again = False
            self.unkept = keeping.enter(PREDICTIONS, self.name, new)
        self._draw()

    def _read(self, answer: str, confidence: str) -> dict:
        """The bet that the form says; ValueError with a sentence for the reader if it says none."""
        if not answer.strip() or not confidence:
            ask = "Choose an answer" if self.choices else "Type a number"
            raise ValueError(f"{ask}, and say how sure you are.")
        bet = {"question": self.text, "confidence": int(confidence) + 1}
        if self.choices:
            return bet | self.choices[int(answer)]
        try:
            guess = _number(answer)
        except ValueError:
            example = 50 if self.unit == "%" else 0.5
            raise ValueError(f"Type a number, such as {example}.") from None
        if self.unit == "%":
            guess /= 100
        return bet | {"guess": guess, "within": self.within}

    def tell(self, bet: dict) -> None:
        """Show what came out."""
        self.bet = bet
        self.again = False
        self._draw()

    def _draw(self, complaint: str = "") -> None:
        """Tell the page what has become of the card, and store the new still."""
        answer = self.bet.get("guess")
        if answer is not None and self.choices:
            answer = str(self.guesses.index(answer))
        elif answer is not None:
            answer = _plain_number(answer, self.unit)
        confidence = self.bet.get("confidence")
        self.state = {
            "open": self.again or not self.bet,
            "again": self.may_again and not self.again,
            "answer": answer,
            "confidence": str(confidence - 1) if confidence else None,
            "marks": [] if self.again else [self._mark(choice) for choice in self.choices],
            "said": complaint if complaint or self.again else self._said(),
            "turn": self.state.get("turn", 0) + 1,  # an answer comes even if it is the same again
        }
        if self.still and not self.again and not complaint:
            self.still.update(self.drawn(), raw=True)

    def _mark(self, choice: dict) -> str:
        """What stands beside a choice: a sign and words."""
        is_mine = choice["guess"] == self.bet.get("guess")
        if "truth" in self.bet and _is_right(choice, self.bet["truth"]):
            return "✓ your bet came true" if is_mine else "✓ the answer"
        return "your bet" if is_mine else ""

    def _said(self) -> str:
        """What has become of the bet, as HTML."""
        bet = self.bet
        mine = ""
        if "guess" in bet:
            mine = markup(shown(bet["guess"], self.unit))
            if "confidence" in bet:
                mine += f", {STEPS[bet['confidence'] - 1]}"
        if "truth" not in bet:
            said = f"<p>Locked: {mine}. Now run the next cells.</p>" if mine else ""
            return said + self._unkept()

        verdict = "You made no bet."
        if mine:
            sign = "✓ Right." if bet.get("right") else "✗ Not this time."
            verdict = f"<b>{sign}</b> You bet {mine}."
        answer = markup(shown(bet["truth"], self.unit))
        said = f"<p>{verdict} The answer: {answer}.</p>"
        if isinstance(bet["truth"], int | float) and (self.edges or not self.choices):
            said += scale(bet, self.unit, self.edges)
        if bet.get("because"):
            said += f"<p>{markup(bet['because'])}</p>"
        return said + self._unkept()

    def _unkept(self) -> str:
        return f"<p>{escape(self.unkept, quote=False)}</p>" if self.unkept else ""

    def drawn(self) -> dict[str, str]:
        """The card where no kernel runs: what a stored notebook, GitHub and a printer show."""
        number = f"a number in {self.unit}" if self.unit else "a number"
        form = f"<p>{escape(number)}, {self.asked['about']}</p>"
        if self.choices:
            items = ""
            for choice in self.choices:
                mark = self._mark(choice)
                beside = f" – <b>{mark}</b>" if mark else ""
                items += f"<li>{markup(choice['guess'])}{beside}</li>"
            form = f"<ul>{items}</ul>"
        html = f"<p><b>Predict:</b> {self.asked['question']}</p>{form}{self._said()}"
        card = f'<div class="bet-still" data-bet="{escape(self.name)}">{html}</div>'
        text = f"Predict: {self.text}\n" + (" · ".join(self.guesses) or number)
        return {"text/html": f"{card}<style>{STILL}</style>", "text/plain": text}


def scale(bet: Mapping, unit: str, edges: Sequence[float] = ()) -> str:
    """A bet and the truth on a line, as SVG of any width; shaded is what counts as right."""
    truth = bet["truth"]
    guess: Any = bet.get("guess")
    is_typed = isinstance(guess, int | float)
    shaded = bet.get("between", [])
    if is_typed:
        off = _margin(bet, truth)
        shaded = [truth - off, truth + off]

    # The line holds all that is drawn on it, with some room; for a share, all that there is.
    points = [truth, *edges, *(end for end in shaded if end is not None)]
    if is_typed:
        points.append(guess)
    if not all(map(math.isfinite, points)):
        return ""
    start, end = min(points), max(points)
    ticks = {*edges}
    if unit == "%" and start >= 0 and 0.2 < end <= 1:
        start, end = 0, 1
        ticks |= {0, 1}
    else:
        room = (end - start or 1) / 10
        start, end = start - room, end + room

    def at(x: float) -> float:
        return round(2 + 96 * (x - start) / (end - start), 1)

    # From left to right: the ticks, with a number where there is room for it.
    parts = [LINE.format(2, 98, 34, 34, 1)]
    last = -math.inf
    for tick in sorted(ticks):
        x = at(tick)
        parts.append(LINE.format(x, x, 30, 38, 1))
        if x - last > 12:
            last = x
            parts.append(_label(x, 78, shown(tick, unit), ' font-size="11" fill-opacity=".75"'))

    # Above: the bet, and what counts as right.
    if shaded:
        left = at(start if shaded[0] is None else shaded[0])
        right = at(end if shaded[1] is None else shaded[1])
        middle = at(guess) if is_typed else round((left + right) / 2, 1)
        parts.append(BAND.format(left, right - left))
        parts.append(_label(middle, 16, f"your bet: {shown(guess, unit)}"))
    if is_typed:
        parts.append(RING.format(at(guess)))

    # Below: the answer.
    x = at(truth)
    parts.append(LINE.format(x, x, 22, 46, 4))
    parts.append(_label(x, 60, f"the answer: {shown(truth, unit)}", ' font-weight="600"'))
    return SCALE.format("".join(parts))


def _label(x: float, y: int, text: str, more: str = "") -> str:
    anchor = "middle"
    if x < 30:
        anchor = "start"
    elif x > 70:
        anchor = "end"
    return LABEL.format(x, y, anchor, more, escape(text))


def markup(text: str) -> str:
    """One paragraph of Markdown as HTML: code, emphasis, simple formulas; `·token` is code too."""
    parts = re.split(r"(`[^`]+`|\$[^$]+\$|(?<![\w·])·(?:\w+|[^\w\s·]))", text)
    for i, part in enumerate(parts):
        rules = EMPHASIS
        part = escape(part, quote=False)
        if i % 2:  # a formula or code
            is_formula = part[0] == "$"
            rules = SCRIPTS if is_formula else {}
            tag = "i" if is_formula else "code"
            part = f"<{tag}>{part.strip('`$')}</{tag}>"
        for pattern, tag in rules.items():
            part = re.sub(pattern, rf"<{tag}>\1</{tag}>", part)
        parts[i] = part
    return "".join(parts)


def _is_right(bet: Mapping, truth: Any) -> bool:
    """Whether a bet came true: the option, the band, or a number near enough."""
    guess = bet["guess"]
    is_number = isinstance(truth, int | float)
    if "between" in bet:
        low, high = bet["between"]
        if low is None:
            return is_number and truth < high
        if high is None:
            return is_number and truth > low
        return is_number and low <= truth <= high
    if isinstance(guess, int | float):
        return is_number and abs(guess - truth) <= _margin(bet, truth) + 1e-9
    return guess == str(truth)


def _margin(bet: Mapping, truth: float) -> float:
    """How far off a number may be."""
    within = bet.get("within")
    return abs(truth) / 4 if within is None else within


def _number(typed: str) -> float:
    """A number as people type it: 4,000 and 4000 are the same, 0,5 and 0.5 too."""
    typed = typed.strip().removesuffix("%").strip()
    grouped = re.fullmatch(r"[1-9]\d{0,2}(,\d{3})+(\.\d+)?", typed)
    comma = "" if grouped else "."
    number = float(typed.replace(",", comma).replace("−", "-"))
    if not math.isfinite(number):
        raise ValueError(f"{typed} is no number to bet on.")
    return number


def _plain_number(value: float, unit: str) -> str:
    times = 100 if unit == "%" else 1
    return true_minus(f"{times * value:,.6g}")


def _is_number(value: Any) -> bool:
    """Whether a stored value can be drawn and compared: no whole number beyond a float's range."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 1e300)


def _is_band(value: Any) -> bool:
    is_pair = isinstance(value, list) and len(value) == 2
    return is_pair and all(end is None or _is_number(end) for end in value)


def _is_bet(entry: Any) -> bool:
    """Whether a stored entry has the form that a card needs; any of its fields may be missing."""
    if not isinstance(entry, dict):
        return False
    forms: dict[str, Callable[[Any], bool]] = {
        "question": lambda text: isinstance(text, str),
        "guess": lambda guess: isinstance(guess, str) or _is_number(guess),
        "confidence": lambda step: isinstance(step, int) and 1 <= step <= len(STEPS),
        "between": _is_band,
        "within": lambda off: off is None or _is_number(off),
        "truth": lambda truth: not isinstance(truth, int) or _is_number(truth),
        "because": lambda text: isinstance(text, str),
        "first": _is_bet,
    }
    return all(fits(entry[field]) for field, fits in forms.items() if field in entry)


def guesses(file: str = PREDICTIONS) -> dict[str, dict]:
    """Your bets so far, by name; those of earlier versions have no confidence."""
    return keeping.read(file, _is_bet)


def summary(bets: Mapping[str, Mapping]) -> str:
    """How many bets came true, by confidence; of two bets on one question, the first counts."""
    counted = [bet.get("first", bet) for bet in bets.values()]
    judged = [bet for bet in counted if "right" in bet]
    if not judged:
        return f"Predictions: {len(bets) or 'none'} made."

    def share(some: list[Mapping]) -> str:
        right = [bet for bet in some if bet["right"]]
        return f"{len(right)} of {len(some)}"

    said = f"Predictions: {len(bets)} made, {share(judged)} came true so far"
    steps: list[str] = []
    for confidence, step in enumerate(STEPS, 1):
        some = [bet for bet in judged if bet.get("confidence") == confidence]
        if some:
            steps.insert(0, f"{step}: {share(some)}")
    if steps:
        said += f" – {', '.join(steps)}"
    return f"{said}."


def mistakes(bets: Mapping[str, Mapping]) -> dict[str, str]:
    """The questions, by name, of bets that were sure and wrong, and were not made again and won."""
    found = {}
    for name, bet in bets.items():
        first = bet.get("first", bet)
        was_sure = first.get("confidence") == len(STEPS)
        was_wrong = not first.get("right", True)
        if was_sure and was_wrong and not bet.get("right"):
            found[name] = first.get("question", name)
    return found


def calibration() -> None:
    """Print how many of your bets came true, by how sure you were, and where sure and wrong."""
    bets = {} if is_recorded() else guesses()
    print(summary(bets) if bets else NONE)
    for name, question in mistakes(bets).items():
        lesson = name.partition("_")[0]
        print(f"  Sure, and not so (lesson {lesson}): {question}")
