"""Checks of lesson 04b, what reading misses: each exercise, then its mistakes with the sentence each must get."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import paths
from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import tiny_model
from course_utils.course.questions import Unfit, Wrong, close, demand, pair, tensor

_KEEP, _IN, _AT, _MIND, _BAY = 1, 2, 3, 4, 5  # 0 is the start token


@exercise
def keep_in_mind(answer: Answer) -> None:
    """`keep_in_mind() → QK [head, dest, src], OV [head, src, out]`: keep … in mind, keep … at bay, and no bugs."""
    QK, OV = pair(answer(), "QK and OV")
    tables = []
    for value, name, means in ((QK, "QK", "[head, dest, src]"), (OV, "OV", "[head, src, out]")):
        n = value.shape[0] if getattr(value, "ndim", 0) == 3 else 1
        tables.append(tensor(value, (n, 6, 6), f"{means} for {name}").float())
    QK, OV = tables
    demand(len(QK) == len(OV), f"QK has {len(QK)} heads and OV {len(OV)}: give both tables for every head.")
    demand(max(QK.abs().max().item(), OV.abs().max().item()) <= 100, "keep all entries between −100 and 100.")
    n_heads = "one head does" if len(QK) == 1 else f"your {len(QK)} heads do"
    for dest, word in ((_IN, "in"), (_AT, "at")):
        probability = paths.of_tables(QK, OV, torch.tensor([0, dest]))[-1].softmax(-1)
        demand(
            abs((probability[_MIND] / probability[_BAY]).log().item()) < 0.05,
            f"without keep, mind and bay should be equally likely after {word!r}, but {n_heads} tell them apart.",
        )
    for dest, out, bug, words in ((_IN, _MIND, _BAY, ("in", "mind", "bay")), (_AT, _BAY, _MIND, ("at", "bay", "mind"))):
        word, right, wrong = words
        for between in ([], [dest], [_MIND]):
            text = torch.tensor([0, _KEEP, *between, dest])
            probability = paths.of_tables(QK, OV, text)[-1].softmax(-1)
            after = "keep … " + ("mind … " if between == [_MIND] else f"{word} … " if between else "") + word
            demand(
                probability[bug] < 0.5,
                f"a bug: after {after}, {wrong} gets {probability[bug]:.2f}. What one head says after keep it says to "
                "every destination that looks for keep.",
            )
            demand(
                probability[out] > 0.9,
                f"after {after}, {right} gets {probability[out]:.2f}; it should get more than 0.9.",
            )
    if not all(table.is_floating_point() for table in answer()):
        raise Unfit("the next cells want tables of floats, and get whole numbers: torch.zeros makes floats")


def _tables(*looks_and_says: tuple[dict[int, float], dict[int, float]]) -> Callable[[], tuple[Tensor, Tensor]]:
    """A head for each pair: how strongly each destination looks for keep, and what keep adds to each out."""

    def answer() -> tuple[Tensor, Tensor]:
        QK, OV = torch.zeros(2, len(looks_and_says), 6, 6)
        for head, (looks, says) in enumerate(looks_and_says):
            for dest, score in looks.items():
                QK[head, dest, _KEEP] = score
            for out, effect in says.items():
                OV[head, _KEEP, out] = effect
        return QK, OV

    return answer


def _transposed() -> tuple[Tensor, Tensor]:
    QK, OV = _right()
    return QK.mT, OV


def _without_keep() -> tuple[Tensor, Tensor]:
    """The destinations say it themselves."""
    QK, OV = torch.zeros(2, 1, 6, 6)
    OV[0, _IN, _MIND] = OV[0, _AT, _BAY] = 20
    return QK, OV


_right = _tables(({_IN: 10, _AT: -10}, {_MIND: 10}), ({_AT: 10, _IN: -10}, {_BAY: 10}))
keep_in_mind.mistakes = {
    "one head, both outs": (_tables(({_IN: 10, _AT: 10}, {_MIND: 10, _BAY: 10})), "should get more than 0.9"),
    "one head, mind": (_tables(({_IN: 10, _AT: 10}, {_MIND: 10})), "a bug: after keep … at, mind gets"),
    "one head, bay": (_tables(({_IN: 10, _AT: 10}, {_BAY: 10})), "a bug: after keep … in, bay gets"),
    "one head, against": (_tables(({_IN: 10, _AT: 10}, {_MIND: 10, _BAY: -10})), "a bug: after keep … at, mind"),
    "two heads that look the same": (
        _tables(({_IN: 10, _AT: 10}, {_MIND: 10}), ({_IN: 10, _AT: 10}, {_BAY: 10})),
        "should get more than 0.9",
    ),
    "outs exchanged": (_tables(({_IN: 10, _AT: -10}, {_BAY: 10}), ({_AT: 10, _IN: -10}, {_MIND: 10})), "a bug: after"),
    "too weak": (_tables(({_IN: 1, _AT: -1}, {_MIND: 1}), ({_AT: 1, _IN: -1}, {_BAY: 1})), "should get more than 0.9"),
    "nothing": (_tables(({}, {})), "should get more than 0.9"),
    "one of the two": (_tables(({_IN: 10, _AT: -10}, {_MIND: 10})), "after keep … at, bay gets"),
    "without keep": (_without_keep, "without keep, mind and bay should be equally likely"),
    "QK as [src, dest]": (_transposed, "should get more than 0.9"),
    "one table": (lambda: torch.zeros(1, 6, 6), "it should return two things"),
    "heads that do not match": (lambda: (torch.zeros(2, 6, 6), torch.zeros(1, 6, 6)), "QK has 2 heads and OV 1"),
    "too large": (_tables(({_IN: 1e4}, {_MIND: 1e4})), "keep all entries between"),
    "another vocabulary": (lambda: tuple(torch.zeros(2, 1, 5, 5)), "it should be [1, 6, 6]"),
}


@exercise
def without_heads(answer: Answer) -> None:
    """`without_heads(model, tokens, removed) → [batch, pos, d_vocab]`: the logits, some heads' output zero."""
    model, tokens = tiny_model(0.6, n_layers=1), torch.tensor([[0, 7, 3, 7, 11], [0, 5, 19, 2, 2]])
    for removed in ({2, 0}, {1}, set(), {0, 1, 2}):
        result = tensor(answer(model, tokens, set(removed)), (2, 5, 20), "logits [batch, pos, d_vocab]")
        right, said = _without(model, tokens, removed), f"without {_named(removed)}"
        found = close(result, right)
        others = set(range(3)) - removed
        wrong = {
            "these are the logits of the model as it was: has your hook run, and does it return z?": model(tokens),
            f"the heads {_named(removed)} stayed, and the others were removed.": _without(model, tokens, others),
            "these are probabilities; asked for are the logits.": right.softmax(-1),
            "these are log-probabilities; asked for are the logits.": right.log_softmax(-1),
        }
        if len(removed) == 2:
            for one in sorted(removed):
                wrong[f"{said}: only head {one} was removed."] = _without(model, tokens, {one})
            mean = _without(model, tokens, removed, mean=True)
            wrong["each removed head is replaced by its mean; here its output should be zero."] = mean
        for sentence, logits in wrong.items():
            demand(found or not close(result, logits), sentence)
        demand(found, f"the logits {said} are not right: set z [batch, pos, head, d_head] to zero for these heads.")
    other, tokens = tiny_model(0.6, n_layers=1, n_heads=2, d_head=7, d_vocab=13, d_model=8), torch.tensor([[0, 12, 5]])
    demand(
        close(tensor(answer(other, tokens, {1}), (1, 3, 13), "logits"), _without(other, tokens, {1})),
        "it is right for one small model, and wrong for another with other sizes and one text of three tokens.",
    )


def _named(removed: Iterable[int]) -> str:
    return " and ".join(str(head) for head in sorted(removed)) or "none"


def _without(model: HookedTransformer, tokens: Tensor, removed: Iterable[int], mean: bool = False) -> Tensor:
    def hook(z: Tensor, hook: Any) -> Tensor:
        z = z.clone()
        gone = sorted(removed)
        z[:, :, gone] = z[:, :, gone].mean((0, 1), keepdim=True) if mean else 0
        return z

    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", hook)]):
        return model(tokens)


def _rest_removed(model: HookedTransformer, tokens: Tensor, removed: set[int]) -> Tensor:
    return _without(model, tokens, set(range(model.cfg.n_heads)) - removed)


def _leaving_hooks(model: HookedTransformer, tokens: Tensor, removed: set[int]) -> Tensor:
    leave: Any = model.add_hook  # whose type knows no hook that is a plain function
    for head in removed:

        def hook(z: Tensor, hook: Any, head: int = head) -> Tensor:
            z[:, :, head] = 0
            return z

        leave("blocks.0.attn.hook_z", hook)
    return model(tokens)


def _one_removed(model: HookedTransformer, tokens: Tensor, removed: set[int]) -> Tensor:
    return _without(model, tokens, sorted(removed)[-1:])


def _wrong_axis(model: HookedTransformer, tokens: Tensor, removed: set[int]) -> Tensor:
    def hook(z: Tensor, hook: Any) -> Tensor:
        z = z.clone()
        z[:, sorted(removed)] = 0
        return z

    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", hook)]):
        return model(tokens)


without_heads.mistakes = {
    "no hook": (lambda m, t, r: m(t), "the logits of the model as it was"),
    "the others removed": (_rest_removed, "and the others were removed"),
    "only one removed": (_one_removed, "without 0 and 2: only head 2 was removed"),
    "the mean": (lambda m, t, r: _without(m, t, r, mean=True), "is replaced by its mean"),
    "positions instead of heads": (_wrong_axis, "set z [batch, pos, head, d_head] to zero"),
    "probabilities": (lambda m, t, r: _without(m, t, r).softmax(-1), "these are probabilities"),
    "log-probabilities": (lambda m, t, r: _without(m, t, r).log_softmax(-1), "these are log-probabilities"),
    "the last position": (lambda m, t, r: _without(m, t, r)[:, -1], "it should be [2, 5, 20]"),
    "hooks left behind": (_leaving_hooks, "it leaves a hook"),
}


@exercise
def attention_program(answer: Answer) -> None:
    """`attention_program(strings) → [dest, src]`: a guess, without weights, where a head looks on a text."""
    words = ["<|start|>", "def", " f", "(", "x", ",", " y", "):", "\n   ", " return", " x"]
    for n in (11, 1, 4):
        pattern = tensor(answer(list(words[:n])), (n, n), "[dest, src]").float()
        demand((pattern >= 0).all(), "attention is never negative.")
        demand(
            close(pattern.sum(1), torch.ones(n)) or not close(pattern.sum(0), torch.ones(n)) or n == 1,
            "the columns sum to 1; the rows should: each destination has one unit of attention to give.",
        )
        demand(not pattern.triu(1).any(), "a destination looks at a later token; only itself and earlier ones count.")
        demand(close(pattern.sum(1), torch.ones(n)), "each row should sum to 1: divide it by its sum.")
    again = tensor(answer(list(words)), (11, 11), "[dest, src]").float()
    demand(
        close(again, tensor(answer(list(words)), (11, 11), "[dest, src]").float()),
        "twice the same text, and two patterns.",
    )
    if close(again, torch.ones(11, 11).tril() / torch.arange(1, 12)[:, None]):
        raise Wrong("that is an even pattern: let the distance, or the tokens, make a difference.")


def _decaying(rate: float) -> Callable[[list[str]], Tensor]:
    def answer(strings: list[str]) -> Tensor:
        n = torch.arange(len(strings))
        weights = (rate ** (n[:, None] - n)).tril()
        return weights / weights.sum(1, keepdim=True)

    return answer


def _eleven(strings: list[str]) -> Tensor:
    return _decaying(0.5)([""] * 11)


attention_program.mistakes = {
    "even": (_decaying(1.0), "that is an even pattern"),
    "not normalised": (lambda s: torch.ones(len(s), len(s)).tril(), "each row should sum to 1"),
    "no mask": (lambda s: torch.ones(len(s), len(s)) / len(s), "a destination looks at a later token"),
    "transposed": (lambda s: _decaying(0.5)(s).T, "the columns sum to 1"),
    "negative": (lambda s: -_decaying(0.5)(s), "attention is never negative"),
    "one size": (_eleven, "it should be [1, 1]"),
    "one row": (lambda s: _decaying(0.5)(s)[-1], "it should be [11, 11]"),
    "at random": (lambda s: (w := torch.rand(len(s), len(s)).tril()) / w.sum(1, keepdim=True), "twice the same text"),
}
