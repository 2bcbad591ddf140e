"""What the models read: a corpus to train on, our own held-out text, repeated random tokens."""

import functools
import hashlib
import platform
import re
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from course_utils._arguments import Count, NotNegative, require_tokens, validated
from course_utils._files import DATA, recorded, verified

START = "<|start|>"  # opens every document and every context; id 0
D_VOCAB = 4096


def corpus_files() -> list[Path]:
    """Every UTF-8 Python file of this interpreter's standard library, in a fixed order.

    Its tests are included; what was installed beside it is not.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    others = {"site-packages", "dist-packages", "__pycache__"}
    files = [f for f in root.rglob("*.py") if not others & set(f.parts) and _decodes(f)]
    return sorted(files, key=lambda f: f.relative_to(root).as_posix())


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
    """What the corpus on this machine is.

    Python's version, the number of files and bytes, and one SHA-256 over all texts.
    """
    digest = hashlib.sha256()
    n_files = n_bytes = 0
    for document in corpus_documents():
        encoded = document.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
        n_files += 1
        n_bytes += len(encoded)
    return {
        "source": "Python standard library",
        "python": platform.python_version(),
        "files": n_files,
        "bytes": n_bytes,
        "sha256": digest.hexdigest(),
    }


@validated
def require_whole_characters(words: str) -> None:
    """Raise ValueError, in one sentence, for a text with a half of a character in it."""
    if re.search(r"[\ud800-\udfff]", words):
        raise ValueError(
            "This text holds half of a character (a surrogate), which no token stands for."
        )


def _whole(documents: Iterable[str]) -> Iterator[str]:
    """The documents, once each is known to be a text that can be encoded."""
    for document in documents:
        if not isinstance(document, str):
            kind = type(document).__name__
            raise TypeError(f"documents must be a list of strings; one of these is {kind}.")
        require_whole_characters(document)
        yield document


@validated
def train_tokenizer(documents: Iterable[str], d_vocab: Count = D_VOCAB) -> Tokenizer:
    """A byte-level BPE tokenizer with `d_vocab` entries, the start token being number 0."""
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    # merge the commonest pairs, from single bytes on
    trainer = trainers.BpeTrainer(
        vocab_size=d_vocab,
        special_tokens=[START],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(_whole(documents), trainer)
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
        # TransformerLens asks for this name, and looks for a hub copy of it unless the tokenizer
        # adds the start token itself
        name_or_path="data/tokenizer.json",
        add_bos_token=True,
        clean_up_tokenization_spaces=False,
    )


@validated
def encode(documents: Iterable[str]) -> Int[Tensor, " pos"]:
    """Documents as one stream of token ids, each document opened by the start token."""
    # not the shared one: that keeps the padding and truncation that `to_tokens` last set
    own = Tokenizer.from_file(str(verified(DATA / "tokenizer.json")))
    encodings = own.encode_batch([*_whole(documents)])
    if not encodings:
        raise ValueError("There is no document to encode: the list is empty.")
    ids = [np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings]
    return torch.from_numpy(np.concatenate(ids))


@validated
def visible(token: str) -> str:
    """A token as lessons print it: "·" for a space, "↵" for a line break, "→" for a tab."""
    return token.replace(" ", "·").replace("\n", "↵").replace("\t", "→")


@validated
def held_out_documents(kind: str = "*") -> list[str]:
    """Our own texts in `data/held_out/`, which no model was trained on.

    `kind` is "code", "prose" or "*" for both.
    """
    suffixes = {"code": ".py", "prose": ".txt", "*": ""}
    if kind not in suffixes:
        raise ValueError(f'kind must be one of "code", "prose", "*", not {kind!r}.')
    folder = DATA / "held_out"
    names = sorted(name for name in recorded(folder) if name.endswith(suffixes[kind]))
    return [verified(folder / name).read_text(encoding="utf-8") for name in names]


@validated
def windows(stream: Int[Tensor, " pos"], n_ctx: Count = 256) -> Int[Tensor, "batch n_ctx"]:
    """A stream cut into contexts as the models know them, each opened by the start token.

    It is followed by `n_ctx - 1` consecutive tokens; what is left over at the end is dropped.
    Raises ValueError if the stream does not fill one context.
    """
    require_tokens(None, stream, "stream")
    if n_ctx < 2 or len(stream) < n_ctx - 1:
        raise ValueError(
            f"A stream of {len(stream)} tokens does not fill one context of n_ctx = {n_ctx}."
        )
    n = len(stream) // (n_ctx - 1)  # contexts that it fills
    rows = stream[: n * (n_ctx - 1)].view(n, n_ctx - 1)
    starts = torch.zeros_like(rows[:, :1])  # [n, 1]
    return torch.cat([starts, rows], dim=1)


@validated
def held_out_tokens(kind: str = "*", n_ctx: Count = 256) -> Int[Tensor, "batch n_ctx"]:
    """The held-out text as contexts for a model, see `windows`."""
    return windows(encode(held_out_documents(kind)), n_ctx)


@validated
def held_out_origins(kind: str = "*", n_ctx: Count = 256) -> Int[Tensor, "batch n_ctx"]:
    """From which of the held-out documents each token of `held_out_tokens` is.

    Tokens of one document are alike: errors are clustered by it, see `measure.mean_and_error`.
    """
    lengths = [len(encode([document])) for document in held_out_documents(kind)]
    numbers = torch.arange(len(lengths))
    stream = torch.repeat_interleave(numbers, torch.tensor(lengths))  # [pos]
    origins = windows(stream, n_ctx)
    origins[:, 0] = origins[:, 1]  # the start token counts for the document behind it
    return origins


@validated
def different_tokens(
    n: Count, batch: Count, among: Count, generator: torch.Generator
) -> Int[Tensor, "batch n"]:
    """Rows of `n` different tokens in any order, out of tokens 1 to `among`."""
    rows = [torch.randperm(among, generator=generator)[:n] for _ in range(batch)]
    return 1 + torch.stack(rows)


@validated
def repeated_tokens(
    length: Count = 64,
    batch: Count = 16,
    repeats: Count = 3,
    *,
    weights: Sequence[float] | Tensor | None = None,
    d_vocab: Count = D_VOCAB,
    start: NotNegative = 0,
    seed: NotNegative = 0,
) -> Int[Tensor, "batch pos"]:
    """Random tokens, the same `length` of them `repeats` times over, behind the start token.

    Shape [batch, 1 + length * repeats]. Tokens are drawn uniformly, or in proportion to `weights`
    [d_vocab] (such as how often each occurs); never `start`, which is another number in other
    models. The test of Elhage et al. 2021, "Induction Heads".
    """
    if weights is None:
        weights = torch.ones(d_vocab)
    weights = torch.as_tensor(weights, dtype=torch.float, device="cpu").clone()
    if weights.shape != (d_vocab,):
        raise ValueError(
            f"weights must have one number per token, shape [{d_vocab}], not {list(weights.shape)}."
        )
    if start >= d_vocab:
        raise ValueError(f"start must be one of {d_vocab} tokens, 0 to {d_vocab - 1}, not {start}.")
    weights[start] = 0

    generator = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(weights, batch * length, replacement=True, generator=generator)
    block = drawn.view(batch, length)
    first = torch.full_like(block[:, :1], start)  # [batch, 1]
    return torch.cat([first, block.repeat(1, repeats)], dim=1)
