"""Every public function against a table of bad inputs.

Each gets one clear sentence, and none comes from inside torch.
"""

import copy
import inspect
import math
import re
import traceback
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformer_lens import FactoredMatrix

import course_lessons
import course_utils
from course_lessons import (
    boxes,
    by_hand,
    drawings,
    fourier,
    gpt,
    insertions,
    max_of_list,
    programs,
    thin_tables,
)
from course_lessons.formation import (
    events,
    experiments,
    forward,
    language,
    measures,
    runs,
)
from course_lessons.l04b_what_reading_misses import hiding
from course_lessons.l05_max_of_list import copies
from course_lessons.l05b_what_a_proof_costs import proofs
from course_lessons.l06_composition import null
from course_lessons.l07b_second_writer import kinds
from course_lessons.l09_mlps import addition, figures
from course_lessons.l09b_grokking import grokking
from course_lessons.l09c_superposition import autoencoder, neurons, superposition
from course_lessons.l10_reading_critically import to_logit
from course_lessons.l10b_methods_on_trial import trial
from course_lessons.sealed import cases, investigate, languages, new_boxes
from course_utils import (
    bigrams,
    circuits,
    composition,
    heads,
    interventions,
    measure,
    models,
    paths,
    plots,
    smollm2,
    text,
)
from course_utils.training import tasks, train
from tests.states import otherwise


def _model(n_layers):
    config = {
        "n_layers": n_layers,
        "d_model": 16,
        "n_heads": 2,
        "d_head": 8,
        "n_ctx": 12,
        "d_vocab": 30,
        "seed": 0,
    }
    shape = {
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": "shortformer",
    }
    return models.initial(config | shape).requires_grad_(False)


OURS = {Path(package.__file__).parent for package in (course_lessons, course_utils)}
MODEL = _model(2)
ADDER = by_hand.from_neurons(torch.rand(53, 4), torch.rand(4, 53))
TOKENS = torch.randint(1, 30, (2, 9), generator=torch.Generator().manual_seed(0))
START_FIRST = torch.cat([torch.zeros_like(TOKENS[:, :1]), TOKENS], 1)
STREAM = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(0))
PATTERN = torch.ones(5, 5).tril() / 5
GPT = gpt.random_weights(gpt.shapes(d_vocab=30, n_ctx=9, d_model=8, n_heads=2, n_layers=1))
NAMES = ["a", "b", "c", "d", "e"]
FACTORED = FactoredMatrix(torch.rand(6, 2), torch.rand(2, 6))
TABLE = torch.rand(6, 6)
AXES = plots.plt.subplots()[1]
X, W, BIAS = torch.rand(2, 5, 8), torch.rand(2, 8, 4), torch.rand(8)
TASK = tasks.TASKS["addition"]
HEAD = {"model": MODEL, "layer": 0, "head": 1}
VOTES = torch.rand(4, 3, 4, 4)
WEIGHTS = dict(zip(("W_E", "W_Q", "W_K", "W_V", "W_O", "W_U"), torch.rand(6, 5, 5), strict=True))
CLOCK = torch.rand(53, 53, 53)
ZEROS = torch.zeros(5, 5, requires_grad=True)
REPEAT = programs.Program({"reader": programs.Head(programs.back(1), {"token": "out"})})
GOOD = {  # a call of each function that is right
    bigrams.count: {"stream": TOKENS[0], "d_vocab": 30},
    bigrams.add_alpha: {"table": TABLE, "alpha": 0.5},
    bigrams.kneser_ney: {"table": (9 * TABLE).round()},
    thin_tables.pair_loss: {"logits": TABLE, "pairs": TABLE},
    thin_tables.fit: {
        "logits_of": torch.clone,
        "weights": [torch.zeros(6, 6, requires_grad=True)],
        "pairs": TABLE,
        "steps": 2,
    },
    thin_tables.train_factors: {"N": TABLE, "rank": 2},
    thin_tables.svd_cut: {"table": TABLE, "rank": 2},
    bigrams.table_loss: {"logprobs": torch.rand(30, 30), "tokens": TOKENS},
    thin_tables.between_rows: {"table": TABLE},
    thin_tables.row_centred_correlation: {"A": TABLE, "B": TABLE.T, "mask": TABLE > 0.2},
    languages.blocks: {"n": 5, "batch": 2, "seed": 1, "among": 7},
    languages.unrelated: {"period": 5, "batch": 2, "seed": 1},
    cases.compiled: {"name": "decoy", "seed": 1},
    languages.texts: {"language": "blocks", "shown": True},
    languages.templates: {"batch": 2, "seed": 1, "extra": 1},
    investigate.losses: {"box": MODEL, "tokens": TOKENS},
    investigate.loss: {"box": MODEL, "tokens": TOKENS},
    investigate.cost: {"box": MODEL, "tokens": TOKENS},
    investigate.who: {"box": MODEL, "tokens": TOKENS},
    investigate.doors_of: {"box": MODEL, "reader": (1, 1), "tokens": TOKENS},
    investigate.first_look: {"box": MODEL, "tokens": TOKENS},
    circuits.qk: HEAD,
    circuits.ov: HEAD,
    circuits.full_qk: HEAD,
    circuits.full_ov: HEAD,
    circuits.eigenvalues: {"matrix": FACTORED},
    circuits.copying_score: {"matrix": FACTORED},
    circuits.copying_scores: {"model": MODEL},
    circuits.row_maxima: {"matrix": FACTORED},
    circuits.self_rate: {"table": TABLE, "k": 2},
    circuits.lead: {"matrix": FACTORED, "pairs": torch.tensor([[0, 1]])},
    circuits.leads: {"matrix": FACTORED, "pairs": torch.tensor([[0, 1]])},
    circuits.top_entries: {"matrix": FACTORED, "k": 3},
    composition.reading: {"model": MODEL, "mode": "K"},
    composition.scores: {"model": MODEL, "mode": "K"},
    null.null: {"model": MODEL, "mode": "K", "samples": 2, "seed": 0},
    composition.match_matrix: {"model": MODEL, "later": (1, 0), "earlier": (0, 1), "query": (0, 0)},
    max_of_list.built: {"weights": WEIGHTS},
    max_of_list.tables: {"model": MODEL, "n": 3},
    max_of_list.number_line: {"table": TABLE},
    max_of_list.one_line: {"model": MODEL, "n": 3},
    max_of_list.left_over: {"model": MODEL},
    copies.beaten: {"model": MODEL},
    copies.outvoted_by: {"model": MODEL, "M": 3, "last": 2},
    max_of_list.vote_table: {"model": MODEL, "n": 3, "extra": torch.rand(30, 3, 30).double()},
    max_of_list.try_all: {"votes": VOTES},
    max_of_list.worst_cases: {"votes": VOTES},
    max_of_list.census: {"votes": VOTES, "most": 9},
    proofs.operations: {"proof": lambda: TABLE.sum()},
    proofs.line_weight: {"model": MODEL, "n": 3, "exact": True},
    proofs.least_margins: {"model": MODEL, "n": 3},
    proofs.values_allowed: {"model": MODEL, "n": 3, "weight": torch.rand(30, 30)},
    proofs.share_proved: {"allowed": [0, 1], "n": 3},
    proofs.voices: {"model": MODEL, "n": 3},
    proofs.wrong_with_steps: {"model": MODEL, "n": 3, "steps": torch.rand(29)},
    language.bigram_probabilities: {"seed": 0},
    language.documents: {"n": 2, "seed": 0},
    language.predictable: {"tokens": TOKENS},
    language.sources: {"tokens": TOKENS},
    language.table_loss: {"tokens": TOKENS},
    language.profit: {"tokens": TOKENS, "distance": 2},
    forward.logits: {"model": MODEL, "tokens": TOKENS, "silent": []},
    forward.held_logits: {"model": MODEL, "tokens": TOKENS, "other": MODEL, "held": ["look"]},
    runs.previous_token_weights: {
        "W_pos": models.sinusoids(9, 8),
        "d_head": 4,
        "scale": 2.0,
        "back": 2,
    },
    runs.smeared: {"keys": torch.rand(2, 5, 3, 4)},
    runs.shuffled_places: {"n_ctx": 9},
    measures.offsets: {"model": MODEL, "tokens": TOKENS, "period": 3, "most": 2},
    measures.matches: {"model": MODEL},
    measures.doors: {"model": MODEL, "tokens": TOKENS, "period": 3},
    measures.saving: {"logits": torch.zeros(2, 9, 30), "tokens": TOKENS, "period": 3},
    events.chosen_head: {"history": [{"copying": [[0.1, 0.2]]}], "score": "copying", "layer": 0},
    events.event_time: {"steps": [0, 1, 2], "values": [0.0, 0.1, 1.0], "share": 0.5},
    events.reached: {"steps": [0, 1, 2], "values": [0.0, 0.1, 1.0], "level": 0.5, "rising": True},
    events.exponent: {"sizes": [1.0, 2.0, 4.0], "times": [2.0, 3.0, 5.0]},
    events.paired_test: {"first": [1.0, 2.0], "second": [2.0, 3.0]},
    heads.patterns: {"model": MODEL, "tokens": TOKENS},
    heads.value_weighted: {"model": MODEL, "tokens": TOKENS},
    interventions.cut: {"model": MODEL},
    interventions.all_but: {"model": MODEL},
    interventions.stand_ins: {"model": MODEL, "layer": 1, "tokens": TOKENS},
    interventions.patched: {
        "model": MODEL,
        "name": "blocks.0.hook_resid_pre",
        "value": torch.rand(2, 9, 16),
        "index": (0,),
    },
    heads.previous_token_score: {"pattern": PATTERN},
    heads.prefix_matching_score: {"pattern": PATTERN, "period": 2},
    models.initial: {
        "config": {"seed": 0, "n_layers": 0, "d_model": 4, "n_ctx": 3, "d_head": 2, "d_vocab": 5}
    },
    by_hand.from_circuits: {
        "QK": torch.rand(2, 9, 9),
        "OV": torch.rand(2, 9, 9),
        "d_vocab": 4,
        "n_ctx": 3,
    },
    by_hand.from_neurons: {"curves": torch.rand(6, 4), "votes": torch.rand(4, 6)},
    models.sinusoids: {"n_ctx": 5, "d_model": 4},
    paths.of_tables: {
        "QK": torch.rand(2, 30, 30),
        "OV": torch.rand(2, 30, 30),
        "tokens": TOKENS[0],
    },
    paths.run: {"model": MODEL, "tokens": TOKENS[0]},
    to_logit.to_logit: {"model": MODEL, "tokens": TOKENS[0], "out": 3},
    gpt.words: {"documents": ["a b", "b a"]},
    gpt.count_pairs: {"words": {"ab": 1}, "spelled": {"ab": ["a", "b"]}},
    gpt.merge: {"tokens": NAMES, "pair": ("a", "b")},
    gpt.shapes: {"d_vocab": 9, "n_ctx": 5, "d_model": 8, "n_heads": 2, "n_layers": 1},
    gpt.initial_weights: {"shapes": {"embed.W_E": (9, 8)}, "seed": 1},
    gpt.random_weights: {"shapes": {"embed.W_E": (9, 8)}, "seed": 1},
    gpt.parts: {"weights": {"blocks.0.ln1.w": BIAS}, "norm": len, "attention": len, "mlp": len},
    gpt.split: {"streams": [TOKENS[0], TOKENS[1]], "n_ctx": 4},
    gpt.drawn: {"p": PATTERN, "generator": torch.Generator()},
    gpt.batches: {"stream": TOKENS[0], "name": "a", "steps": 2, "n_ctx": 4},
    gpt.by_layer: {"weights": {"blocks.0.ln1.w": BIAS}},
    gpt.greedy: {"log_probs": PATTERN},
    gpt.write: {
        "logits": lambda texts: torch.rand(*texts.shape, 7, device=texts.device),
        "texts": TOKENS,
        "n": 2,
    },
    gpt.no_mask: {"scores": PATTERN},
    gpt.patterns: {"weights": GPT, "tokens": TOKENS},
    gpt.logits: {"weights": GPT, "tokens": TOKENS},
    gpt.beam_search: {
        "log_probs": lambda texts: torch.rand(len(texts), 7).log_softmax(-1),
        "tokens": TOKENS[0],
        "width": 2,
        "steps": 2,
    },
    plots.show: {"alt": "a picture"},
    plots.picture: {"alt": "a picture", "sharp": False},
    plots.written: {"value": -0.5, "spec": ".2f"},
    plots.bars: {"values": {"a": 1.0, "b": 2.0}, "title": "", "unit": "", "highlight": ["a"]},
    plots.grouped_bars: {
        "groups": {"a": [1.0, 2.0], "b": [2.0, 0.5]},
        "places": ["0.0", "0.1"],
        "title": "",
        "unit": "",
    },
    plots.panels: {
        "named": {"left": 1, "right": 2},
        "size": (9.0, 3.0),
        "xlabel": "",
        "ylabel": "",
        "rows": 1,
    },
    plots.alt_texts: {"file": figures.__file__},
    plots.curves: {
        "by_name": {"a": [1.0, 2.0]},
        "title": "",
        "xlabel": "",
        "ylabel": "",
        "lines": True,
        "size": 5.0,
    },
    drawings.box: {"axes": AXES, "x": 0.0, "y": 0.0, "label": "a", "colour": "white"},
    drawings.arrow: {
        "axes": AXES,
        "start": (0.0, 0.0),
        "end": (1.0, 1.0),
        "colour": "black",
        "line": "-",
        "bend": 0.1,
    },
    drawings.streams: {"tokens": ["a", "b", "a"], "to_come": "b", "height": 3.0},
    drawings.numbers: {
        "axes": plots.plt.figure().add_subplot(),
        "table": torch.rand(2, 2),
        "rows": ["a", "b"],
        "columns": ["c", "d"],
        "title": "",
        "ylabel": "",
        "xlabel": "",
        "spec": ".1f",
    },
    plots.heatmap: {
        "matrix": PATTERN,
        "rows": NAMES,
        "columns": NAMES,
        "title": "",
        "ylabel": "",
        "xlabel": "",
    },
    plots.attention: {"pattern": PATTERN, "tokens": NAMES, "title": ""},
    plots.attention_heads: {"patterns": PATTERN[None], "tokens": NAMES},
    hiding.without_start: {"patterns": PATTERN[None]},
    hiding.start_hidden: {"heads": [0, 1]},
    hiding.start_value_at_zero: {"heads": [0, 1]},
    insertions.contexts: {
        "tokens": torch.ones(2, 70, dtype=torch.long),
        "n": 3,
        "generator": torch.Generator(),
        "d_vocab": 30,
    },
    superposition.cases: {"n": 4},
    superposition.probabilities: {"x": torch.eye(4), "density": 0.1},
    superposition.losses: {
        "W": torch.rand(4, 2),
        "b": torch.rand(4),
        "densities": [0.1, 0.2],
        "relu": True,
    },
    superposition.left_over: {
        "W": torch.rand(4, 2),
        "b": torch.rand(4),
        "densities": [0.1, 0.2],
        "relu": True,
    },
    superposition.train: {
        "n": 3,
        "m": 2,
        "densities": [0.1],
        "relu": True,
        "steps": 2,
        "copies": 2,
        "seed": 0,
        "counts": [0.5],
    },
    superposition.planted: {"nested": True, "rows": 9, "seed": 0},
    superposition.directions: {"m": 5},
    superposition.joined: {"truth": torch.rand(24, 5)},
    superposition.like_children: {"found": torch.rand(24, 20)},
    superposition.fires: {
        "strength": torch.rand(9, 3),
        "like": torch.rand(3, 24),
        "on": torch.ones(9, 24),
    },
    neurons.activations: {"model": ADDER, "tokens": TOKENS[:, :2]},
    neurons.judged: {"fired": torch.arange(4) > 1, "rule": torch.arange(4) != 2},
    autoencoder.left_over_at_best: {"x": torch.rand(9, 4), "directions": torch.rand(3, 4)},
    autoencoder.train: {
        "x": torch.rand(9, 4),
        "features": 6,
        "on": 2,
        "steps": 2,
        "batch": 3,
        "seed": 0,
    },
    grokking.is_train: {"seed": 0},
    grokking.is_new: {"seed": 0},
    grokking.losses: {"tables": CLOCK},
    grokking.by_sum: {"one": CLOCK},
    grokking.strongest: {"one": CLOCK, "where": grokking.ALL},
    grokking.key_frequencies: {"one": CLOCK, "where": grokking.ALL},
    grokking.rivals: {"one": CLOCK, "where": grokking.ALL, "seed": 0},
    grokking.scaled: {"tables": CLOCK[None], "where": grokking.ALL},
    grokking.restricted: {"one": CLOCK, "frequencies": [1], "where": grokking.ALL},
    grokking.table: {"model": ADDER},
    boxes.box: {"program": "keys", "seed": 1},
    boxes.repeated: {"period": 5, "batch": 2, "seed": 1},
    boxes.doors: {"model": MODEL},
    boxes.loss: {"model": MODEL, "tokens": TOKENS},
    boxes.recorded: {"model": MODEL, "tokens": TOKENS},
    boxes.through: {"model": MODEL, "door": ((0, 0), "k", (1, 1))},
    trial.minus_logit: {"model": MODEL, "tokens": TOKENS},
    trial.divergence: {"model": MODEL, "clean": TOKENS},
    measure.losses: {"model": MODEL, "tokens": TOKENS},
    measure.cost: {"model": MODEL, "cuts": [(1, 0)], "tokens": TOKENS},
    measure.mean_and_error: {"values": torch.arange(4.0), "clusters": torch.tensor([0, 0, 1, 1])},
    measure.inserted: {
        "model": MODEL,
        "contexts": TOKENS,
        "tokens": torch.tensor([3]),
        "back": torch.tensor([2]),
        "out": torch.tensor([1, 4]),
    },
    measure.on_text: {"model": MODEL, "tokens": TOKENS, "window": 2},
    measure.on_repeats: {"model": MODEL, "tokens": TOKENS, "period": 3},
    programs.where: {"there": "token", "equals": "token", "itself": False},
    programs.back: {"n": 2},
    programs.both: {"one": programs.back(1), "other": programs.where("token")},
    programs.listed: {"points": TABLE},
    programs.but_not: {"look": programs.back(1), "there": "token", "equals": "token"},
    programs.unless: {"flag": "any", "look": programs.back(1)},
    programs.run: {"program": REPEAT, "tokens": START_FIRST, "d_vocab": 30, "without": ["reader"]},
    programs.compiled: {"program": REPEAT, "d_vocab": 9, "n_ctx": 5},
    tasks.answers: {"task": TASK, "tokens": TOKENS},
    tasks.sequences: {"length": 3, "d_vocab": 9},
    tasks.is_held_out: {"task": TASK, "tokens": TOKENS},
    tasks.examples: {"task": TASK},
    tasks.batch_of: {"task": TASK, "step": 3, "training": [TOKENS]},
    fourier.power: {"W": TABLE},
    fourier.basis: {"frequencies": [1.0, 2.5], "n": 6},
    fourier.projected: {"W": TABLE, "frequencies": [1.0, 2.5]},
    fourier.explained: {"W": TABLE, "frequencies": [1.0, 2.5]},
    fourier.phase: {"W": TABLE, "frequency": 1.5},
    fourier.height: {"W": TABLE, "frequency": 1.5},
    addition.curves: {"model": ADDER},
    addition.active: {"model": ADDER},
    addition.best_waves: {"W": TABLE},
    addition.share_of_waves: {"model": ADDER},
    addition.waves_among_walks: {"steps": 9},
    addition.spectrum: {"model": ADDER},
    addition.portraits: {"model": ADDER, "chosen": {"slopes": 2}},
    addition.without_neurons: {"model": ADDER, "neurons": [2]},
    addition.cuts: {"model": ADDER, "seed": 0},
    addition.right_with_waves: {"model": ADDER},
    addition.averaged_votes: {
        "A": torch.rand(3, 1),
        "B": torch.rand(3, 1),
        "C": torch.rand(2),
        "times": 2.0,
    },
    addition.rulers: {"model": ADDER},
    addition.phases: {"model": ADDER, "least": 0.5},
    text.train_tokenizer: {"documents": ["a b", "b a"], "d_vocab": 260},
    text.encode: {"documents": ["a b"]},
    text.visible: {"token": " a"},
    text.require_whole_characters: {"words": "a b"},
    text.held_out_documents: {"kind": "prose"},
    text.windows: {"stream": TOKENS[0], "n_ctx": 4},
    text.held_out_tokens: {"kind": "prose", "n_ctx": 8},
    text.held_out_origins: {"kind": "prose", "n_ctx": 8},
    kinds.kinds_of_position: {"tokens": TOKENS},
    kinds.variants: {"change": str.capitalize},
    kinds.words_again: {"tokens": TOKENS[0]},
    text.different_tokens: {"n": 3, "batch": 2, "among": 9, "generator": torch.Generator()},
    text.repeated_tokens: {
        "length": 3,
        "batch": 2,
        "repeats": 2,
        "weights": [0.0, 1.0, 2.0],
        "d_vocab": 3,
        "seed": 0,
    },
}
# What gets learners' functions, or anything at all, what authors and teachers call, and what has a
# table of its own
UNREACHED = {"check", "claim", "claims", "identity", "load", "microscope", "predict"}
MODULES = [getattr(course_utils, name) for name in course_utils.__all__ if name not in UNREACHED]
# of the lessons' code what is no figure and no check
MODULES += [by_hand, drawings, fourier, programs]
MODULES += [gpt, thin_tables, insertions, hiding]
MODULES += [max_of_list, proofs, copies, null, kinds]
MODULES += [events, experiments, forward, language, measures, runs]
MODULES += [addition, grokking, autoencoder, neurons, superposition]
MODULES += [boxes, trial, to_logit, cases, investigate, languages, new_boxes]
# They read or write files, or run for long: their own tests give them bad input.
PERSONAL = {
    insertions.random_sources,
    insertions.strongest,
    insertions.gain,
    insertions.by_distance,
    gpt.learn,
    models.load,
    models.history,
    models.save_weights,
    models.snapshot_name,
    models.require_head,
    models.all_heads,
    smollm2.hooked,
    smollm2.in_transformers,
    interventions.head_name,
    interventions.in_words,
    paths.terms,
    paths.pairs,
    train.interval,
    train.learning_rate,
    train.loop,
    train.batch_of,
    train.train,
    train.alone,
    train.main,
    runs.start,
    runs.train,
    runs.result,
    runs.sweep,
    runs.as_stored,
    grokking.train,
    grokking.measured,
    grokking.told,
    grokking.steps_before,
    grokking.main,
    boxes.along,
    boxes.patched,
    boxes.lost,
    trial.path_patching,
    trial.attribution_patching,
    trial.eap_ig,
    trial.composition_scores,
    trial.size_of_change,
    trial.average_precision,
    trial.reachable,
    trial.score,
    trial.trial,
    trial.over_programs,
    languages.generator,
    languages.pool,
    cases.trained,
    cases.ways,
    cases.built,
    cases.with_backup,
    cases.unread,
    cases.stored,
    cases.main,
    new_boxes.made,
    new_boxes.opened,
    new_boxes.solvable,
    new_boxes.write,
    new_boxes.main,
}
PERSONAL |= {
    function
    for function in vars(experiments).values()
    if getattr(function, "__module__", "") == experiments.__name__
}


def _with_nan(value):
    return torch.where(torch.arange(value.numel()).view(value.shape) == 0, math.nan, value)


def _bad(name, value):
    """What may be passed by mistake in place of a good value: {what is wrong: the thing}."""
    if name == "model":
        return {"a name for the model": "two-layer", "None": None}
    if isinstance(value, FactoredMatrix):
        nan = FactoredMatrix(_with_nan(value.A), value.B)
        return {"a string": "two-layer", "None": None, "a list": [1.0], "NaN": nan}
    if isinstance(value, Tensor):
        bad = {
            "a string": "tokens",
            "None": None,
            "a list": [1.0],
            "one number": 3,
            "nothing in it": value[:0],
        }
        if value.is_floating_point():
            bad |= {"NaN": _with_nan(value), "whole numbers": value.long()}
        else:
            bad["fractions"] = value.float() + 0.5
        if name in ("tokens", "stream"):
            bad |= {
                "a negative token": value - 100,
                "a token outside the vocabulary": value + 1_000,
            }
        return bad | {"no axis": value.flatten()[0]}
    if isinstance(value, bool):
        return {"a string": "yes", "None": None}
    if isinstance(value, int):
        return {
            "a string": "2",
            "half": 1.5,
            "None": None,
            "True": True,
            "negative": -7,
            "a list": [2],
        }
    if isinstance(value, float):
        return {"a string": "2", "None": None, "NaN": math.nan, "a list": [0.5]}
    if isinstance(value, str):
        return {"a number": 3, "None": None}
    if isinstance(value, list) and value and isinstance(value[0], str):
        return {"one string": "abcde", "a number": 3}
    return {"a number": 3, "a string": "abc"}


KNOW_NONE = {  # how many tokens there are
    gpt.batches,
    gpt.write,
    gpt.beam_search,
    text.windows,
    kinds.kinds_of_position,
    kinds.words_again,
    language.predictable,
    language.sources,
    language.table_loss,
    language.profit,
}
ALLOWED = {  # looks like bad input and is none
    (language.documents, "seed", "negative"),  # these are held out
    (circuits.lead, "pairs", "None"),  # all with themselves
    (circuits.leads, "pairs", "None"),
    (interventions.stand_ins, "layer", "None"),  # every layer
    (max_of_list.vote_table, "extra", "None"),  # nothing is added
    (plots.heatmap, "matrix", "NaN"),  # it draws both
    (plots.heatmap, "matrix", "whole numbers"),
}


def _is_allowed(function, name, wrong):
    unknown = "outside" in wrong and function in KNOW_NONE
    return unknown or (function, name, wrong) in ALLOWED


def test_the_table_knows_every_public_function():
    public = {
        function
        for module in MODULES
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
    }
    without_arguments = {
        function for function in public if not inspect.signature(function).parameters
    }
    assert public - without_arguments - PERSONAL == set(GOOD)


BY_MODULE = {}  # the functions of each module, by its name
for _function in GOOD:
    BY_MODULE.setdefault(_function.__module__.split(".")[-1], []).append(_function)
of_a_module = pytest.mark.parametrize("functions", BY_MODULE.values(), ids=BY_MODULE)


def _each(value, change):
    """A good value with every tensor in it changed, those of a model too."""
    if isinstance(value, nn.Module):
        other = copy.deepcopy(value)
        for part in other.modules():
            for held in (part._parameters, part._buffers):
                held |= {name: _each(tensor, change) for name, tensor in held.items()}
        other.cfg.device = "meta" if next(other.parameters()).is_meta else "cpu"
        return other
    if isinstance(value, nn.Parameter):
        return nn.Parameter(change(value.detach()), value.requires_grad)
    if isinstance(value, Tensor):
        return change(value.detach()).requires_grad_(value.requires_grad)
    if isinstance(value, FactoredMatrix):
        return FactoredMatrix(_each(value.A, change), _each(value.B, change))
    if isinstance(value, dict):
        return {key: _each(one, change) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_each(one, change) for one in value))
    if isinstance(value, list | tuple):
        return type(value)(_each(one, change) for one in value)
    return value


def _double(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


DRAWN = {plots.__name__, drawings.__name__}
# What torch says where something asks for the numbers of a tensor that has only a shape
NO_NUMBERS = "no data|on meta tensors|with Meta tensors|register_meta|Meta kernel"


UNTRIED_ON_META = {
    plots.show,  # as `plots.picture`
    thin_tables.train_factors,  # 200 steps take seconds there
}


class _DrawnWhereItsGeneratorIs(TorchFunctionMode):
    """What a generator draws is on its device: on a GPU torch refuses anything else."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        generator = (kwargs or {}).get("generator")
        if generator is not None and isinstance(made, Tensor):
            assert made.device.type == generator.device.type, 'give it device="cpu"'
        return made


@of_a_module
def test_what_a_function_makes_is_where_its_arguments_are(subtests, functions):
    for function in functions:
        if function in UNTRIED_ON_META:
            continue
        with (
            subtests.test(function.__name__),
            torch.random.fork_rng(),
            _DrawnWhereItsGeneratorIs(),
        ):
            if function is plots.picture:
                plots.bars(**GOOD[plots.bars])
            try:
                function(**_each(GOOD[function], lambda tensor: tensor.to("meta")))
            except (RuntimeError, ValueError) as error:
                assert re.search(NO_NUMBERS, str(error)), error


@of_a_module
def test_it_is_as_precise_as_its_arguments_and_takes_a_model_in_training(subtests, functions):
    for function in functions:
        if function.__module__ in DRAWN:
            continue
        with subtests.test(function.__name__), torch.random.fork_rng():
            given = _each(GOOD[function], _double)
            if "model" in given:
                given["model"].requires_grad_(True)  # of a model in training
            _call(function, given)


def _call(function, arguments):
    if function in (plots.show, plots.picture):
        plots.bars(**GOOD[plots.bars])
    return function(**arguments)


def _kinds(value):
    """Precision and place of every tensor in a result."""
    if isinstance(value, Tensor):
        return value.dtype, value.device
    if isinstance(value, FactoredMatrix):
        return _kinds([value.A, value.B])
    if isinstance(value, dict):
        return _kinds([*value.values()])
    return [_kinds(one) for one in value] if isinstance(value, list | tuple) else None


@of_a_module
def test_it_does_not_ask_how_the_notebook_has_set_torch(subtests, functions):
    for function in functions:
        with subtests.test(function.__name__), torch.random.fork_rng():
            with otherwise():
                made = _call(function, GOOD[function])
                assert torch.get_default_dtype() == torch.float64  # the notebook's own
            is_drawn = function.__module__ in DRAWN
            assert is_drawn or _kinds(made) == _kinds(_call(function, GOOD[function]))


@of_a_module
def test_bad_input_is_one_clear_sentence(subtests, functions):
    for function in functions:
        for name, value in GOOD[function].items():
            for wrong, bad in _bad(name, value).items():
                if not _is_allowed(function, name, wrong):
                    with subtests.test(f"{function.__name__}, {name}: {wrong}"):
                        _is_refused(function, GOOD[function] | {name: bad})


def _is_refused(function, arguments):
    with pytest.raises((TypeError, ValueError, IndexError)) as caught:
        function(**arguments)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message
    assert 20 < len(message) < 250
    # raised by us, not met on the way
    where = Path(traceback.extract_tb(caught.value.__traceback__)[-1].filename)
    assert OURS & set(where.parents)
