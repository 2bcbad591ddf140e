"""Plan walks over a moor from a list of footpaths.

A moor is a graph.  Its places are cairns, bridges, tarns and farms, each
with a grid position and an altitude, and its paths join two places.  The
time taken along a path depends on which way it is walked, since climbing is
slower than going down, and on how wet the ground is.
"""

import heapq
import math
from collections import defaultdict, deque, namedtuple

Place = namedtuple('Place', 'name east north altitude')
Path = namedtuple('Path', 'start end length going')
Walk = namedtuple('Walk', 'places minutes')

# Minutes for one kilometre on the flat.
GOING = {
    'track': 12.0,
    'grass': 13.5,
    'heather': 18.0,
    'bog': 26.0,
}

MINUTES_PER_METRE_UP = 0.1
FASTEST = min(GOING.values())


class NoWalk(Exception):
    """There is no way of getting from one place to another."""

    def __init__(self, start, end):
        Exception.__init__(self, 'no walk from %s to %s' % (start, end))


class Moor:

    def __init__(self):
        self.places = {}
        self.paths = defaultdict(list)

    def add_place(self, name, east, north, altitude=0):
        """Add a place; east and north are in kilometres, altitude in metres."""
        self.places[name] = Place(name, east, north, altitude)

    def add_path(self, start, end, going='grass', length=None):
        """Join two places with a path which may be walked both ways."""
        if going not in GOING:
            raise ValueError('unknown going: %r' % going)
        for name in (start, end):
            if name not in self.places:
                raise KeyError(name)
        direct = self.distance(start, end)
        if length is None:
            length = 1.15 * direct
        elif length < direct:
            raise ValueError('path from %s to %s is shorter than the crow flies'
                             % (start, end))
        self.paths[start].append(Path(start, end, length, going))
        self.paths[end].append(Path(end, start, length, going))

    def distance(self, start, end):
        """Return the straight distance between two places in kilometres."""
        a, b = self.places[start], self.places[end]
        return math.hypot(a.east - b.east, a.north - b.north)

    def climb(self, start, end):
        rise = self.places[end].altitude - self.places[start].altitude
        return max(rise, 0)

    def minutes(self, path):
        """Return the time that it takes to walk along a path."""
        flat = path.length * GOING[path.going]
        return flat + MINUTES_PER_METRE_UP * self.climb(path.start, path.end)

    def estimate(self, start, end):
        """Return a time which no walk between two places can beat."""
        flat = self.distance(start, end) * FASTEST
        return flat + MINUTES_PER_METRE_UP * self.climb(start, end)

    def quickest(self, start, end):
        """Return the quickest walk, found with a best-first search."""
        best = {start: 0.0}
        previous = {}
        done = set()
        heap = [(self.estimate(start, end), start)]
        while heap:
            _, name = heapq.heappop(heap)
            if name == end:
                return Walk(self._trace(previous, end), best[end])
            if name in done:
                continue
            done.add(name)
            for path in self.paths[name]:
                minutes = best[name] + self.minutes(path)
                if minutes < best.get(path.end, math.inf):
                    best[path.end] = minutes
                    previous[path.end] = name
                    total = minutes + self.estimate(path.end, end)
                    heapq.heappush(heap, (total, path.end))
        raise NoWalk(start, end)

    def _trace(self, previous, end):
        places = deque([end])
        while places[0] in previous:
            places.appendleft(previous[places[0]])
        return list(places)

    def loops(self, start, limit):
        """Yield every round walk from start that takes at most limit minutes.

        No place is passed twice, and no loop is given in both directions.
        """
        def extend(places, minutes):
            for path in self.paths[places[-1]]:
                total = minutes + self.minutes(path)
                if total > limit:
                    continue
                if path.end == start:
                    if len(places) > 2 and places[1] < places[-1]:
                        yield Walk(places + [start], total)
                elif path.end not in places:
                    yield from extend(places + [path.end], total)

        yield from extend([start], 0.0)


def describe(walk):
    hours, minutes = divmod(round(walk.minutes), 60)
    return '%s (%d h %02d min)' % (' - '.join(walk.places), hours, minutes)


def example_moor():
    moor = Moor()
    moor.add_place('Ling Farm', 0.0, 0.0, 210)
    moor.add_place('Clapper Bridge', 1.8, 0.6, 195)
    moor.add_place('Grey Cairn', 3.1, 2.9, 488)
    moor.add_place('Peat Road', 0.9, 2.4, 330)
    moor.add_place('Raven Tarn', 2.2, 4.4, 402)
    moor.add_place('Lost Hut', 9.0, 9.0, 300)
    moor.add_path('Ling Farm', 'Clapper Bridge', 'track')
    moor.add_path('Ling Farm', 'Peat Road', 'grass', length=2.9)
    moor.add_path('Clapper Bridge', 'Grey Cairn', 'heather')
    moor.add_path('Peat Road', 'Grey Cairn', 'bog')
    moor.add_path('Peat Road', 'Raven Tarn', 'heather')
    moor.add_path('Raven Tarn', 'Grey Cairn', 'grass')
    return moor


if __name__ == '__main__':
    moor = example_moor()
    walk = moor.quickest('Ling Farm', 'Raven Tarn')
    print(describe(walk))
    for walk in sorted(moor.loops('Ling Farm', 240), key=lambda w: w.minutes):
        print('loop:', describe(walk))
    try:
        moor.quickest('Ling Farm', 'Lost Hut')
    except NoWalk as e:
        print('sorry,', e)
