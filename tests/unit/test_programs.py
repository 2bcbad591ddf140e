"""Programs: run as they stand, compiled, cut; against loops that know neither."""

import itertools
from collections import Counter

import pytest
import torch

from course_lessons.programs import (
    Head,
    Program,
    back,
    both,
    compiled,
    everywhere,
    listed,
    run,
    unless,
    where,
)
from course_utils import interventions

OUT = {"token": "out"}
AFTER = where("before", equals="token")
PREVIOUS = Head(back(1), {"token": "before"})
SAME = where("token", equals="token", itself=False)
TABLE = torch.zeros(9, 9)
TABLE[1, 2] = TABLE[2, 3] = TABLE[2, 1] = TABLE[3, 3] = 1
PROGRAMS = {
    "three back": Program({"reader": Head(back(3), OUT)}),
    "relay": Program(
        {"writer": Head(back(2), {"token": "label"})}, {"reader": Head(back(1), {"label": "out"})}
    ),
    "relay of three": Program(
        {"one": Head(back(1), {"token": "a"})},
        {"two": Head(back(1), {"a": "b"})},
        {"three": Head(back(1), {"b": "out"})},
    ),
    "induction": Program({"previous": PREVIOUS}, {"reader": Head(AFTER, OUT)}),
    "pointer": Program(
        {"finder": Head(SAME, {"place": "pointer"}), "idle": Head(back(1), {"token": "unheard"})},
        {"reader": Head(where("place", equals="pointer", step=1), OUT)},
    ),
    "same two": Program(
        {"one": Head(back(1), {"token": "one"}), "two": Head(back(2), {"token": "two"})},
        {"reader": Head(both(where("one", equals="token"), where("two", equals="one")), OUT)},
    ),
    "most frequent": Program({"counter": Head(everywhere(), OUT)}),
    "most frequent other": Program(
        {"counter": Head(everywhere(), OUT), "itself": Head(back(0), OUT, loud=-2.0)}
    ),
    "listed": Program({"reader": Head(listed(TABLE), OUT)}),
    "stand-in": Program(
        {"first": Head(SAME, {"token": "out", "any": "found"}), "previous": PREVIOUS},
        {"stand-in": Head(unless("found", AFTER), OUT)},
    ),
}
RESERVE = Program({"previous": PREVIOUS, "twin": PREVIOUS}, {"reader": Head(AFTER, OUT)})
every = pytest.mark.parametrize("name", PROGRAMS)


def texts(d_vocab, n, batch, seed=0):
    body = torch.randint(1, d_vocab, (batch, n), generator=torch.Generator().manual_seed(seed))
    return torch.cat([torch.zeros(batch, 1, dtype=torch.long), body], 1)


def short():
    return torch.tensor([[0, *text] for text in itertools.product(range(1, 5), repeat=5)])


def cut(made, parts):
    """Parts by name, as heads and doors of the model."""
    named = [
        made.heads[p] if isinstance(p, str) else (made.heads[p[0]], p[1], made.heads[p[2]])
        for p in parts
    ]
    return interventions.cut(made.model, *named)


def all_doors(program):
    pairs = itertools.product(program.heads, "qkv", program.heads)
    return [(w, door, r) for w, door, r in pairs if program.layer[w] < program.layer[r]]


@every
@pytest.mark.parametrize(
    ("d_vocab", "tokens"), [(5, short()), (9, texts(9, 13, 200)), (9, texts(9, 2, 20))]
)
def test_compiled_is_what_is_run(name, d_vocab, tokens):
    program = PROGRAMS[name]
    if name == "listed":
        program = Program({"reader": Head(listed(TABLE[:d_vocab, :d_vocab]), OUT)})
    done, made = run(program, tokens, d_vocab), compiled(program, d_vocab, 14)
    logits, cache = made.model.run_with_cache(tokens)
    assert torch.allclose(logits, 10 * done.slots["out"], atol=2e-3)
    for head, (layer, number) in made.heads.items():
        assert torch.allclose(cache["pattern", layer][:, number], done.looks[head], atol=2e-4)


@every
def test_under_every_cut_too(name):
    program, tokens = PROGRAMS[name], texts(9, 11, 60, seed=1)
    made = compiled(program, 9, 12)
    for part in [*program.heads, *all_doors(program)]:
        with cut(made, [part]):
            logits = made.model(tokens)
        assert torch.allclose(
            logits, 10 * run(program, tokens, 9, [part]).slots["out"], atol=2e-3
        ), part


@pytest.mark.parametrize("name", [*PROGRAMS, "reserve"])
def test_the_truth_per_door_is_what_cuts_say(name):
    """Alone, or beside the cut of one other head."""
    program = (PROGRAMS | {"reserve": RESERVE})[name]
    tokens = texts(9, 11, 200, seed=2)
    made = compiled(program, 9, 12)

    def logits(*parts):
        with cut(made, parts):
            return made.model(tokens)

    beside = [(), *((head,) for head in program.heads)]
    without = {parts: logits(*parts) for parts in beside}

    def changes(part):
        return any(
            (logits(part, *parts) - without[parts]).abs().max().item() > 0.1 for parts in beside
        )

    assert {door for door in all_doors(program) if changes(door)} == program.doors()
    assert {head for head in program.heads if changes(head)} == {*program.reads()}


def test_a_reserve_is_a_dependence_that_no_single_cut_shows():
    made, tokens = compiled(RESERVE, 9, 12), texts(9, 11, 60)
    assert RESERVE.doors() == {("previous", "k", "reader"), ("twin", "k", "reader")}
    said = made.model(tokens).argmax(-1)
    for parts, same in ((["previous"], True), (["twin"], True), (["previous", "twin"], False)):
        with cut(made, parts):
            assert torch.equal(made.model(tokens).argmax(-1), said) == same


def votes(name, text, n):
    """What the program says after text[: n + 1], as how often each token is voted for, by loops."""
    seen, now = text[: n + 1], text[n]
    earlier = range(1, n)
    return {
        "three back": lambda: [seen[n - 3]] if n > 3 else [],
        "relay": lambda: [seen[n - 3]] if n > 3 else [],
        "relay of three": lambda: [seen[n - 3]] if n > 3 else [],
        "induction": lambda: [seen[j + 1] for j in earlier if seen[j] == now],
        "same two": lambda: [
            seen[j + 1] for j in range(2, n) if seen[j - 1 : j + 1] == seen[n - 1 :]
        ],
        "most frequent": lambda: seen[1:],
    }[name]()


@pytest.mark.parametrize("name", ["three back", "relay", "relay of three", "induction", "same two"])
def test_what_it_says_by_loops(name):
    tokens = texts(6, 12, 80, seed=3)
    out = run(PROGRAMS[name], tokens, 6).slots["out"]
    for row, text in enumerate(tokens.tolist()):
        for n in range(1, 13):
            counted = Counter(votes(name, text, n))
            wanted = torch.tensor([counted[token] / max(counted.total(), 1) for token in range(6)])
            assert torch.allclose(out[row, n], wanted, atol=1e-5), (text, n)


def test_the_most_frequent_by_loops():
    tokens = texts(6, 12, 80, seed=4)
    said = run(PROGRAMS["most frequent"], tokens, 6).said
    for row, text in enumerate(tokens.tolist()):
        for n in range(1, 13):
            counted = Counter(votes("most frequent", text, n))
            assert counted[said[row, n].item()] == max(counted.values())


def test_what_a_head_writes_can_be_interchanged():
    program = PROGRAMS["induction"]
    base = texts(9, 11, 50, seed=5)
    source = texts(9, 11, 50, seed=6)
    made, wrote = compiled(program, 9, 12), {"previous": run(program, source, 9).wrote["previous"]}
    layer, head = made.heads["previous"]
    z = made.model.run_with_cache(source)[1]["z", layer][:, :, head]
    with interventions.cut(made.model, (layer, head), instead={(layer, head): z}):
        logits = made.model(base)
    assert torch.allclose(logits, 10 * run(program, base, 9, instead=wrote).slots["out"], atol=2e-3)
    assert not torch.allclose(logits, made.model(base), atol=2e-3)


@pytest.mark.parametrize("name", ["three back", "induction", "pointer", "same two"])
def test_turned_and_blurred_it_says_the_same(name):
    made = [compiled(PROGRAMS[name], 9, 14, seed, sizes={"n_heads": 3}) for seed in (0, 1, 2)]
    assert len({tuple(one.heads.values()) for one in made}) > 1
    block = 1 + torch.stack(
        [torch.randperm(8, generator=torch.Generator().manual_seed(s))[:6] for s in range(40)]
    )
    tokens = torch.cat([torch.zeros(40, 1, dtype=torch.long), block, block], 1)
    done = run(PROGRAMS[name], tokens, 9)
    speaks = done.slots["out"].amax(-1) > 0.9
    assert speaks.any()
    for model, _ in made:
        assert all(
            (weight != 0).all()
            for weight in (model.W_E, model.W_pos, model.W_Q, model.W_O, model.W_U)
        )
        assert (model(tokens).argmax(-1) == done.said)[speaks].float().mean() > 0.98
    again = compiled(PROGRAMS[name], 9, 14, 0, sizes={"n_heads": 3}).model
    assert torch.equal(made[0].model.W_Q, again.W_Q)


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda: Program(), "one to 3 layers, not 0"),
        (
            lambda: Program(*[{str(n): Head(back(1), OUT)} for n in range(4)]),
            "one to 3 layers, not 4",
        ),
        (
            lambda: Program({"a": Head(back(1), OUT)}, {"a": Head(back(1), OUT)}),
            "Two heads have one name",
        ),
        (lambda: Program({"a": PREVIOUS}), "the program says nothing"),
        (
            lambda: Program({"a": Head(back(1), {"label": "out"})}),
            '"a" reads "label", and no head writes that slot',
        ),
        (
            lambda: Program({"previous": PREVIOUS, "reader": Head(AFTER, OUT)}),
            'which "previous" writes too late: heads of a layer read before any of them writes. '
            'Put "reader" one layer',
        ),
        (lambda: Program({"reader": Head(AFTER, OUT)}, {"previous": PREVIOUS}), "writes too late"),
        (
            lambda: Program({"a": Head(where("place", equals="token"), OUT)}),
            '"a" compares "token", which holds tokens, with "place", which holds places: they '
            "are never equal",
        ),
        (
            lambda: Program({"a": Head(where("token", equals="token", step=1), OUT)}),
            "tokens: only places have steps",
        ),
        (lambda: Program(Head(back(1), OUT)), "A layer has names"),
        (lambda: Program({"a": Head(back(1), "token")}), '"a" should be Head(look, {slot: slot})'),
        (lambda: Program({"a": Head("token", OUT)}), '"a" should be Head(look, {slot: slot})'),
        (lambda: Program({"a": Head(unless("token", back(1)), OUT)}), "they are never equal"),
        (
            lambda: Program({"a": Head(back(1), {"place": "out"})}),
            'moves places to "out", which holds tokens',
        ),
        (
            lambda: Program(
                {
                    "a": Head(back(1), {"token": "x"}),
                    "b": Head(back(1), {"place": "x", "token": "out"}),
                }
            ),
            'moves places to "x", which holds tokens',
        ),
        (
            lambda: Program({"a": Head(back(1), {"place": "token"})}),
            "which is given: write to a slot of yours",
        ),
        (
            lambda: Program(
                {"a": Head(everywhere(), {"token": "all"})}, {"b": Head(where("all"), OUT)}
            ),
            '"all", which holds the mean of all that was read. A softmax hands over means, and '
            "a mean equals no single",
        ),
        (lambda: back(-1), "Nobody can look 1 ahead"),
        (
            lambda: compiled(PROGRAMS["induction"], 9, 12, sizes={"d_model": 30}),
            "need 39 dimensions of the stream",
        ),
        (
            lambda: compiled(PROGRAMS["same two"], 9, 12, sizes={"n_heads": 1}),
            "has 2 heads, and a layer of the model 1",
        ),
        (
            lambda: compiled(PROGRAMS["induction"], 9, 12, sizes={"d_model": 40, "d_head": 8}),
            '"previous" needs 12 dimensions, and a head of the model has 8',
        ),
        (
            lambda: compiled(PROGRAMS["induction"], 9, 300, 0),
            "A softmax gives each place a little, and there are too many",
        ),
        (
            lambda: run(PROGRAMS["induction"], torch.tensor([[1, 2]]), 5),
            "begin with the start token, 0",
        ),
        (
            lambda: run(PROGRAMS["induction"], torch.tensor([[0, 2, 0]]), 5),
            "and have it nowhere else",
        ),
    ],
)
def test_a_wrong_program_gets_one_sentence(write, sentence):
    with pytest.raises(ValueError) as error:
        write()
    assert sentence in str(error.value) and "\n" not in str(error.value)
