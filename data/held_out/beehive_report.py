#!/usr/bin/env python3
"""Keep weekly hive weighings in SQLite and print a season report.

The report has one section per apiary.  Each section shows, for every hive,
the mean and spread of the weight, the gain, and a little bar chart.
"""

import csv
import io
import sqlite3
import statistics
import sys
from collections import defaultdict, namedtuple
from datetime import date, timedelta

SCHEMA = """
CREATE TABLE IF NOT EXISTS hive (
    hive_id   INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE,
    apiary    TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS weighing (
    hive_id   INTEGER NOT NULL REFERENCES hive(hive_id),
    day       TEXT NOT NULL,
    weight    REAL NOT NULL CHECK (weight > 0),
    PRIMARY KEY (hive_id, day)
);
"""

BARS = " .:-=+*#"

Weighing = namedtuple("Weighing", "apiary hive day weight")
Summary = namedtuple("Summary", "hive count mean spread gain bars")


class BeehiveError(Exception):
    """Raised when the weighings cannot be stored or reported."""


class HiveStore:
    """A thin layer over the two tables of the hive database."""

    def __init__(self, path=":memory:"):
        self.connection = sqlite3.connect(path)
        self.connection.executescript(SCHEMA)

    def hive_id(self, name, apiary):
        """Return the id of a hive, adding the hive if it is new."""
        cursor = self.connection.execute(
            "SELECT hive_id FROM hive WHERE name = ?", (name,)
        )
        row = cursor.fetchone()
        if row is None:
            cursor = self.connection.execute(
                "INSERT INTO hive (name, apiary) VALUES (?, ?)", (name, apiary)
            )
            return cursor.lastrowid
        return row[0]

    def add(self, weighings):
        """Store all the weighings, or none of them if one is wrong."""
        count = 0
        try:
            with self.connection:
                for weighing in weighings:
                    hive_id = self.hive_id(weighing.hive, weighing.apiary)
                    self.connection.execute(
                        "INSERT INTO weighing (hive_id, day, weight) VALUES (?, ?, ?)",
                        (hive_id, weighing.day.isoformat(), weighing.weight),
                    )
                    count += 1
        except sqlite3.IntegrityError as exc:
            raise BeehiveError(f"weighing {count + 1} was refused: {exc}") from exc
        return count

    def weighings(self):
        """Yield the weighings in order of apiary, hive and day."""
        query = """
            SELECT apiary, name, day, weight
            FROM weighing JOIN hive USING (hive_id)
            ORDER BY apiary, name, day
        """
        for apiary, name, day, weight in self.connection.execute(query):
            yield Weighing(apiary, name, date.fromisoformat(day), weight)


def read_weighings(stream):
    """Parse weighings from a CSV file with a header line."""
    reader = csv.DictReader(stream)
    for row in reader:
        try:
            yield Weighing(
                apiary=row["apiary"].strip(),
                hive=row["hive"].strip(),
                day=date.fromisoformat(row["day"]),
                weight=float(row["weight"]),
            )
        except (KeyError, ValueError) as exc:
            raise BeehiveError(f"line {reader.line_num}: {exc}") from None


def bar_chart(weights):
    """Draw the weights as a string with one character per weight."""
    low, high = min(weights), max(weights)
    if high == low:
        return BARS[len(BARS) // 2] * len(weights)
    scale = (len(BARS) - 1) / (high - low)
    return "".join(BARS[round((weight - low) * scale)] for weight in weights)


def summarise(hive, weights):
    spread = statistics.stdev(weights) if len(weights) > 1 else 0.0
    return Summary(
        hive=hive,
        count=len(weights),
        mean=statistics.fmean(weights),
        spread=spread,
        gain=weights[-1] - weights[0],
        bars=bar_chart(weights),
    )


def group_by_apiary(weighings):
    """Return a dict of apiary -> hive -> list of weights."""
    groups = defaultdict(lambda: defaultdict(list))
    for weighing in weighings:
        groups[weighing.apiary][weighing.hive].append(weighing.weight)
    return groups


def render_section(apiary, summaries):
    title = f"Apiary: {apiary}"
    lines = [title, "-" * len(title)]
    lines.append(f"{'hive':<12}{'n':>4}{'mean':>9}{'spread':>9}{'gain':>9}  weights")
    for s in summaries:
        lines.append(
            f"{s.hive:<12}{s.count:>4}{s.mean:>9.2f}{s.spread:>9.2f}"
            f"{s.gain:>+9.2f}  |{s.bars}|"
        )
    best = max(summaries, key=lambda s: s.gain)
    lines.append("")
    lines.append(f"Best gain: {best.hive} with {best.gain:+.2f} kg.")
    return "\n".join(lines)


def render_report(weighings):
    groups = group_by_apiary(weighings)
    if not groups:
        raise BeehiveError("there are no weighings to report")
    sections = []
    for apiary, hives in sorted(groups.items()):
        summaries = [summarise(hive, weights) for hive, weights in hives.items()]
        sections.append(render_section(apiary, summaries))
    return "\n\n".join(sections) + "\n"


def sample_csv():
    """Make up eight weeks of weighings for three hives."""
    hives = [
        ("Orchard", "Bramley", 31.0, 1.4),
        ("Orchard", "Pippin", 28.5, 0.9),
        ("Heath", "Ling", 33.2, -0.6),
    ]
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["apiary", "hive", "day", "weight"])
    for apiary, hive, weight, weekly in hives:
        day = date(2021, 4, 5)
        for week in range(8):
            wobble = 0.5 if week % 3 == 1 else -0.2
            writer.writerow([apiary, hive, day, round(weight + weekly * week + wobble, 2)])
            day += timedelta(weeks=1)
    stream.seek(0)
    return stream


def main(argv):
    store = HiveStore()
    try:
        with open(argv[1], newline="") if argv[1:] else sample_csv() as stream:
            count = store.add(read_weighings(stream))
        print(f"{count} weighings read\n")
        print(render_report(store.weighings()), end="")
    except (BeehiveError, OSError) as exc:
        print(f"beehive_report: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
