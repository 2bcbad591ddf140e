"""Which way a model goes, in lesson 08's language and in another, by the same recipes."""

from course_lessons.formation import experiments
from course_utils._arguments import validated

# arms in lesson 08's language → the same recipe where names may follow each other at once
OTHER = {
    "spread": "at once",
    "batches of 32": "at once, batches of 32",
    "longer documents": "at once, longer documents",
}


@validated
def detours(results: experiments.Results) -> dict[str, int]:
    """How many models of each language take the detour, and of how many."""
    found = {"ours": 0, "of": 0, "names at once": 0, "of them": 0}
    for arms in OTHER.items():
        ours, other = ([experiments.way(kept) == "detour" for kept in results[arm]] for arm in arms)
        found["ours"] += sum(ours)
        found["of"] += len(ours)
        found["names at once"] += sum(other)
        found["of them"] += len(other)
    return found
