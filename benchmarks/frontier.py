"""The frontier of cost and value, computed by sweeping the limit, and where constrained learners stand beside it.

    python benchmarks/frontier.py --json benchmarks/results/frontier.json

In the marketplace `oracle-informed` plays the test tasks within 30 credits under rising prices of a credit (Lagrange
multipliers): each gives a point of the frontier of the mean price and the pass rate. A learner is compared with the frontier,
interpolated at its own mean price: mixing two policies by chance reaches every point between theirs. In sessions the budget is
swept, as a share of what the informed policy would spend without limits.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import costgym
from costgym.agents import make_agent
from costgym.agents.base import NUMERIC, SESSION, Agent
from costgym.agents.oracle import ExpectedOptimumAgent
from costgym.experiments.play.episodes import play

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report

MULTIPLIERS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.045, 0.07)
SHARES = (0.1, 0.2, 0.4, 0.7, 1.0)
LEARNERS = ("zoo:ppo", "zoo:lagrangian")
POLICIES = ("paced", "optimistic", "zoo:sessions-v0", "informed-paced")


def marketplace(tasks: int) -> list[dict[str, Any]]:
    """Mean price, pass rate and return of each agent on the first test tasks."""
    env = costgym.make(NUMERIC, split="test", budget={"price": 30}, disable_env_checker=True)
    agents: dict[str, Agent] = {
        f"informed, credit at {multiplier:g}": ExpectedOptimumAgent(multiplier) for multiplier in MULTIPLIERS
    }
    rows: list[dict[str, Any]] = []
    for name, agent in (agents | {name: make_agent(name, NUMERIC) for name in LEARNERS}).items():
        played = [play(env, agent, number, 0) for number in env.unwrapped.numbers[:tasks]]  # type: ignore[attr-defined]
        prices, passed = (
            [episode.ledger.price for episode in played],
            [episode.grade is not None and episode.grade.strict for episode in played],
        )
        rows.append({"agent": name, "price": np.mean(prices), "pass_rate": np.mean(passed)})
        if name in LEARNERS:
            points = sorted((row["price"], row["pass_rate"]) for row in rows if row["agent"] in agents)
            rows[-1]["frontier"] = float(np.interp(rows[-1]["price"], *map(list, zip(*points, strict=True))))
        rows[-1] |= {key: round(float(value), 4) for key, value in rows[-1].items() if key != "agent"}
        print(rows[-1], flush=True)
    return rows


def sessions(count: int) -> list[dict[str, Any]]:
    """Mean price and value share of each policy and of the bound on the first test sessions, by the budget."""
    rows = []
    for share in SHARES:
        env = costgym.make(SESSION, split="test", budget_share=share, disable_env_checker=True)
        world = env.unwrapped
        numbers, bounds = world.numbers[:count], []  # type: ignore[attr-defined]
        for number in numbers:
            env.reset(seed=0, options={"task": number})
            bounds.append(world.optimum().quality / world.account().session.value.sum())  # type: ignore[attr-defined]
        row: dict[str, Any] = {"budget_share": share}
        for name in POLICIES:
            played = [play(env, make_agent(name, SESSION), number, 0) for number in numbers]
            row[name] = round(float(np.mean([episode.value_share for episode in played])), 4)
            row[f"{name}, price"] = round(float(np.mean([episode.ledger.price for episode in played])), 2)
        rows.append({**row, "bound": round(float(np.mean(bounds)), 4)})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=400, help="of the marketplace")
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    report = {"marketplace": marketplace(args.tasks), "sessions": sessions(args.sessions)}
    write_report({"tasks": args.tasks, "sessions_each": args.sessions, **report}, args.json, ("numpy", "gymnasium", "torch"))


if __name__ == "__main__":
    main()
