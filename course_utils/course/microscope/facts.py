"""What the microscope shows, as plain numbers and names: the same for a notebook, a stored page and
in words.

`draw.js` and `still.py` draw these facts; `engine.js` makes the same ones of a bundled model where
no Python runs.
"""

import re
from collections.abc import Callable
from typing import Any

import torch
from transformer_lens import HookedTransformer

from course_utils import composition, interventions, paths
from course_utils._words import true_minus
from course_utils.course.microscope import answers
from course_utils.interventions import Cut, Head
from course_utils.paths import Run
from course_utils.text import visible

VIEWS = ("attention", "stream", "paths", "doors")
Facts = dict[str, Any]
State = dict[
    str, Any
    # what is looked at: tokens, view, open (heads), weighted, position, token, cuts (as `key_of`
    # has it)
]


def key_of(one: Cut) -> str:
    """A cut as one word, for the page: "3", "0.5", "0.5k1.6"."""
    match one:
        case int():
            return str(one)
        case (earlier, str(path), later):
            return f"{interventions.head_name(earlier)}{path}{interventions.head_name(later)}"
        case head:
            return interventions.head_name(head)


def cut_of(key: str) -> Any:
    """The cut that `key_of` made a word of; a head, too, is one."""
    numbers = [int(found) for found in re.findall(r"\d+", key)]
    if len(numbers) < 3:
        return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
    first, writer, second, reader = numbers
    return (first, writer), re.sub("[^qkv]", "", key), (second, reader)


class Source:
    """A model on one text, run once for each set of cuts; `facts` says what a state of the
    microscope shows.
    """

    def __init__(self, model: HookedTransformer, tokens: torch.Tensor):
        self.model, self.tokens = model, tokens
        self.runs: dict[tuple[str, ...], Run] = {}
        self.composition: dict[str, torch.Tensor] = {}  # scores, once asked for

    def run(self, cuts: tuple[str, ...] = ()) -> Run:
        if cuts not in self.runs:
            self.runs[cuts] = paths.run(self.model, self.tokens, *map(cut_of, cuts))
        return self.runs[cuts]

    def called(self, token: int) -> str:
        """A token as the picture names it."""
        return visible(str(self.model.to_string([token]))) if self.model.tokenizer else str(token)

    def strongest(self, position: int, token: int) -> list[Head]:
        """The head of each layer that adds most to a logit."""
        terms = paths.terms(self.model, self.run(), position, token)
        rows = [
            [(layer, head) for head in range(self.model.cfg.n_heads)]
            for layer in range(self.model.cfg.n_layers)
        ]
        return [max(row, key=lambda head: terms[interventions.head_name(head)]) for row in rows]

    def facts(self, state: State) -> Facts:
        """All that the page draws of this state."""
        cfg, called, cuts = self.model.cfg, self.called, tuple(state["cuts"])
        base, now, cut = self.run(), self.run(cuts), bool(cuts)
        i = state["position"]
        best = now.logits.softmax(-1).max(-1)
        token = int(best.indices[i]) if state["token"] is None else state["token"]
        p, q = now.logits[i].softmax(-1), base.logits[i].softmax(-1)
        right = answers.answers(self.model, self.tokens)
        loss, was = (answers.losses(self.model, run) for run in (now, base))
        answer = int(right[i])
        rows = p.topk(min(3, len(p))).indices.tolist()
        rows += [
            t for t in dict.fromkeys((int(q.argmax()), answer, token)) if t >= 0 and t not in rows
        ]
        names = [
            interventions.head_name((layer, head))
            for layer in range(cfg.n_layers)
            for head in range(cfg.n_heads)
        ]
        sizes = now.written[:, :, i].norm(dim=-1).flatten().tolist()
        found = {
            **state,
            "position": i,
            "token": token,
            "called": called(token),
            "names": [called(t) for t in self.tokens.tolist()],
            "layers": cfg.n_layers,
            "heads": cfg.n_heads,
            "text": self.model.tokenizer is not None,
            "norm": cfg.normalization_type is not None,
            "words": [interventions.in_words(cut_of(one)) for one in cuts],
            "best": [
                [called(t), share, None if should < 0 else t == should]
                for t, share, should in zip(
                    best.indices.tolist(), best.values.tolist(), right.tolist(), strict=True
                )
            ],
            "rows": [
                {
                    "token": t,
                    "name": called(t),
                    "p": p[t].item(),
                    "before": q[t].item() if cut else None,
                    "right": t == answer,
                }
                for t in rows
            ],
            "came": [called(answer), loss[i].item(), was[i].item() if cut else None]
            if answer >= 0
            else None,
            "mean": None
            if loss.isnan().all()
            else [loss.nanmean().item(), was.nanmean().item() if cut else None],
            "glance": {name: now.pattern[cut_of(name)][i, : i + 1].tolist() for name in names},
            "written": dict(zip(names, sizes, strict=True)),
            "curves": {
                name: self._curves(cut_of(name), now, cut, state["weighted"])
                for name in state["open"]
            },
        }
        panel: Callable = getattr(self, f"_{state['view']}")
        return {**found, "panel": panel(state, base, now, i, token)}

    def _curves(self, head: Head, now: Run, cut: bool, weighted: bool) -> dict:
        def rows(run: Run) -> list[list[float]]:
            table = (run.value_weighted if weighted else run.pattern)[head]
            return [row[: at + 1].tolist() for at, row in enumerate(table)]

        most = self.run().value_weighted[head].max().item() if weighted else 1
        return {"now": rows(now), "was": rows(self.run()) if cut else None, "most": most}

    def _attention(self, state: State, base: Run, now: Run, i: int, token: int) -> dict | None:
        """The selected row of the chosen head: its five largest sources, score to value, and what
        the mask hides.
        """
        if not state["open"]:
            return None
        head = cut_of(state["open"][-1])
        scores, share, gives = (
            now.scores[head][i],
            now.pattern[head][i],
            now.value_weighted[head][i],
        )
        first = [at for at in share[: i + 1].topk(min(5, i + 1)).indices.tolist() if share[at] > 0]
        others = [at for at in range(i + 1) if at not in first]
        later = scores[i + 1 :]
        most = i + 1 + int(later.argmax()) if len(later) else 0

        def line(at: int) -> dict:
            found = {
                "at": at,
                "name": self.called(int(self.tokens[at])),
                "score": scores[at].item(),
            }
            found |= {
                "share": share[at].item(),
                "gives": gives[at].item(),
                "length": (gives[at] / share[at]).item(),
            }
            return {**found, "before": base.pattern[head][i, at].item() if now.cuts else None}

        masked = {
            "at": most,
            "name": self.called(int(self.tokens[most])),
            "score": scores[most].item(),
        }
        return {
            "head": state["open"][-1],
            "rows": [line(at) for at in first],
            "rest": [len(others), share[others].sum().item()],
            "masked": {**masked, "count": len(later)} if len(later) else None,
        }

    def _stream(self, state: State, base: Run, now: Run, i: int, token: int) -> list[dict]:
        """What the model would expect next if it stopped here, level by level."""
        found = []
        for x in now.stream[:, i]:
            p = self.lens(x).softmax(-1).topk(3)
            top = [
                [self.called(t), share]
                for t, share in zip(p.indices.tolist(), p.values.tolist(), strict=True)
            ]
            found.append({"length": x.norm().item(), "top": top})
        return found

    def lens(self, x: torch.Tensor) -> torch.Tensor:
        """The logits that the unembedding reads off a stream vector [d_model]."""
        x = x[None, None]
        x = self.model.ln_final(x) if self.model.cfg.normalization_type else x
        return (x @ self.model.W_U + self.model.b_U)[0, 0]

    def _paths(self, state: State, base: Run, now: Run, i: int, token: int) -> dict:
        """The asked logit as a sum, and with two layers what the later heads' values were made
        from.
        """
        model, cut = self.model, bool(now.cuts)
        terms, before = (paths.terms(model, run, i, token) for run in (now, base))
        two = model.cfg.n_layers == 2 and model.cfg.normalization_type is None
        return {
            "terms": [
                [name, value, before.get(name, 0.0) if cut else None]
                for name, value in terms.items()
            ],
            "total": [now.logits[i, token].item(), base.logits[i, token].item() if cut else None],
            "pairs": paths.pairs(model, now, i, token).tolist() if two else None,
        }

    def _doors(self, state: State, base: Run, now: Run, i: int, token: int) -> dict:
        """How much of what each earlier head writes a later one reads, by each of its doors, and
        which are shut.
        """
        if self.model.cfg.n_layers < 2:
            return {"why": "With fewer than two layers, no head reads what another one wrote."}
        if self.model.cfg.normalization_type is not None:
            return {"why": "With LayerNorm, no door can be shut by itself."}
        reader = ([name for name in state["open"] if not name.startswith("0.")] or ["1.0"])[-1]
        if not self.composition:
            self.composition |= {
                path: composition.scores(self.model, path.upper()) for path in "qkv"
            }
        layer, head = cut_of(reader)
        scores = {
            path: table[:layer, :, layer, head].flatten().tolist()
            for path, table in self.composition.items()
        }
        shut = [one for one in state["cuts"] if one.endswith(reader) and re.search("[qkv]", one)]
        return {"reader": reader, "scores": scores, "shut": shut}


def rounded(found: Any, digits: int = 4) -> Any:
    """Facts as they are stored: patterns with three decimals, since nobody reads more off a shade."""
    if isinstance(found, float):
        return round(found, digits)
    if isinstance(found, dict):
        return {
            key: rounded(value, 3 if key in ("curves", "glance") else digits)
            for key, value in found.items()
        }
    return [rounded(one, digits) for one in found] if isinstance(found, list) else found


def number(value: float, digits: int = 2) -> str:
    """A number as it is shown, with a true minus sign."""
    return true_minus(f"{value:.{digits}f}")


def percent(share: float) -> str:
    """A share as it is shown."""
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def in_words(facts: Facts, before: Facts) -> str:
    """What the picture shows, in words, for those who do not see it; `before` are the facts without
    the cuts.
    """
    i, layers, heads = facts["position"], facts["layers"], facts["layers"] * facts["heads"]
    counted = f", {heads} head{'s' * (heads != 1)}" if heads else ""
    words = [
        f"A model with {layers} layer{'s' * (layers != 1)}{counted}, on {len(facts['names'])} "
        f"tokens."
    ]
    words.append(f"After {facts['names'][i]} at position {i} it expects {_best(facts)}.")
    for head, curve in (
        facts["curves"].items() if facts["view"] == "attention" and not facts["weighted"] else []
    ):
        row = curve["now"][i]
        src = row.index(max(row))
        most = f"{facts['names'][src]}, position {src}: {row[src]:.2f}"
        words.append(f"From there, head {head} looks most at {most}.")
    if facts["view"] == "paths":
        largest = sorted(facts["panel"]["terms"], key=lambda term: -abs(term[1]))[:3]
        terms = ", ".join(f"{name} {number(value)}" for name, value, _ in largest)
        words.append(
            f"The logit of {facts['called']} is {number(facts['panel']['total'][0])}; largest "
            f"terms: {terms}."
        )
    if facts["cuts"]:
        words.append(f"Cut: {', '.join(facts['words'])}; before, it expected {_best(before)}.")
    return " ".join(words)


def _best(facts: Facts) -> str:
    name, p, _ = facts["best"][facts["position"]]
    return f"{name} with probability {p:.2f}"
