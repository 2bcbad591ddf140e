"""One text in one model: what a run holds, what of it is switched off, and what each logit is the sum of.

Everything that the microscope draws is computed here. Attention-only models.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_utils import heads, tasks
from course_utils._arguments import checked
from course_utils.models import check_head

Head = tuple[int, int]  # (layer, head)
Door = tuple[Head, str, Head]  # what the first head writes, as the second reads it: in its "q", "k" or "v"
Cut = Head | Door | int  # a number is a position


@contextmanager
@checked
def cut(model: HookedTransformer, *cuts: Cut) -> Iterator[HookedTransformer]:
    """Within this block the model runs with some of its parts switched off.

    `(0, 5)` is a head: its output is zero. `((0, 5), "k", (1, 6))` is a door: what head 0.5 writes is taken out of what
    the keys of head 1.6 are made from, and stays everywhere else; "q" and "v" are its queries and values. A number is a
    position: no later one can attend to it, as if it stood behind the mask. Raises IndexError for a head that the model
    does not have, ValueError for anything else that is none of the three. After Elhage et al. 2021, "Three Kinds of
    Composition".
    """
    for one in cuts:
        _check_cut(model, one)
    doors = [one for one in cuts if isinstance(one, tuple) and len(one) == 3]
    silenced = [one for one in cuts if isinstance(one, tuple) and len(one) == 2]
    positions = [one for one in cuts if isinstance(one, int)]
    written: dict[Head, Tensor] = {}

    def keep(z: Tensor, hook: HookPoint) -> None:  # [batch, pos, head, d_head]; after `ablated`, which makes it zero
        for earlier in {earlier for earlier, _, _ in doors if earlier[0] == hook.layer()}:
            written[earlier] = z[:, :, earlier[1]] @ model.W_O[earlier]

    def close(read: Tensor, hook: HookPoint) -> Tensor:  # queries, keys or values: [batch, pos, head, d_head]
        read = read.clone()
        for earlier, path, (layer, head) in doors:
            if hook.name == f"blocks.{layer}.attn.hook_{path}":
                W = getattr(model, f"W_{path.upper()}")[layer, head]  # [d_model, d_head]
                read[:, :, head] -= written[earlier] @ W
        return read

    def hide(scores: Tensor, hook: HookPoint) -> Tensor:  # [batch, head, dest, src]
        for position in positions:
            scores[:, :, position + 1 :, position] = -torch.inf
        return scores

    hooks: list[tuple[str | Callable, Callable]] = [
        (f"blocks.{layer}.attn.hook_z", keep) for layer in {earlier[0] for earlier, _, _ in doors}
    ]
    hooks += [(f"blocks.{later[0]}.attn.hook_{path}", close) for path, later in {(p, (b[0],)) for _, p, b in doors}]
    hooks += [(f"blocks.{layer}.attn.hook_attn_scores", hide) for layer in range(model.cfg.n_layers) if positions]
    with heads.ablated(model, *silenced), model.hooks(fwd_hooks=hooks):
        yield model


def _check_cut(model: HookedTransformer, one: object) -> None:
    match one:
        case bool():
            pass
        case int() if 0 <= one < model.cfg.n_ctx:
            return
        case (int(layer), int(head)):
            return check_head(model, layer, head)
        case ((int(first), int(writer)), "q" | "k" | "v", (int(second), int(reader))):
            check_head(model, first, writer)
            check_head(model, second, reader)
            if first >= second:
                raise ValueError(f"Head {first}.{writer} writes too late for {second}.{reader}: take an earlier layer.")
            if model.cfg.normalization_type is not None:
                raise ValueError(
                    "A door can be cut only where nothing normalises the stream: this model has LayerNorm."
                )
            return
    raise ValueError(
        f'A cut is a head, as (0, 5), a door, as ((0, 5), "k", (1, 6)), or a position from 0 to '
        f"{model.cfg.n_ctx - 1}, not {one!r}."
    )


def head_name(head: Head) -> str:
    return f"{head[0]}.{head[1]}"


def name(one: Cut) -> str:
    """A cut in words: "head 0.5", "0.5 in the keys of 1.6", "position 3"."""
    match one:
        case int():
            return f"position {one}"
        case (earlier, str(path), later):
            read = {"q": "queries", "k": "keys", "v": "values"}[path]
            return f"{head_name(earlier)} in the {read} of {head_name(later)}"
        case head:
            return f"head {head_name(head)}"


@dataclass(frozen=True)
class Run:
    """What one run of a model on one text leaves behind. Losses and logits are in nats."""

    tokens: Int[Tensor, " pos"]
    logits: Float[Tensor, "pos d_vocab"]
    scores: Float[Tensor, "layer head dest src"]  # x W_Q · y W_K / √d_head, before the mask
    pattern: Float[Tensor, "layer head dest src"]
    value_weighted: Float[Tensor, "layer head dest src"]  # as `heads.value_weighted`
    written: Float[Tensor, "layer head pos d_model"]  # what each head adds to the stream
    stream: Float[Tensor, "level pos d_model"]  # after the embedding, and after every layer
    loss: Float[Tensor, " pos"]  # NaN where there is no answer to compare with
    cuts: tuple[Cut, ...] = ()


@checked
def run(model: HookedTransformer, tokens: Int[Tensor, " pos"], *cuts: Cut) -> Run:
    """Run a model once on one text, with what `cuts` names switched off (see `cut`).

    Raises ValueError for a model with MLPs, for a text longer than the context, and as `cut` does.
    """
    cfg = model.cfg
    if not cfg.attn_only:
        raise ValueError("The microscope shows attention-only models, and this one has MLPs.")
    if len(tokens) > cfg.n_ctx:
        raise ValueError(f"The text has {len(tokens)} tokens, and the model reads at most {cfg.n_ctx}.")
    for one in cuts:
        if isinstance(one, int) and one >= len(tokens):
            raise ValueError(f"Position {one} can't be cut: the text has the positions 0 to {len(tokens) - 1}.")
    needed = (
        "embed",
        "hook_resid_pre",
        "hook_resid_post",
        *(f"hook_{part}" for part in ("q", "k", "v", "z", "pattern")),
    )
    with cut(model, *cuts):
        logits, cache = model.run_with_cache(tokens[None], names_filter=lambda hook: hook.endswith(needed))

    loss = _loss(model, tokens, logits[0])
    if not cfg.n_layers:
        none = torch.empty(0, cfg.n_heads, len(tokens), len(tokens))
        nothing = torch.empty(0, cfg.n_heads, len(tokens), cfg.d_model)
        return Run(tokens, logits[0], none, none, none, nothing, cache["embed"], loss, cuts)

    def stacked(part: str) -> Tensor:
        return torch.cat([cache[part, layer] for layer in range(cfg.n_layers)])

    q, k, v, z = (stacked(part) for part in "qkvz")  # [layer, pos, head, d_head]
    pattern = stacked("pattern")
    lengths = torch.einsum("lshd,lhdm->lhsm", v, model.W_O).norm(dim=-1)  # of what each source has to give
    return Run(
        tokens=tokens,
        logits=logits[0],
        scores=torch.einsum("lphd,lshd->lhps", q, k) / cfg.d_head**0.5,
        pattern=pattern,
        value_weighted=pattern * lengths[:, :, None],
        written=torch.einsum("lphd,lhdm->lhpm", z, model.W_O),
        stream=torch.cat([stacked("resid_pre"), cache["resid_post", cfg.n_layers - 1]]),
        loss=loss,
        cuts=cuts,
    )


def answers(model: HookedTransformer, tokens: Int[Tensor, " pos"]) -> Int[Tensor, " pos"]:
    """What should be said at each position, −1 where nothing is: the next token, or the largest number so far."""
    task = tasks.TASKS["max-of-list"]
    if model.cfg.d_vocab == task.d_vocab:
        largest = [int(tasks.answers(task, tokens[None, : i + 1])) for i in range(len(tokens))]
        return torch.tensor([-1, *largest[1:]])  # no list of one number was ever trained on
    return torch.cat([tokens[1:], tokens.new_tensor([-1])])


def _loss(model: HookedTransformer, tokens: Tensor, logits: Tensor) -> Float[Tensor, " pos"]:
    right = answers(model, tokens)
    loss = -logits.log_softmax(-1).gather(-1, right.clamp(min=0)[:, None])[:, 0]
    return loss.masked_fill(right < 0, torch.nan)


def _direction(
    model: HookedTransformer, x: Float[Tensor, " d_model"], token: int
) -> tuple[Float[Tensor, " d_model"], float]:
    """The logit of `token` as x · direction + constant; with LayerNorm, at the scale that this very x has."""
    u, constant = model.W_U[:, token], model.b_U[token].item()
    if model.cfg.normalization_type is None:
        return u, constant
    if model.cfg.normalization_type == "LN":
        weights = dict(model.ln_final.named_parameters())
        constant += (weights["b"] @ u).item()
        u = weights["w"] * u
    centred = x - x.mean()
    return (u - u.mean()) / (centred.square().mean() + model.cfg.eps).sqrt(), constant


def terms(model: HookedTransformer, result: Run, position: int, token: int) -> dict[str, float]:
    """What the logit of `token` at `position` is the sum of: "direct", every head ("0.5"), and "bias" if there is one.

    "direct" is what the embedding adds (with the position vector where positions are in the stream). In a model of one
    layer without LayerNorm these are `paths.path_terms`. LayerNorm's scale is held at what it is, so the terms still
    sum to the logit; with it, "bias" is what the biases add.
    """
    direction, constant = _direction(model, result.stream[-1, position], token)
    parts = {"direct": (result.stream[0, position] @ direction).item()}
    for (layer, head), value in zip(_heads(model), (result.written[:, :, position] @ direction).flatten(), strict=True):
        parts[f"{layer}.{head}"] = value.item()
    constant += sum((model.b_O[layer] @ direction).item() for layer in range(model.cfg.n_layers))
    return parts | ({"bias": constant} if constant else {})


def pairs(model: HookedTransformer, result: Run, position: int, token: int) -> Float[Tensor, "later source"]:
    """The terms of layer 1's heads, each divided by what its values are made from: the embedding, then 0.0, 0.1, ….

    The entry of head h after head g is the *virtual head* of the two: h moves on what g wrote. A row sums to the head's
    term. Raises ValueError unless the model has two layers and no LayerNorm. Elhage et al. 2021, "Virtual Attention
    Heads".
    """
    if model.cfg.n_layers != 2 or model.cfg.normalization_type is not None:
        raise ValueError("Only two layers without LayerNorm fall apart into pairs of heads.")
    direction, _ = _direction(model, result.stream[-1, position], token)
    sources = torch.cat([result.stream[:1], result.written[0]])  # [source, pos, d_model]
    gives = torch.einsum("spm,hmd,hde,e->hsp", sources, model.W_V[1], model.W_O[1], direction)
    for one in result.cuts:
        match one:
            case ((0, earlier), "v", (1, later)):
                gives[later, 1 + earlier] = 0
            case (1, later):
                gives[later] = 0
    return torch.einsum("hsp,hp->hs", gives, result.pattern[1, :, position])


def _heads(model: HookedTransformer) -> list[Head]:
    return [(layer, head) for layer in range(model.cfg.n_layers) for head in range(model.cfg.n_heads)]
