"""Neurons of a language model: where they fire, and how a rule fits that."""

from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils._arguments import require_tokens, validated

HOOK = "blocks.0.mlp.hook_post"


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
def judged(fired: Bool[Tensor, " place"], rule: Bool[Tensor, " place"]) -> tuple[float, float]:
    """Precision and recall of a rule.

    That is: at how many of its places it fired, and how many of the firing places it names.
    """
    both = (fired & rule).sum().item()
    return both / max(1, int(rule.sum())), both / max(1, int(fired.sum()))
