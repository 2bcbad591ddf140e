"""What a model does without a part of it, or with something else in the part's place.

A *cut* names the part: a head, `(0, 5)`; a door, `((0, 5), "k", (1, 6))`, which is what head 0.5
writes as the keys of 1.6 read it ("q" and "v" are its queries and values); a position, `3`. A door
can lead from the embedding, `("embed", "q", (1, 6))`, and to the logits, `((1, 6), "logits")`.
`cut` takes parts out, or puts other outputs in their place, and `all_but` names every door but
some; `patched` overwrites any activation; `stand_ins` has what is put in a part's place.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_utils._arguments import plain, require_tokens, validated
from course_utils.models import all_heads, require_head

Head = tuple[int, int]  # (layer, head)
Door = tuple[Head, str, Head]  # what the first head writes, in the "q", "k" or "v" of the second
Cut = Head | Door | int  # a number is a position
Writer = Head | str  # a head, or "embed": what the token itself puts into the stream
Edge = Door | tuple[Writer, str, Head] | tuple[Writer, str]  # also from "embed", to the "logits"
ROWS = 4  # that a model reads at a time: the logits of a large vocabulary take much memory


def head_name(head: Head) -> str:
    """A head as the course writes it: "0.5"."""
    layer, number = head
    return f"{layer}.{number}"


def in_words(one: Cut) -> str:
    """A cut in words: "head 0.5", "0.5 in the keys of 1.6", "position 3"."""
    match one:
        case int():
            return f"position {one}"
        case (earlier, str(path), later):
            read = {"q": "queries", "k": "keys", "v": "values"}[path]
            return f"{head_name(earlier)} in the {read} of {head_name(later)}"
        case head:
            return f"head {head_name(head)}"


@contextmanager
@validated
def cut(
    model: HookedTransformer,
    *cuts: Cut | Edge,
    instead: Mapping[Any, Float[Tensor, "..."]] | None = None,
) -> Iterator[HookedTransformer]:
    """Within this block the model runs with some of its parts switched off.

    The output of a head that is cut is zero: not a mean, because then the logits lose exactly the
    head's terms. Behind a door that is cut, what the writer writes is missing from what the
    reader's queries, keys or values are made from, and stays everywhere else. A position that is
    cut can be attended to by no later one, as if it stood behind the mask.

    `instead` has what stands in the place of what a head moves, z [batch, pos, d_head] or one
    vector for all, by the head that is cut or that writes behind a door; of "embed" it is the
    embedding, [batch, pos, d_model]. Raises IndexError for a head that the model does not have,
    ValueError for anything else that is no cut. After Elhage et al. 2021, "Three Kinds of
    Composition".
    """
    heads, doors, ends, positions = _sorted(model, cuts)
    writers = {door[0] for door in doors} | {*ends}
    stand_in = {plain(part): values for part, values in (instead or {}).items()}
    # what stands in for a writer less what it writes, [batch, pos, d_model]
    change: dict[Writer, Tensor] = {}

    def embed(x: Tensor, hook: HookPoint) -> None:  # [batch, pos, d_model]
        change["embed"] = stand_in.get("embed", 0.0) - x

    def move(z: Tensor, hook: HookPoint) -> Tensor:  # [batch, pos, head, d_head]
        attention: Any = model.blocks[hook.layer()].attn  # model.W_O stacks all layers' anew
        for head in range(model.cfg.n_heads):
            one = (hook.layer(), head)
            new = stand_in.get(one, 0.0)  # [batch, pos, d_head], or zero
            if one in heads:
                z[:, :, head] = new
            if one in writers:
                change[one] = (new - z[:, :, head]) @ attention.W_O[head]
        return z

    def read(x: Tensor, hook: HookPoint) -> Tensor:  # q, k or v: [batch, pos, head, d_head]
        x = x.clone()
        for writer, path, (layer, head) in doors:
            if hook.name == f"blocks.{layer}.attn.hook_{path}":
                weights = getattr(model.blocks[layer].attn, f"W_{path.upper()}")
                x[:, :, head] += change[writer] @ weights[head]
        return x

    def say(x: Tensor, hook: HookPoint) -> Tensor:  # the stream that the logits read
        return x + sum(change[writer] for writer in ends)

    def hide(scores: Tensor, hook: HookPoint) -> Tensor:  # [batch, head, dest, src]
        for position in positions:
            scores[:, :, position + 1 :, position] = -torch.inf
        return scores

    # which of these functions stands where
    n_layers = model.cfg.n_layers
    hooks: dict[str | Callable, Callable] = {}
    for one in {*heads, *writers} - {"embed"}:
        hooks[f"blocks.{one[0]}.attn.hook_z"] = move
    for _, path, reader in doors:
        hooks[f"blocks.{reader[0]}.attn.hook_{path}"] = read
    if positions:
        for layer in range(n_layers):
            hooks[f"blocks.{layer}.attn.hook_attn_scores"] = hide
    if "embed" in writers:
        hooks["hook_embed"] = embed
    if ends:
        hooks[f"blocks.{n_layers - 1}.hook_resid_post"] = say
    with model.hooks(fwd_hooks=[*hooks.items()]):
        yield model


def _sorted(
    model: HookedTransformer, cuts: Iterable[Any]
) -> tuple[list[Head], list[Any], list[Writer], list[int]]:
    """Cuts by kind: heads, doors, writers that the logits don't read, positions.

    Raises as `cut` says.
    """
    heads: list[Head] = []
    doors: list[Any] = []
    ends: list[Writer] = []
    positions: list[int] = []
    for one in map(plain, cuts):
        match one:
            case int() if 0 <= one < model.cfg.n_ctx:
                positions.append(one)
            case (int(), int()):
                heads.append(one)
            case ("embed" | (int(), int()) as writer, "logits"):
                ends.append(writer)
            case ("embed" | (int(), int()), "q" | "k" | "v", (int(), int())):
                doors.append(one)
            case _:
                raise ValueError(
                    'A cut is a head, as (0, 5), a door, as ((0, 5), "k", (1, 6)), '
                    f"or a position from 0 to {model.cfg.n_ctx - 1}, not {one!r}."
                )

    # every head that is named is one of the model's
    sides = [side for writer, _, reader in doors for side in (writer, reader)]
    for head in [*heads, *ends, *sides]:
        if head != "embed":
            require_head(model, *head)

    # and doors lead from an earlier layer, through a stream that is a plain sum
    for writer, _, reader in doors:
        if writer != "embed" and writer[0] >= reader[0]:
            raise ValueError(
                f"Head {head_name(writer)} writes too late for {head_name(reader)}: "
                "take an earlier layer."
            )
    if (doors or ends) and model.cfg.normalization_type is not None:
        raise ValueError(
            "A door can be cut only where nothing normalises the stream: this model has LayerNorm."
        )
    return heads, doors, ends, positions


@validated
def all_but(model: HookedTransformer, *kept: Edge) -> list[Edge]:
    """Every door of a model but those that are kept: cut them all, and only what is named is left.

    With another text's outputs `instead` it is a hypothesis, tested for being enough: what it names
    carries what it carries in the model, everything else is resampled. Positions are always read as
    they are. Raises ValueError for a kept door that the model does not have, and for a model with
    MLPs. After Chan et al. 2022, "Causal Scrubbing".
    """
    if not model.cfg.attn_only or not model.cfg.n_layers:
        raise ValueError(
            "Doors are all that a model is made of only where it has heads and no MLPs."
        )
    heads = all_heads(model)
    writers: list[Writer] = ["embed", *heads]

    # all doors: to the logits, and to every head of a later layer
    doors: list[Edge] = [(writer, "logits") for writer in writers]
    for writer in writers:
        for reader in heads:
            if isinstance(writer, str) or writer[0] < reader[0]:
                doors += [(writer, path, reader) for path in "qkv"]

    keep = {*map(plain, kept)}
    for one in keep - {*doors}:
        _sorted(model, [one])  # it may know better what is wrong
        raise ValueError(
            f'Only doors can be kept, as ((0, 5), "k", (1, 6)) or ((1, 6), "logits"), not {one!r}.'
        )
    return [door for door in doors if door not in keep]


@contextmanager
@validated
def patched(
    model: HookedTransformer, name: str, value: Float[Tensor, "batch pos ..."], index: tuple = ()
) -> Iterator:
    """Within this block the model runs with the activation `name` replaced by `value`.

    Most often `value` comes from another run. `index` limits the replacement to a part of both:
    `(slice(None), 3)` is position 3 of every text. `name` is a hook's full name, as
    "blocks.0.hook_resid_pre"; with "blocks.0.attn.hook_pattern", the patterns are frozen. Raises
    ValueError for a name that the model does not have; running the model raises one if the shapes
    differ.
    """
    if name not in model.hook_dict:
        raise ValueError(
            f"The model has no activation named {name!r}; model.hook_dict lists them all."
        )

    def overwrite(activation: Tensor, hook: HookPoint) -> Tensor:
        if activation.shape != value.shape:
            raise ValueError(
                f"{name} has shape {list(activation.shape)}, and the value {list(value.shape)}."
            )
        # another hook, or the next layer, may hold on to the old one
        activation = activation.clone()
        activation[index] = value[index]
        return activation

    with model.hooks(fwd_hooks=[(name, overwrite)]):
        yield model


@validated
@torch.no_grad()
def stand_ins(
    model: HookedTransformer, layer: int | None, tokens: Int[Tensor, "batch pos"]
) -> dict[str, dict[Writer, Float[Tensor, "batch pos d_head_or_d_model"]]]:
    """What can stand in for what a layer's heads move, by way and head.

    The ways are "zero", "the mean" of all, and "another text's": what the same part gives at the
    same position nine rows of `tokens` earlier. Without a layer (None) for all heads, and for
    "embed": all that can stand behind the doors of `all_but`. Raises ValueError if nine rows
    earlier is the same row.
    """
    require_tokens(model, tokens)
    if layer is not None:
        require_head(model, layer, 0)
    if 9 % len(tokens) == 0:
        raise ValueError(
            f"With {len(tokens)} rows another text's would be each text's own: give another number."
        )

    # run the model, and keep what is needed
    layers = range(model.cfg.n_layers) if layer is None else [layer]
    places = [f"blocks.{n}.attn.hook_z" for n in layers]
    if layer is None:
        places.append("hook_embed")
    runs = []
    for rows in tokens.split(ROWS):
        _, cache = model.run_with_cache(rows, return_type=None, names_filter=places)
        runs.append(cache)

    # what every part gives itself
    own: dict[Writer, Tensor] = {}
    if layer is None:
        own["embed"] = torch.cat([cache["embed"] for cache in runs])  # [batch, pos, d_model]
    for n in layers:
        z = torch.cat([cache["z", n] for cache in runs])  # [batch, pos, head, d_head]
        for head in range(model.cfg.n_heads):
            own[n, head] = z[:, :, head]

    # and what can stand in for that
    ways = {
        "zero": torch.zeros_like,
        "the mean": lambda z: z.mean((0, 1)).expand_as(z),
        "another text's": lambda z: z.roll(9, 0),
    }
    return {way: {writer: make(z) for writer, z in own.items()} for way, make in ways.items()}
