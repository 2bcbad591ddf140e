"""What stands in a part's place: a change in one door alone, or everything but some parts.

Both return hooks for `model.hooks(fwd_hooks=...)`, for models with RMSNorm and grouped keys.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor
from transformer_lens import ActivationCache, HookedTransformer

Head = tuple[int, int]
Hooks = list[tuple[str, Callable]]


def added(
    model: HookedTransformer,
    change: Float[Tensor, "text pos d_model"],
    door: str,
    of: Mapping[int, Collection[int]],
) -> Hooks:
    """Hooks that add a change of the stream to what one door reads, and nowhere else.

    `door` is "q", "k" or "v". `of` has, by layer, the heads whose queries read the change, or the
    groups whose keys or values do: head h uses group h // 3. What RMSNorm divides by stays as it
    is without the change. Raises ValueError where the model has no such head or group, and while
    it runs, where `change` is of another number of texts.
    """
    size: dict[int, Tensor] = {}  # by layer, what RMSNorm divides by

    def keep(scale: Tensor, hook: Any) -> None:  # [text, pos, 1]
        size[hook.layer()] = scale

    def read(x: Tensor, hook: Any) -> Tensor:  # [text, pos, head or group, d_head]
        if len(x) != len(change):
            raise ValueError(
                f"The change is of {len(change)} texts, and the model reads {len(x)} at a time."
            )
        block: Any = model.blocks[hook.layer()]
        weights = _weights(model, hook.layer(), door)
        seen = change / size[hook.layer()] * block.ln1.w  # [text, pos, d_model]
        for place in of[hook.layer()]:
            x[:, :, place] += seen @ weights[place]
        return x

    hooks: Hooks = []
    for layer, places in of.items():
        many = len(_weights(model, layer, door))
        if not all(0 <= place < many for place in places):
            raise ValueError(f"Door {door} of layer {layer} has places 0 to {many - 1}, no others.")
        hooks.append((f"blocks.{layer}.ln1.hook_scale", keep))
        hooks.append((f"blocks.{layer}.attn.hook_{door}", read))
    return hooks


def _weights(model: HookedTransformer, layer: int, door: str) -> Tensor:
    """The matrices of a door, [head or group, d_model, d_head]; `_W_K` has each key once."""
    attention: Any = model.blocks[layer].attn
    doors = {"q": "W_Q", "k": "_W_K", "v": "_W_V"}
    if door not in doors:
        raise ValueError(f'A door is "q", "k" or "v", not {door!r}.')
    return getattr(attention, doors[door])


def all_but(
    cache: ActivationCache,
    heads: Collection[Head] = (),
    layers: Collection[int] = (),
    mlps: Collection[int] = (),
) -> Hooks:
    """Hooks that give all heads and MLPs their output in the text before, but for some.

    `cache` has the outputs in the batch's own texts, `hook_z` and `hook_mlp_out` of each layer.
    Kept are single `heads`, whole `layers`, and the MLPs of the layers in `mlps`.
    """

    def put_heads(z: Tensor, hook: Any) -> Tensor:  # [text, pos, head, d_head]
        if hook.layer() in layers:
            return z
        other = cache[hook.name].roll(1, 0)
        for layer, head in heads:
            if layer == hook.layer():
                other[:, :, head] = z[:, :, head]
        return other

    def put_mlp(out: Tensor, hook: Any) -> Tensor:  # [text, pos, d_model]
        is_kept = hook.layer() in layers or hook.layer() in mlps
        return out if is_kept else cache[hook.name].roll(1, 0)

    puts = {"attn.hook_z": put_heads, "hook_mlp_out": put_mlp}
    return [(name, put) for end, put in puts.items() for name in cache if name.endswith(end)]
