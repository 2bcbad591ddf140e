"""The command that makes the tokenizer and the counts, on a few small texts."""

from collections import Counter
from itertools import pairwise

from tokenizers import Tokenizer

from course_tools import corpus
from course_utils import bigrams, text
from course_utils._files import recorded, verified

DOCUMENTS = ["for key in keys:\n    print(key)\n", "keys = [key for key in table]\n", ""]


def test_it_writes_a_tokenizer_and_the_pairs_that_it_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(text, "corpus_documents", lambda: iter(DOCUMENTS))
    corpus.main([str(tmp_path)])
    assert capsys.readouterr().out == f"{tmp_path}: tokenizer.json and bigrams.npz\n"
    assert sorted(recorded(tmp_path)) == ["bigrams.npz", "tokenizer.json"]

    # each document begins with the start token, and no pair leads into it
    tokenizer = Tokenizer.from_file(str(verified(tmp_path / "tokenizer.json")))
    ids = [tokenizer.encode(document).ids for document in DOCUMENTS]
    assert all(document[0] == 0 for document in ids)
    assert " key" in [tokenizer.decode([token]) for token in ids[0]]
    expected = Counter(pair for document in ids for pair in pairwise(document))

    monkeypatch.setattr(bigrams, "DATA", tmp_path)
    counts = bigrams.counts.__wrapped__()
    pairs = map(tuple, counts.indices().T.tolist())
    assert dict(zip(pairs, counts.values().tolist(), strict=True)) == expected
