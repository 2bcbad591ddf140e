"""A sparse autoencoder: activations as sums of a few of many directions, its features.

Of all features only the `on` strongest are kept for each row ("TopK", Gao et al. 2024), so that
nothing has to be tuned to make it sparse. That such dictionaries find readable directions in the
neurons of a one-layer transformer is the finding of Bricken et al. 2023.
"""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils._arguments import Count, NotNegative, validated
from course_utils._torch_state import usual


@dataclass
class Autoencoder:
    """Directions that are read, directions that are written, and the middle of all rows."""

    W_in: Float[Tensor, "d feature"]
    W_out: Float[Tensor, "feature d"]  # rows of length 1
    middle: Float[Tensor, " d"]
    on: int  # features at a time

    def features(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... feature"]:
        """How strong each feature is in each row: the `on` strongest, and 0 for the others."""
        strength = (x - self.middle) @ self.W_in  # [..., feature]
        top = strength.topk(self.on)
        return torch.zeros_like(strength).scatter(-1, top.indices, top.values.relu())

    def back(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """What the features of each row add up to: near to the row, if the autoencoder is good."""
        return self.features(x) @ self.W_out + self.middle


def _drawn(x: Tensor, features: int, on: int, generator: torch.Generator) -> Autoencoder:
    """Directions drawn at random, around the mean of `x`; it reads as it writes."""
    if on > features:
        raise ValueError(f"Of {features} features no {on} can be on at a time.")
    W_out = torch.randn(features, x.shape[1], generator=generator, device="cpu").to(x)
    W_out = W_out / W_out.norm(dim=1, keepdim=True)
    return Autoencoder(W_out.T.clone(), W_out, x.mean(0), on)


@usual()
@validated
def train(
    x: Float[Tensor, "row d"],
    features: Count = 1024,
    on: Count = 16,
    steps: Count = 400,
    batch: Count = 512,
    seed: NotNegative = 0,
) -> Autoencoder:
    """An autoencoder trained with Adam on rows drawn at random.

    It begins with directions drawn at random. The loss is the share of variance left over. Raises
    ValueError if more features were to be on than there are.
    """
    generator = torch.Generator().manual_seed(seed)
    coder = _drawn(x, features, on, generator)
    spread = x.var(0).sum()
    trained = coder.W_in, coder.W_out, coder.middle
    for weight in trained:
        weight.requires_grad_()
    optimizer = torch.optim.Adam(trained, lr=3e-3, betas=(0.9, 0.99))
    for step in range(steps):
        rows = torch.randint(len(x), (batch,), generator=generator, device="cpu")
        loss = ((coder.back(x[rows]) - x[rows]) ** 2).sum(1).mean() / spread
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1.0, 2 * (1 - step / steps))
        optimizer.step()
        with torch.no_grad():
            coder.W_out /= coder.W_out.norm(dim=1, keepdim=True)
    for weight in trained:
        weight.requires_grad_(False)
    return coder


@validated
def left_over_at_best(x: Float[Tensor, "row d"], directions: Float[Tensor, "unit d"]) -> float:
    """The share of variance left over by the best code of at most two directions for each row.

    All pairs are tried, each with the best strengths that are not negative, so no encoder has a
    part in it. Directions have length 1, and what is in the middle of a dictionary is taken from
    `x` before.
    """
    along = x @ directions.T  # [row, unit]
    likeness = directions @ directions.T  # [unit, unit]
    explained = along.amax(1).clamp(min=0) ** 2  # by one direction alone
    for i, j in itertools.combinations(range(len(directions)), 2):
        both = likeness[i, j]
        first = (along[:, i] - both * along[:, j]) / (1 - both**2)
        second = (along[:, j] - both * along[:, i]) / (1 - both**2)
        gain = first * along[:, i] + second * along[:, j]
        allowed = (first > 0) & (second > 0)
        explained = torch.where(allowed, explained.maximum(gain), explained)
    left = (x**2).sum() - explained.sum()
    return (left / ((x - x.mean(0)) ** 2).sum()).item()
