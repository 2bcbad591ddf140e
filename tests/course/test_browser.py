"""A learner's first minutes, in the real JupyterLab and a real browser, with the network cut."""

import json

import lab
import pytest
from lab import (
    ASKED,
    EXPLORER,
    NAME,
    THEMES,
    menu,
    opening,
    run_all,
    settings,
    start_all,
    wait_until,
)

from course_tools import authoring
from course_utils.course import progress

pytestmark = lab.pytestmark


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
    solution = opening(authoring.read_notebook(authoring.solution_path(NAME)))
    stored = [
        output.get("data", {}).get("text/html", "")
        for cell in solution.cells
        for output in cell.get("outputs", [])
    ]
    drawn = sum("<img" in html and "microscope-still" not in html for html in stored)
    assert page.locator(".jp-OutputArea-output img:not(.microscope-still *)").count() == drawn > 3
    exercises = [cell for cell in solution.cells if authoring.MARKERS[0] in cell.source]
    assert outputs.filter(has_text="not attempted yet").count() == len(exercises) > 1

    (answer,) = (cell.source for cell in exercises if "check.attribution(" in cell.source)
    cell = page.locator(".jp-CodeCell", has_text="check.attribution(")
    rewrite(page, cell, answer.replace(" - W_U[:, rival]", ""))
    cell.locator("text=✗ attribution").wait_for()
    rewrite(page, cell, answer)
    cell.locator("text=✓ attribution").wait_for()

    assert page.locator(".lm-TabBar-tab.jp-mod-dirty").count() == 1
    menu(page, "File", "Save Notebook")
    # half of a file would be no notebook
    page.locator(".lm-TabBar-tab.jp-mod-dirty").wait_for(state="detached")
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
    # the heads to choose from, and the chosen one
    assert page.locator(".jp-OutputArea-output canvas").count() == 4
    page.mouse.move(0, 0)
    page.wait_for_selector("h3:text-is('0.1 Zoomed')")


CONTRASTS = """labels => labels.map(label => {  // of each label, on the ground it stands on
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => numbers(colour).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  let ground = label;
  while (numbers(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
  const kinds = ["color", "backgroundColor"];
  const both = [label, ground].map((e, i) => light(getComputedStyle(e)[kinds[i]]));
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
    expected = json.loads(
        page.locator(".jp-CodeCell").last.locator(".jp-OutputArea-output").inner_text()
    )
    assert len({*map(str, expected)}) == len(ASKED)
    live = page.locator(".explorer-live")
    box, said, source = (
        live.locator("input"),
        live.locator("[role=status]"),
        live.locator(".source > code"),
    )
    assert page.locator(".explorer-still").is_hidden()

    def rows():
        halves = [
            live.locator("table").nth(n).locator("tbody tr").all_inner_texts() for n in (0, 1)
        ]
        return ["\t".join(line).split("\t") for line in zip(*halves, strict=True)]

    def shows(number, word):
        wait_until(
            page,
            lambda: source.inner_text() == word,
            lambda: f"{source.inner_text()!r} shown, not {word!r}",
        )
        wait_until(
            page,
            lambda: rows() == expected[number],
            lambda: f"{rows()} shown, not {expected[number]}",
        )

    box.fill(" open")
    live.locator("[data-head='6']").click()
    shows(0, "·open")
    box.fill("assertEqual")
    shows(1, "assertEqual")
    live.locator("[data-head='2']").focus()
    page.keyboard.press("Enter")
    shows(2, "assertEqual")
    # the drawing is new, the focus where it was
    assert page.evaluate("document.activeElement.dataset.head") == "2"
    for typed in (" for", "·for"):  # a leading space, as itself and as the lesson writes it
        box.fill("assertEqual")
        shows(2, "assertEqual")
        box.fill(typed)
        shows(3, "·for")
    live.locator("[data-head='6']").hover()
    page.mouse.down()
    box.fill(" open")  # its answer comes, and the drawing is new, before the button is let go
    wait_until(
        page, lambda: source.inner_text() == "·open", lambda: f"{source.inner_text()!r} shown"
    )
    page.mouse.up()
    shows(0, "·open")
    live.locator("[data-head='2']").click()
    box.fill("<")  # which HTML would swallow
    shows(4, "<")
    for typed, sentence in (("", "Type one token"), ("nosuchthing", "That is 4 tokens")):
        box.fill(typed)
        wait_until(
            page,
            lambda sentence=sentence: sentence in said.inner_text(),
            lambda: f"{said.inner_text()!r} shown",
        )
        assert rows() == expected[4]  # what was found last stays
    pressed = live.locator("table").last.locator("[data-source]").first
    word = pressed.inner_text()
    pressed.click()
    wait_until(
        page,
        lambda: source.inner_text() == word,
        lambda: f"{source.inner_text()!r} shown, not {word!r}",
    )
    wait_until(page, lambda: not said.inner_text(), lambda: said.inner_text())
    assert box.input_value() == word
