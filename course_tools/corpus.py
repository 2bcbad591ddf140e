"""Makes `data/tokenizer.json` and `data/bigrams.npz` again, from this Python's standard library.

    python -m course_tools.corpus [FOLDER]

What it writes into FOLDER (`runs/corpus`) is the tokenizer first, then the counts of all pairs in
the text as that tokenizer reads it.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from course_utils import bigrams, text
from course_utils._files import write_atomically, write_checksums


def save(table: Tensor, path: Path) -> None:
    """Write sparse counts as compressed rows, which is how `counts` reads them."""
    rows, columns = table.indices()  # sorted by row, then by column
    in_row = np.bincount(rows, minlength=table.shape[0])
    row_starts = np.concatenate([[0], in_row.cumsum()])
    arrays = {
        "row_starts": row_starts.astype(np.uint32),
        "columns": columns.numpy().astype(np.uint16),
        "counts": table.values().numpy().astype(np.uint32),
    }

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:  # given a name, numpy would append .npz to it
            np.savez_compressed(file, **arrays)

    write_atomically(path, write)


def make(documents: list[str], folder: Path) -> None:
    """The two files, and their checksums, from these texts."""
    tokenizer = text.train_tokenizer(documents)
    write_atomically(folder / "tokenizer.json", lambda path: tokenizer.save(str(path)))

    # The counts, of all documents as one stream of tokens.
    read = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(documents)]
    counts = bigrams.count(torch.cat(read))  # sparse [current token, next token]
    save(counts, folder / "bigrams.npz")
    write_checksums(folder)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m course_tools.corpus", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs/corpus"))
    folder = parser.parse_args(arguments).folder
    make(list(text.corpus_documents()), folder)
    print(f"{folder}: tokenizer.json and bigrams.npz")


if __name__ == "__main__":
    main()
