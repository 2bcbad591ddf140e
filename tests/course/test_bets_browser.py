"""A bet where it is made: in JupyterLab, by keyboard; and after a reload, a restart and on the
second day.

Without Chromium these tests are skipped. No request leaves the machine: `open_notebook` holds every
page to that.
"""

import json

import lab
import pytest
from lab import menu, put_away, wait_until
from nbformat import v4

from course_tools import authoring
from course_utils.course import bets

pytestmark = lab.pytestmark
NAME = "bets.ipynb"
ASK = """import os
os.environ.pop("COURSE_CLAIMS", None)  # a learner's kernel, not CI's
from course_utils import claim, predict
from course_utils.course import claims
left = {"value": 0.32, "tolerance": 0.01, "because": "Head `0.5` *writes* it."}
claims.expectations = lambda: {"left": left}
predict("00_left", "What is left of `per` without **one** head?", unit="%", within=0.1)
parts = ["the embedding of ·la", "a head of layer 0", "`W_U` itself"]
predict("00_part", "Which part adds most to ·KeyError?", parts)
predict("00_band", "In how many documents does it happen?", bands=(0.2, 0.5, 0.8), unit="%")"""
TELL = """claim("left", 0.3211, "%", predicted="00_left")
claim("part", "a head of layer 0", predicted="00_part")
claim("share", 0.87, "%", predicted="00_band")"""


@pytest.fixture
def page(server, open_notebook):
    """The notebook with three questions, and nothing run yet but them."""
    folder, _ = server
    (folder / bets.PREDICTIONS).unlink(missing_ok=True)
    cells = [v4.new_code_cell(ASK), v4.new_code_cell(TELL)]
    (folder / NAME).write_text(
        v4.writes(v4.new_notebook(cells=cells, metadata=authoring.METADATA)), encoding="utf-8"
    )
    page = open_notebook(NAME)
    page.set_default_timeout(60_000)
    page.add_locator_handler(page.locator(".jp-Dialog"), put_away)
    run(page, 0)
    page.wait_for_selector(card("00_band"))
    yield page
    (folder / bets.PREDICTIONS).unlink(missing_ok=True)


def run(page, number):
    page.locator(".jp-CodeCell").nth(number).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")


def card(name):
    return f".bet-live[data-name='{name}']"


def still(name):
    return f".bet-still[data-bet='{name}']"


def active(page):
    return page.evaluate(
        "(e => e.closest('.bet-live')?.dataset.name + ' ' + (e.name || "
        "e.type))(document.activeElement)"
    )


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def bet(page):
    """Bets on two of the three questions, by keyboard: 30 %, likely; the last part, sure."""
    page.locator(f"{card('00_left')} [name=answer]").focus()
    press(page, *"abc", "Enter")
    page.wait_for_selector(f"{card('00_left')} >> text=Type a number, and say how sure you are.")
    press(page, "Tab", "Space", "ArrowRight", "Enter")
    page.wait_for_selector(f"{card('00_left')} >> text=Type a number, such as 50.")
    press(page, "Shift+Tab", "Control+A", *"30", "Enter")
    page.wait_for_selector(
        f"{card('00_left')} >> text=Locked: 30 %, likely. Now run the next cells."
    )
    press(page, "Tab")
    assert active(page) == "00_part answer", active(page)
    press(page, "ArrowUp", "Tab", "Space", "ArrowLeft", "Tab")
    assert active(page) == "00_part submit"
    # it is seen
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(page, "Enter")
    page.wait_for_selector(
        f"{card('00_part')} >> text=Locked: W_U itself, sure. Now run the next cells."
    )
    assert page.locator(f"{card('00_part')} input:enabled").count() == 0
    assert page.locator(".jp-Cell").count() == 2  # no letter was a command of JupyterLab's


def test_a_bet_is_locked_by_keyboard_and_answered_on_its_card(page, server):
    folder, _ = server
    bet(page)
    page.wait_for_selector(still("00_part"), state="hidden")  # only one of the two is seen
    run(page, 1)
    page.wait_for_selector(
        f"{card('00_left')} >> text=✓ Right. You bet 30 %, likely. The answer: 32.1 %."
    )
    page.wait_for_selector(f"{card('00_left')} svg >> text=your bet: 30 %")
    page.wait_for_selector(f"{card('00_left')} i:text-is('writes')")
    page.wait_for_selector(
        f"{card('00_part')} label:has-text('a head of layer 0') >> text=✓ the answer"
    )
    page.wait_for_selector(f"{card('00_band')} >> text=You made no bet. The answer: 87 %.")
    page.wait_for_selector("text=your bet 30 % ✓")
    kept = json.loads((folder / bets.PREDICTIONS).read_text(encoding="utf-8"))
    assert {
        name: (bet["guess"], bet["confidence"], bet["right"]) for name, bet in kept.items()
    } == {"00_left": (0.3, 2, True), "00_part": ("`W_U` itself", 3, False)}
    run(page, 0)  # the same kernel, a new card: what was bet stands there, and one may bet again
    again = page.locator(f"{card('00_part')} button:text-is('Bet again')")
    again.click()
    page.locator(f"{card('00_part')} [name=answer]").nth(1).check()
    page.click(f"{card('00_part')} button")
    page.wait_for_selector(f"{card('00_part')} >> text=Locked: a head of layer 0, sure.")
    kept = json.loads((folder / bets.PREDICTIONS).read_text(encoding="utf-8"))["00_part"]
    assert (kept["guess"], kept["first"]["guess"]) == ("a head of layer 0", "`W_U` itself")


def test_a_card_survives_a_reload_a_restart_and_the_second_day(page, server, open_notebook):
    folder, _ = server
    bet(page)
    menu(page, "File", "Save Notebook")

    def saved():
        return "Locked: 30 %, likely" in (folder / NAME).read_text(encoding="utf-8")

    wait_until(page, saved, lambda: "the guess was not saved")
    page.reload()  # the kernel lives on, and so does the card
    page.wait_for_selector(f"{card('00_left')} >> text=Locked: 30 %, likely.")
    page.wait_for_selector(still("00_left"), state="hidden")

    menu(page, "Kernel", "Shut Down Kernel")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=unknown]", state="attached")
    page = open_notebook(NAME)  # the second day: a new kernel
    errors = page.locator("text=model not found")
    wait_until(
        page, lambda: errors.count() == 3, lambda: f"JupyterLab found {errors.count()} dead widgets"
    )
    assert not any(error.is_visible() for error in errors.all())
    page.wait_for_selector(f"{still('00_left')} >> text=Locked: 30 %, likely.")
    page.wait_for_selector(f"{still('00_part')} >> text=your bet")
    run(page, 0)
    page.wait_for_selector(f"{card('00_part')} >> text=Locked: W_U itself, sure.")
    run(page, 1)
    page.wait_for_selector(f"{card('00_part')} >> text=✗ Not this time. You bet W_U itself, sure.")
