"""The lessons as README and the site's first page list them: the spine, and what is beside it."""

from course_tools import links
from course_utils import _words
from course_utils._files import NOTEBOOKS, SOLUTIONS, lesson_of, solution_file
from course_utils.course import outline, saved_notebook

WHERE = {"beside": "beside {}", "elective": "elective"}


def table(*parts: str) -> str:
    """The lessons of some parts: number, title with a link, question, minutes, and their sum."""
    chosen = [row for row in outline.rows().values() if row.part in parts]
    is_spine = parts == ("spine",)
    rows: list[list[object]] = []
    for row in chosen:
        cells: list[object] = [row.lesson, _link(row.lesson), row.question, row.minutes]
        rows.append(cells if is_spine else [*cells, WHERE[row.part].format(row.beside)])
    total = sum(row.minutes for row in chosen)
    heads = ["", "lesson", "the question it answers", "minutes"]
    if is_spine:
        rows.append(["", "**together**", f"**{total / 60:.1f} hours**", f"**{total:,}**"])
        return _words.table(heads, rows)
    return _words.table([*heads, "where"], rows)


def named(part: str) -> str:
    """The lessons of a part in a line, each with its link."""
    chosen = [row.lesson for row in outline.rows().values() if row.part == part]
    return " · ".join(f"{lesson} {_link(lesson)}" for lesson in chosen)


def tabled(page: str) -> str:
    """README with its lessons as they are today: the spine as a table, the rest in two lines."""
    depth = "\n".join(
        f"* **{title}:** {named(part)}"
        for title, part in {"Companions": "beside", "Electives": "elective"}.items()
    )
    for name, lessons in {"spine": table("spine"), "depth": depth}.items():
        opening, mark, rest = page.partition(f"<!-- {name} -->\n\n")
        _, blank, rest = rest.partition("\n\n")  # what was there
        if mark:
            page = f"{opening}{mark}{lessons}{blank}{rest}"
    return page


def _link(number: str) -> str:
    """A lesson's title, on the filled-in lesson; the start has only one copy that is worth it."""
    (path,) = SOLUTIONS.glob(f"{number}_*.ipynb")
    title = saved_notebook.read(path).title.partition("·")[2].strip()
    if lesson_of(path) == links.START:
        return f"[{title}]({NOTEBOOKS.name}/{links.CONTENTS})"
    return f"[{title}]({NOTEBOOKS.name}/solutions/{solution_file(lesson_of(path))})"
