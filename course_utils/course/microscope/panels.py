"""What stands below the pipes: the predictions at one position, and beside them what the view is about."""

import textwrap
from collections.abc import Iterator

import torch
from transformer_lens import HookedTransformer

from course_utils import composition, interventions, paths
from course_utils.course.microscope import answers
from course_utils.course.microscope.scene import STEPS, Scene, in_words, key_of
from course_utils.course.microscope.shapes import WIDTH, act, cross, document, n, number, rect, short, text

TITLES = ("scores", "mask", "softmax", "× values")  # of the steps
MODES = {"q": "queries", "k": "keys", "v": "values"}
INDENT = 328  # where the panel beside the predictions begins
ROW = 17


def alone(scene: Scene) -> str:
    """The panels of a view alone, without the pipes."""
    return document(*below(scene, 14), in_words(scene))


def below(scene: Scene, top: float) -> tuple[list[str], float]:
    """What stands below the pipes: the predictions at the selected position, and what the view is about."""
    left, low = _predictions(scene, top)
    right, lower = {"attention": _steps, "stream": _levels, "paths": _paths, "doors": _doors}[scene.view](scene, top)
    return [*left, *right], max(low, lower) + 10


def _predictions(scene: Scene, y: float) -> tuple[list[str], float]:
    i = scene.position
    now, before = scene.now.logits[i].softmax(-1), scene.base.logits[i].softmax(-1)
    answer = int(answers.answers(scene.model, scene.base.tokens)[i])
    rows = now.topk(3).indices.tolist()
    others = dict.fromkeys((int(before.argmax()), answer, scene.token))
    rows += [token for token in others if token >= 0 and token not in rows]
    cut = bool(scene.now.cuts)
    parts = [text(0, y, f"After {scene.names[i]}, position {i}", "b")]
    parts.append(text(300, y, "now (before)" if cut else "probability", "s small e"))
    for token in rows:
        y += ROW + 2
        p, q = now[token].item(), before[token].item()
        inside = [rect(-2, y - 13, 306, ROW, "ring", ' rx="4"')]
        inside.append(text(0, y, short(scene.called(token), 13), "mono b" if token == scene.token else "mono"))
        inside.append(rect(100, y - 10, max(1, 110 * p), 10, "right" if token == answer else "bar"))
        if cut:
            inside.append(rect(100, y - 12, max(1, 110 * q), 14, "ghost"))
        inside.append(text(300, y, f"{p:.2f} ({q:.2f})" if cut else f"{p:.2f}", "e"))
        label = f"{scene.called(token)}: {p:.2f}" + f", before the cut {q:.2f}" * cut + ". Take its logit apart"
        parts.append(act("ask", str(token), label, "".join(inside)))
    y += ROW + 6
    verb = "came" if scene.model.tokenizer else "right is"
    loss, was = (answers.losses(scene.model, run) for run in (scene.now, scene.base))
    if answer >= 0:
        parts.append(text(0, y, verb, "s"))
        parts.append(text(52, y, short(scene.called(answer), 13), "mono b"))
        lost = f"{number(loss[i].item())} ({number(was[i].item())})" if cut else number(loss[i].item())
        parts.append(text(300, y, f"loss {lost} nats", "e"))
        y += ROW
    if not loss.isnan().all():
        lost = number(loss.nanmean().item()) + (f" ({number(was.nanmean().item())})" if cut else "")
        parts.append(text(0, y, "all positions", "s"))
        parts.append(text(300, y, f"mean loss {lost} nats", "e"))
    if cut:
        cuts = f"cut: {', '.join(map(interventions.in_words, scene.now.cuts))}"
        for words in textwrap.wrap(cuts, 52, break_long_words=False, break_on_hyphens=False):
            y += ROW
            parts.append(text(0, y, words, "s"))
    return parts, y


def _steps(scene: Scene, y: float) -> tuple[list[str], float]:
    """Attention in four steps, on the four positions that end with the selected one."""
    if scene.chosen is None:
        return [text(INDENT, y, "Open the lane of a head to see how its pattern comes about.", "s")], y
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
    parts = [text(INDENT, y, f"Head {layer}.{head}", "b")]
    parts += [text(INDENT, y + 34 + 20 * r, f"{i:2d} {short(scene.names[i], 8)}", "mono") for r, i in enumerate(window)]
    left: float = x
    for number_of, (step, title) in enumerate(zip(STEPS, TITLES, strict=True), 1):
        width = cell * len(columns[step])
        ring = rect(left - 3, y - 13, width + 6, 114, "ring", ' rx="5"')
        inside = [ring, text(left, y, f"{number_of} {title}", "b")]
        for c, src in enumerate(columns[step]):
            middle = left + cell * (c + 0.5)
            above = str(src) if src is not None else "0" if first == 1 else f"Σ 0–{first - 1}"
            inside.append(text(middle, y + 16, above, "s small m"))
            for r, dest in enumerate(window):
                value = tables[step][dest, :first].sum() if src is None else tables[step][dest, src]
                behind = src is not None and (src > dest or (src in hidden and src != dest))
                share = value.item() / largest[step] if step in largest else 0
                inside += _entry(middle, y + 20 + 20 * r, cell, step, value.item(), share, behind)
        style = f"l{layer % 2}" + " later" * (number_of > scene.step)
        parts.append(act("step", str(number_of), f"step {number_of}, {title}", "".join(inside), style))
        left += width + gap
    notes = {
        "scores": "query · key / √d_head, for every pair",
        "mask": "no position may look to its right",
        "pattern": "e to the score, divided so that a row sums to 1",
        "values": "times the length of what the source gives",
    }
    parts.append(text(x, y + 120, notes[STEPS[scene.step - 1]], "s"))
    return parts, y + 120


def _entry(middle: float, top: float, width: float, step: str, value: float, share: float, behind: bool) -> list[str]:
    """A number of a step, the larger the `share` the darker its ground; `behind` the mask there is none any more."""
    if behind and step != "scores":
        return [text(middle, top + 14, "−∞", "small m")] if step == "mask" else []
    shown = [text(middle, top + 14, _fitting(value), "small m")]
    if share <= 0.01:
        return shown
    fill = f' opacity="{0.3 * share:.2f}"'
    return [rect(middle - width / 2 + 0.5, top + 0.5, width - 1, 19, "cell", fill), *shown]


def _fitting(value: float) -> str:
    """A number of at most four characters."""
    return number(value, 2 if 0 <= value < 9.995 else 1 if -9.95 < value < 99.95 else 0)


def _levels(scene: Scene, y: float) -> tuple[list[str], float]:
    """What the model would expect next if it stopped here, level by level."""
    i, cfg = scene.position, scene.model.cfg
    parts = [text(INDENT, y, f"The stream at position {i}", "b"), text(INDENT + 216, y, "length", "s small e")]
    parts.append(text(INDENT + 246, y, "what the model would expect, read off here", "s small"))
    for level in reversed(range(cfg.n_layers + 1)):
        y += ROW + 2
        x = scene.now.stream[level, i]
        parts.append(text(INDENT, y, f"after layer {level - 1}" if level else "embedding"))
        parts.append(text(INDENT + 216, y, number(x.norm().item()), "e"))
        p = lens(scene.model, x).softmax(-1)
        for place, token in enumerate(p.topk(3).indices.tolist()):
            left = INDENT + 246 + 123 * place
            parts.append(text(left, y, short(scene.called(token), 10), "mono"))
            parts.append(text(left + 112, y, f"{p[token]:.2f}", "s e"))
    return parts, y


def lens(model: HookedTransformer, x: torch.Tensor) -> torch.Tensor:
    """The logits that the unembedding reads off a stream vector [d_model]."""
    x = x[None, None]
    x = model.ln_final(x) if model.cfg.normalization_type else x
    return (x @ model.W_U + model.b_U)[0, 0]


def _paths(scene: Scene, y: float) -> tuple[list[str], float]:
    """The logit of the asked token as bars that sum to it; two layers: also by what the later heads read."""
    model, i, token = scene.model, scene.position, scene.token
    now, before = (paths.terms(model, run, i, token) for run in (scene.now, scene.base))
    cut = bool(scene.now.cuts)
    two = model.cfg.n_layers == 2 and model.cfg.normalization_type is None
    everything = [*now.values(), *before.values(), 0.0]
    low, high = min(everything), max(everything)
    room = 62 if two else 330
    unit = room / max(1e-9, high - low)
    zero = -low * unit

    def bar(x: float, y: float, name: str, style: str) -> Iterator[str]:
        yield text(x - 6, y, name, "mono e")
        for value, grow, kind in [(now[name], 0, f"bar {style}".strip()), (before[name], 2, "ghost")][: 1 + cut]:
            left, width = x + zero + min(0, value) * unit, max(0.5, abs(value) * unit)
            yield rect(left, y - 10 - grow, width, 10 + 2 * grow, kind)
        yield text(x + room + 36, y, number(now[name]), "e")

    logit = scene.now.logits[i, token].item()
    parts = [text(INDENT, y, f"The logit of {scene.called(token)}", "b")]
    total = f"{number(logit)} = the sum of all bars" + f" (before: {number(scene.base.logits[i, token].item())})" * cut
    parts.append(text(WIDTH, y, total, "e"))
    y += 14
    parts.append(f'<path class="axis" d="M{n(INDENT + 46 + zero)} {n(y)}v{n(ROW * (9 if two else len(now)) + 4)}"/>')
    first = [name for name in now if not (two and name.startswith("1."))]
    low_y = y
    for name in first:
        low_y += ROW
        layer = "" if "." not in name else f"l{int(name[0]) % 2}"
        parts += bar(INDENT + 46, low_y, name, layer)
    if not two:
        return parts, low_y
    table = paths.pairs(model, scene.now, i, token)
    x = INDENT + 170
    parts.append(f'<path class="axis" d="M{n(x + 30 + zero)} {n(y)}v{n(ROW * 9 + 4)}"/>')
    cell, left = 31, x + 30 + room + 42
    sources = ["direct", *(f"0.{h}" for h in range(model.cfg.n_heads))]
    parts += [text(left + cell * (c + 0.5), y + ROW - 4, name, "s small m") for c, name in enumerate(sources)]
    largest = max(table.abs().max().item(), 1e-9)
    y += ROW
    for h in range(model.cfg.n_heads):
        y += ROW
        parts += bar(x + 30, y, f"1.{h}", "l1")
        for c, value in enumerate(table[h].tolist()):
            fill = f' opacity="{0.45 * abs(value) / largest:.2f}"'
            parts.append(rect(left + cell * c + 0.5, y - 12.5, cell - 1, ROW - 1, "cell l1", fill))
            parts.append(text(left + cell * (c + 0.5), y, number(value), "small m"))
    words = "a bar of layer 1 is its row: what the values of the head were made from"
    parts.append(text(WIDTH, y + ROW, words, "s small e"))
    return parts, max(low_y, y + ROW)


def _doors(scene: Scene, y: float) -> tuple[list[str], float]:
    """Which of a later head's doors are shut, and the composition score of each."""
    later, cfg = scene.later, scene.model.cfg
    if later is None:
        return [text(INDENT, y, "With fewer than two layers, no head reads what another one wrote.", "s")], y
    if cfg.normalization_type is not None:
        return [text(INDENT, y, "With LayerNorm, no door can be shut by itself.", "s")], y
    parts = [text(INDENT, y, f"The doors of head {interventions.head_name(later)}", f"b l{later[0] % 2}")]
    parts.append(text(WIDTH, y, "composition score; press a cell to shut that door", "s small e"))
    columns = [(layer, head) for layer in range(later[0]) for head in range(cfg.n_heads)]
    x, cell = INDENT + 64, (WIDTH - INDENT - 64) / len(columns)
    y += 16
    names = map(interventions.head_name, columns)
    parts += [text(x + cell * (c + 0.5), y, name, "mono s m") for c, name in enumerate(names)]
    y += 6
    if not scene.composition:
        scene.composition |= {path: composition.scores(scene.model, path.upper()) for path in "qkv"}
    scores = {path: table[:, :, later[0], later[1]] for path, table in scene.composition.items()}
    largest = max(score.max().item() for score in scores.values())
    for path, words in MODES.items():
        name = rect(INDENT - 4, y + 3, 64, 28, "ring", ' rx="4"') + text(INDENT, y + 21, words)
        parts.append(act("doors", path, f"shut or open all {words} of head {interventions.head_name(later)}", name))
        for c, earlier in enumerate(columns):
            door = (earlier, path, later)
            value, shut = scores[path][earlier].item(), door in scene.now.cuts
            left = x + cell * c
            fill = f' opacity="{0.5 * value / largest:.2f}"'
            inside = [rect(left + 1, y + 1, cell - 2, 32, f"cell l{earlier[0] % 2}", fill)]
            inside.append(rect(left + 1, y + 1, cell - 2, 32, "ring", ' rx="3"'))
            inside.append(text(left + cell / 2 - 9 * shut, y + 21, number(value), "m"))
            if shut:
                inside.append(cross(left + cell / 2 + 17, y + 17, 7))
            label = f"{'open' if shut else 'shut'}: {interventions.in_words(door)}, score {value:.2f}"
            parts.append(act("cut", key_of(door), label, "".join(inside), "door"))
        y += 34
    return parts, y
