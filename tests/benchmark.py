"""How fast the course is, as ratios measured side by side: `python -m tests.benchmark`.

Every row sets one piece of work against another way to do it, or against a part of it that nobody
can leave out. Both run in turns in the same process, and both must give the same numbers. No row
promises seconds.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar
from xml.etree import ElementTree

import numpy as np
import psutil
import torch
from torch import Tensor
from transformer_lens import FactoredMatrix, HookedTransformer

from course_microscope.live_in_kernel import Microscope
from course_utils import circuits, composition, microscope, models
from course_utils._files import CHECKSUMS, DATA, ROOT, SOLUTIONS, write_checksums, write_text
from course_utils.course import utf8_output
from course_utils.models import all_heads
from course_utils.training import train

K = 100  # entries
REACHED = 0.4  # the prefix-matching score that `--long` trains up to


@dataclass(frozen=True)
class Scale:
    """The size of the model that is read, and how often each comparison is repeated."""

    d_vocab: int = 50_257
    d_model: int = 768
    n_heads: int = 12
    d_head: int = 64
    n_layers: int = 12
    repetitions: int = 4

    def model(self, **changes: int) -> HookedTransformer:
        """A random attention-only model of this size: what the work costs does not depend on the
        weights.
        """
        config: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("d_vocab", "d_model", "n_heads", "d_head", "n_layers")
        }
        config |= {"n_ctx": 16, "attn_only": True, "normalization_type": None, "seed": 0}
        config |= {"positional_embedding_type": "shortformer"}
        return models.initial(config | changes).requires_grad_(False)


PAPER = Scale()  # the size of GPT-2 small, where a full circuit has 2.5 billion entries
Name = TypeVar("Name", str, int)
QUICK = Scale(d_vocab=1_024, d_model=32, n_heads=4, d_head=8, n_layers=8, repetitions=2)


def side_by_side(
    ways: dict[Name, Callable[[], Any]], repetitions: int
) -> tuple[dict[Name, Any], dict[Name, list[float]]]:
    """Run each of the ways in turn, again and again: their (last) results, and the seconds of every
    repetition.
    """
    results: dict[Name, Any] = {}
    seconds: dict[Name, list[float]] = {name: [] for name in ways}
    for repetition in range(repetitions):
        for name in list(ways)[
            :: 1 if repetition % 2 else -1
        ]:  # there and back, so that none profits from its place
            results[name] = None  # free the last one first
            started = time.perf_counter()
            results[name] = ways[name]()
            seconds[name].append(time.perf_counter() - started)
    return results, seconds


def row(
    work: str,
    against: str,
    ratios: list[float],
    *,
    least: float | None = None,
    most: float | None = None,
    unit: str = "×",
    note: str = "",
) -> dict[str, Any]:
    """One row of the table: the median of the ratios and their spread, beside their aim."""
    value = median(ratios) if ratios else None
    reached = None
    if value is not None and least:
        reached = value >= least
    elif value is not None and most:
        reached = value <= most
    low, high = (min(ratios), max(ratios)) if ratios else (None, None)
    return {
        "work": work,
        "against": against,
        "value": value,
        "low": low,
        "high": high,
        "repetitions": len(ratios),
        "unit": unit,
        "least": least,
        "most": most,
        "reached": reached,
        "note": note,
        "machine": f"{processor()}, threads: {torch.get_num_threads()}" if ratios else None,
    }


def faster(seconds: dict[str, list[float]], name: str) -> list[float]:
    """How many times as fast as another way ours was, repetition by repetition."""
    return [other / ours for ours, other in zip(seconds["ours"], seconds[name], strict=True)]


def same(ours: Tensor, other: Tensor, tolerance: float, what: str) -> None:
    """Raise AssertionError unless the two ways gave the same numbers, to `tolerance` of the
    largest.
    """
    assert ours.shape == other.shape, f"{what}: shapes {list(ours.shape)} and {list(other.shape)}"
    error = (ours - other).abs().max().item() / max(1e-30, other.abs().max().item())
    assert error <= tolerance, f"{what}: the two ways differ by {error:.1e} of the largest number"


# The ways that we compare with


def bare_product(*matrices: FactoredMatrix) -> None:
    """The limit: the products alone, in the same pieces, each forgotten at once. (Blocks of whole
    rows are slower.)
    """
    for matrix in matrices:
        for rows in matrix.A.split(circuits.SIDE):
            for columns in matrix.B.split(circuits.SIDE, dim=1):
                rows @ columns


def naive_top(matrix: FactoredMatrix, k: int) -> Tensor:
    """The `k` largest entries from a ranking of every block of rows."""
    best = []
    for rows in matrix.A.split(max(1, 2**24 // matrix.B.shape[1])):
        entries = (rows @ matrix.B).flatten()
        best.append(entries.topk(min(k, len(entries))).values)
    return torch.cat(best).topk(k).values


def copying_loop(model: HookedTransformer) -> Tensor:
    """Copying scores [head] of all heads by TransformerLens's `FactoredMatrix.eigenvalues`, one
    after the other.
    """
    heads = all_heads(model)
    values = torch.stack([circuits.full_ov(model, *head).eigenvalues for head in heads])
    return values.sum(-1).real / values.abs().sum(-1)


# The rows


def top_entries(scale: Scale) -> list[dict[str, Any]]:
    """The largest entries of a full OV circuit."""
    matrix = circuits.full_ov(scale.model(n_layers=1), 0, 0)
    work = f"top {K} entries of a full OV circuit, {scale.d_vocab:,} tokens"

    def against(
        part: FactoredMatrix, other: Callable[[FactoredMatrix], Tensor | None], repetitions: int
    ) -> tuple[list[float], dict[str, Any]]:
        ways: dict[str, Callable[[], Any]] = {
            "ours": lambda: circuits.top_entries(part, K)[0],
            "other": lambda: other(part),
        }
        results, seconds = side_by_side(ways, repetitions)
        return faster(seconds, "other"), results

    ratios, _ = against(matrix, bare_product, scale.repetitions)
    rows = [row(work, "the bare product, piece by piece (the limit)", ratios, least=0.8)]
    # the naive way needs as long for every row
    eighth = FactoredMatrix(matrix.A[: scale.d_vocab // 8], matrix.B)
    ratios, results = against(eighth, lambda part: naive_top(part, K), min(3, scale.repetitions))
    same(results["ours"], results["other"], 1e-5, work)
    rows.append(
        row(work, "a ranking of every block of rows (an eighth of the rows)", ratios, least=5)
    )
    corner = FactoredMatrix(matrix.A[: scale.d_vocab // 4], matrix.B[:, : scale.d_vocab // 4])
    ratios, results = against(
        corner, lambda part: (part.A @ part.B).flatten().topk(K).values, min(3, scale.repetitions)
    )
    same(results["ours"], results["other"], 1e-5, work)
    rows.append(
        row(work, f"the whole table and topk ({corner.shape[0]:,} tokens, where it fits)", ratios)
    )
    peak = _child(f"from tests.benchmark import Scale, peak_memory; peak_memory({scale})")
    rows.append(
        row(
            work,
            "peak memory of the process, its imports and the model included",
            [float(peak)],
            most=1,
            unit="GB",
        )
    )
    return rows


def peak_memory(scale: Scale) -> None:
    """Print the largest memory of this process, in GB, after the work of `top_entries`: for a
    process of its own.
    """
    circuits.top_entries(circuits.full_ov(scale.model(n_layers=1), 0, 0), K)
    if sys.platform == "linux":  # getrusage would also count what the parent held when it forked
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        fields = dict(entry.split(":", 1) for entry in status.splitlines())
        size = int(fields["VmHWM"].split()[0]) * 1024
    elif sys.platform == "win32":
        size = psutil.Process().memory_info().peak_wset
    else:
        import resource  # Windows has none

        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(size / 1e9)


def composition_scores(scale: Scale) -> list[dict[str, Any]]:
    """All composition scores, Q, K and V."""
    model = scale.model(d_vocab=100)
    work = f"all Q-, K- and V-composition scores, {scale.n_layers} × {scale.n_heads} heads"
    ratios, total = [], {"ours": 0.0, "other": 0.0}
    for mode in "QKV":
        ways: dict[str, Callable[[], Tensor]] = {
            "ours": partial(composition.scores, model, mode),
            "other": partial(model.all_composition_scores, mode),
        }
        results, seconds = side_by_side(ways, 1)
        error = (results["ours"] - results["other"]).abs().max().item()
        assert error <= 1e-6, f"{work}: {mode} differs by {error:.1e}"
        ratios += faster(seconds, "other")
        total = {name: total[name] + seconds[name][0] for name in total}
    found = row(work, "TransformerLens's all_composition_scores", ratios, least=8)
    return [
        found
        | {"value": total["other"] / total["ours"], "reached": total["other"] >= 8 * total["ours"]}
    ]


def copying(scale: Scale) -> list[dict[str, Any]]:
    """Eigenvalue copying of all heads."""
    model = scale.model()
    heads = f"eigenvalue copying of {scale.n_layers * scale.n_heads} heads"
    work = f"{heads}, {scale.d_vocab:,} tokens"
    ways = {
        "ours": lambda: circuits.copying_scores(model).flatten(),
        "other": lambda: copying_loop(model),
    }
    results, seconds = side_by_side(ways, min(2, scale.repetitions))
    same(results["ours"], results["other"], 1e-4, work)
    rows = [row(work, "FactoredMatrix.eigenvalues in a loop", faster(seconds, "other"), least=3)]

    small = replace(scale, d_vocab=min(500, scale.d_vocab)).model(n_layers=1)

    def dense() -> Tensor:
        values = torch.stack(
            [torch.linalg.eigvals(circuits.full_ov(small, 0, head).AB) for head in range(2)]
        )
        return values.sum(-1).real / values.abs().sum(-1)

    ways = {"ours": lambda: circuits.copying_scores(small)[0, :2], "other": dense}
    results, seconds = side_by_side(ways, min(2, scale.repetitions))
    # dense eigenvalues that should be 0 are only nearly so
    same(results["ours"], results["other"], 1e-2, work)
    work = f"eigenvalue copying of {scale.n_heads} heads, {small.cfg.d_vocab:,} tokens"
    return [
        *rows,
        row(work, "eigenvalues of the whole table, of 2 heads", faster(seconds, "other")),
    ]


class Plain(train.OnText):
    """The same model as one would train it without a thought: float32, and AdamW for everything
    (see `plain`).
    """

    fused = False

    def __init__(self, recipe: train.TextRecipe, device: str = "cpu", stream: Tensor | None = None):
        super().__init__(recipe, device, stream)
        self.precision = "float32"


def plain(recipe: train.TextRecipe) -> train.TextRecipe:
    """The recipe that goes with `Plain`."""
    return replace(recipe, muon_lr=None, adamw_lr=1e-3)


def training_step(scale: Scale) -> list[dict[str, Any]]:
    """Tokens per second of the two-layer model's training; `--long` measures how many tokens it
    takes.
    """
    recipe = train.RECIPES["two-layer"]
    if scale != PAPER:
        recipe = replace(recipe, batch=2)
    # costs the same as a corpus
    noise = torch.randint(1, 4096, (100_000,), generator=torch.Generator().manual_seed(0))
    trained = {
        "ours": train.OnText(recipe, stream=noise),
        "other": Plain(plain(recipe), stream=noise),
    }
    loops = {
        name: train.loop(training, train.State(recipe.steps)) for name, training in trained.items()
    }
    ways: dict[str, Callable[[], Tensor]] = {
        name: partial(next, loop) for name, loop in loops.items()
    }
    work = "training the two-layer model"
    results, _ = side_by_side(ways, 1)
    # the same weights, the same batch; ours in bfloat16
    same(results["ours"].float(), results["other"], 0.01, work)
    gradients = [training.model.get_parameter("unembed.W_U").grad for training in trained.values()]
    ours, other = (gradient.flatten() for gradient in gradients if gradient is not None)
    assert torch.cosine_similarity(ours, other, dim=0) > 0.99, f"{work}: the gradients differ"
    _, seconds = side_by_side(ways, 8 * scale.repetitions)  # one step is short, and its time varies
    against = "a plain float32 AdamW loop"
    # what float32 leaves to gain is not speed
    least = 2.5 if trained["ours"].precision == "bfloat16" else None
    return [
        row(
            f"{work}: tokens per second",
            against,
            faster(seconds, "other"),
            least=least,
            note=_profile(ways["ours"]),
        ),
        row(
            f"{work}: tokens up to prefix matching {REACHED}",
            against,
            [],
            least=3,
            note=_tokens_of_the_recipe(),
        ),
    ]


def _profile(step: Callable[[], Any]) -> str:
    """Where the time of our training step goes."""
    with torch.profiler.profile() as record:
        for _ in range(3):
            step()
    seconds = {event.key: event.self_cpu_time_total for event in record.key_averages()}
    products = sum(seconds.get(f"aten::{name}", 0) for name in ("mm", "addmm", "bmm", "baddbmm"))
    masks = sum(seconds.get(f"aten::{name}", 0) for name in ("where", "ne", "copy_", "fill_"))
    return (
        f"Of our step, {products / sum(seconds.values()):.0%} are matrix products, Muon's "
        f"included, and "
        f"{masks / sum(seconds.values()):.0%} masks and copies; of all but the products, "
        f"bfloat16 speeds up little."
    )


def _tokens_of_the_recipe() -> str:
    """What the shipped history knows of the tokens that our recipe needs."""
    history = json.loads((DATA / "two-layer" / "history.json").read_text(encoding="utf-8"))
    recipe = train.RECIPES["two-layer"]
    step = next(r["step"] for r in history if _is_reached(r))
    millions = step * recipe.batch * recipe.config()["n_ctx"] / 1e6
    had = f"{REACHED} after {step:,} steps, {millions:.1f} million tokens"
    return f"Not measured: it needs `--long`. The shipped model had {had}."


def long_training(folder: Path, cap: int) -> list[dict[str, Any]]:
    """Train with our recipe and with the plain loop until a head's prefix matching is 0.4, or for
    `cap` steps.
    """
    recipe = replace(train.RECIPES["two-layer"], snapshots=())
    pairs = {"ours": (train.OnText, recipe), "plain": (Plain, replace(plain(recipe), steps=cap))}
    steps = {}
    for name, (kind, its_recipe) in pairs.items():
        history = folder / name / "history.json"
        if not history.exists():
            train.train(kind, its_recipe, folder / name, until=_is_reached)
        last = json.loads(history.read_text(encoding="utf-8"))[-1]
        steps[name] = last["step"], _is_reached(last)
    note = ", ".join(
        f"{name}: {step:,} steps{'' if done else ', not reached'}"
        for name, (step, done) in steps.items()
    )
    ratios = [steps["plain"][0] / steps["ours"][0]] if steps["ours"][1] else []
    work = f"training the two-layer model: tokens up to prefix matching {REACHED}"
    return [row(work, "a plain float32 AdamW loop", ratios, least=3, note=note)]


def _is_reached(history_row: dict[str, Any]) -> bool:
    return max(history_row["prefix_matching"][-1]) >= REACHED


def imports(scale: Scale) -> list[dict[str, Any]]:
    """What a learner waits for first; in processes of their own."""
    marvel, picture = (
        _first_picture(lesson) for lesson in ("00_solution_start", "03_solution_zero_layers")
    )
    ways = {
        "package": lambda: _child("import course_utils"),
        "marvel": lambda: _child(marvel),
        "picture": lambda: _child(picture),
        "other": lambda: _child("import transformer_lens"),
    }
    if scale.repetitions > 2:
        side_by_side(ways, 1)  # from now on, the files are in memory
    _, seconds = side_by_side(ways, max(1, scale.repetitions - 2))
    against = "import transformer_lens"
    shares = {
        name: [ours / other for ours, other in zip(seconds[name], seconds["other"], strict=True)]
        for name in ("package", "marvel", "picture")
    }
    return [
        row("import course_utils", against, shares["package"], most=0.1),
        row("from the start of lesson 00 to its live picture", against, shares["marvel"], most=1.6),
        row(
            "from the start of lesson 03 to its first picture", against, shares["picture"], most=1.6
        ),
    ]


def _first_picture(lesson: str) -> str:
    """The code of a lesson up to the first cell that draws."""
    notebook = json.loads((SOLUTIONS / f"{lesson}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    first = next(i for i, cell in enumerate(cells) if "text/html" in str(cell["outputs"]))
    return "\n".join("".join(cell["source"]) for cell in cells[: first + 1])


def answers(scale: Scale) -> list[dict[str, Any]]:
    """How long the microscope takes to answer a press of a button: each head cut, twice."""
    model, words = models.load("two-layer"), "lantern keeper sleeps. Wake lantern"
    figure = microscope.figure(model, words)
    tokens, presses = (
        model.to_tokens(words),
        2 * [f"{layer}.{head}" for layer in range(2) for head in range(8)],
    )

    def press() -> None:
        # without the runs of before
        live = Microscope(microscope.figure(model, words).source, figure.facts)
        for head in presses:
            live.answer({**figure.facts, "cuts": [head]})

    ways: dict[str, Callable[[], Any]] = {
        "ours": press,
        "other": lambda: [model(tokens) for _ in presses],
    }
    side_by_side(ways, 1)  # from now on, both are warm
    _, seconds = side_by_side(ways, scale.repetitions)
    ratios = [ours / other for ours, other in zip(seconds["ours"], seconds["other"], strict=True)]
    each = 1000 * median(seconds["ours"]) / len(presses)
    note = (
        f"{each:.0f} ms here for a press, as the mean of {len(presses)}; a screen shows it later."
    )
    return [
        row(
            "the microscope's answer to a press",
            "one run of the two-layer model",
            ratios,
            note=note,
        )
    ]


def suite() -> list[dict[str, Any]]:
    """All tests, against nothing but the execution of the notebooks; both two at a time."""
    notebooks = sorted(ROOT.glob("notebooks/**/[0-9]*.ipynb"))
    execute = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        "--stdout",
        "--log-level=ERROR",
    ]

    def quiet(command: list[str]) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, env=environment)

    def bare() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda notebook: quiet([*execute, str(notebook)]), notebooks))

    def tests() -> str:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "junit.xml"
            quiet([sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"])
            return report.read_text(encoding="utf-8")

    results, seconds = side_by_side({"ours": tests, "other": bare}, 1)
    ours, other = seconds["ours"][0], seconds["other"][0]
    notes = (
        _where_the_suite_goes(results["ours"]),
        f"The bare execution alone takes {other / 60:.0f} minutes here.",
    )
    return [
        row(work, against, [ours / time_], most=most, note=note)
        for (work, against, most), time_, note in zip(SUITE, (other, 600), notes, strict=True)
    ]


def _where_the_suite_goes(report: str) -> str:
    """The shares of the suite's parts, from pytest's report in JUnit's format."""
    spent: dict[str, float] = defaultdict(float)
    for case in ElementTree.fromstring(report).iter("testcase"):
        # notebooks.03_….ipynb, tests.course.test_untrained
        part = case.attrib["classname"].rsplit(".", 1)[-1]
        spent[part] += float(case.attrib["time"])
    notebooks, claims, browser = (
        spent[part] / sum(spent.values()) for part in ("ipynb", "test_untrained", "test_browser")
    )
    return (
        f"Of the suite's time, {notebooks:.0%} are the notebooks, {claims:.0%} the lessons once "
        f"more on untrained"
        f" weights, {browser:.0%} JupyterLab in a browser; the first alone can be as fast as "
        f"the bare execution."
    )


def _child(code: str) -> str:
    """What a Python process of its own prints."""
    environment = os.environ | {
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"A process of the benchmark failed:\n{done.stderr[-2000:]}")
    return done.stdout


# How the cost grows


def growth(scale: Scale) -> dict[str, dict[str, Any]]:
    """The first four pieces of work at four sizes each: see `grown`.

    The operations are the multiplications of all products, and 25 n³ for the eigenvalues of an n ×
    n matrix. Where two terms add up, their exponent is no whole number.
    """
    V, D, d, h, L = scale.d_vocab, scale.d_model, scale.d_head, scale.n_heads, scale.n_layers
    vocabularies = [V // 8, V // 4, V // 2, V]
    layers = [L // 4, L // 2, 3 * L // 4, L]
    eigenvalues = L * h * (D * d * (D + d) + 25 * d**3)

    def one_layer(v: int) -> HookedTransformer:
        return scale.model(d_vocab=v, n_layers=1)

    def entries(model: HookedTransformer) -> None:
        circuits.top_entries(circuits.full_ov(model, 0, 0), K)

    return {
        f"top {K} entries": grown("tokens", vocabularies, lambda v: v * v * d, one_layer, entries),
        "Q-composition scores": grown(
            "layers",
            layers,
            lambda n: (
                n * (n - 1) / 2 * (h * d) ** 2 * D + 6 * n * h * D * d * d
            ),  # pairs of layers; the factors
            lambda n: scale.model(n_layers=n, d_vocab=100),
            lambda model: composition.scores(model, "Q"),
        ),
        "eigenvalue copying": grown(
            "tokens",
            vocabularies,
            lambda v: v * D * D + eigenvalues,
            lambda v: scale.model(d_vocab=v),
            circuits.copying_scores,
        ),
    }


def grown(
    unit: str,
    sizes: list[int],
    operations: Callable[[int], float],
    model: Callable[[int], HookedTransformer],
    work: Callable[[HookedTransformer], Any],
) -> dict[str, Any]:
    """How long a piece of work takes on a model of each size: times as shares of the longest, and
    their exponent.

    The expected exponent is that of the number of operations, fitted over the same sizes.
    """
    _, seconds = side_by_side({size: partial(work, model(size)) for size in sizes}, 2)
    times = np.array([min(seconds[size]) for size in sizes])
    return {
        "unit": unit,
        "sizes": sizes,
        "time": (times / times.max()).tolist(),
        "exponent": exponent(sizes, times),
        "expected": exponent(sizes, [operations(size) for size in sizes]),
    }


def exponent(sizes: Sequence[float], costs: Sequence[float] | np.ndarray) -> float:
    """The slope of log cost over log size."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


# The whole


SUITE = (
    ("the whole test suite", "the bare execution of its notebooks", 1.3),
    ("the whole test suite", "ten minutes", 1),
)
Work = Callable[[Scale], list[dict[str, Any]]]
WORK: tuple[Work, ...] = (top_entries, composition_scores, copying, training_step, imports, answers)


def measured(work: Work, scale: Scale) -> list[dict[str, Any]]:
    """The rows about one piece of work, printed; only at the paper's scale are they held to their
    targets.
    """
    rows = [found if scale == PAPER else found | {"reached": None} for found in work(scale)]
    print(*map(line, rows), sep="\n", flush=True)
    return rows


def run(scale: Scale, work: tuple[Work, ...] = WORK) -> dict[str, Any]:
    """All rows that need no long run, and how the cost grows; prints each row when it is known."""
    rows = []
    for measure in work:
        rows += measured(measure, scale)
    for name, against, most in SUITE:
        rows.append(row(name, against, [], most=most, note="Not measured: it needs `--suite`."))
        print(line(rows[-1]))
    return {"machine": machine(), "scale": vars(scale), "rows": rows, "growth": growth(scale)}


def processor() -> str:
    """What torch uses of this machine's processor: "x86_64, AVX512, bfloat16"."""
    return f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, {train.precision()}"


def machine() -> dict[str, Any]:
    """What the ratios, and the last digits of every number, may depend on."""
    return {
        "system": platform.system(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processor": processor(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def line(found: dict[str, Any]) -> str:
    """A row as it is printed."""
    aim = f"≥ {found['least']}" if found["least"] else f"≤ {found['most']}" if found["most"] else ""
    if found["value"] is None:
        return f"{'–':>9} {'':17} {aim:7} {'':6} {found['work']} / {found['against']}"
    verdict = {True: "yes", False: "MISSED", None: ""}[found["reached"]]
    spread = f"({found['low']:.3g} to {found['high']:.3g})" if found["repetitions"] > 1 else ""
    value = f"{found['value']:.3g} {found['unit']}"
    return f"{value:>9} {spread:17} {aim:7} {verdict:6} {found['work']} / {found['against']}"


def merged(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; what the others measured takes the place of what is about the same."""
    others = [found for found in others if not found["note"].startswith("Not measured")]
    replaced = {(found["work"], found["against"]): found for found in others}
    return [replaced.get((found["work"], found["against"]), found) for found in rows]


def save(file: Path, results: dict[str, Any]) -> None:
    """Write the results, and their checksum if the folder keeps checksums."""
    write_text(file, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    if (file.parent / CHECKSUMS).exists():
        write_checksums(file.parent)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, in seconds; is stored only with --out"
    )
    names = [work.__name__ for work in WORK]
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--only", choices=names, metavar="WORK", help=f"only one piece of work: {', '.join(names)}"
    )
    one.add_argument(
        "--suite", action="store_true", help="only the row about the test suite: half an hour"
    )
    one.add_argument(
        "--long",
        type=Path,
        metavar="FOLDER",
        help="only the row about tokens: hours; can be resumed",
    )
    parser.add_argument(
        "--cap", type=int, default=24_000, help="most steps of the plain loop in --long (24000)"
    )
    parser.add_argument("--threads", type=int, help="of torch (its own choice)")
    parser.add_argument("--out", type=Path, help="the file for the results (data/benchmark.json)")
    options = parser.parse_args(arguments)
    utf8_output()
    if options.threads:
        torch.set_num_threads(options.threads)
    scale = QUICK if options.quick else PAPER
    file = options.out or (None if options.quick else DATA / "benchmark.json")
    print(
        "Ratios, the median of repetitions side by side (spread), what they should reach.",
        machine(),
    )
    stored = json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else None
    if options.only or options.suite or options.long:
        if not stored:
            parser.error(
                "--only, --suite and --long change results, which must be there first: see --out."
            )
        if options.only:
            rows = measured(WORK[names.index(options.only)], scale)
        else:
            rows = suite() if options.suite else long_training(options.long, options.cap)
            print(*map(line, rows), sep="\n")
        results = stored | {"rows": merged(stored["rows"], rows)}
    else:
        results = run(scale)
        if (
            stored and stored["scale"] == results["scale"]
        ):  # what --suite and --long have found stays
            gaps = {found["work"] for found in results["rows"] if found["value"] is None}
            results["rows"] = merged(
                results["rows"], [found for found in stored["rows"] if found["work"] in gaps]
            )
        for name, found in results["growth"].items():
            print(
                f"{name}: cost ~ {found['unit']}^{found['exponent']:.2f}, expected "
                f"{found['expected']:.2f}"
            )
    if file:
        save(file, results)


if __name__ == "__main__":
    main()
