"""Decks and handouts as a browser shows and prints them: nothing is shrunk, what does not fit is split."""

import re

import lab
import pytest

from course_utils.author import authoring, export

pytestmark = lab.pytestmark
SLIDES = """() => {
    document.body.classList.add("measured");
    return [...document.querySelectorAll(".slides > section")].map(slide => ({
        heading: slide.querySelector("h2").textContent, high: slide.scrollHeight, wide: slide.scrollWidth,
        zooms: [...slide.querySelectorAll("*")].map(e => e.style.zoom).filter(Boolean).map(Number),
        limits: [...slide.querySelectorAll("img")].map(e => parseFloat(e.style.maxHeight || 590)),
        empty: slide.innerText.trim() === slide.querySelector("h2").innerText && !slide.querySelector("img, svg"),
    }));
}"""


def _opened(browser, tmp_path, kind, lesson):
    file = tmp_path / "page.html"
    file.write_text(export.export(kind, lesson), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.goto(f"file://{file}")
    if kind == "slides":
        page.wait_for_selector(".reveal.ready")
    return page


@pytest.mark.parametrize("lesson", authoring.taught())
def test_every_slide_fits_and_none_is_shrunk(browser, tmp_path, lesson):
    page = _opened(browser, tmp_path, "slides", lesson)
    for slide in page.evaluate(SLIDES):
        assert slide["high"] <= 700 and slide["wide"] <= 1280, slide
        assert min([*slide["zooms"], 1]) >= 0.85 and min([*slide["limits"], 590]) >= 0.84 * 590, slide
        assert not slide["empty"], slide
    page.close()


def _pages(page):
    """The sizes of the pages that a browser prints, in points."""
    printed = page.pdf(prefer_css_page_size=True)
    page.close()
    return [tuple(map(float, box)) for box in re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed)]


def test_a_deck_prints_one_slide_a_page_and_the_microscope_is_large(browser, tmp_path):
    page = _opened(browser, tmp_path, "slides", "07_induction_heads")
    count = page.evaluate("Reveal.getTotalSlides()")
    (number,) = page.evaluate("""[...document.querySelectorAll(".slides > section")]
        .flatMap((slide, i) => (slide.querySelector(".micro") ? [i] : []))""")
    page.evaluate(f"Reveal.slide({number})")
    assert page.locator(".micro").bounding_box()["width"] > 1000
    assert page.locator(".micro .arcs path").count()
    assert _pages(page) == [(960, 540)] * count


def test_no_exercise_of_a_handout_is_torn(browser, tmp_path):
    page = _opened(browser, tmp_path, "handout", "07_induction_heads")
    page.emulate_media(media="print")
    torn = "[...document.querySelectorAll('.exercise, .room')].map(e => getComputedStyle(e).breakInside)"
    assert {*page.evaluate(torn)} == {"avoid"}
    high = page.evaluate("Math.max(...[...document.querySelectorAll('.exercise')].map(e => e.offsetHeight))")
    assert high < 297 * 96 / 25.4 - 2 * 42, "an exercise that fits on no page breaks all the same"
    assert len(_pages(page)) <= 4
