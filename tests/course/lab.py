"""JupyterLab as the README's own command starts it, and a browser with the network cut: one server
for all tests.

Without Chromium the tests that use them are skipped; `.ci/run` installs it.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from nbformat import v4

from course_tools import authoring
from course_utils.course import copies

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
NAME, LEFT_OUT = "02_residual_stream.ipynb", "## 4 · "  # what comes after it runs under nbval
EXPLORER = "04_one_layer.ipynb"
ASKED = [(" open", 6), ("assertEqual", 6), ("assertEqual", 2), (" for", 2), ("<", 2)]
# before it says so, a dialog may ask for a kernel
READY = "#jp-main-statusbar >> text=/ipykernel.* Idle/"
PATIENCE = 400_000  # milliseconds, for what takes seconds on a quiet machine
TRACKER = "notebook-extension/tracker"
ALL_CELLS = {"windowingMode": "none"}  # they stay in the page, where a test finds them
THEMES = "apputils-extension/themes"
SMALL = {  # notebooks of one cell
    "endless.ipynb": "import time\nprint('on and on')\nwhile True:\n    time.sleep(0.1)",
    "heads.ipynb": "import torch\nfrom course_utils import plots\n"
    "plots.attention_heads(torch.rand(3, 4, 4).tril(), ['a', 'b', 'c', 'd'], first=1, layer=0)",
}


def opening(notebook):
    """Of the lesson that is opened, the sections with the first two exercises."""
    end = next(
        number for number, cell in enumerate(notebook.cells) if cell.source.startswith(LEFT_OUT)
    )
    notebook.cells = notebook.cells[:end]
    return notebook


def in_browser(test):
    """A single test with the marks of a file whose tests all need a browser."""
    for mark in pytestmark:
        test = mark(test)
    return test


def printed(page):
    """The sizes of the pages that a browser prints, in points."""
    found = page.pdf(prefer_css_page_size=True)
    page.close()
    return [
        tuple(map(float, box)) for box in re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", found)
    ]


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


@pytest.fixture(scope="session")
def server(tmp_path_factory, commands):
    """JupyterLab as the README starts it, with a home of its own: the folder of the copies, and the
    address.
    """
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
    start = (
        commands("README.md", "start").split(" && ")[-1].replace(".venv/bin/python", sys.executable)
    )
    folder = home / copies.FOLDER
    with open(home / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*start.split(), "--folder", folder], cwd=home, env=environment, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + PATIENCE / 1000
        while not (
            found := [file for file in runtime.glob("jpserver-*.json") if file.stat().st_size]
        ):
            assert process.poll() is None and time.monotonic() < deadline, (home / "log").read_text(
                encoding="utf-8"
            )
            time.sleep(0.2)
        (folder / NAME).write_text(
            v4.writes(opening(authoring.read_notebook(folder / NAME))), encoding="utf-8"
        )
        lesson = authoring.read_notebook(folder / EXPLORER)
        (shown,) = (n for n, cell in enumerate(lesson.cells) if "explore.show(" in cell.source)
        lesson.cells = lesson.cells[: shown + 1]  # what comes after it runs under nbval
        asked = (
            f"import json\nprint(json.dumps([explore.rows(token, head) for token, head in "
            f"{ASKED}]))"
        )
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
        # CI may run as root
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def memory(server):
    """The kernels that a file's tests have started end with it."""
    yield
    _, info = server
    for path in ("api/sessions", "api/kernels"):
        with urlopen(f"{info['url']}{path}?token={info['token']}") as answer:
            found = json.load(answer)
        for one in found:
            urlopen(
                Request(f"{info['url']}{path}/{one['id']}?token={info['token']}", method="DELETE")
            ).close()


@pytest.fixture
def open_notebook(server, browser, memory):
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
    """What JupyterLab says of a trouble of its own: that a kernel, its port taken by another, had
    to start again.
    """
    warnings.warn(f"JupyterLab said: {dialog.inner_text()}", stacklevel=1)
    dialog.locator("button").last.click()


def start_all(page):
    """Run all cells; again if JupyterLab, busy with opening the notebook, forgot the click."""
    dialog = page.locator(".jp-Dialog")
    page.add_locator_handler(dialog, put_away)
    for _ in range(5):
        menu(page, "Run", "Run All Cells")
        page.wait_for_timeout(3_000)
        if "[ ]:" not in page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts():
            break
    page.remove_locator_handler(dialog)


def run_all(page):
    """Run all cells and wait until each has its number: folded cells show none, and the last may be
    one of them.
    """
    start_all(page)
    page.wait_for_function("""[...document.querySelectorAll(
            '.jp-CodeCell .jp-InputPrompt:not(.jp-Placeholder-prompt)')]
        .every(prompt => /\\[\\d+\\]/.test(prompt.innerText))""")
    page.wait_for_selector(READY)


def wait_until(page, condition, otherwise):
    """Until the condition holds; a sleep in between would hold up the page's requests too."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        page.wait_for_timeout(200)
