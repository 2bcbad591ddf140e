"""New sealed boxes for lesson 11b: made from a seed, each a file whose name is its hash.

`python -m course_lessons.sealed.new_boxes --seed 7 --level 2` makes one, and with `--tell`
says what is inside: so a teacher gives each pair its own, and learners send each other theirs, or
make one for themselves.
"""

import argparse
import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load
from transformer_lens import HookedTransformer

from course_lessons import programs
from course_lessons.programs import Head, back, where
from course_lessons.sealed import cases, judge, languages
from course_utils import models
from course_utils._arguments import validated
from course_utils.interventions import head_name


class Made(NamedTuple):
    """A new box: the model, the hypothesis that can take its place, and what its way is called.

    A hypothesis is {"0.1": Head(…), …}.
    """

    model: HookedTransformer
    hypothesis: dict[str, Head]
    way: str


def made(seed: int, level: int) -> Iterator[Made]:
    """Boxes of one seed; the first that can be solved is the seed's.

    Level 1 has one writer, 2 two, 3 a backup head.
    """
    rng, sham = languages.generator(seed), [back(1), back(2), back(3)]

    def pick(among: Any) -> Any:
        return among[torch.randint(len(among), (1,), generator=rng).item()]

    while True:
        name, first = pick([*cases.WAYS]), pick(("distance", "habit"))
        if level < 3 and (len(cases.WAYS[name].writers) == 2) != (level == 2):
            continue
        aside = pick([cases.BACK, where("unread"), where("token", itself=False)])
        decoy = {"decoy": cases.unread(aside)}
        program = cases.built(cases.WAYS[name], {"sham": cases.unread(pick(sham))}, decoy)
        if level == 3:
            program = cases.with_backup(cases.WAYS[first].look, cases.WAYS[name])
            name = f"{first}, backed up by {name}"
        with contextlib.suppress(ValueError):  # too much for one head
            sizes = cases.SIZES | {"d_model": 192}
            own_seed = pick(range(2**31))
            model, heads = cases.stored(
                programs.compiled(
                    program, languages.D_VOCAB, languages.N_CTX, own_seed, sizes=sizes
                )
            )
            hypothesis = {head_name(heads[part]): program.heads[part] for part in program.reads()}
            yield Made(model, hypothesis, name)


def solvable(seed: int, level: int) -> Made:
    """The new box of a seed, with a hypothesis that the judge accepts."""
    return next(
        new
        for new in made(seed, level)
        if judge.Trial(judge.SealedBox(new.model), new.hypothesis).solved
    )


def _named(content: bytes) -> str:
    return f"box-{hashlib.sha256(content).hexdigest()[:12]}.safetensors"


def write(model: HookedTransformer, folder: Path) -> Path:
    """A box as a file whose name is its hash.

    So two people can tell whether they have the same.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        file = Path(place) / "model.safetensors"
        models.save_weights(model, file)
        return file.replace(folder / _named(file.read_bytes()))


@validated
def opened(path: str) -> HookedTransformer:
    """The model of such a file; OSError if it isn't what its name says."""
    content = Path(path).read_bytes()
    if Path(path).name != _named(content):
        raise OSError(
            f"{path} is damaged, or has another name than it was given: its hash differs."
        )
    weights = {key: weight.float() for key, weight in load(content).items()}
    d_model = weights["embed.W_E"].shape[1]
    model = models.initial(cases.CONFIG | {"d_model": d_model}).eval().requires_grad_(False)
    model.load_state_dict(weights, strict=False)
    return model


COMMAND = "python -m course_lessons.sealed.new_boxes"


def main(arguments: list[str] | None = None) -> None:
    """Make a new box, which its seed decides."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=main.__doc__)
    parser.add_argument("--seed", type=int, required=True, help="keep it to yourself")
    parser.add_argument("--level", type=int, choices=(1, 2, 3), default=2)
    parser.add_argument("--tell", action="store_true", help="say what is inside")
    parser.add_argument(
        "--out", type=Path, default=Path(), help="the folder for it (default: this one)"
    )
    options = parser.parse_args(arguments)
    box = solvable(options.seed, options.level)
    print(write(box.model, options.out))
    if options.tell:
        print(f"inside: {box.way}, {', '.join(box.hypothesis)}")


if __name__ == "__main__":
    main()
