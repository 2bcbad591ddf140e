"""Process readings from river gauges as a stream.

The functions here are small generators.  Each takes an iterable and yields
something new, so they can be joined into pipelines:

    lines -> parse_readings -> drop_spikes -> smooth -> find_floods
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Stage = Callable[[Iterable[Any]], Iterator[Any]]


class GaugeError(ValueError):
    """A line of the input is not a proper reading."""


@dataclass(frozen=True, order=True)
class Reading:
    """The water level at one gauge at one moment."""

    time: datetime
    gauge: str
    level: float

    @classmethod
    def parse(cls, line: str) -> Reading:
        parts = line.split()
        if len(parts) != 3:
            raise GaugeError(f"expected three fields, got {len(parts)}")
        time, gauge, level = parts
        try:
            return cls(datetime.fromisoformat(time), gauge, float(level))
        except ValueError as exc:
            raise GaugeError(str(exc)) from exc

    def __str__(self) -> str:
        return f"{self.time:%d %b %H:%M} {self.gauge} {self.level:.2f} m"


@dataclass
class Flood:
    """A stretch of time in which the level stayed above a threshold."""

    gauge: str
    start: datetime
    end: datetime
    peak: float

    @property
    def duration(self) -> timedelta:
        return self.end - self.start

    def __str__(self) -> str:
        hours = self.duration.total_seconds() / 3600
        return f"{self.gauge}: {self.peak:.2f} m at the peak, {hours:.1f} hours"


class RingBuffer(Generic[T]):
    """A buffer of fixed capacity that forgets its oldest items."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self._slots: list[T | None] = [None] * capacity
        self._start = 0
        self._length = 0

    @property
    def capacity(self) -> int:
        return len(self._slots)

    @property
    def full(self) -> bool:
        return self._length == self.capacity

    def append(self, item: T) -> T | None:
        """Add an item; return the item it pushed out, if any."""
        index = (self._start + self._length) % self.capacity
        pushed_out = self._slots[index]
        self._slots[index] = item
        if self.full:
            self._start = (self._start + 1) % self.capacity
        else:
            self._length += 1
        return pushed_out

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> T:
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError("ring buffer index out of range")
        return self._slots[(self._start + index) % self.capacity]

    def __iter__(self) -> Iterator[T]:
        for index in range(self._length):
            yield self[index]


def parse_readings(
    lines: Iterable[str],
    on_error: Callable[[int, GaugeError], None] | None = None,
) -> Iterator[Reading]:
    """Parse lines; skip blank lines and lines that begin with a hash."""
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            yield Reading.parse(line)
        except GaugeError as exc:
            if on_error is None:
                raise
            on_error(number, exc)


def drop_spikes(readings: Iterable[Reading], limit: float = 1.0) -> Iterator[Reading]:
    """Leave out readings that jump too far from the last good one."""
    last: Reading | None = None
    for reading in readings:
        if math.isnan(reading.level):
            continue
        if last is not None and abs(reading.level - last.level) > limit:
            continue
        last = reading
        yield reading


def smooth(readings: Iterable[Reading], window: int = 3) -> Iterator[Reading]:
    """Replace each level by the mean of the last few levels."""
    buffer: RingBuffer[float] = RingBuffer(window)
    for reading in readings:
        buffer.append(reading.level)
        yield replace(reading, level=sum(buffer) / len(buffer))


def find_floods(readings: Iterable[Reading], threshold: float) -> Iterator[Flood]:
    """Yield each flood as soon as the water has gone down again."""
    flood: Flood | None = None
    for reading in readings:
        if reading.level >= threshold:
            if flood is None:
                flood = Flood(reading.gauge, reading.time, reading.time, reading.level)
            flood.end = reading.time
            flood.peak = max(flood.peak, reading.level)
        elif flood is not None:
            yield flood
            flood = None
    if flood is not None:
        yield flood


def merge(*streams: Iterable[Reading]) -> Iterator[Reading]:
    """Merge streams that are sorted by time into one sorted stream."""
    return heapq.merge(*streams)


def pipeline(source: Iterable[Any], *stages: Stage) -> Iterator[Any]:
    """Send the source through the stages from left to right."""
    return iter(reduce(lambda stream, stage: stage(stream), stages, source))


def sample_lines(gauge: str, crest: float, hours: int = 36) -> Iterator[str]:
    """Make up the lines of one gauge, with a spike and a broken line."""
    start = datetime(2022, 2, 18, 6)
    yield f"# gauge {gauge}"
    for hour in range(hours):
        level = 1.2 + crest * math.exp(-((hour - 16) / 6) ** 2)
        if hour == 9:
            level += 7.5
        time = start + timedelta(hours=hour)
        yield f"{time.isoformat()} {gauge} {level:.3f}"
        if hour == 20:
            yield f"{time.isoformat()} {gauge}"


def report_error(number: int, exc: GaugeError) -> None:
    print(f"line {number}: {exc}", file=sys.stderr)


def main() -> None:
    for gauge, crest in [("millbridge", 2.1), ("oxford_lane", 0.7)]:
        floods = pipeline(
            sample_lines(gauge, crest),
            lambda lines: parse_readings(lines, report_error),
            drop_spikes,
            smooth,
            lambda readings: find_floods(readings, threshold=2.5),
        )
        found = list(floods)
        print(f"{gauge}: {len(found)} floods")
        for flood in found:
            print("  ", flood)

    streams = [
        parse_readings(sample_lines(gauge, 1.5, hours=3)) for gauge in ("weir", "ford")
    ]
    for reading in merge(*streams):
        print(reading)


if __name__ == "__main__":
    main()
