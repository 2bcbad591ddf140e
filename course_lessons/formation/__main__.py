"""Train many small models and keep every history.

`python -m course_lessons.formation` does it.
"""

import argparse
from pathlib import Path

import joblib

from course_lessons.formation import experiments
from course_lessons.formation.runs import sweep


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    command, arms = "python -m course_lessons.formation", list(experiments.ARMS)
    parser = argparse.ArgumentParser(prog=command, description=__doc__.splitlines()[0])
    parser.add_argument(
        "--arms", nargs="+", choices=arms, default=arms, help="these instead of all"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one core each")
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="the scheduler of a Dask cluster, which takes the runs over",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/formation"), help="folder for the results"
    )
    options = parser.parse_args(arguments)
    runs, parts = experiments.planned(options.arms), options.out / "runs"
    try:
        if options.dask:
            from dask.distributed import Client

            with Client(options.dask), joblib.parallel_config(backend="dask"):
                results = sweep(runs, parts, jobs=-1)
        else:
            results = sweep(runs, parts, options.jobs)
        file = experiments.write(results, options.out)
    except OSError as error:
        parser.error(str(error))
    print(f"{file}: {len(results)} runs")


if __name__ == "__main__":
    main()
