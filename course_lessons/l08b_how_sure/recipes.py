"""Which way a model goes, in lesson 08's language and in another, recipe by recipe."""

from math import comb

from course_lessons.formation import experiments
from course_utils._arguments import validated

# arms in lesson 08's language → the same recipe where names may follow each other at once
OTHER = {
    "spread": "at once",
    "batches of 32": "at once, batches of 32",
    "longer documents": "at once, longer documents",
}


@validated
def detours(results: experiments.Results) -> dict[str, float]:
    """How many models of each language take the detour, of how many, and p.

    p is how often chance would deal all detours to the other language, if within each recipe it
    dealt the models anew. It supposes that none in our language takes the detour.
    """
    found = {"ours": 0, "of": 0, "names at once": 0, "of them": 0, "p": 1.0}
    for arms in OTHER.items():
        ours, other = ([experiments.way(kept) == "detour" for kept in results[arm]] for arm in arms)
        found["ours"] += sum(ours)
        found["of"] += len(ours)
        found["names at once"] += sum(other)
        found["of them"] += len(other)
        found["p"] *= comb(len(other), sum(other)) / comb(len(ours + other), sum(other))
    return found
