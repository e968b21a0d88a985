"""Measure a folder of forged worlds: the ladder of bounds on each split, time and memory of resets, and sample queries.

python benchmarks/forged_worlds.py worlds --worlds 300 --tasks 4
python benchmarks/forged_worlds.py worlds --queries 50
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

import costgym
from costgym.agents import make_agent
from costgym.experiments.fit.forge.check import problem_of_world
from costgym.simulators.draws import stable_integer
from costgym.simulators.forge.folder import WorldFolder
from costgym.simulators.scenario import Scenario, parse_scenario

AGENTS = ("random", "greedy", "oracle-informed", "oracle")
SPLITS = ("train", "unseen-api", "unseen-provider")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--worlds", type=int, default=0, help="worlds of each split in which the bounds are played")
    parser.add_argument("--tasks", type=int, default=4, help="tasks of each of these worlds")
    parser.add_argument("--check", type=int, default=0, help="worlds of each split that are checked again, 40 tasks each")
    parser.add_argument("--resets", type=int, default=0, help="resets of one environment over the first split")
    parser.add_argument("--seed", type=int, default=0, help="seed of the drawn queries")
    parser.add_argument("--queries", type=int, default=0, help="queries to print, drawn at random")
    options = parser.parse_args()
    splits = {
        name: WorldFolder(options.folder / name, parse_scenario)
        for name in SPLITS
        if (options.folder / name / "index.json").is_file()
    }
    for name, worlds in splits.items():
        if options.worlds:
            ladder(name, worlds, options.worlds, options.tasks)
        if options.check:
            problems = [problem_of_world(worlds[n].model_dump(mode="json"), 20) for n in spread(len(worlds), options.check)]
            print(f"{name}: {sum(p is not None for p in problems)} invalid of {len(problems)} worlds", *filter(None, problems))
    if options.resets:
        resets(options.folder / next(iter(splits)), options.resets)
    for number in range(options.queries):
        name, worlds = list(splits.items())[stable_integer(options.seed, "split", number) % len(splits)]
        place = stable_integer(options.seed, "world", number) % len(worlds)
        tasks = worlds[place].build().tasks
        task = tasks[tasks.numbers("test")[stable_integer(options.seed, "task", number) % 400]]
        print(f"{number + 1}. {task.query} [{name}/{place}; {', '.join(need.fact for need in task.needs)}]")


def spread(count: int, wanted: int) -> list[int]:
    """Evenly spread numbers below a count."""
    return [number * count // min(count, wanted) for number in range(min(count, wanted))]


def ladder(name: str, worlds: WorldFolder[Scenario], count: int, tasks: int) -> None:
    """Play the bounds in worlds of a split, each agent in the same episodes."""
    returns: dict[str, list[float]] = {agent: [] for agent in AGENTS}
    passes: dict[str, list[bool]] = {agent: [] for agent in AGENTS}
    begin = time.process_time()
    for number in spread(len(worlds), count):
        for agent in AGENTS:
            env = costgym.make("costgym/Marketplace-v0", scenario=worlds[number], split="test")
            for result in costgym.rollout(env, make_agent(agent), episodes=tasks, seed=number):
                returns[agent].append(result.quality)
                passes[agent].append(result.strict)
    for agent in AGENTS:
        mean, error = np.mean(returns[agent]), np.std(returns[agent]) / len(returns[agent]) ** 0.5
        print(f"{name:16} {agent:16} passed {np.mean(passes[agent]):.3f}, return {mean:.3f} ± {1.96 * error:.3f}")
    for low, high in pairwise(AGENTS):
        gap = np.array(returns[high]) - np.array(returns[low])
        print(f"{name:16} {high} - {low}: {gap.mean():.3f} ± {1.96 * gap.std() / len(gap) ** 0.5:.3f}")
    print(f"{name:16} {len(returns['random'])} episodes an agent, {time.process_time() - begin:.0f} CPU-s", flush=True)


def resets(folder: Path, count: int) -> None:
    """Time and memory of an environment that draws a world for each episode."""
    env = costgym.make("costgym/Marketplace-v0", scenario=str(folder))
    for part in range(4):
        begin = time.process_time()
        for seed in range(count // 4):
            env.reset(seed=part * count + seed)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        each = 1000 * (time.process_time() - begin) / (count // 4)
        print(f"{(part + 1) * count // 4} resets: {each:.1f} CPU-ms each, {used:.0f} MiB")


if __name__ == "__main__":
    main()
