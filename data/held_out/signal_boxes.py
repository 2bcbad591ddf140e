"""Signal boxes on a single line of railway.

Each pair of neighbouring boxes shares a section of line.  A train may be
let into a section only after the box ahead has accepted it, and a section
is free again only once the box ahead has seen the whole train go by.  Each
section is a small state machine, driven by the boxes at its two ends.
"""

import enum
import logging
from collections import deque

log = logging.getLogger(__name__)


class SignallingError(Exception):
    """Base class for everything that can go wrong in this module."""


class IllegalTransition(SignallingError):
    """An event arrived which makes no sense in the present state."""

    def __init__(self, section, event):
        super().__init__(f"{section.name}: cannot {event.name} "
                         f"while {section.state.name}")


class WrongTrain(SignallingError):
    """The train reported is not the train that is in the section."""

    def __init__(self, section, expected, found):
        super().__init__(f"{section.name}: expected {expected}, found {found}")


class LineError(SignallingError):
    """The boxes of a line are not arranged properly."""


class State(enum.Enum):
    NORMAL = "line blocked"
    OFFERED = "train offered"
    CLEAR = "line clear"
    OCCUPIED = "train on line"

    @property
    def is_free(self):
        return self is State.NORMAL


class Event(enum.Enum):
    OFFER = enum.auto()
    ACCEPT = enum.auto()
    REFUSE = enum.auto()
    ENTER = enum.auto()
    LEAVE = enum.auto()


TRANSITIONS = {
    (State.NORMAL, Event.OFFER): State.OFFERED,
    (State.OFFERED, Event.ACCEPT): State.CLEAR,
    (State.OFFERED, Event.REFUSE): State.NORMAL,
    (State.CLEAR, Event.ENTER): State.OCCUPIED,
    (State.OCCUPIED, Event.LEAVE): State.NORMAL,
}


class Section:
    """The stretch of line between two boxes."""

    def __init__(self, name):
        self.name = name
        self.state = State.NORMAL
        self.train = None

    def handle(self, event, train):
        """Apply an event to the section and return the new state."""
        old = self.state
        try:
            new = TRANSITIONS[old, event]
        except KeyError:
            raise IllegalTransition(self, event) from None
        if self.train is not None and train != self.train:
            raise WrongTrain(self, self.train, train)
        self.state = new
        self.train = None if new.is_free else train
        log.debug("%s: %s -> %s (%s)", self.name, old.name, new.name, train)
        return new


class SignalBox:
    """A box with a section behind it and a section ahead of it."""

    def __init__(self, name, capacity=1):
        self.name = name
        self.capacity = capacity
        self.behind = None
        self.ahead = None
        self.next_box = None
        self.standing = deque()

    @property
    def has_room(self):
        return len(self.standing) < self.capacity

    def offer(self, train):
        """Offer a train to the next box; tell whether it was accepted."""
        if self.ahead is None:
            raise LineError(f"{self.name} has no section ahead")
        self.ahead.handle(Event.OFFER, train)
        return self.next_box.answer(train)

    def answer(self, train):
        if self.has_room:
            self.behind.handle(Event.ACCEPT, train)
            return True
        log.info("%s refuses %s: no room", self.name, train)
        self.behind.handle(Event.REFUSE, train)
        return False

    def despatch(self):
        """Send away the train at the head of the queue, if possible."""
        if not self.standing:
            return None
        train = self.standing[0]
        if self.ahead is None:
            log.info("%s: %s terminates here", self.name, train)
            return self.standing.popleft()
        if not self.ahead.state.is_free or not self.offer(train):
            return None
        self.standing.popleft()
        self.ahead.handle(Event.ENTER, train)
        return train

    def receive(self):
        """Take in the train from the section behind, if there is one."""
        if self.behind is None or self.behind.state is not State.OCCUPIED:
            return None
        train = self.behind.train
        self.behind.handle(Event.LEAVE, train)
        self.standing.append(train)
        return train


class Line:
    """A row of signal boxes joined by sections."""

    def __init__(self, *names):
        self.boxes = [SignalBox(name) for name in names]
        self.sections = []
        for box, next_box in zip(self.boxes, self.boxes[1:]):
            section = Section(f"{box.name}/{next_box.name}")
            box.ahead = next_box.behind = section
            box.next_box = next_box
            self.sections.append(section)

    def start(self, train):
        self.boxes[0].standing.append(train)

    def step(self):
        """Let every box act once, the furthest first."""
        moves = 0
        for box in reversed(self.boxes):
            if box.despatch() is not None:
                moves += 1
            if box.receive() is not None:
                moves += 1
        return moves

    def run(self, limit=100):
        """Step until nothing moves and return the number of steps."""
        for count in range(limit):
            if not self.step():
                return count
        raise SignallingError(f"trains still moving after {limit} steps")


def main():
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)-5s %(message)s")
    line = Line("Fenwick", "Long Marsh", "Cold Hollow", "Tarn Junction")
    for train in ("1A07", "2K31", "6M55"):
        line.start(train)
    steps = line.run()
    log.info("line quiet after %d steps", steps)

    section = line.sections[0]
    section.handle(Event.OFFER, "1A09")
    try:
        section.handle(Event.ENTER, "1A09")
    except IllegalTransition as error:
        log.warning("refused: %s", error)


if __name__ == "__main__":
    main()
