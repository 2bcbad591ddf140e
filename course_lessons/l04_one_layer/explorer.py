"""The explorer of skip-trigrams: one source and one head, by the weights."""

from collections.abc import Callable, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import torch
import traitlets
from IPython.display import display
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import insertions
from course_utils import _words, circuits, measure, text
from course_utils.course import widgets

HERE = Path(__file__).parent
STYLE = f"<style>{(HERE / 'explorer.css').read_text(encoding='utf-8')}</style>"


Finding = tuple[int, str, str, str]  # head, source, destination, output token
PathTerms = Callable[[HookedTransformer, Tensor], tuple[Tensor, Tensor]]  # the exercise's answer


def named(finding: Finding) -> str:
    """A finding as a skip-trigram, without its head."""
    return "{1} … {2} → {3}".format(*finding)


class Live(anywidget.AnyWidget):
    """The picture on the page.

    `asked` is what was pressed or typed there, `said` why it has no answer.
    """

    _esm = (HERE / "explorer.js").read_text(encoding="utf-8")
    asked = traitlets.Dict().tag(sync=True)
    html = traitlets.Unicode().tag(sync=True)
    said = traitlets.Unicode().tag(sync=True)


class Explorer:
    """One source, one head: who looks for it, and what it makes likelier, by the weights.

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

        · or a space of its own stands for a space, ↵ for a line break, → for a tab.
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

    def rows(self, word: str, head: int, k: int = 6) -> list[list[str]]:
        """What the picture shows of a source and a head, line by line.

        Destination, how strongly it looks; output token, logit. Raises ValueError when `word` is
        no token.
        """
        return [[*map(str, row[:4])] for row in self._found(self.token(word), head, k)]

    def _found(self, source: int, head: int, k: int = 6) -> list[list]:
        """The rows as they are shown, each with score and effect, for the widths of the lines."""
        qk = circuits.full_qk(self.model, 0, head)
        ov = circuits.full_ov(self.model, 0, head)
        scores = qk.A @ (qk.B[:, source] - qk.B.mean(1))  # [dest]
        scores = scores.masked_fill(self.rare, -torch.inf)
        effects = ov.A[source] @ ov.B  # [output token]
        found = []
        for dest, out in zip(scores.topk(k).indices, effects.topk(k).indices, strict=True):
            names = self.model.to_str_tokens(torch.stack([dest, out]))
            b, c = (text.visible(str(name)) for name in names)
            weight, effect = scores[dest].exp().item(), effects[out].item()
            found.append([b, f"× {weight:.1f}", c, f"{effect:+.1f}", weight, effect])
        return found

    def drawn(self, source: int, head: int) -> tuple[str, str]:
        """The picture of a source and a head, as HTML and in words."""
        found = self._found(source, head)
        name = text.visible(str(self.model.to_single_str_token(source)))

        def table(caption: str, heads: str, first: int) -> str:
            rows = ""
            for row in found:
                token = escape(row[first])
                cell = f'<code data-source="{token}">{token}</code>'
                rows += f"<tr><td>{cell}</td><td>{row[first + 1]}</td></tr>"
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
            box = 'viewBox="0 0 64 180" preserveAspectRatio="none"'
            return f'<svg {box} aria-hidden="true">{drawn}</svg>'

        heads = "".join(
            f'<b data-head="{h}" aria-pressed="{str(h == head).lower()}">0.{h}</b>'
            for h in range(self.model.cfg.n_heads)
        )
        looking = table("looks for it", "destination, strength", 0)
        likelier = table("makes likelier", "output token, logit", 2)
        html = (
            f'{STYLE}<div class="explorer">{looking}'
            f"{lines([row[4] for row in found], 'M0 {y}C40 {y} 30 90 64 90')}"
            f'<div class="source"><p>source</p><code>{escape(name)}</code>'
            f'<p>in head 0.{head}</p><div class="heads">{heads}</div></div>'
            f"{lines([row[5] for row in found], 'M0 90C34 90 24 {y} 64 {y}')}"
            f"{likelier}</div>"
        )
        said = [f"head 0.{head}, source {name}"]
        said.append("destination: strength → output token: logit")
        said += [f"{b}: {w} → {c}: {e}" for b, w, c, e, *_ in found]
        return html, "\n".join(said)

    @cached_property
    def places(self) -> tuple[Int[Tensor, "n 48"], Int[Tensor, " n"]]:
        """100 random places of the text, and as many random tokens, as often as they come."""
        generator = torch.Generator().manual_seed(1)
        contexts = insertions.contexts(self.tokens, 100, generator)
        return contexts, insertions.random_sources(100, generator)

    def test(
        self, finding: Finding, distances: Sequence[int]
    ) -> tuple[float, Float[Tensor, "distance 3"]]:
        """A finding tried at 100 random places, where the destination is made the last token.

        Medians over the places: P(out) as they are, and for each distance P(out) with the source
        so many places before the end, the factor by which that changes it, and the factor for a
        random token in its place.
        """
        source, dest, out = (torch.tensor([self.token(word)]) for word in finding[1:])
        contexts, others = self.places
        ending = contexts.clone()
        ending[:, -1] = dest
        rows = []
        for distance in torch.tensor(distances)[:, None]:
            before, own = measure.inserted(self.model, ending, source, distance, out)
            _, other = measure.inserted(self.model, ending, others, distance, out)
            rows.append([x.median().exp().item() for x in (own, own - before, other - before)])
        return before.median().exp().item(), torch.tensor(rows)

    def raised(self, finding: Finding, path_terms: PathTerms) -> dict[str, Float[Tensor, " head"]]:
        """Who raises a finding's output token, at the same places and four tokens back.

        The mean rise of its logit by `path_terms`; what the source adds if it gets all of the
        attention; and its mean attention, by the tokens alone and as the model has it. A table
        shows the finding's own head, the three that raise it most, and the sum of all.
        """
        source, dest, out = (self.token(word) for word in finding[1:])
        without = self.places[0].clone()
        without[:, -1] = dest
        ending = without.clone()
        ending[:, -5] = source
        _, cache = self.model.run_with_cache(ending)
        rises = [
            (path_terms(self.model, new)[1] - path_terms(self.model, old)[1])[:, -1, out]
            for old, new in zip(without, ending, strict=True)
        ]
        entries, alone = [], []
        for head in range(self.model.cfg.n_heads):
            qk = circuits.full_qk(self.model, 0, head)
            ov = circuits.full_ov(self.model, 0, head)
            row = qk.A[dest] @ qk.B  # [src]: the destination's scores
            entries.append(ov.A[source] @ ov.B[:, out])
            alone.append(row[ending].softmax(-1)[:, -5].mean())
        found = {
            "rise": torch.stack(rises).mean(0),
            "OV entry": torch.stack(entries),
            "by tokens alone": torch.stack(alone),
            "attention": cache["pattern", 0][:, :, -1, -5].mean(0),
        }
        lines = []
        for head in sorted({finding[0], *found["rise"].topk(3).indices.tolist()}):
            rise, entry, by_tokens, share = (values[head].item() for values in found.values())
            shown = f"{rise:+.1f}", f"{entry:+.1f}", f"{by_tokens:.2f}", f"{share:.2f}"
            lines.append([f"0.{head}", *map(_words.true_minus, shown)])
        whole = _words.true_minus(f"{found['rise'].sum():+.1f}")
        lines.append(["all heads", whole, "", "", ""])
        names = ["rise of the logit", "entry of the full OV table"]
        names += ["attention by the tokens alone", "attention"]
        table = _words.table([f"`` {named(finding)} ``", *names], lines)
        said = [
            named(finding),
            *(f"{line[0]}: {', '.join(filter(None, line[1:]))}" for line in lines),
        ]
        said.insert(1, f"head: {', '.join(names)}")
        display({"text/markdown": table, "text/plain": "\n".join(said)}, raw=True)
        return found

    def still(self, asked: Sequence[tuple[str, int]]) -> str:
        """Pictures of some sources, each with its head, of which one is open: no code answers."""
        drawn = ""
        for i, (word, head) in enumerate(asked):
            source = self.token(word)
            name = text.visible(str(self.model.to_single_str_token(source)))
            title = f"<summary><code>{escape(name)}</code> in head 0.{head}</summary>"
            picture, _ = self.drawn(source, head)
            is_open = "" if i else " open"
            drawn += f'<details name="explorer"{is_open}>{title}{picture}</details>'
        return f'<div class="explorer-still">{drawn}</div>'

    def show(self, word: str, head: int, *also: tuple[str, int]) -> None:
        """The picture, live: press a token or a head, or type a source.

        Where nothing answers, on a page, it is a stored picture, with those of `also` below it.
        """
        html, said = self.drawn(self.token(word), head)
        stored = self.still([(word, head), *also])
        display({"text/html": stored, "text/plain": said}, raw=True)
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
