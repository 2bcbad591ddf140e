"""The front door: README, the start command and `00_start`, as somebody meets them who has been
told nothing.

The pages are JupyterLab's in a real browser; without Chromium those tests are skipped.
"""

import html
import json
import os
import re
import socket
import subprocess
import sys
import time

import lab
import pytest
from lab import READY, TRACKER, run_all, settings, start_all
from nbformat import v4

from course_lessons.l00_start import figures as lesson_00
from course_tools import authoring, contents, links
from course_utils._files import NOTEBOOKS, ROOT, lesson_of
from course_utils.course import outline, start

START = authoring.read_notebook(authoring.solution_path("00_start"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXERCISE = "alphabet_weights"  # of lesson 03


# README and the notebook, as they are stored


def test_readme_has_every_lesson_once_with_its_title():
    assert contents.tabled(README) == README, "run python -m course_tools.authoring --links"
    listed = re.findall(r"\b(\d\d[a-z]?) (?:\| )?\[(.+?)\]\((notebooks/.+?)\)", README)
    assert [number for number, *_ in listed] == list(outline.rows())
    titles = authoring.titles()
    for number, title, target in listed:
        lesson = lesson_of(ROOT / target)
        assert (ROOT / target).is_file() and titles[lesson].startswith(f"{number} · {title}")


def test_minutes_are_those_that_lessons_print_and_add_up():
    for row in outline.rows().values():
        (path,) = authoring.SOLUTIONS.glob(f"{row.lesson}_*.ipynb")
        opening = "\n".join(cell.source for cell in authoring.read_notebook(path).cells[:5])
        assert row.lesson == "00" or int(re.search(r"(\d+) minutes", opening)[1]) == row.minutes
    spine = README.partition("<!-- spine -->")[2].partition("<!-- depth -->")[0]
    minutes = [int(row) for row in re.findall(r"\? \| (\d+) \|$", spine, flags=re.MULTILINE)]
    assert len(minutes) == 9 and f"| **{sum(minutes):,}** |" in spine


def test_readme_says_in_words_how_many_lessons_there_are():
    assert "Nine Jupyter lessons lead" in README and "eighteen more go deeper" in README
    spine = len(outline.part("spine"))
    assert (spine, len(outline.rows()) - spine) == (9, 18), "README's first lines count them"


def test_a_newcomer_reads_readme_in_a_minute_or_two():
    assert len(README.splitlines()) <= 70


def test_every_link_and_picture_of_readme_is_there():
    found = [*re.findall(r"\]\(([^)#]+)\)", README), *re.findall(r'src="([^"]+)"', README)]
    assert "notebooks/microscope.svg" in found
    for target in found:
        assert target.startswith("https://transformer-circuits.pub/") or (ROOT / target).exists(), (
            target
        )


def test_readme_says_what_it_is_and_how_to_start_on_its_first_screen():
    opening = README.split("## ")[0]
    for needed in (
        'alt="A model with 2 layers',
        "For everyone who knows Python",
        "<!-- start command -->",
    ):
        assert needed in opening
    assert len(re.sub(r"<img.*?>|https?://\S+", "", opening.split("```")[0]).split()) < 120


def test_the_start_is_short():
    code = [cell for cell in START.cells if cell.cell_type == "code"]
    words = " ".join(cell.source for cell in START.cells if cell.cell_type == "markdown").split()
    assert len(code) <= 6 and len(words) <= 400
    opened = [cell for cell in code if not authoring.FOLDED & {*cell.metadata.get("tags", [])}]
    assert all(len(cell.source.splitlines()) <= 12 for cell in opened)


def test_the_learners_start_shows_its_first_picture_before_anything_runs():
    learner = authoring.read_notebook(NOTEBOOKS / start.FIRST)
    first = next(cell for cell in learner.cells if cell.cell_type == "code")
    assert "microscope-still" in first.outputs[0].data["text/html"]
    assert not any(cell.get("outputs") for cell in learner.cells if cell.id != first.id)


def test_nobodys_progress_is_stored():
    (cell,) = (cell for cell in START.cells if "progress.Overview" in cell.source)
    (line,) = cell.outputs
    assert line.text == "From your notebooks as you last saved them:\n"


def test_the_map_has_every_lesson_once():
    words = re.search('alt="(.*?)"', lesson_00.course_map().data)[1]
    for lesson, title in authoring.titles().items():
        number, _, rest = title.partition(" · ")
        if f"{lesson}.ipynb" != links.CONTENTS:
            assert html.unescape(words).count(f"{number} {rest}") == 1
    stored = [
        output.data.get("text/html", "")
        for cell in START.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert any(words in page for page in stored), (
        "the stored map is an old one: author 00_start anew"
    )


# The server


@pytest.mark.built
def test_it_starts_where_the_port_is_taken_and_touches_no_configuration(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config, runtime = tmp_path / ".jupyter", tmp_path / "runtime"
        config.mkdir()
        (config / "jupyter_server_config.json").write_text('{"ServerApp": {"allow_root": true}}')
        own = {
            "HOME": str(tmp_path),
            "JUPYTER_CONFIG_DIR": str(config),
            "JUPYTER_RUNTIME_DIR": str(runtime),
        }
        command = [
            sys.executable,
            *f"-m course_utils --folder mine --no-browser --port {port}".split(),
        ]
        with open(tmp_path / "log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                command, cwd=tmp_path, env=os.environ | own, stdout=log, stderr=log
            )
        try:
            deadline = time.monotonic() + 120
            while not (
                found := [file for file in runtime.glob("jpserver-*.json") if file.stat().st_size]
            ):
                printed = (tmp_path / "log").read_text(encoding="utf-8")
                assert process.poll() is None and time.monotonic() < deadline, printed
                time.sleep(0.2)
            info = json.loads(found[0].read_text(encoding="utf-8"))
            assert info["port"] != port and info["root_dir"] == str((tmp_path / "mine").resolve())
        finally:
            process.terminate()
            process.wait(timeout=60)
    # Jupyter's own mark
    assert {file.name for file in config.rglob("*")} <= {"jupyter_server_config.json", "migrated"}


# The pages


@pytest.fixture
def first_page(server, open_notebook):
    """What the start command opens, on a usual screen."""
    _, info = server
    page = open_notebook(start.FIRST)
    page.set_viewport_size({"width": 1366, "height": 768})
    # the root leads where JupyterLab's own browser would go
    page.goto(f"{info['url']}?token={info['token']}")
    page.wait_for_selector(READY)
    assert start.FIRST in page.url
    return page


@lab.in_browser
def test_the_first_screen_has_a_picture_no_question_and_the_list_of_lessons(first_page):
    picture = first_page.locator(".microscope-still > img")
    picture.wait_for()
    assert picture.bounding_box()["y"] < 768 * 0.6
    first_page.wait_for_timeout(2_000)
    assert (
        not first_page.locator(".jp-Dialog").count()
        and not first_page.locator(".jp-toastContainer button").count()
    )
    names = first_page.locator(".jp-DirListing-itemText").all_inner_texts()
    assert names[0] == start.FIRST and "04_one_layer.ipynb" in names
    assert [name for name in names if not name.endswith(".ipynb")] == ["AGENTS.md", "GLOSSARY.md"]


@lab.in_browser
def test_one_key_brings_the_picture_alive_and_one_cut_breaks_the_prediction(first_page):
    first_page.locator(".jp-CodeCell .cm-content").first.click()
    first_page.wait_for_timeout(3_000)  # a kernel starts with the notebook
    begin = time.monotonic()
    first_page.keyboard.press("Shift+Enter")
    live = first_page.locator(".micro-live")
    live.locator(".switch.asks[data-key='0.5']").wait_for()
    assert time.monotonic() - begin < 5, "live within three seconds on a quiet machine"
    live.locator(".switch[data-key='0.5']").click()
    live.locator(".change.cut").wait_for()
    assert live.locator(".big").inner_text().split() == ["per", "100", "%", "→", "1", "%"]


@lab.in_browser
def test_lines_of_prose_are_of_a_length_to_read(first_page):
    for width, height in ((1366, 768), (1920, 1080)):
        first_page.set_viewport_size({"width": width, "height": height})
        first_page.wait_for_timeout(1_000)
        assert 60 < first_page.evaluate(LONGEST) <= 95


LONGEST = """() => {  // the longest line of a paragraph, in characters
        const lines = [];
        for (const p of document.querySelectorAll('.jp-RenderedMarkdown > p')) {
            const range = document.createRange(), rows = {};
            const walk = document.createTreeWalker(p, NodeFilter.SHOW_TEXT);
            for (let node; node = walk.nextNode();)
                for (let i = 0; i < node.length; i++) {
                    range.setStart(node, i); range.setEnd(node, i + 1);
                    const row = Math.round(range.getBoundingClientRect().bottom / 8);
                    rows[row] = (rows[row] || 0) + 1;
                }
            lines.push(...Object.values(rows));
        }
        return Math.max(...lines);
    }"""


def _shows(page, name, text, within=lab.PATIENCE / 1000):
    """Whether the notebook of this name is in front and a heading with this text in sight, within
    so many seconds.
    """
    page.wait_for_selector(f".lm-mod-current .lm-TabBar-tabLabel:text-is('{name}')")
    heading = page.locator(
        ".jp-NotebookPanel:not(.lm-mod-hidden) :is(h1, h2, h3)", has_text=text
    ).first
    heading.wait_for()
    deadline = time.monotonic() + within
    while not 0 <= (heading.bounding_box() or {"y": -1})["y"] < page.viewport_size["height"]:
        if time.monotonic() > deadline:
            return False
        page.wait_for_timeout(200)
    return True


@lab.in_browser
def test_from_the_start_to_a_lesson_an_exercise_the_solution_and_back(first_page, server):
    page = first_page
    run_all(page)
    begin = page.locator(".jp-OutputArea-output a", has_text="01 · ").first
    begin.click()
    assert _shows(page, "01_transformer.ipynb", "01 · ")
    page.click(f".lm-TabBar-tabLabel:text-is('{start.FIRST}')")
    page.locator(f".jp-OutputArea-output a[title^='{EXERCISE}']").click()
    page.wait_for_selector(".lm-mod-current .lm-TabBar-tabLabel:text-is('03_zero_layers.ipynb')")
    lesson = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    lesson.locator("a", has_text=links.SOLUTION).first.click()
    # it opens, though the list of files does not show it
    assert _shows(page, "03_solution_zero_layers.ipynb", "03 · ")
    page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) a", has_text="Contents").first.click()
    page.wait_for_selector(f".lm-mod-current .lm-TabBar-tabLabel:text-is('{start.FIRST}')")


@lab.in_browser
@pytest.mark.parametrize(
    "exercise, file", [(EXERCISE, "03_zero_layers.ipynb"), ("by_hand", "05_max_of_list.ipynb")]
)
def test_an_exercises_link_leads_to_its_place(server, open_notebook, exercise, file):
    folder, _ = server
    with settings(
        folder.parent, TRACKER, {}
    ):  # as learners have it; with ALL_CELLS JupyterLab stays at the top
        page = open_notebook(start.FIRST)
        start_all(page)
        link = page.locator(f".jp-OutputArea-output a[title^='{exercise}']")
        link.click()
        if not _shows(
            page, file, exercise, within=60
        ):  # JupyterLab, busy with opening it, may forget where
            page.click(f".lm-TabBar-tabLabel:text-is('{start.FIRST}')")
            link.click()
            assert _shows(page, file, exercise)


@lab.in_browser
def test_who_comes_back_goes_on_where_they_stopped(server, open_notebook):
    folder, _ = server
    lesson = authoring.read_notebook(folder / "03_zero_layers.ipynb")
    cells = {
        cell.source.splitlines()[0]: cell
        for cell in lesson.cells
        if "check.direct_path(" in cell.source
    }
    (cell,) = cells.values()
    cell.update(execution_count=1, outputs=[v4.new_output("stream", text="✓ direct_path\n")])
    (folder / "03_zero_layers.ipynb").write_text(v4.writes(lesson), encoding="utf-8")
    page = open_notebook(start.FIRST)
    start_all(page)
    page.get_by_text("Go on where you stopped").wait_for()
    page.locator(".jp-OutputArea-output b a").first.click()
    page.wait_for_selector(".lm-mod-current .lm-TabBar-tabLabel:text-is('03_zero_layers.ipynb')")
