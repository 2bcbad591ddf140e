"""A small model that adds two numbers, taken apart: its neurons as waves, and its rulers.

The models are those of `tasks.TASKS["addition"]` and `by_hand.from_neurons`: one layer, one head,
one MLP of ReLUs. All numbers below n = d_vocab are tokens, and the pairs are those whose sum is a
token too, as `tasks.sequences(2, n)` has them. What a neuron receives is taken with attention at
one half, where these models have it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import fourier
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


def _votes(model: HookedTransformer) -> Float[Tensor, "out neuron"]:
    return (model.W_out[0] @ model.W_U).T


@validated
def portraits(
    model: HookedTransformer, chosen: Mapping[str, int]
) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Of each chosen neuron its curve at either place, and its votes.

    They are under its group and number.
    """
    (L, R), votes = curves(model), _votes(model)
    return {f"{name}: neuron {i}": (L[:, i], R[:, i], votes[:, i]) for name, i in chosen.items()}


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


def _wavy(W: Float[Tensor, "value column"], least: float = 0.5) -> Bool[Tensor, " column"]:
    """Which columns are waves.

    One of at least two periods explains more than a share `least` of their variance.
    """
    f, share = best_waves(W)
    return (share > least) & (f > 2)


@validated
def share_of_waves(model: HookedTransformer) -> float:
    """How many of the active neurons have a wave for a curve."""
    return _wavy(_mean_curves(model)).float().mean().item()


@validated
def waves_among_walks(steps: Count = 128) -> float:
    """How many of 5,000 random walks are waves in the same sense."""
    generator = torch.Generator().manual_seed(0)
    walks = torch.randn(steps, 5_000, generator=generator, device="cpu").cumsum(0)
    return _wavy(walks).float().mean().item()


@validated
def spectrum(model: HookedTransformer) -> tuple[Float[Tensor, " freq"], Float[Tensor, " freq"]]:
    """Frequencies, and the share of all active curves' variance that a wave of each explains."""
    W = _mean_curves(model)
    fine, explained = _explained(W)
    return fine, explained.sum(1) / W.var(0, correction=0).sum()


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


def _waves(model: HookedTransformer, least: float = 0.5) -> list[tuple[int, Tensor, Tensor]]:
    """The active neurons that are waves, each with the frequency and the phase of its curve."""
    W = curves(model).mean(0)
    f, _ = best_waves(W)
    chosen = (active(model) & _wavy(W, least)).nonzero().flatten().tolist()
    return [(i, f[i], fourier.phase(W[:, [i]], f[i])[0]) for i in chosen]


@validated
def phases(model: HookedTransformer, least: float = 0.5) -> Float[Tensor, "4 neuron"]:
    """Of each active neuron that is a wave: three phases, and its frequency.

    The phases are those of its curve, its votes and a partner's votes. A wave: one of at least two
    periods explains more than a share `least` of the curve. It peaks where 2π f v / n is the phase.
    A partner is another such neuron of about the same frequency, at random; a few are their own.
    """
    votes = _votes(model)
    found = [(phase, fourier.phase(votes[:, [i]], f)[0], f) for i, f, phase in _waves(model, least)]
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
    best wave. That |cos d| is left out changes one of 27 expectations in five models, and there
    none comes true.
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
def right_with_waves(model: HookedTransformer) -> dict[str, float]:
    """The share of right answers to all pairs if neurons that are waves vote with a wave alone.

    These neurons are those of `phases`. The wave has the frequency of the neuron's curve and the
    height that it has in the votes, and peaks at twice the phase of the curve, or at this phase.
    All other neurons vote as they do.
    """
    (L, R), votes, direct = curves(model), _votes(model), _given(model) @ model.W_U
    a, b = tasks.sequences(2, len(L)).T
    fires, past = (L[a] + R[b]).relu(), direct[0][a] + direct[1][b]  # [pair, neuron], [pair, out]
    waves, outputs = _waves(model), torch.arange(len(L)).to(votes)
    found = {}
    for name, times in (("at twice the phase", 2), ("at the phase itself", 1)):
        changed = votes.clone()
        for i, f, phase in waves:
            wave = (2 * torch.pi * f * outputs / len(L) - times * phase).cos()
            changed[:, i] = fourier.height(votes[:, [i]], f)[0] * wave
        said = (fires @ changed.T + past).argmax(1)
        found[name] = (said == a + b).float().mean().item()
    return found


@validated
def averaged_votes(
    A: Float[Tensor, "pair 1"], B: Float[Tensor, "pair 1"], C: Float[Tensor, " out"], times: float
) -> Float[Tensor, "pair out"]:
    """What a thousand neurons with phases all around the wheel vote, as shares of the largest.

    The numbers are at the angles A and B, the outputs at C. Each neuron's curves are highest at
    its phase, and its votes at so many times this.
    """
    phase = torch.arange(1_000).to(A) * 2 * torch.pi / 1_000
    fired = ((A - phase).cos() + (B - phase).cos()).relu()  # [pair, neuron]
    votes = fired @ (C - times * phase[:, None]).cos()
    return votes / votes.max()
