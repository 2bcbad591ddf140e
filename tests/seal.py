"""Texts that no test can judge, under a seal: `python -m tests.seal` writes `tests/sealed.json`.

A number in them is compared with what was measured, by other tests. Whether the words are true, a
reader alone can say, beside the values that they stand with. So each text was read, and its SHA-256
is kept together with those values: whoever changes the one or the other reads both once more, and
then runs this. `data/BENCHMARK.md` says what stands under no seal either.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import course_lessons
from course_tools import authoring, links
from course_utils._files import DOCS, NOTEBOOKS, lesson_of, write_text
from course_utils.course import claims, registry, saved_notebook

SEALED = Path(__file__).with_name("sealed.json")
WORDS = {"because", "control", "always", "source"}  # of an entry of a table


def texts() -> Iterator[tuple[str, object]]:
    """The texts by their place, each with the values that it speaks of."""
    course_lessons.import_all()
    for path in authoring.lessons():
        lesson = lesson_of(path)
        entries = claims.table(lesson).items()
        worded = {statement: entry for statement, entry in entries if entry.keys() & WORDS}
        yield f"{lesson}: because, control, always, source", worded
        exercises = saved_notebook.read(path).exercises
        if exercises:
            hints = {name: exercise.hints for name, exercise in exercises.items()}
            yield f"{lesson}: hints", hints
        described = registry.folders[lesson] / "alt.json"
        if described.is_file():
            yield f"{lesson}: figures in words", json.loads(described.read_text(encoding="utf-8"))
    glossary = (NOTEBOOKS / links.GLOSSARY).read_text(encoding="utf-8")
    yield "glossary", glossary
    yield "sources", links.SOURCES
    guide = (DOCS / "TEACHING.md").read_text(encoding="utf-8")
    yield "key of lesson 12", re.findall(r"^\| \d+ \| .* \| [a-d] \| .*$", guide, re.MULTILINE)


def digests() -> dict[str, str]:
    """The SHA-256 of each text, by its place."""
    found = {}
    for place, text in texts():
        written = json.dumps(text, ensure_ascii=False, sort_keys=True)
        found[place] = hashlib.sha256(written.encode()).hexdigest()
    return found


if __name__ == "__main__":
    write_text(SEALED, json.dumps(digests(), indent=1) + "\n")
