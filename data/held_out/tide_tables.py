"""Predict and print simple tide tables for small harbours.

The model is deliberately modest: each harbour has a handful of harmonic
constituents, the height of the water is their sum, and the high and low
waters are found by walking along the curve and refining every turning
point.  Good enough for mooring a dinghy, not for anything larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from typing import Iterator

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
STEP = timedelta(minutes=20)
TOLERANCE = timedelta(seconds=15)


class TideError(Exception):
    """Raised when a prediction cannot be made."""


class UnknownHarbour(TideError):
    """Raised when an almanac has no harbour of the given name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no harbour called {name!r}")


@dataclass(frozen=True)
class Constituent:
    """One harmonic component of the tide.

    ``speed`` is in degrees per hour, ``phase`` in degrees at the epoch and
    ``amplitude`` in metres.
    """

    name: str
    speed: float
    amplitude: float
    phase: float = 0.0

    def height(self, hours: float) -> float:
        angle = math.radians(self.speed * hours - self.phase)
        return self.amplitude * math.cos(angle)

    def slope(self, hours: float) -> float:
        angle = math.radians(self.speed * hours - self.phase)
        return -self.amplitude * math.radians(self.speed) * math.sin(angle)


@dataclass(frozen=True, order=True)
class Turning:
    """A high or low water."""

    when: datetime
    height: float = field(compare=False)
    is_high: bool = field(compare=False)

    def __str__(self) -> str:
        label = "HW" if self.is_high else "LW"
        return f"{label} {self.when:%H:%M} {self.height:5.2f} m"


@dataclass
class Harbour:
    """A place with a mean level and a list of constituents."""

    name: str
    mean_level: float
    constituents: list[Constituent] = field(default_factory=list)

    def add(self, name: str, speed: float, amplitude: float,
            phase: float = 0.0) -> None:
        constituent = Constituent(name, speed, amplitude, phase)
        self.constituents.append(constituent)

    def height(self, when: datetime) -> float:
        """Return the height of the water above datum, in metres."""
        hours = self._hours(when)
        return self.mean_level + sum(c.height(hours) for c in self.constituents)

    def slope(self, when: datetime) -> float:
        """Return the rate of rise in metres per hour."""
        hours = self._hours(when)
        return sum(c.slope(hours) for c in self.constituents)

    def turnings(self, start: datetime, end: datetime) -> Iterator[Turning]:
        """Yield every high and low water between start and end, in order."""
        if not self.constituents:
            raise TideError(f"{self.name} has no constituents")
        before = start
        rising = self.slope(before) > 0
        while before < end:
            after = min(before + STEP, end)
            still_rising = self.slope(after) > 0
            if rising != still_rising:
                when = self._refine(before, after, rising)
                yield Turning(when, self.height(when), is_high=rising)
            before, rising = after, still_rising

    def _refine(self, before: datetime, after: datetime,
                rising: bool) -> datetime:
        # Plain bisection on the sign of the slope.
        while after - before > TOLERANCE:
            middle = before + (after - before) / 2
            if (self.slope(middle) > 0) == rising:
                before = middle
            else:
                after = middle
        return before + (after - before) / 2

    @staticmethod
    def _hours(when: datetime) -> float:
        if when.tzinfo is None:
            raise ValueError("times must carry a time zone")
        return (when - EPOCH).total_seconds() / 3600.0


class Almanac:
    """A collection of harbours which can be looked up by name."""

    def __init__(self, harbours: list[Harbour] | None = None) -> None:
        self._harbours: dict[str, Harbour] = {}
        for harbour in harbours or []:
            self.register(harbour)

    def register(self, harbour: Harbour) -> None:
        self._harbours[harbour.name.casefold()] = harbour

    def harbour(self, name: str) -> Harbour:
        try:
            return self._harbours[name.casefold()]
        except KeyError:
            raise UnknownHarbour(name) from None

    def day(self, name: str, day: date) -> list[Turning]:
        """Return the turnings of one calendar day."""
        start = datetime.combine(day, time(), tzinfo=timezone.utc)
        return list(self.harbour(name).turnings(start, start + timedelta(days=1)))

    def table(self, name: str, first: date, days: int = 7) -> str:
        """Format a table with one line to the day."""
        harbour = self.harbour(name)
        lines = [harbour.name, "-" * len(harbour.name)]
        for offset in range(days):
            day = first + timedelta(days=offset)
            turnings = self.day(name, day)
            cells = "   ".join(str(turning) for turning in turnings)
            lines.append(f"{day:%a %d %b}   {cells}")
        return "\n".join(lines)


def example_almanac() -> Almanac:
    """Build an almanac with two invented harbours."""
    skerry = Harbour("Skerry Haven", mean_level=2.9)
    skerry.add("M2", 28.984, 1.62, phase=141.0)
    skerry.add("S2", 30.000, 0.55, phase=186.0)
    otter = Harbour("Otter Quay", mean_level=3.4)
    otter.add("M2", 28.984, 2.05, phase=160.5)
    otter.add("S2", 30.000, 0.71, phase=204.0)
    return Almanac([skerry, otter])


def main() -> None:
    almanac = example_almanac()
    print(almanac.table("skerry haven", date(2021, 3, 28), days=5))
    print()
    print(almanac.table("otter quay", date(2021, 3, 28), days=2))


if __name__ == "__main__":
    main()
