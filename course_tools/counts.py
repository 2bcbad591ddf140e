"""How much each lesson shows, and how dense it is: `python -m course_tools.counts`.

The table, which CONTRIBUTING has beside the limits, is a thermometer: a reader is the judge.
Sections are those with a number. Figures are pictures and widgets that are stored, rows the lines
that claims print. Lines are those that stand open in the learner's copy.
Words are those of open prose: what is folded, tables, headings, code and formulas are left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import nbformat
from nbformat import NotebookNode

from course_tools import bet_source, links
from course_utils import _words
from course_utils._files import NOTEBOOKS, SOLUTIONS, lesson_of, number_of
from course_utils.course import outline, saved_notebook, utf8_output

# What a lesson of each part may have at most, and what all may have together.
LIMITS = {
    "spine": {
        "minutes": 90,  # an evening, or a seminar's session
        "sections": 5,
        "figures": 12,
        "rows": 15,
        "bets": 4,
        "lines": 110,
        "words": 2500,
    },
    "beside": {"sections": 6, "rows": 25},
    "elective": {"minutes": 100},
    "together": {"figures": 200, "rows": 480, "words": 42000},
}
COLUMNS = ("minutes", "sections", "exercises", "figures", "rows", "bets", "lines", "words")
DENSITY = ("words a sentence", "short, %", "connectives", "numbers")
CONNECTIVES = re.compile(
    r"\b(because|since|therefore|hence|thus|so that|which means|that means|this means|"
    r"that is why|in other words|for example|for instance|recall|remember|however|although|"
    r"though|whereas|instead|as a result|in turn|which is why|the reason|after all|even though|"
    r"otherwise|so)\b",
    re.IGNORECASE,
)
SHORT = 8  # words of a short sentence, at most
# What is no prose, in the order in which it is taken out; X stands for a word.
APART = {
    r"(?s)<details>.*?</details>": " ",
    r"(?s)<details>.*": " ",
    r"(?s)```.*?```": " ",
    r"(?s)\$\$.*?\$\$": " ",
    r"\$[^$\n]*\$": " X ",
    r"`[^`\n]*`": " X ",
    r"!\[[^\]]*\]\([^)]*\)": " ",
    r"\[([^\]]*)\]\([^)]*\)": r"\1",
    r"<[^>]+>": " ",
}


def density(markdown: str) -> dict[str, float]:
    """Of open prose: words, words a sentence, short sentences in per cent.

    And of each 100 words, connectives and numbers.
    """
    paragraphs = list(_paragraphs(markdown))
    text = " ".join(paragraphs)
    sentences = [sentence for paragraph in paragraphs for sentence in _sentences(paragraph)]
    words = len(re.findall(r"[A-Za-z][A-Za-z’'-]*", text))
    if not (words and sentences):
        return dict.fromkeys(("words", *DENSITY), 0)
    lengths = [len(re.findall(r"[A-Za-z0-9·,%’'-]+", sentence)) for sentence in sentences]
    heads = re.findall(r"\b[012]\.[0-7]\b(?!\d)", text)  # their names are no numbers
    numbers = len(re.findall(r"(?<![A-Za-z])\d[\d,.]*", text)) - len(heads)
    measured = (
        mean(lengths),
        100 * mean(length <= SHORT for length in lengths),
        100 * len(CONNECTIVES.findall(text)) / words,
        100 * numbers / words,
    )
    return {"words": words, **dict(zip(DENSITY, measured, strict=True))}


def _paragraphs(markdown: str) -> Iterator[str]:
    """The paragraphs of open prose, each as one line without marks."""
    for pattern, instead in APART.items():
        markdown = re.sub(pattern, instead, markdown)
    for block in re.split(r"\n\s*\n", markdown):
        lines = [line for line in block.splitlines() if not re.match(r"\s*(#|>?\s*\|)", line)]
        text = " ".join(re.sub(r"^\s*([-*>]|\d+\.)\s+", "", line) for line in lines)
        text = re.sub(r"[*_]{1,3}", "", text).replace("&nbsp;", " ").strip()
        if text:
            yield text


def _sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph. A point within a number or after "et al" ends none."""
    paragraph = re.sub(r"\b(\d+)\.(\d+)\b", r"\1·\2", paragraph)
    paragraph = re.sub(r"\b(e\.g|i\.e|et al|vs|cf)\.", r"\1", paragraph)
    parts = re.split(r"(?<=[.!?:])[\"”)\s]+", paragraph)
    return [part for part in parts if re.search(r"[A-Za-z]{2,}", part)]


def counts(solution: NotebookNode, learner: NotebookNode) -> dict[str, float]:
    """What stands in a lesson: the columns of the table, by name."""
    markdown = [cell for cell in solution.cells if cell.cell_type == "markdown"]
    read = [cell.source for cell in markdown if cell.get("id") not in links.IDS]
    text = "\n\n".join(read)
    code = [cell for cell in solution.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    asked = [name for cell in code for name in bet_source.read(cell.source).asked]
    return {
        "sections": len(re.findall(r"(?m)^## \d", text)),
        "exercises": len(re.findall(r"(?m)^### Exercise", text)),
        "figures": sum(map(_is_picture, outputs)),
        "rows": sum(
            len(re.findall(r"(?m)^▪", saved_notebook.as_text(output))) for output in outputs
        ),
        "bets": len(asked),
        "lines": sum(map(_open_lines, learner.cells)),
        **density(text),
    }


def _open_lines(cell: NotebookNode) -> int:
    is_folded = cell.metadata.get("jupyter", {}).get("source_hidden")
    if cell.cell_type != "code" or is_folded:
        return 0
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def _is_picture(output: NotebookNode) -> bool:
    data = output.get("data", {})
    page = data.get("text/html", "")
    return bool({"image/png", "image/svg+xml"} & set(data)) or "<svg" in page or "<img" in page


def table() -> str:
    """What `counts` says of every lesson, below what each part may have, as a table."""
    rows = []
    for part, limit in LIMITS.items():
        rows.append([f"at most, {part}", *map(_number, map(limit.get, COLUMNS)), *[""] * 4])
    lessons = {path: of_lesson(path) for path in sorted(SOLUTIONS.glob("*.ipynb"))}
    together = {name: sum(found[name] for found in lessons.values()) for name in COLUMNS}
    rows.append(["together", *map(_number, together.values()), *[""] * 4])
    for path, found in lessons.items():
        shown = [_number(found[name]) for name in (*COLUMNS, *DENSITY[:2])]
        shown += [f"{found[name]:.1f}" for name in DENSITY[2:]]
        rows.append([number_of(path.name), *shown])
    return _words.table(["", *COLUMNS, *DENSITY], rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def of_lesson(solution: Path) -> dict[str, float]:
    """The counts of a lesson, of both copies as they are stored, and its minutes."""
    both = (solution, NOTEBOOKS / f"{lesson_of(solution)}.ipynb")
    found = counts(*(nbformat.v4.reads(path.read_text(encoding="utf-8")) for path in both))
    return {"minutes": outline.rows()[number_of(solution.name)].minutes, **found}


def too_much(solution: Path) -> list[str]:
    """Where a lesson is above what its part may have."""
    found = of_lesson(solution)
    limits = LIMITS[outline.rows()[number_of(solution.name)].part].items()
    return [
        f"{_number(found[name])} {name}, {_number(most)} is the limit"
        for name, most in limits
        if found[name] > most
    ]


def counted(page: str) -> str:
    """CONTRIBUTING with today's table."""
    today = f"{table()}\n"
    return re.sub(r"(<!-- counts -->\n\n)(?:\|.*\n)+", lambda found: f"{found[1]}{today}", page)


if __name__ == "__main__":
    utf8_output()
    print(table())
