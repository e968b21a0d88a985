"""`costgym bench`: measure steps per second."""

from typing import Annotated

from ...experiments.play.options import Seed
from ...simulators.bounds import option
from ..options import JsonFile, Quiet
from ..output import console, save_json


def bench(
    steps: Annotated[int, option("Steps of each measurement.", ge=1000)] = 50_000,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Measure steps per second, compared with Gymnasium's CartPole.

    Example: `costgym bench`
    """
    from ...experiments.lab.bench import measure, print_bench

    report = measure(steps, seed)
    save_json(json_file, report)
    if not quiet:
        print_bench(report, console())
