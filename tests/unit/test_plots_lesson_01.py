"""What lessons 01 and 01b draw: every number in its place, without a warning."""

import warnings

import matplotlib

matplotlib.use("Agg")  # before pyplot looks for a window system

import matplotlib.pyplot as plt
import pytest
import torch

from course_lessons.l01_transformer import figures as draw
from course_lessons.l01b_writing import figures as beside
from course_lessons.l01b_writing import sampling

NAMES = [" $a", "b\n", "_c"]  # among them, what matplotlib takes for bad mathematics
SCORES = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.25, -3.0], [0.0, 0.125, 7.0]])


@pytest.fixture(autouse=True)
def strict():
    """Every warning is an error, and no figure is left open."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
    plt.close("all")


def _words(axes):
    return [text.get_text() for text in axes.texts]


def test_the_machine_names_what_goes_in_and_what_comes_out():
    draw.machine(NAMES, ["x", "y z", "w"])
    words = _words(plt.gca())
    assert {"·$a", "b↵", "_c", "y·z"} <= set(words) and words.count("MLP") == 3


def test_the_line_stands_beside_the_bars():
    axes = draw.beside_line({"a": 0.5, "b": 1.0}, "?", "share", 0.75, "before", "a")
    assert list(axes.lines[0].get_xdata()) == [0.75, 0.75] and axes.patches[0].get_width() == 0.5


def test_a_piece_is_as_wide_as_its_characters():
    axes = beside.pieces({"bytes": list("Ġab"), "merged": [" a", "b"]})
    assert [bar.get_width() for bar in axes.patches] == [1, 1, 1, 2, 1] and "·a" in _words(axes)


def test_the_softmax_stands_beside_its_logits():
    left, right = draw.softmax(NAMES, SCORES[0], SCORES[0].softmax(-1))
    assert [bar.get_width() for bar in left.patches] == SCORES[0].tolist()
    assert sum(bar.get_width() for bar in right.patches) == pytest.approx(1)


def test_what_is_normed_has_mean_0():
    _, normed, _ = draw.normed_and_bent()
    heights = [bar.get_height() for bar in normed.patches]
    assert sum(heights) == pytest.approx(0, abs=1e-5) and min(map(abs, heights)) > 0.1


def test_the_pairs_lose_less_than_single_tokens_where_every_other_token_follows_from_the_last():
    # 0 is the start token
    drawn = torch.randint(1, 50, (1000,), generator=torch.Generator().manual_seed(0))
    stream = torch.stack([drawn, drawn * 5 % 49 + 1], dim=1).flatten()
    single, pairs = beside.plain_losses(stream, stream.view(20, 100)).values()
    assert single == pytest.approx(4.1, abs=0.1) and 1 < pairs < 3


def test_top_k_keeps_k_and_divides_by_their_sum():
    kept = sampling.top_k(torch.tensor([[0.5, 0.3, 0.2]]).log(), 2)
    assert kept[0].tolist() == pytest.approx([0.625, 0.375, 0])


def test_training_draws_both_losses_of_each_run_and_a_line_for_each_table():
    run = {"seen": [3.0 - 0.01 * step for step in range(50)], "new text": [2.9, 2.8]}
    run |= {"next": [0.25, 0.5], "previous": [0.25, 0.125]}
    losses, looks = beside.training({"masked": run, "no mask": run}, {"table": 2.5}, every=25)
    assert len(losses.lines) == 5 and list(losses.lines[2].get_xdata()) == [25, 50]
    assert [list(line.get_ydata()) for line in looks.lines[:2]] == [[0.25, 0.5], [0.25, 0.125]]


def test_a_text_stands_at_its_gap():
    axes = beside.gaps({"author": torch.tensor([1.0, 2.0, 3.0]), "greedy": torch.tensor([-0.5])})
    assert axes.lines[0].get_xdata().tolist() == [1, 2, 3] and axes.lines[1].get_xdata()[0] == 2


def test_top_p_keeps_as_few_as_reach_the_share():
    kept = sampling.top_p(torch.tensor([[0.2, 0.5, 0.3]]).log(), 0.7)
    assert kept[0].tolist() == pytest.approx([0, 0.625, 0.375])


def test_the_last_row_of_a_pattern_stands_beside_it():
    pattern = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]])
    rows = {"one": pattern[2], "other": pattern[1]}
    table, row = draw.chosen(NAMES, pattern, rows, ["a or b", *NAMES[1:]])
    assert next(label.get_text() for label in row.get_xticklabels()) == "a or b"
    assert table.images[0].get_array().mask.tolist() == (pattern == 0).tolist()
    assert [bar.get_height() for bar in row.patches[:3]] == [0.25, 0.25, 0.5]
    assert table.patches[-1].get_xy() == (-0.5, 1.5)


def test_what_a_source_brings_stands_in_its_row():
    columns = {"weight": SCORES[1].abs(), "length": SCORES[2]}
    left, right = draw.brought(NAMES, columns, ["_c"])
    assert [bar.get_width() for bar in left.patches] == [1, 0.25, 3]
    assert [bar.get_width() for bar in right.patches] == SCORES[2].tolist()
    assert right.patches[2].get_facecolor() != right.patches[1].get_facecolor()


def test_both_cuts_stand_side_by_side():
    axes = beside.two_cuts(["a", "b"], {"x": [0.5, 0.25], "y": [0.0, 1.0]}, 0.75)
    assert [bar.get_height() for bar in axes.patches] == [0.5, 0.25, 0, 1]
