"""A learner's first minutes, in the real JupyterLab and a real browser, with the network cut.

The server is started by the README's own command. Without Chromium these tests are skipped; `.ci/run` installs it.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest
from nbformat import v4

from course_utils.author import authoring
from course_utils.course import copies, progress

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
NAME = "02_residual_stream.ipynb"
EXPLORER = "04_one_layer.ipynb"
ASKED = [(" open", 6), ("assertEqual", 6), ("assertEqual", 2), (" for", 2), ("<", 2)]
READY = "#jp-main-statusbar >> text=/ipykernel.* Idle/"  # before it says so, a dialog may ask for a kernel
PATIENCE = 400_000  # milliseconds, for what takes seconds on a quiet machine
TRACKER = "notebook-extension/tracker"
ALL_CELLS = {"windowingMode": "none"}  # they stay in the page, where a test finds them
THEMES = "apputils-extension/themes"
SMALL = {  # notebooks of one cell
    "endless.ipynb": "import time\nprint('on and on')\nwhile True:\n    time.sleep(0.1)",
    "heads.ipynb": "import torch\nfrom course_utils import plots\n"
    "plots.attention_heads(torch.rand(3, 4, 4).tril(), ['a', 'b', 'c', 'd'], first=1, layer=0)",
}


@contextlib.contextmanager
def settings(home, name, chosen):
    """JupyterLab as somebody has set it, for the pages that are opened meanwhile."""
    file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_text(encoding="utf-8") if file.exists() else "{}"
    file.write_text(json.dumps(chosen), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(before, encoding="utf-8")


@pytest.fixture(scope="module")
def server(tmp_path_factory, commands):
    """JupyterLab as the README starts it, with a home of its own: the folder of the copies, and the address."""
    home = tmp_path_factory.mktemp("learner")
    (home / "config").mkdir()
    runtime = Path(tempfile.mkdtemp())  # pytest's own folders are too deep for a socket's name
    config = {"ServerApp": {"allow_root": True, "open_browser": False, "port": 0}}
    if sys.platform == "linux":
        config["KernelManager"] = {"transport": "ipc"}  # conftest.py says why
    (home / "config" / "jupyter_server_config.json").write_text(json.dumps(config))
    environment = os.environ | {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
    }
    start = commands("README.md", "start").split(" && ")[-1].replace(".venv/bin/python", sys.executable)
    folder = home / copies.FOLDER
    with open(home / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*start.split(), "--folder", folder], cwd=home, env=environment, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + PATIENCE / 1000
        while not (found := [file for file in runtime.glob("jpserver-*.json") if file.stat().st_size]):
            assert process.poll() is None and time.monotonic() < deadline, (home / "log").read_text(encoding="utf-8")
            time.sleep(0.2)
        lesson = authoring.read(folder / EXPLORER)
        (shown,) = (n for n, cell in enumerate(lesson.cells) if "explore.show(" in cell.source)
        lesson.cells = lesson.cells[: shown + 1]  # what comes after it runs under nbval
        asked = f"import json\nprint(json.dumps([explore.rows(token, head) for token, head in {ASKED}]))"
        lesson.cells.append(v4.new_code_cell(asked))
        (folder / EXPLORER).write_text(v4.writes(lesson), encoding="utf-8")
        for name, code in SMALL.items():
            notebook = v4.new_notebook(cells=[v4.new_code_cell(code)], metadata=authoring.METADATA)
            (folder / name).write_text(v4.writes(notebook))
        with settings(home, TRACKER, ALL_CELLS):
            yield folder, json.loads(found[0].read_text(encoding="utf-8"))
    finally:
        process.terminate()
        process.wait(timeout=60)
        shutil.rmtree(runtime)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # CI may run as root
        yield browser
        browser.close()


@pytest.fixture
def open_notebook(server, browser):
    """A function that opens one of the lessons; no request of the page leaves this machine."""
    folder, info = server
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    page.set_default_timeout(PATIENCE)
    outside = []

    def only_here(route):
        if route.request.url.startswith((info["url"], "data:", "blob:")):
            return route.continue_()
        outside.append(route.request.url)
        return route.abort()

    page.route("**/*", only_here)

    def open_notebook(name):
        page.goto(f"{info['url']}lab/tree/{name}?reset&token={info['token']}")
        notebook = json.loads((folder / name).read_text(encoding="utf-8"))
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        page.wait_for_function(f"document.querySelectorAll('.jp-CodeCell').length == {len(code)}")
        page.wait_for_selector(READY)
        return page

    yield open_notebook
    page.close()
    assert not outside


def menu(page, name, entry):
    page.click(f".lm-MenuBar-itemLabel:text-is('{name}')")
    page.click(f".lm-Menu-itemLabel:text-is('{entry}')")


def put_away(dialog):
    """What JupyterLab says of a trouble of its own: that a kernel, its port taken by another, had to start again."""
    warnings.warn(f"JupyterLab said: {dialog.inner_text()}", stacklevel=1)
    dialog.locator("button").last.click()


def start_all(page):
    """Run all cells; again if JupyterLab, still busy with opening the notebook, forgot the click."""
    dialog = page.locator(".jp-Dialog")
    page.add_locator_handler(dialog, put_away)
    for _ in range(5):
        menu(page, "Run", "Run All Cells")
        page.wait_for_timeout(3_000)
        if "[ ]:" not in page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts():
            break
    page.remove_locator_handler(dialog)


def run_all(page):
    """Run all cells and wait until each has its number: folded cells show none, and the last may be one of them."""
    start_all(page)
    page.wait_for_function("""[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt:not(.jp-Placeholder-prompt)')]
        .every(prompt => /\\[\\d+\\]/.test(prompt.innerText))""")
    page.wait_for_selector(READY)


def wait_until(page, condition, otherwise):
    """Until the condition holds; no sleep in between, which would hold up the page's requests too."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        page.wait_for_timeout(200)


def rewrite(page, cell, source):
    """Put other code into a cell, as from the clipboard, and run it."""
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(source)
    page.keyboard.press("Shift+Enter")


def test_a_lesson_runs_and_an_exercise_goes_from_blank_to_wrong_to_right(server, open_notebook):
    folder, _ = server
    page = open_notebook(NAME)
    run_all(page)
    outputs = page.locator(".jp-OutputArea-output")
    assert not page.locator("[data-mime-type$='.stderr'], [data-mime-type$='.error']").count()
    solution = authoring.read(authoring.solution_path(NAME))
    stored = [
        output.get("data", {}).get("text/html", "") for cell in solution.cells for output in cell.get("outputs", [])
    ]
    drawn = sum("<img" in html and "microscope-still" not in html for html in stored)
    assert page.locator(".jp-OutputArea-output img:not(.microscope-still *)").count() == drawn > 3
    exercises = [cell for cell in solution.cells if authoring.MARKERS[0] in cell.source]
    assert outputs.filter(has_text="not attempted yet").count() == len(exercises) > 3

    (answer,) = (cell.source for cell in exercises if "check.attribution(" in cell.source)
    cell = page.locator(".jp-CodeCell", has_text="check.attribution(")
    rewrite(page, cell, answer.replace(" - W_U[:, rival]", ""))
    cell.locator("text=✗ attribution").wait_for()
    rewrite(page, cell, answer)
    cell.locator("text=✓ attribution").wait_for()

    assert page.locator(".lm-TabBar-tab.jp-mod-dirty").count() == 1
    menu(page, "File", "Save Notebook")
    page.locator(".lm-TabBar-tab.jp-mod-dirty").wait_for(state="detached")  # half of a file would be no notebook
    assert progress.marks(folder)["02"]["attribution"] == "✓"


def test_a_cell_can_be_interrupted_and_the_kernel_restarted(open_notebook):
    page = open_notebook("endless.ipynb")
    start_all(page)
    cell = page.locator(".jp-CodeCell").first
    cell.locator(".jp-OutputArea-output:has-text('on and on')").wait_for()
    menu(page, "Kernel", "Interrupt Kernel")
    cell.locator("text=KeyboardInterrupt").first.wait_for()
    menu(page, "Kernel", "Restart Kernel…")
    page.click(".jp-Dialog button:has-text('Restart')")
    rewrite(page, cell, "print(6 * 7)")
    cell.locator(".jp-OutputArea-output:has-text('42')").wait_for()
    cell.locator(".jp-InputPrompt:has-text('[1]')").wait_for()  # counting starts anew


def test_circuitsvis_answers_the_mouse(open_notebook):
    page = open_notebook("heads.ipynb")
    start_all(page)
    page.wait_for_selector("h3:text-is('0.1 Zoomed')")  # the head that the text is about
    page.hover("h4:text-is('0.2')")
    page.wait_for_selector("h3:text-is('0.2 Zoomed')")
    assert page.locator(".jp-OutputArea-output canvas").count() == 4  # the heads to choose from, and the chosen one
    page.mouse.move(0, 0)
    page.wait_for_selector("h3:text-is('0.1 Zoomed')")


CONTRASTS = """labels => labels.map(label => {  // of each label, on the ground it stands on
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => numbers(colour).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  let ground = label;
  while (numbers(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
  const both = [label, ground].map((e, i) => light(getComputedStyle(e)[["color", "backgroundColor"][i]]));
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
})"""


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_labels_of_circuitsvis_can_be_read(server, open_notebook, theme):
    folder, _ = server
    with settings(folder.parent, THEMES, {"theme": f"JupyterLab {theme}"}):
        page = open_notebook("heads.ipynb")
        page.wait_for_selector(f"body[data-jp-theme-name$={theme}]", state="attached")
    start_all(page)
    page.wait_for_selector("h3:text-is('0.1 Zoomed')")
    contrasts = page.locator("[id^=circuits-vis] :is(h2, h3, h4)").evaluate_all(CONTRASTS)
    assert len(contrasts) >= 6 and min(contrasts) >= 4.5


def test_the_explorer_of_lesson_04_answers_mouse_and_keyboard(open_notebook):
    page = open_notebook(EXPLORER)
    run_all(page)
    expected = json.loads(page.locator(".jp-CodeCell").last.locator(".jp-OutputArea-output").inner_text())
    assert len({*map(str, expected)}) == len(ASKED)
    live = page.locator(".explorer-live")
    box, said, source = live.locator("input"), live.locator("[role=status]"), live.locator(".source > code")
    assert page.locator(".explorer-still").is_hidden()

    def rows():
        halves = [live.locator("table").nth(n).locator("tbody tr").all_inner_texts() for n in (0, 1)]
        return ["\t".join(line).split("\t") for line in zip(*halves, strict=True)]

    def shows(number, word):
        wait_until(page, lambda: source.inner_text() == word, lambda: f"{source.inner_text()!r} shown, not {word!r}")
        wait_until(page, lambda: rows() == expected[number], lambda: f"{rows()} shown, not {expected[number]}")

    box.fill(" open")
    live.locator("[data-head='6']").click()
    shows(0, "·open")
    box.fill("assertEqual")
    shows(1, "assertEqual")
    live.locator("[data-head='2']").focus()
    page.keyboard.press("Enter")
    shows(2, "assertEqual")
    assert page.evaluate("document.activeElement.dataset.head") == "2"  # the drawing is new, the focus where it was
    for typed in (" for", "·for"):  # a leading space, as itself and as the lesson writes it
        box.fill("assertEqual")
        shows(2, "assertEqual")
        box.fill(typed)
        shows(3, "·for")
    box.fill("<")  # which HTML would swallow
    shows(4, "<")
    for typed, sentence in (("", "Type one token"), ("nosuchthing", "That is 4 tokens")):
        box.fill(typed)
        wait_until(page, lambda: sentence in said.inner_text(), lambda: f"{said.inner_text()!r} shown")  # noqa: B023
        assert rows() == expected[4]  # what was found last stays
    pressed = live.locator("table").last.locator("[data-source]").first
    word = pressed.inner_text()
    pressed.click()
    wait_until(page, lambda: source.inner_text() == word, lambda: f"{source.inner_text()!r} shown, not {word!r}")
    wait_until(page, lambda: not said.inner_text(), lambda: said.inner_text())
    assert box.input_value() == word
