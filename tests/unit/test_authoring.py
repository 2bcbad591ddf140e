"""Solutions → learner notebooks."""

import copy
import textwrap

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_tools import authoring
from course_utils._files import get_back, lesson_of
from course_utils.course import saved_notebook

ANSWER = textwrap.dedent("""\
    def direct_path(W_E, W_U):
        # rows are the current token
        ### BEGIN SOLUTION
        return W_E @ W_U
        ### END SOLUTION
    """).strip()


def _executed(source, *outputs, tags=()):
    return new_code_cell(
        source, execution_count=1, outputs=list(outputs), metadata={"tags": list(tags)}
    )


def _solution(*cells):
    return new_notebook(cells=[new_markdown_cell("# Zero layers"), *cells])


def _stream(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def _display(**data):
    return new_output(
        "display_data", data={mime.replace("_", "/"): value for mime, value in data.items()}
    )


def test_derive_blanks_the_answer_and_keeps_the_rest():
    solution = _solution(_executed(ANSWER, tags=["claim"]), _executed("print(1)", _stream("1\n")))
    heading, exercise, check = authoring.derive(solution).cells
    assert heading.source == "# Zero layers"
    assert exercise.source.splitlines() == [*ANSWER.splitlines()[:2], f"    {saved_notebook.STUB}"]
    assert (
        check.source.strip() == "print(1)" and check.outputs == [] and check.execution_count is None
    )
    assert exercise.metadata.tags == ["claim"]
    assert [cell.id for cell in (heading, exercise, check)] == [cell.id for cell in solution.cells]


@pytest.mark.parametrize("tag", ["claim", "identity", "bet", "folded"])
def test_bookkeeping_is_folded_in_both_copies(tag):
    science, folded = _executed("x = 1"), _executed('claim("one", x)', tags=[tag])
    for notebook in (
        authoring.tidy(_solution(science, folded)),
        authoring.derive(_solution(science, folded)),
    ):
        _, first, second = notebook.cells
        assert "jupyter" not in first.metadata and second.metadata["jupyter"] == {
            "source_hidden": True
        }


def test_what_follows_a_bet_is_folded_in_the_learners_copy():
    claim = _executed('claim("one", 1, predicted="01_one")', tags=["claim"])
    told, after = (
        new_markdown_cell("It is **one**.\n\n## 2 · More\n\nOn."),
        new_markdown_cell("It is one."),
    )
    cells = authoring.derive(_solution(claim, told, after)).cells
    head, _, rest = cells[2].source.partition("</details>\n\n")
    assert (
        head.startswith("<details><summary>")
        and "It is **one**." in head
        and rest == "## 2 · More\n\nOn."
    )
    assert cells[3].source == "It is one."
    heading = new_markdown_cell("## 2 · More")
    assert authoring.derive(_solution(claim, heading)).cells[2].source == heading.source


@pytest.mark.parametrize(
    ("source", "tag", "name"),
    [
        ('predict("a", "b?")', "bet", "# Your bet: run me"),
        ('claim("a", 1)\nidentity("b", 1, 1)', "claim", "# What came out"),
        ('identity("b", 1, 1)', "identity", "# What must hold"),
        ("calibration()", "folded", "# Your bets so far"),
        (
            'calibration()\nsources_and_ours("a")',
            "folded",
            "# What the paper found, and what we found",
        ),
    ],
)
def test_a_folded_cell_is_named_by_its_first_line(source, tag, name):
    cells = authoring._named(_solution(_executed(source, tags=[tag]), _executed(source))).cells
    assert cells[1].source == f"{name}\n{source}" and cells[2].source == source
    named = _solution(_executed(f"# As I like it\n{source}", tags=[tag]))
    assert authoring._named(named).cells[1].source.startswith("# As I like it\n")


def test_every_folded_cell_of_the_course_is_named(subtests):
    for path in authoring.lessons():
        with subtests.test(lesson_of(path)):
            notebook = authoring.read_notebook(path)
            assert authoring._named(copy.deepcopy(notebook)) == notebook


def test_no_open_cell_needs_a_folded_one():
    """Who passes over a folded cell meets no NameError; the lessons are held by `problems`."""
    folded = _executed('import math\nx = 1\nclaim("one", x)', tags=["claim"])
    used = _executed("def f(y):\n    return x + y\n\n\n[math.pi for y in range(3)]")
    (first, second) = authoring.source_problems(_solution(folded, used))
    assert "needs `math`, which only a folded cell makes" in first and "needs `x`" in second
    for fine in (
        [_executed("import math\n\nx = 2"), folded, used],
        [folded, _executed("import math\n\nx = 2\nx + math.pi")],
        [folded, _executed("def f(x, math):\n    return x + math")],
        [folded, _executed("[x for x in range(3)]")],
    ):
        assert not authoring.source_problems(_solution(*fine))


def test_blank_stops_nothing_until_it_is_called():
    names = {}
    exec(authoring.derive(_solution(_executed(ANSWER))).cells[1].source, names)
    with pytest.raises(NotImplementedError):
        names["direct_path"](None, None)


def test_same_bytes_on_repeat(tmp_path):
    solution = _solution(_executed(ANSWER), _executed("1 + 1", _stream("2\n")))
    for cell in solution.cells:  # as an editor without cell ids leaves them
        del cell["id"]
    solution.cells[2].id = "cell-1"
    text, learner = authoring.dumps(solution), authoring.dumps(authoring.derive(solution))
    assert (text, learner) == (
        authoring.dumps(solution),
        authoring.dumps(authoring.derive(solution)),
    )
    (tmp_path / "solution.ipynb").write_text(text, encoding="utf-8")
    again = authoring.read_notebook(tmp_path / "solution.ipynb")
    assert (text, learner) == (authoring.dumps(again), authoring.dumps(authoring.derive(again)))
    assert [cell.id for cell in again.cells] == ["cell-0", "cell-2", "cell-1"]


def test_copied_cell_gets_an_id_of_its_own():
    notebook = _solution(_executed("1"))
    notebook.cells.append(copy.deepcopy(notebook.cells[1]))
    _, first, second = authoring.tidy(notebook).cells
    assert first.id == notebook.cells[1].id != second.id


def test_tidy_strips_what_varies():
    cell = _executed(
        "1",
        _display(
            text_plain="0%", **{"application_vnd.jupyter.widget-view+json": {"model_id": "5c"}}
        ),
    )
    cell.metadata.execution = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
    notebook = _solution(cell)
    notebook.metadata = {
        "kernelspec": {"name": "my-venv"},
        "language_info": {"name": "python", "version": "3.11.2"},
    }
    tidied = authoring.tidy(notebook)
    assert tidied.metadata == authoring.METADATA
    assert tidied.cells[1].metadata == {} and tidied.cells[1].outputs[0].data == {
        "text/plain": "0%"
    }
    assert notebook.metadata.kernelspec.name == "my-venv"  # the original is left alone


def test_a_first_picture_stays_in_the_learners_copy():
    picture = _display(text_html='<img alt="a drawing">')
    solution = _solution(
        _executed("show(model)", picture, tags=["first-picture"]), _executed("show(model)", picture)
    )
    _, kept, cleared = authoring.derive(solution).cells
    assert kept.outputs == [picture] and kept.execution_count == 1  # nbval compares it, too
    assert cleared.outputs == [] and cleared.execution_count is None


def test_a_widget_beside_its_still_drawing_leaves_no_empty_output():
    widget = _display(**{"application_vnd.jupyter.widget-view+json": {"model_id": "5c"}})
    still = _display(text_html='<img alt="a drawing">')
    (cell,) = authoring.tidy(_solution(_executed("show(model)", still, widget))).cells[1:]
    assert cell.outputs == [still]


def test_interactive_cell_stores_its_picture_and_words_only():
    picture = _display(text_html='<img src="data:," alt="a diagonal">', text_plain="a diagonal")
    live = _display(
        text_html="<script>" + "x" * 2_000_000, text_plain="Three patterns, for the mouse."
    )
    nameless = _display(
        text_html="<script></script>", text_plain="<IPython.core.display.HTML object>"
    )
    notebook = _solution(_executed("show(pattern)", picture, live, nameless, tags=["interactive"]))
    tidied = authoring.tidy(notebook)
    assert tidied.cells[1].outputs == [
        picture,
        _display(text_plain="Three patterns, for the mouse."),
    ]
    assert tidied.cells[1].metadata.tags == ["interactive", "nbval-ignore-output"]
    assert authoring.problems(tidied) == []


@pytest.mark.parametrize(
    "text", ["VBox(children=(HTML(value=''),))", "FloatSlider(value=0.0)", "HTML(value='')"]
)
def test_a_widget_leaves_nothing_of_itself(text):
    widget = _display(
        text_plain=text, **{"application_vnd.jupyter.widget-view+json": {"model_id": "5c"}}
    )
    (cell,) = authoring.tidy(_solution(_executed("explore()", widget, tags=["interactive"]))).cells[
        1:
    ]
    assert cell.outputs == []


def test_a_table_may_have_a_bare_name_beside_it():
    table = _display(text_markdown="| a |", text_plain="<IPython.core.display.Markdown object>")
    assert (
        authoring.problems(_solution(_executed("sources_and_ours('03')", table, tags=["folded"])))
        == []
    )


def test_good_notebook_has_no_problems():
    cells = [
        _executed(ANSWER),
        _executed('claim("two", 2)\nprint(2)', _stream("2\n"), tags=["C11b", "claim"]),
        _executed("\n".join(["x = 1"] * 20), tags=["live-training"]),
    ]
    assert authoring.problems(_solution(*cells)) == []


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        (_executed(ANSWER.replace("    ### END SOLUTION", "")), "BEGIN without its END"),
        (_executed(ANSWER.replace("    ### BEGIN SOLUTION\n", "")), "BEGIN without its END"),
        (
            _executed(ANSWER.replace("return", "### BEGIN SOLUTION\n    return")),
            "BEGIN without its END",
        ),
        (
            _executed(ANSWER.replace("### END SOLUTION", "### END HIDDEN TESTS")),
            "BEGIN without its END",
        ),
        (_executed(ANSWER.replace("### BEGIN", "## Begin")), "none of the markers"),
        (_executed(ANSWER.replace("### END", "#END")), "none of the markers"),
        (_executed(ANSWER.replace("W_U\n", "W_U  ### END SOLUTION\n")), "none of the markers"),
        (_executed("### BEGIN SOLUTION\nx = 1\n### END SOLUTION"), "outside a function"),
        (new_markdown_cell("### BEGIN SOLUTION\n### END SOLUTION"), "only code is blanked"),
        (_executed("\n".join(["x = 1"] * 21)), "21 lines"),
        (_executed("  "), "is empty"),
        (_executed("open('../data/x')"), "another from notebooks/solutions/"),
        (_executed("1  # NBVAL_SKIP\n# NBVAL_SKIP"), "switches nbval off"),
        (_executed('claim("one", 1)', tags=["C3", "folded"]), "one of the tags claim, identity"),
        (
            _executed('claim("one", 1)', tags=["C3", "claim", "identity"]),
            "one of the tags claim, identity",
        ),
        (_executed("assert 1"), "a bare assert"),
        (new_markdown_cell("claim(1)", metadata={"tags": ["C3", "claim"]}), "states nothing"),
        (_executed("1", tags=["claim"]), "mixes what is folded"),
        (_executed('x = 1\nclaim("one", x)'), "mixes what is folded"),
        (_executed('predict("01_one", "How many?")'), "mixes what is folded"),
        (_executed("1", tags=["C3d"]), 'unknown tag "C3d"'),
        (
            _executed('claim("a", 1)', tags=["claim", "first-picture"]),
            "first-picture and holds an answer",
        ),
        (_executed("1", tags=["nbval-skip"]), 'unknown tag "nbval-skip"'),
        (_executed("1", tags=["nbval-ignore-output"]), "without interactive"),
        (new_code_cell("1"), "has not been executed"),
        (
            _executed("1 / 0", new_output("error", ename="ZeroDivisionError", evalue="by zero")),
            "ZeroDivisionError",
        ),
        (_executed("1", _stream("UserWarning", "stderr")), "stderr"),
        (
            _executed("one = check.one(one)", _stream("✗ one: it is two.\n", "stdout")),
            "rejects our own answer",
        ),
        (
            _executed("one = check.one(one)", _display(text_plain="✗ one: it is two.")),
            "rejects our own answer",
        ),
        (_executed("1", _display(text_html="<script>draw()</script>")), "tag it interactive"),
        (_executed("plt.plot(x)", _display(image_png="iVBORw0KGgo=")), "a picture without words"),
        (
            _executed("show()", _display(text_html='<img src="data:," width="9">')),
            "an image without alt text",
        ),
        (
            _executed("show()", _display(text_html='<img alt="" src="data:,">')),
            "an image without alt text",
        ),
        (_executed("box", _display(text_plain="VBox(children=())")), "bare name of a widget"),
        (
            _executed("show()", tags=["interactive", "nbval-ignore-output"]),
            "shows nothing where it is stored",
        ),
        (
            _executed("f", _display(text_plain="<function f at 0x7f108ae98810>")),
            "memory address 0x7f108ae98810",
        ),
        (_executed("print(f)", _stream("<function f at 0x7f108ae98810>")), "memory address"),
        (_executed("1", _stream("x" * 1_000_000)), "1,000,000 is the limit"),
        (_executed("x = " + "1" * 100), "has a line of 104 characters"),
    ],
)
def test_problems(cell, complaint):
    [problem] = authoring.problems(_solution(cell))
    assert complaint in problem and problem.endswith((".", "…"))


@pytest.fixture
def course(tmp_path, monkeypatch):
    """An empty course, in which `write(*cells)` writes lesson 03's solution and gives its path."""
    monkeypatch.setattr(authoring, "SOLUTIONS", tmp_path / "notebooks" / "solutions")
    authoring.SOLUTIONS.mkdir(parents=True)

    def write(*cells):
        path = authoring.solution_path("03")
        path.write_text(authoring.dumps(_solution(*cells)), encoding="utf-8")
        return path

    return write


def _files():
    return {
        path: path.read_bytes() for path in authoring.SOLUTIONS.parent.rglob("*") if path.is_file()
    }


@pytest.mark.slow
def test_update_then_check(course, capsys):
    path = course(new_code_cell(ANSWER), new_code_cell("for i in range(99): print(i)"))
    assert authoring.main([]) == 0
    first = _files()
    assert set(first) == {path, authoring.learner_path(path)}
    assert [
        cell.execution_count
        for cell in authoring.read_notebook(path).cells
        if cell.cell_type == "code"
    ] == [1, 2]
    assert authoring.main(["notebooks/03.ipynb"]) == 0 and _files() == first  # the same bytes
    assert authoring.main(["--check"]) == 0 and _files() == first

    learner = authoring.learner_path(path)
    learner.write_bytes(learner.read_bytes() + b"\n")
    assert authoring.main(["--check", "03"]) == 1
    learner.unlink()
    assert authoring.main(["--check"]) == 1
    path.write_bytes(
        first[path].replace(b'"name": "python"\n', b'"name": "python", "version": "3.11.2"\n')
    )
    assert authoring.main(["--check"]) == 1
    printed = capsys.readouterr().out
    for complaint in ("copy is out of step", "has no learner copy", "saved by something else"):
        assert complaint in printed


@pytest.mark.slow
def test_failing_cell_is_shown_and_nothing_is_written(course, capsys):
    course(new_code_cell("loss = 1"), new_code_cell("%no_such_magic\nloss / 0"))
    before = _files()
    assert authoring.main([]) == 1 and _files() == before
    printed = capsys.readouterr().out
    for part in (
        'Cell 3 ("%no_such_magic") failed.\n',
        "\n%no_such_magic\nloss / 0\n",
        "UsageError",
    ):
        assert part in printed


TOLD = 'claim("one", 1, predicted="03_one")'


@pytest.mark.parametrize("between", [[], [_executed("x = 1")], [_executed(TOLD, tags=["claim"])]])
def test_no_figure_under_a_prediction_says_in_words_what_it_shows(between):
    asks, told = (
        _executed('predict("03_one", "How many?")', tags=["bet"]),
        _executed(TOLD, tags=["claim"]),
    )
    shows, hides = _executed('plots.show("One.")'), _executed('plots.show(draw.ALT["one"])')
    (problem,) = authoring.source_problems(_solution(asks, *between, shows, told))
    assert "ALT" in problem
    for good in (
        [asks, *between, hides, told],
        [shows, asks, told],
        [asks, *between, told, new_markdown_cell("One!"), shows],
    ):
        assert authoring.source_problems(_solution(*good)) == []


def test_source_problems_are_found_before_anything_runs(course, monkeypatch):
    monkeypatch.setattr(authoring, "execute", None)
    path = course(new_code_cell("### BEGIN SOLUTION"))
    before = _files()
    assert authoring.update(path) and _files() == before


@pytest.mark.slow
def test_work_in_a_learner_copy_is_not_overwritten(course):
    path = course(new_code_cell(ANSWER))
    assert authoring.update(path) == []
    learner = authoring.learner_path(path)
    worked_in = authoring.read_notebook(learner)
    worked_in.cells[2].update(execution_count=1, source="return W_E @ W_U")
    learner.write_text(authoring.dumps(worked_in), encoding="utf-8")
    before = _files()
    (complaint,) = authoring.update(path)
    assert "notebooks/03.ipynb: move it away" in complaint and _files() == before
    learner.rename(learner.with_name("03_mine.ipynb"))
    assert authoring.main([]) == 0 and authoring.learner_notebooks() == [learner]


def test_what_is_saved_while_a_lesson_runs_is_not_written_over(course):
    saves = (
        "from pathlib import Path\npath = "
        "Path('03_solution.ipynb')\npath.write_bytes(path.read_bytes() + b' ');"
    )
    path = course(new_code_cell(saves))
    before = path.read_bytes()
    (complaint,) = authoring.update(path)
    assert "was saved while it ran" in complaint and path.read_bytes() == before + b" "


@pytest.mark.parametrize(
    "name", ["03_zero_layers", "notebooks/03_zero_layers.ipynb", "03_solution_zero_layers"]
)
def test_a_lesson_is_named_as_one_likes(name):
    assert authoring.solution_path(name) == authoring.SOLUTIONS / "03_solution_zero_layers.ipynb"


@pytest.mark.parametrize("path", authoring.lessons(), ids=lesson_of)
def test_lesson_and_solution_differ_in_what_a_tab_shows_of_them(path):
    learner = authoring.learner_path(path)
    assert learner.is_file() and authoring.solution_path(learner.name) == path
    assert learner.name[:12] != path.name[:12]


def test_missing_solution_is_named(course, capsys):
    course(new_code_cell(ANSWER)).rename(authoring.SOLUTIONS.parent / "04.ipynb")
    assert authoring.main(["--check"]) == authoring.main(["05"]) == 1
    assert capsys.readouterr().out.count("no such notebook") == 2


def test_a_course_without_lessons_is_not_in_step(course, capsys):
    with pytest.raises(SystemExit) as caught:
        authoring.main(["--check"])
    assert caught.value.code == 2
    expected = f"There is no lesson in {authoring.SOLUTIONS}. {get_back('notebooks')}\n"
    assert capsys.readouterr().err.endswith(expected)
