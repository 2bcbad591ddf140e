"""The glossary: its order, its names in TransformerLens, the lessons that introduce its terms."""

import functools
import re
from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformer_lens import ActivationCache, HookedTransformer, HookedTransformerConfig
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.pretrained.weight_conversions import (
    convert_gpt2_weights,
    convert_llama_weights,
)
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from course_tools import authoring, links
from course_utils._files import NOTEBOOKS, lesson_of

TEXT = (NOTEBOOKS / links.GLOSSARY).read_text(encoding="utf-8")
ENTRIES = links.entries(TEXT)
ROW = re.compile(r"^\| (.*?) \|.*\| `([\w.]+)` \| `\[(.*?)\]` \|$", re.MULTILINE)
OTHERS = TEXT.split("## The same points in other libraries\n")[1].split("\n## ")[0]
OTHER_ROW = re.compile(r"^\| ([^|`]+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
BETWEEN = "blocks.0.hook_resid_mid"  # the one point at which it matters how a change is made
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


# Tiny models of `transformers`: its configuration, TransformerLens's, and what converts the weights
SHARED = {
    "vocab_size": 11,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "attn_implementation": "eager",
}
THEIRS = {
    "GPT-2": (
        GPT2LMHeadModel,
        GPT2Config(n_layer=2, n_embd=12, n_head=3, n_positions=7, n_inner=20, **SHARED),
        KINDS["GPT-2"],
        convert_gpt2_weights,
    ),
    "Llama": (
        LlamaForCausalLM,
        LlamaConfig(
            num_hidden_layers=2,
            hidden_size=12,
            num_attention_heads=3,
            num_key_value_heads=1,  # three heads share a key
            head_dim=4,
            intermediate_size=20,
            max_position_embeddings=7,
            **SHARED,
        ),
        {
            "n_key_value_heads": 1,
            "d_mlp": 20,
            "act_fn": "silu",
            "gated_mlp": True,
            "normalization_type": "RMS",
            "final_rms": True,
            "eps": 1e-6,
            "positional_embedding_type": "rotary",
            "rotary_dim": 4,
            "rotary_adjacent_pairs": False,
            "original_architecture": "LlamaForCausalLM",
        },
        convert_llama_weights,
    ),
}


@pytest.fixture(scope="module", params=THEIRS)
def same(request, tmp_path_factory):
    """One tiny model twice, of `transformers` and hooked; a folder of it; rows of both tables."""
    make, theirs_config, ours, convert = THEIRS[request.param]
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        theirs = make(theirs_config).eval().requires_grad_(False)
        for parameter in theirs.parameters():  # biases too, which are 0 before training
            parameter += 0.3 * torch.randn_like(parameter)
        tokens = torch.randint(0, 11, (2, 5))
    config = HookedTransformerConfig(
        n_layers=2, d_model=12, n_ctx=7, d_head=4, n_heads=3, d_vocab=11, **ours
    )
    hooked = HookedTransformer(config).requires_grad_(False)
    # what is not in the weights is made by the configuration: masks, and the angles of RoPE
    hooked.load_state_dict(convert(theirs, config), strict=False)
    hooked.set_use_attn_result(True)
    cache = hooked.run_with_cache(tokens)[1]

    folder = tmp_path_factory.mktemp("theirs")
    theirs.save_pretrained(folder)
    words = Tokenizer(WordLevel({str(n): n for n in range(11)}, unk_token="0"))
    ends = {"bos_token": "0", "eos_token": "0", "pad_token": "0"}
    PreTrainedTokenizerFast(tokenizer_object=words, **ends).save_pretrained(folder)

    defined = " ".join(re.findall(rf"^ *- {request.param}: (.*)$", OTHERS, re.MULTILINE))
    return SimpleNamespace(
        kind=request.param,
        theirs=theirs,
        hooked=hooked,
        cache=cache,
        tokens=tokens,
        folder=str(folder),
        defined=dict(re.findall(r"`(\w+) = ([^`]*)`", defined)),
        rows=[
            (name, shape.split(", "), *_cells(row, request.param))
            for (_, name, shape), row in zip(ROW.findall(TEXT), _other_rows(), strict=True)
            if name in cache
        ],
    )


def _other_rows():
    return OTHER_ROW.findall(OTHERS)[1:]  # the first is the head of the table


def _cells(row, kind):
    """The bridge's name in a row of the second table, and nnsight's expression or None."""
    _, bridge, *nnsight = row
    name = re.findall("`(.*?)`", bridge)[-1 if kind == "Llama" else 0]
    point = nnsight[[*THEIRS].index(kind)]
    return name, None if point == "–" else re.fullmatch("`(.*)`", point)[1]


def _bridge(same):
    bridge = TransformerBridge.boot_transformers(same.folder, device="cpu")
    bridge.set_use_attn_result(True)
    return bridge


def _are_equal(here, there):
    """Up to rounding; the mask is -inf in one library and the lowest number in another."""
    return torch.allclose(here.clamp(min=-1e30), there.clamp(min=-1e30), rtol=0, atol=1e-5)


def _changed(value, shape):
    """Other values, by another factor at each position or destination."""
    axis = shape.index("dest" if "dest" in shape else "pos")
    factors = torch.linspace(0.5, 2, 5).unflatten(0, (5, *[1] * (value.ndim - axis - 1)))
    return value * factors


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


def test_the_second_map_has_the_rows_of_the_first():
    pairs = list(zip(ROW.findall(TEXT), _other_rows(), strict=True))
    assert len(pairs) == 22
    assert all(first[0].startswith(second[0]) for first, second in pairs)


@pytest.mark.filterwarnings("ignore:A forward hook edited")  # that it is changed is what we want
def test_a_bridge_has_the_same_under_the_same_names_and_its_own(same, subtests):
    """What is read there, and what a change there does."""
    bridge = _bridge(same)
    logits, cache = bridge.run_with_cache(same.tokens)
    assert _are_equal(logits, same.theirs(same.tokens).logits)
    assert len(same.rows) == (22 if same.kind == "GPT-2" else 21)
    for hook, shape, own, _ in same.rows:
        wanted = _after_a_change(same, hook, shape)
        assert not _are_equal(wanted, logits)
        for name in (hook, own):
            with subtests.test(name):
                assert cache[name].shape == same.cache[hook].shape
                assert _are_equal(cache[name], same.cache[hook])
                new = _hooked(bridge, same, name, shape)
                assert _are_equal(new, wanted) == (hook != BETWEEN)
                if hook == BETWEEN:
                    assert _are_equal(_hooked(bridge, same, name, shape, in_place=True), wanted)


def _after_a_change(same, hook, shape):
    """The logits of the HookedTransformer, changed at this hook."""
    return _hooked(same.hooked, same, hook, shape)


def _hooked(model, same, name, shape, in_place=False):
    def change(value, hook):
        new = _changed(value, shape)
        if not in_place:
            return new
        value[:] = new
        return value

    with torch.no_grad():
        return model.run_with_hooks(same.tokens, fwd_hooks=[(name, change)])


def test_nnsight_has_the_same_at_other_points(same, subtests):
    """What is read there, and what a change there does."""
    nnsight = pytest.importorskip("nnsight", reason="nnsight is not installed")
    model = nnsight.NNsight(deepcopy(same.theirs))
    names = {"model": model, "d_model": 12}
    names["block"] = eval(same.defined["block"], names)
    assert eval(re.match(r"block\.\w+\.source", same.defined["softmax"])[0], names)
    points = [row for row in same.rows if row[-1]]
    assert len(points) == (16 if same.kind == "GPT-2" else 15)
    for hook, shape, _, point in points:
        with subtests.test(point):
            point = re.sub("^softmax", same.defined["softmax"], point)
            with torch.no_grad(), model.trace(same.tokens):
                value = eval(point, names)
                read = value.clone().save()
                value[:] = _changed(value, shape)
                logits = model.output.logits.save()
            there = same.cache[hook]
            if hook == "hook_pos_embed":
                there = there[:1]  # the same for each text
            # heads lie side by side
            assert read.shape == there.shape or read.shape == there.flatten(2).shape
            assert _are_equal(read, there.reshape(read.shape))
            wanted = _after_a_change(same, hook, shape)
            assert _are_equal(logits, wanted)
            if point[-1] != "]":  # a new tensor can be put there
                with torch.no_grad(), model.trace(same.tokens):
                    new = _changed(eval(point, names), shape)
                    exec(f"{point} = new", names | {"new": new})
                    logits = model.output.logits.save()
                assert _are_equal(logits, wanted) == (hook != BETWEEN)


def test_a_bridge_has_raw_weights_until_it_is_told(same):
    bridge = _bridge(same)
    keys = 1 if same.kind == "Llama" else 3
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        theirs, ours = getattr(bridge, name), getattr(same.hooked, name)
        heads = keys if name in {"W_K", "W_V"} else 3
        assert theirs.shape[1] == heads and ours.shape[1] == 3
        assert torch.equal(theirs.expand_as(ours), ours)

    folded = deepcopy(same.hooked)
    folded.load_and_process_state_dict(folded.state_dict())
    bridge.enable_compatibility_mode()
    assert not torch.allclose(folded.W_Q, same.hooked.W_Q)
    assert torch.allclose(bridge.W_Q, folded.W_Q, atol=1e-5)
    caches = [model.run_with_cache(same.tokens)[1] for model in (bridge, folded)]
    for name in ("blocks.0.hook_attn_out", "blocks.1.hook_resid_post", "unembed.hook_out"):
        assert _are_equal(*(cache[name] for cache in caches))


def test_what_each_head_adds_can_be_computed(same):
    """From z: with each library's W_O, as the glossary has it."""
    formula = "z[:, :, 1] @ W_O[1]"
    assert f"`{formula}`" in OTHERS
    added = same.cache["blocks.0.attn.hook_result"][:, :, 1]
    for model in (same.hooked, _bridge(same)):
        z = model.run_with_cache(same.tokens)[1]["blocks.0.attn.hook_z"]
        assert _are_equal(eval(formula, {"z": z, "W_O": model.W_O[0]}), added)

    names = {"model": same.theirs, "n_heads": 3, "d_head": 4}
    names["block"] = eval(same.defined["block"], names)
    (split,) = re.findall(r"`(\.unflatten\(-1.*?)`", OTHERS)
    side_by_side = same.cache["blocks.0.attn.hook_z"].flatten(2)
    names |= {"z": eval("z" + split, names | {"z": side_by_side})}
    names |= {"W_O": eval(same.defined["W_O"], names)}
    assert _are_equal(eval(formula, names), added)


def test_a_bridge_to_a_native_model_leaves_that_to_its_reader():
    sizes = {"n_layers": 1, "d_model": 12, "n_ctx": 7, "d_head": 4, "n_heads": 3, "d_vocab": 11}
    bridge = TransformerBridge.boot_native({**sizes, "attn_only": True, "normalization_type": None})
    with pytest.raises(NotImplementedError, match="use_attn_result"):
        bridge.set_use_attn_result(True)
    cache = bridge.run_with_cache(torch.randint(0, 11, (2, 5)))[1]
    z = cache["blocks.0.attn.hook_z"]
    added = sum(z[:, :, head] @ bridge.W_O[0][head] for head in range(3))
    assert _are_equal(added + bridge.b_O[0], cache["blocks.0.hook_attn_out"])


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
