"""What a model does without a part of it, or with something else in the part's place.

A *cut* names the part: a head, `(0, 5)`; a door, `((0, 5), "k", (1, 6))`, which is what head 0.5 writes as the keys of
1.6 read it ("q" and "v" are its queries and values); a position, `3`. `cut` takes parts out, or puts another head
output in their place; `patched` overwrites any activation; `stand_ins` has what is put in a head's place.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_utils._arguments import checked
from course_utils.models import check_head

Head = tuple[int, int]  # (layer, head)
Door = tuple[Head, str, Head]  # what the first head writes, as the second reads it: in its "q", "k" or "v"
Cut = Head | Door | int  # a number is a position
ROWS = 4  # of tokens that a model reads at a time: the logits of a large vocabulary take much memory


def head_name(head: Head) -> str:
    return f"{head[0]}.{head[1]}"


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
@checked
def cut(
    model: HookedTransformer, *cuts: Cut, instead: Mapping[Head, Float[Tensor, "..."]] | None = None
) -> Iterator[HookedTransformer]:
    """Within this block the model runs with some of its parts switched off.

    The output of a head that is cut is zero: not a mean, because then the logits lose exactly the head's terms. Behind
    a door that is cut, what the writer writes is missing from what the reader's queries, keys or values are made from,
    and stays everywhere else. A position that is cut can be attended to by no later one, as if it stood behind the
    mask. `instead` has what stands in the place of what a head moves, z [batch, pos, d_head] or one vector for all, by
    the head that is cut or that writes behind a door. Raises IndexError for a head that the model does not have,
    ValueError for anything else that is no cut. After Elhage et al. 2021, "Three Kinds of Composition".
    """
    for one in cuts:
        _check_cut(model, one)
    heads = [one for one in cuts if isinstance(one, tuple) and len(one) == 2]
    doors = [one for one in cuts if isinstance(one, tuple) and len(one) == 3]
    positions = [one for one in cuts if isinstance(one, int)]
    stand_in = instead or {}
    change: dict[Head, Tensor] = {}  # what stands in for a head less what it writes, [batch, pos, d_model]

    def move(z: Tensor, hook: HookPoint) -> Tensor:  # [batch, pos, head, d_head]
        for layer, head in heads:
            if layer == hook.layer():
                z[:, :, head] = stand_in.get((layer, head), 0.0)
        for writer in {writer for writer, _, _ in doors if writer[0] == hook.layer()}:
            W_O = model.W_O[writer]
            new = stand_in[writer] @ W_O if writer in stand_in else 0.0
            change[writer] = new - z[:, :, writer[1]] @ W_O
        return z

    def read(x: Tensor, hook: HookPoint) -> Tensor:  # queries, keys or values: [batch, pos, head, d_head]
        x = x.clone()
        for writer, path, (layer, head) in doors:
            if hook.name == f"blocks.{layer}.attn.hook_{path}":
                x[:, :, head] += change[writer] @ getattr(model, f"W_{path.upper()}")[layer, head]
        return x

    def hide(scores: Tensor, hook: HookPoint) -> Tensor:  # [batch, head, dest, src]
        for position in positions:
            scores[:, :, position + 1 :, position] = -torch.inf
        return scores

    at: set[tuple[int, str, Callable]] = {(layer, "z", move) for layer, _ in [*heads, *(door[0] for door in doors)]}
    at |= {(layer, path, read) for _, path, (layer, _) in doors}
    at |= {(layer, "attn_scores", hide) for layer in range(model.cfg.n_layers) if positions}
    hooks: list[tuple[str | Callable, Callable]] = [(f"blocks.{n}.attn.hook_{part}", hook) for n, part, hook in at]
    with model.hooks(fwd_hooks=hooks):
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


@contextmanager
@checked
def patched(model: HookedTransformer, name: str, value: Float[Tensor, "batch pos ..."], index: tuple = ()) -> Iterator:
    """Within this block the model runs with the activation `name` replaced by `value`, most often from another run.

    `index` limits the replacement to a part of both: `(slice(None), 3)` is position 3 of every text. `name` is a hook's
    full name, as "blocks.0.hook_resid_pre"; with "blocks.0.attn.hook_pattern", the patterns are frozen. Raises
    ValueError for a name that the model does not have; running the model raises one if the shapes differ.
    """
    if name not in model.hook_dict:
        raise ValueError(f"The model has no activation named {name!r}; model.hook_dict lists them all.")

    def overwrite(activation: Tensor, hook: HookPoint) -> Tensor:
        if activation.shape != value.shape:
            raise ValueError(f"{name} has shape {list(activation.shape)}, and the value {list(value.shape)}.")
        activation = activation.clone()  # another hook, or the next layer, may hold on to the old one
        activation[index] = value[index]
        return activation

    with model.hooks(fwd_hooks=[(name, overwrite)]):
        yield model


@checked
@torch.no_grad()
def stand_ins(
    model: HookedTransformer, layer: int, tokens: Int[Tensor, "batch pos"]
) -> dict[str, dict[Head, Float[Tensor, "batch pos d_head"]]]:
    """What can stand in for what a layer's heads move: "zero", "the mean" of all, "another text's", by head.

    Another text's is what the same head moves at the same position nine rows of `tokens` earlier. Raises ValueError if
    that is the same row.
    """
    check_head(model, layer, 0)
    if 9 % len(tokens) == 0:
        raise ValueError(f"With {len(tokens)} rows another text's would be each text's own: give another number.")
    place = f"blocks.{layer}.attn.hook_z"
    rows = tokens.split(ROWS)
    z = torch.cat([model.run_with_cache(some, return_type=None, names_filter=place)[1][place] for some in rows])
    ways = {"zero": torch.zeros_like(z), "the mean": z.mean((0, 1)).expand_as(z), "another text's": z.roll(9, 0)}
    return {way: {(layer, h): one[:, :, h] for h in range(model.cfg.n_heads)} for way, one in ways.items()}
