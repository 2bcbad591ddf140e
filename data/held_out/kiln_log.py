"""Firing schedules for a pottery kiln.

A schedule is a few lines of text in a small language:

    let soak = 20           # minutes
    ramp to 1000 - 40 at 120 + 2 * 15 per hour
    hold soak + 10

Temperatures are in degrees, holds in minutes.  Any number may be replaced
by an expression with the usual operators, parentheses and names bound by
``let``.
"""

import re
from typing import Iterator, NamedTuple, Optional, Union

KEYWORDS = {"let", "ramp", "to", "at", "per", "hour", "hold"}

TOKEN_RE = re.compile(r"""
    (?P<space>   [ \t]+ | \#[^\n]* )
  | (?P<newline> \n )
  | (?P<number>  \d+ (?: \.\d+ )? )
  | (?P<word>    [A-Za-z_]\w* )
  | (?P<op>      [-+*/()=] )
""", re.VERBOSE)


class KilnError(Exception):
    """An error in a schedule, with the line on which it was found."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class KilnSyntaxError(KilnError):
    pass


class KilnValueError(KilnError):
    pass


class Token(NamedTuple):
    kind: str
    text: str
    line: int


class Ramp(NamedTuple):
    target: float
    rate: float


class Hold(NamedTuple):
    minutes: float


Stage = Union[Ramp, Hold]


def tokenise(source: str) -> Iterator[Token]:
    """Yield the tokens of a schedule, ending with one of kind 'end'."""
    line = 1
    pos = 0
    while pos < len(source):
        match = TOKEN_RE.match(source, pos)
        if match is None:
            raise KilnSyntaxError(f"unexpected character {source[pos]!r}", line)
        kind = match.lastgroup
        text = match.group()
        if kind == "word" and text in KEYWORDS:
            kind = "keyword"
        if kind != "space":
            yield Token(kind, text, line)
        if kind == "newline":
            line += 1
        pos = match.end()
    yield Token("newline", "\n", line)
    yield Token("end", "", line)


class Parser:
    """A recursive-descent parser which evaluates as it goes along.

        sum      :=  product { ("+" | "-") product }
        product  :=  unary { ("*" | "/") unary }
        unary    :=  "-" unary | atom
        atom     :=  number | word | "(" sum ")"
    """

    def __init__(self, source: str) -> None:
        self.tokens = tokenise(source)
        self.names: dict[str, float] = {}
        self.token = next(self.tokens)

    def accept(self, kind: str, *texts: str) -> Optional[Token]:
        """Return the present token and move on, if it is of this kind."""
        token = self.token
        if token.kind != kind or texts and token.text not in texts:
            return None
        if kind != "end":
            self.token = next(self.tokens)
        return token

    def expect(self, kind: str, *texts: str) -> Token:
        token = self.accept(kind, *texts)
        if token is None:
            wanted = " or ".join(texts) or kind
            raise KilnSyntaxError(
                f"expected {wanted}, found {self.token.text!r}",
                self.token.line)
        return token

    def schedule(self) -> list[Stage]:
        stages: list[Stage] = []
        while not self.accept("end"):
            if self.accept("newline"):
                continue
            stage = self.statement()
            if stage is not None:
                stages.append(stage)
            self.expect("newline")
        return stages

    def statement(self) -> Optional[Stage]:
        token = self.expect("keyword")
        if token.text == "let":
            name = self.expect("word").text
            self.expect("op", "=")
            self.names[name] = self.sum()
            return None
        if token.text == "ramp":
            self.expect("keyword", "to")
            target = self.sum()
            self.expect("keyword", "at")
            rate = self.sum()
            self.expect("keyword", "per")
            self.expect("keyword", "hour")
            if rate <= 0:
                raise KilnValueError("rate must be positive", token.line)
            return Ramp(target, rate)
        if token.text == "hold":
            return Hold(self.sum())
        raise KilnSyntaxError(f"misplaced {token.text!r}", token.line)

    def sum(self) -> float:
        value = self.product()
        while token := self.accept("op", "+", "-"):
            right = self.product()
            value += right if token.text == "+" else -right
        return value

    def product(self) -> float:
        value = self.unary()
        while token := self.accept("op", "*", "/"):
            right = self.unary()
            if token.text == "*":
                value *= right
            elif right == 0:
                raise KilnValueError("division by zero", token.line)
            else:
                value /= right
        return value

    def unary(self) -> float:
        if self.accept("op", "-"):
            return -self.unary()
        return self.atom()

    def atom(self) -> float:
        if token := self.accept("number"):
            return float(token.text)
        if self.accept("op", "("):
            value = self.sum()
            self.expect("op", ")")
            return value
        token = self.expect("word")
        if token.text not in self.names:
            raise KilnValueError(f"unknown name {token.text!r}", token.line)
        return self.names[token.text]


def parse(source: str) -> list[Stage]:
    return Parser(source).schedule()


def timeline(stages: list[Stage], start: float = 20.0):
    """Yield pairs of (minutes, temperature), one after each stage."""
    minutes, temperature = 0.0, start
    for stage in stages:
        if isinstance(stage, Ramp):
            minutes += abs(stage.target - temperature) / stage.rate * 60.0
            temperature = stage.target
        else:
            minutes += stage.minutes
        yield minutes, temperature


EXAMPLE = """\
# glaze firing
let soak = 15
ramp to 120 at 60 per hour
hold soak * 2           # drive off the damp
ramp to 1222 - 10 at (80 + 220) / 2 per hour
hold soak
"""


def main() -> None:
    for minutes, temperature in timeline(parse(EXAMPLE)):
        hours, rest = divmod(round(minutes), 60)
        print(f"{hours:2d}:{rest:02d}  {temperature:7.1f}")
    for source in ("ramp to 900 at", "hold 5 / (3 - 3)", "hold sok"):
        try:
            parse(source)
        except KilnError as error:
            print(f"{source!r}: {error}")


if __name__ == "__main__":
    main()
