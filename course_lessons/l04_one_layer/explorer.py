"""The explorer of skip-trigrams: one source and one head, by the weights and in the text."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import torch
import traitlets
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import circuits, measure, text
from course_utils.course import widgets

HERE = Path(__file__).parent
STYLE = f"<style>{(HERE / 'explorer.css').read_text(encoding='utf-8')}</style>"


class Live(anywidget.AnyWidget):
    """The picture on the page.

    `asked` is what was pressed or typed there, `said` why it has no answer.
    """

    _esm = (HERE / "explorer.js").read_text(encoding="utf-8")
    asked = traitlets.Dict().tag(sync=True)
    html = traitlets.Unicode().tag(sync=True)
    said = traitlets.Unicode().tag(sync=True)


class Explorer:
    """One source, one head: who looks for it, what it makes likelier, and what the text says.

    `explorer.show(" open", 6)` is a picture to press, `explorer.rows(" open", 6)` what stands in
    it.
    """

    def __init__(self, model: HookedTransformer, tokens: Int[Tensor, "batch pos"]):
        self.model, self.tokens = model, tokens
        # [token]: under ten times in the text; their embeddings are hardly trained, and a reader
        # has no use for them
        self.rare = torch.bincount(tokens.flatten(), minlength=model.cfg.d_vocab) < 10

    def parts(self, word: str) -> Int[Tensor, " part"]:
        """The tokens of a word typed as the tables write it.

        · stands for a space, ↵ for a line break, → for a tab.
        """
        typed = word.replace("·", " ").replace("↵", "\n").replace("→", "\t")
        return self.model.to_tokens(typed, prepend_bos=False)[0]

    def token(self, word: str) -> int:
        """The id of one token, typed as the tables write it.

        Raises ValueError when the word is several.
        """
        parts = self.parts(word)
        if len(parts) != 1:
            raise ValueError(
                f"{word!r} is {len(parts)} tokens, not one: {self._written(parts) or 'nothing'}."
            )
        return int(parts[0])

    def _written(self, tokens: Int[Tensor, " part"]) -> str:
        return "   ".join(text.visible(str(token)) for token in self.model.to_str_tokens(tokens))

    def _received(self, head: int, source: int) -> Float[Tensor, "n pos"]:
        """Attention that a source gets from later positions, in multiples of an even share."""
        rows = self.tokens[(self.tokens == source).any(1)]
        x = self.model.W_E[rows] + self.model.W_pos[: rows.shape[1]]  # [n, pos, d_model]
        q = x @ self.model.W_Q[0, head]
        k = x @ self.model.W_K[0, head]
        scores = q @ k.mT * self.model.cfg.d_head**-0.5  # [n, dest, src]
        ones = torch.ones_like(scores[0])
        pattern = scores.masked_fill(ones.triu(1).bool(), -torch.inf).softmax(-1)
        before = (rows == source)[:, None, :] & ones.tril(-1).bool()  # [n, dest, src]
        # 0 / 0 where the source has not come yet
        received = (pattern * before).sum(-1) / before.sum(-1)
        return received * (torch.arange(rows.shape[1]) + 1)

    def rows(self, word: str, head: int, k: int = 6) -> list[list[str]]:
        """What the picture shows of a source and a head, line by line.

        Raises ValueError when `word` is no token. Destination, weights, text (times); out, logit,
        how often it comes after the source and elsewhere, per 1,000.
        """
        return [[*map(str, row[:7])] for row in self._found(self.token(word), head, k)]

    def _found(self, source: int, head: int, k: int = 6) -> list[list]:
        """The rows as they are shown, each with score and effect, for the widths of the lines."""
        qk, ov = circuits.full_qk(self.model, 0, head), circuits.full_ov(self.model, 0, head)
        # [dest]
        scores = (qk.A @ (qk.B[:, source] - qk.B.mean(1))).masked_fill(self.rare, -torch.inf)
        effects = ov.A[source] @ ov.B  # [out]
        rows = self.tokens[(self.tokens == source).any(1)]
        times = self._received(head, source)
        after = (self.tokens == source).cumsum(1) > (self.tokens == source)
        found = []
        for dest, out in zip(scores.topk(k).indices, effects.topk(k).indices, strict=True):
            there = times[(rows == dest) & times.isfinite()]
            measured = f"{there.mean():.1f} ({len(there)})" if len(there) else "(0)"
            often = [(self.tokens[part] == out).float().mean() for part in (after, ~after)]
            rates = [f"{1000 * rate:.2f}" for rate in often]
            names = self.model.to_str_tokens(torch.stack([dest, out]))
            b, c = (text.visible(str(name)) for name in names)
            weight, effect = scores[dest].exp().item(), effects[out].item()
            shown = [b, f"{weight:.1f}", measured, c, f"{effect:+.1f}", *rates]
            found.append([*shown, weight, effect])
        return found

    def drawn(self, source: int, head: int) -> tuple[str, str]:
        """The picture of a source and a head, as HTML and in words."""
        found = self._found(source, head)
        name = text.visible(str(self.model.to_single_str_token(source)))
        count = int((self.tokens == source).sum())

        def token(word: str) -> str:
            return f'<code data-source="{escape(word)}">{escape(word)}</code>'

        def table(caption: str, heads: str, first: int, last: int) -> str:
            rows = ""
            for row in found:
                cells = "".join(f"<td>{cell}</td>" for cell in row[first + 1 : last])
                rows += f"<tr><td>{token(row[first])}</td>{cells}</tr>"
            line = "".join(f"<th>{one}</th>" for one in heads.split(", "))
            head, body = f"<thead><tr>{line}</tr></thead>", f"<tbody>{rows}</tbody>"
            return f"<table><caption>{caption}</caption>{head}{body}</table>"

        def lines(values: list[float], path: str) -> str:
            most = max(map(abs, values))
            drawn = "".join(
                f'<path d="{path.format(y=15 + 30 * i)}" '
                f'stroke-width="{max(1, round(9 * abs(value) / most))}"/>'
                for i, value in enumerate(values)
            )
            return f'<svg viewBox="0 0 64 180" aria-hidden="true">{drawn}</svg>'

        heads = "".join(
            f'<b data-head="{h}" aria-pressed="{str(h == head).lower()}">0.{h}</b>'
            for h in range(self.model.cfg.n_heads)
        )
        html = (
            f"{STYLE}<div "
            f'class="explorer">{table("looks for it", "destination, weights, text (times)", 0, 3)}'
            f"{lines([row[7] for row in found], 'M0 {y}C40 {y} 30 90 64 90')}"
            f'<div class="source"><p>source</p><code>{escape(name)}</code><p>{count} times in '
            f"the text</p>"
            f'<p>by head</p><div class="heads">{heads}</div></div>'
            f"{lines([row[8] for row in found], 'M0 90C34 90 24 {y} 64 {y}')}"
            f"{table('makes likelier', 'out, logit, after, elsewhere', 3, 7)}</div>"
        )
        said = [f"head 0.{head}, source {name}, {count} times in the text"]
        said.append("destination: weights, text (times) → out: logit, after / elsewhere")
        said += [f"{b}: {w}, {t} → {c}: {e}, {r} / {q}" for b, w, t, c, e, r, q, *_ in found]
        return html, "\n".join(said)

    def places(self, n: int, generator: torch.Generator) -> Int[Tensor, "n 48"]:
        """The 48 tokens up to each of `n` random places of the text.

        The start token takes the place of the first.
        """
        rows = torch.randint(len(self.tokens), (n,), generator=generator)
        ends = torch.randint(64, self.tokens.shape[1] - 1, (n,), generator=generator)
        contexts = self.tokens[rows[:, None], ends[:, None] + torch.arange(-47, 1)]
        contexts[:, 0] = 0
        return contexts

    def test(
        self,
        words: Sequence[str],
        contexts: Int[Tensor, "n pos"],
        others: Int[Tensor, " n"],
        distances: Sequence[int],
    ) -> tuple[float, Float[Tensor, "distance 3"]]:
        """A finding (source, destination, out) tried in contexts that end in the destination.

        Medians over the contexts: P(out) as they are, and for each distance P(out) with the source
        so many places before the end, the factor by which that changes it, and the factor for one
        of the `others` in its place.
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
        """The picture, live: press a token or a head, or type a source.

        What is stored of it is a table.
        """
        from IPython.display import display

        html, said = self.drawn(self.token(word), head)
        still = f'<div class="explorer-still">{html}</div>'
        display({"text/html": still, "text/plain": said}, raw=True)
        live = Live(asked={"source": text.visible(word), "head": head}, html=html)

        def answer(change: Any) -> None:
            parts = self.parts(live.asked["source"])
            if len(parts) == 1:
                live.html, live.said = self.drawn(int(parts[0]), live.asked["head"])[0], ""
            else:
                several = f"That is {len(parts)} tokens: {self._written(parts)}"
                live.said = several if len(parts) else "Type one token."

        live.observe(answer, "asked")
        display(widgets.view(live), raw=True)
