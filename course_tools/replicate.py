"""Which claims hold for other seeds: `python -m course_tools.replicate [--train | --judge]`.

`--train` trains siblings of the bundled models: the released recipes with other seeds, one after
another, for hours (those of max-of-list come with the course). It can be stopped with Ctrl-C and
goes on with the same command. Then the lessons run on ours and on every sibling that is there with
their expectations off, and `data/replication.json` keeps what each claim measured, and how many
siblings agree with each of its numbers; a table of it is `data/REPLICATION.md`. `--judge` runs
nothing and counts again what is stored.

A sibling's heads stand in another order than ours. Before a lesson reads them they are renumbered:
within a layer, each takes the number of our head that it is most like. That changes nothing the
model computes, and a lesson that names a head by its number meets the head with this role, where
there is one. Where there is none, the sibling does not agree.
"""

import itertools
import json
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import normalize
from tqdm import tqdm
from transformer_lens import HookedTransformer

import course_lessons
from course_lessons import replication
from course_tools import authoring, runner
from course_utils import heads, models, text
from course_utils._files import DATA, entries, number_of, write_checksums, write_text
from course_utils.course import claims, utf8_output
from course_utils.training import train

course_lessons.import_all()  # the tables of all lessons are read here

SIBLINGS = {  # the seeds beside the bundled one, and a model whose biases were trained too
    "zero-layer": ("seed-1", "seed-2", "seed-3", "seed-4"),
    "one-layer": ("seed-1", "seed-2", "seed-3", "seed-4", "biases"),
    "two-layer": ("seed-0", "seed-2", "seed-3", "seed-4"),
    "max-of-list": ("seed-1", "seed-2", "seed-3", "seed-4"),
}
LESSONS = {  # whose model is replaced; 07c and 09 load their seeds themselves
    "03": "zero-layer",
    "03b": "zero-layer",
    "04": "one-layer",
    "04b": "one-layer",
    "05": "max-of-list",
    "05b": "max-of-list",
    "06": "two-layer",
    "06b": "two-layer",
    "07": "two-layer",
    "07b": "two-layer",
}
TEXTS, FREQUENT = 16, 512  # held-out texts and frequent tokens by which heads are compared
RESULT, PAGE = DATA / "replication.json", DATA / "REPLICATION.md"


def train_siblings(folder: Path) -> None:
    """Train the text models that are not there yet; a run that was stopped goes on."""
    for name in SIBLINGS:
        for place in places(folder, name):
            if is_trained(place):
                continue
            kind, _, seed = place.name.partition("-")
            recipe = train.RECIPES[f"{name}-biases" if kind == "biases" else name]
            train.train(train.OnText, replace(recipe, seed=int(seed or recipe.seed)), place)


def places(folder: Path, name: str) -> list[Path]:
    """Where a model's siblings are: in `data/` if they come with the course, else in `folder`."""
    found = []
    for sibling in SIBLINGS[name]:
        bundled = DATA / name / sibling
        found.append(bundled if bundled.is_dir() else folder / name / sibling)
    return found


def is_trained(folder: Path) -> bool:
    """Whether a model was trained to its end there."""
    return (folder / "model.safetensors").is_file() and not (folder / ".state.pt").exists()


def likeness(
    ours: HookedTransformer, other: HookedTransformer, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "layer head head"]:
    """How alike each of our heads and each of another model's are, from about 0 to 2.

    The sum of two shares: how much attention falls on the same sources (the smaller of two
    patterns, summed over the sources, averaged over destinations), and the correlation of the full
    OV circuits over frequent tokens.
    """
    counts = tokens.flatten().bincount(minlength=ours.cfg.d_vocab)
    frequent = counts.argsort(descending=True)[:FREQUENT]  # [token]

    # What is moved: the correlation of full OV circuits.
    tables = []
    for model in (ours, other):
        table = model.W_E[frequent] @ model.W_V @ model.W_O @ model.W_U[:, frequent]
        centred = table - table.mean((2, 3), keepdim=True)  # [layer, head, source, next]
        tables.append(normalize(centred.flatten(2), dim=-1))  # [layer, head, source × next]
    alike = tables[0] @ tables[1].mT  # [layer, our head, their head]

    # Who looks: the attention that falls on the same sources.
    our_patterns = heads.patterns(ours, tokens)  # [layer, head, batch, destination, source]
    their_patterns = heads.patterns(other, tokens)
    n_layers, n_heads, _ = alike.shape
    for layer in range(n_layers):
        for head in range(n_heads):
            shared = torch.minimum(our_patterns[layer, head], their_patterns[layer])
            alike[layer, head] += shared.sum(-1).mean((1, 2))
    return alike


def order(alike: Float[Tensor, "layer head head"]) -> Int[Tensor, "layer head"]:
    """Which of the other model's heads takes the number of each of ours: the largest sum."""
    n_heads = alike.shape[-1]
    orders = list(itertools.permutations(range(n_heads)))  # 40,320 for eight heads
    pairings = torch.tensor(orders)  # [pairing, head]
    sums = alike[:, torch.arange(n_heads), pairings].sum(-1)  # [layer, pairing]
    return pairings[sums.argmax(1)]


def renumbered(
    weights: Mapping[str, Tensor], taken: Int[Tensor, "layer head"]
) -> dict[str, Tensor]:
    """A model's weights with its heads in another order, which computes the same."""
    found = dict(weights)
    for key, value in weights.items():
        is_of_heads = ".attn." in key and "b_O" not in key  # a layer has one bias of the output
        if is_of_heads:
            layer = int(key.split(".")[1])
            found[key] = value[taken[layer]].contiguous()
    return found


def course_data(name: str, sibling: Path, target: Path) -> None:
    """A copy of `data/` in which a sibling, its heads renumbered, replaces a bundled model."""
    shutil.copytree(DATA, target, ignore=shutil.ignore_patterns(name))
    shutil.copytree(sibling, target / name, ignore=shutil.ignore_patterns(".*"))
    ours, other = models.load(name), models.load(sibling)
    if ours.cfg.n_layers == 0 or ours.cfg.n_heads == 1:
        return
    taken = order(likeness(ours, other, text.held_out_tokens()[:TEXTS]))
    for file in (target / name).glob("*.safetensors"):
        save_file(renumbered(load_file(file), taken), file)
    write_checksums(target / name)


def measured(notebook: Path, data: Path, record: Path) -> dict[str, Any]:
    """What every claim of a lesson measures on the models in `data`, with nothing expected."""
    record.unlink(missing_ok=True)
    lesson = authoring.read_notebook(notebook)
    environment = {"COURSE_DATA": str(data), claims.MODE: f"record:{record}", "MPLBACKEND": "agg"}
    runner.run(lesson, notebook.parent, allow_errors=True, environment=environment)
    facts = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    return {fact["statement"]: fact["value"] for fact in facts if fact["kind"] == "claim"}


def agreeing(entry: Mapping, ours: Any, values: Sequence[Any]) -> list[int]:
    """How many siblings agree with each number of a claim.

    Kinds and margins were set before this was counted. A claim's `kind` stands in its table, chosen
    by its statement and its lesson's text. A *size* (a decimal number of no other kind) agrees
    within a quarter of ours; a *level* (a loss, or a share, score or correlation, which end at 1)
    within a quarter, but 0.1 at most; a *count* (any whole number) within one, above ten within its
    square root, and zero with zero only. The claim's own tolerance holds where it is wider, and
    bounds where it has bounds. Words and heads' numbers are *equal*, *lists* share half of all that
    are in either, *qualitative* numbers have the same sign.
    """
    if not isinstance(ours, dict | list) or entry.get("kind") == "list":
        return [sum(value is not None and _agrees(entry, ours, value) for value in values)]
    found = []
    for key in ours if isinstance(ours, dict) else range(len(ours)):
        own = {name: _item(field, key) for name, field in entry.items()}
        found += agreeing(own, ours[key], [_item(value, key) for value in values])
    return found


def _item(value: Any, key: Any) -> Any:
    """What stands at a key or place, None where nothing does; what is one for all is itself."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    return value.get(key) if isinstance(value, dict) else value


def _agrees(entry: Mapping, ours: Any, value: Any) -> bool:
    kind = entry.get("kind", "count" if isinstance(ours, int) else "size")
    if kind == "list":
        return 2 * len({*ours} & {*value}) >= len({*ours} | {*value})
    if kind == "equal" or isinstance(ours, bool) or (isinstance(ours, str) and kind != "count"):
        return bool(ours == value)
    ours = float(ours)
    value = float(value)
    if "value" not in entry:
        return entry.get("least", value) <= value <= entry.get("most", value)
    if kind == "qualitative":
        return ours * value > 0
    if kind == "count":
        margin = ours**0.5 if ours > 10 else 1
        margin = 0 if 0 in (ours, value) else margin
    else:
        quarter = abs(ours) / 4
        margin = {"size": quarter, "level": min(quarter, 0.1)}[kind]
    return abs(value - ours) <= max(margin, entry.get("tolerance") or 0)


def verdicts(lesson: str, rows: Mapping[str, dict]) -> dict[str, dict]:
    """What was measured, with how many seeds agree and a verdict, for the claims that still are."""
    found = {}
    for statement, entry in claims.table(lesson).items():
        row = rows.get(statement)
        if not row:
            continue
        siblings = row["siblings"]
        seeds = [value for sibling, value in siblings.items() if sibling.startswith("seed")]
        agree = agreeing(entry, row["ours"], seeds)
        some_differ = min(agree) < len(seeds)
        verdict = replication.VERDICTS[some_differ + (not any(agree))]
        found[statement] = row | {"agree": agree, "verdict": verdict}
    return found


def _number(lesson: Path) -> str:
    return number_of(lesson.name)


def siblings_of(lesson: Path, folder: Path) -> list[Path]:
    """The trained siblings that a lesson can be run on."""
    return [place for place in places(folder, LESSONS[_number(lesson)]) if is_trained(place)]


def replicate(folder: Path, lessons: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """For each lesson and claim about the replaced model: ours, theirs, how many siblings agree.

    What has been measured is kept in `folder`, and is not measured again while the lesson stays as
    it is. What siblings that are not here said of a claim is taken from `data/replication.json`,
    unless our number has changed.
    """
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    for notebook in tqdm(lessons, desc="lessons"):
        # ours, and theirs, by statement
        ours = _kept(notebook, DATA, folder / "measured" / "ours")
        theirs = {}
        for sibling in siblings_of(notebook, folder):
            data = _data_with(sibling, folder)
            theirs[sibling.name] = _kept(notebook, data, folder / "measured" / sibling.name)

        lesson = authoring.learner_path(notebook).stem
        rows = {}
        for statement, entry in claims.table(lesson).items():
            if "always" in entry or statement not in ours:
                continue
            our_value = ours[statement]
            values = {name: found.get(statement) for name, found in theirs.items()}
            is_asked = any(value is not None for value in values.values())
            if not is_asked or _of_another(our_value, values.values()):
                continue  # a claim on the siblings themselves, or on another model
            # those that are not here now
            earlier = result.get(lesson, {}).get(statement, {"ours": None, "siblings": {}})
            if all(agreeing(entry, our_value, [earlier["ours"]])):
                values = earlier["siblings"] | values
            rows[statement] = {"ours": our_value, "siblings": values}
        result[lesson] = rows
    return {lesson: verdicts(lesson, rows) for lesson, rows in sorted(result.items())}


def _data_with(sibling: Path, folder: Path) -> Path:
    """The copy of `data/` with this sibling in it, made where it is missing."""
    name = sibling.parent.name
    data = folder / "data" / f"{name}-{sibling.name}"
    if not data.exists():
        building = data.with_name(f".{data.name}")
        shutil.rmtree(building, ignore_errors=True)
        course_data(name, sibling, building)
        building.rename(data)
    return data


def _of_another(ours: Any, values: Iterable[Any]) -> bool:
    """Whether numbers were measured on another model: not round, yet the same to the last digit."""
    numbers = ours if isinstance(ours, list) else [ours]
    unround = all(isinstance(number, float) and number != round(number, 3) for number in numbers)
    return unround and all(value == ours for value in values)


def _kept(notebook: Path, data: Path, folder: Path) -> dict[str, Any]:
    """What a lesson measured on these models, in an earlier run if the lesson is still the same."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{notebook.stem}.json"
    source = notebook.read_text(encoding="utf-8")
    found = entries(file)
    if found.get("lesson") == source and "values" in found:
        return found["values"]
    values = measured(notebook, data, folder / f"{notebook.stem}.record")
    write_text(file, json.dumps({"lesson": source, "values": values}))
    return values


def page(result: Mapping[str, Mapping[str, Mapping]]) -> str:
    """The table of a replication, lesson by lesson, in Markdown."""
    rule = " ".join((agreeing.__doc__ or "").split())
    lines = ["# Replication", "", f"Made by `python -m course_tools.replicate`. {rule}"]
    for lesson, rows in result.items():
        lines += ["", f"## {lesson}", "", replication.sibling_table(lesson, rows)]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    about = __doc__.splitlines()[0]
    parser = ArgumentParser(prog="python -m course_tools.replicate", description=about)
    where = "where siblings are (runs/siblings)"
    parser.add_argument("--folder", type=Path, default=Path("runs/siblings"), help=where)
    first = "train the siblings that are missing first: hours"
    parser.add_argument("--train", action="store_true", help=first)
    again = "run nothing: count again what siblings have said"
    parser.add_argument("--judge", action="store_true", help=again)
    options = parser.parse_args(arguments)
    utf8_output()
    if options.train:
        train_siblings(options.folder)
    lessons = [path for path in authoring.lessons() if _number(path) in LESSONS]
    ready = [path for path in lessons if siblings_of(path, options.folder) and not options.judge]
    missing = [authoring.learner_path(path).stem for path in lessons if path not in ready]
    if missing and not options.judge:
        none = f"No siblings in {options.folder} for {', '.join(missing)}"
        stays = f"what {RESULT.name} has of them stays"
        print(f"{none}: {stays}. --train makes them, in hours.", file=sys.stderr)
    result = replicate(options.folder, ready)
    write_text(RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    write_text(PAGE, page(result))
    write_checksums(DATA)
    for lesson, rows in result.items():
        given = [row["verdict"] for row in rows.values()]
        counts = [f"{given.count(kind)} {kind}" for kind in replication.VERDICTS]
        print(f"{lesson}: {', '.join(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
