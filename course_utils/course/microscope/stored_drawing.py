"""The microscope as a plain picture: what GitHub, a stored notebook and paper show. It draws what
`facts.py` says.
"""

from collections.abc import Iterator
from html import escape

from course_utils.course.microscope.facts import Facts, number, percent

WIDTH, MARGIN, ROW, LETTER = 860, 16, 24, 8.5
COLOURS = ("fg", "soft", "line", "card", "bg", "one", "two")
LIGHT = dict(
    zip(
        COLOURS,
        ["#1f2328", "#59636e", "#d1d9e0", "#f6f8fa", "#ffffff", "#0860ca", "#b34700"],
        strict=True,
    )
)
DARK = dict(
    zip(
        COLOURS,
        ["#eef2f6", "#a2adb8", "#3d4650", "#1e242c", "#12161c", "#6cb0ff", "#f7a35c"],
        strict=True,
    )
)
CSS = (
    ".m{{{light}font:13px system-ui,sans-serif}}@media(prefers-color-scheme:dark){{.m{{{dark}}}}}"
    ".m text{{fill:var(--fg)}}.m .s{{fill:var(--soft)}}.m .c{{font-family:ui-monospace,DejaVu "
    "Sans Mono,monospace}}"
    ".m .big{{font-size:24px}}.m .b{{font-weight:600}}.m .e{{text-anchor:end}}.m "
    ".m{{text-anchor:middle}}"
    ".m .h{{stroke:var(--bg);stroke-width:4px;paint-order:stroke}}.m "
    "path{{fill:none;stroke-linecap:round}}"
).format(
    *(),
    **{
        name: "".join(f"--{k}:{v};" for k, v in it.items())
        for name, it in (("light", LIGHT), ("dark", DARK))
    },
)


def svg(facts: Facts) -> str:
    """The whole picture: the text and where the open heads look, what is expected, and what the
    view is about.
    """
    parts, y = [*_text_and_arcs(facts, _places(facts))], _places(facts)[-1][1] + 64
    left, low = _message(facts, y)
    right, lower = _panel(facts, y)
    height = max(low, lower) + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="m" width="{WIDTH}" height="{_n(height)}" '
        f'viewBox="0 0 {WIDTH} {_n(height)}"><style>{CSS}</style>'
        f'<rect width="{WIDTH}" height="{_n(height)}" rx="12" fill="var(--bg)"/>'
        f"{''.join([*parts, *left, *right])}</svg>"
    )


def _n(value: float) -> str:
    return f"{0.0 if abs(value) < 0.05 else value:.1f}".removesuffix(".0")


def _text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}" class="{style}">{escape(words)}</text>'


def _rect(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    size = f'width="{_n(max(0.5, width))}" height="{_n(height)}"'
    return f'<rect x="{_n(x)}" y="{_n(y)}" {size} rx="4" fill="{fill}" {more}/>'


def _ink(head: str) -> str:
    return f"var(--{('one', 'two')[int(head[0]) % 2]})"


def _bar(
    x: float, y: float, width: float, share: float, before: float | None, ink: str
) -> Iterator[str]:
    yield _rect(x, y, width, 11, "var(--line)", 'opacity=".4"')
    yield _rect(x, y, width * share, 11, ink, 'opacity=".8"')
    if before is not None:
        yield _rect(
            x, y - 2, width * before, 15, "none", 'stroke="var(--soft)" stroke-dasharray="3 3"'
        )


def _short(name: str, most: int = 11) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _places(facts: Facts) -> list[tuple[float, float, float]]:
    """Where each token's box stands: left, top, width; line below line, with room for arcs above
    each.
    """
    found, x, y = [], float(MARGIN), 48.0
    for name in facts["names"]:
        width = max(26, LETTER * len(_short(name)) + 12)
        if x + width > WIDTH - MARGIN:
            x, y = MARGIN, y + 68
        found.append((x, y, width))
        x += width + 4
    return found


def _text_and_arcs(facts: Facts, places: list[tuple[float, float, float]]) -> Iterator[str]:
    i, opened = facts["position"], facts["open"]
    last = facts["curves"][opened[-1]] if opened else None
    shares = [share / last["most"] for share in last["now"][i]] if last else []
    for at, ((x, y, width), name) in enumerate(zip(places, facts["names"], strict=True)):
        share = shares[at] if at < len(shares) else 0
        edge = 'stroke="var(--fg)" stroke-width="2"' if at == i else 'stroke="var(--line)"'
        yield _rect(x, y, width, 40, "var(--card)", edge)
        if share >= 0.01:
            yield _rect(
                x + 1, y + 1, width - 2, 38, _ink(opened[-1]), f'opacity="{0.35 * share:.2f}"'
            )
        yield _text(x + width / 2, y + 17, _short(name), "c m")
        guess, p, right = facts["best"][at]
        yield f'<g font-size="11">{_text(x + width / 2, y + 32, _short(guess, int(width / 7)), "c m s")}</g>'
        yield _rect(x + 4, y + 35, (width - 8) * p, 3, "var(--fg)" if right else "var(--soft)")
        if str(at) in facts["cuts"]:
            yield (
                f'<path d="M{_n(x + 3)} {_n(y + 20)}h{_n(width - 6)}" stroke="var(--fg)" '
                f'stroke-width="2"/>'
            )
    for head in opened:
        curve = facts["curves"][head]
        for rows, look in (
            (curve["was"], 'stroke="var(--soft)" stroke-dasharray="1 6"'),
            (curve["now"], ""),
        ):
            for src, value in enumerate(rows[i] if rows else []):
                share = value / curve["most"]
                if share >= 0.04:
                    yield from _arc(
                        places, src, i, share, look or f'stroke="{_ink(head)}"', not look
                    )


def _arc(places: list, src: int, dest: int, share: float, look: str, said: bool) -> Iterator[str]:
    (x, y, width), (u, v, wide) = places[src], places[dest]
    x, u = x + width / 2, u + wide / 2
    rise = min(34, 11 + 0.12 * abs(u - x)) if y == v else 26
    reach = 12 if src == dest else 0
    path = (
        f"M{_n(x)} {_n(y - 1)}C{_n(x - reach)} {_n(y - rise)} {_n(u + reach)} {_n(v - rise)} "
        f"{_n(u)} {_n(v - 1)}"
    )
    yield f'<path d="{path}" {look} stroke-width="{max(0.8, 4.5 * share):.1f}" opacity=".85"/>'
    if said and share >= 0.08:
        middle, high = ((x + u) / 2, 0.75 * rise) if y == v else (x, 0.35 * rise)
        yield _text(middle, y - high - 3, percent(share), "m h")


def _message(facts: Facts, y: float) -> tuple[list[str], float]:
    cut = bool(facts["cuts"])
    parts = [_text(MARGIN, y, f"After {facts['names'][facts['position']]} the model expects", "b")]
    if cut:
        parts.append(_text(350, y, "now, before", "s e"))
    for place, row in enumerate(facts["rows"][:6]):
        y += 36 if not place else ROW
        ink = "var(--fg)" if row["right"] else "var(--soft)"
        parts.append(
            _text(
                MARGIN,
                y,
                _short(row["name"], 8 if not place else 12),
                "c big" if not place else "c",
            )
        )
        parts += _bar(130, y - 10, 120, row["p"], row["before"], ink)
        parts.append(_text(296, y, percent(row["p"]), "e b"))
        parts += [_text(350, y, percent(row["before"]), "e s")] if cut else []
    if cut:
        was = max(facts["rows"], key=lambda row: row["before"])
        y += 40
        parts.append(
            _text(
                MARGIN,
                y,
                f"{was['name']}  {percent(was['before'])} → {percent(was['p'])}",
                "c big b",
            )
        )
        words = ", ".join(facts["words"])
        y += 20
        parts.append(_text(MARGIN, y, f"without {_short(words, 50)}", "s"))
    y += ROW
    if facts["came"]:
        name, loss, was = facts["came"]
        before = f" (before {number(was)})" if cut else ""
        parts.append(
            _text(
                MARGIN,
                y,
                f"{'came' if facts['text'] else 'right is'} {name}, loss {number(loss)}{before}",
                "s",
            )
        )
        y += 18
    if facts["mean"]:
        loss, was = facts["mean"]
        before = f" (before {number(was)})" if cut else ""
        parts.append(
            _text(MARGIN, y, f"mean loss of all positions {number(loss)}{before} nats", "s")
        )
    return parts, y


LEFT = 400  # where the panel beside the message begins


def _panel(facts: Facts, y: float) -> tuple[list[str], float]:
    if not facts["panel"]:
        return [_text(LEFT, y, "No head is open here.", "s")], y
    if facts["view"] == "doors" and "why" in facts["panel"]:
        return [_text(LEFT, y, facts["panel"]["why"], "s")], y
    return {"attention": _sources, "stream": _levels, "paths": _terms, "doors": _doors}[
        facts["view"]
    ](facts, y)


def _sources(facts: Facts, y: float) -> tuple[list[str], float]:
    panel = facts["panel"]
    parts = [_text(LEFT, y, f"Head {panel['head']}: its largest sources", "b")]
    y += ROW
    parts += [
        _text(x, y, words, "s e")
        for x, words in ((560, "score"), (690, "attention"), (766, "× length"), (844, "gives"))
    ]
    for row in panel["rows"]:
        y += ROW
        parts.append(_text(LEFT, y, f"{_short(row['name'])} {row['at']}", "c"))
        parts.append(_text(560, y, number(row["score"]), "e"))
        parts += _bar(576, y - 10, 68, row["share"], row["before"], _ink(panel["head"]))
        parts += [
            _text(690, y, percent(row["share"]), "e"),
            _text(766, y, number(row["length"]), "e"),
        ]
        parts.append(_text(844, y, number(row["gives"]), "e"))
    count, share = panel["rest"]
    if count:
        y += ROW
        parts += [
            _text(LEFT, y, f"{count} other{'s' * (count > 1)}", "s"),
            _text(690, y, percent(share), "e s"),
        ]
    if panel["masked"]:
        y += ROW
        masked, count = panel["masked"], panel["masked"]["count"]
        parts += [
            _text(LEFT, y, f"{_short(masked['name'])} {masked['at']}", "c s"),
            _text(560, y, number(masked["score"]), "e s"),
        ]
        parts.append(
            _text(576, y, f"→ −∞: {'all ' * (count > 1)}{count} later behind the mask", "s")
        )
    return parts, y


def _levels(facts: Facts, y: float) -> tuple[list[str], float]:
    parts = [_text(LEFT, y, "The stream, read off level by level", "b")]
    for level, found in reversed([*enumerate(facts["panel"])]):
        y += ROW
        parts.append(_text(LEFT, y, f"after layer {level - 1}" if level else "embedding"))
        parts.append(_text(520, y, number(found["length"]), "e"))
        for place, (name, p) in enumerate(found["top"]):
            parts += [
                _text(540 + 104 * place, y, _short(name, 7), "c"),
                _text(636 + 104 * place, y, percent(p), "e s"),
            ]
    y += ROW
    for at, (head, size) in enumerate(facts["written"].items()):
        column, line = divmod(at, max(1, -(-len(facts["written"]) // 2)))
        x, here = LEFT + 226 * column, y + 20 * (line + 1)
        parts += [_text(x, here, head, "c s"), _text(x + 206, here, number(size), "e")]
        parts += _bar(
            x + 34, here - 10, 124, size / max(*facts["written"].values(), 1e-9), None, _ink(head)
        )
    parts.append(_text(LEFT, y, "length of what each head adds", "s"))
    return parts, y + 20 * -(-len(facts["written"]) // 2)


def _terms(facts: Facts, y: float) -> tuple[list[str], float]:
    terms, (total, was) = facts["panel"]["terms"], facts["panel"]["total"]
    before = f" (before {number(was)})" if was is not None else ""
    parts = [
        _text(
            LEFT,
            y,
            f"The logit of {facts['called']}: {number(total)} = the sum of all bars{before}",
            "b",
        )
    ]
    values = [value for _, now, old in terms for value in (now, old or 0.0)] + [0.0]
    low, high = min(values), max(values)
    unit, start = 100 / max(1e-9, high - low), y
    half = -(-len(terms) // 2) if len(terms) > 10 else len(terms)
    for at, (name, now, old) in enumerate(terms):
        x, here = LEFT + 226 * (at // half), start + ROW * (at % half + 1)
        zero = x + 54 - low * unit
        parts += [_text(x, here, name, "c"), _text(x + 206, here, number(now), "e")]
        ink = _ink(name) if name[0].isdigit() else "var(--soft)"
        parts.append(
            _rect(zero + min(0, now) * unit, here - 10, abs(now) * unit, 11, ink, 'opacity=".8"')
        )
        if old is not None:
            ghost = 'stroke="var(--soft)" stroke-dasharray="3 3"'
            parts.append(
                _rect(zero + min(0, old) * unit, here - 12, abs(old) * unit, 15, "none", ghost)
            )
        y = max(y, here)
    return parts, y


def _doors(facts: Facts, y: float) -> tuple[list[str], float]:
    panel = facts["panel"]
    parts = [_text(LEFT, y, f"The doors of head {panel['reader']}: composition scores", "b")]
    most = max(map(max, panel["scores"].values()))
    wide = (WIDTH - MARGIN - LEFT - 62) / len(panel["scores"]["q"])
    for path, words in {"q": "queries", "k": "keys", "v": "values"}.items():
        y += 36
        parts.append(_text(LEFT, y + 4, words))
        for at, score in enumerate(panel["scores"][path]):
            head = f"{at // facts['heads']}.{at % facts['heads']}"
            x, shut = LEFT + 62 + wide * at, f"{head}{path}{panel['reader']}" in panel["shut"]
            if path == "q":
                parts.append(_text(x + wide / 2, y - 20, head, "c m s"))
            parts.append(
                _rect(
                    x + 1, y - 14, wide - 2, 30, _ink(head), f'opacity="{0.45 * score / most:.2f}"'
                )
            )
            edge = 'stroke="var(--line)"'
            if shut:
                edge = 'stroke="var(--fg)" stroke-width="2" stroke-dasharray="4 3"'
            parts += [
                _rect(x + 1, y - 14, wide - 2, 30, "none", edge),
                _text(x + wide / 2, y + 5, number(score), "m"),
            ]
    return parts, y + 16
