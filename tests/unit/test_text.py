"""What models read."""

import sysconfig

import pytest
import torch

from course_utils import _files, bigrams, load, measure, models, text

CONFIG = {
    "n_layers": 1,
    "d_model": 8,
    "n_heads": 1,
    "d_head": 8,
    "n_ctx": 64,
    "d_vocab": text.D_VOCAB,
    "attn_only": True,
    "normalization_type": None,
    "positional_embedding_type": "shortformer",
    "seed": 0,
}
TEXTS = [
    "é",
    "🐍",
    "naïve Ünïcödé, 漢字",
    "  two  spaces ",
    "\n\n\t\n",
    "def f(x):\n    return x ** 2\n",
    "don't , stop .",
]


@pytest.fixture(scope="module")
def model():
    model = models.initial(CONFIG)
    model.set_tokenizer(text.tokenizer())
    return model


def _ids(document):
    return text.encode([document]).tolist()


# The tokenizer


@pytest.mark.parametrize("string", TEXTS)
def test_every_text_survives_the_tokenizer(string):
    start, *ids = _ids(string)
    assert start == 0 and 0 not in ids
    assert text.tokenizer().decode(ids) == string


def test_the_tokenizer_compresses():
    # byte by byte it would be 46
    assert len(_ids("import sys\n\n\nclass Error(Exception):\n    pass\n")) < 20


def test_encode_opens_each_document_with_the_start_token():
    first, second = _ids("import sys"), _ids("")
    assert second == [0]
    stream = text.encode(iter(["import sys", "", "import sys"]))
    assert stream.dtype == torch.long and stream.tolist() == first + second + first


def test_the_tokenizer_has_exactly_the_vocabulary():
    assert sorted(text.tokenizer().get_vocab().values()) == list(range(text.D_VOCAB))
    assert text.tokenizer().convert_ids_to_tokens(0) == text.START


def test_train_tokenizer_learns_the_commonest_pair_first():
    tokenizer = text.train_tokenizer(["the cat, the dog, the end"] * 20, d_vocab=260)
    vocabulary = tokenizer.get_vocab()
    assert len(vocabulary) == 260 and vocabulary[text.START] == 0
    assert vocabulary["he"] == 257  # behind the start token and the 256 bytes
    assert tokenizer.encode("the").ids == [0, vocabulary["the"]]
    assert tokenizer.decode(tokenizer.encode("🐍 not in the corpus").ids) == "🐍 not in the corpus"


def test_a_model_reads_strings(model):
    tokens = model.to_tokens("import sys")
    assert tokens.tolist() == [_ids("import sys")]  # the start token once, not twice
    assert model.to_tokens("import sys", prepend_bos=False).tolist() == [_ids("import sys")[1:]]
    assert model.to_str_tokens("import sys") == [text.START, "import", " sys"]
    assert model.to_string(tokens[0, 1:]) == "import sys"
    assert model("import sys").shape == (1, 3, text.D_VOCAB)


def test_a_model_takes_the_tokenizer_anywhere(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where there is no data/tokenizer.json to be found again
    model.set_tokenizer(text.tokenizer())
    assert model.tokenizer is text.tokenizer()


def test_texts_of_unequal_length_are_padded_at_the_end(model):
    short, long = model.to_tokens(["import", "import sys"]).tolist()
    assert long == _ids("import sys") and short == [*_ids("import"), 0]


def test_visible_shows_white_space():
    assert text.visible(" a\n\tb") == "·a↵→b"


# The corpus


def test_corpus_files_are_those_that_can_be_read_in_a_fixed_order(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    for name in (
        "b.py",
        "a/z.py",
        "a/a.py",
        "site-packages/p.py",
        "dist-packages/p.py",
        "__pycache__/p.py",
        "n.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 'é'\n", encoding="utf-8")
    (tmp_path / "latin.py").write_bytes("é".encode("latin-1"))
    (tmp_path / "blank.py").write_text(" \n")
    assert [f.relative_to(tmp_path).as_posix() for f in text.corpus_files()] == [
        "a/a.py",
        "a/z.py",
        "b.py",
    ]


def test_the_corpus_is_the_standard_library():
    files = text.corpus_files()
    assert len(files) > 500
    assert {"argparse", "asyncio", "json"} <= {f.stem for f in files} | {
        f.parent.name for f in files
    }


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Give it contents, and they are the corpus."""

    def write(*contents: bytes):
        paths = [tmp_path / f"{number}.py" for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        monkeypatch.setattr(text, "corpus_files", lambda: paths)
        return text.corpus_manifest()

    return write


def test_the_manifest_describes_the_corpus(corpus):
    manifest = corpus(b"a = 1\n", "b = 'é'\n".encode())
    assert (manifest["files"], manifest["bytes"]) == (2, 6 + 9)
    assert manifest == corpus(b"a = 1\n", "b = 'é'\n".encode())
    # Windows' line ends make no difference
    assert manifest == corpus(b"a = 1\r\n", "b = 'é'\r\n".encode())


def test_the_manifest_notices_every_change(corpus):
    variants = [(b"ab", b"c"), (b"a", b"bc"), (b"c", b"ab"), (b"abc",), (b"ab", b"d")]
    assert len({corpus(*contents)["sha256"] for contents in variants}) == len(variants)


# Held-out text


@pytest.mark.parametrize("kind", ["code", "prose", "*"])
def test_held_out_contexts_are_the_documents_in_order(kind):
    tokens, stream = text.held_out_tokens(kind), text.encode(text.held_out_documents(kind))
    assert tokens.shape[1] == 256 and (tokens[:, 0] == 0).all()
    assert torch.equal(tokens[:, 1:].flatten(), stream[: tokens[:, 1:].numel()])
    assert len(stream) - tokens[:, 1:].numel() < 255


def test_held_out_kinds():
    code, prose, both = (text.held_out_documents(kind) for kind in ("code", "prose", "*"))
    assert sorted(code + prose) == sorted(both) and len(code) >= 5 and len(prose) >= 2
    for document in code:
        compile(document, "held out", "exec")
    with pytest.raises(ValueError, match="not 'poetry'"):
        text.held_out_documents("poetry")


@pytest.mark.parametrize("there", [[], ["notes.py"]])
def test_held_out_texts_that_are_missing_are_no_empty_list(tmp_path, monkeypatch, there):
    for module in (text, _files):
        monkeypatch.setattr(module, "DATA", tmp_path)
    missing = "data/held_out/SHA256SUMS"
    for name in there:
        (tmp_path / "held_out").mkdir(exist_ok=True)
        (tmp_path / "held_out" / name).write_text("pass", encoding="utf-8")
        _files.write_checksums(tmp_path / "held_out")
        (tmp_path / "held_out" / name).unlink()
        missing = f"data/held_out/{name}"
    with pytest.raises(FileNotFoundError) as caught:
        text.held_out_documents()
    assert str(caught.value) == f"{missing} is missing. {_files.get_back(missing)}"


def test_windows_by_hand():
    assert text.windows(torch.arange(1, 8), n_ctx=4).tolist() == [[0, 1, 2, 3], [0, 4, 5, 6]]
    assert text.windows(torch.arange(1, 4), n_ctx=4).tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize(("length", "n_ctx"), [(2, 4), (1, 3), (10, 1)])
def test_windows_refuses_what_fills_no_context(length, n_ctx):
    with pytest.raises(ValueError, match=f"{length} tokens .* n_ctx = {n_ctx}"):
        text.windows(torch.arange(length), n_ctx=n_ctx)


# Repeated random tokens


@pytest.mark.parametrize(("length", "batch", "repeats"), [(5, 3, 4), (1, 1, 1), (64, 2, 2)])
def test_repeated_tokens_repeat(length, batch, repeats):
    tokens = text.repeated_tokens(length, batch, repeats)
    assert tokens.shape == (batch, 1 + length * repeats) and tokens.dtype == torch.long
    blocks = tokens[:, 1:].view(batch, repeats, length)
    assert (blocks == blocks[:, :1]).all()
    assert (tokens[:, 0] == 0).all() and (tokens[:, 1:] > 0).all()


def test_repeated_tokens_are_uniform_over_the_vocabulary():
    drawn = text.repeated_tokens(5_000, 2, 1, d_vocab=6)[:, 1:].flatten().bincount(minlength=6)
    # five standard deviations
    assert drawn[0] == 0 and (drawn[1:] / 10_000 - 0.2).abs().max() < 0.02
    assert text.repeated_tokens(2_000, 1, 1).max() > text.D_VOCAB / 2


def test_repeated_tokens_rows_differ():
    rows = text.repeated_tokens(20, 8, 1)
    assert len({tuple(row) for row in rows.tolist()}) == 8


@pytest.mark.parametrize("kind", [list, torch.tensor])
def test_repeated_tokens_follow_the_weights(kind):
    weights = kind([1000.0, 0.0, 1.0, 3.0, 0.0])
    drawn = (
        text.repeated_tokens(5_000, 2, 1, weights=weights, d_vocab=5)[:, 1:]
        .flatten()
        .bincount(minlength=5)
    )
    assert drawn[[0, 1, 4]].tolist() == [0, 0, 0]
    assert (drawn[3] / 10_000 - 0.75).abs() < 0.02
    assert weights[0] == 1000  # the caller's weights are left alone


def test_repeated_tokens_depend_on_the_seed_alone():
    first = text.repeated_tokens(seed=1)
    torch.manual_seed(123)
    state = torch.get_rng_state()
    assert torch.equal(text.repeated_tokens(seed=1), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(text.repeated_tokens(seed=2), first)


@pytest.mark.parametrize("sizes", [{"length": 0}, {"batch": 0}, {"repeats": 0}, {"repeats": -1}])
def test_repeated_tokens_refuses_sizes_below_one(sizes):
    with pytest.raises(ValueError, match="a whole number from 1"):
        text.repeated_tokens(**sizes)


def test_repeated_tokens_refuses_weights_of_another_vocabulary():
    with pytest.raises(ValueError, match=r"shape \[4096\], not \[3\]"):
        text.repeated_tokens(weights=[1.0, 1.0, 1.0])


def test_half_of_a_character_is_no_text():
    for call in (text.encode, text.train_tokenizer):
        with pytest.raises(ValueError, match="half of a character"):
            call(["fine", "\ud83d"])
        with pytest.raises(TypeError, match="one of these is int"):
            call(["fine", 3])
    with pytest.raises(ValueError, match="the list is empty"):
        text.encode([])
    assert len(text.encode(["a\x00b"])) > 2


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_small_whole_numbers_are_tokens_too(dtype):
    tokens = torch.arange(12)[None]
    small = tokens.to(getattr(torch, dtype))
    model = load("zero-layer")
    assert torch.equal(measure.losses(model, small), measure.losses(model, tokens))
    assert torch.equal(bigrams.count(small[0]).to_dense(), bigrams.count(tokens[0]).to_dense())
