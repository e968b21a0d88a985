"""MaskablePPO (and DQN) in the marketplace, against the classic agents, on tasks that no learner saw.

    OMP_NUM_THREADS=1 python benchmarks/learning/ppo.py --out runs/ppo --minutes 5

trains on the train split, then plays every agent on the same worlds of the test split: budget price=20, recorded as on the
leaderboard. Prints return (Quality of Plan), pass rate under the budget and mean cost with 95 % intervals, and the paired
differences. `--only` chooses among ppo, lagrangian and dqn; a run that is there already is continued, or only played.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import costgym
from costgym.agents import Agent, make_agent
from costgym.agents.sb3 import Sb3Agent
from costgym.experiments.play.metrics import paired_difference, summarise
from costgym.experiments.train.run import Callback, TrainingResult, TrainingStep
from costgym.experiments.train.sb3.train import train_dqn, train_ppo

FIGURES = ("quality_of_plan", "pass_rate_under_budget", "average_cost", "budget_failure_rate")
CLASSIC = ("random", "cheapest", "greedy", "oracle-informed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    parser.add_argument("--scenario", default="marketplace")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--steps", type=int, help="train for so many decisions instead: the same policy on any machine")
    parser.add_argument("--price", type=float, default=20.0, help="the budget")
    parser.add_argument("--limit", type=float, default=7.0, help="mean cost that the Lagrangian run must keep")
    parser.add_argument("--episodes", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="ppo,lagrangian")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    budget = {"price": given.price}
    print(f"costgym {costgym.__version__}, Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}")

    runs: dict[str, Agent] = {}
    for name in given.only.split(","):
        began = time.process_time()
        result = _train(name, given, budget)
        used = time.process_time() - began
        if used > 1:
            seconds = result.metrics["seconds"]
            print(f"{name}: {result.steps} decisions in {seconds:.0f} s ({used:.0f} s of processor time)", flush=True)
        runs[name] = Sb3Agent(given.out / name, name)

    played = {name: _play(agent, given, budget) for name, agent in _agents(runs)}
    rows = {name: summarise(results, seed=given.seed) for name, results in played.items()}
    print(f"\n{given.episodes} episodes of the test split of {given.scenario}, price {given.price:g}, seed {given.seed}")
    for name, row in rows.items():
        print(f"{name:16}", "  ".join(_figure(row, figure) for figure in FIGURES))
    report: dict[str, Any] = {"rows": rows, "differences": {}}
    for name in runs:
        for other in ("greedy", "random"):
            for metric in FIGURES[:2]:
                found = paired_difference(played[name], played[other], metric, seed=given.seed)
                low, high = found.ci95
                print(f"{name} - {other}, {metric}: {found.difference:+.4f} [{low:+.4f}, {high:+.4f}], p = {found.p_value:.4f}")
                report["differences"][f"{name} - {other}: {metric}"] = [found.difference, low, high, found.p_value]
    if "lagrangian" in runs:
        cost = rows["lagrangian"]["average_cost"]
        print(f"lagrangian: mean cost {cost:.3f}, limit {given.limit:g}: {'kept' if cost <= given.limit else 'BROKEN'}")
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _train(name: str, given: argparse.Namespace, budget: dict[str, float]) -> TrainingResult:
    settings: dict[str, Any] = {"seed": given.seed, "budget": budget}
    settings |= {"minutes": given.minutes} if given.steps is None else {"steps": given.steps}
    if name == "dqn":
        return train_dqn(given.out / name, given.scenario, callback=_Show(name), **settings)
    constraint = given.limit if name == "lagrangian" else None
    if constraint is not None:  # the policy has to follow the multiplier, and to explore giving up, until both have settled
        settings |= {"ent_coef": 0.01, "final_lr_fraction": 0.3}
    return train_ppo(given.out / name, given.scenario, lagrangian=constraint, callback=_Show(name), **settings)


class _Show(Callback):
    def __init__(self, name: str) -> None:
        self._name = name

    def on_step(self, step: TrainingStep) -> None:
        print(f"\r{self._name}: {step.done:.0f}/{step.total:.0f}", end="", file=sys.stderr, flush=True)

    def on_message(self, text: str) -> None:
        print(f"{self._name}: {text}", file=sys.stderr, flush=True)


def _agents(runs: dict[str, Agent]) -> Iterator[tuple[str, Agent]]:
    yield from runs.items()
    for name in CLASSIC:
        yield name, make_agent(name)


def _play(agent: Agent, given: argparse.Namespace, budget: dict[str, float]) -> costgym.Results:
    env = costgym.make(
        agent.env_id,
        scenario=given.scenario,
        split="test",
        budget=budget,
        enforcement="record",
        max_steps=400,
        disable_env_checker=True,
    )
    return costgym.rollout(env, agent, given.episodes, given.seed)


def _figure(row: dict[str, Any], name: str) -> str:
    low, high = row["ci95"][name]
    return f"{name} {row[name]:.4f} [{low:.4f}, {high:.4f}]"


if __name__ == "__main__":
    main()
