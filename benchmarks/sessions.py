"""Play the references of sessions on the same test sessions, with intervals, and the parts of `optimistic` switched off.

    python benchmarks/sessions.py --sessions 300 --json benchmarks/results/sessions.json
    python benchmarks/sessions.py --split train --sessions 1500 --agents "optimistic,optimistic without exploration"
    python benchmarks/sessions.py --split valid --sessions 100 --settings '{"concurrent": true}' --agents optimistic,hedged
    python benchmarks/sessions.py --split valid --agents "zoo:sessions-v0,zoo:sessions-v0 asking again"
    python benchmarks/sessions.py --words --sessions 30 --agents react,react+btp,react+ecoact

Every agent plays every session once, under seed 0, so that all meet the same tools, regimes, outages and luck. Figures are
shares of the value of all queries; in brackets the share of calls that were refused, and the tokens of a session. `LP bound`
is the mean of `value_bound`, which no policy passes on average.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION, SESSION_CHAT, Agent
from costgym.agents.registry import run_folder
from costgym.agents.sessions.learnt import SessionAgent
from costgym.agents.sessions.policies import OPTIMISM, Hedged, IndexPolicy
from costgym.experiments.play.episodes import play

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


class AskingAgain(SessionAgent):
    """A learnt policy that may ask a tool again which has refused a call; no refusal comes to its notice."""

    def act(self, observation: dict[str, Any], info: dict[str, Any]) -> int:
        return super().act(observation, {**info, "status": 0})


# `hedged` and its patience, where calls may run side by side: only on request, and tuned on `valid`
LEARNT: dict[str, Callable[[], Agent]] = {
    "zoo:sessions-v0": lambda: make_agent("zoo:sessions-v0", SESSION),
    "zoo:sessions-v0 asking again": lambda: AskingAgain(run_folder("zoo:sessions-v0")),
}
HEDGED: dict[str, Callable[[], Agent]] = {
    "hedged": Hedged,
    **{f"hedged {patience:g}": partial(Hedged, patience) for patience in (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)},
}
SPOKEN = "cheapest,react,react+btp,react+ecoact,react+ecoact+btp,dfsdt,dfsdt+btp,dfsdt+ecoact"
PAIRS = (
    ("bayes-index", "greedy"), ("paced", "bayes-index"), ("optimistic", "paced"), ("informed-paced", "optimistic"),
    ("informed-paced", "paced"), ("LP bound", "informed-paced"), *(("optimistic", name) for name in WITHOUT),
    *((name, "optimistic") for name in HEDGED), ("hedged", "paced"), ("zoo:sessions-v0", "zoo:sessions-v0 asking again"),
    *((name, "react") for name in SPOKEN.split(",")[2:]), ("dfsdt+btp", "react+btp"),
)  # fmt: skip
Shares = NDArray[np.float64]


def shares(agent: Agent, env: Any, sessions: int) -> tuple[Shares, float, float]:
    """The value share of each session, the share of all calls that were refused, and the mean tokens of a session."""
    values, attempts, refused, tokens = [], 0, 0, 0
    for number in env.unwrapped.numbers[:sessions]:
        episode: Any = play(env, agent, number, 0)
        values.append(episode.value_share)
        attempts, refused = attempts + len(episode.calls), refused + sum(not call.k for call in episode.calls)
        tokens += episode.ledger.tokens
    return np.array(values), refused / max(1, attempts), tokens / sessions


def bounds(env: Any, sessions: int) -> Shares:
    """The bound of each session, as a share of the value of all its queries."""
    bounds_found = []
    for number in env.unwrapped.numbers[:sessions]:
        env.reset(seed=0, options={"task": number})
        world = env.unwrapped
        bounds_found.append(world.optimum().quality / world.account().session.value.sum())
    return np.array(bounds_found)


def half(values: Shares) -> float:
    """Half of the 95 % interval of the mean."""
    return float(1.96 * values.std(ddof=1) / len(values) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--split", default="test", help="sessions that are played; tuning is done on valid")
    parser.add_argument("--agents", help="some of them, without the bound", metavar="A,B,...")
    parser.add_argument("--words", action="store_true", help=f"play {SESSION_CHAT}, with the simulated model")
    parser.add_argument("--settings", default="{}", help="arguments of the environment, as JSON")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    env_id = SESSION_CHAT if args.words else SESSION
    env = costgym.make(env_id, split=args.split, disable_env_checker=True, **json.loads(args.settings))
    makers: dict[str, Callable[[], Agent]] = {name: (lambda name=name: make_agent(name, SESSION)) for name in LADDER}  # type: ignore[misc]
    by_agent: dict[str, Shares] = {}
    spent: dict[str, list[float]] = {}
    chosen, known = {**makers, **WITHOUT}, {**makers, **WITHOUT, **HEDGED, **LEARNT}
    if args.agents is not None or args.words:
        named = (args.agents or SPOKEN).split(",")
        chosen = {name: partial(make_agent, name, env_id) if args.words else known[name] for name in named}
    for name, make in chosen.items():
        by_agent[name], *spent[name] = shares(make(), env, args.sessions)
        refused, tokens = spent[name]
        print(
            f"{name:36} {by_agent[name].mean():.4f} ± {half(by_agent[name]):.4f} ({refused:.3f}, {tokens:,.0f})",
            flush=True,
        )
    if args.agents is None and not args.words:
        by_agent["LP bound"] = bounds(env, args.sessions)
        print(f"{'LP bound':36} {by_agent['LP bound'].mean():.4f} ± {half(by_agent['LP bound']):.4f}", flush=True)
    gaps = []
    for high, low in (pair for pair in PAIRS if by_agent.keys() >= set(pair)):
        gap = by_agent[high] - by_agent[low]
        gaps.append({"high": high, "low": low, "gap": float(gap.mean()), "half": half(gap)})
        print(f"{high} - {low}: {gap.mean():+.4f} ± {half(gap):.4f}", flush=True)
    rows = [
        {"agent": name, "value_share": float(values.mean()), "half": half(values)}
        | dict(zip(("refused", "tokens"), spent.get(name, ()), strict=False))
        for name, values in by_agent.items()
    ]
    report = {"sessions": args.sessions, "split": args.split, "settings": json.loads(args.settings)}
    write_report({**report, "rows": rows, "gaps": gaps}, args.json, ("numpy", "gymnasium"))


if __name__ == "__main__":
    main()
