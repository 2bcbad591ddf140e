"""Train many small models and keep every history: `python -m course_utils.formation`."""

import argparse
from pathlib import Path

import joblib

from course_utils.formation import experiments
from course_utils.formation.runs import SEEDS, planned, sweep, write


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m course_utils.formation", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument(
        "--arms",
        nargs="*",
        choices=experiments.ARMS,
        help="make the experiments instead, all or these, with the seeds that each arm has",
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one core each")
    parser.add_argument("--dask", metavar="ADDRESS", help="the scheduler of a Dask cluster, which takes the runs over")
    parser.add_argument("--out", type=Path, default=Path("runs/formation"), help="folder for the results")
    options = parser.parse_args(arguments)
    chosen = list(experiments.ARMS) if options.arms == [] else options.arms
    runs = planned(options.seeds) if chosen is None else experiments.planned(chosen)
    parts = options.out / "runs"
    if options.dask:
        from dask.distributed import Client

        with Client(options.dask), joblib.parallel_config(backend="dask"):
            results = sweep(runs, parts, jobs=-1)
    else:
        results = sweep(runs, parts, options.jobs)
    file = (write if chosen is None else experiments.write)(results, options.out)
    print(f"{file}: {len(results)} runs")


if __name__ == "__main__":
    main()
