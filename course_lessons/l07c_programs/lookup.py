"""The task of lesson 07c, and the models that were trained on it: what came after this letter?

`python -m course_lessons.l07c_programs.lookup` makes them again, in `data/lookup/`.
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformer_lens import HookedTransformer

from course_lessons.programs import START
from course_utils import interventions, models, text
from course_utils._arguments import Count, NotNegative, require_tokens, validated
from course_utils._files import DATA, write_checksums, write_text
from course_utils._torch_state import usual

# the start token and twelve letters; the longest text has two times eight of them
D_VOCAB = 13
N_CTX = 17
CONFIG: dict[str, Any] = {"n_layers": 2, "n_heads": 2, "d_head": 16, "d_model": 48, "n_ctx": N_CTX}
CONFIG |= {"d_vocab": D_VOCAB, "attn_only": True, "normalization_type": None}
CONFIG |= {"positional_embedding_type": "standard"}
TRAINED_ON = (5, 6, 7, 8)  # letters in a block
LENGTHS = range(3, 9)  # at which models are asked
SEEDS = range(5)
WRITERS, READERS = [(0, 0), (0, 1)], [(1, 0), (1, 1)]
# the doors that are shut
KEYS: list[Any] = [(writer, "k", reader) for writer in WRITERS for reader in READERS]
RATE, BATCH, WARMUP = 3e-3, 64, 50
MODELS: dict[str, dict[str, Any]] = {f"{seed}": {"seed": seed, "steps": 500} for seed in SEEDS}
MODELS |= {f"shut-{seed}": {"seed": seed, "steps": 1_500, "shut": KEYS} for seed in SEEDS}
MODELS |= {"one-layer": {"seed": 0, "steps": 1_500, "n_layers": 1, "n_heads": 4}}


@validated
def texts(n: Count, batch: Count = 200, seed: NotNegative = 0) -> Int[Tensor, "batch pos"]:
    """The start token, a block of `n` different letters, and the same letters in another order."""
    generator = torch.Generator().manual_seed(seed)
    blocks = text.different_tokens(n, batch, D_VOCAB - 1, generator)
    return torch.cat([torch.full((batch, 1), START), blocks, shuffled(blocks, generator)], 1)


def shuffled(rows: Int[Tensor, "batch n"], generator: torch.Generator) -> Int[Tensor, "batch n"]:
    """The same letters in each row, in another order."""
    return torch.stack([row[torch.randperm(len(row), generator=generator)] for row in rows])


@validated
def with_another_block(
    tokens: Int[Tensor, "batch pos"], seed: NotNegative = 1
) -> Int[Tensor, "batch pos"]:
    """The same questions after the same letters in another order.

    What came after each is another now.
    """
    require_tokens(None, tokens)
    n = tokens.shape[1] // 2
    block = shuffled(tokens[:, 1 : n + 1], torch.Generator().manual_seed(seed))
    return torch.cat([tokens[:, :1], block, tokens[:, n + 1 :]], 1)


@validated
def answers(
    tokens: Int[Tensor, "batch pos"], about: Int[Tensor, "batch pos"] | None = None
) -> Int[Tensor, "batch question"]:
    """For each letter of the second half, the one after it in the block.

    It is looked for in `about`, if that is given.
    """
    require_tokens(None, tokens)
    n, where = tokens.shape[1] // 2, tokens if about is None else about
    # [batch, question]: of the first copy
    place = (where[:, None, :] == tokens[:, n + 1 :, None]).int().argmax(-1)
    return tokens.gather(1, place + 1)


@validated
def any_letters(batch: Count = 200, seed: NotNegative = 0) -> Int[Tensor, "batch pos"]:
    """The start token, and sixteen letters at random.

    No model was trained on texts of this kind.
    """
    letters = torch.randint(
        1, D_VOCAB, (batch, N_CTX - 1), generator=torch.Generator().manual_seed(seed)
    )
    return torch.cat([torch.full((batch, 1), START), letters], 1)


def a_second_time(tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos"]:
    """Where a letter stands for the second time."""
    return (tokens[:, :, None] == tokens[:, None]).tril(-1).sum(-1) == 1


def right(logits: Float[Tensor, "batch pos d_vocab"], tokens: Int[Tensor, "batch pos"]) -> float:
    """The share of the questions that are answered rightly."""
    return (
        (logits.argmax(-1)[:, tokens.shape[1] // 2 + 1 :] == answers(tokens)).float().mean().item()
    )


def followed(
    logits: Float[Tensor, "batch pos d_vocab"],
    tokens: Int[Tensor, "batch pos"],
    source: Int[Tensor, "batch pos"],
    door: str,
) -> float:
    """The share of answers that are what an exchange through a door predicts.

    Of those that it should change. Queries and keys say where a head looks: the place is that of
    `source`, and the letter is read in `tokens`. Values say what it moves: the place is that of
    `tokens`, and the letter is read in `source`. Raises ValueError for another door than "q", "k"
    or "v".
    """
    if door not in ("q", "k", "v"):
        raise ValueError(f'A door is "q", "k" or "v", not {door!r}.')
    own = answers(tokens)
    other = answers(source, about=tokens) if door == "v" else answers(tokens, about=source)
    said = logits.argmax(-1)[:, tokens.shape[1] // 2 + 1 :]
    return (said == other)[own != other].float().mean().item()


def kept(
    logits: Float[Tensor, "batch pos d_vocab"],
    tokens: Int[Tensor, "batch pos"],
    source: Int[Tensor, "batch pos"],
) -> float:
    """The share of answers that stay right, of those that `source` would change in the keys."""
    own, other = answers(tokens), answers(tokens, about=source)
    said = logits.argmax(-1)[:, tokens.shape[1] // 2 + 1 :]
    return (said == own)[own != other].float().mean().item()


@validated
def parts(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"]
) -> dict[str, Float[Tensor, "batch pos head d_head"]]:
    """What layer 0's heads move, in two parts: "the token before" and "everything else".

    They add up to z.
    """
    require_tokens(model, tokens)
    cache = model.run_with_cache(tokens)[1]
    share = cache["pattern", 0].diagonal(-1, 2, 3).transpose(1, 2)  # [batch, pos - 1, head]
    before = torch.zeros_like(cache["z", 0])
    before[:, 1:] = share[..., None] * cache["v", 0][:, :-1]
    return {"the token before": before, "everything else": cache["z", 0] - before}


def by_length(model: HookedTransformer) -> dict[int, float]:
    """The share of right answers, by the number of letters in the block."""
    asked = {n: texts(n, seed=9) for n in LENGTHS}
    return {n: right(model(tokens), tokens) for n, tokens in asked.items()}


def errors(model: HookedTransformer) -> dict[str, int]:
    """How many answers are "wrong" at all lengths together, and what they say.

    How many of the wrong ones are "a letter of the block".
    """
    found = {"wrong": 0, "a letter of the block": 0}
    for n in LENGTHS:
        tokens = texts(n, seed=9)
        said = model(tokens).argmax(-1)[:, n + 1 :]
        wrong = said != answers(tokens)
        is_there = (said[:, :, None] == tokens[:, None, 1 : n + 1]).any(-1)
        found["wrong"] += int(wrong.sum())
        found["a letter of the block"] += int((wrong & is_there).sum())
    return found


@validated
def attention(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"]
) -> dict[str, dict[str, float]]:
    """Where each head looks, as shares.

    In the block these are places some way back; at a question, its letter and the one after.
    """
    require_tokens(model, tokens)
    n, found = tokens.shape[1] // 2, {}
    same = tokens[:, None, :] == tokens[:, n + 1 :, None]  # [batch, question, src]
    copy = same.int().argmax(-1, keepdim=True)  # [batch, question, 1]
    cache = model.run_with_cache(tokens)[1]
    for layer in range(model.cfg.n_layers):
        for head, pattern in enumerate(cache["pattern", layer].unbind(1)):  # [batch, dest, src]
            shares = {}
            for by in range(3):
                shares[f"{by} back"] = pattern.diagonal(-by, 1, 2)[:, 2 - by : n + 1 - by]
            asks = pattern[:, n + 1 :]  # [batch, question, src]
            shares["same letter"] = asks.gather(2, copy)
            shares["one after"] = asks.gather(2, copy + 1)
            means = {place: share.mean().item() for place, share in shares.items()}
            found[f"{layer}.{head}"] = means
    return found


@usual()
def trained(seed: int, steps: int, shut: Sequence[Any] = (), **sizes: int) -> HookedTransformer:
    """A model that was asked for the answers, and for nothing else.

    Some doors are shut while it learns.
    """
    model = models.initial(CONFIG | sizes | {"seed": seed})
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=RATE)
    with interventions.cut(model, *shut):
        for step in range(steps):
            share = min(1, (step + 1) / WARMUP, 2 * (1 - step / steps))
            optimizer.param_groups[0]["lr"] = RATE * share
            n = TRAINED_ON[step % len(TRAINED_ON)]
            tokens = texts(n, BATCH, 1_000_003 * (seed + 1) + step)
            optimizer.zero_grad()
            guesses = model(tokens)[:, n + 1 :].flatten(0, 1)  # [question, d_vocab]
            cross_entropy(guesses, answers(tokens).flatten()).backward()
            optimizer.step()
    return model.eval()


COMMAND = "python -m course_lessons.l07c_programs.lookup"


def main(arguments: list[str] | None = None) -> None:
    """Train all models again, into `data/lookup/`."""
    argparse.ArgumentParser(prog=COMMAND, description=main.__doc__).parse_args(arguments)
    for name, recipe in MODELS.items():
        folder = DATA / "lookup" / name
        sizes = {key: recipe[key] for key in recipe if key in CONFIG}
        models.save_weights(trained(**recipe), folder / "model.safetensors")
        card = {
            "model": CONFIG | sizes | {"seed": recipe["seed"]},
            "recipe": recipe,
            "made by": COMMAND,
        }
        write_text(folder / "config.json", json.dumps(card, indent=1) + "\n")
        write_checksums(folder)


if __name__ == "__main__":
    main()
