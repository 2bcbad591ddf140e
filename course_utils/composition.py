"""Two heads at work together."""

from transformer_lens import FactoredMatrix

from course_utils import circuits


def match_matrix(model, later: tuple[int, int], earlier: tuple[int, int]) -> FactoredMatrix:
    """W_E QK₂ OV₁ᵀ W_Eᵀ, [d_vocab, d_vocab] as [dest, src]: does the later head look for what the earlier one wrote?

    Each head is a pair (layer, head). Divided by √d_head of the later one, an entry is what its score gains when the
    destination holds token `dest` and the earlier head wrote token `src` at the source: the K-composition term of
    Elhage et al. 2021. Raises IndexError for a head that the model does not have, ValueError if `earlier` is not in an
    earlier layer.
    """
    qk, ov = circuits.qk(model, *later), circuits.ov(model, *earlier)
    if earlier[0] >= later[0]:
        raise ValueError(f"Head {earlier} writes too late for head {later}: it must stand in an earlier layer.")
    return model.W_E @ qk @ ov.T @ model.W_E.T
