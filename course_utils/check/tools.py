"""What every check is made of: the three outcomes, and questions to ask of an answer."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor


class Wrong(Exception):
    """A property that the answer lacks, in one sentence for the learner."""


def exercise(check: Callable) -> Callable:
    """Turn a function that raises `Wrong` into one that prints one of the three outcomes."""

    @functools.wraps(check)
    def report(answer: Callable) -> None:
        name = check.__name__
        if not callable(answer):
            print(f"✗ {name}: give the check your function itself, not {type(answer).__name__}.")
            return
        try:
            with torch.random.fork_rng():
                check(answer)
        except NotImplementedError:
            print(f"○ {name}: not attempted yet.")
        except Wrong as problem:
            print(f"✗ {name}: {problem}")
        except Exception as error:
            reason = (str(error).strip() or "no message").splitlines()[0]
            print(f"✗ {name}: your function stopped with {type(error).__name__}: {reason}")
        else:
            print(f"✓ {name}")

    return report


def tensor(value: object, shape: tuple[int, ...], means: str) -> Tensor:
    """The answer as a finite tensor of the right shape; `means` says what the axes are."""
    if not isinstance(value, Tensor):
        raise Wrong(f"it should return a tensor, not {type(value).__name__}.")
    if tuple(value.shape) != shape:
        raise Wrong(f"the result has shape {list(value.shape)}; it should be {list(shape)}, {means}.")
    if not value.isfinite().all():
        raise Wrong("the result holds values that are infinite or not a number.")
    return value.detach().float()


def number(value: object) -> float:
    """The answer as one finite number."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise Wrong(f"it should return one number, not {kind}.")
    if value != value or value in (float("inf"), float("-inf")):
        raise Wrong(f"the result is {value}: look for a division by 0 or a logarithm of 0.")
    return float(value)


def demand(holds: bool | Tensor, otherwise: str) -> None:
    """Raise `Wrong` with the sentence `otherwise` unless the property holds."""
    if not bool(holds):
        raise Wrong(otherwise)


def close(a: Tensor | float, b: Tensor | float) -> bool:
    """Equal but for rounding."""
    return torch.allclose(torch.as_tensor(a).float(), torch.as_tensor(b).float(), rtol=1e-4, atol=1e-5)


def random(*shape: int, seed: int = 0) -> Tensor:
    """Normally distributed numbers, the same at every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
