"""More features than dimensions: the toy model of "Toy Models of Superposition".

The paper is Elhage et al. 2022. Features are on (1) or off (0), each on with the same probability,
the density. The model squeezes n of them into m dimensions and reads them back: x → relu(x W Wᵀ +
b). Its loss is per feature that is on.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils._arguments import Count, NotNegative, validated
from course_utils._torch_state import usual

# cases with the same number of features on; where there are more (and more than pairs), so many at
# random
MOST = 150


@validated
def cases(n: Count) -> Float[Tensor, "case n"]:
    """Which features are on, in every case with few enough like it.

    Of the others there are 150 at random, of each size.
    """
    generator = torch.Generator().manual_seed(0)
    rows = []
    for on in range(n + 1):
        if math.comb(n, on) <= max(MOST, n * (n - 1) // 2):
            every = list(itertools.combinations(range(n), on))
            chosen = torch.tensor(every, dtype=torch.long).view(len(every), on)
        else:
            chosen = torch.rand(MOST, n, generator=generator).argsort(1)[:, :on]
        rows.append(torch.zeros(len(chosen), n).scatter_(1, chosen, 1.0))
    return torch.cat(rows)


@validated
def probabilities(x: Float[Tensor, "case n"], density: float) -> Float[Tensor, " case"]:
    """How probable each case is.

    It is the binomial probability of so many features on, shared by all cases like it.
    """
    n, on = x.shape[1], x.sum(1)
    alike = on.long().bincount(minlength=n + 1)
    share = [
        math.comb(n, k) * density**k * (1 - density) ** (n - k) / max(1, int(alike[k]))
        for k in range(n + 1)
    ]
    return torch.tensor(share)[on.long()]


@validated
def losses(
    W: Float[Tensor, "*model n m"],
    b: Float[Tensor, "*model n"],
    densities: Sequence[float],
    relu: bool = True,
) -> list[float]:
    """The loss at each density; 1 is that of always saying 0.

    It is one model's at all of them, or that of as many at one each.
    """
    x = cases(W.shape[-2]).to(W)
    W, b = (part.expand(len(densities), *part.shape[-k:]) for part, k in ((W, 2), (b, 1)))
    return [
        (_errors(x, one, bias, relu) @ probabilities(x, density) / (density * len(one))).item()
        for one, bias, density in zip(W, b, densities, strict=True)
    ]


@validated
def left_over(
    W: Float[Tensor, "*model n m"],
    b: Float[Tensor, "*model n"],
    densities: Sequence[float],
    relu: bool = True,
) -> list[float]:
    """The loss at each density, of that of the best constant answer, each feature's mean.

    The mean of a feature at density q costs q (1 - q), so 1 - q for each that is on.
    """
    of_models = losses(W, b, densities, relu)
    return [loss / (1 - q) for loss, q in zip(of_models, densities, strict=True)]


def _errors(
    x: Tensor, W: Tensor, b: Tensor, relu: bool, share: Tensor | float = 1.0
) -> Float[Tensor, "*model case"]:
    """The squared error of every model in every case, summed over features.

    Each feature is weighted by how much it counts.
    """
    said = x @ W @ W.mT + b[..., None, :]  # [*model, case, n]
    return ((x - (said.relu() if relu else said)) ** 2 * share).sum(-1)


@usual()
@validated
def train(
    n: Count,
    m: Count,
    densities: Sequence[float],
    relu: bool = True,
    steps: Count = 1_500,
    copies: Count = 8,
    seed: NotNegative = 0,
    counts: Sequence[float] | None = None,
) -> tuple[Float[Tensor, "density n m"], Float[Tensor, "density n"]]:
    """Weights and biases for each density: the best of `copies` that begin at random.

    All are trained at once, on every case by its probability. `counts` says for each model how much
    its features after the first count, if not as much as the first.
    """
    x = cases(n)
    # [density, case]
    weight = torch.stack([probabilities(x, density) / (density * n) for density in densities])
    share = torch.ones(len(densities), 1, n)
    share[..., 1:] = torch.tensor(counts or [1.0])[:, None, None]
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(copies, len(densities), n, m, generator=generator, device="cpu").to(x)
    W = (0.6 * start).requires_grad_()
    b = torch.zeros(copies, len(densities), n, requires_grad=True)
    optimizer = torch.optim.Adam([W, b], lr=0.02)
    for step in range(steps):
        per_model = (_errors(x, W, b, relu, share) * weight).sum(-1)  # [copy, density]
        optimizer.zero_grad()
        per_model.sum().backward()
        optimizer.param_groups[0]["lr"] = 0.02 * (1 - step / steps)
        optimizer.step()
    best, every = per_model.argmin(0), torch.arange(len(densities))
    return W.detach()[best, every], b.detach()[best, every]


# planted features; three children to each parent
ALONE = range(12)
PARENTS = range(12, 15)
CHILDREN = range(15, 24)


@validated
def planted(nested: bool, rows: Count = 20_000, seed: NotNegative = 1) -> Float[Tensor, "row 24"]:
    """24 features, on or off: twelve alone (5 %), three parents (15 %), and nine children (3.75 %).

    Nested, a child is on only where its parent is, a quarter of the time; otherwise it is on
    whenever chance says so.
    """
    chance = torch.rand(rows, 24, generator=torch.Generator().manual_seed(seed))
    parents = chance[:, PARENTS] < 0.15
    children = chance[:, CHILDREN] < (0.25 if nested else 0.0375)
    children &= parents.repeat_interleave(3, 1) | (not nested)
    return torch.cat([chance[:, ALONE] < 0.05, parents, children], 1).float()


@validated
def directions(m: Count = 20) -> Float[Tensor, "24 m"]:
    """A direction of length 1 for each planted feature, drawn at random."""
    return torch.nn.functional.normalize(
        torch.randn(24, m, generator=torch.Generator().manual_seed(100)), dim=1
    )


@validated
def joined(truth: Float[Tensor, "24 m"]) -> Float[Tensor, "24 m"]:
    """The planted directions, but each child's replaced by that of child and parent together."""
    parents = truth[PARENTS].repeat_interleave(3, 0)  # [child, m]
    children = torch.nn.functional.normalize(truth[CHILDREN] + parents, dim=1)
    return torch.cat([truth[: CHILDREN[0]], children])


@validated
def like_children(found: Float[Tensor, "unit 20"]) -> dict[str, Float[Tensor, " child"]]:
    """For each child, the cosine of the unit most like it, and of that most like child and parent.

    `found` has the units' directions, of length 1.
    """
    truth = directions()
    ends = {"child": truth, "child + parent": joined(truth)}
    return {name: (found @ end[CHILDREN].T.to(found)).amax(0) for name, end in ends.items()}


@validated
def fires(
    strength: Float[Tensor, "row unit"], like: Float[Tensor, "unit 24"], on: Float[Tensor, "row 24"]
) -> Float[Tensor, "parent 2"]:
    """How often each parent's unit fires when the parent is on without a child, and with one."""
    shares = []
    for i, parent in enumerate(PARENTS):
        unit = strength[:, like[:, parent].argmax()] > 0
        child, there = on[:, 15 + 3 * i : 18 + 3 * i].any(1), on[:, parent] > 0
        shares.append(
            torch.stack([unit[there & ~child].float().mean(), unit[there & child].float().mean()])
        )
    return torch.stack(shares)
