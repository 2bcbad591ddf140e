"""A sparse autoencoder: activations as sums of a few of many directions, its features.

Of all features only the `on` strongest are kept for each row ("TopK", Gao et al. 2024), so that
nothing has to be tuned to make it sparse. That such dictionaries find readable directions in the
neurons of a one-layer transformer is the finding of Bricken et al. 2023.
"""

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

    def left_over(self, x: Float[Tensor, "row d"]) -> float:
        """The share of the rows' variance that does not come back."""
        return (((self.back(x) - x) ** 2).sum() / ((x - x.mean(0)) ** 2).sum()).item()


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

    The loss is the share of variance left over. Raises ValueError if more features were to be on
    than there are.
    """
    if on > features:
        raise ValueError(f"Of {features} features no {on} can be on at a time.")
    generator = torch.Generator().manual_seed(seed)
    W_out = torch.randn(features, x.shape[1], generator=generator, device="cpu").to(x)
    W_out = W_out / W_out.norm(dim=1, keepdim=True)
    coder = Autoencoder(W_out.T.clone(), W_out, x.mean(0), on)
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
