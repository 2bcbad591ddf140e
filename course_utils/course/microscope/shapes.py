"""Pieces of SVG, as text, that the drawing is made of. Rounded, so that equal drawings are equal bytes."""

from functools import cache
from html import escape
from importlib.resources import files

WIDTH = 940  # of every drawing


def n(value: float) -> str:
    """A coordinate: at most one decimal, so that the same drawing has the same bytes."""
    return f"{0.0 if abs(value) < 0.05 else value:.1f}".removesuffix(".0")


def number(value: float, digits: int = 2) -> str:
    """A number as it is shown, with a true minus sign."""
    shown = f"{value:.{digits}f}"
    return f"−{shown[1:]}" if shown.startswith("-") and float(shown) else shown.removeprefix("-")


def text(x: float, y: float, words: str, style: str = "", more: str = "") -> str:
    style = f' class="{style}"' if style else ""
    return f'<text x="{n(x)}" y="{n(y)}"{style}{more}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, style: str, more: str = "") -> str:
    return f'<rect x="{n(x)}" y="{n(y)}" width="{n(width)}" height="{n(height)}" class="{style}"{more}/>'


def cross(x: float, y: float, r: float = 4) -> str:
    return f'<path class="x" d="M{n(x - r)} {n(y - r)}l{n(2 * r)} {n(2 * r)}m0 {n(-2 * r)}l{n(-2 * r)} {n(2 * r)}"/>'


def act(do: str, key: str, label: str, inside: str, style: str = "", more: str = "") -> str:
    """A part that can be clicked, or pressed by keyboard."""
    style = f' class="{style}"' if style else ""
    return (
        f'<g{style} data-do="{do}" data-key="{escape(key)}" tabindex="-1" role="button" '
        f'aria-label="{escape(label)}"{more}>{inside}</g>'
    )


def short(name: str, most: int = 10) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


@cache
def css() -> str:
    return (files(__package__) / "drawing.css").read_text(encoding="utf-8").strip()


def document(parts: list[str], height: float, label: str, rules: str = "") -> str:
    size = f'width="{WIDTH}" height="{n(height)}" viewBox="0 0 {WIDTH} {n(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="micro" {size} role="group" aria-label="{escape(label)}">'
        f'<style>{css()}{rules}</style><rect width="100%" height="100%" fill="var(--bg)"/>{"".join(parts)}</svg>'
    )
