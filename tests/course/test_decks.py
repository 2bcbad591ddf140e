"""Decks and handouts as a browser shows and prints them: nothing is shrunk, what does not fit is
split.
"""

import lab
import pytest

from course_tools import authoring, export

pytestmark = lab.pytestmark
SLIDES = """() => {
    document.body.classList.add("measured");
    return [...document.querySelectorAll(".slides > section")].map(slide => ({
        heading: slide.querySelector("h2").textContent,
        high: slide.scrollHeight, wide: slide.scrollWidth,
        zooms: [...slide.querySelectorAll("*")].map(e => e.style.zoom).filter(Boolean).map(Number),
        limits: [...slide.querySelectorAll("img")].map(e => parseFloat(e.style.maxHeight || 590)),
        empty: slide.innerText.trim() === slide.querySelector("h2").innerText
            && !slide.querySelector("img, svg"),
    }));
}"""


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens a lesson's deck or handout, on a computer without a network; no page
    may miss anything.
    """
    context, faults = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True), []

    def opened(kind, lesson, query=""):
        file = tmp_path / "page.html"
        file.write_text(export.export(kind, lesson), encoding="utf-8")
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("requestfailed", lambda request: faults.append(request.url))
        page.goto(f"file://{file}{query}")
        if kind == "slides":
            page.wait_for_function("window.Reveal?.isReady()")
        return page

    yield opened
    context.close()
    assert faults == []


@pytest.mark.parametrize("lesson", authoring.taught())
def test_every_slide_fits_and_none_is_shrunk(opened, lesson):
    page = opened("slides", lesson)
    for slide in page.evaluate(SLIDES):
        assert slide["high"] <= 700 and slide["wide"] <= 1280, slide
        assert min([*slide["zooms"], 1]) >= 0.85 and min([*slide["limits"], 590]) >= 0.84 * 590, (
            slide
        )
        assert not slide["empty"], slide
    page.evaluate("document.body.classList.remove('measured')")
    for number in range(page.evaluate("Reveal.getTotalSlides()")):
        page.evaluate(f"Reveal.slide({number}, 0, 99)")
        assert page.locator("section.present").evaluate("s => s.scrollHeight") <= 700, number


def test_a_deck_has_a_presenters_view_and_prints_one_slide_a_page(opened):
    page = opened("slides", "04_one_layer")
    count = page.evaluate("Reveal.getTotalSlides()")
    (number,) = page.evaluate("""[...document.querySelectorAll(".slides > section")]
        .flatMap((slide, i) => (slide.querySelector(".micro") ? [i] : []))""")
    page.evaluate(f"Reveal.slide({number})")
    assert page.locator(".micro").bounding_box()["width"] > 1000
    page.locator(".micro .arcs path").first.wait_for(state="attached")  # once it is laid out
    with page.expect_popup() as view:
        page.keyboard.press("s")
    view.value.get_by_text("minutes").first.wait_for()
    assert lab.printed(page) == [(960, 540)] * count
    page = opened("slides", "04_one_layer", "?print-pdf")
    page.wait_for_function("document.querySelectorAll('.pdf-page').length > 0")
    assert len(lab.printed(page)) == count


def test_no_exercise_of_a_handout_is_torn(opened):
    page = opened("handout", "07_induction_heads")
    page.emulate_media(media="print")
    torn = (
        "[...document.querySelectorAll('.exercise, .room')].map(e => "
        "getComputedStyle(e).breakInside)"
    )
    assert {*page.evaluate(torn)} == {"avoid"}
    high = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.exercise')].map(e => e.offsetHeight))"
    )
    assert high < 297 * 96 / 25.4 - 2 * 42, "an exercise that fits on no page breaks all the same"
    assert len(lab.printed(page)) <= 4
