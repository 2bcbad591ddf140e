"""Training one small model and many: what a run is, what is measured while it lasts, and what is kept of it."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm
from transformer_lens import HookedTransformer

from course_utils import circuits, composition, heads, measure, text
from course_utils._arguments import Count, checked
from course_utils._files import DATA, verified, write_atomically, write_checksums
from course_utils.formation.language import D_VOCAB, N_CTX, documents
from course_utils.models import initial, sinusoids
from course_utils.train import Optimizers, State, TextRecipe, loop

PERIOD = 20  # of the repeated random tokens
EVERY = 25  # steps between measurements


@dataclass(frozen=True)
class Run(TextRecipe):
    """One training run on the synthetic language: all that its history depends on, but for rounding."""

    n_layers: int = 2
    steps: int = 500
    batch: int = 32
    muon_lr: float | None = 0.04
    adamw_lr: float = 1e-2
    warmup: int = 20
    hold: float = 4 / 5
    positions: str = "shortformer"  # or "standard": added to the stream instead
    planted: bool = False  # head (0, 0) starts as a previous-token head

    def config(self) -> dict[str, Any]:
        """The model, as fields of `HookedTransformerConfig`: attention only, no LayerNorm, 4 heads of 16 a layer."""
        small = {"d_model": 64, "n_heads": 4, "d_head": 16, "n_ctx": N_CTX, "d_vocab": D_VOCAB}
        return super().config() | small | {"positional_embedding_type": self.positions}


CONDITIONS = {
    "two layers": Run(),
    "one layer": Run(n_layers=1),
    "standard positions": Run(positions="standard"),
    "planted": Run(planted=True),
}
SEEDS = (1, 2, 3, 4, 5)  # 0 served to choose the recipe


@checked
def logits(model: HookedTransformer, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
    """The same as `model(tokens)` in two thirds of the time: on models this small, hooks are much of the work.

    For attention-only models without LayerNorm whose biases are zero.
    """
    W_pos = model.W_pos[: tokens.shape[1]]
    stream, position = _inputs(model, model.W_E[tokens], W_pos)  # [batch, pos, d_model], [pos, d_model]
    for block in model.blocks:
        attn: Any = block.attn
        q = _by_head(stream + position, attn.W_Q)
        k = _by_head(stream + position, attn.W_K)
        v = _by_head(stream, attn.W_V)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # [batch, head, pos, d_head]
        stream = stream + z.transpose(1, 2).flatten(2) @ attn.W_O.flatten(0, 1)  # … [pos, head d_head] @ […, d_model]
    return stream @ model.W_U


def _by_head(x: Float[Tensor, "batch pos d_model"], W: Float[Tensor, "head d_model d_head"]) -> Tensor:
    """What every head reads from x, [batch, head, pos, d_head], by one product."""
    joined = W.transpose(0, 1)  # [d_model, head, d_head]
    return (x @ joined.flatten(1)).unflatten(-1, joined.shape[1:]).transpose(1, 2)


def _inputs(
    model: HookedTransformer, embedded: Float[Tensor, "*batch pos d_model"], W_pos: Float[Tensor, "pos d_model"]
) -> tuple[Float[Tensor, "*batch pos d_model"], Float[Tensor, "pos d_model"]]:
    """The stream before layer 0, and what queries and keys add to it in every layer."""
    if model.cfg.positional_embedding_type == "standard":
        return embedded + W_pos, torch.zeros_like(W_pos)
    return embedded, W_pos


@checked
def previous_token_weights(
    W_pos: Float[Tensor, "pos d_model"], d_head: Count, scale: float = 4.0
) -> tuple[Float[Tensor, "d_model d_head"], Float[Tensor, "d_model d_head"]]:
    """W_Q and W_K of a head that looks at the previous token, from sinusoids alone (see `models.sinusoids`).

    Keys are the `d_head` fastest coordinates of the position; queries are the same, turned back by one position. The
    turn is found in float64: in float32 its last digits differ from one start of Python to the next.
    """
    fast = W_pos[:, :d_head].double()
    W_Q, W_K = torch.zeros(2, W_pos.shape[1], d_head)
    W_Q[:d_head] = scale * torch.linalg.lstsq(fast[1:], fast[:-1]).solution
    W_K[:d_head] = scale * torch.eye(d_head)
    return W_Q, W_K


@checked
def start(run: Run) -> HookedTransformer:
    """The untrained model of a run; its positions start as sinusoids, whichever kind they are."""
    model = initial(run.config())
    model.pos_embed.W_pos.data = sinusoids(model.cfg.n_ctx, model.cfg.d_model)
    if run.planted:
        attn: Any = model.blocks[0].attn
        attn.W_Q.data[0], attn.W_K.data[0] = previous_token_weights(model.W_pos.detach(), model.cfg.d_head)
    return model


class OnLanguage:
    """A model of the synthetic language in training: see `train.Training`."""

    def __init__(self, run: Run):
        self.recipe, self.model = run, start(run)
        self.optimizers = Optimizers(self.model, run)
        self.held_out, self.repeated = documents(64, seed=-1), text.repeated_tokens(PERIOD, d_vocab=D_VOCAB)
        self.first = -1  # the step of the first batch at hand
        self.batches: tuple[Tensor, ...] = ()

    def batch(self, step: int) -> Int[Tensor, "batch pos"]:
        """The documents of one step, made with those of the next: one by one takes ten times as long."""
        first = step - step % EVERY
        if first != self.first:
            together = documents(EVERY * self.recipe.batch, seed=self.recipe.seed * 1_000_003 + first)
            self.first, self.batches = first, together.split(self.recipe.batch)
        return self.batches[step - first]

    def loss(self, step: int) -> Float[Tensor, ""]:
        """The mean over all tokens of a batch, in nats."""
        tokens = self.batch(step)
        return F.cross_entropy(logits(self.model, tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    def measure(self) -> dict[str, Any]:
        """What a history row holds: see `train` below."""
        row = measure.on_text(self.model, self.held_out, window=16)
        row |= measure.on_repeats(self.model, self.repeated, PERIOD) | _composed(self.model)
        return row | offsets(self.model, self.repeated, PERIOD)


@checked
def train(
    run: Run, watch: Callable[[list[dict]], object] | None = None, every: Count = EVERY
) -> tuple[HookedTransformer, list[dict[str, Any]]]:
    """Train one model; returns it and its history, a row for every `every` steps, which `watch` sees as it grows.

    Losses are in nats, on documents that are not trained on and on random tokens repeated every PERIOD. Scores of heads
    are lists [layer][head]; those of pairs, `k_composition` and `match` (see `match_positivity`), [head 1][head 2];
    `back` and `after` are those of `offsets`.
    """
    training, state = OnLanguage(run), State(run.steps)

    def look() -> None:
        state.history.append({"step": state.step, **training.measure()})
        if watch:
            watch(state.history)

    look()
    for _ in loop(training, state):
        if state.step % every == 0 or state.step == run.steps:
            look()
    return training.model.eval().requires_grad_(False), state.history


@checked
@torch.no_grad()
def offsets(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], period: Count, most: Count = 6
) -> dict[str, list[list[float]]]:
    """Where heads look on random tokens repeated every `period`: lists [head][offset], offsets 0 to `most` − 1.

    "back": layer 0's attention to the token that many places back. "after": the last layer's attention to the tokens
    that many places after earlier copies of the current one, from the second pass on; 1 is prefix matching.
    """
    patterns = heads.patterns(model, tokens)  # [layer, head, batch, dest, src]
    first, last, n_ctx = patterns[0], patterns[-1], patterns.shape[-1]
    # diagonal(-d) lists attention from dest = src + d to src, for src = 0, 1, …
    back = [
        first.diagonal(-o, -2, -1)[..., max(0, 2 - o) :].mean((-2, -1))  # from dest = 2 on
        for o in range(most)
    ]
    after = []
    for o in range(most):
        total = last.new_zeros(last.shape[:2])  # [head, batch]
        for ago in range(period, n_ctx - 1, period):  # src = copy + o, where copy = dest - ago
            total = total + last.diagonal(o - ago, -2, -1)[..., 1 + o :].sum(-1)  # copy ≥ 1: no copy of the start token
        after.append(total.mean(-1) / (n_ctx - 1 - period))  # on average over dest = period + 1, …, n_ctx - 1
    return {"back": torch.stack(back, -1).tolist(), "after": torch.stack(after, -1).tolist()}


@torch.no_grad()
def _composed(model: HookedTransformer) -> dict[str, list[list[float]]]:
    """What a history row says of pairs of heads: nothing where there are none."""
    if model.cfg.n_layers < 2:
        return {}
    return {
        "k_composition": composition.scores(model, "K")[0, :, 1].tolist(),
        "match": match_positivity(model).tolist(),
    }


@checked
@torch.no_grad()
def match_positivity(model: HookedTransformer) -> Float[Tensor, "head1 head2"]:
    """Σλ / Σ|λ| of every pair's M_K = W_E QK₂ OV₁ᵀ W_Eᵀ, each row less its mean (a softmax never sees that).

    Near 1, a head of layer 1 looks for the token that a head of layer 0 read and passed on: half of an induction head.
    """
    n = model.cfg.n_heads
    found = torch.zeros(n, n)
    for head1 in range(n):
        for head2 in range(n):
            M = composition.match_matrix(model, (1, head2), (0, head1))
            M.B = M.B - M.B.mean(-1, keepdim=True)
            found[head1, head2] = circuits.copying_score(M)
    return found


@checked
@torch.no_grad()
def door_scores(model: HookedTransformer, tokens: Int[Tensor, "batch pos"], period: Count) -> dict[str, list[float]]:
    """Prefix-matching scores of layer 1's heads: as they are, and without layer 0 in their keys or their queries.

    "keys" takes everything that layer 0 wrote out of the input of the keys and leaves queries and values as they are;
    "queries" the other way round. The mechanism of Elhage et al. 2021 needs the keys.
    """
    _, cache = model.run_with_cache(tokens, return_type=None, names_filter=lambda name: "resid_pre" in name)
    before, after = cache["resid_pre", 0], cache["resid_pre", 1]  # [batch, pos, d_model]
    _, position = _inputs(model, before, model.W_pos[: tokens.shape[1]])
    mask = torch.ones(2 * tokens.shape[1:], dtype=torch.bool).tril()
    scores = {}
    for name, (dest, src) in {"whole": (after, after), "keys": (after, before), "queries": (before, after)}.items():
        q = torch.einsum("bpm,hme->hbpe", dest + position, model.W_Q[1])  # [head, batch, pos, d_head]
        k = torch.einsum("bpm,hme->hbpe", src + position, model.W_K[1])
        pattern = (q @ k.mT / model.cfg.d_head**0.5).masked_fill(~mask, -torch.inf).softmax(-1)  # […, dest, src]
        scores[name] = heads.prefix_matching_score(pattern, period).mean(-1).tolist()
    return scores


@checked
def result(run: Run) -> dict[str, Any]:
    """What is kept of one run: its history and what was measured on the finished model.

    "looks" are its `offsets`, up to 11; two layers also have "paths", their `door_scores`, and "composition", scores
    [mode][head 1][head 2].
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many runs at once share the cores better that way
    try:
        model, history = train(run)
    finally:
        torch.set_num_threads(threads)
    repeated = text.repeated_tokens(PERIOD, d_vocab=D_VOCAB)
    kept = {"run": asdict(run), "history": history, "looks": offsets(model, repeated, PERIOD, most=12)}
    if run.n_layers == 2:
        kept["paths"] = door_scores(model, repeated, PERIOD)
        with torch.no_grad():
            kept["composition"] = {mode: composition.scores(model, mode)[0, :, 1].tolist() for mode in "QKV"}
    return kept


@checked
def sweep(runs: dict[str, Run], folder: Path, jobs: int = 1) -> dict[str, dict[str, Any]]:
    """Train all runs, `jobs` at a time, and return the `result` of each; what `folder` already holds is not redone.

    The work goes through joblib, so a cluster takes it over with one line around the call, where `Client` is Dask's:

        with Client("tcp://scheduler:8786"), joblib.parallel_config(backend="dask"):

    Its workers (two at least, or joblib stays at home) need this package; the results are written here.
    """
    files = {name: folder / f"{name.replace(' ', '-')}.json" for name in runs}
    missing = [name for name in runs if not _is_stored(files[name], runs[name])]
    work = (joblib.delayed(_named_result)(name, runs[name]) for name in missing)
    finished = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(work)
    for name, kept in tqdm(finished, total=len(missing), unit="run"):
        write_atomically(files[name], partial(Path.write_text, data=json.dumps(kept), encoding="utf-8"))
    return {name: json.loads(files[name].read_text(encoding="utf-8")) for name in runs}


def _named_result(name: str, run: Run) -> tuple[str, dict[str, Any]]:
    return name, result(run)


def _is_stored(file: Path, run: Run) -> bool:
    return file.exists() and as_stored(json.loads(file.read_text(encoding="utf-8"))["run"]) == as_stored(asdict(run))


def as_stored(run: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `Run` as JSON gives them back; those that an older file lacks have their defaults."""
    return json.loads(json.dumps(asdict(Run()) | run))


@checked
def histories(folder: Path = DATA / "formation") -> dict[str, list[dict[str, Any]]]:
    """The stored results of every condition, one per seed: see `result`, and CONDITIONS for the names."""
    return json.loads(verified(folder / "histories.json").read_text(encoding="utf-8"))


def _rounded(value: Any) -> Any:
    """Four digits are enough, and keep the file small."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


@checked
def write(results: dict[str, dict[str, Any]], folder: Path) -> None:
    """Write what `histories` reads. The names of the results are those of `planned`."""
    lines = []
    for condition in CONDITIONS:
        of_one = [kept for name, kept in results.items() if name.rsplit(" ", 1)[0] == condition]
        lines.append(
            f"{json.dumps(condition)}: [\n" + ",\n".join(json.dumps(_rounded(kept)) for kept in of_one) + "\n]"
        )
    content = "{\n" + ",\n".join(lines) + "\n}\n"
    write_atomically(folder / "histories.json", lambda path: path.write_text(content, encoding="utf-8"))
    write_checksums(folder)


@checked
def planned(seeds: Iterable[int] = SEEDS) -> dict[str, Run]:
    """Every condition with every seed, named like "one layer 3"; seed by seed."""
    return {f"{name} {seed}": replace(run, seed=seed) for seed in seeds for name, run in CONDITIONS.items()}
