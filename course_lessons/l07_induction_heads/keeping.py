"""The doors that the circuit diagram names."""

from collections.abc import Sequence

Head = tuple[int, int]


def circuit_doors(earlier: Head, later: Sequence[Head]) -> list[tuple]:
    """The doors of the induction circuit, as (writer, door, reader) and (writer, "logits").

    `earlier`, as (0, 5), writes the label, and the heads `later`, as [(1, 6)], look for it.
    """
    doors: list[tuple] = [("embed", "v", earlier)]  # 1: B gets its label
    for head in later:
        doors += [("embed", "q", head), (earlier, "k", head)]  # 2: the second A finds it
        doors += [("embed", "v", head), (head, "logits")]  # 3: B is moved over
    return doors
