"""What the microscope looks at: a run, the same run without its cuts, and which part of both is in view."""

import re
from dataclasses import dataclass, field
from functools import cached_property

import torch
from transformer_lens import HookedTransformer

from course_utils import interventions, paths
from course_utils.course.microscope.shapes import number
from course_utils.interventions import Cut, Head
from course_utils.paths import Run
from course_utils.text import visible

VIEWS = {  # what each shows, in a sentence
    "attention": "a curve runs from the position that is read to the one that reads it; thicker means more attention",
    "stream": "a pipe is as wide as the vector in it is long; a dot is what a head adds to it",
    "paths": "a logit is a sum: what came straight from the token, and what each head added",
    "doors": "what a head writes, later heads read as queries, keys or values; each of these doors can be shut",
}
STEPS = ("scores", "mask", "pattern", "values")


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
    composition: dict[str, torch.Tensor] = field(default_factory=dict)  # scores, once asked for; cuts keep them

    @cached_property
    def names(self) -> list[str]:
        return [self.called(token) for token in self.base.tokens.tolist()]

    def called(self, token: int) -> str:
        """A token as the picture names it."""
        return visible(str(self.model.to_string([token]))) if self.model.tokenizer else str(token)

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


def values_of(run: Run, weighted: bool) -> torch.Tensor:
    """What the curves show, [layer, head, dest, src]."""
    return run.value_weighted if weighted else run.pattern


def key_of(one: Cut) -> str:
    """A cut as one word, for the page to send back: "3", "0.5", "0.5k1.6"."""
    match one:
        case int():
            return str(one)
        case (earlier, str(path), later):
            return f"{interventions.head_name(earlier)}{path}{interventions.head_name(later)}"
        case head:
            return interventions.head_name(head)


def cut_of(key: str) -> Cut:
    """The cut that `key_of` made a word of."""
    numbers = [int(found) for found in re.findall(r"\d+", key)]
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    first, writer, second, reader = numbers
    return (first, writer), re.sub("[^qkv]", "", key), (second, reader)


def in_words(scene: Scene) -> str:
    """What the picture shows, in words, for those who do not see it."""
    cfg, i, now, before = scene.model.cfg, scene.position, scene.now, scene.base
    count = cfg.n_layers * cfg.n_heads
    heads = f", {count} head{'s' * (count != 1)}" if count else ""
    words = [f"A model with {cfg.n_layers} layer{'s' * (cfg.n_layers != 1)}{heads}, on {len(scene.names)} tokens."]
    words.append(f"After {scene.names[i]} at position {i} it expects {_best(scene, now)}.")
    for head in scene.heads if scene.view == "attention" else []:
        share, src = now.pattern[head][i].max(-1)
        most = f"{scene.names[int(src)]}, position {int(src)}: {share:.2f}"
        words.append(f"From there, head {interventions.head_name(head)} looks most at {most}.")
    if scene.view == "paths":
        parts = paths.terms(scene.model, now, i, scene.token)
        largest = sorted(parts, key=lambda name: -abs(parts[name]))[:3]
        terms = ", ".join(f"{name} {number(parts[name])}" for name in largest)
        logit = f"The logit of {scene.called(scene.token)} is {number(now.logits[i, scene.token].item())}"
        words.append(f"{logit}; largest terms: {terms}.")
    if now.cuts:
        cuts = ", ".join(map(interventions.in_words, now.cuts))
        words.append(f"Cut: {cuts}; before, it expected {_best(scene, before)}.")
    return " ".join(words)


def _best(scene: Scene, run: Run) -> str:
    p, token = run.logits[scene.position].softmax(-1).max(-1)
    return f"{scene.called(int(token))} with probability {p:.2f}"
