"""The experiments of lesson 08: which runs there are, when their events came, and the tables that compare them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from course_utils._arguments import checked
from course_utils._files import DATA
from course_utils.formation import runs
from course_utils.formation.runs import Run

RECIPE = Run(spread=True, batch=64, steps=400, every=20)  # chosen on seeds 0, 101 and 102, which no arm has
LATE = 300  # after the phase change of all seeds that the recipe was chosen on
HELD = {  # name of the arm → the parts that another model does
    "look": ("look",),
    "match": ("match",),
    "copy": ("copy",),
    "look and match": ("look", "match"),
    "look and copy": ("look", "copy"),
    "match and copy": ("match", "copy"),
    "all": ("look", "match", "copy"),
}
ARMS: dict[str, tuple[Run, int]] = {  # name → the run, and how many seeds from 1 on it gets
    "spread": (RECIPE, 30),
    "at once": (replace(RECIPE, spread=False), 10),
    "one layer": (replace(RECIPE, n_layers=1), 5),
    "one layer, at once": (replace(RECIPE, spread=False, n_layers=1), 5),
    "at once, longer documents": (replace(RECIPE, spread=False, n_ctx=96), 4),
    "longer documents": (replace(RECIPE, n_ctx=96), 4),
    **{f"planted {back} back": (replace(RECIPE, planted=back), 6) for back in (1, 2, 3, 8)},
    "at once, names of 5": (replace(RECIPE, spread=False, name_length=5), 8),
    **{
        f"held at its end: {name}": (replace(RECIPE, held=held), 4 if len(held) > 1 else 6)
        for name, held in HELD.items()
    },
    **{
        f"held at its start: {name}": (replace(RECIPE, held=(name,), held_as="start"), 4)
        for name in ("look", "match", "copy")
    },
    "without the best head": (replace(RECIPE, silent="best"), 6),
    "without the best head, late": (replace(RECIPE, silent="best", silent_from=LATE), 6),
    "without the least head": (replace(RECIPE, silent="least"), 4),
}
FULL = ("spread", "at once", "one layer")  # arms (and those that begin like them) whose heads' scores are kept, too
LEAN_ROW = ("step", "held_out_loss", "predictable_loss", "saves", "lead")
FULL_ROW = (*LEAN_ROW, "in_context_learning", "previous_token", "prefix_matching", "match", "chance", "back", "after")


@checked
def planned(arms: Iterable[str] = tuple(ARMS)) -> dict[str, Run]:
    """Every arm with every one of its seeds, named like "planted 1 back 3".

    The unaltered runs come first. Then seed by seed, so that runs which hold on to the end of the same unaltered run
    follow each other, and find it made (see `runs.finished`).
    """
    chosen = {name: ARMS[name] for name in arms}
    all_of_them = [
        (run != run.unaltered(), seed, f"{name} {seed}", replace(run, seed=seed))
        for name, (run, seeds) in chosen.items()
        for seed in range(1, seeds + 1)
    ]
    return {
        name: run for altered, seed, name, run in sorted(all_of_them, key=lambda item: (item[0], item[1] * item[0]))
    }


@checked
def compact(name: str, kept: dict[str, Any]) -> dict[str, Any]:
    """What is stored of a result: of its history the columns that a table or a figure needs."""
    full = name.startswith(FULL)
    rows = [{key: row[key] for key in (FULL_ROW if full else LEAN_ROW) if key in row} for row in kept["history"]]
    for row in rows:
        for key in {"back", "after"} & row.keys():  # the best head at each offset
            row[key] = [max(at) for at in zip(*row[key], strict=True)]
    return {**kept, "history": rows}


@checked
def write(results: dict[str, dict[str, Any]], folder: Path) -> Path:
    """Write what `stored` reads, and say where: the results of the runs that `planned` names."""
    small = {name: compact(name, kept) for name, kept in results.items()}
    arms = [name for name in ARMS if f"{name} 1" in small]
    return runs.write(small, folder, arms, "experiments.json")


@checked
def stored(folder: Path = DATA / "formation") -> dict[str, list[dict[str, Any]]]:
    """The stored results of every arm, one per seed: see `runs.result` and `compact`, and ARMS for the names."""
    return runs.histories(folder, "experiments.json")
