"""Lessons to show and to print: `python -m course_tools.export slides|handout [LESSON ...]`.

`slides` is a deck for a seminar, `handout` is for paper. Each makes one HTML file that needs
nothing else: formulas become MathML, and pictures, styles and reveal.js are inside.
"""

import argparse
import sys
from pathlib import Path

from course_tools import authoring, handout, slides, to_html
from course_utils._files import NOTEBOOKS, get_back, lesson_of, write_text
from course_utils.course import utf8_output

MAKERS = {"slides": slides.slides, "handout": handout.handout}


def export(kind: str, lesson: str) -> str:
    """One lesson, by its notebook's name, as the HTML of "slides" or "handout".

    Raises ValueError if either is unknown.
    """
    if kind not in MAKERS:
        raise ValueError(f'There is no "{kind}": choose {", ".join(MAKERS)}.')
    try:
        return MAKERS[kind](*to_html.both(lesson))
    except FileNotFoundError:
        message = f'There is no lesson "{lesson}" in notebooks/ and notebooks/solutions/.'
        raise ValueError(message) from None


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    about = __doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m course_tools.export", description=about)
    parser.add_argument("kind", choices=MAKERS)
    which = "a path or a name like 03_zero_layers; all"
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help=which)
    where = "a folder (default: runs/export)"
    parser.add_argument("--out", type=Path, default=Path("runs/export"), help=where)
    options = parser.parse_args(arguments)
    utf8_output()
    names = options.lessons or authoring.taught()
    if not names:
        parser.error(f"There is no lesson in {NOTEBOOKS}. {get_back('notebooks')}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        stem = lesson_of(Path(name))
        try:
            text = export(options.kind, stem)
        except (ValueError, ModuleNotFoundError) as error:
            parser.error(str(error))
        target = options.out / f"{stem}.{options.kind}.html"
        write_text(target, text)
        print(f"{target} ({len(text.encode()) / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
