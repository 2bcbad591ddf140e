"""Training small models: what a run is, what is measured meanwhile, and what is kept of it."""

import functools
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm
from transformer_lens import HookedTransformer

from course_lessons.formation import measures
from course_lessons.formation.events import chosen_head
from course_lessons.formation.forward import held_logits, logits
from course_lessons.formation.language import D_VOCAB, LENGTH, N_CTX, documents
from course_utils import composition, measure, text
from course_utils._arguments import Count, validated
from course_utils._files import entries, set_aside, write_text
from course_utils._torch_state import one_thread
from course_utils.models import initial, sinusoids
from course_utils.training.train import Optimizers, State, TextRecipe, alone, loop

PERIOD = 20  # of the repeated random tokens
TOGETHER = 25  # steps whose documents are made together


@dataclass(frozen=True)
class Run(TextRecipe):
    """All that a run's history depends on, but for rounding.

    Batch and steps: chosen on the seeds 0, 101 and 102.
    """

    n_layers: int = 2
    steps: int = 400
    batch: int = 64
    muon_lr: float | None = 0.04
    adamw_lr: float = 1e-2
    warmup: int = 20
    hold: float = 4 / 5
    planted: int = 0  # head (0, 0) starts as a head that looks so many places back; 0: no plant
    spread: bool = (
        True  # whether names are of many lengths and stand apart: see `language.documents`
    )
    name_length: int = LENGTH  # of all names, where they are not spread
    n_ctx: int = N_CTX  # tokens of a document
    every: int = 20  # steps between measurements
    held: tuple[str, ...] = ()  # parts that another model does: see `forward.held_logits`
    held_as: str = (
        "end"  # which one: what this run, without these fields, has at its "end" or at its "start"
    )
    # a head of layer 1 that is off: the "best" at prefix matching at the end of that run, or
    # "least"
    silent: str = ""
    silent_from: int = 0  # the step from which it is off
    smear: str = (
        ""  # layer 0's keys are half those of the "previous" place, or of a "shuffled" earlier one
    )

    def config(self) -> dict[str, Any]:
        """The model, as fields of `HookedTransformerConfig`.

        It has attention only, no LayerNorm, 4 heads of 16 a layer.
        """
        small = {"d_model": 64, "n_heads": 4, "d_head": 16, "n_ctx": self.n_ctx, "d_vocab": D_VOCAB}
        return {**super().config(), **small}

    def documents(self, n: int, seed: int) -> Int[Tensor, "n pos"]:
        """What its model reads."""
        return documents(n, seed, spread=self.spread, length=self.name_length, n_ctx=self.n_ctx)

    def unaltered(self) -> "Run":
        """The same run with nothing held and no head off."""
        return replace(self, held=(), held_as="end", silent="", silent_from=0)


@validated
def previous_token_weights(
    W_pos: Float[Tensor, "pos d_model"], d_head: Count, scale: float = 4.0, back: Count = 1
) -> tuple[Float[Tensor, "d_model d_head"], Float[Tensor, "d_model d_head"]]:
    """W_Q and W_K of a head that looks `back` places back, from sinusoids.

    They are found in float64, or last digits would vary.
    """
    fast = W_pos[:, :d_head].double()
    W_Q, W_K = torch.zeros(2, W_pos.shape[1], d_head)
    W_Q[:d_head] = scale * torch.linalg.lstsq(fast[back:], fast[:-back]).solution
    W_K[:d_head] = scale * torch.eye(d_head)
    return W_Q, W_K


@validated
def smeared(
    keys: Float[Tensor, "batch pos head d_head"], places: Int[Tensor, " pos"] | None = None
) -> Float[Tensor, "batch pos head d_head"]:
    """Keys mixed half and half with those of other places, by default the ones before.

    The first stays as it is. Olsson et al. 2022 let each head learn how much it mixes in; here it
    is a half.
    """
    places = (torch.arange(keys.shape[1]) - 1).clamp(min=0) if places is None else places
    return (keys + keys[:, places]) / 2


@validated
def shuffled_places(n_ctx: Count) -> Int[Tensor, " n_ctx"]:
    """For each place an arbitrary earlier one, but not the one before it.

    The first two have none but themselves.
    """
    generator = torch.Generator().manual_seed(0)
    return torch.tensor(
        [i if i < 2 else int(torch.randint(i - 1, (), generator=generator)) for i in range(n_ctx)]
    )


@validated
def start(run: Run) -> HookedTransformer:
    """The untrained model of a run; its positions start as sinusoids."""
    model = initial(run.config())
    model.pos_embed.W_pos.data = sinusoids(model.cfg.n_ctx, model.cfg.d_model)
    if run.planted:
        attn: Any = model.blocks[0].attn
        weights = previous_token_weights(model.W_pos.detach(), model.cfg.d_head, back=run.planted)
        attn.W_Q.data[0], attn.W_K.data[0] = weights
    if run.smear:
        places = (
            torch.arange(run.n_ctx) - 1 if run.smear == "previous" else shuffled_places(run.n_ctx)
        )
        _smear(model, lambda keys: smeared(keys, places.clamp(min=0)[: keys.shape[1]]))
    return model


def _smear(model: HookedTransformer, keys: Callable[[Tensor], Tensor]) -> None:
    """Let layer 0 look for what `keys` makes of its keys, from now on."""
    hook: Any = model.blocks[0].attn
    hook.hook_k.add_perma_hook(lambda found, hook: keys(found))


class OnLanguage:
    """A model of the synthetic language in training: see `train.Training`."""

    def __init__(self, run: Run, keys: Callable[[Tensor], Tensor] | None = None):
        self.recipe, self.model, self.hooked = run, start(run), bool(run.smear or keys)
        if keys:
            _smear(self.model, keys)
        self.optimizers = Optimizers(self.model, run)
        self.held_out = run.documents(64, seed=-1)
        self.repeated = text.repeated_tokens(PERIOD, d_vocab=D_VOCAB)
        # the step of the first batch at hand, and those made with it
        self.first = -1
        self.batches = ()
        if run.held and run.held_as == "end":
            self.other = finished(run.unaltered())[0]
        elif run.held:
            self.other = start(run).requires_grad_(False)
        if run.silent:
            whole = finished(run.unaltered())[1]
            self.off = chosen_head(whole, "prefix_matching", 1, best=run.silent == "best")

    def batch(self, step: int) -> Int[Tensor, "batch pos"]:
        """The documents of one step, made with those of the next.

        Making them one by one takes ten times as long.
        """
        first = step - step % TOGETHER
        if first != self.first:
            together = self.recipe.documents(
                TOGETHER * self.recipe.batch, seed=self.recipe.seed * 1_000_003 + first
            )
            self.first, self.batches = first, together.split(self.recipe.batch)
        return self.batches[step - first]

    def logits(
        self, tokens: Int[Tensor, "batch pos"], step: int
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """What the run computes at a step: the model's logits, unless something is held or off."""
        if self.recipe.held:
            return held_logits(self.model, tokens, self.other, self.recipe.held)
        if self.hooked:
            return self.model(tokens)
        is_off = self.recipe.silent and step >= self.recipe.silent_from
        return logits(self.model, tokens, [self.off] if is_off else [])

    def loss(self, step: int) -> Float[Tensor, ""]:
        """The mean over all tokens of a batch, in nats."""
        tokens = self.batch(step)
        guesses = self.logits(tokens, step)[:, :-1].flatten(0, 1)  # [token, d_vocab]
        mean = F.cross_entropy(guesses, tokens[:, 1:].flatten())
        if not self.recipe.held:
            return mean
        # the optimizers want a gradient of every weight: of those whose part another model does, it
        # is zero
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        return mean + 0.0 * sum(weight.sum() for weight in trained)

    @torch.no_grad()
    def measure(self, step: int = 0) -> dict[str, Any]:
        """What a history row holds: see `train` below."""
        row: dict[str, Any] = {**measure.on_text(self.model, self.held_out, window=16)}
        row |= measure.on_repeats(self.model, self.repeated, PERIOD)
        if self.recipe.n_layers == 2:
            row |= {name: found.tolist() for name, found in measures.matches(self.model).items()}
        row |= measures.offsets(self.model, self.repeated, PERIOD, most=12)
        row["saves"] = measures.saving(self.logits(self.repeated, step), self.repeated, PERIOD)
        return row


@validated
def train(
    run: Run,
    watch: Callable[[list[dict]], object] | None = None,
    keys: Callable[[Tensor], Tensor] | None = None,
) -> tuple[HookedTransformer, list[dict[str, Any]]]:
    """Train one model; returns it and its history, a row for every `run.every` steps.

    `watch` sees the history as it grows. `keys` makes of layer 0's keys, [batch, pos, head,
    d_head], what its queries meet: see `smeared`.

    Losses are in nats, on documents that are not trained on and on random tokens repeated every
    PERIOD. Scores of heads are lists [layer][head]; those of pairs, `match`, `lead` and `chance`
    (see `measures`), [head 1][head 2]. What repeating "saves" is of the run as it is, with all that
    is held or off; the others are of the model alone.
    """
    training, state = OnLanguage(run, keys), State(run.steps)

    def look() -> None:
        state.history.append({"step": state.step, **training.measure(state.step)})
        if watch:
            watch(state.history)

    look()
    for _ in loop(training, state):
        if state.step % run.every == 0 or state.step == run.steps:
            look()
    return training.model.eval().requires_grad_(False), state.history


@functools.lru_cache(maxsize=4)
def finished(run: Run) -> tuple[HookedTransformer, list[dict[str, Any]]]:
    """The same as `train`, and remembered.

    Runs that hold on to another one's end follow each other.
    """
    return train(run)


@validated
@one_thread()  # many runs at once share the cores better that way
def result(run: Run) -> dict[str, Any]:
    """What is kept of one run: its history and what was measured on the finished model.

    "looks" are its `offsets`, up to 19. Two layers also have "paths" and "savings", their `doors`,
    "silenced", what repeating saves without each head of layer 1, and "composition", scores
    [mode][head 1][head 2].
    """
    model, history = finished(run)
    repeated = text.repeated_tokens(PERIOD, d_vocab=D_VOCAB)
    kept: dict[str, Any] = {"run": asdict(run), "history": history}
    kept["looks"] = measures.offsets(model, repeated, PERIOD, most=20)
    if run.n_layers == 2:
        kept |= measures.doors(model, repeated, PERIOD)
        without = [logits(model, repeated, [head]) for head in range(model.cfg.n_heads)]
        kept["silenced"] = [measures.saving(found, repeated, PERIOD) for found in without]
        kept["composition"] = {
            mode: composition.scores(model, mode)[0, :, 1].tolist() for mode in "QKV"
        }
    return kept


@validated
def sweep(runs: dict[str, Run], folder: Path, jobs: int = 1) -> dict[str, dict[str, Any]]:
    """Train all runs, `jobs` at a time, and return the `result` of each.

    What `folder` already holds is not redone; what is damaged there, or another run's, is set aside
    and named. Raises FileExistsError while another sweep is at work there. All goes through joblib,
    so a cluster takes it over with one line around the call, where `Client` is Dask's:

        with Client("tcp://scheduler:8786"), joblib.parallel_config(backend="dask"):

    Its workers (two at least, or joblib stays at home) need this package; the results are written
    here.
    """
    files = {name: folder / f"{name.replace(' ', '-')}.json" for name in runs}
    with alone(folder):
        missing = [name for name in runs if not _holds(files[name], runs[name])]
        work = (joblib.delayed(_named_result)(name, runs[name]) for name in missing)
        made = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(work)
        for name, kept in tqdm(made, total=len(missing), unit="run"):
            write_text(files[name], json.dumps(kept))
    return {name: json.loads(files[name].read_text(encoding="utf-8")) for name in runs}


def _named_result(name: str, run: Run) -> tuple[str, dict[str, Any]]:
    return name, result(run)


def _holds(file: Path, run: Run) -> bool:
    """Whether a file has the result of this run; if it has anything else, it is set aside."""
    kept = entries(file)
    made = kept.get("run")
    is_result = isinstance(kept.get("history"), list)
    if is_result and isinstance(made, dict) and as_stored(made) == as_stored(asdict(run)):
        return True
    if file.exists():
        aside = set_aside(file, "earlier")
        print(f"{file} is of another run. It is kept beside it, as {aside.name}.")
    return False


def as_stored(run: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `Run` as JSON gives them back.

    Those that an older file lacks have their defaults.
    """
    return json.loads(
        json.dumps({name: run.get(name, value) for name, value in asdict(Run()).items()})
    )
