"""The microscope's facts as a plain picture: what GitHub, a stored notebook and paper show."""

from html import escape
from typing import Any

from course_microscope.facts import Facts, said
from course_utils.interventions import head_name

WIDTH, MARGIN = 860, 16
LEFT = 400  # where the view begins, beside the message
ROW = 24  # the height of a line
LETTER = 8.5  # the width of a letter
Boxes = list[tuple[float, float, float]]  # where tokens stand: left, top, width

# colours as in micro.css; of texts, s is soft, c code, e ends here, m has its middle here
LIGHT = "--fg:#1f2328;--soft:#59636e;--line:#d1d9e0;--card:#f6f8fa;--bg:#ffffff;"
LIGHT += "--one:#0860ca;--two:#b34700;"
DARK = "--fg:#eef2f6;--soft:#a2adb8;--line:#3d4650;--card:#1e242c;--bg:#12161c;"
DARK += "--one:#6cb0ff;--two:#f7a35c;"
CSS = (
    f".m{{{LIGHT}font:13px system-ui,sans-serif}}"
    f"@media(prefers-color-scheme:dark){{.m{{{DARK}}}}}"
    ".m text{fill:var(--fg)}.m .s{fill:var(--soft)}"
    ".m .c{font-family:ui-monospace,DejaVu Sans Mono,monospace}"
    ".m .big{font-size:24px}.m .b{font-weight:600}.m .e{text-anchor:end}.m .m{text-anchor:middle}"
    ".m .h{stroke:var(--bg);stroke-width:4px;paint-order:stroke}"
    ".m path{fill:none;stroke-linecap:round}"
)


def svg(facts: Facts) -> str:
    """The whole picture, as the text of an SVG."""
    pen = Pen()
    boxes = _tokens(pen, facts)
    _arcs(pen, facts, boxes)

    # below the text, what is expected stands at the left, and the view at the right
    _, y, _ = boxes[-1]
    pen.move(MARGIN, y + 64)
    _message(pen, facts)
    lowest = pen.y
    pen.move(LEFT, y + 64)
    views = {"attention": _sources, "stream": _levels, "paths": _terms, "doors": _doors}
    views[facts["view"]](pen, facts)
    height = _n(max(lowest, pen.y) + MARGIN)
    size = f'width="{WIDTH}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="m" {size} viewBox="0 0 {WIDTH} {height}">'
        f'<style>{CSS}</style><rect {size} rx="12" fill="var(--bg)"/>{"".join(pen.parts)}</svg>'
    )


class Pen:
    """What draws: it stands at `x` and `y`, and measures from there, to the right and down."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.move(0, 0)

    def move(self, x: float, y: float) -> None:
        self.x = x
        self.y = y

    def draw(self, tag: str, right: float, below: float, rest: str) -> None:
        x = _n(self.x + right)
        y = _n(self.y + below)
        self.parts.append(f'<{tag} x="{x}" y="{y}" {rest}')

    def text(self, words: str, style: str = "", right: float = 0, /, **facts: Any) -> None:
        """Words with facts in them: see `said`."""
        words = escape(said(words, **facts))
        self.draw("text", right, 0, f'class="{style}">{words}</text>')

    def line(self, words: str, style: str = "", below: float = ROW, /, **facts: Any) -> None:
        """Words on a new line."""
        self.y += below
        self.text(words, style, **facts)

    def named(self, name: str, style: str, value: float) -> None:
        """A name and a number, with room for a bar between them."""
        self.text(name, style)
        self.text("{value:n}", "e", 206, value=value)

    def rect(self, right: float, below: float, width: float, height: int, look: str) -> None:
        """A rectangle; one of negative width stands to the left."""
        left = right + min(0, width)
        wide = _n(max(0.5, abs(width)))
        rest = f'width="{wide}" height="{height}" rx="4" {look}/>'
        self.draw("rect", left, below, rest)

    def bar(self, zero: float, unit: float, now: float, was: float | None, ink: str) -> None:
        """A bar from `zero` on, and around it, dashed, what it was before the cut."""
        self.rect(zero, -10, now * unit, 11, f'fill="{ink}" opacity=".8"')
        if was is not None:
            dashed = 'fill="none" stroke="var(--soft)" stroke-dasharray="3 3"'
            self.rect(zero, -12, was * unit, 15, dashed)

    def share(self, right: float, width: float, now: float, was: float | None, ink: str) -> None:
        """A bar on a ground that shows how long it could be."""
        self.rect(right, -10, width, 11, 'fill="var(--line)" opacity=".4"')
        self.bar(right, width, now, was, ink)


def _n(*values: float) -> str:
    """Numbers with at most one decimal; −0 is 0."""
    return " ".join(f"{round(value, 1) + 0:g}" for value in values)


def _ink(name: str) -> str:
    """A colour for the heads of each layer; what is no head has none."""
    if not name[0].isdigit():
        return "var(--soft)"
    if int(name[0]) % 2:
        return "var(--two)"
    return "var(--one)"


def _tokens(pen: Pen, facts: Facts) -> Boxes:
    """Each token in its box, and what the model expects after it; where the boxes stand."""
    # a box is as dark as the attention that it gets from the head opened last
    position = facts["position"]
    ink = ""
    shares = {}
    for head in facts["open"][-1:]:
        ink = _ink(head)
        curve = facts["curves"][head]
        for src, value in enumerate(curve["now"][position]):
            shares[src] = value / curve["most"]

    boxes: Boxes = []
    x: float = MARGIN
    y = 48
    for at, name in enumerate(facts["names"]):
        width = max(26, LETTER * min(11, len(name)) + 12)
        if x + width > WIDTH - MARGIN:
            x = MARGIN
            y += 68  # the next line, with room for arcs above it
        boxes.append((x, y, width))
        pen.move(x, y)

        # the box, with a thick edge where we look from
        edge = 'stroke="var(--line)"'
        if at == position:
            edge = 'stroke="var(--fg)" stroke-width="2"'
        pen.rect(0, 0, width, 40, f'fill="var(--card)" {edge}')
        share = shares.get(at, 0)  # none after the position
        if share >= 0.01:
            shade = f'fill="{ink}" opacity="{0.35 * share:.2f}"'
            pen.rect(1, 1, width - 2, 38, shade)

        # the token, and below it the best guess at the next one, with its probability as a bar
        guess, p, right = facts["best"][at]
        room = int(width / 7)
        pen.y += 17
        pen.text("{name:11}", "c m", width / 2, name=name)
        pen.y += 15
        pen.parts.append('<g font-size="11">')
        pen.text("{guess:{room}}", "c m s", width / 2, guess=guess, room=room)
        pen.parts.append("</g>")
        look = 'fill="var(--fg)" ' if right else 'fill="var(--soft)" '
        pen.rect(4, 3, (width - 8) * p, 3, look)

        # crossed out where the position is cut
        if str(at) in facts["cuts"]:
            start = _n(x + 3, y + 20)
            line = f'd="M{start}h{_n(width - 6)}" stroke="var(--fg)" stroke-width="2"'
            pen.parts.append(f"<path {line}/>")
        x += width + 4
    return boxes


def _arcs(pen: Pen, facts: Facts, boxes: Boxes) -> None:
    """Where each open head looks from here, and dotted, where it looked before the cut."""
    position = facts["position"]
    for head in facts["open"]:
        curve = facts["curves"][head]
        looks = {"was": 'stroke="var(--soft)" stroke-dasharray="1 6"'}
        looks["now"] = f'stroke="{_ink(head)}"'
        for when, look in looks.items():
            row = curve[when][position] if curve[when] else []
            for src, value in enumerate(row):
                share = value / curve["most"]
                if share >= 0.04:
                    _arc(pen, boxes, src, position, share, look)
                if share >= 0.08 and when == "now":
                    pen.text("{share:%}", "m h", share=share)


def _arc(pen: Pen, boxes: Boxes, src: int, dest: int, share: float, look: str) -> None:
    """An arc between the tops of two boxes, as thick as its share; the pen then stands over it."""
    x, y, width = boxes[src]
    x += width / 2
    u, v, width = boxes[dest]
    u += width / 2
    # within a line, the wider it is, the higher; from line to line, it keeps below the next one
    reach = 12 if src == dest else 0
    rise = 26.0
    pen.move(x, y - 12.1)
    if y == v:
        rise = min(34, 11 + 0.12 * abs(u - x))
        pen.move((x + u) / 2, y - 0.75 * rise - 3)
    start = _n(x, y - 1)
    bend = _n(x - reach, y - rise, u + reach, v - rise)
    end = _n(u, v - 1)
    thick = f"{max(0.8, 4.5 * share):.1f}"
    line = f'd="M{start}C{bend} {end}" {look} stroke-width="{thick}"'
    pen.parts.append(f'<path {line} opacity=".85"/>')


def _message(pen: Pen, facts: Facts) -> None:
    """What the model expects after the position, with a cut beside what it expected before."""
    cut = facts["cuts"]
    name = facts["names"][facts["position"]]
    pen.text("After {name} the model expects", "b", name=name)
    if cut:
        pen.text("now, before", "s e", 334)
    # a line for each token; the first one, in large letters, needs more room
    for place, row in enumerate(facts["rows"]):
        if place == 0 and len(row["name"]) <= 8:
            pen.line("{name}", "c big", 36, **row)
        elif place == 0:  # a long one, smaller
            pen.parts.append('<g font-size="18">')
            pen.line("{name:10}", "c", 36, **row)
            pen.parts.append("</g>")
        else:
            pen.line("{name:12}", "c", **row)
        ink = "var(--fg)" if row["right"] else "var(--soft)"
        pen.share(114, 120, row["p"], row["before"], ink)
        pen.text("{p:%}", "e b", 280, **row)
        if cut:
            pen.text("{before:%}", "e s", 334, **row)
    # what became of the token that was expected before the cut
    if cut:
        was = max(facts["rows"], key=lambda row: row["before"])
        pen.line("{name}  {before:%} → {p:%}", "c big b", 40, **was)
        pen.line("without {words:50}", "s", 20, words=", ".join(facts["words"]))
    # the loss here, and over the whole text
    pen.y += ROW
    if facts["came"]:
        verb = "came" if facts["text"] else "right is"
        pen.text("{verb} {came[0]}, loss {came[1]:n}{came[2]:before}", "s", verb=verb, **facts)
        pen.y += 18
    if facts["mean"]:
        pen.text("mean loss of all positions {mean[0]:n}{mean[1]:before} nats", "s", **facts)


def _sources(pen: Pen, facts: Facts) -> None:
    """Where a head looks: a line for each source, from its score to what it gives."""
    panel = facts["panel"]
    if not panel:
        pen.text("No head is open here.", "s")
        return
    ink = _ink(panel["head"])
    pen.text("Head {head}: its largest sources", "b", **panel)
    pen.y += ROW
    for right, words in ((160, "score"), (290, "attention"), (366, "× length"), (444, "gives")):
        pen.text(words, "s e", right)
    for row in panel["rows"]:
        pen.line("{name:11} {at}", "c", **row)
        pen.text("{score:n}", "e", 160, **row)
        pen.share(176, 68, row["share"], row["before"], ink)
        pen.text("{share:%}", "e", 290, **row)
        pen.text("{length:n}", "e", 366, **row)
        pen.text("{gives:n}", "e", 444, **row)
    # the other sources, all together
    count, share = panel["rest"]
    if count:
        words = "{count} others" if count > 1 else "{count} other"
        pen.line(words, "s", count=count)
        pen.text("{share:%}", "e s", 290, share=share)
    # what the mask hides: the largest score, and of how many
    masked = panel["masked"]
    if masked:
        every = "all " if masked["count"] > 1 else ""
        pen.line("{name:11} {at}", "c s", **masked)
        pen.text("{score:n}", "e s", 160, **masked)
        words = "→ −∞: {every}{count} later behind the mask"
        pen.text(words, "s", 176, every=every, **masked)


def _levels(pen: Pen, facts: Facts) -> None:
    """What the stream would say at each level, the last on top, and what each head adds to it."""
    pen.text("The stream, read off level by level", "b")
    for level, found in reversed(list(enumerate(facts["panel"]))):
        words = "after layer {layer}" if level else "embedding"
        pen.line(words, layer=level - 1)
        pen.text("{length:n}", "e", 120, **found)
        for name, p in found["top"]:
            pen.text("{name:7}", "c", 140, name=name)
            pen.text("{p:%}", "e s", 236, p=p)
            pen.x += 104
        pen.x = LEFT
    # the lengths of what heads add, in two columns; their title is drawn last
    written = facts["written"]
    longest = max([*written.values(), 1e-9])
    lines = -(-len(written) // 2)
    top = pen.y + ROW
    for at, (head, size) in enumerate(written.items()):
        column, line = divmod(at, lines)
        pen.move(LEFT + 226 * column, top + 20 * (line + 1))
        pen.named(head, "c s", size)
        pen.share(34, 124, size / longest, None, _ink(head))
    pen.move(LEFT, top)
    pen.text("length of what each head adds", "s")
    pen.y += 20 * lines


def _terms(pen: Pen, facts: Facts) -> None:
    """A logit as a sum of bars, to the right of zero or to its left."""
    words = "The logit of {called}: {panel[total][0]:n} = the sum of all bars"
    pen.text(words + "{panel[total][1]:before}", "b", **facts)
    # one scale for all of them: from the smallest value to the largest it is 100 wide
    terms = facts["panel"]["terms"]
    values = [0.0]
    for _, now, was in terms:
        values += [now, was or 0.0]
    low = min(values)
    unit = 100 / max(1e-9, max(values) - low)
    # more than ten stand in two columns
    lines = len(terms)
    if lines > 10:
        lines = -(-lines // 2)
    top = pen.y
    for at, (name, now, was) in enumerate(terms):
        column, line = divmod(at, lines)
        pen.move(LEFT + 226 * column, top + ROW * (line + 1))
        pen.named(name, "c", now)
        pen.x += 54
        pen.x -= low * unit  # here is zero
        pen.bar(0, unit, now, was, _ink(name))
    pen.y = top + ROW * lines


def _doors(pen: Pen, facts: Facts) -> None:
    """How much a head reads of each earlier one: a line for each of its three doors."""
    panel = facts["panel"]
    if "why" in panel:
        pen.text("{why}", "s", **panel)
        return
    pen.text("The doors of head {reader}: composition scores", "b", **panel)
    scores = panel["scores"]
    most = max(map(max, scores.values()))
    start = LEFT + 62
    wide = (WIDTH - MARGIN - start) / len(scores["q"])
    y = pen.y
    for path, words in {"q": "queries", "k": "keys", "v": "values"}.items():
        y += 36
        pen.move(LEFT, y + 4)
        pen.text(words)
        for at, score in enumerate(scores[path]):
            head = head_name(divmod(at, facts["heads"]))
            door = f"{head}{path}{panel['reader']}"
            pen.move(start + wide * at, y - 20)
            if path == "q":  # the first line has the heads' names above it
                pen.text(head, "c m s", wide / 2)
            # as dark as its score, and with a thick edge where it is shut
            pen.y = y + 5
            shade = f'fill="{_ink(head)}" opacity="{0.45 * score / most:.2f}"'
            edge = 'stroke="var(--line)"'
            if door in panel["shut"]:
                edge = 'stroke="var(--fg)" stroke-width="2" stroke-dasharray="4 3"'
            pen.rect(1, -19, wide - 2, 30, shade)
            pen.rect(1, -19, wide - 2, 30, f'fill="none" {edge}')
            pen.text("{score:n}", "m", wide / 2, score=score)
    pen.y = y + 16
