"""A small model that adds two numbers, taken apart: its neurons as waves, and its rulers.

The models are those of `tasks.TASKS["addition"]` and `by_hand.from_neurons`: one layer, one head,
one MLP of ReLUs. All numbers below n = d_vocab are tokens, and the pairs are those whose sum is a
token too, as `tasks.sequences(2, n)` has them. What a neuron receives is taken with attention at
one half, where these models have it. Only `which_two` is about the model of
`tasks.TASKS["fibonacci"]`, which adds the last two of several numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import fourier
from course_utils import interventions
from course_utils._arguments import Count, NotNegative, validated
from course_utils.training import tasks


class Cut(NamedTuple):
    """A group taken away: the error that is expected, and how many answers are off by 0, 1, …"""

    frequency: float  # the mean over its neurons
    expected: int
    without: Float[Tensor, " error"]
    at_random: Float[Tensor, " error"]  # without as many neurons at random, ten times

    @property
    def most_common(self) -> int:
        """By how much most wrong answers are off."""
        return int(self.without[1:].argmax()) + 1

    @property
    def shares(self) -> list[float]:
        """The expected error's share of all errors, without the group and in the control.

        The control lacks as many neurons at random.
        """
        return [
            float(count[self.expected] / count[1:].sum())
            for count in (self.without, self.at_random)
        ]

    @property
    def holds(self) -> bool:
        """Whether the expected error is the most common one, and clearly above the control.

        Its share is to be more than twice that at random.
        """
        here, there = self.shares
        return self.most_common == self.expected and here > 2 * there


def _given(model: HookedTransformer) -> Float[Tensor, "2 value d_model"]:
    """What each value, as first and as second number, adds to the stream that the MLP reads.

    It reads at the second position.
    """
    x = model.W_E + model.W_pos[:2, None]
    stream = 0.5 * x @ model.W_V[0, 0] @ model.W_O[0, 0]
    stream[1] += x[1]  # the residual path: the second number stands there itself
    return stream


@validated
def curves(model: HookedTransformer) -> Float[Tensor, "2 value neuron"]:
    """What each value gives to each neuron, as the first and as the second number.

    Attention is at one half.
    """
    return _given(model) @ model.W_in[0]


@validated
def answers_with(model: HookedTransformer, first: float) -> Int[Tensor, " pair"]:
    """The answers to all pairs if the first number gets this attention, and the second the rest."""

    def overwrite(pattern: Tensor, hook: Any) -> Tensor:
        pattern[:, :, -1] = torch.tensor([first, 1 - first])
        return pattern

    pairs = tasks.sequences(2, model.cfg.d_vocab)
    hooks: list[Any] = [("blocks.0.attn.hook_pattern", overwrite)]
    return model.run_with_hooks(pairs, fwd_hooks=hooks)[:, -1].argmax(1)


@validated
def without_neurons(model: HookedTransformer, neurons: list[int]) -> Float[Tensor, "pair out"]:
    """The logits of all pairs, at the last position, when these neurons give 0."""

    def silence(post: Tensor, hook: Any) -> Tensor:
        post[:, :, neurons] = 0
        return post

    pairs = tasks.sequences(2, model.cfg.d_vocab)
    hooks: list[Any] = [("blocks.0.mlp.hook_post", silence)]
    return model.run_with_hooks(pairs, fwd_hooks=hooks)[:, -1]


@validated
def active(model: HookedTransformer) -> Bool[Tensor, " neuron"]:
    """Which neurons fire for at least 2 % of all pairs."""
    L, R = curves(model)
    a, b = tasks.sequences(2, len(L)).T
    return ((L[a] + R[b]) > 0).float().mean(0) >= 0.02


def _mean_curves(model: HookedTransformer) -> Float[Tensor, "value neuron"]:
    """The curves of the active neurons, each the mean of both places."""
    return curves(model).mean(0)[:, active(model)]


def _both_curves(model: HookedTransformer) -> Float[Tensor, "value place_neuron"]:
    return curves(model)[:, :, active(model)].permute(1, 0, 2).flatten(1)


def _votes(model: HookedTransformer) -> Float[Tensor, "out neuron"]:
    return (model.W_out[0] @ model.W_U).T


@validated
def portraits(
    model: HookedTransformer, chosen: Mapping[str, int]
) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Of each chosen neuron its curve at either place, and its votes.

    They are under its group, number and period.
    """
    (L, R), votes = curves(model), _votes(model)
    titles = {
        f"{name}: neuron {i}\nperiod {peak(model, i)[0]:.1f}": i for name, i in chosen.items()
    }
    return {title: (L[:, i], R[:, i], votes[:, i]) for title, i in titles.items()}


@validated
def best_waves(
    W: Float[Tensor, "value column"],
) -> tuple[Float[Tensor, " column"], Float[Tensor, " column"]]:
    """For each column the frequency that explains most of its variance, and the share.

    Frequencies go in steps of ⅛.
    """
    fine, explained = _explained(W)
    return fine[explained.argmax(0)], explained.amax(0) / W.var(0, correction=0)


def _explained(
    W: Float[Tensor, "value column"],
) -> tuple[Float[Tensor, " freq"], Float[Tensor, "freq column"]]:
    """Frequencies from ¼ to just below n/2, and what each explains of the columns' variance.

    Frequencies go in steps of ⅛.
    """
    fine = torch.arange(2, 4 * len(W) - 1) / 8
    return fine, fourier.explained(W, fine)


@validated
def shares(model: HookedTransformer) -> tuple[Float[Tensor, " _neuron"], Float[Tensor, " _neuron"]]:
    """How much of each active neuron's curve its best wave explains.

    The second number is the same with the tokens shuffled.
    """
    W = _mean_curves(model)
    order = torch.randperm(len(W), generator=torch.Generator().manual_seed(0))
    return best_waves(W)[1], best_waves(W[order])[1]


@validated
def spectrum(model: HookedTransformer) -> tuple[Float[Tensor, " freq"], Float[Tensor, " freq"]]:
    """Frequencies, and the share of all active curves' variance that a wave of each explains."""
    W = _mean_curves(model)
    fine, explained = _explained(W)
    return fine, explained.sum(1) / W.var(0, correction=0).sum()


@validated
def peak(model: HookedTransformer, neuron: NotNegative) -> tuple[float, float]:
    """The period of a neuron's best wave, and the number at which it peaks."""
    W = curves(model).mean(0)[:, [neuron]]
    f = best_waves(W)[0][0]
    period = len(W) / f
    return period.item(), (period * fourier.phase(W, f)[0] / (2 * torch.pi)).item()


@validated
def rulers(model: HookedTransformer) -> list[Int[Tensor, " _neuron"]]:
    """The numbers of the active neurons by their waves, from slow to fast.

    A group has at least five. The first are slopes, with less than two periods; a new group begins
    wherever frequencies leave a gap of 1.
    """
    f, on = best_waves(curves(model).mean(0))[0], active(model)
    neighbours = f[on].sort().values.unfold(0, 2, 1).tolist()
    gaps = [(x + y) / 2 for x, y in neighbours if y - x > 1 and x >= 2]
    which = torch.bucketize(f, torch.tensor([2.0, *gaps]))
    found = [(on & (which == group)).nonzero().flatten() for group in range(len(gaps) + 2)]
    return [neurons for neurons in found if len(neurons) >= 5]


@validated
def phases(model: HookedTransformer, least: float = 0.5) -> Float[Tensor, "4 neuron"]:
    """Of each active neuron that is a wave: three phases, and its frequency.

    The phases are those of its curve, its votes and a partner's votes. A wave: one of at least two
    periods explains more than a share `least` of the curve. It peaks where 2π f v / n is the phase.
    A partner is another such neuron of about the same frequency, at random; a few are their own.
    """
    W, votes = curves(model).mean(0), _votes(model)
    f, share = best_waves(W)
    chosen = (active(model) & (share > least) & (f > 2)).nonzero().flatten().tolist()
    found = [(*(fourier.phase(M[:, [i]], f[i])[0] for M in (W, votes)), f[i]) for i in chosen]
    came, went, frequencies = torch.tensor(found).reshape(-1, 3).T
    about = frequencies.round()
    less_than_half = torch.rand(len(about), generator=torch.Generator().manual_seed(0)) / 2
    mixed = (about + less_than_half).argsort()
    partners = mixed[about.argsort(stable=True).argsort()]
    return torch.stack([came, went, went[partners], frequencies])


def _off_by(logits: Float[Tensor, "pair out"]) -> Float[Tensor, " out"]:
    """How many answers to all pairs are off by 0, 1, … n − 1."""
    sums = tasks.sequences(2, logits.shape[1]).sum(1)
    return (logits.argmax(1) - sums).abs().bincount(minlength=logits.shape[1]).float()


def _off_by_at_random(model: HookedTransformer, size: int, seed: int) -> Float[Tensor, " out"]:
    """The same without `size` active neurons, over ten random draws of them."""
    _, cache = model.run_with_cache(tasks.sequences(2, model.cfg.d_vocab))
    mid, post = cache["resid_mid", 0][:, -1], cache["post", 0][:, -1]
    generator, everyone = torch.Generator().manual_seed(seed), active(model).nonzero().flatten()
    total = torch.zeros(model.cfg.d_vocab)
    for _ in range(10):
        kept = post.clone()
        kept[:, everyone[torch.randperm(len(everyone), generator=generator)[:size]]] = 0
        total += _off_by((mid + kept @ model.W_out[0]) @ model.W_U)
    return total


@validated
def cuts(model: HookedTransformer, seed: NotNegative = 0) -> list[Cut]:
    """Take each group away in turn.

    An error is expected if the neurons left, each voting at twice its phase, agree on it most: in
    the measure of the height of its curve times the height of its votes, at the frequency of its
    best wave.
    """
    n, W, votes, found = model.cfg.d_vocab, curves(model).mean(0), _votes(model), []
    f, _ = best_waves(W)
    heights = []
    for i in range(len(f)):
        curve = fourier.height(W[:, [i]], f[i])
        heights.append(curve * fourier.height(votes[:, [i]], f[i]))
    off = torch.cos(2 * torch.pi * f[:, None] * torch.arange(n) / n)  # [neuron, error]
    agreed = torch.cat(heights)[:, None] * off
    for i, neurons in enumerate(rulers(model)):
        left = active(model)
        left[neurons] = False
        k = int(agreed[left].sum(0)[1:].argmax()) + 1
        without = _off_by(without_neurons(model, neurons.tolist()))
        at_random = _off_by_at_random(model, len(neurons), 10 * seed + i)
        found.append(Cut(f[neurons].mean().item(), k, without, at_random))
    return found


@validated
def strongest_waves(model: HookedTransformer, k: Count) -> list[float]:
    """The k frequencies that together explain most of all active curves.

    They go in steps of ⅛, and are chosen one after the other.
    """
    W = _both_curves(model)
    found: list[float] = []
    for _ in range(k):
        fine, explained = _explained(W - fourier.projected(W, found) if found else W)
        found.append(fine[explained.sum(1).argmax()].item())
    return found


def _right(model: HookedTransformer, basis: Float[Tensor, "value dim"]) -> float:
    """The share of right answers to all pairs if curves keep only what lies along a basis.

    The basis is orthonormal.
    """
    basis = basis.to(model.W_out)
    kept = basis @ (basis.T @ curves(model))
    direct = _given(model) @ model.W_U  # past the neurons
    a, b = tasks.sequences(2, len(basis)).T
    fires = (kept[0][a] + kept[1][b]).relu()  # [pair, neuron]
    said = fires @ model.W_out[0] @ model.W_U + direct[0][a] + direct[1][b]
    return (said.argmax(1) == a + b).float().mean().item()


@validated
def right_with(model: HookedTransformer, k: Count, seed: NotNegative = 0) -> list[float]:
    """The share of right answers if curves keep a constant and their k strongest waves.

    The second number is the control: 1 + 2k directions at random, as many as a constant and k waves
    have, with a cosine and a sine each.
    """
    n, generator = model.cfg.d_vocab, torch.Generator().manual_seed(seed)
    drawn = torch.randn(n, 1 + 2 * k, generator=generator, device="cpu")
    bases = fourier.basis(strongest_waves(model, k), n), torch.linalg.qr(drawn).Q
    return [_right(model, Q) for Q in bases]


@validated
def which_two(
    model: HookedTransformer, sequences: Sequence[Int[Tensor, "_batch _pos"]], seed: NotNegative = 0
) -> list[dict[str, list[float]]]:
    """Two changes to longer sequences: for each what share of the answers are what, by length.

    They have at least three numbers. Random numbers stand before the last two; the position vectors
    of the last but one and the one before are exchanged.
    """
    n, generator, rows = model.cfg.d_vocab, torch.Generator().manual_seed(seed), []

    def shares_of(sums: dict[str, Tensor], tokens: Tensor) -> dict[str, float]:
        said = model(tokens)[:, -1].argmax(1)
        return {name: (said == expected).float().mean().item() for name, expected in sums.items()}

    for once in sequences:
        t = once.repeat(5, 1)
        random = torch.randint(n, t.shape, generator=generator, device="cpu").to(t.device)
        noise = shares_of({"right": t[:, -2:].sum(1)}, torch.cat([random[:, :-2], t[:, -2:]], 1))
        # sequences whose new sum is below n: only such sums are tokens
        t = once[once[:, -1] + once[:, -3] < n]
        places = [*range(t.shape[1] - 3), t.shape[1] - 2, t.shape[1] - 3, t.shape[1] - 1]
        with interventions.patched(
            model, "hook_pos_embed", model.W_pos[places].expand(len(t), -1, -1)
        ):
            swapped = shares_of({"new sum": t[:, -1] + t[:, -3], "old sum": t[:, -2:].sum(1)}, t)
        rows.append((noise, swapped))
    return [
        {name: [row[name] for row in rows_of] for name in rows_of[0]}
        for rows_of in zip(*rows, strict=True)
    ]
