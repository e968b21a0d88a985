"""Play the ladder of references of `MarketplaceSession-v1` on the same sessions, with paired intervals, level by level.

    python benchmarks/session_ladder.py --split valid --sessions 300
    python benchmarks/session_ladder.py --split test --sessions 300 --json benchmarks/results/session_ladder.json
    python benchmarks/session_ladder.py --split valid --sessions 300 --returns costgym/envs/reference_returns.json
    python benchmarks/session_ladder.py --tune --levels medium --sessions 300
    python benchmarks/session_ladder.py --beside --split test --json benchmarks/results/session_ladder_beside.json
    python benchmarks/session_ladder.py --causes --split valid --json benchmarks/results/session_ladder_causes.json

A level holds where each step of do-nothing, greedy, paced, tuned, informed is larger than nothing with an interval of 95 % over
pairs. Every agent plays every session once, under seed 0. Figures are shares of the value of all queries; `--json` also holds
the mean returns that `costgym.normalized_score` takes. `--tune` plays a grid of the constants of `tuned` on `train`. The
extreme level plays a tenth of the sessions.

`--beside` plays beside `tuned` what is newer than the frozen ladder: `hedged`, whose calls run side by side; the planner over
honest forks, on `--planned` sessions of the levels medium and hard; and `declining`, the best of 95 rules that were drawn from
a wider space of constants and compared on up to 960 sessions of `train`. It also computes the tighter bound.

`--causes` says what keeps `informed` below the bound: it plays the same sessions under the same limits where one cause is taken
away, the limit on seconds, deaths of facts, or outages, and where all three are.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION, SESSION_1, Agent
from costgym.agents.sessions.planning import Planner
from costgym.agents.sessions.policies import IndexPolicy
from costgym.experiments.play.episodes import play
from costgym.simulators.sessions.informed import value_bound
from costgym.simulators.sessions.tighter_bound import tighter_bound

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report
from benchmarks.sessions import half

STEPS = ("do-nothing", "greedy", "paced", "tuned", "informed")
BESIDE = ("random", "bayes-index", "optimistic", "informed-paced")
GRID = {"optimism": (0.5, 1.0, 1.5), "bought": (0.5, 0.65, 0.8), "later": (0.0, 0.5, 1.0)}
EXTREME = 10  # times fewer sessions
PLANNED = ("medium", "hard")  # levels of the planner
NEVER_S = 1e9
CAUSES: dict[str, tuple[dict[str, float], bool]] = {
    "none": ({}, True),
    "limit on seconds": ({}, False),
    "deaths of facts": ({"ttl_s": NEVER_S}, True),
    "outages": ({"outage_every_s": NEVER_S}, True),
    "all three": ({"ttl_s": NEVER_S, "outage_every_s": NEVER_S}, False),
}
"""By the cause that is removed: arguments of the environment, and whether the limit on seconds still holds."""
Shares = NDArray[np.float64]


def values(agent: Agent, env: Any, sessions: int) -> Shares:
    """(S, 2) share of the value, and value, of each session."""
    played: list[Any] = [play(env, agent, number, 0) for number in env.unwrapped.numbers[:sessions]]
    return np.array([(episode.value_share, episode.value) for episode in played])


def bounds(env: Any, sessions: int) -> Shares:
    """The same of the bound that no policy passes on average."""
    limits = []
    for number in env.unwrapped.numbers[:sessions]:
        env.reset(seed=0, options={"task": number})
        bound = env.unwrapped.optimum().quality
        limits.append((bound / env.unwrapped.account().session.value.sum(), bound))
    return np.array(limits)


def ladder(level: str, split: str, sessions: int) -> dict[str, Any]:
    """Play all references at a level."""
    env = costgym.make("costgym/MarketplaceSession-v1", level=level, split=split, disable_env_checker=True)
    by_agent: dict[str, Shares] = {}
    for name in (*STEPS, *BESIDE):
        begin = time.process_time()
        by_agent[name] = values(make_agent(name, SESSION), env, sessions)
        each_s = (time.process_time() - begin) / sessions
        share = by_agent[name][:, 0]
        print(f"{level:8} {name:16} {share.mean():.4f} ± {half(share):.4f}  {each_s:.3f} s", flush=True)
    by_agent["bound"] = bounds(env, sessions)
    print(
        f"{level:8} {'bound':16} {by_agent['bound'][:, 0].mean():.4f} ± {half(by_agent['bound'][:, 0]):.4f}",
        flush=True,
    )
    gaps = []
    for low, high in (
        *itertools.pairwise(STEPS),
        ("optimistic", "tuned"),
        ("informed-paced", "informed"),
        ("informed", "bound"),
    ):
        gap = by_agent[high][:, 0] - by_agent[low][:, 0]
        gaps.append({"low": low, "high": high, "gap": float(gap.mean()), "half": half(gap)})
        print(f"{level:8} {high} - {low}: {gap.mean():+.4f} ± {half(gap):.4f}", flush=True)
    holds = all(gap["gap"] > gap["half"] for gap in gaps[: len(STEPS) - 1])
    print(f"{level:8} {'holds' if holds else 'DOES NOT HOLD'}", flush=True)
    rows = [
        {"agent": name, "value_share": float(of[:, 0].mean()), "half": half(of[:, 0]), "return": float(of[:, 1].mean())}
        for name, of in by_agent.items()
    ]
    return {"level": level, "sessions": sessions, "holds": holds, "rows": rows, "gaps": gaps}


class Declining(IndexPolicy):
    """`tuned` with other constants, whose optimism falls to nothing as the session ends."""

    def __init__(self) -> None:
        super().__init__("declining", memory=True, paced=True, optimism=0.86, bought=0.89, later=1.0)

    def _enter(self, number: int, prices: NDArray[np.float64], tools: NDArray[np.float32], info: dict[str, Any]) -> None:
        self.optimism = 0.86 * (1.0 - number / self._rules.queries)
        super()._enter(number, prices, tools, info)


def tight_shares(env: Any, number: int) -> tuple[float, float]:
    """Begin a session; return the tighter bound and the bound as shares of its value."""
    env.reset(seed=0, options={"task": number})
    episode = env.unwrapped.account()
    limits = [np.inf if limit is None else limit for limit in (episode.budget.price, episode.budget.seconds)]
    session, usual = episode.session, [tool.usual for tool in episode.tools]
    worth = session.value.sum()
    return tighter_bound(session, *limits, usual) / worth, value_bound(session, *limits) / worth


def causes(level: str, split: str, sessions: int) -> dict[str, Any]:
    """Play `informed` at a level where causes of its distance from the bound are taken away, and compute the tighter bound."""
    settings = {"level": level, "split": split, "disable_env_checker": True}
    whole: Any = costgym.make(SESSION_1, **settings).unwrapped
    shares: dict[str, list[tuple[float, float]]] = {cause: [] for cause in CAUSES}
    for number in whole.numbers[:sessions]:
        whole.reset(seed=0, options={"task": number})
        limits = whole.account().budget
        for cause, (arguments, holds) in CAUSES.items():
            budget = {"price": limits.price} | ({"seconds": limits.seconds} if holds else {})
            env: Any = costgym.make(SESSION_1, budget=budget, **settings, **arguments)
            played: Any = play(env, make_agent("informed", SESSION_1), number, 0)
            shares[cause].append((played.value_share, tight_shares(env, number)[0]))
    rows = []
    for cause, both in shares.items():
        earned, bound = np.array(both).T
        more = earned - np.array(shares["none"])[:, 0]
        rows.append({"without": cause, "value_share": float(earned.mean()), "half": half(earned)})
        rows[-1] |= {"more": float(more.mean()), "half_more": half(more)}
        rows[-1] |= {"below_tighter_bound": float((bound - earned).mean()), "half_below": half(bound - earned)}
        print(f"{level:8} without {cause:16} {earned.mean():.4f}  {more.mean():+.4f} ± {half(more):.4f}", flush=True)
    return {"level": level, "sessions": sessions, "rows": rows}


def beside(level: str, split: str, sessions: int, planned: int = 50) -> dict[str, Any]:
    """Play at a level what the ladder does not hold, beside `tuned`, and compute the tighter bound."""
    settings = {"level": level, "split": split, "disable_env_checker": True}
    env, overlapping = (costgym.make(SESSION_1, concurrent=which, **settings) for which in (False, True))
    plans = {"planner": (Planner(env.unwrapped), env, min(planned, sessions))} if level in PLANNED and planned else {}
    base = values(make_agent("tuned", SESSION_1), env, sessions)[:, 0]
    rows = []
    for name, (agent, world, count) in {
        "hedged": (make_agent("hedged", SESSION_1), overlapping, sessions),
        "declining": (Declining(), env, sessions),
        **plans,
    }.items():
        share = values(agent, world, count)[:, 0]
        above = share - base[:count]
        rows.append({"agent": name, "sessions": count, "value_share": float(share.mean()), "half": half(share)})
        rows[-1] |= {"above_tuned": float(above.mean()), "half_above": half(above)}
        print(
            f"{level:8} {name:16} {share.mean():.4f} ± {half(share):.4f}  {above.mean():+.4f} ± {half(above):.4f}", flush=True
        )
    tight = np.array([tight_shares(env, number) for number in env.unwrapped.numbers[:sessions]])  # type: ignore[attr-defined]
    share, closed = tight[:, 0], tight[:, 1] - tight[:, 0]
    print(f"{level:8} {'tighter bound':16} {share.mean():.4f} ± {half(share):.4f}  {-closed.mean():+.4f} ± {half(closed):.4f}")
    rows.append({"agent": "tighter bound", "sessions": sessions, "value_share": float(share.mean()), "half": half(share)})
    rows[-1] |= {"below_bound": float(closed.mean()), "half_below": half(closed)}
    return {"level": level, "rows": rows}


def tune(level: str, sessions: int) -> dict[str, Any]:
    """Play a grid of the constants of `tuned` at a level, on `train`."""
    env = costgym.make("costgym/MarketplaceSession-v1", level=level, split="train", disable_env_checker=True)
    rows = []
    for chosen in itertools.product(*GRID.values()):
        constants = dict(zip(GRID, chosen, strict=True))
        share = values(IndexPolicy("tuned", memory=True, paced=True, **constants), env, sessions)[:, 0]
        rows.append({**constants, "value_share": float(share.mean()), "half": half(share)})
        print(f"{level:8} {constants} {share.mean():.4f} ± {half(share):.4f}", flush=True)
    return {"level": level, "sessions": sessions, "rows": rows, "best": max(rows, key=lambda row: row["value_share"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--levels", default="easy,medium,hard,extreme", metavar="A,B,...")
    parser.add_argument("--split", default="valid", help="sessions that are played; levels are accepted on valid")
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--tune", action="store_true", help="play the grid of constants instead")
    parser.add_argument("--beside", action="store_true", help="play what the ladder does not hold, beside tuned")
    parser.add_argument("--causes", action="store_true", help="play informed where causes of its gap are taken away")
    parser.add_argument("--planned", type=int, default=50, help="sessions of the planner")
    parser.add_argument("--returns", type=Path, help="write the mean returns by environment and agent, for normalized_score")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    wanted = "causes" if options.causes else "beside" if options.beside else "ladder"
    play_level = {"causes": causes, "beside": partial(beside, planned=options.planned), "ladder": ladder}[wanted]
    levels = [
        (tune(level, count) if options.tune else play_level(level, options.split, count))
        for level in options.levels.split(",")
        for count in [max(2, options.sessions // (EXTREME if level == "extreme" else 1))]
    ]
    if options.returns is not None:
        by_level = {level["level"]: {row["agent"]: round(row["return"], 3) for row in level["rows"]} for level in levels}
        by_id = {env_id: by_level[level] for env_id, level in costgym.LEVEL_IDS.items() if level in by_level}
        if "medium" in by_level:
            by_id["costgym/MarketplaceSession-v1"] = by_level["medium"]
        options.returns.write_text(json.dumps(by_id, indent=1) + "\n", encoding="utf-8")
    report = {"split": "train" if options.tune else options.split, "levels": levels}
    write_report(report, options.json, ("numpy", "gymnasium"))


if __name__ == "__main__":
    main()
