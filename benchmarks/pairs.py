"""Run `costgym bench` of two installations by turns, and print how fast the second one is, as a share of the first one's speed.

    python benchmarks/pairs.py OLD/bin/python NEW/bin/python [--pairs 5] [--steps 20000] [--json FILE]

A figure is the median over the pairs, with the lowest and the highest pair: machines that others use too change from minute to
minute, and both of a pair are measured in the same ones.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.report import write_report

ABOUT = ("name", "agent", "env", "kind", "envs")  # what a row is of


def measured(python: str, steps: int) -> dict[str, float]:
    """Steps, episodes or resets a second, by what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        words = [python, "-m", "costgym", "bench", "--steps", str(steps), "--quiet", "--json", f"{folder}/bench.json"]
        subprocess.run(words, cwd=folder, check=True)
        return dict(rates(json.loads(Path(folder, "bench.json").read_text())))


def rates(document: Any, name: str = "") -> list[tuple[str, float]]:
    """The numbers of a report that are rates, by their path; entries of lists go by their name."""
    if isinstance(document, dict):
        of = " ".join(str(document[key]) for key in ABOUT if isinstance(document.get(key), str | int))
        return [pair for key, part in document.items() for pair in rates(part, f"{name} {of} {key}".strip())]
    if isinstance(document, list):
        return [pair for part in document for pair in rates(part, name)]
    return [(name, float(document))] if name.endswith("per_second") and not isinstance(document, bool) else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shares: dict[str, list[float]] = {}
    for _ in range(options.pairs):
        old, new = (measured(python, options.steps) for python in (options.old, options.new))
        for name in old.keys() & new.keys():
            shares.setdefault(name, []).append(new[name] / old[name])
    table = {name: [round(pick(found), 2) for pick in (statistics.median, min, max)] for name, found in sorted(shares.items())}
    for name, (middle, low, high) in table.items():
        print(f"{middle:.2f} ({low:.2f}–{high:.2f})  {name}")
    write_report({"pairs": options.pairs, "steps": options.steps, "shares": table}, options.json)


if __name__ == "__main__":
    main()
