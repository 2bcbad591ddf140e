"""What the microscope shows, in numbers, names and words; in a page, `engine.js` makes the same."""

import re
from functools import cached_property, lru_cache
from itertools import groupby
from string import Formatter
from typing import Any

from torch import Tensor
from transformer_lens import HookedTransformer

from course_microscope import answers
from course_utils import composition, interventions, paths
from course_utils._words import true_minus
from course_utils.interventions import Cut, Head, head_name
from course_utils.models import all_heads
from course_utils.paths import Run
from course_utils.text import visible

VIEWS = ("attention", "stream", "paths", "doors")
Facts = dict[str, Any]
State = Facts  # tokens, view, open (heads), weighted, position, token, cuts (`key_of`)


def key_of(one: Cut) -> str:
    """A cut as one word, for the page: "3", "0.5", "0.5k1.6"."""
    match one:
        case int():
            return str(one)
        case (earlier, str(path), later):
            return f"{head_name(earlier)}{path}{head_name(later)}"
        case head:
            return head_name(head)


def cut_of(key: str) -> Any:
    """The cut that `key_of` made a word of; a head, too, is one."""
    if "." not in key:
        return int(key)
    for path in "qkv":
        if path in key:
            earlier, later = key.split(path)
            return cut_of(earlier), path, cut_of(later)
    layer, head = key.split(".")
    return int(layer), int(head)


class Source:
    """A model on one text, run once for each set of cuts; the last few runs are kept."""

    def __init__(self, model: HookedTransformer, tokens: Tensor):
        @lru_cache(maxsize=8)
        def run(*cuts: str) -> Run:
            return paths.run(model, tokens, *map(cut_of, cuts))

        self.model = model
        self.tokens = tokens
        self.run = run

    @cached_property
    def composition(self) -> dict[str, Tensor]:
        return {path: composition.scores(self.model, path.upper()) for path in "qkv"}

    def called(self, token: int) -> str:
        """A token as the picture names it."""
        if self.model.tokenizer is None:
            return str(token)
        return visible(str(self.model.to_string([token])))

    def strongest(self, position: int, token: int) -> list[Head]:
        """The head of each layer that adds most to a logit."""
        terms = paths.terms(self.model, self.run(), position, token)
        found = []
        for _, heads in groupby(all_heads(self.model), key=lambda head: head[0]):
            found.append(max(heads, key=lambda head: terms[head_name(head)]))
        return found

    def _losses(self, right: int, i: int, now: Run, base: Run | None) -> tuple[Any, Any]:
        """What the right answer costs here, and all of them on average; before the cuts, too."""
        loss = answers.losses(self.model, now)
        was = None if base is None else answers.losses(self.model, base)
        came = mean = None
        if right >= 0:
            came = [self.called(right), loss[i].item(), None if was is None else was[i].item()]
        if not loss.isnan().all():
            mean = [loss.nanmean().item(), None if was is None else was.nanmean().item()]
        return came, mean

    def _row(self, token: int, p: Tensor, before: Tensor | None, right: int) -> dict:
        """A token that may come next: its probability, and what it was before the cuts."""
        return {
            "token": token,
            "name": self.called(token),
            "p": p[token].item(),
            "before": None if before is None else before[token].item(),
            "right": token == right,
        }

    def facts(self, state: State) -> Facts:
        """All that the page draws of this state."""
        cfg = self.model.cfg
        i = state["position"]
        cuts = state["cuts"]
        base = self.run()
        now = self.run(*cuts)

        # the best guess at each position; of the one here the logit is taken apart, or as asked
        shares, guesses = now.logits.softmax(-1).max(-1)
        token = state["token"]
        if token is None:
            token = int(guesses[i])

        # what should be said (−1: nothing), and what the answers cost
        right = answers.answers(self.model, self.tokens).tolist()
        came, mean = self._losses(right[i], i, now, base if cuts else None)

        # the likeliest tokens, the likeliest before the cut, and those that are asked for
        p = now.logits[i].softmax(-1)
        before = base.logits[i].softmax(-1)
        listed = p.topk(min(3, len(p))).indices.tolist()
        listed += [int(before.argmax()), right[i], token]
        rows = [
            self._row(t, p, before if cuts else None, right[i])
            for t in dict.fromkeys(listed)
            if t >= 0
        ]

        # the best guesses, their probabilities, and whether they are right
        best = []
        for t, share, should in zip(guesses.tolist(), shares.tolist(), right, strict=True):
            is_right = t == should
            best.append([self.called(t), share, is_right if should >= 0 else None])

        # where each head looks from here, and how much it writes
        glance = {}
        for head in all_heads(self.model):
            glance[head_name(head)] = now.pattern[head][i, : i + 1].tolist()
        lengths = now.written[:, :, i].norm(dim=-1).flatten().tolist()
        found = {
            **state,
            "position": i,
            "token": token,
            "called": self.called(token),
            "names": [self.called(t) for t in self.tokens.tolist()],
            "layers": cfg.n_layers,
            "heads": cfg.n_heads,
            "text": self.model.tokenizer is not None,
            "norm": cfg.normalization_type is not None,
            "words": [interventions.in_words(cut_of(one)) for one in cuts],
            "best": best,
            "rows": rows,
            "came": came,
            "mean": mean,
            "glance": glance,
            "written": dict(zip(glance, lengths, strict=True)),
            "curves": {name: self._curve(name, now, state["weighted"]) for name in state["open"]},
        }
        view = getattr(self, f"_{state['view']}")
        return {**found, "panel": view(found, now)}

    def _curve(self, name: str, now: Run, weighted: bool) -> dict:
        """Where a head looks from each position, and the value that is drawn darkest."""
        kind = "value_weighted" if weighted else "pattern"
        found: Facts = {}
        for when, run in {"now": now, "was": self.run()}.items():
            table = getattr(run, kind)[cut_of(name)]  # [dest, src]
            found[when] = [row[: at + 1].tolist() for at, row in enumerate(table)]
        if not now.cuts:
            found["was"] = None
        found["most"] = table.max().item() if weighted else 1
        return found

    def _attention(self, facts: Facts, now: Run) -> dict | None:
        """The row of the head opened last: its five largest sources, and what the mask hides."""
        if not facts["open"]:
            return None
        i = facts["position"]
        name = facts["open"][-1]
        head = cut_of(name)
        scores = now.scores[head][i]  # [src]
        share = now.pattern[head][i]
        gives = now.value_weighted[head][i]
        before = self.run().pattern[head][i]
        # from the score to what is given
        largest = share[: i + 1].topk(min(5, i + 1)).indices.tolist()
        largest = [at for at in largest if share[at] > 0]
        steps = {"score": scores, "share": share, "gives": gives, "length": gives / share}
        rows = []
        for at in largest:
            row = {"at": at, "name": facts["names"][at]}
            row |= {step: value[at].item() for step, value in steps.items()}
            row["before"] = before[at].item() if now.cuts else None
            rows.append(row)
        # the other sources, and of the later positions the one with the largest score
        others = [at for at in range(i + 1) if at not in largest]
        rest = [len(others), share[others].sum().item()]
        masked = None
        count = len(scores) - i - 1
        if count:
            at = i + 1 + int(scores[i + 1 :].argmax())
            masked = {"at": at, "name": facts["names"][at], "score": scores[at].item()}
            masked["count"] = count
        return {"head": name, "rows": rows, "rest": rest, "masked": masked}

    def _stream(self, facts: Facts, now: Run) -> list[dict]:
        """What the model would expect next if it stopped here, level by level."""
        found = []
        for x in now.stream[:, facts["position"]]:
            normed = x[None, None]  # [1, 1, d_model]
            if facts["norm"]:
                normed = self.model.ln_final(normed)
            logits = (normed @ self.model.W_U + self.model.b_U)[0, 0]
            shares, tokens = logits.softmax(-1).topk(3)
            pairs = zip(tokens.tolist(), shares.tolist(), strict=True)
            top = [[self.called(t), p] for t, p in pairs]
            found.append({"length": x.norm().item(), "top": top})
        return found

    def _paths(self, facts: Facts, now: Run) -> dict:
        """The asked logit as a sum, and of two layers, what later heads' values were made of."""
        base = self.run()
        cut = facts["cuts"]
        asked = facts["position"], facts["token"]
        before = paths.terms(self.model, base, *asked)
        terms = []
        for name, value in paths.terms(self.model, now, *asked).items():
            terms.append([name, value, before.get(name, 0.0) if cut else None])
        pairs = None
        if facts["layers"] == 2 and not facts["norm"]:
            pairs = paths.pairs(self.model, now, *asked).tolist()
        was = base.logits[asked].item() if cut else None
        return {"terms": terms, "total": [now.logits[asked].item(), was], "pairs": pairs}

    def _doors(self, facts: Facts, now: Run) -> dict:
        """How much a head reads of each earlier one, by each of its doors, and which are shut."""
        if facts["layers"] < 2:
            return {"why": "With fewer than two layers, no head reads what another one wrote."}
        if facts["norm"]:
            return {"why": "With LayerNorm, no door can be shut by itself."}
        # the reader is the head opened last, among those that have a layer before them
        reader = "1.0"
        for name in facts["open"]:
            if not name.startswith("0."):
                reader = name
        layer, head = cut_of(reader)
        scores = {}
        for path, table in self.composition.items():
            scores[path] = table[:layer, :, layer, head].flatten().tolist()
        shut = [one for one in facts["cuts"] if re.search(f"[qkv]{reader}$", one)]
        return {"reader": reader, "scores": scores, "shut": shut}


def rounded(found: Any, digits: int = 4) -> Any:
    """Facts as they are stored: of patterns, nobody reads more than three decimals off a shade."""
    if isinstance(found, float):
        return round(found, digits)
    if isinstance(found, list):
        return [rounded(one, digits) for one in found]
    if isinstance(found, dict):
        coarse = {"curves": 3, "glance": 3}
        return {key: rounded(one, coarse.get(key, digits)) for key, one in found.items()}
    return found


def number(value: float) -> str:
    """A number as it is shown, with a true minus sign."""
    return true_minus(f"{value:.2f}")


def percent(share: float) -> str:
    """A share as it is shown."""
    if 0 < share < 0.005:
        return "<1 %"
    return f"{100 * share:.0f} %"


class _Sentence(Formatter):
    """A format with facts in it: {x:n} a number, {x:%} a share, {x:11} a name of 11 letters."""

    def format_field(self, value: Any, spec: str) -> str:
        if spec == "n":
            return number(value)
        if spec == "%":
            return percent(value)
        if spec == "before":
            if value is None:
                return ""
            return f" (before {number(value)})"
        if spec.isdigit():
            most = int(spec)
            return value if len(value) <= most else value[: most - 1] + "…"
        return format(value, spec)


said = _Sentence().format


def in_words(facts: Facts, before: Facts) -> str:
    """What the picture shows, for those who do not see it; `before` are the facts without cuts."""
    i = facts["position"]
    names = facts["names"]
    # the model, the text, and what is expected
    layers = facts["layers"]
    heads = layers * facts["heads"]
    size = f"{layers} layer{'s' * (layers != 1)}"
    if heads:
        size += f", {heads} head{'s' * (heads != 1)}"
    words = [f"A model with {size}, on {len(names)} tokens."]
    expected = "After {} at position {} it expects {} with probability {:.2f}."
    words.append(said(expected, names[i], i, *facts["best"][i]))
    # where heads look
    if facts["view"] == "attention" and not facts["weighted"]:
        for head, curve in facts["curves"].items():
            share = max(curve["now"][i])
            src = curve["now"][i].index(share)
            most = "From there, head {} looks most at {}, position {}: {:.2f}."
            words.append(said(most, head, names[src], src, share))
    # what a logit is the sum of
    if facts["view"] == "paths":
        largest = sorted(facts["panel"]["terms"], key=lambda term: -abs(term[1]))
        terms = [said("{} {:n}", *term) for term in largest[:3]]
        logit = "The logit of {called} is {panel[total][0]:n}; largest terms: {}."
        words.append(said(logit, ", ".join(terms), **facts))
    # what was cut
    if facts["cuts"]:
        cuts = ", ".join(facts["words"])
        expected = "Cut: {}; before, it expected {} with probability {:.2f}."
        words.append(said(expected, cuts, *before["best"][i]))
    return " ".join(words)
