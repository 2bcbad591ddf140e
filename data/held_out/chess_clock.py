"""A chess clock for two players, with several kinds of time control.

The clock itself does not know what the time is.  It asks a time source, so
that a test can move the time forward by hand and need not wait.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from enum import Enum
from typing import Callable, Iterator, Protocol


class TimeSource(Protocol):
    """Anything that can tell the time in seconds."""

    def now(self) -> float:
        ...


class SystemTime:
    def now(self) -> float:
        return time.monotonic()


class ManualTime:
    """A time source that moves only when told to."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class Side(Enum):
    WHITE = "white"
    BLACK = "black"

    @property
    def other(self) -> Side:
        return Side.BLACK if self is Side.WHITE else Side.WHITE


class ClockError(Exception):
    """The clock was used in a way the rules do not allow."""


class FlagFallen(ClockError):
    """A player has run out of time."""

    def __init__(self, side: Side) -> None:
        super().__init__(f"{side.value} has run out of time")
        self.side = side


class TimeControl(ABC):
    """Decides how much time is left to a player after a move."""

    def __init__(self, minutes: float) -> None:
        self.initial = minutes * 60.0

    @abstractmethod
    def after_move(self, remaining: float, used: float) -> float:
        """Return the new remaining time of a player who has moved."""

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.initial / 60:g} min"


class SuddenDeath(TimeControl):
    """All moves in one fixed time."""

    def after_move(self, remaining: float, used: float) -> float:
        return remaining - used


class Increment(TimeControl):
    """Every move adds some seconds, as in the usual online games."""

    def __init__(self, minutes: float, seconds: float) -> None:
        super().__init__(minutes)
        self.seconds = seconds

    def after_move(self, remaining: float, used: float) -> float:
        return remaining - used + self.seconds


class ChessClock:
    """Two timers of which at most one is running.

    All public methods may be called from any thread.
    """

    def __init__(self, control: TimeControl, source: TimeSource | None = None) -> None:
        self.control = control
        self.source = source or SystemTime()
        self._remaining = {side: control.initial for side in Side}
        self._running: Side | None = None
        self._started = 0.0
        self._lock = threading.RLock()

    @property
    def running(self) -> Side | None:
        with self._lock:
            return self._running

    def remaining(self, side: Side) -> float:
        """Return the seconds left to one side, never less than zero."""
        with self._lock:
            remaining = self._remaining[side]
            if side is self._running:
                used = self.source.now() - self._started
                remaining -= used
            return max(0.0, remaining)

    def start(self, side: Side = Side.WHITE) -> None:
        with self._lock:
            if self._running is not None:
                raise ClockError("the clock is already running")
            self._running = side
            self._started = self.source.now()

    def press(self, side: Side) -> None:
        """End the move of one side and start the timer of the other."""
        with self._lock:
            if self._running is not side:
                raise ClockError(f"it is not the turn of {side.value}")
            self.check_flag()
            used = self.source.now() - self._started
            self._remaining[side] = self.control.after_move(self._remaining[side], used)
            self._running = side.other
            self._started = self.source.now()

    def stop(self) -> None:
        with self._lock:
            side = self._running
            if side is None:
                return
            self._remaining[side] = self.remaining(side)
            self._running = None

    def check_flag(self) -> None:
        with self._lock:
            for side in Side:
                if self.remaining(side) <= 0:
                    raise FlagFallen(side)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock for the time of a with block."""
        with self._lock:
            side = self._running
            self.stop()
        try:
            yield
        finally:
            if side is not None:
                self.start(side)

    def __str__(self) -> str:
        faces = []
        for side in Side:
            mark = "*" if side is self.running else " "
            faces.append(f"{mark}{side.value} {format_time(self.remaining(side))}")
        return " | ".join(faces)


class FlagWatcher(threading.Thread):
    """A background thread that reports when a flag falls."""

    def __init__(self, clock: ChessClock, on_fall: Callable[[Side], None]) -> None:
        super().__init__(name="flag-watcher", daemon=True)
        self.clock = clock
        self.on_fall = on_fall
        self._stop_event = threading.Event()

    def run(self) -> None:
        while not self._stop_event.wait(0.02):
            try:
                self.clock.check_flag()
            except FlagFallen as exc:
                self.on_fall(exc.side)
                return

    def cancel(self) -> None:
        self._stop_event.set()


def format_time(seconds: float) -> str:
    """Show tenths of a second only in the last twenty seconds."""
    if seconds < 20:
        return f"0:{seconds:04.1f}"
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes}:{seconds:02d}"


def main() -> None:
    thinking = [4, 3, 31, 12, 2, 50]
    for control in (SuddenDeath(1), Increment(1, 5)):
        source = ManualTime()
        clock = ChessClock(control, source)
        clock.start()
        print(control)
        try:
            for seconds in thinking:
                source.advance(seconds)
                clock.press(clock.running)
                print("  ", clock)
            with clock.paused():
                source.advance(600)
        except FlagFallen as exc:
            print("  ", exc)

    clock = ChessClock(SuddenDeath(0.002))
    watcher = FlagWatcher(clock, lambda side: print("flag:", side.value))
    clock.start(Side.BLACK)
    watcher.start()
    watcher.join(timeout=2.0)
    watcher.cancel()


if __name__ == "__main__":
    main()
