"""Checks of lesson 01b: the exercise, and what each typical mistake is told."""

import torch

from course_lessons.fixtures import random
from course_utils.course import solutions
from course_utils.course.exercises import Answer, judged
from course_utils.course.expectations import demand, pair, tensor


@judged
def previous_token_head(answer: Answer) -> None:
    """`previous_token_head(W_pos) → W_Q, W_K`: any whose attention goes to the position before."""
    for n, d_model in ((6, 9), (13, 20), (4, 4), (40, 47)):
        W_pos = torch.linalg.qr(random(d_model, d_model, seed=n))[0][:n]
        W_Q, W_K = (
            tensor(W, (d_model, n), "[d_model, n]") for W in pair(answer(W_pos), "W_Q and W_K")
        )
        scores = solutions.find("attention_scores").function(W_pos @ W_Q, W_pos @ W_K)
        # over every source, later ones too
        favourite = scores[1:-1].argmax(-1) - torch.arange(1, n - 1)
        to_next = (favourite == 1).all()
        to_itself = (favourite == 0).all()
        pattern = solutions.find("masked").function(scores).softmax(-1)
        share, source = (one.item() for one in pattern.diagonal(-1).min(0))
        dest = int(source) + 1
        seen = int(pattern[dest].argmax())
        elsewhere = seen != source
        for said, fails in {
            "all scores are the same: is one of the two matrices zero?": scores.std() <= 1e-6,
            "each query fits the key of the *next* position, which the mask hides: "
            "turn it the other way.": to_next,
            "each position looks at itself: shift the queries against the keys.": to_itself,
            f"with {n} positions in {d_model} dimensions, "
            f"position {dest} looks mostly at position {seen}.": elsewhere,
            f"with {n} positions, position {dest} gives its predecessor {share:.3f}: "
            "make scores larger.": share < 0.99,
        }.items():
            demand(not fails, said)
