"""The microscope where it is used: in JupyterLab, by mouse and by keyboard; and reopened.

Without Chromium these tests are skipped. No request leaves the machine: `open_notebook` holds every
page to that.
"""

from statistics import median

import lab
import pytest
from lab import menu, start_all, wait_until
from nbformat import v4

from course_tools import authoring
from course_utils import load, paths

pytestmark = lab.pytestmark
NAME = "microscope.ipynb"
TEXT = "def lantern_row(path):\n    return path\n\ndef lantern_row"
SOURCE = f"""from course_utils import load, microscope
model = load("two-layer")
text = {TEXT!r}
microscope.show(model, text, heads=[(0, 5), (1, 6)])"""
LIVE = ".micro-live"
SECONDS = 0.2  # the answer to a cut, on two cores with nothing else to do


@pytest.fixture
def page(server, open_notebook):
    """The notebook with one microscope, run."""
    folder, _ = server
    notebook = v4.new_notebook(cells=[v4.new_code_cell(SOURCE)], metadata=authoring.METADATA)
    (folder / NAME).write_text(v4.writes(notebook), encoding="utf-8")
    page = open_notebook(NAME)
    start_all(page)
    page.wait_for_selector(f"{LIVE} .tok")
    page.wait_for_selector(".microscope-still", state="hidden")  # only one of the two is seen
    return page


@pytest.fixture(scope="module")
def model():
    return load("two-layer")


def shown(share):
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def probability(page):
    """The first row of the predictions: (token, now, before)."""
    row = page.locator(f"{LIVE} [data-do=ask]").first
    now, before = row.locator(".n").all_inner_texts()
    return int(row.get_attribute("data-key")), now, before


def cuts(page):
    return page.locator(f"{LIVE} .change .small").inner_text().removeprefix("without ")


def becomes(page, found, expected):
    wait_until(
        page, lambda: found(page) == expected, lambda: f"{found(page)!r} shown, not {expected!r}"
    )


def active(page):
    return page.evaluate("(e => e.dataset.do + ' ' + e.dataset.key)(document.activeElement)")


def expected(model, *switched_off):
    run = paths.run(model, model.to_tokens(TEXT)[0], *switched_off)
    p = run.logits[-1].softmax(-1)
    return int(p.argmax()), p


def test_the_mouse_sees_asks_and_cuts(page, model):
    token, p = expected(model)
    assert probability(page) == (token, shown(p.max()), "")
    arcs = page.locator(f"{LIVE} .arcs path")
    drawn = arcs.first.get_attribute("d")
    page.hover(f"{LIVE} .tok[data-key='12']")
    wait_until(page, lambda: arcs.first.get_attribute("d") != drawn, lambda: "the arcs stay")
    page.hover(f"{LIVE} .tabs")
    wait_until(
        page, lambda: arcs.first.get_attribute("d") == drawn, lambda: "the arcs do not come back"
    )

    page.click(f"{LIVE} .switch[data-key='0.5']")
    becomes(page, cuts, "head 0.5")
    best, without = expected(model, (0, 5))
    assert probability(page) == (best, shown(without.max()), shown(p[best]))
    name, before, _, now = page.locator(f"{LIVE} .big > *").all_inner_texts()
    assert (name, before, now) == (model.to_string([token]), shown(p.max()), shown(without[token]))
    assert page.locator(f"{LIVE} .arcs .was").count()  # attention as it was, beside what it is
    page.click(f"{LIVE} [data-do=reset]")
    becomes(page, cuts, "")

    page.click(f"{LIVE} [data-key=doors]")
    page.click(f"{LIVE} .door[data-key='0.5k1.6']")
    becomes(page, cuts, "0.5 in the keys of 1.6")
    page.click(f"{LIVE} .tok[data-key='7']")
    page.click(f"{LIVE} .switch[data-key='7']")
    becomes(page, cuts, "0.5 in the keys of 1.6, position 7")
    page.click(f"{LIVE} .tok[data-key='20']")
    best, without = expected(model, ((0, 5), "k", (1, 6)), 7)
    becomes(page, probability, (best, shown(without.max()), shown(p[best])))

    asked = page.locator(f"{LIVE} [data-do=ask]").nth(1)
    name = asked.locator("code").text_content()
    asked.click()
    page.wait_for_selector(f"{LIVE} .caption code:text-is('{name}')")
    page.click(f"{LIVE} .name[data-key='1.1']")
    page.wait_for_selector(f"{LIVE} .name[data-key='1.1'][aria-pressed=true]")


def test_the_keyboard_does_all_of_it(page, model):
    page.locator(f"{LIVE} .tok.sel").focus()
    assert page.evaluate("document.activeElement.matches(':focus-visible')")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert active(page) == "select 18"
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{LIVE} .tok.sel[data-key='18']")
    page.keyboard.press("x")
    becomes(page, cuts, "position 18")
    page.keyboard.press("Escape")
    becomes(page, cuts, "")
    assert active(page) == "select 18"  # the drawing is new, the focus is where it was

    for _ in range(12):  # over the predictions and the switches, to the heads
        page.keyboard.press("Tab")
        if active(page).startswith("open"):
            break
    assert active(page) == "open 1.0"
    page.keyboard.press("ArrowRight")
    assert active(page) == "open 1.1"
    page.keyboard.press("x")
    becomes(page, cuts, "head 1.1")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{LIVE} .name[data-key='1.1'][aria-pressed=true]")
    for key, view in enumerate(("attention", "stream", "paths", "doors"), 1):
        page.keyboard.press(str(key))
        page.wait_for_selector(f"{LIVE} [role=tab][aria-selected=true][data-key='{view}']")
    page.keyboard.press("v")
    page.wait_for_selector(f"{LIVE} [data-do=weighted][aria-pressed=true]")
    for _ in range(20):
        page.keyboard.press("Tab")
        if active(page) == "doors q":
            break
    for _ in range(30):
        page.keyboard.press("ArrowRight")
        if active(page) == "cut 0.5k1.1":
            break
    page.keyboard.press("x")
    becomes(page, cuts, "head 1.1, 0.5 in the keys of 1.1")
    assert page.locator(".jp-Cell").count() == 1  # x cut no cell of the notebook


CLICK = """async key => {
    const said = document.querySelector('.micro-live .change');
    const start = performance.now();
    await new Promise(done => {
        new MutationObserver((_, seen) => { seen.disconnect(); done(); }).observe(said,
            {childList: true, subtree: true, characterData: true, attributes: true});
        document.querySelector(`.micro-live .switch[data-key="${key}"]`).click();
    });
    return (performance.now() - start) / 1000;
}"""


def test_a_cut_is_answered_at_once(page):
    seconds = [page.evaluate(CLICK, "0.5") for _ in range(15)]
    assert min(seconds) < SECONDS, (
        f"{min(seconds):.2f} s at best, {median(seconds):.2f} in the middle"
    )


def test_a_reopened_notebook_shows_the_still_picture_and_no_error(page, server, open_notebook):
    folder, _ = server
    page.click(f"{LIVE} .switch[data-key='0.5']")
    becomes(page, cuts, "head 0.5")
    menu(page, "File", "Save Notebook")
    wait_until(
        page,
        lambda: "microscope-still" in (folder / NAME).read_text(encoding="utf-8"),
        lambda: "it was not saved",
    )
    assert len((folder / NAME).read_bytes()) < 200_000
    menu(page, "Kernel", "Shut Down Kernel")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=unknown]", state="attached")
    again = open_notebook(NAME)
    picture = again.locator(".microscope-still > img")
    picture.wait_for()
    wait_until(
        again,
        lambda: again.locator("text=model not found").count() == 1,
        lambda: "JupyterLab found the dead widget",
    )
    assert again.locator("text=model not found").is_hidden()
    assert picture.evaluate("image => image.naturalWidth") > 700
    assert picture.get_attribute("alt").startswith("A model with 2 layers, 16 heads, on 21 tokens.")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The lesson as it is stored."""
    heading = v4.new_markdown_cell("# The microscope")
    notebook = v4.new_notebook(
        cells=[heading, v4.new_code_cell(SOURCE)], metadata=authoring.METADATA
    )
    return authoring.execute(notebook, tmp_path_factory.mktemp("stored"))


def test_a_stored_lesson_holds_the_still_picture_alone(stored):
    (output,) = stored.cells[1].outputs
    assert set(output.data) == {"text/html", "text/plain"}
    assert authoring.problems(stored) == []
