"""A small GPT around the learner's functions, for lessons 01 and 01b.

Byte-pair encoding, weights, training and writing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from tokenizers import Tokenizer, pre_tokenizers
from torch import Tensor
from tqdm.auto import tqdm

from course_utils import text
from course_utils._arguments import Count, NotNegative, require_tokens, validated
from course_utils.course import solutions

Weights = dict[str, Tensor]  # under the names that TransformerLens gives them
Part = Callable[[Tensor], Tensor]  # a function of a stream


@validated
def words(documents: Iterable[str]) -> Counter[str]:
    """How often each word stands in texts.

    A space goes with the word that follows it, and each byte is one character.
    """
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    return Counter(word for document in documents for word, _ in pieces(document))


@validated
def count_pairs(
    words: Mapping[str, int], spelled: Mapping[str, Sequence[str]]
) -> Counter[tuple[str, str]]:
    """How often two tokens stand side by side within words.

    `words` has their counts, `spelled` their tokens.
    """
    pairs: Counter[tuple[str, str]] = Counter()
    for word, times in words.items():
        for pair in pairwise(spelled[word]):
            pairs[pair] += times
    return pairs


@validated
def merge(tokens: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """One step of byte-pair encoding: every occurrence of `pair`, from the left, becomes one token.

    Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
    """
    merged: list[str] = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token  # no longer equal to pair[0], so it can't be used twice
        else:
            merged.append(token)
    return merged


@validated
def shapes(
    d_vocab: Count = 512,
    n_ctx: Count = 64,
    d_model: Count = 64,
    n_heads: Count = 4,
    n_layers: Count = 1,
) -> dict[str, tuple[int, ...]]:
    """The shape of every weight of a GPT-2-style model, by name.

    Heads are as wide as fit, MLPs four times as wide as the stream.
    """
    d_head, d_mlp = d_model // n_heads, 4 * d_model
    block: dict[str, tuple[int, ...]] = {
        f"{ln}.{part}": (d_model,) for ln in ("ln1", "ln2") for part in "wb"
    }
    block |= {f"attn.W_{m}": (n_heads, d_model, d_head) for m in "QKV"}
    block |= {f"attn.b_{m}": (n_heads, d_head) for m in "QKV"}
    block |= {"attn.W_O": (n_heads, d_head, d_model), "attn.b_O": (d_model,)}
    block |= {"mlp.W_in": (d_model, d_mlp), "mlp.b_in": (d_mlp,)}
    block |= {"mlp.W_out": (d_mlp, d_model), "mlp.b_out": (d_model,)}
    whole: dict[str, tuple[int, ...]] = {
        "embed.W_E": (d_vocab, d_model),
        "pos_embed.W_pos": (n_ctx, d_model),
    }
    for layer in range(n_layers):
        whole |= {f"blocks.{layer}.{name}": shape for name, shape in block.items()}
    return whole | {
        "ln_final.w": (d_model,),
        "ln_final.b": (d_model,),
        "unembed.W_U": (d_model, d_vocab),
    }


@validated
def initial_weights(shapes: Mapping[str, tuple[int, ...]], seed: NotNegative = 0) -> Weights:
    """Weights as GPT-2's training begins with them.

    Matrices have size 0.02, LayerNorms only norm, and biases are 0. In double precision, so that
    every processor trains the same model; with gradients.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes.items():
        kind = name.split(".")[-1]  # W_…, b… or w
        weight = torch.full(shape, float(kind == "w"), dtype=torch.double)
        if kind.startswith("W"):
            weight = 0.02 * torch.randn(shape, generator=generator, dtype=torch.double)
        weights[name] = weight.requires_grad_()
    return weights


@validated
def random_weights(shapes: Mapping[str, tuple[int, ...]], seed: NotNegative = 0) -> Weights:
    """Weights of standard deviation 0.3.

    LayerNorms and biases have it too, so that no part is left out unseen.
    """
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 0.3 * torch.randn(shape, generator=generator).double()
        for name, shape in shapes.items()
    }


@validated
def by_layer(weights: Mapping[str, Tensor]) -> list[Weights]:
    """The weights of each block, by their names within it.

    "blocks.0.attn.W_Q" is "attn.W_Q" of the first.
    """
    layers: dict[int, Weights] = {}
    for name, weight in weights.items():
        if name.startswith("blocks."):
            _, layer, part = name.split(".", 2)
            layers.setdefault(int(layer), {})[part] = weight
    return [layers[layer] for layer in sorted(layers)]


@validated
def parts(
    weights: Mapping[str, Tensor],
    norm: Callable[[Tensor, Tensor, Tensor], Tensor],
    attention: Callable[[Tensor, Weights], Tensor],
    mlp: Callable[[Tensor, Weights], Tensor],
) -> tuple[list[tuple[Part, Part, Part, Part]], Part]:
    """Each block as functions of a stream, (ln1, attn, ln2, mlp), and the last LayerNorm.

    They hold their weights, and add nothing to the stream.
    """

    def normed(layer: Mapping[str, Tensor], ln: str) -> Part:
        return lambda x: norm(x, layer[f"{ln}.w"], layer[f"{ln}.b"]) if f"{ln}.w" in layer else x

    def block(layer: Weights) -> tuple[Part, Part, Part, Part]:
        feed = (lambda x: mlp(x, layer)) if "mlp.W_in" in layer else torch.zeros_like
        return normed(layer, "ln1"), lambda x: attention(x, layer), normed(layer, "ln2"), feed

    return [block(layer) for layer in by_layer(weights)], normed(weights, "ln_final")


@validated
def split(
    streams: Sequence[Int[Tensor, " _"]], n_ctx: Count = 64
) -> tuple[Int[Tensor, " pos"], Int[Tensor, "window n_ctx"]]:
    """What to learn from, in one stream, and what to test on, in windows.

    Every fifth stream, from the first on, is kept for the test. Raises ValueError for fewer than
    two streams.
    """
    if len(streams) < 2:
        raise ValueError(
            "split needs at least two streams, one to keep back and one to learn from; "
            f"it got {len(streams)}."
        )
    train = torch.cat([stream for number, stream in enumerate(streams) if number % 5])
    unseen = torch.cat(list(streams[::5]))
    return train, unseen[: len(unseen) // n_ctx * n_ctx].view(-1, n_ctx)


@validated
def batches(
    stream: Int[Tensor, " pos"], name: str, steps: Count = 300, n_ctx: Count = 64
) -> Iterator[tuple[Int[Tensor, "16 n_ctx"], float]]:
    """Sixteen random windows of a stream for each step, and the step's learning rate.

    A bar shows how far one is. The rate rises to 4e-3 for twenty steps, stays there, and falls to
    zero in the second half.
    """
    require_tokens(None, stream, "stream")
    return _batches(stream, name, steps, n_ctx)


def _batches(stream: Tensor, name: str, steps: int, n_ctx: int) -> Iterator[tuple[Tensor, float]]:
    generator = torch.Generator().manual_seed(0)
    for step in tqdm(range(steps), name, bar_format="{desc} {bar} {n_fmt}/{total_fmt}"):
        starts = torch.randint(len(stream) - n_ctx, (16, 1), generator=generator)
        yield (
            stream[starts + torch.arange(n_ctx)],
            4e-3 * min(1, (step + 1) / 20, 2 * (1 - step / steps)),
        )


def python_modules() -> tuple[Tokenizer, Int[Tensor, " pos"], Int[Tensor, "window 64"]]:
    """A vocabulary of 512 tokens; our Python modules to learn from, and those kept for a test."""
    tokenizer = text.train_tokenizer(text.held_out_documents(), d_vocab=512)
    modules = text.held_out_documents("code")
    train, unseen = split([torch.tensor(tokenizer.encode(one).ids) for one in modules])
    return tokenizer, train, unseen


@validated
def learn(
    logits: Callable[[Weights, Tensor], Tensor], stream: Int[Tensor, " pos"], name: str
) -> Weights:
    """The weights after 300 steps of training on a stream; a bar has the name.

    `logits` makes them of weights and tokens [batch, pos].
    """
    weights = initial_weights(shapes())
    optimizer = torch.optim.AdamW(weights.values(), betas=(0.9, 0.95), weight_decay=0)
    with torch.enable_grad():
        for batch, rate in batches(stream, name):
            optimizer.param_groups[0]["lr"] = rate
            predicted = logits(weights, batch)[:, :-1].flatten(0, 1)
            loss = F.cross_entropy(predicted, batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return {name: weight.detach() for name, weight in weights.items()}


@validated
def greedy(log_probs: Float[Tensor, "batch d_vocab"]) -> Float[Tensor, "batch d_vocab"]:
    """All probability for the most probable token."""
    return F.one_hot(log_probs.argmax(-1), log_probs.shape[-1]).to(log_probs.dtype)


@validated
def write(
    logits: Callable[[Tensor], Tensor],
    texts: Int[Tensor, "batch pos"],
    n: Count,
    choose: Callable[[Tensor], Tensor] = greedy,
) -> Int[Tensor, "batch longer"]:
    """The texts, n tokens longer.

    `logits` gives those of texts, [batch, pos, d_vocab]; `choose` makes of the last, as
    log-probabilities, the probabilities to draw from.
    """
    generator = torch.Generator().manual_seed(0)
    for _ in range(n):
        p = choose(logits(texts)[:, -1].log_softmax(-1))
        texts = torch.cat([texts, drawn(p, generator)], dim=1)  # one token more
    return texts


@validated
def drawn(p: Float[Tensor, "batch d_vocab"], generator: torch.Generator) -> Int[Tensor, "batch 1"]:
    """One token for each row of probabilities.

    It is the same on every processor for the same state of the generator.
    """
    draws = torch.rand(len(p), 1, generator=generator, dtype=p.dtype, device="cpu").to(p.device)
    # the first token at which the running sum passes the draw
    passed = (p.cumsum(-1) <= draws).sum(-1, keepdim=True)
    return passed.clamp(max=p.shape[-1] - 1)  # a sum may be rounded to less than 1


@validated
def beam_search(
    log_probs: Callable[[Tensor], Tensor], tokens: Int[Tensor, " pos"], width: Count, steps: Count
) -> tuple[Int[Tensor, " pos_and_steps"], float]:
    """The most probable continuation that a search finds with `width` texts a step, and its log p.

    `log_probs` gives, for texts [n, pos], the log-probabilities of the next token, [n, d_vocab].
    """
    require_tokens(None, tokens)
    texts, totals = tokens[None], torch.zeros(1)  # [n, pos] and [n], one text at first
    for _ in range(steps):
        candidates = totals[:, None] + log_probs(texts)  # [n, d_vocab], as (text, next token)
        # at most `width` of them
        totals, best = candidates.flatten().topk(min(width, candidates.numel()))
        row, token = torch.unravel_index(best, candidates.shape)
        texts = torch.cat([texts[row], token[:, None]], dim=1)  # one position longer
    return texts[0], totals[0].item()


@validated
def no_mask(scores: Float[Tensor, "*axes dest src"]) -> Float[Tensor, "*axes dest src"]:
    """The scores as they are: every position sees every other."""
    return scores


# our answers to lesson 01's exercises of these names
masked = solutions.answer("masked")
_scores_of = solutions.answer("attention_scores")
_transformer = solutions.answer("transformer")


@validated
def patterns(
    weights: Mapping[str, Tensor],
    tokens: Int[Tensor, "batch pos"],
    mask: Callable[[Tensor], Tensor] = masked,
) -> Float[Tensor, "batch head dest src"]:
    """The attention of the first layer, as lesson 01 computes it."""
    x = _known(weights, tokens) + weights["pos_embed.W_pos"][: tokens.shape[1]]
    layer = by_layer(weights)[0]
    return mask(_scores(_norm(x, layer["ln1.w"], layer["ln1.b"]), layer)).softmax(-1)


@validated
def logits(
    weights: Mapping[str, Tensor],
    tokens: Int[Tensor, "batch pos"],
    mask: Callable[[Tensor], Tensor] = masked,
) -> Float[Tensor, "batch pos d_vocab"]:
    """What lesson 01 writes as `my_gpt`, once more."""

    def attention(x: Tensor, layer: Weights) -> Tensor:
        v = x[:, None] @ layer["attn.W_V"] + layer["attn.b_V"][:, None]
        z = mask(_scores(x, layer)).softmax(-1) @ v  # [batch, head, dest, d_head]
        return (z @ layer["attn.W_O"]).sum(1) + layer["attn.b_O"]

    def mlp(x: Tensor, layer: Weights) -> Tensor:
        neurons = F.gelu(x @ layer["mlp.W_in"] + layer["mlp.b_in"])
        return neurons @ layer["mlp.W_out"] + layer["mlp.b_out"]

    _known(weights, tokens)
    blocks, ln_final = parts(weights, _norm, attention, mlp)
    W_E, W_pos, W_U = (weights[w] for w in ("embed.W_E", "pos_embed.W_pos", "unembed.W_U"))
    return _transformer(tokens, W_E, W_pos, blocks, ln_final, W_U)


def _known(weights: Mapping[str, Tensor], tokens: Tensor) -> Tensor:
    """The tokens' embeddings [batch, pos, d_model], of tokens that the model knows."""
    require_tokens(None, tokens)
    W_E = weights["embed.W_E"]
    if tokens.max() >= len(W_E):
        raise ValueError(f"tokens holds {tokens.max()}, and the model knows 0 to {len(W_E) - 1}.")
    return W_E[tokens]


def _norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b)


def _scores(x: Tensor, layer: Mapping[str, Tensor]) -> Tensor:
    q = x[:, None] @ layer["attn.W_Q"] + layer["attn.b_Q"][:, None]  # [batch, head, pos, d_head]
    k = x[:, None] @ layer["attn.W_K"] + layer["attn.b_K"][:, None]
    return _scores_of(q, k)
