"""Checks of lesson 04, one layer: each exercise, then its typical mistakes with the sentence each must get."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import circuits, paths
from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import random, tiny_model
from course_utils.course.questions import Unfit, close, demand, pair, tensor


@exercise
def path_terms(answer: Answer) -> None:
    """`path_terms(model, tokens) → direct [n, V], heads [h, n, V]`: what each path adds to the logits."""
    model, tokens = tiny_model(0.6, n_layers=1), torch.tensor([0, 7, 3, 7, 11, 3])
    direct, heads = _asked_terms(answer, model, tokens)
    logits, x = model(tokens[None])[0], model.W_E[tokens]
    placed = x + model.W_pos[: len(tokens)]
    demand(
        not close(direct, logits), "these are the model's logits, all paths together: the direct path is one of them."
    )
    demand(
        not close(direct, placed @ model.W_U),
        "positions are in your direct path: this model adds them to queries and keys only, never to the stream.",
    )
    demand(
        close(direct[1], direct[3]) and close(direct[2], direct[5]),
        "the direct path sees the current token alone, but the same token gets two different rows: what else is in it?",
    )
    demand(close(direct, x @ model.W_U), "the direct path is not the embedding times the unembedding.")
    right = paths.path_terms(model, tokens)[1]
    found = close(heads, right)
    for sentence, wrong in _wrong_terms(model, tokens, direct, right).items():
        demand(found or not close(heads, wrong), sentence)
    ratio = (heads.norm() / right.norm()).item()
    demand(
        found or not close(heads, ratio * right),
        f"the heads' terms are {ratio:.3g} times as large as what the heads add.",
    )
    demand(
        close(heads[:, 0], right[:, 0]),
        "the first position can attend to itself alone, so each head's term there is one row of its OV table.",
    )
    demand(
        close(direct + heads.sum(0), logits),
        "the terms do not add up to the logits: is each pattern the model's own, as [dest, src], one for each head?",
    )
    demand(found, "the sum is right, but not what each head adds to it.")
    other, tokens = tiny_model(0.6, n_layers=1, n_heads=2, d_head=7, d_vocab=13, d_model=8), torch.tensor([0, 12, 5])
    direct, heads = _asked_terms(answer, other, tokens)
    demand(
        close(direct, other.W_E[tokens] @ other.W_U) and close(heads, paths.path_terms(other, tokens)[1]),
        "it is right for one small model, and wrong for another with other sizes and three tokens.",
    )


def _wrong_terms(model: HookedTransformer, tokens: Tensor, direct: Tensor, right: Tensor) -> dict[str, Tensor]:
    """The heads' terms that typical mistakes lead to, by the sentence for each."""
    x, pattern = model.W_E[tokens], _pattern(model, tokens)
    placed = x + model.W_pos[: len(tokens)]
    return {
        "each head's term holds the direct path too: it would be counted four times.": right + direct,
        "positions are in your values: this model adds them to queries and keys only.": _terms(model, placed, pattern),
        "your pattern is transposed: it is [dest, src], and a head sums over sources.": _terms(model, x, pattern.mT),
        "these are the right terms in another order of heads.": right.roll(-1, 0),
        "these are the right terms, with the heads in another order.": right.roll(1, 0),
        "the heads stand in reverse.": right.flip(0),
        "W_V W_O is transposed: a row x goes through W_V first, then W_O.": _terms(model, x, pattern, transposed=True),
        "each position gets its own row of OV: no head has moved anything.": _terms(
            model, x, torch.eye(6).expand(3, 6, 6)
        ),
        "this leaves positions out of the pattern; the scores hold them.": _terms(model, x, _by_tokens(model, x)),
    }


def _asked_terms(answer: Answer, model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    direct, heads = pair(answer(model, tokens), "the direct path and the heads")
    pos, d_vocab = len(tokens), model.cfg.d_vocab
    return (
        tensor(direct, (pos, d_vocab), "[pos, d_vocab] for the direct path"),
        tensor(heads, (model.cfg.n_heads, pos, d_vocab), "[head, pos, d_vocab] for the heads"),
    )


def _pattern(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return model.run_with_cache(tokens)[1]["pattern", 0][0]


def _by_tokens(model: HookedTransformer, x: Tensor, mask: bool = True) -> Tensor:
    """The patterns of scores from the tokens alone, without positions."""
    scores = (x @ model.W_Q[0]) @ (x @ model.W_K[0]).mT / model.cfg.d_head**0.5
    return scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool() & mask, -torch.inf).softmax(-1)


def _terms(model: HookedTransformer, x: Tensor, pattern: Tensor, transposed: bool = False) -> Tensor:
    OV = model.W_V[0] @ model.W_O[0]
    return pattern @ (x @ (OV.mT if transposed else OV)) @ model.W_U


def _variant(
    change: Callable[[Tensor], Tensor] = lambda pattern: pattern,
    placed: bool = False,
    end: Callable[[Tensor, Tensor], Any] = lambda direct, heads: (direct, heads),
    transposed: bool = False,
) -> Callable[[HookedTransformer, Tensor], Any]:
    def answer(model: HookedTransformer, tokens: Tensor) -> Any:
        x = model.W_E[tokens]
        values = x + model.W_pos[: len(tokens)] if placed else x
        heads = _terms(model, values, change(_pattern(model, tokens)), transposed)
        return end(x @ model.W_U, heads)

    return answer


def _scaling_W_U(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    result = _variant()(model, tokens)
    model.unembed.W_U.data *= 2
    return result


def _even(pattern: Tensor) -> Tensor:
    ones = torch.ones_like(pattern).tril()
    return ones / ones.sum(-1, keepdim=True)


_ADD_UP = "the terms do not add up to the logits"
path_terms.mistakes = {
    "positions left out of the pattern": (
        lambda m, t: (m.W_E[t] @ m.W_U, _terms(m, m.W_E[t], _by_tokens(m, m.W_E[t]))),
        "this leaves positions out of the pattern",
    ),
    "no causal mask": (
        lambda m, t: (m.W_E[t] @ m.W_U, _terms(m, m.W_E[t], _by_tokens(m, m.W_E[t], mask=False))),
        "the first position can attend to itself alone",
    ),
    "pattern transposed": (_variant(lambda A: A.mT), "your pattern is transposed"),
    "no pattern": (_variant(lambda A: torch.eye(A.shape[-1]).expand_as(A)), "no head has moved anything"),
    "the pattern's logarithm": (_variant(lambda A: A.clamp(min=1e-6).log()), "the first position can attend to itself"),
    "even pattern": (_variant(_even), _ADD_UP),
    "one pattern for all heads": (_variant(lambda A: A[:1].expand_as(A)), _ADD_UP),
    "the mean pattern": (_variant(lambda A: A.mean(0, keepdim=True)), _ADD_UP),
    "OV transposed": (_variant(transposed=True), "a row x goes through W_V first"),
    "the logits as the direct path": (_variant(end=lambda d, h: (d + h.sum(0), h)), "these are the model's logits"),
    "positions in the direct path": (
        lambda m, t: ((m.W_E[t] + m.W_pos[: len(t)]) @ m.W_U, _variant()(m, t)[1]),
        "positions are in your direct path",
    ),
    "positions in the values": (_variant(placed=True), "positions are in your values"),
    "the direct path in every head": (_variant(end=lambda d, h: (d, h + d)), "each head's term holds the direct path"),
    "heads summed": (_variant(end=lambda d, h: (d, h.sum(0))), "it should be [3, 6, 20]"),
    "heads in the wrong order": (_variant(end=lambda d, h: (d, h.flip(0))), "the heads stand in reverse"),
    "heads shifted by one": (_variant(end=lambda d, h: (d, h.roll(1, 0))), "the heads in another order"),
    "shared out evenly": (_variant(end=lambda d, h: (d, h.mean(0).expand_as(h))), "the first position can attend"),
    "one head too much": (
        _variant(end=lambda d, h: (d, h + 0.1 * (h[0] - h[1]) * torch.tensor([1.0, -1, 0])[: len(h), None, None])),
        "the first position can attend",
    ),
    "divided by the heads": (_variant(end=lambda d, h: (d, h / len(h))), "0.333 times as large as what the heads add"),
    "probabilities": (_variant(end=lambda d, h: (d.softmax(-1), h)), "is not the embedding times the unembedding"),
    "the sum alone": (lambda m, t: m(t[None])[0], "it should return two things"),
    "for three heads of four dimensions": (
        lambda m, t: (d := _variant()(m, t)) and (d[0], d[1] * (12 / m.cfg.n_heads / m.cfg.d_head)),
        "wrong for another with other sizes",
    ),
    "the model changed": (_scaling_W_U, "it changes `model.unembed.W_U`, which it was given"),
}


@exercise
def fixed_on_start(answer: Answer) -> None:
    """`fixed_on_start(model, tokens, head) → [batch, pos, d_vocab]`: one head looks at the start token only."""
    model, tokens = tiny_model(0.6, n_layers=1), torch.tensor([[0, 7, 3, 7, 11], [0, 5, 19, 2, 2]])
    for head in (1, 0):
        result = tensor(answer(model, tokens, head), (2, 5, 20), "logits [batch, pos, d_vocab]")
        right = _forced(model, tokens, head)
        found = close(result, right)
        for sentence, wrong in _wrong_forces(model, tokens, head).items():
            demand(found or not close(result, wrong), sentence)
        demand(found or not close(result, right.softmax(-1)), "these are probabilities; asked for are the logits.")
        demand(found or not close(result, right.log_softmax(-1)), "these are log-probabilities; asked for are logits.")
        demand(
            found or not close(result[:, 1:], right[:, 1:]),
            "it is right from position 1 on; the start token itself can look at nothing else either.",
        )
        demand(
            found or not close(result[:1], right[:1]),
            "the first text of the batch is right and the second is not: force the head in every text.",
        )
        demand(found, f"the logits are not those of the model with head {head} looking at the start token only.")
    other, tokens = tiny_model(0.6, n_layers=1, n_heads=2, d_head=7, d_vocab=13, d_model=8), torch.tensor([[0, 12, 5]])
    demand(
        close(tensor(answer(other, tokens, 1), (1, 3, 13), "logits"), _forced(other, tokens, 1)),
        "it is right for one small model, and wrong for another with other sizes and one text of three tokens.",
    )


_PATTERN = "blocks.0.attn.hook_pattern"


def _with_pattern(model: HookedTransformer, tokens: Tensor, change: Callable[[Tensor], Any]) -> Tensor:
    """The logits when `change` has been at the patterns, [batch, head, dest, src], in place."""

    def hook(pattern: Tensor, hook: Any) -> Tensor:
        pattern = pattern.clone()
        change(pattern)
        return pattern

    with model.hooks(fwd_hooks=[(_PATTERN, hook)]):
        return model(tokens)


def _forced(model: HookedTransformer, tokens: Tensor, head: int | slice, src: int = 0) -> Tensor:
    def change(pattern: Tensor) -> None:
        pattern[:, head] = 0
        pattern[:, head, ..., src] = 1

    return _with_pattern(model, tokens, change)


def _added(head: int) -> Callable[[Tensor], None]:
    def change(pattern: Tensor) -> None:
        pattern[:, head, :, 0] = 1

    return change


def _transposed(head: int) -> Callable[[Tensor], None]:
    def change(pattern: Tensor) -> None:
        pattern[:, head] = 0
        pattern[:, head, 0] = 1

    return change


def _silenced(head: int) -> Callable[[Tensor], None]:
    def change(pattern: Tensor) -> None:
        pattern[:, head] = 0

    return change


def _only_kept(head: int) -> Callable[[Tensor], None]:
    """What stands on the start token stays; the rest is taken away."""

    def change(pattern: Tensor) -> None:
        pattern[:, head, :, 1:] = 0

    return change


def _on_itself(head: int) -> Callable[[Tensor], None]:
    def change(pattern: Tensor) -> None:
        pattern[:, head] = torch.eye(pattern.shape[-1])

    return change


def _wrong_forces(model: HookedTransformer, tokens: Tensor, head: int) -> dict[str, Tensor]:
    """The logits that typical mistakes lead to, by the sentence for each."""
    others = [other for other in range(model.cfg.n_heads) if other != head]
    wrong: dict[str, Tensor] = {
        "these are the logits of the model as it was: has your hook run, and does it return the pattern?": model(
            tokens
        ),
        "the head is silenced: it should go on attending, all of it to the start token.": _with_pattern(
            model, tokens, _silenced(head)
        ),
        "the head still looks at other tokens too: set the rest of each row to 0.": _with_pattern(
            model, tokens, _added(head)
        ),
        "sources and destinations are swapped: every row [dest] should be 1 followed by zeros.": _with_pattern(
            model, tokens, _transposed(head)
        ),
        "the attention to the start token is as it was; the head should pay it all of its attention.": _with_pattern(
            model, tokens, _only_kept(head)
        ),
        "each position looks at itself; it should look at position 0.": _with_pattern(model, tokens, _on_itself(head)),
        "all heads were forced; only the head asked for should be.": _forced(model, tokens, slice(None)),
        "the head looks at position 1; the start token stands at position 0.": _forced(model, tokens, head, 1),
        "the head looks at the last position; the start token stands at position 0.": _forced(model, tokens, head, -1),
    }
    for other in others:
        wrong[f"head {other} was forced, and head {head} was asked for."] = _forced(model, tokens, other)
    return wrong


def _forcing(change: Callable[[int], Callable[[Tensor], None]]) -> Callable[[HookedTransformer, Tensor, int], Tensor]:
    return lambda model, tokens, head: _with_pattern(model, tokens, change(head))


def _but_the_first(head: int) -> Callable[[Tensor], None]:
    def change(pattern: Tensor) -> None:
        pattern[:, head, 1:] = 0
        pattern[:, head, 1:, 0] = 1
        pattern[:, head, 0] = 0

    return change


def _first_text(head: int) -> Callable[[Tensor], None]:
    def change(pattern: Tensor) -> None:
        pattern[0, head] = 0
        pattern[0, head, :, 0] = 1

    return change


def _leaving_the_hook(model: HookedTransformer, tokens: Tensor, head: int) -> Tensor:
    def hook(pattern: Tensor, hook: Any) -> Tensor:
        pattern[:, head] = 0
        pattern[:, head, :, 0] = 1
        return pattern

    leave: Any = model.add_hook  # whose type knows no hook that is a plain function
    leave(_PATTERN, hook)
    return model(tokens)


fixed_on_start.mistakes = {
    "no hook": (lambda m, t, h: m(t), "the logits of the model as it was"),
    "silenced": (_forcing(_silenced), "the head is silenced"),
    "the rest left": (_forcing(_added), "the head still looks at other tokens too"),
    "rows and columns": (_forcing(_transposed), "sources and destinations are swapped"),
    "only the rest removed": (_forcing(_only_kept), "the attention to the start token is as it was"),
    "each on itself": (_forcing(_on_itself), "each position looks at itself"),
    "all heads": (lambda m, t, h: _forced(m, t, slice(None)), "all heads were forced"),
    "the head after": (lambda m, t, h: _forced(m, t, (h + 1) % m.cfg.n_heads), "and head 1 was asked for"),
    "head 1 always": (lambda m, t, h: _forced(m, t, 1), "head 1 was forced, and head 0 was asked for"),
    "position 1": (lambda m, t, h: _forced(m, t, h, 1), "the head looks at position 1"),
    "the last position": (lambda m, t, h: _forced(m, t, h, -1), "the head looks at the last position"),
    "all but the first": (_forcing(_but_the_first), "it is right from position 1 on"),
    "one text": (_forcing(_first_text), "force the head in every text"),
    "probabilities": (lambda m, t, h: _forced(m, t, h).softmax(-1), "these are probabilities"),
    "log-probabilities": (lambda m, t, h: _forced(m, t, h).log_softmax(-1), "these are log-probabilities"),
    "the last position's logits": (lambda m, t, h: _forced(m, t, h)[:, -1], "it should be [2, 5, 20]"),
    "a hook left behind": (_leaving_the_hook, "it leaves a hook"),
    "nothing": (lambda m, t, h: None, "it should return"),
}


def _tables(model: HookedTransformer, head: int) -> tuple[Tensor, Tensor]:
    """A head's full QK circuit, [dest, src], and its full OV circuit, [src, out]."""
    qk, ov = circuits.full_qk(model, 0, head), circuits.full_ov(model, 0, head)
    return qk.A @ qk.B, ov.A @ ov.B


@exercise
def skip_trigrams(answer: Answer) -> None:
    """`skip_trigrams(model, head, source, k) → dest ids [k], out ids [k]`: what one source token is for one head."""
    model, head, source = tiny_model(0.6, n_layers=1), 1, 4
    model.W_E[:, 0] = 1  # so that a row of W_K can give all keys something in common
    dests, outs = _asked_ids(answer, model, head, source, 4)
    QK, OV = _tables(model, head)
    relative, direct = (QK - QK.mean(1, keepdim=True))[:, source], (model.W_E @ model.W_U)[source]
    right_dests, right_outs = _best(relative), _best(OV[source])
    demand((dests, outs) != (right_outs, right_dests), "these are the outs, then the destinations: turn them round.")
    theirs = {other: _tables(model, other)[1][source] for other in (0, 2)}
    named = {
        **{f"these outs belong to head {other}; head {head} was asked for.": row for other, row in theirs.items()},
        "these tokens promote the source; the source is on the rows of OV.": OV[:, source],
        "these are the outs that the head lowers most.": -OV[source],
        "these outs are the largest by size; asked for are those that gain most.": OV[source].abs(),
        "your outs are the direct path's: follow the source through W_V and W_O.": direct,
        "the direct path is in your outs: asked for is what this head adds.": direct + OV[source],
    }
    for sentence, row in named.items():
        demand(outs == right_outs or outs != _best(row), sentence)
    demand(sorted(outs) == sorted(right_outs), "the outs are not the largest entries of the source's row of OV.")
    demand(outs == right_outs, "the outs are the right ones, but the largest should come first.")
    row, as_query = QK[source], "these are the sources that this token looks for as a destination"
    named = {
        f"{as_query}: QK is [dest, src], take a column.": row,
        f"{as_query}, centred: QK is [dest, src], take a column.": row - QK.mean(0),
        f"{as_query}, less other rows' means: QK is [dest, src].": row - QK.mean(1),
        "these are the destinations that look for the source least.": -relative,
        "these scores are the largest by size; a negative one means less attention.": relative.abs(),
        "these are ranked by probability; asked for is the score, less its row's mean.": QK.softmax(1)[:, source],
    }
    for sentence, row in named.items():
        demand(dests == right_dests or dests != _best(row), sentence)
    model.blocks[0].attn.W_K[head, 0] += 9 * random(4, seed=60)
    demand(
        _asked_ids(answer, model, head, source, 4)[0] == dests,
        "what is the same for every source changes no pattern, but it changed your destinations. Subtract from each "
        "score the mean of its row first.",
    )
    demand(sorted(dests) == sorted(right_dests), "the destinations are not those with the largest relative score.")
    demand(dests == right_dests, "the destinations are the right ones, but the largest should come first.")
    other = tiny_model(0.6, n_layers=1, n_heads=4, d_head=7, d_model=8, d_vocab=13)
    for model, head, source, k in ((other, 3, 12, 1), (other, 0, 0, 13), (other, 2, 5, 6)):
        QK, OV = _tables(model, head)
        relative = (QK - QK.mean(1, keepdim=True))[:, source]
        demand(
            _asked_ids(answer, model, head, source, k) == (_best(relative, k), _best(OV[source], k)),
            f"it is right for one model and k = 4, but not for another with 13 tokens, head {head} and k = {k}.",
        )
    _need_tensors(answer(other, 0, 0, 13))


def _need_tensors(ends: tuple) -> None:
    if not all(isinstance(ids, Tensor) for ids in ends):
        raise Unfit("the next cells index tensors with these ids, and get lists: return tensors, as `topk` does")


def _asked_ids(answer: Answer, model: HookedTransformer, head: int, source: int, k: int) -> tuple[list, list]:
    found = []
    for ids, name in zip(pair(answer(model, head, source, k), "destinations and outs"), _ENDS, strict=True):
        whole = isinstance(ids, tuple) and hasattr(ids, "indices")
        demand(not whole, "`topk` gives values and indices: return its `.indices`.")
        if isinstance(ids, list | tuple) and all(
            isinstance(token, int) or getattr(token, "ndim", 1) == 0 for token in ids
        ):
            ids = torch.tensor([int(token) for token in ids])
        values = tensor(ids, (k,), f"the ids of k {name}")
        fits = (values >= 0) & (values < model.cfg.d_vocab) & (values == values.round())
        demand(fits.all() and not ids.is_floating_point(), f"the {name} should be token ids, which are integers.")
        found.append([int(token) for token in values])
    return found[0], found[1]


_ENDS = ("destinations", "outs")


def _best(values: Tensor, k: int = 4) -> list[int]:
    return values.topk(k).indices.tolist()


def _trigrams(
    rank_dests: Callable[[Tensor, int], Tensor] = lambda QK, s: (QK - QK.mean(1, keepdim=True))[:, s],
    rank_outs: Callable[[Tensor, int], Tensor] = lambda OV, s: OV[s],
    end: Callable[[Tensor, Tensor], Any] = lambda dests, outs: (dests, outs),
    change: Callable[[int, int, int], tuple] = lambda head, source, k: (head, source, k),
) -> Callable[[HookedTransformer, int, int, int], Any]:
    def answer(model: HookedTransformer, head: int, source: int, k: int) -> Any:
        head, source, k = change(head, source, k)
        QK, OV = _tables(model, head)
        dests, outs = (values.topk(k).indices for values in (rank_dests(QK, source), rank_outs(OV, source)))
        return end(dests, outs)

    return answer


def _trigrams_with_values(model: HookedTransformer, head: int, source: int, k: int) -> tuple[Tensor, Tensor]:
    QK, OV = _tables(model, head)
    return (QK - QK.mean(1, keepdim=True))[:, source].topk(k).values, OV[source].topk(k).values


def _trigrams_as_topk(model: HookedTransformer, head: int, source: int, k: int) -> tuple[Any, Any]:
    QK, OV = _tables(model, head)
    return (QK - QK.mean(1, keepdim=True))[:, source].topk(k), OV[source].topk(k)


def _outs_of(table: Callable[[HookedTransformer, Tensor], Tensor]) -> Callable[[HookedTransformer, int, int, int], Any]:
    def answer(model: HookedTransformer, head: int, source: int, k: int) -> Any:
        ov = circuits.ov(model, 0, head)
        outs = model.W_E[source] @ table(model, ov.A @ ov.B)
        return _trigrams()(model, head, source, k)[0], outs.topk(k).indices

    return answer


def _centring_W_E(model: HookedTransformer, head: int, source: int, k: int) -> Any:
    model.embed.W_E.data -= model.W_E.mean(0)
    return _trigrams()(model, head, source, k)


skip_trigrams.mistakes = {
    "QK as [src, dest]": (_trigrams(lambda QK, s: QK[s]), "these are the sources that this token looks for"),
    "QK as [src, dest], centred": (
        _trigrams(lambda QK, s: (QK - QK.mean(1, keepdim=True))[s]),
        "these are the sources that this token looks for",
    ),
    "scores as they are": (_trigrams(lambda QK, s: QK[:, s]), "Subtract from each score the mean of its row first"),
    "centred over destinations": (
        _trigrams(lambda QK, s: (QK - QK.mean(0))[:, s]),
        "Subtract from each score the mean of its row first",
    ),
    "attention as a probability": (_trigrams(lambda QK, s: QK.softmax(1)[:, s]), "these are ranked by probability"),
    "OV as [out, src]": (_trigrams(rank_outs=lambda OV, s: OV[:, s]), "these tokens promote the source"),
    "least instead of most": (_trigrams(rank_outs=lambda OV, s: -OV[s]), "the outs that the head lowers most"),
    "least attention": (
        _trigrams(lambda QK, s: -(QK - QK.mean(1, keepdim=True))[:, s]),
        "the destinations that look for the source least",
    ),
    "attention by size": (
        _trigrams(lambda QK, s: (QK - QK.mean(1, keepdim=True))[:, s].abs()),
        "a negative one means less attention",
    ),
    "largest last": (_trigrams(end=lambda d, o: (d.flip(0), o.flip(0))), "the largest should come first"),
    "largest destination last": (
        _trigrams(end=lambda d, o: (d.flip(0), o)),
        "the destinations are the right ones, but the largest",
    ),
    "another head": (_trigrams(change=lambda h, s, k: (h - 1, s, k)), "these outs belong to head 0"),
    "the first head always": (_trigrams(change=lambda h, s, k: (0, s, k)), "these outs belong to head 0"),
    "another source": (_trigrams(change=lambda h, s, k: (h, s - 1, k)), "the outs are not the largest entries"),
    "by size, whatever the sign": (_trigrams(rank_outs=lambda OV, s: OV[s].abs()), "the largest by size"),
    "the direct path added": (
        _outs_of(lambda m, OV: (OV + torch.eye(len(OV))) @ m.W_U),
        "asked for is what this head adds",
    ),
    "the direct path alone": (_outs_of(lambda m, OV: m.W_U), "your outs are the direct path's"),
    "W_V and W_O transposed": (_outs_of(lambda m, OV: OV.T @ m.W_U), "the outs are not the largest entries"),
    "W_E for W_U": (_outs_of(lambda m, OV: OV @ m.W_E.T), "the outs are not the largest entries"),
    "values instead of ids": (_trigrams_with_values, "should be token ids, which are integers"),
    "all that topk gives": (_trigrams_as_topk, "return its `.indices`"),
    "dests only": (_trigrams(end=lambda d, o: d), "it should return two things"),
    "outs and dests swapped": (_trigrams(end=lambda d, o: (o, d)), "these are the outs, then the destinations"),
    "one less": (_trigrams(change=lambda h, s, k: (h, s, k - 1)), "the result has shape [3]"),
    "four always": (
        lambda m, h, s, k: tuple(ids[:k] for ids in _trigrams()(m, h, s, 4)),
        "the result has shape [4]; it should be [13]",
    ),
    "the model changed": (_centring_W_E, "it changes `model.embed.W_E`, which it was given"),
}


@exercise
def positive_yet_lowering(answer: Answer) -> None:
    """`positive_yet_lowering() → [2, 2]`: rows sum to 0, eigenvalues 0 and positive, a token that lowers itself."""
    matrix = tensor(answer(), (2, 2), "[source, out]").double()
    size = matrix.abs().max().item() or 1.0
    (a, b), (c, d) = (matrix / size).tolist()
    near = 1e-6
    columns = abs(a + c) < near and abs(b + d) < near
    for name, total in (("first", a + b), ("second", c + d)):
        demand(
            abs(total) < near or not columns,
            "its columns sum to 0; the rows should: a row holds what one source adds to every out.",
        )
        demand(
            abs(total) < near, f"its {name} row sums to {total * size:.3g}, and a softmax takes that away: make it 0."
        )
    demand(a + d > -near, f"its eigenvalues are 0 and {(a + d) * size:.3g}; none should be negative.")
    demand(a + d > near, "its eigenvalues are both 0; one should be positive.")
    demand(
        min(a, d) < -near,
        f"its diagonal is {a * size:.3g} and {d * size:.3g}: no token lowers its own logit.",
    )


def _two_by_two(*rows: list) -> Callable[[], Tensor]:
    return lambda: torch.tensor(rows, dtype=torch.float)


positive_yet_lowering.mistakes = {
    "rows that do not sum to 0": (_two_by_two([-1, 3], [-2, 4]), "its first row sums to 2, and a softmax takes"),
    "the second row does not": (_two_by_two([-1, 1], [-2, 4]), "its second row sums to 2"),
    "columns that do": (_two_by_two([-1, 2], [1, -2]), "its columns sum to 0; the rows should"),
    "a negative eigenvalue": (_two_by_two([-2, 2], [-1, 1]), "its eigenvalues are 0 and -1"),
    "both lowering": (_two_by_two([-0.5, 0.5], [0.5, -0.5]), "its eigenvalues are 0 and -1"),
    "both eigenvalues 0": (_two_by_two([-1, 1], [-1, 1]), "its eigenvalues are both 0"),
    "both raising": (_two_by_two([1, -1], [-2, 2]), "no token lowers its own logit"),
    "zero on the diagonal": (_two_by_two([0, 0], [-3, 3]), "its diagonal is 0 and 3"),
    "zeros": (_two_by_two([0, 0], [0, 0]), "its eigenvalues are both 0"),
    "identity": (_two_by_two([1, 0], [0, 1]), "its first row sums to 1"),
    "3 × 3": (_two_by_two([-1, 1, 0], [-2, 2, 0], [0, 0, 0]), "it should be [2, 2]"),
    "its eigenvalues": (lambda: torch.tensor([0.0, 1.0]), "it should be [2, 2]"),
}
