# quilt_patterns.py
#
# Draw quilt blocks as grids of small numbers and print them as text.
#
# A block is a list of rows, and a row is a list of numbers.  Each number
# stands for one fabric.  Fabric 0 is always the background.  No function
# in this file changes the block it is given; each one returns a new block.

import random
import sys

FABRICS = " .o#@%+="


# ---- making and checking blocks ----

def make_block(rows, cols, fabric=0):
    """Return a block of the given size cut from one fabric."""
    if rows < 1 or cols < 1:
        raise ValueError("a block needs at least one row and one column")
    return [[fabric] * cols for _ in range(rows)]


def copy_block(block):
    return [row[:] for row in block]


def block_size(block):
    """Return (rows, cols), or raise ValueError if the rows are uneven."""
    rows = len(block)
    cols = len(block[0])
    for row in block:
        if len(row) != cols:
            raise ValueError("uneven block: %d and %d columns" % (cols, len(row)))
    return rows, cols


def check_square(block):
    rows, cols = block_size(block)
    if rows != cols:
        raise ValueError("block is %d by %d, not square" % (rows, cols))
    return rows


# ---- turning blocks around ----

def rotate(block, turns=1):
    """Turn the block clockwise by a quarter, as many times as asked."""
    for _ in range(turns % 4):
        block = [list(row) for row in zip(*block[::-1])]
    return copy_block(block)


def flip(block):
    """Swap top and bottom."""
    return copy_block(block[::-1])


def mirror(block):
    """Swap left and right."""
    return [row[::-1] for row in block]


# ---- sewing blocks together ----

def beside(left, right):
    if len(left) != len(right):
        raise ValueError("blocks differ in height")
    return [a + b for a, b in zip(left, right)]


def above(top, bottom):
    if len(top[0]) != len(bottom[0]):
        raise ValueError("blocks differ in width")
    return copy_block(top) + copy_block(bottom)


def four_patch(nw, ne, sw, se):
    return above(beside(nw, ne), beside(sw, se))


def pinwheel(block):
    """Sew four copies together, each a quarter turn on from the last."""
    check_square(block)
    return four_patch(block, rotate(block, 1), rotate(block, 3), rotate(block, 2))


def repeat(block, down, across):
    """Sew a whole quilt of equal blocks."""
    strip = copy_block(block)
    for _ in range(across - 1):
        strip = beside(strip, block)
    quilt = copy_block(strip)
    for _ in range(down - 1):
        quilt = above(quilt, strip)
    return quilt


def border(block, fabric, width=1):
    """Add a border of one fabric on all four sides."""
    rows, cols = block_size(block)
    quilt = make_block(rows + 2 * width, cols + 2 * width, fabric)
    for r in range(rows):
        for c in range(cols):
            quilt[r + width][c + width] = block[r][c]
    return quilt


# ---- traditional patterns ----

def half_triangle(size, fabric=1):
    """Background above the diagonal, fabric on it and below it."""
    block = make_block(size, size)
    for r in range(size):
        for c in range(r + 1):
            block[r][c] = fabric
    return block


def log_cabin(rings, fabrics=(1, 2)):
    """Build strips around a centre patch; the fabrics take turns."""
    block = make_block(1, 1, 3)
    for ring in range(rings):
        block = border(block, fabrics[ring % len(fabrics)])
    return block


def carpet(depth, fabric=1):
    """A recursive pattern: eight small carpets around an empty middle."""
    if depth == 0:
        return make_block(1, 1, fabric)
    small = carpet(depth - 1, fabric)
    size = len(small)
    hole = make_block(size, size)
    full_row = beside(beside(small, small), small)
    hole_row = beside(beside(small, hole), small)
    return above(above(full_row, hole_row), full_row)


def flying_geese(count, fabric=2):
    """A column of geese, each four patches wide and two patches high."""
    f = fabric
    goose = [[0, f, f, 0], [f, f, f, f]]
    return repeat(goose, count, 1)


def crazy_quilt(rows, cols, fabrics=4, seed=None):
    """Random patches such that no two neighbours share a fabric."""
    if fabrics < 3:
        raise ValueError("a crazy quilt needs three fabrics or more")
    rng = random.Random(seed)
    quilt = make_block(rows, cols)
    for r in range(rows):
        for c in range(cols):
            choices = set(range(fabrics))
            if r > 0:
                choices.discard(quilt[r - 1][c])
            if c > 0:
                choices.discard(quilt[r][c - 1])
            quilt[r][c] = rng.choice(sorted(choices))
    return quilt


# ---- counting and measuring ----

def count_fabrics(block):
    counts = {}
    for row in block:
        for fabric in row:
            counts[fabric] = counts.get(fabric, 0) + 1
    return counts


def is_symmetric(block):
    return block == mirror(block)


def has_quarter_turn(block):
    """True if the block looks the same after a quarter turn."""
    return block == rotate(block)


# ---- showing blocks ----

def render(block):
    """Return the block as text, two characters for each patch."""
    lines = []
    for row in block:
        lines.append("".join(FABRICS[fabric % len(FABRICS)] * 2 for fabric in row))
    return "\n".join(lines)


def show(title, block):
    rows, cols = block_size(block)
    print("%s (%d x %d)" % (title, rows, cols))
    print(render(block))
    print()


PATTERNS = {
    "pinwheel": lambda: pinwheel(half_triangle(4)),
    "cabin": lambda: log_cabin(4),
    "carpet": lambda: carpet(2),
    "geese": lambda: flying_geese(3),
    "crazy": lambda: crazy_quilt(6, 10, seed=12),
}


def main():
    names = sys.argv[1:] or sorted(PATTERNS)
    for name in names:
        if name not in PATTERNS:
            print("no such pattern: %s" % name, file=sys.stderr)
            sys.exit(2)
        show(name, PATTERNS[name]())


if __name__ == "__main__":
    main()
