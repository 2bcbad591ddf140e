"""The synthetic language of the small models: random bigrams, and names that occur twice.

They occur twice in a document.
"""

import itertools

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_utils import bigrams
from course_utils._arguments import Count, NotNegative, require_tokens, validated

D_VOCAB, N_CTX = 64, 64
# names in a document, tokens in a name, how often one begins where one can
NAMES = 2
LENGTH = 8
SHARE = 0.3
WEIGHTS = [k / 200 for k in range(100)]  # that a guess may have beside a table
# where they are spread: tokens in a name and in the text between two, least and most
LENGTHS = (4, 16)
GAPS = (1, 4)


@validated
def bigram_probabilities(seed: NotNegative = 0) -> Float[Tensor, "current next"]:
    """The bigram probabilities of the synthetic language, [D_VOCAB, D_VOCAB].

    The start token 0 never follows.
    """
    logits = 2 * torch.randn(D_VOCAB, D_VOCAB, generator=torch.Generator().manual_seed(seed))
    logits[:, 0] = -torch.inf
    return logits.softmax(1)


@validated
def documents(
    n: Count, seed: int, *, spread: bool = True, length: Count = LENGTH, n_ctx: Count = N_CTX
) -> Int[Tensor, "n pos"]:
    """Documents of the synthetic language, [n, n_ctx], each opened by the start token.

    A document has two names of its own, of random tokens. Between names the text follows
    `bigram_probabilities()`. What follows a name's token the first time nobody can know; the second
    time, whoever remembers the first time can.

    Where names are `spread`, they have 4 to 16 tokens and 1 to 4 tokens of text before them, all
    numbers equally likely. If not, all have `length` tokens and begin with probability 0.3 wherever
    one can, at once behind another one too: the same name often stands twice in a row, and its
    copies lie exactly `length` apart.
    """
    generator = torch.Generator().manual_seed(seed)
    longest = LENGTHS[1] if spread else length
    names = torch.randint(1, D_VOCAB, (n, NAMES, longest), generator=generator)
    chance = torch.rand(n, n_ctx, 2, generator=generator)
    lengths, gaps, share = torch.full((n, NAMES), length), torch.zeros(n, n_ctx), SHARE
    if spread:
        lengths = torch.randint(LENGTHS[0], LENGTHS[1] + 1, (n, NAMES), generator=generator)
        gaps = torch.randint(GAPS[0], GAPS[1] + 1, (n, n_ctx), generator=generator)
        share = 1.0
    cumulative = bigram_probabilities().cumsum(1)
    tokens, rows = torch.zeros(n, n_ctx, dtype=torch.long), torch.arange(n)
    # tokens of the name that are still to come
    name = torch.zeros_like(rows)
    left = torch.zeros_like(rows)
    gap = gaps[:, 0]  # and tokens of text
    for i in range(1, n_ctx):
        begins = (left == 0) & (gap == 0) & (chance[:, i, 0] < share)
        name = torch.where(begins, (chance[:, i, 0] * NAMES / share).long(), name)
        left = torch.where(begins, lengths[rows, name], left)
        bigram = (cumulative[tokens[:, i - 1]] < chance[:, i, 1:]).sum(1).clamp(max=D_VOCAB - 1)
        place = (lengths[rows, name] - left).clamp(max=longest - 1)
        tokens[:, i] = torch.where(left > 0, names[rows, name, place], bigram)
        gap = torch.where(left == 1, gaps[:, i], torch.where(left > 0, gap, (gap - 1).clamp(min=0)))
        left = (left - 1).clamp(min=0)
    return tokens


@validated
def predictable(tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos-1"]:
    """Which tokens, from the second on, are what followed their predecessor's last occurrence."""
    return sources(tokens) > 0


@validated
def sources(tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos-1"]:
    """How far back stands what each token, from the second on, repeats.

    It is 0 where the token is not `predictable`. If A B … A B, the second B is as far from the
    first as the second A from the first.
    """
    require_tokens(None, tokens)
    ago = torch.zeros_like(tokens[:, 1:])
    for row, document in enumerate(tokens.tolist()):
        last: dict[int, int] = {}  # where each token stood last
        for i, (current, following) in enumerate(itertools.pairwise(document)):
            if current in last and document[last[current] + 1] == following:
                ago[row, i] = i - last[current]
            last[current] = i
    return ago


@validated
def table_loss(tokens: Int[Tensor, "batch pos"]) -> float:
    """The loss of a bigram table on documents, in nats per token.

    It is counted in 5,000 others of seed 1 (add one).
    """
    require_tokens(None, tokens)
    counts = bigrams.count(documents(5_000, 1).flatten(), D_VOCAB).to_dense().to(tokens.device)
    counts[:, 0] = 0  # a document's start follows nothing
    return bigrams.table_loss(bigrams.add_alpha(counts, 1.0), tokens)


@validated
def profit(tokens: Int[Tensor, "batch pos"], distance: Count) -> float:
    """What one head could save by always guessing the token `distance` before the next, in nats.

    Per token, against a table of the bigrams counted in these very documents: the guess is mixed
    into its probabilities with the best weight. One layer can do that, and needs no memory of what
    followed what.
    """
    require_tokens(None, tokens)
    pairs = D_VOCAB * tokens[:, :-1] + tokens[:, 1:]
    # add one
    counts = 1.0 + pairs.flatten().bincount(minlength=D_VOCAB**2).view(D_VOCAB, D_VOCAB).double()
    table = counts / counts.sum(1, keepdim=True)
    following = tokens[:, distance:]
    bigram = table[tokens[:, distance - 1 : -1], following]  # [batch, pos]
    hit = (tokens[:, :-distance] == following).double()
    losses = [-((1 - weight) * bigram + weight * hit).log().sum().item() for weight in WEIGHTS]
    # all count, those too that have nothing so far behind
    return (losses[0] - min(losses)) / tokens[:, 1:].numel()
