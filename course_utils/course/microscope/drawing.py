"""The microscope's picture, as SVG text: the same for a live cell, a stored one and a printed page.

Columns are positions. Each has a pipe, the residual stream, which runs upwards from the token to what the model
expects next. Heads are lanes across the pipes, layer above layer. A closed lane has a dot where the head adds to a
pipe; an open one has a curve from each position that is read to the one that reads it.
"""

import math
import re
from collections.abc import Iterator
from itertools import pairwise

import torch

from course_utils import interventions
from course_utils.course.microscope import answers, panels
from course_utils.course.microscope.scene import VIEWS, Scene, in_words, values_of
from course_utils.course.microscope.shapes import WIDTH, act, cross, document, n, number, rect, short, text
from course_utils.interventions import Head

LEFT, RIGHT = 78, 86  # margins
CLOSED, OPEN, BELOW = 12, 54, 28  # heights of a lane; BELOW is for the curves as they were before a cut
LEAST = 0.04  # attention below this is not drawn
WEIGHTED = " (here: attention × length of what the source gives)"


def svg(scene: Scene) -> str:
    """The whole picture, for the page that answers mouse and keyboard."""
    layout = Layout(scene)
    below, height = panels.below(scene, layout.panel)
    on = "".join(
        f".micro:has(.c{i}:is(:hover,:focus)) .arcs .d{i}{{opacity:1}}"
        f".micro:has(.c{i}:is(:hover,:focus)) .arcs .d{i} text{{display:block}}"
        for i in range(layout.n)
    )
    title = text(0, 12, f"{scene.view.capitalize()}: {VIEWS[scene.view]}{WEIGHTED * scene.weighted}", "s")
    parts = [title, *_bands(scene, layout), *_columns(scene, layout), *_lanes(scene, layout), *below]
    return document(parts, height, in_words(scene), on)


def still(drawn: str) -> str:
    """A drawing without what only a live one needs; its columns still answer the mouse and the Tab key."""
    drawn = re.sub(r'<(rect|path|circle)[^>]*class="(ring|edge)"[^>]*/>', "", drawn)
    drawn = re.sub(r'<g data-do="cut"[^>]*></g>|<g class="switch"[^>]*></g>', "", drawn)
    button = r' data-do="[^"]*" data-key="[^"]*" tabindex="-1" role="button"'
    drawn = re.sub(rf'(<g class="col [^"]*"){button}', r'\1 tabindex="0"', drawn)
    return re.sub(rf'{button} aria-label="[^"]*"( aria-pressed="[^"]*")?', "", drawn)


class Layout:
    """Where everything stands: `x` of a position, `lanes` with (top, rail) of every head, and the heights between."""

    def __init__(self, scene: Scene):
        self.n = len(scene.names)
        self.pitch = min(100, (WIDTH - LEFT - RIGHT) / self.n)
        shown = [*scene.names, *map(scene.called, scene.best)]
        self.flat = max(len(short(name)) for name in shown) * 6.7 + 6 < self.pitch
        self.angle = 0 if self.flat else 55 if self.pitch > 16 else 70
        label = 18 if self.flat else 56
        self.bars = label + 38  # the bottom of the bars that show how likely the best guess is
        self.top = y = self.bars + 10
        self.lanes: dict[Head, tuple[float, float]] = {}
        self.bands = []
        cfg = scene.model.cfg
        for layer in reversed(range(cfg.n_layers)):
            start = y
            for head in range(cfg.n_heads):
                is_open = (layer, head) in scene.heads and scene.view != "stream"
                height = OPEN + (BELOW if scene.now.cuts else 0) if is_open else CLOSED
                rail = y + (OPEN - 5 if is_open else CLOSED / 2)
                self.lanes[layer, head] = (y, rail)
                y += height
            self.bands.append((layer, start, y))
            y += 10
        if not cfg.n_layers:
            y += 40
        self.base = y
        self.panel = y + 42 + label

    def x(self, position: int) -> float:
        return LEFT + self.pitch * (position + 0.5)


def _bands(scene: Scene, layout: Layout) -> Iterator[str]:
    right = layout.x(layout.n - 1) + layout.pitch / 2 + 4
    for layer, start, end in layout.bands:
        yield rect(LEFT - 4, start, right - LEFT + 4, end - start, "band", ' rx="5"')
        middle = (start + end) / 2
        yield text(9, middle, f"layer {layer}", "s m small", f' transform="rotate(-90 9 {n(middle)})"')


def _columns(scene: Scene, layout: Layout) -> Iterator[str]:
    """The pipes, with the token below and what is expected next above."""
    wanted = answers.answers(scene.model, scene.base.tokens).tolist()
    now, before = scene.now.logits.softmax(-1), scene.base.logits.softmax(-1)
    was = scene.base.logits.argmax(-1).tolist()
    shut = {one for one in scene.now.cuts if isinstance(one, int)}
    sizes = scene.now.stream.norm(dim=-1)
    sizes = sizes / sizes.max() * min(12, 0.7 * layout.pitch)
    half = layout.pitch / 2
    for i, name in enumerate(scene.names):
        x, best = layout.x(i), scene.best[i]
        p = now[i, best].item()
        inside = [rect(x - half, layout.bars - 24, 2 * half, layout.base + 20 - layout.bars + 24, "zone")]
        if scene.view == "stream":
            middles = [(start + end) / 2 for _, start, end in reversed(layout.bands)]
            borders = [layout.base + 4, *middles, layout.top - 4]
            for level, (low, high) in enumerate(pairwise(borders)):
                look = f' style="stroke-width:{n(sizes[level, i].item())};stroke-linecap:butt"'
                inside.append(f'<path class="pipe" d="M{n(x)} {n(low)}V{n(high)}"{look}/>')
        else:
            inside.append(f'<path class="pipe" d="M{n(x)} {n(layout.base + 4)}V{n(layout.top - 4)}"/>')
        width = min(10, 0.6 * layout.pitch)
        hit = "bar" if wanted[i] < 0 else "right" if best == wanted[i] else "wrong"
        height = max(24 * p, 3) if hit == "wrong" else 24 * p  # less, and the outline of a hollow bar fills it
        inside.append(rect(x - width / 2, layout.bars - height, width, height, hit))
        if scene.now.cuts:
            q = before[i, was[i]].item()
            inside.append(rect(x - width / 2 - 2, layout.bars - 24 * q, width + 4, 24 * q, "ghost"))
        said, style = scene.called(best), "mono b" if best != was[i] else "mono s"
        inside.append(_label(x, layout.bars - 29, said, style, layout, up=True))
        inside.append(_label(x, layout.base + 30, name, "mono", layout))
        label = f"position {i}, {name}: expects {scene.called(best)} with {p:.2f}"
        label += f", before the cut {scene.called(was[i])} with {before[i, was[i]]:.2f}" if scene.now.cuts else ""
        style = f"col c{i}" + " sel" * (i == scene.position) + " shut" * (i in shut)
        yield act("select", str(i), label, "".join(inside), style)
        mark = cross(x, layout.base + 13, 4) if i in shut else ""
        if i not in shut and (layout.pitch > 19 or i % 5 == 0):
            mark = text(x, layout.base + 17, str(i), "s m small")
        ring = rect(x - min(9, half), layout.base + 6, min(18, 2 * half), 15, "ring", ' rx="4"')
        words = "let" if i in shut else "no longer let"
        yield act("cut", str(i), f"{words} later positions read position {i}", f"{ring}{mark}")


def _label(x: float, y: float, words: str, style: str, layout: Layout, up: bool = False) -> str:
    words = short(words, 8 if layout.angle > 60 else 10)
    if layout.flat:
        return text(x, y + (1 if up else 4), words, f"{style} m")
    side = "" if up else " e"
    x += 3
    return text(x, y, words, style + side, f' transform="rotate(-{layout.angle} {n(x)} {n(y)})"')


def _lanes(scene: Scene, layout: Layout) -> Iterator[str]:
    """Every head's lane: its name, its dots or curves, and the switch that cuts it."""
    silenced = {one for one in scene.now.cuts if isinstance(one, tuple) and len(one) == 2}
    right = layout.x(layout.n - 1) + layout.pitch / 2
    sizes = scene.now.written.norm(dim=-1)
    sizes = (sizes / sizes.max().clamp(min=1e-9)).sqrt() if sizes.numel() else sizes  # all heads may be cut
    for head, (_, rail) in layout.lanes.items():
        is_open, name = head in scene.heads and scene.view != "stream", interventions.head_name(head)
        off = head in silenced
        look = f"l{head[0] % 2}" + " off" * off
        line = f'<path class="rail" d="M{LEFT} {n(rail)}H{n(right)}"/>' if is_open else ""
        line += text(LEFT - 10, rail + 21, "before", "e s small") if is_open and scene.now.cuts else ""
        yield f'<g class="{look}">{line}'
        yield from _arcs(scene, layout, head, rail) if is_open else _dots(layout, sizes[head], rail)
        yield "</g>"
        ring = rect(22, rail - 7, 52, 13, "ring", ' rx="4"')
        words = text(LEFT - 10, rail + 4, name, "e mono b" if is_open else "e mono s")
        label = f"head {name}{', cut' * off}: {'close' if is_open else 'open'} its lane"
        pressed = f' aria-pressed="{str(is_open).lower()}"'
        yield act("open", name, label, ring + words, f"lane l{head[0] % 2}", pressed)
        x = right + 14
        switch = cross(x, rail, 3.5) if off else f'<circle cx="{n(x)}" cy="{n(rail)}" r="2.5" class="edge"/>'
        ring = rect(x - 8, rail - 6.5, 16, 13, "ring", ' rx="4"')
        label = f"{'restore' if off else 'cut'} head {name}"
        yield act("cut", name, label, ring + switch, "switch")


def _dots(layout: Layout, sizes: torch.Tensor, rail: float) -> Iterator[str]:
    """How much the head adds to each pipe, in a few sizes of dot."""
    most = min(9, 0.8 * layout.pitch)
    by_size: dict[str, list[str]] = {}
    for i, size in enumerate(sizes.tolist()):
        by_size.setdefault(n(max(1, round(2 * most * size) / 2)), []).append(f"M{n(layout.x(i))} {n(rail)}h0")
    for width, dots in sorted(by_size.items()):
        yield f'<path class="taps" stroke-width="{width}" d="{"".join(dots)}"/>'


def _arcs(scene: Scene, layout: Layout, head: Head, rail: float) -> Iterator[str]:
    """The curves of an open lane, a group for each destination; below, as they were before a cut."""
    most = min(6, 0.45 * layout.pitch)
    largest = {w: values_of(scene.base, w)[head].max().item() for w in (True, False)}[scene.weighted]
    shown = [(scene.now, rail, 1, "arcs")]
    if scene.now.cuts:
        shown.append((scene.base, rail + 3, -1, "arcs was"))
    for run, y, way, style in shown:
        values = values_of(run, scene.weighted)[head]
        yield f'<g class="{style}">'
        for dest in range(layout.n):
            least = LEAST if layout.n <= 32 or dest == scene.position else 0.1
            row = values[dest, : dest + 1].tolist()
            strongest = sorted(range(dest + 1), key=row.__getitem__)[-4:]
            curves: dict[str, str] = {}  # those of one width are one path
            words = []
            for src, value in enumerate(row):
                share = value / largest if scene.weighted else value
                if share < least:
                    continue
                path, peak = _curve(layout, src, dest, y, way)
                width = n(max(1, round(2 * most * share)) / 2)
                curves[width] = curves.get(width, "") + path
                if src in strongest and share >= 0.08 and (way > 0 or scene.now.cuts):
                    words.append(text((layout.x(src) + layout.x(dest)) / 2 - 9 * (src == dest), peak, number(value)))
            selected = " sel" if dest == scene.position else ""
            if curves:
                drawn = "".join(f'<path stroke-width="{width}" d="{path}"/>' for width, path in sorted(curves.items()))
                yield f'<g class="d{dest}{selected}">{drawn}{"".join(words)}</g>'
        yield "</g>"


def _curve(layout: Layout, src: int, dest: int, y: float, way: int) -> tuple[str, float]:
    """A curve from `src` to `dest`, above the rail (`way` 1) or below it, and the height for its number."""
    room = OPEN - 14 if way > 0 else BELOW - 8
    height = room * (0.3 + 0.7 * math.sqrt((dest - src) / max(1, layout.n - 1)))
    a, b = layout.x(src), layout.x(dest)
    if src == dest:
        reach = min(9, 0.4 * layout.pitch)
        rise = way * room * 0.36
        path = f"M{n(a)} {n(y)}c{n(-reach)} {n(-rise)} {n(reach)} {n(-rise)} 0 0"
        return path, y - rise - 2 if way > 0 else y - rise + 9
    path = f"M{n(a)} {n(y)}A{n((b - a) / 2)} {n(height)} 0 0 {1 if way > 0 else 0} {n(b)} {n(y)}"
    return path, y - height - 2 if way > 0 else y + height + 9
