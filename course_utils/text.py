"""What the models read: the standard library as training corpus, our own held-out text, repeated
random tokens.
"""

import functools
import hashlib
import platform
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from course_utils._arguments import Count, NotNegative, validated
from course_utils._files import DATA, recorded, verified

START = "<|start|>"  # opens every document and every context; id 0
D_VOCAB = 4096


def corpus_files() -> list[Path]:
    """Every UTF-8 Python file of this interpreter's standard library (its tests included), in a
    fixed order.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    files = (
        f
        for f in root.rglob("*.py")
        if not {"site-packages", "dist-packages", "__pycache__"} & set(f.parts)
    )
    return sorted((f for f in files if _decodes(f)), key=lambda f: f.relative_to(root).as_posix())


def _decodes(file: Path) -> bool:
    try:
        return bool(file.read_bytes().decode("utf-8").strip())
    except UnicodeDecodeError:  # the codec tests keep files that are wrong on purpose
        return False


def corpus_documents() -> Iterator[str]:
    """The texts of `corpus_files`, one by one."""
    for file in corpus_files():
        yield file.read_bytes().decode("utf-8").replace("\r\n", "\n")


def corpus_manifest() -> dict:
    """What the corpus on this machine is: Python version, number of files, bytes, and one SHA-256
    over all texts.
    """
    digest, n_files, n_bytes = hashlib.sha256(), 0, 0
    for document in corpus_documents():
        encoded = document.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
        n_files, n_bytes = n_files + 1, n_bytes + len(encoded)
    return {
        "source": "Python standard library",
        "python": platform.python_version(),
        "files": n_files,
        "bytes": n_bytes,
        "sha256": digest.hexdigest(),
    }


@validated
def train_tokenizer(documents: Iterable[str], d_vocab: Count = D_VOCAB) -> Tokenizer:
    """A byte-level BPE tokenizer (`tokenizers.Tokenizer`) with `d_vocab` entries, the start token
    being number 0.
    """
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=d_vocab,
        special_tokens=[START],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(documents, trainer)
    made.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, 0)]
    )
    return made


@functools.cache
def tokenizer() -> PreTrainedTokenizerFast:
    """The course's tokenizer, as the `PreTrainedTokenizerFast` that `HookedTransformer` wants."""
    return PreTrainedTokenizerFast(
        tokenizer_file=str(verified(DATA / "tokenizer.json")),
        bos_token=START,
        eos_token=START,
        pad_token=START,
        name_or_path="data/tokenizer.json",  # TransformerLens asks for this name,
        # and looks for a hub copy of it unless the tokenizer adds the start token itself
        add_bos_token=True,
        clean_up_tokenization_spaces=False,
    )


@validated
def encode(documents: Iterable[str]) -> Int[Tensor, " pos"]:
    """Documents as one stream of token ids, each document opened by the start token."""
    # a tokenizer of its own: the shared one keeps the padding and truncation that `to_tokens` last
    # set
    encodings = Tokenizer.from_file(str(verified(DATA / "tokenizer.json"))).encode_batch(
        list(documents)
    )
    return torch.from_numpy(np.concatenate([np.asarray(e.ids, dtype=np.int64) for e in encodings]))


@validated
def visible(token: str) -> str:
    """A token as it is printed in lessons and pictures: "·" for a space, "↵" for a line break, "→"
    for a tab.
    """
    return token.replace(" ", "·").replace("\n", "↵").replace("\t", "→")


@validated
def held_out_documents(kind: str = "*") -> list[str]:
    """Our own texts in `data/held_out/`, which no model was trained on: `kind` is "code", "prose"
    or "*" for both.
    """
    suffixes = {"code": ".py", "prose": ".txt", "*": ""}
    if kind not in suffixes:
        raise ValueError(f'kind must be one of "code", "prose", "*", not {kind!r}.')
    names = sorted(name for name in recorded(DATA / "held_out") if name.endswith(suffixes[kind]))
    return [verified(DATA / "held_out" / name).read_text(encoding="utf-8") for name in names]


@validated
def windows(stream: Int[Tensor, " pos"], n_ctx: Count = 256) -> Int[Tensor, "batch n_ctx"]:
    """A stream cut into contexts as the models know them: the start token, then `n_ctx - 1`
    consecutive tokens.

    What is left over at the end is dropped. Raises ValueError if the stream does not fill one
    context.
    """
    if n_ctx < 2 or len(stream) < n_ctx - 1:
        raise ValueError(
            f"A stream of {len(stream)} tokens does not fill one context of n_ctx = {n_ctx}."
        )
    n = len(stream) // (n_ctx - 1)  # contexts that it fills; one token of each is the start token
    rows = stream[: n * (n_ctx - 1)].view(n, n_ctx - 1)
    return torch.cat([torch.zeros_like(rows[:, :1]), rows], dim=1)


@validated
def held_out_tokens(kind: str = "*", n_ctx: Count = 256) -> Int[Tensor, "batch n_ctx"]:
    """The held-out text as contexts for a model; shape [batch, n_ctx], each row opened by the start
    token.
    """
    return windows(encode(held_out_documents(kind)), n_ctx)


@validated
def held_out_origins(kind: str = "*", n_ctx: Count = 256) -> Int[Tensor, "batch n_ctx"]:
    """From which of the held-out documents each token of `held_out_tokens` is; a context's start
    token from its first.

    Tokens of one document are alike: errors are clustered by it, see `measure.mean_and_error`.
    """
    lengths = [len(encode([document])) for document in held_out_documents(kind)]
    origins = windows(
        torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)), n_ctx
    )
    origins[:, 0] = origins[:, 1]
    return origins


@validated
def different_tokens(
    n: Count, batch: Count, among: Count, generator: torch.Generator
) -> Int[Tensor, "batch n"]:
    """Rows of `n` different tokens in any order, out of the first `among` behind the start token."""
    return 1 + torch.stack([torch.randperm(among, generator=generator)[:n] for _ in range(batch)])


@validated
def repeated_tokens(
    length: Count = 64,
    batch: Count = 16,
    repeats: Count = 3,
    *,
    weights: Sequence[float] | Tensor | None = None,
    d_vocab: Count = D_VOCAB,
    seed: NotNegative = 0,
) -> Int[Tensor, "batch pos"]:
    """Random tokens, the same `length` of them `repeats` times over, behind one start token.

    Shape [batch, 1 + length * repeats]. Tokens are drawn uniformly, or in proportion to `weights`
    [d_vocab] (such as how often each occurs); never the start token. The test of Elhage et al.
    2021, "Induction Heads".
    """
    weights = (
        torch.ones(d_vocab)
        if weights is None
        else torch.as_tensor(weights, dtype=torch.float).clone()
    )
    if weights.shape != (d_vocab,):
        raise ValueError(
            f"weights must have one number per token, shape [{d_vocab}], not {list(weights.shape)}."
        )
    weights[0] = 0
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(weights, batch * length, replacement=True, generator=generator).view(
        batch, length
    )
    return torch.cat([torch.zeros(batch, 1, dtype=torch.long), drawn.repeat(1, repeats)], dim=1)
