"""The page of lesson 12 on the site: its questions as cards that keep what a reader answers.

The cards' script, `style/questions.js`, keeps the answers in the reader's browser and saves them as
a file in the form of `my_predictions.json`. Nothing is sent. Below each card stand its key, as the
notebook stores it, and the reason; the script hides both until the card is answered.
"""

import html
import json
import re
from collections.abc import Iterator

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course_lessons.l12_questions import answer_key
from course_tools import authoring, to_html
from course_utils._files import PACKAGE, lesson_of, number_of
from course_utils.course import bets

LESSON = answer_key.LESSON
SITTINGS = {
    "before": "before the course",
    "after": "after the course",
    "later": "30 days later",
}
KEY = '<details class="key" data-name="{}"><summary>The key, and why</summary>'
CHOICE = '<label><input type="radio" name="{}" value="{}"{}><span>{}</span><em></em></label>'


def cells(solution: NotebookNode) -> Iterator[NotebookNode]:
    """The cells of the page, of those of the executed notebook.

    Raises ValueError where a question has lost its key or its reason.
    """
    by_id = {cell.id: cell for cell in solution.cells}
    names = {name.replace("_", "-"): name for name in answer_key.QUESTIONS}
    for part in names:
        if not {f"key-{part}", f"why-{part}"} <= by_id.keys():
            raise ValueError(f"Lesson 12 has no key or no reason for its question {part}.")

    yield by_id["title"]
    yield by_id["how"]
    yield new_markdown_cell(_panel())
    _, _, words = by_id["words"].source.partition("\n\n")
    yield new_markdown_cell(f"## Before you begin\n\n{words}")
    yield new_markdown_cell("## The questions")
    for cell in solution.cells:
        kind, _, part = cell.id.partition("-")
        if kind == "keys":  # a lesson's heading
            yield cell
        elif kind == "key":
            yield _raw(_card(names[part]))
            yield _raw(KEY.format(names[part]))
            yield new_markdown_cell(_reason(names[part], by_id[f"why-{part}"].source))
            yield _folded(cell)
            yield _raw("</details>")
    yield new_markdown_cell("## Your score")
    yield _raw('<div class="score"></div>')
    yield by_id["end"]
    yield _raw("<details><summary>What all keys begin with</summary>")
    yield by_id["imports"]
    yield by_id["setup"]
    yield _raw('</details>\n<script src="_static/questions.js"></script>')


def style() -> str:
    """The style of the cards: that of bets, and what a page of them needs besides."""
    ours = (PACKAGE / "course" / "bet.css").read_text(encoding="utf-8")
    return ours + to_html.style("questions.css")


def _raw(text: str) -> NotebookNode:
    return new_markdown_cell(f"```{{raw}} html\n{text}\n```")


def _reason(name: str, why: str) -> str:
    """Why a key is right, and last, with links, where the course shows it."""
    pages = {number_of(lesson): lesson for lesson in map(lesson_of, authoring.lessons())}
    text = why.rpartition(" *(")[0]

    def linked(lesson: re.Match) -> str:
        return f"[{lesson[0]}]({pages[lesson[1]]}.ipynb)"

    places = re.sub(r"lesson (\w+)", linked, answer_key.places(name))
    return f"{text} *Shown in {places}.*"


def _folded(cell: NotebookNode) -> NotebookNode:
    cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
    return cell


def _panel() -> str:
    """The choice of a sitting, with all questions as data."""
    keys = answer_key.keys()
    asked = [
        {
            "name": name,
            "number": int(question.partition(".")[0]),
            "question": question,
            "options": options,
            "key": options.index(keys[name]),
        }
        for name, (question, options) in answer_key.QUESTIONS.items()
    ]
    data = json.dumps(asked, ensure_ascii=False).replace("<", "\\u003c")
    choices = [
        CHOICE.format("sitting", value, " checked" if value == "before" else "", words)
        for value, words in SITTINGS.items()
    ]
    return to_html.style("questions.md").format(questions=data, sittings="".join(choices))


def _card(name: str) -> str:
    """A question as a form, on one line: what the script finds, and a reader without it reads."""
    question, options = answer_key.QUESTIONS[name]
    choices = "".join(
        CHOICE.format(name, number, "", bets.markup(option))
        for number, option in enumerate(options)
    )
    steps = "".join(f'<button type="button">{step}</button>' for step in bets.STEPS)
    return (
        f'<form class="bet-live question" id="question-{name}" data-name="{html.escape(name)}">'
        f'<fieldset class="bet-answer"><legend>{bets.markup(question)}</legend>'
        f'<div class="bet-choices">{choices}</div></fieldset>'
        f'<div class="sure" role="group" aria-label="How sure are you? It keeps your answer.">'
        f"<span>How sure are you?</span>{steps}</div>"
        '<button type="button" class="change" hidden>Change</button>'
        '<p class="bet-said" tabindex="-1" aria-live="polite"></p></form>'
    )
