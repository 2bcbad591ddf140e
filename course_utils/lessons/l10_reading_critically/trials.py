"""What lesson 10 measures on its trials of the field's sentences: an input changed or a table read, in one way each."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import FactoredMatrix, HookedTransformer

from course_utils import circuits, heads, text
from course_utils._arguments import Count, checked
from course_utils.models import check_head

BACK = 7  # places before the end, where `with_first_pieces` has another word


@checked
def across(
    model: HookedTransformer, layer: int, head: int, between: int, length: Count = 60
) -> tuple[Float[Tensor, "dest src"], Float[Tensor, ""]]:
    """One head on random tokens, the token `between`, and the same tokens again: a pattern, and attention across.

    The pattern is of the first of eight such rows. The second is the share of the second pass's attention that goes to
    the first pass, of all that does not go to the start token, on average.
    """
    check_head(model, layer, head)
    random = torch.randint(1, model.cfg.d_vocab, (8, length), generator=torch.Generator().manual_seed(0))
    start, middle = torch.zeros(8, 1, dtype=torch.long), torch.full((8, 1), between)
    rows = torch.cat([start, random, middle, random], 1)  # [batch, pos]
    pattern = heads.patterns(model, rows)[layer, head]  # [batch, dest, src]
    kept = pattern[:, 1:, 1:] / pattern[:, 1:, 1:].sum(-1, keepdim=True)
    return pattern[0], kept[:, length + 1 :, :length].sum(-1).mean()


@checked
def guesses(model: HookedTransformer, tokens: Int[Tensor, "batch pos"]) -> tuple[float, float]:
    """The share of first guesses that are right, and the mean entropy in nats; not of what follows the start token."""
    log_p = model(tokens)[:, 1:-1].log_softmax(-1)  # [batch, pos, d_vocab]
    right, entropy = log_p.argmax(-1) == tokens[:, 2:], -(log_p.exp() * log_p).sum(-1)
    return right.float().mean().item(), entropy.mean().item()


@checked
def best_pair(model: HookedTransformer, head: int, among: Int[Tensor, " token"]) -> tuple[int, int]:
    """The source and the destination, of the tokens `among`, that a head of layer 0 prefers to other sources most."""
    circuit: Any = circuits.full_qk(model, 0, head)  # TransformerLens declares narrower types
    table = circuit[among].AB[:, among]  # [dest, src]
    dest, source = divmod(int((table - table.mean(1, keepdim=True)).argmax()), len(among))
    return int(among[source]), int(among[dest])


def split_words() -> Int[Tensor, "word 3"]:
    """Words of the course's vocabulary that are one token behind a space and two without: (whole, first, second)."""
    words, tokenizer = [], text.tokenizer()
    for whole in range(tokenizer.vocab_size):
        name = str(tokenizer.decode([whole]))
        pieces = tokenizer.encode(name[1:], add_special_tokens=False)
        if name[0] == " " and name[1:].isalpha() and len(name) > 3 and len(pieces) == 2:
            words.append([whole, *pieces])
    return torch.tensor(words)


@checked
def with_first_pieces(words: Int[Tensor, "word 3"], fillers: Int[Tensor, " token"]) -> Int[Tensor, "word pos"]:
    """For each word 12 fillers and its first piece at the end; `BACK` places before the end stands another word, whole.

    The fillers and the other word are drawn at random, with seed 0; the start token comes first.
    """
    generator = torch.Generator().manual_seed(0)
    between = fillers[torch.randint(len(fillers), (len(words), 12), generator=generator)]
    another = words[torch.randperm(len(words), generator=generator), :1]  # [word, 1]
    place = 13 - BACK
    return torch.cat([0 * another, between[:, :place], another, between[:, place:], words[:, 1:2]], 1)


@checked
def from_identity(matrix: FactoredMatrix) -> float:
    """‖cM − I‖ / ‖I‖ with the multiple c that makes it least: 0 for a multiple of I, 1 for a matrix of zeros."""
    square: Any = matrix.AB
    eye = torch.eye(len(square), device=square.device)
    return ((square.trace() / square.norm() ** 2 * square - eye).norm() / eye.norm()).item()
