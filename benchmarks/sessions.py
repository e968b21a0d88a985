"""Play the references of sessions on the same test sessions, with intervals, and the parts of `optimistic` switched off.

    python benchmarks/sessions.py --sessions 300 --json benchmarks/results/sessions.json
    python benchmarks/sessions.py --split train --sessions 1500 --agents "optimistic,optimistic without exploration"

Every agent plays every session once, under seed 0, so that all meet the same tools, regimes, outages and luck. Figures are
shares of the value of all queries. `LP bound` is the mean of `value_bound`, which no policy passes on average.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION, Agent
from costgym.agents.sessions.policies import OPTIMISM, IndexPolicy
from costgym.experiments.play.rollout import play

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report

LADDER = (
    "do-nothing", "random", "greedy", "bayes-index", "bayes-memory", "thompson", "paced", "optimistic", "informed-paced",
)  # fmt: skip
WITHOUT: dict[str, Callable[[], Agent]] = {
    "optimistic without pacing": lambda: IndexPolicy("unpaced", memory=True, paced=False, optimism=OPTIMISM),
    "optimistic without memory of tools": lambda: IndexPolicy("forgetful", memory=False, paced=True, optimism=OPTIMISM),
    "optimistic without exploration": lambda: IndexPolicy("certain", memory=True, paced=True),
    "optimistic without memory of facts": lambda: IndexPolicy("no facts", True, True, OPTIMISM, recalls=False),
}
PAIRS = (
    ("bayes-index", "greedy"), ("paced", "bayes-index"), ("optimistic", "paced"), ("informed-paced", "optimistic"),
    ("informed-paced", "paced"), ("LP bound", "informed-paced"), *(("optimistic", name) for name in WITHOUT),
)  # fmt: skip
Shares = NDArray[np.float64]


def shares(agent: Agent, env: Any, sessions: int) -> Shares:
    """The value share of each session."""
    return np.array([play(env, agent, number, 0).value_share for number in env.unwrapped.numbers[:sessions]])  # type: ignore[attr-defined]


def bounds(env: Any, sessions: int) -> Shares:
    """The bound of each session, as a share of the value of all its queries."""
    found = []
    for number in env.unwrapped.numbers[:sessions]:
        env.reset(seed=0, options={"task": number})
        world = env.unwrapped
        found.append(world.optimum().quality / world.account().session.value.sum())
    return np.array(found)


def half(values: Shares) -> float:
    """Half of the 95 % interval of the mean."""
    return float(1.96 * values.std(ddof=1) / len(values) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--split", default="test", help="sessions that are played; tuning is done on valid")
    parser.add_argument("--agents", help="some of them, without the bound", metavar="A,B,...")
    parser.add_argument("--settings", default="{}", help="arguments of the environment, as JSON")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    env = costgym.make(SESSION, split=given.split, disable_env_checker=True, **json.loads(given.settings))
    makers: dict[str, Callable[[], Agent]] = {name: (lambda name=name: make_agent(name, SESSION)) for name in LADDER}  # type: ignore[misc]
    found: dict[str, Shares] = {}
    chosen = {**makers, **WITHOUT} if given.agents is None else {n: {**makers, **WITHOUT}[n] for n in given.agents.split(",")}
    for name, make in chosen.items():
        found[name] = shares(make(), env, given.sessions)
        print(f"{name:36} {found[name].mean():.4f} ± {half(found[name]):.4f}", flush=True)
    if given.agents is None:
        found["LP bound"] = bounds(env, given.sessions)
        print(f"{'LP bound':36} {found['LP bound'].mean():.4f} ± {half(found['LP bound']):.4f}", flush=True)
    gaps = []
    for high, low in (pair for pair in PAIRS if found.keys() >= set(pair)):
        gap = found[high] - found[low]
        gaps.append({"high": high, "low": low, "gap": float(gap.mean()), "half": half(gap)})
        print(f"{high} - {low}: {gap.mean():+.4f} ± {half(gap):.4f}", flush=True)
    rows = [{"agent": name, "value_share": float(values.mean()), "half": half(values)} for name, values in found.items()]
    report = {"sessions": given.sessions, "split": given.split, "settings": json.loads(given.settings)}
    write_report({**report, "rows": rows, "gaps": gaps}, given.json, ("numpy", "gymnasium"))


if __name__ == "__main__":
    main()
