"""Training the course's models: `python -m course_utils.training.train two-layer`."""

import argparse
import contextlib
import itertools
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from filelock import FileLock, Timeout
from jaxtyping import Float, Int
from safetensors import SafetensorError
from torch import Tensor
from torch.nn import Parameter
from tqdm import tqdm
from transformer_lens import HookedTransformer

from course_utils import measure, text
from course_utils._arguments import validated
from course_utils._files import write_atomically, write_checksums, write_text
from course_utils._torch_state import usual
from course_utils.models import initial, save_weights, snapshot_name
from course_utils.training import tasks
from course_utils.training.muon import Muon


@dataclass(frozen=True)
class TextRecipe:
    """How one text model is made: all that its weights depend on, besides the corpus."""

    n_layers: int
    steps: int
    snapshots: tuple[int, ...] = ()  # steps after which the weights are kept
    batch: int = 8  # small, so that there are many steps
    muon_lr: float | None = 0.02  # the attention matrices; None: AdamW for them too
    # torch's default, 0.1, keeps queries and keys so small that attention stays blurred.
    muon_decay: float = 0.0
    adamw_lr: float = 4e-3  # W_E, W_pos, W_U, and the MLPs if there are any
    warmup: int = 100  # steps up to the full learning rates
    # Until this share of the steps they stay there; then they fall to 0 in a straight line.
    hold: float = 1 / 3
    seed: int = 0
    # "LN": LayerNorm in front of every layer and of the unembedding.
    normalization: str | None = None
    biases: bool = False  # whether they are trained; if not, they stay zero
    d_model: int = 256
    d_mlp: int = 0  # neurons of every layer's MLP; 0 for a model of attention alone

    @property
    def adamw(self) -> dict[str, Any]:
        """The options of AdamW."""
        return {"lr": self.adamw_lr}

    @property
    def muon(self) -> dict[str, Any] | None:
        """The options of Muon, if it trains the attention matrices."""
        if self.muon_lr is None:
            return None
        return {"lr": self.muon_lr, "weight_decay": self.muon_decay}

    def config(self) -> dict[str, Any]:
        """The model, as fields of `HookedTransformerConfig`, with shortformer positions."""
        sizes = {"n_layers": self.n_layers, "d_model": self.d_model}
        heads = {"n_heads": self.d_model // 32, "d_head": 32}
        reads = {"n_ctx": 256, "d_vocab": text.D_VOCAB}
        mlps = {"d_mlp": self.d_mlp, "act_fn": "relu"} if self.d_mlp else {"attn_only": True}
        norm = {"normalization_type": self.normalization}
        kind = {"positional_embedding_type": "shortformer", "seed": self.seed}
        biases = {"biases": True} if self.biases else {}
        return {**sizes, **heads, **reads, **mlps, **norm, **kind, **biases}


Until = Callable[[dict[str, Any]], bool]  # says of a row of the history whether to end there
Recipe = TextRecipe | tasks.Task  # lesson 08's `runs.Run` is a TextRecipe
ONE_LAYER = TextRecipe(n_layers=1, steps=8_000)
RECIPES = {
    "zero-layer": TextRecipe(n_layers=0, steps=8_000, hold=1 / 2),
    "one-layer": ONE_LAYER,
    "one-layer-ln": replace(ONE_LAYER, normalization="LN"),  # for lesson 02b
    "one-layer-mlp": replace(ONE_LAYER, steps=4_000, d_model=128, d_mlp=512),  # for lesson 09c
    # A sibling to compare with; it does not come with the course.
    "one-layer-biases": replace(ONE_LAYER, biases=True),
    # Seed 1 is the first with two strong induction heads; snapshots stand around the phase change.
    "two-layer": TextRecipe(n_layers=2, steps=12_000, snapshots=(600, 1_000, 1_500, 3_000), seed=1),
}
ATTENTION = ("W_Q", "W_K", "W_V", "W_O")
ELSEWHERE = "choose another --out, or delete the folder."
STATE = ".state.pt"  # of a training that has not finished; hidden from the checksums
PERIOD = 64  # of the repeated random tokens that the history is measured on
SHOWN = ("train_loss", "held_out_loss", "second_pass_loss", "held_out_accuracy")  # at the bar


def interval(step: int) -> int:
    """How many steps lie between measurements, and saved states: few early on."""
    return 100 if step <= 3_000 else 500


def learning_rate(step: int, steps: int, recipe: Recipe) -> float:
    """The share of the full rates at a step: it rises, rests at 1, and falls straight to 0."""
    rising = (step + 1) / recipe.warmup
    falling = (1 - step / steps) / (1 - recipe.hold)
    return min(1.0, rising, falling)


class Optimizers:
    """Muon for a model's attention matrices where the recipe asks for it, AdamW for the rest.

    Muon (Jordan 2024) takes matrices, and TransformerLens keeps one matrix per head; so each weight
    [head, d_in, d_out] becomes a view of one matrix over all heads, and its gradient is handed on
    before every step.
    """

    def __init__(
        self, model: HookedTransformer, recipe: Recipe, fused: bool = False, dtype: str = "float32"
    ):
        # One matrix for all heads, and in its place in the model a view of it.
        self.weights: list[Parameter] = []
        self.matrices: list[Parameter] = []
        layers = range(model.cfg.n_layers if recipe.muon else 0)
        for layer, name in itertools.product(layers, ATTENTION):
            weight = model.get_parameter(f"blocks.{layer}.attn.{name}")
            n_heads, d_in, d_out = weight.shape
            matrix = Parameter(_joined(weight.detach()).clone())
            if d_in > d_out:  # W_Q, W_K, W_V
                by_place = matrix.data.view(d_in, n_heads, d_out)
                weight.data = by_place.transpose(0, 1)  # [head, d_in, d_out]
            else:
                weight.data = matrix.data.view_as(weight)
            self.weights.append(weight)
            self.matrices.append(matrix)

        # AdamW has what is left.
        joined = {id(weight) for weight in self.weights}
        rest = [p for p in model.parameters() if p.requires_grad and id(p) not in joined]
        adamw = torch.optim.AdamW(rest, fused=fused, **recipe.adamw)  # fused: same but for rounding
        self.all: list[torch.optim.Optimizer] = [adamw]
        if recipe.muon and self.matrices:
            self.all.append(Muon(self.matrices, **recipe.muon, dtype=dtype))
        self.rates = [group["lr"] for group in self._groups()]

    def step(self, rate: float) -> None:
        """One step with the gradients that `backward` left, at `rate` times the recipe's rates."""
        for weight, matrix in zip(self.weights, self.matrices, strict=True):
            assert weight.grad is not None, "step() comes after backward()"
            matrix.grad = _joined(weight.grad)
        for group, full in zip(self._groups(), self.rates, strict=True):
            group["lr"] = full * rate
        for optimizer in self.all:
            optimizer.step()

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.all for group in optimizer.param_groups]


def _joined(weight: Float[Tensor, "head d_in d_out"]) -> Float[Tensor, "rows columns"]:
    """One matrix of all heads: side by side where they read, one above the other in W_O."""
    _, d_in, d_out = weight.shape
    if d_in > d_out:
        return weight.transpose(0, 1).flatten(1).contiguous()  # [d_model, head d_head]
    return weight.flatten(0, 1).contiguous()  # [head d_head, d_model]


class Training(Protocol):
    """A model in training, as the loop sees it."""

    model: HookedTransformer
    optimizers: Optimizers

    @property
    def recipe(self) -> Recipe: ...
    def loss(self, step: int) -> Float[Tensor, ""]: ...  # in nats, by recipe and step alone


@dataclass
class State:
    """How far a training has come: what it needs to go on, besides weights and optimizers."""

    steps: int
    minutes: float | None = None  # what `steps` is to fit into, if that was asked for
    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)  # a row for each measurement


def loop(training: Training, state: State, until: Until | None = None) -> Iterator[Tensor]:
    """The loop of every training that a `Recipe` describes: yields the loss of each step done.

    It ends after `state.steps`, or when `until` is true of the last history row. What lessons fit
    in seconds, a table or a toy, have loops of five lines where they stand.
    """
    while state.step < state.steps and not (until and until(state.history[-1])):
        loss = training.loss(state.step)
        training.model.zero_grad(set_to_none=True)
        loss.backward()
        training.optimizers.step(learning_rate(state.step, state.steps, training.recipe))
        state.step += 1
        yield loss.detach()


@usual()
@validated
def train(
    kind: Callable[[Any, str], "OnText | OnTask"],
    recipe: Recipe,
    folder: Path,
    *,
    device: str = "cpu",
    minutes: float | None = None,
    until: Until | None = None,
) -> dict[str, Any]:
    """Train one model into `folder` and return its last history row.

    `kind` is `OnText`, `OnTask` or a class made of one of them. An interrupted run goes on where it
    was. With `minutes`, the number of steps is what fits, found from the speed of the first
    hundred. `until` ends the run early: at the first history row that it is true of. Raises
    FileExistsError if the folder holds a finished model or a run of another recipe, or if another
    training is at work there; OSError if a state in it can't be read, or nothing be written.
    """
    with alone(folder):
        is_begun = (folder / STATE).exists()
        if (folder / "model.safetensors").exists() and not is_begun:
            raise FileExistsError(f"{folder} already holds a finished model; {ELSEWHERE}")
        training = kind(recipe, device)
        state = State(recipe.steps, minutes)
        if is_begun:
            state = _resumed(training, folder / STATE, minutes)
        return _trained(training, state, folder, until)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """A block in which no other training works in a folder; FileExistsError if one does."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")  # it ends with its process, however that ends
    try:
        lock.acquire(timeout=0)
    except Timeout:
        busy = f"Another training is at work in {folder}"
        raise FileExistsError(f"{busy}: wait for its end, or choose another --out.") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows keeps an open file, and filelock removes it
            (folder / ".lock").unlink()
        lock.release()


def _trained(
    training: "OnText | OnTask", state: State, folder: Path, until: Until | None
) -> dict[str, Any]:
    """Train from a state on, to the end."""
    state_file = folder / STATE
    bar = tqdm(total=state.steps, initial=state.step, unit="step", desc=folder.name, mininterval=1)
    started = time.monotonic() - state.seconds
    losses = []  # since the last measurement
    try:
        if not state.history:
            state.history.append({"step": 0, **training.measure()})
        for loss in loop(training, state, until):
            losses.append(loss)
            bar.update()
            state.seconds = time.monotonic() - started

            # After a hundred steps the speed is known, and so how many steps fit.
            if state.minutes and state.step == 100:
                fitting = int(100 * state.minutes * 60 / state.seconds)
                state.steps = bar.total = max(200, fitting)

            # A snapshot comes before the state that knows of it, or a resumed run would skip it.
            if state.step in training.recipe.snapshots:
                with _written(folder):
                    save_weights(training.model, folder / snapshot_name(state.step))

            # Measure, and save what a resumed run starts from.
            if state.step % interval(state.step) == 0 or state.step == state.steps:
                train_loss = torch.stack(losses).mean().item()
                row = {"step": state.step, "train_loss": train_loss, **training.measure()}
                losses.clear()
                state.history.append(row)
                bar.set_postfix({key: f"{row[key]:.3f}" for key in SHOWN if key in row})
                _save(training, state_file, state)
    except KeyboardInterrupt:
        stopped = f"Stopped after {state.step} steps."
        print(f"\n{stopped} The same command goes on from the last saved state.")
        raise SystemExit(130) from None
    finally:
        bar.close()
    with _written(folder):
        _finish(training, folder, state)
    state_file.unlink(missing_ok=True)  # last: whoever is stopped before finishes again
    return state.history[-1]


@contextlib.contextmanager
def _written(place: Path) -> Iterator[None]:
    """A block that writes: torch and safetensors have errors of their own for a full disk."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        raise OSError(
            f"{place} can't be written: is the disk full? Make room, and the same command goes on "
            f"from the last saved state. ({error})"
        ) from error


def _save(training: "OnText | OnTask", state_file: Path, state: State) -> None:
    """Write what `_resumed` reads."""
    everything = {
        "recipe": asdict(training.recipe),
        "precision": training.precision,
        "state": asdict(state),
        "model": training.model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in training.optimizers.all],
    }
    with _written(state_file):
        write_atomically(state_file, lambda path: torch.save(everything, path))


def _resumed(training: "OnText | OnTask", state_file: Path, minutes: float | None) -> State:
    """The state that an interrupted run had saved; model and optimizers are set back to it."""
    try:
        with zipfile.ZipFile(state_file) as archive:
            if archive.testzip():  # torch reads wrong numbers without a word
                raise ValueError("its sums differ")
        device = training.model.cfg.device
        stored = torch.load(state_file, map_location=device, weights_only=True)
        is_same = stored["recipe"] == asdict(training.recipe)
        if is_same and stored["state"]["minutes"] == minutes:
            training.model.load_state_dict(stored["model"])
            for optimizer, saved in zip(training.optimizers.all, stored["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            # It goes on in the precision that it began with, on whatever processor.
            training.precision = stored.get("precision", training.precision)
            return State(**stored["state"])
    except (MemoryError, PermissionError, torch.OutOfMemoryError):
        raise  # it may be as good as ever
    except Exception as error:  # what torch raises depends on where the damage is
        raise OSError(
            f"{state_file} is damaged, or nothing that this training wrote: delete it, and the "
            "same command begins anew, or choose another --out."
        ) from error
    raise FileExistsError(f"{state_file.parent} holds a run of another recipe; {ELSEWHERE}")


def _finish(training: "OnText | OnTask", folder: Path, state: State) -> None:
    """Write what `models.load` reads: weights, configuration, history, checksums."""
    save_weights(training.model, folder / "model.safetensors")
    recipe = replace(training.recipe, steps=state.steps)
    card = {
        "model": recipe.config(),
        "recipe": asdict(recipe),
        **training.card(state.step),
        "training_seconds": round(state.seconds),
        "device": str(training.model.cfg.device),
        "precision": training.precision,
        "torch": torch.__version__,
        "result": state.history[-1],
    }
    write_text(folder / "config.json", json.dumps(card, indent=1) + "\n")
    rows = ",\n".join(json.dumps(row) for row in state.history)
    write_text(folder / "history.json", f"[\n{rows}\n]\n")
    write_checksums(folder)


def batch_of(
    stream: Int[Tensor, " n"], recipe: TextRecipe, step: int
) -> Int[Tensor, "batch n_ctx"]:
    """The contexts of one step, by the seed and the step alone: a run can be resumed."""
    generator = torch.Generator().manual_seed(recipe.seed * 1_000_000_007 + step)
    length = recipe.config()["n_ctx"] - 1
    starts = torch.randint(len(stream) - length, (recipe.batch, 1), generator=generator)
    contexts = stream[starts + torch.arange(length)]  # [batch, n_ctx - 1], consecutive tokens
    start_tokens = torch.zeros_like(contexts[:, :1])  # [batch, 1]
    return torch.cat([start_tokens, contexts], dim=1)  # [batch, n_ctx]


def precision() -> str:
    """What this processor multiplies a text model's matrices in: "bfloat16" or "float32".

    bfloat16 where it has units for that: without them it takes three times as long. Sums,
    optimizers and stored weights are float32 in both.
    """
    able = torch.cpu.get_capabilities()
    units = ("avx512_bf16", "amx_bf16", "bf16")  # the last is what ARM calls them
    return "bfloat16" if any(able.get(name) for name in units) else "float32"


class OnText:
    """A text model in training, on the corpus or on another `stream` of tokens."""

    fused = True  # AdamW in one piece: faster

    def __init__(
        self, recipe: TextRecipe, device: str = "cpu", stream: Int[Tensor, " n"] | None = None
    ):
        self.recipe = recipe
        self.device = torch.device(device)
        self.precision = precision() if device == "cpu" else "bfloat16"
        self.stream = text.encode(text.corpus_documents()) if stream is None else stream
        self.tokens = text.held_out_tokens().to(self.device)
        self.repeated = text.repeated_tokens(PERIOD).to(self.device)
        self.model = initial(recipe.config(), device)
        self.optimizers = Optimizers(self.model, recipe, self.fused, self.precision)

    def batch(self, step: int) -> Int[Tensor, "batch n_ctx"]:
        """The contexts of one step, where the model is."""
        return batch_of(self.stream, self.recipe, step).to(self.device)

    def loss(self, step: int) -> Float[Tensor, ""]:
        """The mean over all tokens of a batch, in nats."""
        is_half = self.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=is_half):
            return self.model(self.batch(step), return_type="loss")

    def measure(self) -> dict[str, Any]:
        """Losses and head scores: see `measure.on_text` and `measure.on_repeats`."""
        on_text = measure.on_text(self.model, self.tokens)
        on_repeats = measure.on_repeats(self.model, self.repeated, PERIOD)
        return on_text | on_repeats

    def card(self, steps: int) -> dict[str, Any]:
        """Which text was read, and how much of it."""
        n_ctx = self.recipe.config()["n_ctx"]
        return {"corpus": text.corpus_manifest(), "tokens_seen": steps * self.recipe.batch * n_ctx}


class OnTask:
    """The same for a model of one of the small tasks: the loss at the last position alone."""

    def __init__(self, recipe: tasks.Task, device: str = "cpu"):
        self.recipe = recipe
        self.device = torch.device(device)
        self.precision = "float32"
        self.training, self.held_out = tasks.examples(recipe)
        self.model = initial(recipe.config() | {"model_name": recipe.rule}, device)
        self.optimizers = Optimizers(self.model, recipe)

    def loss(self, step: int) -> Float[Tensor, ""]:
        """The mean over the inputs of a batch, in nats."""
        batch = tasks.batch_of(self.recipe, step, self.training)  # [batch, length]
        losses, _ = self._losses(batch)
        return losses.mean()

    @torch.no_grad()
    def measure(self) -> dict[str, Any]:
        """Loss and accuracy on what was held out, the accuracy for each length of input too."""
        losses, right = zip(*(self._losses(tokens) for tokens in self.held_out), strict=True)
        return {
            "held_out_loss": torch.cat(losses).mean().item(),
            "held_out_accuracy": torch.cat(right).mean().item(),
            "accuracy_by_length": [hits.mean().item() for hits in right],
        }

    def card(self, steps: int) -> dict[str, Any]:
        """How many examples were seen."""
        return {"examples_seen": steps * self.recipe.batch}

    def _losses(self, tokens: Int[Tensor, "batch length"]) -> tuple[Tensor, Tensor]:
        """For each input [batch]: the loss, and 1 where the model is right."""
        answers = tasks.answers(self.recipe, tokens).to(self.device)
        logits = self.model(tokens.to(self.device))[:, -1]  # [batch, d_vocab]
        losses = torch.nn.functional.cross_entropy(logits, answers, reduction="none")
        return losses, (logits.argmax(1) == answers).float()


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m course_utils.training.train", description=__doc__
    )
    how_long = "train for about so long instead of the recipe's number of steps"
    parser.add_argument("model", choices=[*RECIPES, *tasks.TASKS])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--minutes", type=float, help=how_long)
    parser.add_argument("--seed", type=int, help="another seed than the recipe's")
    parser.add_argument("--out", type=Path, help="folder for the result (runs/MODEL)")
    options = parser.parse_args(arguments)
    if options.minutes is not None and options.minutes <= 0:
        parser.error(f"--minutes must be above 0, not {options.minutes}.")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error(
            "--device cuda: torch finds no GPU on this machine; leave --device out to train on "
            "the CPU."
        )
    kind = OnText if options.model in RECIPES else OnTask
    recipe: Recipe = RECIPES.get(options.model) or tasks.TASKS[options.model]
    if options.seed is not None:
        recipe = replace(recipe, seed=options.seed)
    folder = options.out or Path("runs") / options.model
    try:
        row = train(kind, recipe, folder, device=options.device, minutes=options.minutes)
    except OSError as error:
        parser.error(str(error))
    accuracy = f", accuracy {row['held_out_accuracy']:.2%}" if "held_out_accuracy" in row else ""
    print(f"{folder}: held-out loss {row['held_out_loss']:.3f} nats{accuracy}")


if __name__ == "__main__":
    main()
