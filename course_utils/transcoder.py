"""A transcoder: a layer with more features, few of them on, that imitates what a part of a model does to its input.

With its inputs as targets it is a sparse autoencoder. After Dunefsky et al. 2024, "Transcoders Find Interpretable LLM
Feature Circuits", and Bricken et al. 2023, "Towards Monosemanticity".
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils._arguments import Count, NotNegative, checked


@dataclass
class Transcoder:
    """Directions that its features read and write, each with a bias."""

    W_in: Float[Tensor, "d_in feature"]
    b_in: Float[Tensor, " feature"]
    W_out: Float[Tensor, "feature d_out"]
    b_out: Float[Tensor, " d_out"]

    def features(self, x: Float[Tensor, "... d_in"]) -> Float[Tensor, "... feature"]:
        """How strong each feature is on each row; 0 for those that are off."""
        return (x @ self.W_in + self.b_in).relu()

    def output(self, x: Float[Tensor, "... d_in"]) -> Float[Tensor, "... d_out"]:
        """What the features of each row write together."""
        return self.features(x) @ self.W_out + self.b_out


@checked
def train(
    x: Float[Tensor, "row d_in"],
    y: Float[Tensor, "row d_out"],
    features: Count,
    penalty: float,
    steps: Count = 800,
    seed: NotNegative = 0,
) -> Transcoder:
    """A transcoder trained with Adam to write `y` where it reads `x`, on 256 rows at a time, drawn at random.

    The loss is the squared error and `penalty` times what the features write, summed by length; the penalty is in units
    of the spread of `y`, so that it does not depend on the scale.
    """
    generator = torch.Generator().manual_seed(seed)
    W_out = torch.randn(features, y.shape[1], generator=generator)
    W_out = W_out / W_out.norm(dim=1, keepdim=True) / 2
    W_in = W_out.mT.clone() if x.shape == y.shape else torch.randn(x.shape[1], features, generator=generator) / 2
    made = Transcoder(W_in, torch.zeros(features), W_out, y.mean(0))
    weights = [weight.requires_grad_() for weight in vars(made).values()]
    optimizer = torch.optim.Adam(weights, lr=0.02)
    spread = y.var(0).sum().sqrt()
    for step in range(steps):
        rows = torch.randint(len(x), (256,), generator=generator)
        on = made.features(x[rows])
        error = ((on @ made.W_out + made.b_out - y[rows]) ** 2).sum(1).mean()
        written = (on * made.W_out.norm(dim=1)).sum(1).mean()
        optimizer.zero_grad()
        (error + penalty * spread * written).backward()
        optimizer.param_groups[0]["lr"] = 0.02 * (1 - step / steps)
        optimizer.step()
    return Transcoder(*(weight.detach() for weight in weights))
