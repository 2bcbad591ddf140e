"""The glossary: its order, its names in TransformerLens, the lessons that introduce its terms."""

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
    """JupyterLab keeps capitals in a heading's address, GitHub and the site make them small."""
    terms = re.findall("^### (.*)$", TEXT, re.MULTILINE)
    assert terms == sorted(set(terms)) == [*ENTRIES] and all(
        re.fullmatch("[a-z0-9 -]+", term) for term in terms
    )


def test_an_entry_is_a_sentence_and_a_line(subtests):
    for term, entry in ENTRIES.items():
        with subtests.test(term):
            sentence, line = entry.strip().split("\n\n")
            assert re.fullmatch(r"[A-Z][^\n]*\.", sentence) and "\n" not in line
            assert not (links.lesson_number(line) and "not in this course yet" in line)
            unlinked = re.findall(r"[A-Z]\w+ (?:et al\.|& \w+) \d{4}(?!\])", line)
            assert not unlinked, "its address belongs into sources.json"


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


def test_a_term_is_bold_and_a_link_where_it_is_introduced(subtests):
    for term, entry in ENTRIES.items():
        if number := links.lesson_number(entry):
            with subtests.test(term):
                _is_introduced_in(number, term)


def _is_introduced_in(number, term):
    """Bold and a link in the lesson with this number, and bold in no lesson before."""
    anchor = term.replace(" ", "-")
    address = rf"\[{_bold(term)}\]\(\.\./{links.GLOSSARY}#{anchor}\)"
    introduced = False
    for path in authoring.lessons():
        text, lesson = _words(path), lesson_of(path).split("_")[0]
        here = lesson == number
        found = re.findall(address, text, re.IGNORECASE)
        assert len(found) == here, f"run authoring on lesson {lesson}"
        introduced |= here
        if here or not introduced:
            before = re.split(address, text, maxsplit=1, flags=re.IGNORECASE)[0]
            is_bold = re.search(_bold(term), before, re.IGNORECASE)
            assert not is_bold, f"lesson {lesson} has it in bold before"
    assert introduced


def test_what_lessons_link_is_in_the_glossary():
    anchors = {term.replace(" ", "-") for term in ENTRIES}
    for path in authoring.lessons():
        for copy, prefix in ((path, "../"), (authoring.learner_path(path), "")):
            found = re.findall(rf"\]\(([./]*){links.GLOSSARY}#(.*?)\)", _words(copy))
            for before, anchor in found:
                assert before == prefix and anchor in anchors, f"{copy.name}: {before}#{anchor}"
