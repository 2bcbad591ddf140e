"""Set paragraphs of plain text in a column of fixed width.

Two ways of breaking lines are offered.  The greedy one fills each line as
far as it will go.  The careful one looks at the paragraph as a whole and
picks the breaks for which the sum of the squares of the leftover spaces is
smallest, which avoids one very loose line after a very tight one.

    >>> print(set_text("aaa bb cc ddddd", width=6, style="left"))
    aaa
    bb cc
    ddddd
"""

import functools
import itertools
import textwrap

HYPHEN = "-"
INFINITY = float("inf")


class OverfullLine(ValueError):
    """A word is too long for the column."""

    def __init__(self, word, width):
        super().__init__("%r does not fit in %d columns" % (word, width))


def paragraphs(text):
    """Split text at blank lines and yield each paragraph's words.

    >>> list(paragraphs("one two\\nthree\\n\\nfour"))
    [['one', 'two', 'three'], ['four']]
    """
    lines = text.splitlines()
    for blank, group in itertools.groupby(lines, key=lambda s: not s.strip()):
        if not blank:
            yield " ".join(group).split()


def chop(words, width):
    """Yield words, hyphenating those which are longer than the column."""
    for word in words:
        while len(word) > width:
            if width < 2:
                raise OverfullLine(word, width)
            yield word[:width - 1] + HYPHEN
            word = word[width - 1:]
        yield word


def natural_width(words):
    """Return the width of a line with single spaces between words."""
    return sum(map(len, words)) + max(len(words) - 1, 0)


def break_greedy(words, width):
    """Yield lines, each of them a list of words, filling each in turn."""
    line = []
    used = 0
    for word in words:
        if len(word) > width:
            raise OverfullLine(word, width)
        needed = len(word) + (1 if line else 0)
        if line and used + needed > width:
            yield line
            line, used, needed = [], 0, len(word)
        line.append(word)
        used += needed
    if line:
        yield line


def break_careful(words, width):
    """Return a list of lines with the least total badness.

    The last line of a paragraph costs nothing, however short it is.
    """
    words = list(words)
    count = len(words)
    # ends[i] is the total length of the words before the i'th one
    ends = [0] + list(itertools.accumulate(len(word) for word in words))

    def badness(i, j):
        used = ends[j] - ends[i] + (j - i - 1)
        if used > width:
            return INFINITY
        if j == count:
            return 0
        return (width - used) ** 2

    # best[i] is the least cost of setting words[i:], and follow[i] is the
    # place where the first of its lines ends.
    best = [INFINITY] * count + [0]
    follow = [count] * (count + 1)
    for i in reversed(range(count)):
        if len(words[i]) > width:
            raise OverfullLine(words[i], width)
        for j in range(i + 1, count + 1):
            cost = badness(i, j)
            if cost == INFINITY:
                break
            if cost + best[j] < best[i]:
                best[i] = cost + best[j]
                follow[i] = j

    lines = []
    i = 0
    while i < count:
        lines.append(words[i:follow[i]])
        i = follow[i]
    return lines


def share(total, parts):
    """Share total among a number of parts as evenly as possible.

    >>> share(7, 3)
    [2, 2, 3]
    """
    marks = [total * k // parts for k in range(parts + 1)]
    return [b - a for a, b in zip(marks, marks[1:])]


def set_left(words, width, last=False):
    return " ".join(words)


def set_centre(words, width, last=False):
    return " ".join(words).center(width).rstrip()


def set_justified(words, width, last=False):
    """Stretch the spaces so that the line fills the whole column."""
    if last or len(words) == 1:
        return set_left(words, width)
    gaps = share(width - sum(map(len, words)), len(words) - 1)
    pieces = [words[0]]
    for gap, word in zip(gaps, words[1:]):
        pieces.append(" " * gap)
        pieces.append(word)
    return "".join(pieces)


STYLES = {
    "left": set_left,
    "centre": set_centre,
    "justified": set_justified,
}


def set_paragraph(words, width, style="justified", breaker=break_careful):
    """Yield the finished lines of one paragraph."""
    try:
        setter = STYLES[style]
    except KeyError:
        raise ValueError("unknown style: %r" % (style,)) from None
    lines = list(breaker(chop(words, width), width))
    for number, line in enumerate(lines, start=1):
        last = number == len(lines)
        yield setter(line, width, last)


def set_text(text, width=60, **options):
    """Set a text of any number of paragraphs and return a string."""
    blocks = []
    for words in paragraphs(text):
        lines = set_paragraph(words, width, **options)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def looseness(lines, width):
    """Return the sum of squares of the space left on all lines but the last."""
    gaps = (width - natural_width(line) for line in lines[:-1])
    return functools.reduce(lambda total, gap: total + gap * gap, gaps, 0)


SAMPLE = textwrap.dedent("""\
    The case stood by the north window, where the light was steadiest, and
    the compositor worked with his back to the stove.

    When a line came out short he did not hurry. He took thin spaces of
    brass and copper from the tray, and eased them in between the words
    until the line would stand by itself.
    """)


def main():
    for style in STYLES:
        print("[%s]" % style)
        print(set_text(SAMPLE, width=38, style=style))
        print()
    words = SAMPLE.split()
    for breaker in (break_greedy, break_careful):
        lines = list(breaker(words, 38))
        print("%-14s looseness %d" % (breaker.__name__, looseness(lines, 38)))


if __name__ == "__main__":
    main()
