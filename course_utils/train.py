"""Training the course's models: `python -m course_utils.train two-layer`."""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from course_utils import measure, tasks, text
from course_utils._arguments import checked
from course_utils._files import write_atomically, write_checksums
from course_utils.models import initial, save_weights, snapshot_name


@dataclass(frozen=True)
class Recipe:
    """How one text model is made: all that its weights depend on, besides the corpus."""

    n_layers: int
    steps: int
    snapshots: tuple[int, ...] = ()  # steps after which the weights are kept
    batch: int = 8  # small, so that there are many steps
    muon_lr: float = 0.02  # the attention matrices
    muon_decay: float = 0.0  # torch's default, 0.1, keeps queries and keys so small that attention stays blurred
    adamw_lr: float = 4e-3  # W_E, W_pos, W_U
    warmup: int = 100  # steps up to the full learning rates
    hold: float = 1 / 3  # until this share of the steps they stay there; then they fall to 0 in a straight line
    seed: int = 0
    normalization: str | None = None  # "LN": LayerNorm in front of every layer and of the unembedding

    def config(self) -> dict:
        """The model, as fields of `HookedTransformerConfig`: attention only, shortformer positions."""
        return {
            "n_layers": self.n_layers,
            "d_model": 256,
            "n_heads": 8,
            "d_head": 32,
            "n_ctx": 256,
            "d_vocab": text.D_VOCAB,
            "attn_only": True,
            "normalization_type": self.normalization,
            "positional_embedding_type": "shortformer",
            "seed": self.seed,
        }


RECIPES = {
    "zero-layer": Recipe(n_layers=0, steps=8_000, hold=1 / 2),
    "one-layer": Recipe(n_layers=1, steps=8_000),
    "one-layer-ln": Recipe(n_layers=1, steps=8_000, normalization="LN"),  # for lesson 10
    # seed 1: the first with two strong induction heads; snapshots around the phase change
    "two-layer": Recipe(n_layers=2, steps=12_000, snapshots=(600, 1_000, 1_500, 3_000), seed=1),
}
SHOWN = ("train_loss", "held_out_loss", "second_pass_loss", "held_out_accuracy")  # beside the progress bar
PERIOD = 64  # of the repeated random tokens that the history is measured on


def interval(step: int) -> int:
    """How many steps lie between measurements (the state is saved as often): few early on, where most changes."""
    return 100 if step <= 3_000 else 500


class Optimizers:
    """Muon (Jordan 2024) for a text model's attention matrices, AdamW for the rest, with one schedule.

    Muon takes matrices, TransformerLens keeps one matrix per head; so each weight [head, d_in, d_out] becomes a view
    of one matrix over all heads, and its gradient is handed on before every step.
    """

    def __init__(self, model, recipe: Recipe | tasks.Task, fused: bool = False):
        self.weights, self.matrices = [], []
        small = isinstance(recipe, tasks.Task)
        for block in () if small else model.blocks:
            for weight in (block.attn.W_Q, block.attn.W_K, block.attn.W_V, block.attn.W_O):
                matrix = torch.nn.Parameter(self._joined(weight.detach()).clone())
                n_heads, d_in, d_out = weight.shape
                weight.data = (
                    matrix.data.view(d_in, n_heads, d_out).transpose(0, 1)
                    if d_in > d_out
                    else matrix.data.view_as(weight)
                )
                self.weights.append(weight)
                self.matrices.append(matrix)
        joined = {id(weight) for weight in self.weights}
        rest = [p for p in model.parameters() if p.requires_grad and id(p) not in joined]
        options = {"betas": (0.9, 0.98), "weight_decay": recipe.adamw_decay} if small else {}
        self.all = [
            torch.optim.AdamW(rest, lr=recipe.adamw_lr, fused=fused, **options)
        ]  # fused: same, but for rounding
        if self.matrices:
            self.all.append(torch.optim.Muon(self.matrices, lr=recipe.muon_lr, weight_decay=recipe.muon_decay))
        self.rates = [group["lr"] for optimizer in self.all for group in optimizer.param_groups]

    @staticmethod
    def _joined(weight: Tensor) -> Tensor:
        """W_Q, W_K, W_V: [head, d_model, d_head] → [d_model, head d_head]; W_O: [head, d_head, d_model] → its rows."""
        reads = weight.shape[1] > weight.shape[2]
        return (weight.transpose(0, 1).flatten(1) if reads else weight.flatten(0, 1)).contiguous()

    def step(self, rate: float) -> None:
        """One step with the gradients that `backward` left, at `rate` times the recipe's learning rates."""
        for weight, matrix in zip(self.weights, self.matrices, strict=True):
            matrix.grad = self._joined(weight.grad)
        groups = [group for optimizer in self.all for group in optimizer.param_groups]
        for group, full in zip(groups, self.rates, strict=True):
            group["lr"] = full * rate
        for optimizer in self.all:
            optimizer.step()


def learning_rate(step: int, steps: int, recipe: Recipe | tasks.Task) -> float:
    """The share of the full rates at a step: a short warm-up, a constant stretch, a straight line down to 0."""
    return min(1.0, (step + 1) / recipe.warmup, (1 - step / steps) / (1 - recipe.hold))


def batch_of(stream: Tensor, recipe: Recipe, step: int) -> Tensor:
    """The contexts of one step, [batch, n_ctx]: they depend on the seed and the step alone, so a run can be resumed."""
    generator = torch.Generator().manual_seed(recipe.seed * 1_000_000_007 + step)
    length = recipe.config()["n_ctx"] - 1
    starts = torch.randint(len(stream) - length, (recipe.batch, 1), generator=generator)
    contexts = stream[starts + torch.arange(length)]
    return torch.cat([torch.zeros_like(contexts[:, :1]), contexts], dim=1)  # every context opens with the start token


def precision(device: str) -> str:
    """What a text model's matrix products are computed in: "bfloat16" on a GPU and on a processor with units for it.

    On a processor without such units a bfloat16 product takes three times as long as one in float32, so there it is
    "float32". Sums, optimizers and the stored weights are float32 in both.
    """
    able = torch.cpu.get_capabilities()
    units = any(able.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))  # the last is what ARM calls them
    return "bfloat16" if units or device != "cpu" else "float32"


class OnText:
    """A text model in training: what the loop below asks of it."""

    def __init__(self, recipe: Recipe, device: str):
        self.precision = precision(device)
        self.recipe, self.stream = recipe, text.encode(text.corpus_documents())
        self.tokens, self.repeated = text.held_out_tokens(), text.repeated_tokens(PERIOD)
        self.model = initial(recipe.config(), device)
        self.optimizers = Optimizers(self.model, recipe, fused=True)

    def loss(self, step: int) -> Tensor:
        batch = batch_of(self.stream, self.recipe, step).to(self.model.cfg.device)
        device = torch.device(self.model.cfg.device).type
        with torch.autocast(device, torch.bfloat16, enabled=self.precision == "bfloat16"):
            return self.model(batch, return_type="loss")

    def measure(self) -> dict:
        return measure.on_text(self.model, self.tokens) | measure.on_repeats(self.model, self.repeated, PERIOD)

    def card(self, steps: int) -> dict:
        n_ctx = self.recipe.config()["n_ctx"]
        return {"corpus": text.corpus_manifest(), "tokens_seen": steps * self.recipe.batch * n_ctx}


class OnTask:
    """The same for a model of one of the small tasks: AdamW for all of it, the loss at the last position alone."""

    precision = "float32"

    def __init__(self, recipe: tasks.Task, device: str):
        self.recipe, (self.training, self.held_out) = recipe, tasks.examples(recipe)
        self.model = initial(recipe.config(), device)
        self.optimizers = Optimizers(self.model, recipe)

    def loss(self, step: int) -> Tensor:
        return self._losses(tasks.batch_of(self.recipe, step, self.training))[0].mean()

    @torch.no_grad()
    def measure(self) -> dict:
        losses, right = zip(*(self._losses(tokens) for tokens in self.held_out), strict=True)
        return {
            "held_out_loss": torch.cat(losses).mean().item(),
            "held_out_accuracy": torch.cat(right).mean().item(),
            "accuracy_by_length": [hits.mean().item() for hits in right],
        }

    def card(self, steps: int) -> dict:
        return {"examples_seen": steps * self.recipe.batch}

    def _losses(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Per input: the loss, and 1 where the model is right."""
        answers = tasks.answers(self.recipe, tokens).to(self.model.cfg.device)
        logits = self.model(tokens.to(self.model.cfg.device))[:, -1]
        return torch.nn.functional.cross_entropy(logits, answers, reduction="none"), (
            logits.argmax(1) == answers
        ).float()


@checked
def train(
    recipe: Recipe | tasks.Task,
    folder: Path,
    *,
    device: str = "cpu",
    minutes: float | None = None,
    kind: type | None = None,
    until: Callable[[dict], bool] | None = None,
) -> dict:
    """Train one model into `folder` and return its last history row; an interrupted run goes on where it was.

    With `minutes`, the number of steps is what fits, found from the speed of the first hundred. `kind` trains in
    another way than `OnText` or `OnTask`, and `until` ends the run early: at the first history row that it is true of.
    Raises FileExistsError if the folder holds a finished model, or a run of another recipe.
    """
    state_file = folder / ".state.pt"  # hidden from the checksums
    if (folder / "model.safetensors").exists() and not state_file.exists():
        raise FileExistsError(f"{folder} already holds a finished model; choose another --out, or delete the folder.")
    run = (kind or (OnText if isinstance(recipe, Recipe) else OnTask))(recipe, device)
    model, optimizers = run.model, run.optimizers
    state = {"recipe": asdict(recipe), "minutes": minutes, "step": 0, "steps": recipe.steps, "seconds": 0.0}
    state |= {"history": [], "precision": run.precision}
    if state_file.exists():
        stored = torch.load(state_file, map_location=device, weights_only=True)
        if stored["recipe"] != state["recipe"] or stored["minutes"] != minutes:
            raise FileExistsError(
                f"{folder} holds a run of another recipe; choose another --out, or delete the folder."
            )
        model.load_state_dict(stored.pop("model"))
        for optimizer, saved in zip(optimizers.all, stored.pop("optimizers"), strict=True):
            optimizer.load_state_dict(saved)
        state |= stored
        run.precision = state["precision"]  # as it began, on whatever processor

    def save() -> None:
        everything = state | {
            "model": model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in optimizers.all],
        }
        write_atomically(state_file, lambda path: torch.save(everything, path))

    bar = tqdm(total=state["steps"], initial=state["step"], unit="step", desc=folder.name, mininterval=1)
    started, before, losses = time.monotonic(), state["seconds"], []
    try:
        while state["step"] < state["steps"] and not (until and state["history"] and until(state["history"][-1])):
            if state["step"] == 0 and not state["history"]:
                state["history"].append({"step": 0, **run.measure()})
            loss = run.loss(state["step"])
            model.zero_grad(set_to_none=True)
            loss.backward()
            optimizers.step(learning_rate(state["step"], state["steps"], recipe))
            state["step"] += 1
            losses.append(loss.detach())
            bar.update()
            state["seconds"] = before + time.monotonic() - started
            if minutes and state["step"] == 100:
                state["steps"] = bar.total = max(200, int(100 * minutes * 60 / state["seconds"]))
            if state["step"] in getattr(recipe, "snapshots", ()):
                save_weights(model, folder / snapshot_name(state["step"]))  # before the state: no resumed run skips it
            if state["step"] % interval(state["step"]) == 0 or state["step"] == state["steps"]:
                row = {"step": state["step"], "train_loss": torch.stack(losses).mean().item()}
                losses.clear()
                state["history"].append(row | run.measure())
                shown = {key: state["history"][-1][key] for key in SHOWN if key in state["history"][-1]}
                bar.set_postfix({key: f"{value:.3f}" for key, value in shown.items()})
                save()
    except KeyboardInterrupt:
        print(f"\nStopped after {state['step']} steps. The same command goes on from the last saved state.")
        raise SystemExit(130) from None
    finally:
        bar.close()
    _finish(run, folder, state)
    write_checksums(folder)
    state_file.unlink()  # last: whoever is stopped before finishes again
    return state["history"][-1]


def _finish(run: OnText | OnTask, folder: Path, state: dict) -> None:
    """Write what `models.load` reads: weights, configuration, history, checksums."""
    save_weights(run.model, folder / "model.safetensors")
    recipe = replace(run.recipe, steps=state["steps"])
    card = {
        "model": recipe.config(),
        "recipe": asdict(recipe),
        **run.card(state["step"]),
        "training_seconds": round(state["seconds"]),
        "device": str(run.model.cfg.device),
        "precision": run.precision,
        "torch": torch.__version__,
        "result": state["history"][-1],
    }
    write_atomically(
        folder / "config.json", lambda path: path.write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    )
    history = "[\n" + ",\n".join(json.dumps(row) for row in state["history"]) + "\n]\n"
    write_atomically(folder / "history.json", lambda path: path.write_text(history, encoding="utf-8"))


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    recipes = RECIPES | tasks.TASKS
    parser = argparse.ArgumentParser(prog="python -m course_utils.train", description=__doc__)
    parser.add_argument("model", choices=recipes)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--minutes", type=float, help="train for about so long instead of the recipe's number of steps")
    parser.add_argument("--seed", type=int, help="another seed than the recipe's")
    parser.add_argument("--out", type=Path, help="folder for the result (runs/MODEL)")
    options = parser.parse_args(arguments)
    if options.minutes is not None and options.minutes <= 0:
        parser.error(f"--minutes must be above 0, not {options.minutes}.")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU on this machine; leave --device out to train on the CPU.")
    recipe = recipes[options.model]
    recipe = recipe if options.seed is None else replace(recipe, seed=options.seed)
    folder = options.out or Path("runs") / options.model
    try:
        result = train(recipe, folder, device=options.device, minutes=options.minutes)
    except FileExistsError as error:
        parser.error(str(error))
    accuracy = f", accuracy {result['held_out_accuracy']:.2%}" if "held_out_accuracy" in result else ""
    print(f"{folder}: held-out loss {result['held_out_loss']:.3f} nats{accuracy}")


if __name__ == "__main__":
    main()
