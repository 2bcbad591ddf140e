"""Neurons of a language model: how spiky, what the loss is without them, how a rule fits them."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformer_lens import HookedTransformer

from course_utils._arguments import Count, require_tokens, validated

HOOK = "blocks.0.mlp.hook_post"


@validated
def spikes(x: Float[Tensor, "row axis"]) -> tuple[Tensor, Tensor]:
    """Excess kurtosis [axis], which is 0 for a bell curve, along axes and along rotated ones."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(x.shape[1], x.shape[1], generator=generator, device="cpu")
    rotation = torch.linalg.qr(drawn.to(x)).Q
    along, across = ((((y - y.mean(0)) / y.std(0)) ** 4).mean(0) - 3 for y in (x, x @ rotation))
    return along, across


@validated
def activations(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "place neuron"]:
    """What the neurons of the first layer say after the ReLU.

    All places count but the first of each text.
    """
    require_tokens(model, tokens)
    return model.run_with_cache(tokens, names_filter=HOOK)[1][HOOK][:, 1:].flatten(0, 1)


@validated
def loss_with(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], change: Callable[[Tensor], Tensor]
) -> float:
    """The mean loss, in nats, when the neurons' activations [text, place, neuron] are changed."""
    require_tokens(model, tokens)
    hooks: list[tuple[str | Callable, Callable]] = [(HOOK, lambda value, hook: change(value))]
    return model.run_with_hooks(tokens, return_type="loss", fwd_hooks=hooks).item()


@validated
def gains(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], every: Count
) -> Float[Tensor, " neuron"]:
    """How much the loss rises, in nats, without one neuron.

    Of a one-layer model every so many neurons are tried.
    """
    require_tokens(model, tokens)
    cache = model.run_with_cache(tokens)[1]
    end, post = cache["resid_post", 0], cache["post", 0]

    def loss(resid: Tensor) -> Tensor:
        return cross_entropy(
            (resid @ model.W_U + model.b_U)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )

    off = [end - post[..., [n]] * model.W_out[0, n] for n in range(0, post.shape[-1], every)]
    return torch.stack([loss(one) for one in off]) - loss(end)


@validated
def recovered(
    model: HookedTransformer,
    tokens: Int[Tensor, "batch pos"],
    ways: Mapping[str, Callable[[Tensor], Tensor]],
) -> dict[str, float]:
    """The share of the neurons' work, in nats, that comes back with other activations."""
    nothing, everything = (
        loss_with(model, tokens, change) for change in (torch.zeros_like, torch.clone)
    )
    return {
        name: (nothing - loss_with(model, tokens, way)) / (nothing - everything)
        for name, way in ways.items()
    }


@validated
def loudest(
    x: Float[Tensor, "... d"], W_out: Float[Tensor, "d out"], k: Count
) -> Float[Tensor, "... d"]:
    """Of each row the `k` neurons that write most; the others are 0.

    How much is activation times length of the row of `W_out`.
    """
    top = (x * W_out.norm(dim=1)).topk(k).indices
    return torch.zeros_like(x).scatter(-1, top, x.gather(-1, top))


@validated
def along_strongest(
    x: Float[Tensor, "... d"], rows: Float[Tensor, "row d"], k: Count
) -> Float[Tensor, "... d"]:
    """What `x` has along the `k` directions in which `rows` vary most (PCA), and their mean."""
    middle = rows.mean(0)
    strongest = torch.linalg.svd(rows - middle, full_matrices=False).Vh[:k]  # [k, d]
    return (x - middle) @ strongest.T @ strongest + middle


@validated
def judged(fired: Bool[Tensor, " place"], rule: Bool[Tensor, " place"]) -> tuple[float, float]:
    """Precision and recall of a rule.

    That is: at how many of its places it fired, and how many of the firing places it names.
    """
    both = (fired & rule).sum().item()
    return both / max(1, int(rule.sum())), both / max(1, int(fired.sum()))


@validated
def f1(
    x: Float[Tensor, "row unit"], rule: Bool[Tensor, " row"], part: Bool[Tensor, " row"]
) -> Float[Tensor, " unit"]:
    """F1 of each unit: how well its strong firing fits a rule on `part` of the rows.

    Strong is above half of its largest.
    """
    fired = x[part] > x.amax(0) / 2
    both = (fired & rule[part, None]).sum(0)
    return 2 * both / (fired.sum(0) + rule[part].sum())


@validated
def along_random(
    x: Float[Tensor, "place neuron"], count: Count
) -> Float[Tensor, "place direction"]:
    """Activations, less their mean, along `count` directions drawn at random."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(x.shape[1], count, generator=generator, device="cpu")
    return (x - x.mean(0)) @ directions.to(x)


@validated
def best_fits(
    units: Mapping[str, Float[Tensor, "place _unit"]],
    rule: Bool[Tensor, " place"],
    part: Bool[Tensor, " place"],
) -> tuple[dict[str, int], dict[str, list[float]]]:
    """Of each kind the unit that fits the rule best on `part`.

    It comes with how well it does there and on the other places.
    """
    both = {
        kind: torch.stack([f1(x, rule, where) for where in (part, ~part)])
        for kind, x in units.items()
    }
    chosen = {kind: int(fits[0].argmax()) for kind, fits in both.items()}
    return chosen, {kind: fits[:, chosen[kind]].tolist() for kind, fits in both.items()}
