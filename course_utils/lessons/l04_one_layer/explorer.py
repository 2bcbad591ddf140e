"""The explorer of skip-trigrams: one source and one head, by the weights and in the text, and a test of a finding."""

from collections.abc import Sequence
from html import escape
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import circuits, measure, text


class Explorer:
    """One source, one head: who looks for it, what it makes likelier, and what the text says of both.

    `explorer(" open", 6)` is the table as text, `explorer.show()` the same with boxes to type and choose in.
    """

    def __init__(self, model: HookedTransformer, tokens: Int[Tensor, "batch pos"]):
        self.model, self.tokens = model, tokens
        # [token]: under ten times in the text; their embeddings are hardly trained, and a reader has no use for them
        self.rare = torch.bincount(tokens.flatten(), minlength=model.cfg.d_vocab) < 10

    def parts(self, word: str) -> Int[Tensor, " part"]:
        """The tokens of a word typed as the tables write it: · for a space, ↵ for a line break, → for a tab."""
        typed = word.replace("·", " ").replace("↵", "\n").replace("→", "\t")
        return self.model.to_tokens(typed, prepend_bos=False)[0]

    def token(self, word: str) -> int:
        """The id of one token, typed as the tables write it. Raises ValueError when the word is several."""
        parts = self.parts(word)
        if len(parts) != 1:
            raise ValueError(f"{word!r} is {len(parts)} tokens, not one: {self._written(parts) or 'nothing'}.")
        return int(parts[0])

    def _written(self, tokens: Int[Tensor, " part"]) -> str:
        return "   ".join(text.visible(str(token)) for token in self.model.to_str_tokens(tokens))

    def _received(self, head: int, source: int) -> Float[Tensor, "n pos"]:
        """Attention that the later positions of the contexts with a source pay to it, in multiples of an even share."""
        rows = self.tokens[(self.tokens == source).any(1)]
        x = self.model.W_E[rows] + self.model.W_pos[: rows.shape[1]]  # [n, pos, d_model]
        scores = x @ self.model.W_Q[0, head] @ (x @ self.model.W_K[0, head]).mT * self.model.cfg.d_head**-0.5
        pattern = scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -torch.inf).softmax(-1)
        before = (rows == source)[:, None, :] & torch.ones_like(scores[0]).tril(-1).bool()  # [n, dest, src]
        received = (pattern * before).sum(-1) / before.sum(-1)  # 0 / 0 where the source has not come yet
        return received * (torch.arange(rows.shape[1]) + 1)

    def __call__(self, word: str, head: int, k: int = 6) -> str:
        """The table of one source token and one head. Raises AssertionError when `word` is no single token."""
        source = self.model.to_single_token(word)
        qk, ov = circuits.full_qk(self.model, 0, head), circuits.full_ov(self.model, 0, head)
        scores = (qk.A @ (qk.B[:, source] - qk.B.mean(1))).masked_fill(self.rare, -torch.inf)  # [dest]
        effects = ov.A[source] @ ov.B  # [out]
        rows = self.tokens[(self.tokens == source).any(1)]
        times, after = self._received(head, source), (self.tokens == source).cumsum(1) > (self.tokens == source)
        lines = [f"head 0.{head}, source {text.visible(word)}, {(self.tokens == source).sum()} times in the text", ""]
        lines.append("                  looks for it:              makes likelier:")
        lines.append("destination       weights    text  (times)   out               logit   after / elsewhere")
        for dest, out in zip(scores.topk(k).indices, effects.topk(k).indices, strict=True):
            there = times[(rows == dest) & times.isfinite()]
            measured = f"{there.mean():7.1f} {f'({len(there)})':>7s}" if len(there) else f"{'':7s} {'(0)':>7s}"
            rates = [1000 * (self.tokens[part] == out).float().mean() for part in (after, ~after)]
            b, c = (text.visible(str(t)) for t in self.model.to_str_tokens(torch.stack([dest, out])))
            left = f"{b:17.17s} {scores[dest].exp():6.1f} {measured}"
            lines.append(f"{left}    {c:16.16s} {effects[out]:+6.1f}   {rates[0]:5.2f} / {rates[1]:.2f}")
        return "\n".join(lines) + "\n"

    def places(self, n: int, generator: torch.Generator) -> Int[Tensor, "n 48"]:
        """The 48 tokens up to `n` random places of the text; the start token takes the place of the first."""
        rows = torch.randint(len(self.tokens), (n,), generator=generator)
        ends = torch.randint(64, self.tokens.shape[1] - 1, (n,), generator=generator)
        contexts = self.tokens[rows[:, None], ends[:, None] + torch.arange(-47, 1)]
        contexts[:, 0] = 0
        return contexts

    def test(
        self, words: Sequence[str], contexts: Int[Tensor, "n pos"], others: Int[Tensor, " n"], distances: Sequence[int]
    ) -> tuple[float, Float[Tensor, "distance 3"]]:
        """A finding, source, destination, out, tried in `contexts` whose last token is made the destination.

        Medians over the contexts: P(out) as they are, and for each distance P(out) with the source so many places
        before the end, the factor by which that changes it, and the factor for one of the `others` in its place.
        """
        source, dest, out = (torch.tensor([self.token(word)]) for word in words)
        ending = contexts.clone()
        ending[:, -1] = dest
        rows = []
        for distance in torch.tensor(distances)[:, None]:
            before, own = measure.inserted(self.model, ending, source, distance, out)
            _, other = measure.inserted(self.model, ending, others, distance, out)
            rows.append([x.median().exp().item() for x in (own, own - before, other - before)])
        return before.median().exp().item(), torch.tensor(rows)

    def show(self, word: str = " open", head: int = 6) -> None:
        """A box to type a source in, a list of heads, and the table that belongs to both."""
        import ipywidgets as widgets
        from IPython.display import display

        known = [text.visible(str(t)) for t in self.model.to_str_tokens((~self.rare).nonzero().flatten())]
        source_box = widgets.Combobox(value=text.visible(word), options=known, description="source")
        names = [(f"0.{h}", h) for h in range(self.model.cfg.n_heads)]
        head_box = widgets.Dropdown(value=head, options=names, description="head")
        found_box = widgets.HTML()

        def refresh(_: Any) -> None:
            parts = self.parts(source_box.value)
            found = f"That is {len(parts)} tokens: {self._written(parts)}\n" if len(parts) else ""
            found += "Type a source, one token. Write a space as · and a line break as ↵."
            found = self(self.model.to_single_str_token(int(parts[0])), head_box.value) if len(parts) == 1 else found
            found_box.value = f"<pre style='line-height: 1.3'>{escape(found)}</pre>"

        source_box.observe(refresh, "value")
        head_box.observe(refresh, "value")
        refresh(None)
        display(widgets.VBox([widgets.HBox([source_box, head_box]), found_box]))
