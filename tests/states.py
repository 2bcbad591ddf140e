"""A notebook in which somebody has set torch, numpy and warnings otherwise."""

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def otherwise() -> Iterator[None]:
    """Within this block: float64 on another device, no gradients, and every warning an error."""
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")  # stands for a GPU
    torch.set_float32_matmul_precision("medium")
    torch.use_deterministic_algorithms(True)
    try:
        with warnings.catch_warnings(), np.errstate(all="raise"), torch.no_grad():
            warnings.simplefilter("error")
            yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)
