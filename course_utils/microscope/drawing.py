"""The microscope's picture, as SVG text: the same for a live cell, a stored one and a printed page.

Columns are positions. Each has a pipe, the residual stream, which runs upwards from the token to what the model expects
next. Heads are lanes across the pipes, layer above layer. A closed lane has a dot where the head adds to a pipe; an open
one has a curve from each position that is read to the one that reads it.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from importlib.resources import files
from itertools import pairwise

import torch
from transformer_lens import HookedTransformer

from course_utils import composition
from course_utils.microscope import runs
from course_utils.microscope.runs import Cut, Head, Run
from course_utils.text import visible

VIEWS = {  # what each shows, in a sentence
    "attention": "a curve runs from the position that is read to the one that reads it; thicker means more attention",
    "stream": "a pipe is as wide as the vector in it is long; a dot is what a head adds to it",
    "paths": "a logit is a sum: what came straight from the token, and what each head added",
    "doors": "what a head writes, later heads read as queries, keys or values; each of these doors can be shut",
}
MORE = " (here: attention × length of what the source gives)"
WIDTH, LEFT, RIGHT = 940, 78, 86  # of the picture, and of its margins
CLOSED, OPEN, BELOW = 12, 54, 28  # heights of a lane; BELOW is for the curves as they were before a cut
LEAST = 0.04  # attention below this is not drawn
STEPS, TITLES = ("scores", "mask", "pattern", "values"), ("scores", "mask", "softmax", "× values")
INDENT = 328  # where the panel beside the predictions begins
ROW = 17


@dataclass
class Scene:
    """What is to be drawn: a run, the same run without cuts, and what of both is looked at."""

    model: HookedTransformer
    base: Run
    now: Run
    view: str
    heads: list[Head]  # whose lanes are open; the last is the one that panels are about
    position: int
    token: int  # whose logit is taken apart
    weighted: bool = False
    step: int = len(STEPS)

    @cached_property
    def names(self) -> list[str]:
        return [self.called(token) for token in self.base.tokens.tolist()]

    def called(self, token: int) -> str:
        """A token as the picture names it."""
        return visible(self.model.to_string([token])) if self.model.tokenizer else str(token)

    @property
    def values(self) -> torch.Tensor:
        """What the curves show, [layer, head, dest, src]."""
        return _values(self.now, self.weighted)

    @property
    def chosen(self) -> Head | None:
        return self.heads[-1] if self.heads else None

    @property
    def later(self) -> Head | None:
        """The head whose doors are shown."""
        readers = [head for head in self.heads if head[0]]
        return readers[-1] if readers else (1, 0) if self.model.cfg.n_layers > 1 else None

    @cached_property
    def best(self) -> list[int]:
        return self.now.logits.argmax(-1).tolist()


def _values(run: Run, weighted: bool) -> torch.Tensor:
    return run.value_weighted if weighted else run.pattern


def n(value: float) -> str:
    """A coordinate: at most one decimal, so that the same drawing has the same bytes."""
    return (
        f"{value:.1f}".removesuffix(".0").replace("-0", "0") if abs(value) < 0.05 else f"{value:.1f}".removesuffix(".0")
    )


def number(value: float, digits: int = 2) -> str:
    """A number as it is shown, with a true minus sign."""
    shown = f"{value:.{digits}f}"
    return f"−{shown[1:]}" if shown.startswith("-") and float(shown) else shown.removeprefix("-")


def cut_name(one: Cut) -> str:
    """A cut as one word, for the page to send back: "3", "0.5", "0.5k1.6"."""
    if isinstance(one, int):
        return str(one)
    if len(one) == 2:
        return head_name(one)
    return f"{head_name(one[0])}{one[1]}{head_name(one[2])}"


def head_name(head: Head) -> str:
    return f"{head[0]}.{head[1]}"


def _text(x: float, y: float, words: str, style: str = "", more: str = "") -> str:
    style = f' class="{style}"' if style else ""
    return f'<text x="{n(x)}" y="{n(y)}"{style}{more}>{escape(words)}</text>'


def _rect(x: float, y: float, width: float, height: float, style: str, more: str = "") -> str:
    return f'<rect x="{n(x)}" y="{n(y)}" width="{n(width)}" height="{n(height)}" class="{style}"{more}/>'


def _cross(x: float, y: float, r: float = 4) -> str:
    return f'<path class="x" d="M{n(x - r)} {n(y - r)}l{n(2 * r)} {n(2 * r)}m0 {n(-2 * r)}l{n(-2 * r)} {n(2 * r)}"/>'


def _act(do: str, key: str, label: str, inside: str, style: str = "", more: str = "") -> str:
    """A part that can be clicked, or pressed by keyboard."""
    style = f' class="{style}"' if style else ""
    return (
        f'<g{style} data-do="{do}" data-key="{escape(key)}" tabindex="-1" role="button" '
        f'aria-label="{escape(label)}"{more}>{inside}</g>'
    )


def _short(name: str, most: int = 10) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


class Layout:
    """Where everything stands: `x` of a position, `lanes` with (top, rail) of every head, and the heights between."""

    def __init__(self, scene: Scene):
        self.n = len(scene.names)
        self.pitch = min(100, (WIDTH - LEFT - RIGHT) / self.n)
        shown = [*scene.names, *map(scene.called, scene.best)]
        self.flat = max(len(_short(name)) for name in shown) * 6.7 + 6 < self.pitch
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


@cache
def _style() -> str:
    return (files(__package__) / "drawing.css").read_text(encoding="utf-8").strip()


def svg(scene: Scene) -> str:
    """The whole picture, for the page that answers mouse and keyboard."""
    layout = Layout(scene)
    panel, height = _panel(scene, layout.panel)
    on = "".join(
        f".micro:has(.c{i}:is(:hover,:focus)) .arcs .d{i}{{opacity:1}}"
        f".micro:has(.c{i}:is(:hover,:focus)) .arcs .d{i} text{{display:block}}"
        for i in range(layout.n)
    )
    return _document(
        [
            _text(0, 12, f"{scene.view.capitalize()}: {VIEWS[scene.view]}{MORE * scene.weighted}", "s"),
            *_bands(scene, layout),
            *_columns(scene, layout),
            *_lanes(scene, layout),
            *panel,
        ],
        height,
        alt(scene),
        on,
    )


def panel(scene: Scene) -> str:
    """The panels of a view alone, without the pipes."""
    parts, height = _panel(scene, 14)
    return _document(parts, height, alt(scene))


def _document(parts: list[str], height: float, label: str, rules: str = "") -> str:
    size = f'width="{WIDTH}" height="{n(height)}" viewBox="0 0 {WIDTH} {n(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="micro" {size} role="group" aria-label="{escape(label)}">'
        f'<style>{_style()}{rules}</style><rect width="100%" height="100%" fill="var(--bg)"/>{"".join(parts)}</svg>'
    )


def still(drawn: str) -> str:
    """A drawing without what only a live one needs; its columns still answer the mouse and the Tab key."""
    drawn = re.sub(r'<(rect|path|circle)[^>]*class="(ring|edge)"[^>]*/>', "", drawn)
    drawn = re.sub(r'<g data-do="cut"[^>]*></g>|<g class="switch"[^>]*></g>', "", drawn)
    drawn = re.sub(
        r'(<g class="col [^"]*") data-do="[^"]*" data-key="[^"]*" tabindex="-1" role="button"',
        r'\1 tabindex="0"',
        drawn,
    )
    return re.sub(
        r' data-do="[^"]*" data-key="[^"]*" tabindex="-1" role="button" aria-label="[^"]*"( aria-pressed="[^"]*")?',
        "",
        drawn,
    )


def _bands(scene: Scene, layout: Layout) -> Iterator[str]:
    right = layout.x(layout.n - 1) + layout.pitch / 2 + 4
    for layer, start, end in layout.bands:
        yield _rect(LEFT - 4, start, right - LEFT + 4, end - start, "band", ' rx="5"')
        middle = (start + end) / 2
        yield _text(9, middle, f"layer {layer}", "s m small", f' transform="rotate(-90 9 {n(middle)})"')


def _columns(scene: Scene, layout: Layout) -> Iterator[str]:
    """The pipes, with the token below and what is expected next above."""
    answers = runs.answers(scene.model, scene.base.tokens).tolist()
    now, before = scene.now.logits.softmax(-1), scene.base.logits.softmax(-1)
    was = scene.base.logits.argmax(-1).tolist()
    shut = {one for one in scene.now.cuts if isinstance(one, int)}
    sizes = scene.now.stream.norm(dim=-1)
    sizes = sizes / sizes.max() * min(12, 0.7 * layout.pitch)
    half = layout.pitch / 2
    for i, name in enumerate(scene.names):
        x, best = layout.x(i), scene.best[i]
        p = now[i, best].item()
        inside = [_rect(x - half, layout.bars - 24, 2 * half, layout.base + 20 - layout.bars + 24, "zone")]
        if scene.view == "stream":
            middles = [(start + end) / 2 for _, start, end in reversed(layout.bands)]
            borders = [layout.base + 4, *middles, layout.top - 4]
            for level, (low, high) in enumerate(pairwise(borders)):
                width = f' style="stroke-width:{n(sizes[level, i].item())};stroke-linecap:butt"'
                inside.append(f'<path class="pipe" d="M{n(x)} {n(low)}V{n(high)}"{width}/>')
        else:
            inside.append(f'<path class="pipe" d="M{n(x)} {n(layout.base + 4)}V{n(layout.top - 4)}"/>')
        width = min(10, 0.6 * layout.pitch)
        hit = "bar" if answers[i] < 0 else "right" if best == answers[i] else "wrong"
        inside.append(_rect(x - width / 2, layout.bars - 24 * p, width, 24 * p, hit))
        changed = best != was[i]
        if scene.now.cuts:
            q = before[i, was[i]].item()
            inside.append(_rect(x - width / 2 - 2, layout.bars - 24 * q, width + 4, 24 * q, "ghost"))
        said, style = _short(scene.called(best)), "mono b" if changed else "mono s"
        inside.append(_label(x, layout.bars - 29, said, style, layout, up=True))
        inside.append(_label(x, layout.base + 30, _short(name), "mono", layout))
        label = f"position {i}, {name}: expects {scene.called(best)} with {p:.2f}"
        label += f", before the cut {scene.called(was[i])} with {before[i, was[i]]:.2f}" if scene.now.cuts else ""
        style = f"col c{i}" + " sel" * (i == scene.position) + " shut" * (i in shut)
        yield _act("select", str(i), label, "".join(inside), style)
        if layout.pitch > 19 or i % 5 == 0 or i in shut:
            mark = _cross(x, layout.base + 13, 4) if i in shut else _text(x, layout.base + 17, str(i), "s m small")
        else:
            mark = ""
        ring = _rect(x - min(9, half), layout.base + 6, min(18, 2 * half), 15, "ring", ' rx="4"')
        words = "let" if i in shut else "no longer let"
        yield _act("cut", str(i), f"{words} later positions read position {i}", f"{ring}{mark}")


def _label(x: float, y: float, words: str, style: str, layout: Layout, up: bool = False) -> str:
    if layout.flat:
        return _text(x, y + (1 if up else 4), words, f"{style} m")
    side = "" if up else " e"
    x += 3
    return _text(x, y, words, style + side, f' transform="rotate(-{layout.angle} {n(x)} {n(y)})"')


def _lanes(scene: Scene, layout: Layout) -> Iterator[str]:
    """Every head's lane: its name, its dots or curves, and the switch that cuts it."""
    silenced = {one for one in scene.now.cuts if isinstance(one, tuple) and len(one) == 2}
    right = layout.x(layout.n - 1) + layout.pitch / 2
    sizes = scene.now.written.norm(dim=-1)
    sizes = (sizes / sizes.max()).sqrt() if sizes.numel() else sizes
    for head, (top, rail) in layout.lanes.items():
        is_open, name = head in scene.heads and scene.view != "stream", head_name(head)
        off = head in silenced
        look = f"l{head[0] % 2}" + " off" * off
        line = f'<path class="rail" d="M{LEFT} {n(rail)}H{n(right)}"/>' if is_open else ""
        line += _text(LEFT - 10, rail + 21, "before", "e s small") if is_open and scene.now.cuts else ""
        yield f'<g class="{look}">{line}'
        yield from _arcs(scene, layout, head, rail) if is_open else _dots(layout, sizes[head], rail)
        yield "</g>"
        ring = _rect(22, rail - 7, 52, 13, "ring", ' rx="4"')
        style = "e mono b" if is_open else "e mono s"
        words = _text(LEFT - 10, rail + 4, name, style)
        label = f"head {name}{', cut' * off}: {'close' if is_open else 'open'} its lane"
        pressed = f' aria-pressed="{str(is_open).lower()}"'
        yield _act("open", name, label, ring + words, f"lane l{head[0] % 2}", pressed)
        x = right + 14
        switch = _cross(x, rail, 3.5) if off else f'<circle cx="{n(x)}" cy="{n(rail)}" r="2.5" class="edge"/>'
        ring = _rect(x - 8, rail - 6.5, 16, 13, "ring", ' rx="4"')
        label = f"{'restore' if off else 'cut'} head {name}"
        yield _act("cut", name, label, ring + switch, "switch")


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
    largest = {w: _values(scene.base, w)[head].max().item() for w in (True, False)}[scene.weighted]
    shown = [(scene.now, rail, 1, "arcs")]
    if scene.now.cuts:
        shown.append((scene.base, rail + 3, -1, "arcs was"))
    for run, y, way, style in shown:
        values = _values(run, scene.weighted)[head]
        yield f'<g class="{style}">'
        for dest in range(layout.n):
            least = LEAST if layout.n <= 32 or dest == scene.position else 0.1
            row = values[dest, : dest + 1].tolist()
            strongest = sorted(range(dest + 1), key=row.__getitem__)[-4:]
            curves, words = {}, []  # curves of one width are one path
            for src, value in enumerate(row):
                share = value / largest if scene.weighted else value
                if share < least:
                    continue
                path, peak = _curve(layout, src, dest, y, way)
                width = n(max(1, round(2 * most * share)) / 2)
                curves[width] = curves.get(width, "") + path
                if src in strongest and share >= 0.08 and (way > 0 or scene.now.cuts):
                    words.append(_text((layout.x(src) + layout.x(dest)) / 2 - 9 * (src == dest), peak, number(value)))
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
        return (
            f"M{n(a)} {n(y)}c{n(-reach)} {n(-rise)} {n(reach)} {n(-rise)} 0 0",
            y - rise - 2 if way > 0 else y - rise + 9,
        )
    path = f"M{n(a)} {n(y)}A{n((b - a) / 2)} {n(height)} 0 0 {1 if way > 0 else 0} {n(b)} {n(y)}"
    return path, y - height - 2 if way > 0 else y + height + 9


def _panel(scene: Scene, top: float) -> tuple[list[str], float]:
    """What stands below the pipes: the predictions at the selected position, and what the view is about."""
    left, low = _predictions(scene, top)
    right, lower = {"attention": _steps, "stream": _levels, "paths": _paths, "doors": _doors}[scene.view](scene, top)
    return [*left, *right], max(low, lower) + 10


def _predictions(scene: Scene, y: float) -> tuple[list[str], float]:
    i = scene.position
    now, before = scene.now.logits[i].softmax(-1), scene.base.logits[i].softmax(-1)
    answer = int(runs.answers(scene.model, scene.base.tokens)[i])
    rows = now.topk(3).indices.tolist()
    rows += [
        token for token in {int(before.argmax()): 0, answer: 0, scene.token: 0} if token >= 0 and token not in rows
    ]
    cut = bool(scene.now.cuts)
    parts = [_text(0, y, f"After {scene.names[i]}, position {i}", "b")]
    parts.append(_text(300, y, "now (before)" if cut else "probability", "s small e"))
    for token in rows:
        y += ROW + 2
        p, q = now[token].item(), before[token].item()
        inside = [_rect(-2, y - 13, 306, ROW, "ring", ' rx="4"')]
        inside.append(_text(0, y, _short(scene.called(token), 13), "mono b" if token == scene.token else "mono"))
        inside.append(_rect(100, y - 10, max(1, 110 * p), 10, "right" if token == answer else "bar"))
        if cut:
            inside.append(_rect(100, y - 12, max(1, 110 * q), 14, "ghost"))
        inside.append(_text(300, y, f"{p:.2f} ({q:.2f})" if cut else f"{p:.2f}", "e"))
        label = f"{scene.called(token)}: {p:.2f}" + f", before the cut {q:.2f}" * cut + ". Take its logit apart"
        parts.append(_act("ask", str(token), label, "".join(inside)))
    y += ROW + 6
    text = "came" if scene.model.tokenizer else "right is"
    loss, was = scene.now.loss, scene.base.loss
    if answer >= 0:
        parts.append(_text(0, y, f"{text} ", "s"))
        parts.append(_text(52, y, _short(scene.called(answer), 13), "mono b"))
        lost = f"{number(loss[i].item())} ({number(was[i].item())})" if cut else number(loss[i].item())
        parts.append(_text(300, y, f"loss {lost} nats", "e"))
        y += ROW
    if not loss.isnan().all():
        lost = number(loss.nanmean().item()) + (f" ({number(was.nanmean().item())})" if cut else "")
        parts.append(_text(0, y, "all positions", "s"))
        parts.append(_text(300, y, f"mean loss {lost} nats", "e"))
    if cut:
        for words in _wrapped(f"cut: {', '.join(map(runs.name, scene.now.cuts))}", 52):
            y += ROW
            parts.append(_text(0, y, words, "s"))
    return parts, y


def _wrapped(words: str, most: int) -> Iterator[str]:
    line = ""
    for word in words.split():
        if line and len(line) + len(word) >= most:
            yield line
            line = ""
        line += f" {word}" if line else word
    yield line


def _steps(scene: Scene, y: float) -> tuple[list[str], float]:
    """Attention in four steps, on the four positions that end with the selected one."""
    if scene.chosen is None:
        return [_text(INDENT, y, "Open the lane of a head to see how its pattern comes about.", "s")], y
    layer, head = scene.chosen
    last = min(max(scene.position, 3), len(scene.names) - 1)
    window = range(max(0, last - 3), last + 1)
    first = window[0]
    scores, pattern = scene.now.scores[layer, head], scene.now.pattern[layer, head]
    weighted = scene.now.value_weighted[layer, head]
    hidden = {one for one in scene.now.cuts if isinstance(one, int)}
    x, gap = INDENT + 76, 8
    columns = {step: [None] * (first > 0 and step in STEPS[2:]) + list(window) for step in STEPS}  # None: all before
    cell = (WIDTH - x - 3 * gap) / sum(map(len, columns.values()))
    tables = {"scores": scores, "mask": scores, "pattern": pattern, "values": weighted}
    largest = {"pattern": 1.0, "values": max(1e-9, weighted[list(window)].max().item())}
    parts = [_text(INDENT, y, f"Head {layer}.{head}", "b")]
    parts += [
        _text(INDENT, y + 34 + 20 * r, f"{i:2d} {_short(scene.names[i], 8)}", "mono") for r, i in enumerate(window)
    ]
    left = x
    for number_of, (step, title) in enumerate(zip(STEPS, TITLES, strict=True), 1):
        width = cell * len(columns[step])
        inside = [
            _rect(left - 3, y - 13, width + 6, 114, "ring", ' rx="5"'),
            _text(left, y, f"{number_of} {title}", "b"),
        ]
        for c, src in enumerate(columns[step]):
            middle = left + cell * (c + 0.5)
            above = str(src) if src is not None else "0" if first == 1 else f"0–{first - 1}"
            inside.append(_text(middle, y + 16, above, "s small m"))
            for r, dest in enumerate(window):
                top = y + 20 + 20 * r
                shown, strength = "", 0.0
                if src is None or src <= dest:
                    value = tables[step][dest, :first].sum() if src is None else tables[step][dest, src]
                    shown = _fitting(value.item())
                    strength = value.item() / largest[step] if step in largest else 0
                elif step == "scores":
                    shown = _fitting(scores[dest, src].item())
                if step == "mask" and (src > dest or (src in hidden and src != dest)):
                    shown = "−∞"
                if strength > 0.01:
                    fill = f' opacity="{0.3 * strength:.2f}"'
                    inside.append(_rect(middle - cell / 2 + 0.5, top + 0.5, cell - 1, 19, "cell", fill))
                if shown:
                    inside.append(_text(middle, top + 14, shown, "small m"))
        style = f"l{layer % 2}" + " later" * (number_of > scene.step)
        parts.append(_act("step", str(number_of), f"step {number_of}, {title}", "".join(inside), style))
        left += width + gap
    notes = {
        "scores": "query · key / √d_head, for every pair",
        "mask": "no position may look to its right",
        "pattern": "e to the score, divided so that a row sums to 1",
        "values": "times the length of what the source gives",
    }
    parts.append(_text(x, y + 120, notes[STEPS[scene.step - 1]], "s"))
    return parts, y + 120


def _fitting(value: float) -> str:
    """A number of at most four characters."""
    return number(value, 2 if 0 <= value < 9.995 else 1 if -9.95 < value < 99.95 else 0)


def _levels(scene: Scene, y: float) -> tuple[list[str], float]:
    """What the model would expect next if it stopped here, level by level."""
    i, cfg = scene.position, scene.model.cfg
    parts = [_text(INDENT, y, f"The stream at position {i}", "b"), _text(INDENT + 216, y, "length", "s small e")]
    parts.append(_text(INDENT + 246, y, "what the model would expect, read off here", "s small"))
    for level in reversed(range(cfg.n_layers + 1)):
        y += ROW + 2
        x = scene.now.stream[level, i]
        words = "embedding" if not level else f"after layer {level - 1}"
        parts.append(_text(INDENT, y, words))
        parts.append(_text(INDENT + 216, y, number(x.norm().item()), "e"))
        p = lens(scene.model, x).softmax(-1)
        for place, token in enumerate(p.topk(3).indices.tolist()):
            left = INDENT + 246 + 123 * place
            parts.append(_text(left, y, _short(scene.called(token), 10), "mono"))
            parts.append(_text(left + 112, y, f"{p[token]:.2f}", "s e"))
    return parts, y


def lens(model: HookedTransformer, x: torch.Tensor) -> torch.Tensor:
    """The logits that the unembedding reads off a stream vector [d_model]."""
    x = x[None, None]
    x = model.ln_final(x) if model.cfg.normalization_type else x
    return (x @ model.W_U + model.b_U)[0, 0]


def _bar(x: float, y: float, value: float, was: float | None, zero: float, unit: float, style: str = "") -> list[str]:
    def box(amount: float, grow: float, kind: str) -> str:
        return _rect(x + zero + min(0, amount) * unit, y - 10 - grow, max(0.5, abs(amount) * unit), 10 + 2 * grow, kind)

    drawn = [box(value, 0, f"bar {style}".strip())]
    return drawn + ([box(was, 2, "ghost")] if was is not None else [])


def _paths(scene: Scene, y: float) -> tuple[list[str], float]:
    """The logit of the asked token as bars that sum to it; two layers: also by what the later heads read."""
    model, i, token = scene.model, scene.position, scene.token
    now, before = (runs.terms(model, run, i, token) for run in (scene.now, scene.base))
    cut = bool(scene.now.cuts)
    two = model.cfg.n_layers == 2 and model.cfg.normalization_type is None
    everything = [*now.values(), *before.values(), 0.0]
    low, high = min(everything), max(everything)
    room = 62 if two else 330
    unit = room / max(1e-9, high - low)
    zero = -low * unit
    logit = scene.now.logits[i, token].item()
    parts = [_text(INDENT, y, f"The logit of {scene.called(token)}", "b")]
    total = f"{number(logit)} = the sum of all bars" + f" (before: {number(scene.base.logits[i, token].item())})" * cut
    parts.append(_text(WIDTH, y, total, "e"))
    y += 14
    parts.append(f'<path class="axis" d="M{n(INDENT + 46 + zero)} {n(y)}v{n(ROW * (9 if two else len(now)) + 4)}"/>')
    first = [name for name in now if not (two and name.startswith("1."))]
    low_y = y
    for name in first:
        low_y += ROW
        layer = "" if "." not in name else f"l{int(name[0]) % 2}"
        parts.append(_text(INDENT + 40, low_y, name, "mono e"))
        parts += _bar(INDENT + 46, low_y, now[name], before[name] if cut else None, zero, unit, layer)
        parts.append(_text(INDENT + 46 + room + 36, low_y, number(now[name]), "e"))
    if not two:
        return parts, low_y
    table = runs.pairs(model, scene.now, i, token)
    x = INDENT + 170
    parts.append(f'<path class="axis" d="M{n(x + 30 + zero)} {n(y)}v{n(ROW * 9 + 4)}"/>')
    cell, left = 31, x + 30 + room + 42
    sources = ["direct", *(f"0.{h}" for h in range(model.cfg.n_heads))]
    parts += [_text(left + cell * (c + 0.5), y + ROW - 4, name, "s small m") for c, name in enumerate(sources)]
    largest = max(table.abs().max().item(), 1e-9)
    y += ROW
    for h in range(model.cfg.n_heads):
        y += ROW
        name = f"1.{h}"
        parts.append(_text(x + 24, y, name, "mono e"))
        parts += _bar(x + 30, y, now[name], before[name] if cut else None, zero, unit, "l1")
        parts.append(_text(x + 30 + room + 36, y, number(now[name]), "e"))
        for c, value in enumerate(table[h].tolist()):
            fill = f' opacity="{0.45 * abs(value) / largest:.2f}"'
            parts.append(_rect(left + cell * c + 0.5, y - 12.5, cell - 1, ROW - 1, "cell l1", fill))
            parts.append(_text(left + cell * (c + 0.5), y, number(value), "small m"))
    parts.append(
        _text(WIDTH, y + ROW, "a bar of layer 1 is its row: what the values of the head were made from", "s small e")
    )
    return parts, max(low_y, y + ROW)


MODES = {"q": "queries", "k": "keys", "v": "values"}


def _doors(scene: Scene, y: float) -> tuple[list[str], float]:
    """Which of a later head's doors are shut, and the composition score of each."""
    later, cfg = scene.later, scene.model.cfg
    if later is None:
        return [_text(INDENT, y, "With fewer than two layers, no head reads what another one wrote.", "s")], y
    if cfg.normalization_type is not None:
        return [_text(INDENT, y, "With LayerNorm, no door can be shut by itself.", "s")], y
    parts = [_text(INDENT, y, f"The doors of head {head_name(later)}", f"b l{later[0] % 2}")]
    parts.append(_text(WIDTH, y, "composition score; press a cell to shut that door", "s small e"))
    columns = [(layer, head) for layer in range(later[0]) for head in range(cfg.n_heads)]
    x, cell = INDENT + 64, (WIDTH - INDENT - 64) / len(columns)
    y += 16
    parts += [_text(x + cell * (c + 0.5), y, head_name(head), "mono s m") for c, head in enumerate(columns)]
    y += 6
    scores = {path: composition.scores(scene.model, path.upper())[:, :, later[0], later[1]] for path in "qkv"}
    largest = max(score.max().item() for score in scores.values())
    for path, words in MODES.items():
        inside = _rect(INDENT - 4, y + 3, 64, 28, "ring", ' rx="4"') + _text(INDENT, y + 21, words)
        parts.append(_act("doors", path, f"shut or open all {words} of head {head_name(later)}", inside))
        for c, earlier in enumerate(columns):
            door = (earlier, path, later)
            value, shut = scores[path][earlier].item(), door in scene.now.cuts
            left = x + cell * c
            fill = f' opacity="{0.5 * value / largest:.2f}"'
            inside = [_rect(left + 1, y + 1, cell - 2, 32, f"cell l{earlier[0] % 2}", fill)]
            inside.append(_rect(left + 1, y + 1, cell - 2, 32, "ring", ' rx="3"'))
            inside.append(_text(left + cell / 2 - 9 * shut, y + 21, number(value), "m"))
            if shut:
                inside.append(_cross(left + cell / 2 + 17, y + 17, 7))
            label = f"{'open' if shut else 'shut'}: {runs.name(door)}, score {value:.2f}"
            parts.append(_act("cut", cut_name(door), label, "".join(inside), "door"))
        y += 34
    return parts, y


def alt(scene: Scene) -> str:
    """What the picture shows, in words, for those who do not see it."""
    cfg, i = scene.model.cfg, scene.position
    heads = f", {cfg.n_layers * cfg.n_heads} heads" if cfg.n_layers else ""
    words = [f"A model with {cfg.n_layers} layer{'s' * (cfg.n_layers != 1)}{heads}, on {len(scene.names)} tokens."]
    p, best = scene.now.logits[i].softmax(-1).max(-1)
    words.append(
        f"After {scene.names[i]} at position {i} it expects {scene.called(int(best))} with probability {p:.2f}."
    )
    for head in scene.heads if scene.view == "attention" else []:
        share, src = scene.now.pattern[head][i].max(-1)
        words.append(
            f"From there, head {head_name(head)} looks most at {scene.names[int(src)]}, position {int(src)}: {share:.2f}."
        )
    if scene.view == "paths":
        parts = runs.terms(scene.model, scene.now, i, scene.token)
        strongest = sorted(parts, key=lambda name: -abs(parts[name]))[:3]
        terms = ", ".join(f"{name} {number(parts[name])}" for name in strongest)
        words.append(
            f"The logit of {scene.called(scene.token)} is {number(scene.now.logits[i, scene.token].item())}; largest terms: {terms}."
        )
    if scene.now.cuts:
        p, best = scene.base.logits[i].softmax(-1).max(-1)
        words.append(
            f"Cut: {', '.join(map(runs.name, scene.now.cuts))}; before, it expected {scene.called(int(best))} with {p:.2f}."
        )
    return " ".join(words)
