"""The synthetic language that the small models read: random bigrams, and names that occur twice in a document."""

import itertools

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_utils._arguments import Count, NotNegative, checked

D_VOCAB, N_CTX = 64, 64
NAMES, LENGTH, SHARE = 2, 8, 0.3  # names in a document, tokens in a name, how often one begins where one can


@checked
def bigram_probabilities(seed: NotNegative = 0) -> Float[Tensor, "current next"]:
    """The bigram probabilities of the synthetic language, [D_VOCAB, D_VOCAB]; the start token 0 never follows."""
    logits = 2 * torch.randn(D_VOCAB, D_VOCAB, generator=torch.Generator().manual_seed(seed))
    logits[:, 0] = -torch.inf
    return logits.softmax(1)


@checked
def documents(n: Count, seed: int) -> Int[Tensor, "n pos"]:
    """Documents of the synthetic language, [n, N_CTX], each opened by the start token.

    A document has two names of its own, eight random tokens each. Between names the text follows
    `bigram_probabilities()`; after every such token, a name begins with probability 0.3. What follows a name's token
    the first time nobody can know; the second time, whoever remembers the first time can.
    """
    generator = torch.Generator().manual_seed(seed)
    names = torch.randint(1, D_VOCAB, (n, NAMES, LENGTH), generator=generator)
    chance = torch.rand(n, N_CTX, 2, generator=generator)
    cumulative = bigram_probabilities().cumsum(1)
    tokens, rows = torch.zeros(n, N_CTX, dtype=torch.long), torch.arange(n)
    name, place = torch.zeros_like(rows), torch.full_like(rows, LENGTH)  # place LENGTH: in no name
    for i in range(1, N_CTX):
        begins = (place == LENGTH) & (chance[:, i, 0] < SHARE)
        name = torch.where(begins, (chance[:, i, 0] * NAMES / SHARE).long(), name)
        place = torch.where(begins, 0, place)
        bigram = (cumulative[tokens[:, i - 1]] < chance[:, i, 1:]).sum(1).clamp(max=D_VOCAB - 1)
        tokens[:, i] = torch.where(place < LENGTH, names[rows, name, place.clamp(max=LENGTH - 1)], bigram)
        place = (place + 1).clamp(max=LENGTH)
    return tokens


@checked
def predictable(tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos-1"]:
    """Which tokens, from the second on, are what followed the last earlier occurrence of the token before them."""
    found = torch.zeros_like(tokens[:, 1:], dtype=torch.bool)
    for row, document in enumerate(tokens.tolist()):
        followed: dict[int, int] = {}
        for i, (current, following) in enumerate(itertools.pairwise(document)):
            found[row, i] = followed.get(current) == following
            followed[current] = following
    return found
