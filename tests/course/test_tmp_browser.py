"""A bet where it is made: in JupyterLab, by keyboard; and after a reload, a restart and on the second day.

Without Chromium these tests are skipped. No request leaves the machine: `open_notebook` holds every page to that.
"""

import json

import pytest
import test_browser
from nbformat import v4
from test_browser import browser, menu, open_notebook, put_away, server, start_all, wait_until  # noqa: F401

from course_utils.author import authoring
from course_utils.course import bets

pytestmark = test_browser.pytestmark
NAME = "bets.ipynb"
ASK = """import os
os.environ.pop("COURSE_CLAIMS", None)  # a learner's kernel, not CI's
from course_utils import claim, predict
from course_utils.course import claims
claims.expectations = lambda: {"left": {"value": 0.32, "tolerance": 0.01, "because": "Head `0.5` *writes* it."}}
predict("00_left", "What is left of `per` without **one** head?", unit="%", within=0.1)
predict("00_part", "Which part adds most to ·KeyError?", ["the embedding of ·la", "a head of layer 0", "`W_U` itself"])
predict("00_band", "In how many documents does it happen?", bands=(0.2, 0.5, 0.8), unit="%")"""
TELL = """claim("left", 0.3211, "%", predicted="00_left")
claim("part", "a head of layer 0", predicted="00_part")
claim("share", 0.87, "%", predicted="00_band")"""


@pytest.fixture
def page(server, open_notebook):  # noqa: F811
    """The notebook with three questions, and nothing run yet but them."""
    folder, _ = server
    (folder / bets.PREDICTIONS).unlink(missing_ok=True)
    cells = [v4.new_code_cell(ASK), v4.new_code_cell(TELL)]
    (folder / NAME).write_text(v4.writes(v4.new_notebook(cells=cells, metadata=authoring.METADATA)), encoding="utf-8")
    page = open_notebook(NAME)
    page.set_default_timeout(60_000)
    page.add_locator_handler(page.locator(".jp-Dialog"), put_away)
    run(page, 0)
    page.wait_for_selector(card("00_band"))
    return page


def run(page, number):
    page.locator(".jp-CodeCell").nth(number).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")


def card(name):
    return f".bet-live[data-name='{name}']"


def still(name):
    return f".bet-still[data-bet='{name}']"


def active(page):
    return page.evaluate(
        "(e => e.closest('.bet-live')?.dataset.name + ' ' + (e.name || e.type))(document.activeElement)"
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
    page.wait_for_selector(f"{card('00_left')} >> text=Locked: 30 %, likely. Now run the next cells.")
    press(page, "Tab")
    assert active(page) == "00_part answer", active(page)
    press(page, "ArrowUp", "Tab", "Space", "ArrowLeft", "Tab")
    assert active(page) == "00_part submit"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"  # it is seen
    press(page, "Enter")
    page.wait_for_selector(f"{card('00_part')} >> text=Locked: W_U itself, sure. Now run the next cells.")
    assert page.locator(f"{card('00_part')} input:enabled").count() == 0
    assert page.locator(".jp-Cell").count() == 2  # no letter was a command of JupyterLab's



def test_x(page):
    bet(page)
    run(page, 1)
    page.wait_for_selector(f"{card('00_left')} svg")
    run(page, 0)
    page.wait_for_timeout(2000)
    page.screenshot(path="/tmp/shots/again.png")
