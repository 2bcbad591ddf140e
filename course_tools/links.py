"""The links of a lesson, which authoring writes: to neighbours, other copy, sources, glossary.

One line stands below the title and at the end of each notebook, and in `00_start` at the end alone.
Solutions lie one folder deeper, so their line has other paths than the learner's copy; both work on
GitHub, in JupyterLab and in a copy of the whole folder.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course_utils._files import lesson_of, number_of, solution_file
from course_utils.course import outline

IDS = ("links-top", "links-end")  # of the two cells that hold the line
START = "00_start"  # the lesson that holds the contents
CONTENTS = f"{START}.ipynb"
GLOSSARY = "GLOSSARY.md"  # beside the learner's copies
# name → address
SOURCES = json.loads(Path(__file__).with_name("sources.json").read_text(encoding="utf-8"))
LESSON, SOLUTION = "The lesson, with blanks", "The solution"  # what the links to the other copy say
# code, formulas, headings, links
NO_PROSE = r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$\n]*\$|^ *#[^\n]*|\[[^]]*\]\([^)]*\)"


def linked(solution: NotebookNode, path: Path, titles: dict[str, str]) -> NotebookNode:
    """A solution notebook that stands at `path`, its links made anew.

    `titles` are by lesson, in the course's order.
    """
    lesson = lesson_of(path)
    learners = path.parent.parent
    solution.cells = [cell for cell in solution.cells if cell.get("id") not in IDS]

    # In the text: sources, and the terms that the lesson introduces.
    texts = [cell for cell in solution.cells if cell.cell_type == "markdown"]
    for cell in texts:
        cell.source = _with_sources(cell.source)
    glossary = learners / GLOSSARY
    _link_terms(texts, lesson, glossary.read_text(encoding="utf-8") if glossary.is_file() else "")

    # The line, below the title and at the end.
    text = line(lesson, titles, contents=(learners / CONTENTS).is_file())
    top, end = (new_markdown_cell(text, id=name) for name in IDS)
    if lesson != START:
        solution.cells.insert(1, top)
    solution.cells.append(end)
    return solution


def line(lesson: str, titles: dict[str, str], contents: bool) -> str:
    """The line of a solution: what comes before, contents, learner's copy, what follows.

    Companions stand at its end. What `titles` do not have is left out.
    """
    named = {number_of(name): name for name in titles}
    number = number_of(lesson)
    before, after = outline.neighbours(number)

    def link(other: str, words: str) -> list[str]:
        name = named.get(other)
        return [f"[{words.format(titles[name])}]({solution_file(name)})"] if name else []

    parts = []
    if lesson != START:
        parts += link(before, "← {}") if before != number_of(START) else []
        parts += [f"[Contents](../{CONTENTS})"] if contents else []
        parts += [f"[{LESSON}](../{lesson}.ipynb)"]
    parts += link(after, "{} →")
    for other in outline.beside(number):
        parts += link(other, "beside it: {}")
    return " &nbsp;·&nbsp; ".join(parts)


def for_learner(text: str) -> str:
    """The line of the learner's copy, made of the solution's."""

    def other(link: re.Match) -> str:
        words, file = link.groups()
        if words == LESSON:
            return f"[{SOLUTION}](solutions/{solution_file(lesson_of(Path(file)))})"
        return f"[{words}]({lesson_of(Path(file))}.ipynb)"

    return re.sub(r"\[([^]]*)\]\((?:\.\./)?([^)]*)\)", other, text)


def entries(glossary: str) -> dict[str, str]:
    """What the glossary says of each term, by its heading."""
    return dict(re.findall(r"^### (.+)\n((?:(?!#).*\n)*)", glossary, flags=re.MULTILINE))


def lesson_number(entry: str) -> str:
    """The number of the lesson that introduces a term, "02b" for instance, or nothing."""
    found = re.search(r"\blesson (\d\w+)", entry)
    return found[1] if found else ""


def names(term: str, entry: str) -> list[str]:
    """What lessons call a term: as its heading does, or as what is bold in its entry."""
    return [term, *re.findall(r"\*\*(.+?)\*\*", entry)]


def without_terms(text: str) -> str:
    """Markdown whose terms are bold, and no links to the glossary."""
    return re.sub(rf"\[(\*\*[^]]+)\]\((?:\.\./)?{GLOSSARY}[^)]*\)", r"\1", text)


def _link_terms(texts: list[NotebookNode], lesson: str, glossary: str) -> None:
    """Link each term that the lesson introduces where it is first bold."""
    for cell in texts:
        cell.source = without_terms(cell.source)
    number = number_of(lesson)
    for term, entry in entries(glossary).items():
        if lesson_number(entry) != number:
            continue
        words = "|".join(map(_in_any_spacing, names(term, entry)))
        pattern = re.compile(rf"(?smi){NO_PROSE}|(?P<term>\*\*(?:{words})s?\*\*)")
        place = f"../{GLOSSARY}#{term.replace(' ', '-')}"
        for cell in texts:
            terms = [found for found in pattern.finditer(cell.source) if found["term"]]
            if terms:
                start, end = terms[0].span()
                link = f"[{terms[0][0]}]({place})"
                cell.source = cell.source[:start] + link + cell.source[end:]
                break


def _in_any_spacing(name: str) -> str:
    """A pattern for a name that may go over the end of a line."""
    return r"\s+".join(map(re.escape, name.split()))


def linked_glossary(text: str, lessons: Iterable[str]) -> str:
    """The glossary, each entry with a link on its lesson and its papers."""
    files = {number_of(name): f"{name}.ipynb" for name in lessons}
    text = re.sub(r"\[(lesson \w+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\blesson (\d\w+)", lambda found: f"[{found[0]}]({files[found[1]]})", text)
    return "".join(map(_with_sources, re.split(r"^(?=#)", text, flags=re.MULTILINE)))


def _with_sources(text: str) -> str:
    """Markdown with a link on the first mention of each source."""
    for name, address in SOURCES.items():
        words = _in_any_spacing(name)
        text = re.sub(rf"\[({words})\]\([^)]*\)", r"\1", text)
        text = re.sub(words, rf"[\g<0>]({address})", text, count=1)
    return text
