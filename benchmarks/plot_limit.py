"""Draw how a constrained run found its limit: mean cost of an episode, multiplier and pass rate over decisions.

python benchmarks/plot_limit.py agents/zoo/lagrangian docs/limit.svg
"""

import argparse
from pathlib import Path

from costgym.experiments.pages.charts import SERIES, Panel, Series, panels
from costgym.experiments.train.run import read_curve
from costgym.simulators.files import write_atomically

PANELS = {"cost": "mean cost of an episode, credits", "multiplier": "multiplier", "success": "pass rate"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a run of `costgym train ppo --cost-limit`")
    parser.add_argument("picture", type=Path)
    args = parser.parse_args()
    lines = read_curve(args.run)
    steps = [line["step"] / 1000 for line in lines]
    drawn = []
    for colour, (name, title) in enumerate(PANELS.items()):
        series = [Series(name, steps, [line[name] for line in lines], colour)]
        if name == "cost":
            ends = [lines[0], lines[-1]]
            series.append(Series("limit", [steps[0], steps[-1]], [line["limit"] for line in ends], SERIES - 1, dashed=True))
        drawn.append(Panel(title, "thousand decisions", series))
    write_atomically(args.picture, panels([drawn]))


if __name__ == "__main__":
    main()
