"""What a class answered to lesson 12's questions: `python -m course_tools.pool FOLDER`.

FOLDER holds a file of answers for each person, in folders or not: `my_questions.json`, which the
site saves, `my_predictions.json` of the lesson in JupyterLab, or either under another name. The
page says how many were right in each sitting, what changed from one to the next, and which
questions are hard. It names nobody. A file that can't be counted is named, and passed over.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from statistics import NormalDist, fmean, stdev

from course_lessons.l12_questions import answer_key
from course_utils import _words
from course_utils._files import write_text
from course_utils.course import bets, utf8_output

LARGEST = 5_000_000  # bytes of a file of answers
FEWEST = 5  # people that an interval takes
OF_ONE = (bets.PREDICTIONS, answer_key.FROM_SITE)  # under these names two files are one person's
Answers = dict[str, dict[str, str]]  # of one person: sitting → question → option


def people(folder: Path) -> list[Answers]:
    """What each person answered; a sentence is printed for each file that is passed over.

    Raises FileNotFoundError if there is no answer in the folder.
    """
    found: dict[Path, dict[str, dict]] = {}  # by person: a folder or a file
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        inside = path.relative_to(folder)
        try:
            kept = _read(path, inside)
        except ValueError as error:
            print(f"{_named(inside)} is passed over: {error}.")
            continue
        person = path.parent if path.name in OF_ONE else path
        found[person] = kept | found.get(person, {})
    if not found:
        raise FileNotFoundError(f"There is no file of answers in {folder}.")
    return list(_once(found, folder))


def _read(path: Path, inside: Path) -> dict[str, dict]:
    """The bets of one file. Raises ValueError that says what is wrong with it."""
    if any(part.startswith(".") for part in inside.parts):
        raise ValueError("it is hidden, as copies are that a program makes for itself")
    if path.suffix.lower() != ".json":
        raise ValueError("a file of answers ends in .json")
    try:
        is_large = path.stat().st_size > LARGEST
        text = b"" if is_large else path.read_bytes()
    except OSError as error:
        raise ValueError(f"it can't be read ({error.strerror or error})") from None
    if is_large:
        raise ValueError("it is too large to hold answers")
    try:
        kept = json.loads(text)
    except (MemoryError, RecursionError, ValueError):
        raise ValueError("it is damaged, or no JSON: ask for it again") from None
    given = answer_key.answers(kept) if isinstance(kept, dict) else {}
    count = sum(map(len, given.values()))
    if not count:
        raise ValueError("it has no answer to one of these questions")
    ours = [
        begins + name for begins in answer_key.SITTINGS.values() for name in answer_key.QUESTIONS
    ]
    odd = len(kept.keys() & set(ours)) - count
    if odd:
        what, them = ("answer is", "it") if odd == 1 else ("answers are", "them")
        print(f"{_named(inside)}: {odd} {what} left out, for no question has {them} now.")
    return kept


def _once(found: dict[Path, dict[str, dict]], folder: Path) -> Iterator[Answers]:
    """Each person once: of files that are alike in their first whole sitting, the fullest.

    Where all is right, people are alike.
    """
    key = answer_key.keys()
    given = {person: answer_key.answers(kept) for person, kept in found.items()}
    fullest_first = sorted(given, key=lambda person: -sum(map(len, given[person].values())))
    seen: dict[str, Path] = {}
    for person in fullest_first:
        whole = [sitting for sitting, said in given[person].items() if len(said) == len(key)]
        twin = person
        if whole and given[person][whole[0]] != key:
            names = [answer_key.SITTINGS[whole[0]] + name for name in key]
            bets_made = json.dumps([found[person][name] for name in names])
            twin = seen.setdefault(f"{whole[0]} {bets_made}", person)
        if twin == person:
            yield given[person]
        else:
            name, other = (_named(path.relative_to(folder)) for path in (person, twin))
            print(f"{name} is passed over: it has the same answers as {other}.")


def _named(path: Path) -> str:
    """A path as it can be printed, on one line."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(path))


def page(pooled: list[Answers]) -> Iterator[str]:
    """The class as lines of Markdown: sittings, changes, and question by question."""
    asked, key = answer_key.QUESTIONS, answer_key.keys()
    guessing = sum(1 / len(options) for _, options in asked.values())
    whole: dict[str, dict[int, int]] = {}  # sitting → person → how many are right
    for sitting in answer_key.SITTINGS:
        given = {number: person[sitting] for number, person in enumerate(pooled)}
        right = {n: sum(said[name] == key[name] for name in said) for n, said in given.items()}
        whole[sitting] = {n: right[n] for n, said in given.items() if len(said) == len(asked)}

    who = "1 person" if len(pooled) == 1 else f"{len(pooled)} people"
    yield f"# {who}, {len(asked)} questions\n"
    yield f"Whoever only guesses has {guessing:.0f} right, on average. Scores and changes count"
    yield "those who answered every question of a sitting; intervals are over people.\n"
    heads = ["sitting", "people", f"mean of {len(asked)}", "95 % interval", "least", "most"]
    rows = []
    for sitting, scores in whole.items():
        if scores:
            ends = [min(scores.values()), max(scores.values())]
            rows.append([sitting, len(scores), *_mean(list(scores.values())), *ends])
    yield _words.table(heads, rows)

    yield "\n## What changed\n\nThe same people in both sittings. *Of what was wrong* is the"
    yield "change, divided by what they had wrong before the course.\n"
    heads = ["from", "to", "people", "mean change", "95 % interval", "of what was wrong"]
    rows = []
    for first, last in combinations(whole, 2):
        both = whole[first].keys() & whole[last].keys()
        changes = [whole[last][n] - whole[first][n] for n in both]
        wrong = sum(len(asked) - whole[first][n] for n in both)
        if both:
            is_gain = first == next(iter(whole)) and wrong
            share = f"{100 * sum(changes) / wrong:.0f} %" if is_gain else ""
            share = _words.true_minus(share)
            rows.append([first, last, len(both), *_mean(changes, sign="+"), share])
    yield _words.table(heads, rows)
    yield from _by_question(pooled)


def _by_question(pooled: list[Answers]) -> Iterator[str]:
    """A row for each question, with all who answered it."""
    key = answer_key.keys()
    sittings = list(answer_key.SITTINGS)
    yield "\n## Question by question\n\nThe share of right answers. The letter is the wrong answer"
    yield "that most people chose in the last sitting; what it stands for is in TEACHING.md.\n"
    heads = [
        "question",
        "lesson",
        *sittings,
        "of those wrong before, right after",
        "most chosen wrong",
    ]
    rows = []
    for name, (question, options) in answer_key.QUESTIONS.items():
        said = {
            sitting: [person[sitting][name] for person in pooled if name in person[sitting]]
            for sitting in sittings
        }
        shares = [_share(answers.count(key[name]), len(answers)) for answers in said.values()]
        before, after, _ = sittings
        turned = [
            person[after][name] == key[name]
            for person in pooled
            if name in person[after] and person[before].get(name, key[name]) != key[name]
        ]
        moved = f"{sum(turned)} of {len(turned)}" if turned else ""
        last = next(filter(None, reversed(said.values())), [])
        wrong = Counter(answer for answer in last if answer != key[name]).most_common(1)
        most = [f"{'abcd'[options.index(answer)]} ({times})" for answer, times in wrong]
        number, lesson = question.partition(".")[0], name.partition("_")[0]
        rows.append([number, lesson, *shares, moved, *(most or [""])])
    yield _words.table(heads, rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} % of {whole}" if whole else ""


def _mean(values: list[int], sign: str = "") -> tuple[str, str]:
    """The mean of a number for each person, and the interval that Student's t gives it."""
    mean = fmean(values)
    shown = _words.true_minus(f"{mean:{sign}.1f}")
    if len(values) < FEWEST:
        return shown, f"fewer than {FEWEST} people"
    half = _t(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    low, high = (_words.true_minus(f"{end:{sign}.1f}") for end in (mean - half, mean + half))
    return shown, f"{low} to {high}"


def _t(freedom: int) -> float:
    """What 2.5 % of Student's t exceed, to 0.3 %: Abramowitz and Stegun, 26.7.5."""
    z = NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m course_tools.pool", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="with a file of answers for each person")
    where = "a file (default: questions.md)"
    parser.add_argument("--out", type=Path, default=Path("questions.md"), help=where)
    options = parser.parse_args(arguments)
    utf8_output()
    try:
        write_text(options.out, "\n".join(page(people(options.folder))) + "\n")
    except OSError as error:
        parser.error(str(error))
    print(options.out)


if __name__ == "__main__":
    main()
