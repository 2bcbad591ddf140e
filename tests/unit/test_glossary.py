"""The glossary: its order, its names in TransformerLens, and the lessons that introduce its terms."""

import functools
import re

import pytest
import torch
from transformer_lens import ActivationCache, HookedTransformer, HookedTransformerConfig

from course_tools import authoring, links
from course_utils._files import NOTEBOOKS, lesson_of

TEXT = (NOTEBOOKS / links.GLOSSARY).read_text(encoding="utf-8")
ENTRIES = links.entries(TEXT)
ROW = re.compile(r"^\| (.*?) \|.*\| `([\w.]+)` \| `\[(.*?)\]` \|$", re.MULTILINE)
SIZES = {
    "batch": 2,
    "pos": 5,
    "d_model": 12,
    "head": 3,
    "d_head": 4,
    "dest": 5,
    "src": 5,
    "d_mlp": 20,
    "d_vocab": 11,
}
KINDS = {
    "attention-only": {
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": "shortformer",
    },
    "GPT-2": {"d_mlp": 20, "act_fn": "gelu_new", "normalization_type": "LN"},
}


def _model(kind):
    config = HookedTransformerConfig(
        n_layers=2, d_model=12, n_ctx=7, d_head=4, n_heads=3, d_vocab=11, **KINDS[kind]
    )
    model = HookedTransformer(config)
    model.set_use_attn_result(True)
    return model


@functools.cache
def _words(path):
    return "\n\n".join(
        cell.source for cell in authoring.read_notebook(path).cells if cell.cell_type == "markdown"
    )


def _bold(term):
    words = "|".join(
        r"\s+".join(map(re.escape, name.split())) for name in links.names(term, ENTRIES[term])
    )
    return rf"\*\*(?:{words})s?\*\*"


def test_terms_stand_in_order_and_have_addresses_that_work_everywhere():
    """JupyterLab keeps capitals in the address of a heading, GitHub and the site make them small."""
    terms = re.findall("^### (.*)$", TEXT, re.MULTILINE)
    assert terms == sorted(set(terms)) == [*ENTRIES] and all(
        re.fullmatch("[a-z0-9 -]+", term) for term in terms
    )


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_is_a_sentence_and_a_line(term):
    sentence, line = ENTRIES[term].strip().split("\n\n")
    assert re.fullmatch(r"[A-Z][^\n]*\.", sentence) and "\n" not in line
    assert not (links.lesson_number(line) and "not in this course yet" in line)
    assert not re.findall(r"[A-Z]\w+ (?:et al\.|& \w+) \d{4}(?!\])", line), (
        "its address belongs into sources.json"
    )


def test_its_links_are_written():
    assert links.linked_glossary(TEXT, authoring.titles()) == TEXT, "run authoring with --links"


@pytest.mark.parametrize("kind", KINDS)
def test_the_hook_map_is_true(kind):
    model = _model(kind)
    logits, cache = model.run_with_cache(torch.randint(0, 11, (2, 5)))
    rows = ROW.findall(TEXT)
    assert len(rows) == 22
    for what, name, shape in rows:
        there = kind == "GPT-2" or "*GPT-2*" not in what
        assert (name in cache) == there, name
        if there:
            assert cache[name].shape == tuple(
                SIZES[size] if size in SIZES else int(size) for size in shape.split(", ")
            )
    assert torch.equal(cache["unembed.hook_out"], logits)


def test_every_name_of_the_entries_exists():
    model = _model("GPT-2")
    names = set(
        re.findall(
            r"`((?:blocks|hook_|unembed|ln_final|model\.|cache\.|cfg\.)[\w.]*)",
            "\n".join(ENTRIES.values()),
        )
    )
    assert len(names) > 30
    for name in names:
        owner, _, rest = name.partition(".")
        thing = {"model": model, "cache": ActivationCache, "cfg": model.cfg}.get(owner)
        found = hasattr(thing, rest.split(".")[0]) if thing is not None else name in model.hook_dict
        assert found, name


@pytest.mark.parametrize("term", [term for term in ENTRIES if links.lesson_number(ENTRIES[term])])
def test_a_term_is_bold_and_a_link_where_it_is_introduced(term):
    introduced, address = (
        False,
        rf"\[{_bold(term)}\]\(\.\./{links.GLOSSARY}#{term.replace(' ', '-')}\)",
    )
    for path in authoring.lessons():
        text, number = _words(path), lesson_of(path).split("_")[0]
        here = number == links.lesson_number(ENTRIES[term])
        assert len(re.findall(address, text, re.IGNORECASE)) == here, (
            f"run authoring on lesson {number}"
        )
        introduced |= here
        if here or not introduced:
            before = re.split(address, text, maxsplit=1, flags=re.IGNORECASE)[0]
            assert not re.search(_bold(term), before, re.IGNORECASE), (
                f"lesson {number} has it in bold before"
            )
    assert introduced


@pytest.mark.parametrize("path", authoring.lessons(), ids=lesson_of)
def test_what_lessons_link_is_in_the_glossary(path):
    anchors = {term.replace(" ", "-") for term in ENTRIES}
    for copy, prefix in ((path, r"\.\./"), (authoring.learner_path(path), "")):
        found = re.findall(rf"\]\(([./]*){links.GLOSSARY}#(.*?)\)", _words(copy))
        assert all(re.fullmatch(prefix, before) and anchor in anchors for before, anchor in found)
