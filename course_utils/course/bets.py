"""Bets: `predict` asks for a guess before the number comes, on a card; the claim that says
`predicted=` answers it.

`my_predictions.json` beside the notebook keeps for each name "question", "guess", "confidence" (1
to 3), how the guess is judged ("between" or "within"), and, once the claim came, "truth", "right"
and "because". Somebody who bets again when the truth is known keeps the bet made before it under
"first"; what is counted is that one.
"""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course_utils._arguments import validated
from course_utils._files import write_text
from course_utils._words import true_minus
from course_utils.course.microscope import scripts
from course_utils.course.values import is_recorded, shown

HERE = Path(__file__).resolve().parent
PREDICTIONS = "my_predictions.json"  # beside the notebook that asks
STEPS = ("a guess", "likely", "sure")  # of confidence, 1 to 3
# The still card stands above the live one. JupyterLab puts an error in the place of a widget whose
# kernel is gone.
STYLE = (
    "<style>.jp-OutputArea-child:has(.bet-still)+.jp-OutputArea-child:has(.jupyter-widgets):not(:has(.bet-live))"
    "{display:none}.bet-still{max-width:44rem;box-sizing:border-box;border:1px solid "
    "#8886;border-radius:8px;"
    "padding:.7em 1em;margin:0 0 8px}.bet-still>*{margin:.4em 0!important}</style>"
)
EMPHASIS = {r"\*\*(.+?)\*\*": "b", r"\*(.+?)\*": "i"}  # Markdown → tag
# in formulas
SCRIPTS = {r"_\{(.+?)\}": "sub", r"_(\w)": "sub", r"\^\{(.+?)\}": "sup", r"\^(\w)": "sup"}
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
    """Ask for a guess before the number comes: one of the `options`, one of the `bands`, or a
    number in the `unit`.

    `bands` are the edges between choices: (0.2, 0.5) and "%" ask for "under 20 %", "20 to 50 %" or
    "over 50 %". `within` is how far a number may be off, in the claim's own units (0.1 for ten
    percentage points); without it, a quarter of the truth. Leaving the card blank stops nothing.
    Raises ValueError for what can't be bet on.
    """
    from IPython.display import display

    if (options or bands) and within is not None:
        raise ValueError(
            "within is for a number that is typed: an option or a band is right or wrong."
        )
    if within is not None and not 0 < within < math.inf:
        raise ValueError(f"within must be above 0, not {within!r}.")
    card = _cards[name] = Card(name, question, _choices(options, bands, unit), unit, bands, within)
    card.still = display(card.drawn(), raw=True, display_id=True)
    display(scripts.view(card), raw=True)


def answered(name: str, truth: Any, unit: str = "", because: str = "") -> str:
    """What a claim's row says of a bet, as "your bet 30 % ✗"; nothing where none was made.

    Keeps the truth and whether the bet was right, and shows both on the card. `because` is
    Markdown: why it is so.
    """
    if is_recorded():
        return ""
    card = _cards.get(name)
    bet = (card.bet if card else guesses().get(name, {})) | {"truth": truth, "because": because}
    if "guess" in bet:
        bet["right"] = _is_right(bet, truth)
        _keep(name, bet)
    if card:
        card.tell(bet)
    if "guess" not in bet:
        return ""
    guess = _shown(bet["guess"], unit).replace("`", "")
    return f"your bet{':' * isinstance(bet['guess'], str)} {guess} {'✓' if bet['right'] else '✗'}"


def _choices(options: Sequence[str], bands: Sequence[float], unit: str) -> list[dict]:
    """The bets that one can choose from: "guess", and for a band what it is "between", None where
    it has no end.
    """
    if options and bands:
        raise ValueError("Give options or bands, not both.")
    if len(options) == 1 or len({*options}) < len(options):
        raise ValueError("A choice needs two options or more, each of them once.")
    if any(low >= high for low, high in itertools.pairwise(bands)):
        raise ValueError(f"bands must rise, as (0.2, 0.5, 0.8), and {tuple(bands)} do not.")
    if not bands:
        return [{"guess": option} for option in options]
    edges, unit_of = [_plain_number(edge, unit) for edge in bands], f" {unit}".rstrip()
    between = [f"{low} to {high}{unit_of}" for low, high in itertools.pairwise(edges)]
    names = [f"under {edges[0]}{unit_of}", *between, f"over {edges[-1]}{unit_of}"]
    ranges = itertools.pairwise([None, *bands, None])
    return [{"guess": name, "between": ends} for name, ends in zip(names, ranges, strict=True)]


class Card(anywidget.AnyWidget):
    """A question on the page. `lock` does what the button does."""

    _esm = HERE / "bet.js"
    _css = HERE / "bet.css"
    asked = traitlets.Dict().tag(sync=True)  # what the form is made of
    state = traitlets.Dict().tag(sync=True)  # what has become of it

    def __init__(
        self,
        name: str,
        text: str,
        choices: list[dict],
        unit: str,
        edges: Sequence[float],
        within: float | None,
    ):
        super().__init__()
        self.name, self.text, self.choices = name, text, choices
        self.unit, self.edges, self.within = unit, edges, within
        self.still: Any = None  # the handle of the output that is stored
        self.guesses = [choice["guess"] for choice in choices]
        kept = {} if is_recorded() else guesses().get(name, {})
        fits = (
            kept.get("guess") in self.guesses
            if choices
            else isinstance(kept.get("guess"), int | float)
        )
        # the kept one may be of another question; a truth may be without a guess
        self.bet: dict = kept if fits else {}
        # whether one may bet on what is known, and does
        self.may_again, self.again = ("truth" in self.bet, False)
        points = " percentage points" if unit == "%" else ""
        off = (
            f"±\N{NO-BREAK SPACE}{_plain_number(within, unit)}{points}"
            if within
            else "a quarter of the answer"
        )
        form = {
            "question": markup(text),
            "choices": [*map(markup, self.guesses)],
            "about": f"right within {off}",
        }
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
            self.bet, self.again, self.may_again = new, False, False
            _keep(self.name, new)
        self._draw()

    def _read(self, answer: str, confidence: str) -> dict:
        """The bet that the form says; ValueError with a sentence for the reader where it says none."""
        if not answer.strip() or not confidence:
            ask = "Choose an answer" if self.choices else "Type a number"
            raise ValueError(f"{ask}, and say how sure you are.")
        bet = {"question": self.text, "confidence": int(confidence) + 1}
        if self.choices:
            return bet | self.choices[int(answer)]
        try:
            guess = _number(answer)
        except ValueError:
            raise ValueError(f"Type a number, such as {50 if self.unit == '%' else 0.5}.") from None
        return bet | {"guess": guess / 100 if self.unit == "%" else guess, "within": self.within}

    def tell(self, bet: dict) -> None:
        """Show what came out."""
        self.bet, self.again = bet, False
        self._draw()

    def _draw(self, complaint: str = "") -> None:
        answer, confidence = self.bet.get("guess"), self.bet.get("confidence")
        if answer is not None:
            answer = (
                str(self.guesses.index(answer))
                if self.choices
                else _plain_number(answer, self.unit)
            )
        self.state = {
            "open": self.again or not self.bet,
            "again": self.may_again and not self.again,
            "answer": answer,
            "confidence": str(confidence - 1) if confidence else None,
            "marks": [] if self.again else self._marks(),
            "said": complaint if complaint or self.again else self._said(),
            "turn": self.state.get("turn", 0) + 1,  # an answer comes even if it is the same again
        }
        if self.still and not self.again and not complaint:
            self.still.update(self.drawn(), raw=True)

    def _marks(self) -> list[str]:
        """What stands beside each choice: a sign and words."""
        marks = []
        for choice in self.choices:
            mine = choice["guess"] == self.bet.get("guess")
            came = "truth" in self.bet and _is_right(choice, self.bet["truth"])
            marks.append(
                "✓ your bet came true"
                if mine and came
                else "✓ the answer"
                if came
                else "your bet" * mine
            )
        return marks

    def _said(self) -> str:
        """What has become of the bet, as HTML."""
        bet, unit = self.bet, self.unit
        step = f", {STEPS[bet['confidence'] - 1]}" if "confidence" in bet else ""
        mine = markup(_shown(bet["guess"], unit)) + step if "guess" in bet else ""
        if "truth" not in bet:
            return f"<p>Locked: {mine}. Now run the next cells.</p>" if mine else ""
        verdict = f"<b>{'✓ Right.' if bet.get('right') else '✗ Not this time.'}</b> You bet {mine}."
        said = (
            f"<p>{verdict if mine else 'You made no bet.'} The answer: "
            f"{markup(_shown(bet['truth'], unit))}.</p>"
        )
        if isinstance(bet["truth"], int | float) and (self.edges or not self.choices):
            said += scale(bet, unit, self.edges)
        return said + (f"<p>{markup(bet['because'])}</p>" if bet.get("because") else "")

    def drawn(self) -> dict[str, str]:
        """The card where no kernel runs: what a stored notebook, GitHub and a printer show."""
        number = f"a number{f' in {self.unit}' if self.unit else ''}"
        marked = zip(self.asked["choices"], self._marks(), strict=True)
        items = "".join(
            f"<li>{choice}{f' – <b>{mark}</b>' if mark else ''}</li>" for choice, mark in marked
        )
        form = f"<ul>{items}</ul>" if items else f"<p>{escape(number)}, {self.asked['about']}</p>"
        html = f"<p><b>Predict:</b> {self.asked['question']}</p>{form}{self._said()}"
        text = f"Predict: {self.text}\n" + (" · ".join(self.guesses) or number)
        card = f'<div class="bet-still" data-bet="{escape(self.name)}">{html}</div>{STYLE}'
        return {"text/html": card, "text/plain": text}


def scale(bet: Mapping, unit: str, edges: Sequence[float] = ()) -> str:
    """A bet and the truth on a line, as SVG of any width; shaded is the band, or what counts as
    right.
    """
    truth, guess = bet["truth"], bet.get("guess")
    typed: list[float] = [guess] if isinstance(guess, int | float) else []
    off = _margin(bet, truth)
    shaded = [truth - off, truth + off] if typed else bet.get("between", [])
    points = [truth, *edges, *typed, *(end for end in shaded if end is not None)]
    if not all(map(math.isfinite, points)):
        return ""
    start, end = min(points), max(points)
    room = (end - start or 1) / 10
    is_share = unit == "%" and start >= 0 and 0.2 < end <= 1
    start, end = (0, 1) if is_share else (start - room, end + room)

    def at(x: float) -> float:
        return round(2 + 96 * (x - start) / (end - start), 1)

    def label(x: float, y: int, text: str, more: str = "") -> str:
        anchor = "start" if x < 30 else "end" if x > 70 else "middle"
        return f'<text x="{x}%" y="{y}" text-anchor="{anchor}"{more}>{escape(text)}</text>'

    def line(x: float, x2: float, y: int, y2: int, width: int = 1) -> str:
        return (
            f'<line x1="{x}%" x2="{x2}%" y1="{y}" y2="{y2}" stroke="currentColor" '
            f'stroke-width="{width}"/>'
        )

    parts, last = [line(2, 98, 34, 34)], -math.inf
    for tick in sorted({*edges, *((0, 1) if is_share else ())}):
        parts.append(line(at(tick), at(tick), 30, 38))
        if at(tick) - last > 12:  # room for its number
            last = at(tick)
            parts.append(label(last, 78, _shown(tick, unit), ' font-size="11" fill-opacity=".75"'))
    if shaded:
        left, right = (
            at(bound if n is None else n) for n, bound in zip(shaded, (start, end), strict=True)
        )
        parts.append(
            f'<rect x="{left}%" width="{right - left:.1f}%" y="26" height="16" rx="3" '
            f'fill-opacity=".16"/>'
        )
        middle = at(*typed) if typed else round((left + right) / 2, 1)
        parts.append(label(middle, 16, f"your bet: {_shown(guess, unit)}"))
    for x in map(at, typed):
        parts.append(
            f'<circle cx="{x}%" cy="34" r="6" fill="none" stroke="currentColor" stroke-width="2"/>'
        )
    parts.append(line(at(truth), at(truth), 22, 46, width=4))
    parts.append(label(at(truth), 60, f"the answer: {_shown(truth, unit)}", ' font-weight="600"'))
    return (
        f'<svg width="100%" height="84" font-size="13" fill="currentColor" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )


def markup(text: str) -> str:
    """One paragraph of Markdown as HTML: code, emphasis, simple formulas; `·token` is code too."""
    parts = re.split(r"(`[^`]+`|\$[^$]+\$|(?<![\w·])·(?:\w+|[^\w\s·]))", text)
    for i, part in enumerate(parts):
        part, rules = escape(part, quote=False), EMPHASIS
        if i % 2:
            rules, tag = (SCRIPTS, "i") if part[0] == "$" else ({}, "code")
            part = f"<{tag}>{part.strip('`$')}</{tag}>"
        for pattern, tag in rules.items():
            part = re.sub(pattern, rf"<{tag}>\1</{tag}>", part)
        parts[i] = part
    return "".join(parts)


def _is_right(bet: Mapping, truth: Any) -> bool:
    """Whether a bet came true: the option, the band, or a number near enough."""
    guess, is_number = bet["guess"], isinstance(truth, int | float)
    if "between" in bet:
        low, high = bet["between"]
        return is_number and (
            truth < high if low is None else truth > low if high is None else low <= truth <= high
        )
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
    number = float(typed.replace(",", "" if grouped else ".").replace("−", "-"))
    if not math.isfinite(number):
        raise ValueError(f"{typed} is no number to bet on.")
    return number


def _plain_number(value: float, unit: str) -> str:
    return true_minus(f"{100 * value if unit == '%' else value:,.6g}")


def _shown(value: Any, unit: str) -> str:
    return value if isinstance(value, str) else shown(value, unit)


def guesses() -> dict[str, dict]:
    """Your bets so far, by name; those of earlier versions have no confidence."""
    path = Path(PREDICTIONS)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _keep(name: str, bet: Mapping) -> None:
    write_text(
        Path(PREDICTIONS), json.dumps(guesses() | {name: bet}, indent=1, ensure_ascii=False) + "\n"
    )


def summary(bets: Mapping[str, Mapping]) -> str:
    """How many bets came true, for each step of confidence; of two bets on one question, the first
    counts.
    """
    judged = [first for bet in bets.values() if "right" in (first := bet.get("first", bet))]
    if not judged:
        return f"Predictions: {len(bets) or 'none'} made."

    def share(some: Sequence[Mapping]) -> str:
        return f"{sum(bet['right'] for bet in some)} of {len(some)}"

    groups = {
        step: [bet for bet in judged if bet.get("confidence") == n]
        for n, step in enumerate(STEPS, 1)
    }
    steps = [f"{step}: {share(some)}" for step, some in reversed(groups.items()) if some]
    return (
        f"Predictions: {len(bets)} made, {share(judged)} came true so "
        f"far{' – ' * bool(steps)}{', '.join(steps)}."
    )


def mistakes(bets: Mapping[str, Mapping]) -> dict[str, str]:
    """The questions, by name, of bets that were sure and wrong, and were not made again and won."""
    lost = {name: bet.get("first", bet) for name, bet in bets.items() if not bet.get("right")}
    sure = {
        name: bet
        for name, bet in lost.items()
        if bet.get("confidence") == len(STEPS) and "right" in bet
    }
    return {name: bet["question"] for name, bet in sure.items() if not bet["right"]}


def calibration() -> None:
    """Print how many of your bets came true so far, by how sure you were, and where you were sure
    and wrong.
    """
    bets = {} if is_recorded() else guesses()
    print(summary(bets) if bets else "No predictions yet.")
    for name, question in mistakes(bets).items():
        print(f"  Sure, and not so (lesson {name.partition('_')[0]}): {question}")
