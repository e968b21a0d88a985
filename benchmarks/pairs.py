"""Run `costgym bench` of two installations by turns, and print how fast the second one is, as a share of the first one's speed.

    python benchmarks/pairs.py OLD/bin/python NEW/bin/python [--pairs 5] [--steps 20000] [--episodes 300] [--json FILE]

Language agents play `--episodes` episodes with the simulated model beside it, in processor time as in `costgym bench`.
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
AGENTS = ("react", "dfsdt+ecoact")
PLAY = """
import gc, json, sys, time, costgym
env, episodes = costgym.make("costgym/MarketplaceChat-v0"), int(sys.argv[1])
rows = []
for agent in sys.argv[2:]:
    costgym.rollout(env, agent, episodes=5)  # models and tasks are made at their first use
    gc.collect()  # a full collection takes as long as 40 episodes, and would fall into one measurement and not into the other
    begin = time.process_time()
    costgym.rollout(env, agent, episodes=episodes)
    rows.append({"agent": agent, "episodes_per_second": episodes / (time.process_time() - begin)})
print(json.dumps(rows))
"""


def measured(python: str, steps: int, episodes: int) -> dict[str, float]:
    """Steps, episodes or resets a second, by what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        words = [python, "-m", "costgym", "bench", "--steps", str(steps), "--quiet", "--json", f"{folder}/bench.json"]
        subprocess.run(words, cwd=folder, check=True)
        words = [python, "-c", PLAY, str(episodes), *AGENTS]
        played = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout
        return dict(rates([json.loads(Path(folder, "bench.json").read_text()), json.loads(played)]))


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
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shares: dict[str, list[float]] = {}
    for pair in range(options.pairs):
        # either goes first in every second pair: what runs first leaves the processor's clock and caches to the other
        pythons = (options.old, options.new) if pair % 2 == 0 else (options.new, options.old)
        by_python = {python: measured(python, options.steps, options.episodes) for python in pythons}
        old, new = by_python[options.old], by_python[options.new]
        for name in old.keys() & new.keys():
            shares.setdefault(name, []).append(new[name] / old[name])
    table = {name: [round(pick(share), 2) for pick in (statistics.median, min, max)] for name, share in sorted(shares.items())}
    for name, (middle, low, high) in table.items():
        print(f"{middle:.2f} ({low:.2f}–{high:.2f})  {name}")
    write_report({"pairs": options.pairs, "steps": options.steps, "episodes": options.episodes, "shares": table}, options.json)


if __name__ == "__main__":
    main()
