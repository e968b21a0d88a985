"""Fit the simulated model's rates to the papers' plain baselines, and sweep the rates that no baseline determines.

    python benchmarks/papers/fit.py --json benchmarks/results/fit.json
    python benchmarks/papers/fit.py --sweep --json benchmarks/results/sweep.json

A fit plays train tasks, a sweep test tasks. The rates that a fit finds are those that ship: a line says so if they are not.
`residual` counts the tolerances between a figure and its target.

Only agents that are no system under test are played, on train tasks and under BTP's published protocol. Each rate has a prior
(the log-odds of its value in `PRIOR`, with a standard deviation of `PRIOR_SD`); targets have tolerances. The fit is damped
Gauss-Newton: the targets' sensitivities to each rate are measured on the same episodes. A rate whose uncertainty the targets do
not reduce is not determined by them. Rates that only a system under test meets (`FREE`) are not fitted; `sweep` shows an effect
over their range.

The rates of `SimulatedRates` are what the fit finds, to three decimals. Other papers' plain baselines are no targets: EcoAct's
are another model's, GPT-4o, and ToolPlanner's are graded in ways of their own.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import TEXT
from costgym.agents.btp.experience import Experience
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.models.simulated import SimulatedRates, read_rates
from costgym.agents.registry import make_agent
from costgym.agents.toolplanner.simulated import SimulatedToolPlanner
from costgym.experiments.papers.btp import PROTOCOLS
from costgym.experiments.papers.paper import Protocol
from costgym.experiments.papers.playing import text_env
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.experience import past_uses
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.files import write_atomically
from costgym.simulators.marketplace.tasks import LARGE_SPLIT
from costgym.simulators.scenario import load_scenario

Floats = NDArray[np.float64]
BASELINES = ("react", "dfsdt", "tot-dfs")
BUDGET = 20.0
PRIOR_SD = 1.0
"""Standard deviation of a rate's log-odds around its value in `PRIOR`: a rate of 0.1 may well be 0.04 or 0.23."""
PRIOR = {
    "overlook": 0.03, "misunderstand": 0.11, "wrong_tool": 0.04, "crowding": 0.025, "misread": 0.02, "correct": 0.5,
    "invalid": 0.02, "invented": 0.015, "stubborn": 0.15, "grope": 0.95, "early": 0.04, "tire": 0.12, "give_up": 0.98,
    "give_up_empty": 0.76, "forget": 0.03, "wrong_vote": 0.15,
}  # fmt: skip
"""The rates at which a fit begins. They were set by hand before any fit, and stay constant so that a fit is repeatable."""
CEILINGS = {"wrong_vote": 0.5}
"""Highest values of rates that could otherwise leave what they mean: a vote is at worst a toss of a coin."""
DECIMALS = 3
"""Of the rates that ship."""
STEP = 0.5
"""Difference of log-odds by which sensitivities are measured."""
DETERMINED = 0.5
"""Share of a rate's prior variance that the targets must take away for the rate to count as determined."""
FREE = {
    "forbidden": "calls of tools that BTP has taken away",
    "attend_costs": "prices that `+prompt` tells",
    "notice": "documentation that EcoAct registers",
    "register_more": "registrations of several tools at once, an ablation of EcoAct",
    "skim": "misnamed tools, which only worlds with `misnamed` have",
    "search": "searches of the catalogue, which only worlds with a retriever have",
    "repeat": "writes that end without telling whether they took effect, which only worlds with writes have",
    "guess": "answers before any call, which the papers do not report",
    "thought": "counted in ToolBench's trees, and part of a protocol",
}
"""Rates that are not fitted, and what meets them."""


@dataclass(frozen=True, slots=True)
class Target:
    """A published figure of a plain baseline.

    Attributes:
        agent: the baseline.
        metric: "PR", "AC", "PBC" or "RFBC".
        value: as published, in percent or credits.
        tolerance: standard deviation that is granted, in the same unit.
        source: table of the paper.
    """

    agent: str
    metric: str
    value: float
    tolerance: float
    source: str = "BTP, Table 2, R = 20"


def _row(agent: str, pr: float, ac: float, pbc: float, rfbc: float) -> list[Target]:
    values = {"PR": (pr, 2.0), "AC": (ac, 0.1 * ac), "PBC": (pbc, 2.0), "RFBC": (rfbc, 3.0)}
    tables = {"PR": 3, "AC": 2, "PBC": 2, "RFBC": 3}
    return [Target(agent, metric, *value, f"BTP, Table {tables[metric]}, R = 20") for metric, value in values.items()]


TARGETS = tuple(
    _row("react", 44.0, 15.4, 34.1, 26.4) + _row("dfsdt", 63.8, 78.3, 28.8, 60.3) + _row("tot-dfs", 61.6, 51.4, 10.2, 86.3)
)

Measure = Callable[[SimulatedRates], Floats]
"""The targets' figures under some rates, in the order of the targets."""


def fitted_rates() -> list[str]:
    """Names of the rates that are fitted: those of `PRIOR`."""
    return [spec.name for spec in fields(SimulatedRates) if spec.name not in FREE]


def prior() -> SimulatedRates:
    """The rates at which a fit begins; those that are not fitted are as they ship."""
    return SimulatedRates(**PRIOR)


def measure(episodes: int, seed: int = 0, targets: Sequence[Target] = TARGETS) -> Measure:
    """Return what plays the baselines of the targets on so many tasks of `train-large` and returns their figures."""
    protocol = PROTOCOLS[0]
    scenario = protocol.scenario(load_scenario("marketplace"))
    agents = list(dict.fromkeys(target.agent for target in targets))
    thought = read_rates(protocol.model).thought

    def figures(rates: SimulatedRates) -> Floats:
        rates = replace(rates, thought=thought)
        figures_by_key: dict[tuple[str, str], float] = {}
        for name in agents:
            env = text_env(scenario, split=LARGE_SPLIT)
            agent = make_agent(name, model=SimulatedToolPlanner(rates), search=SearchSettings.chosen(protocol.search, name))
            results = [result for result, _ in play_many(env, agent, TEXT, range(episodes), seed)]
            figures_by_key.update({(name, metric): value for metric, value in table_figures(results).items()})
        return np.array([figures_by_key[target.agent, target.metric] for target in targets])

    return figures


def table_figures(results: Sequence[EpisodeResult], budget: float = BUDGET) -> dict[str, float]:
    """PR, AC, PBC and RFBC of a baseline, which neither sees the budget nor is stopped by it."""
    count = len(results)
    return {
        "PR": 100.0 * sum(result.judged for result in results) / count,
        "AC": sum(result.price for result in results) / count,
        "PBC": 100.0 * sum(result.judged and result.price <= budget for result in results) / count,
        "RFBC": 100.0 * sum(result.price > budget for result in results) / count,
    }


def fit(
    play: Measure,
    rates: SimulatedRates | None = None,
    targets: Sequence[Target] = TARGETS,
    names: Sequence[str] | None = None,
    rounds: int = 2,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Fit rates to targets.

    Args:
        play: measures the targets' figures; see `measure`.
        rates: where to begin, and the prior; `prior()` by default.
        targets: published figures.
        names: rates to fit; by default all that the baselines meet.
        rounds: measurements of all sensitivities, each with one step.
        progress: called with a line after every measurement.

    Returns:
        ``{"rates", "targets", "loss", "free"}``: rows of rates with `before`, `after` to three decimals and `determined`
        (share of the prior variance that the targets took away); rows of targets with the published `value`, `before`, `after`
        and `residual` in tolerances; the sum of squared residuals before and after.
    """
    chosen = list(names or fitted_rates())
    start = rates or prior()
    wanted = np.array([target.value for target in targets])
    scale = np.array([target.tolerance for target in targets])
    centre = np.array([_log_odds(getattr(start, name)) for name in chosen])
    ceiling = np.array([_log_odds(CEILINGS[name]) if name in CEILINGS else math.inf for name in chosen])
    at = centre.copy()

    def cost(figures: Floats, at: Floats) -> float:
        return _loss(figures, wanted, scale) + float((((at - centre) / PRIOR_SD) ** 2).sum())

    say = progress or (lambda line: None)
    first = best = play(start)
    information = np.zeros((len(chosen), len(chosen)))
    say(f"start: {_loss(best, wanted, scale):.1f}")
    for number in range(rounds):
        columns = []
        for index, name in enumerate(chosen):
            moved = at.copy()
            moved[index] += STEP if at[index] < 0 else -STEP
            columns.append((play(_rates(start, chosen, moved)) - best) / scale / (moved[index] - at[index]))
            say(f"round {number + 1}, {name}")
        slopes = np.array(columns).T  # (targets, rates)
        information = slopes.T @ slopes
        pull = slopes.T @ ((wanted - best) / scale) - (at - centre) / PRIOR_SD**2
        step = np.linalg.solve(information + np.eye(len(chosen)) / PRIOR_SD**2, pull)
        for damping in (1.0, 0.5, 0.25):
            tried = np.minimum(at + damping * np.clip(step, -1.5, 1.5), ceiling)
            figures = play(_rates(start, chosen, tried))
            say(f"round {number + 1}, step {damping:g}: {_loss(figures, wanted, scale):.1f}")
            if cost(figures, tried) < cost(best, at):
                best, at = figures, tried
                break
        else:
            break
    covariance = np.linalg.inv(information + np.eye(len(chosen)) / PRIOR_SD**2)
    after = _rates(start, chosen, at)
    return {
        "rates": [
            {
                "rate": name,
                "before": getattr(start, name),
                "after": getattr(after, name),
                "determined": float(1.0 - covariance[index, index] / PRIOR_SD**2),
            }
            for index, name in enumerate(chosen)
        ],
        "targets": [
            {
                **asdict(target),
                "before": float(first[n]),
                "after": float(best[n]),
                "residual": float((best - wanted)[n] / scale[n]),
            }
            for n, target in enumerate(targets)
        ],
        "loss": {"before": _loss(first, wanted, scale), "after": _loss(best, wanted, scale)},
        "free": FREE,
    }


def sweep(
    rate: str,
    values: Sequence[float],
    episodes: int,
    seed: int = 0,
    scenario: Mapping[str, Any] | None = None,
    agents: Sequence[str] = ("react", "react+ecoact"),
    search: SearchSettings | None = None,
    protocol: Protocol | None = None,
) -> list[dict[str, Any]]:
    """Play two agents over the range of a rate that no target determines.

    Args:
        rate: name of the rate.
        values: its values.
        episodes: number of test tasks.
        seed: seed of the worlds.
        scenario: what differs from the default world.
        agents: the plain one and the one under test.
        search: limits of both.
        protocol: gives world, limits, past uses, BTP's settings and the other rates, instead of `scenario` and `search`.

    Returns:
        Rows with `value` and, for the second agent less the first, `PR`, `PBC` and `PBC_strict` in points, `cost` and `tokens`
        as relative changes.
    """
    document: Any = {"extends": "marketplace", "name": "sweep", **(scenario or {})}
    start = SimulatedRates()
    settings: dict[str, Any] = {"search": search}
    if protocol is not None:
        document, start = protocol.scenario(load_scenario("marketplace")), read_rates(protocol.model)
        settings = {
            "search": SearchSettings.chosen(protocol.search, agents[0]),
            "btp": BtpSettings(**protocol.btp),
            "experience": Experience.from_jsonl(past_uses(document, protocol.experience)),
        }
    rows = []
    for value in values:
        rates = replace(start, **{rate: value})
        sums = []
        for name in agents:
            env = text_env(document, budget={"price": BUDGET})
            agent = make_agent(name, model=SimulatedToolPlanner(rates), **settings)
            results = [result for result, _ in play_many(env, agent, TEXT, range(episodes), seed)]
            strict = 100.0 * sum(result.strict and result.price <= BUDGET for result in results) / episodes
            tokens = sum(result.tokens for result in results) / episodes
            sums.append({**table_figures(results), "PBC_strict": strict, "tokens": tokens})
        plain, ours = sums
        points = {metric: ours[metric] - plain[metric] for metric in ("PR", "PBC", "PBC_strict")}
        changes = {
            name: ours[key] / plain[key] - 1.0 if plain[key] else 0.0 for name, key in (("cost", "AC"), ("tokens", "tokens"))
        }
        rows.append({"rate": rate, "value": value, **points, **changes})
    return rows


def _loss(figures: Floats, wanted: Floats, scale: Floats) -> float:
    return float((((figures - wanted) / scale) ** 2).sum())


def _log_odds(rate: float) -> float:
    inside = min(max(rate, 1e-3), 1.0 - 1e-3)
    return math.log(inside / (1.0 - inside))


def _rates(start: SimulatedRates, names: Sequence[str], log_odds: Floats) -> SimulatedRates:
    values = {name: round(1.0 / (1.0 + math.exp(-odds)), DECIMALS) for name, odds in zip(names, log_odds.tolist(), strict=True)}
    return replace(start, **values)


# -- the command ----------------------------------------------------------------------------------------------------


MANY = {"source": {"candidates": [21, 64]}}
BTP: dict[str, Any] = {"agents": ("react", "react+btp"), "protocol": PROTOCOLS[0]}
SWEPT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("attend_costs", {"agents": ("react", "react+prompt")}),
    ("attend_costs", BTP),
    ("forbidden", BTP),
    ("notice", {"scenario": MANY, "search": SearchSettings(depth=24)}),
    (
        "register_more",
        {"scenario": MANY, "search": SearchSettings(depth=24), "agents": ("react+ecoact", "react+ecoact-several")},
    ),
    ("skim", {"scenario": {"source": {"candidates": [21, 64], "misnamed": 0.3}}, "search": SearchSettings(depth=24)}),
    (
        "search",
        {
            "scenario": {"source": {"candidates": {"from": "catalogue", "retriever": "bm25", "k": 5}}},
            "agents": ("react", "react+search"),
        },
    ),
)
"""Where each free rate is met."""
VALUES = (0.0, 0.25, 0.5, 0.75, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000, help="of each agent at every measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--only", choices=sorted({rate for rate, _ in SWEPT}), help="Sweep this rate alone.")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    document: dict[str, Any] = {"episodes": args.episodes, "seed": args.seed}
    if args.sweep:
        document["sweeps"] = []
        for rate, settings in SWEPT:
            if args.only not in (None, rate):
                continue
            rows = sweep(rate, VALUES, args.episodes, args.seed, **settings)
            agents = settings.get("agents", ("react", "react+ecoact"))
            document["sweeps"].append({"rate": rate, "agents": agents, "rows": rows})
            print(f"{agents[1]} less {agents[0]}")
            for row in rows:
                points = f"PR {row['PR']:+.1f}, PBC {row['PBC']:+.1f}, strict {row['PBC_strict']:+.1f}"
                shown = f"{points}, cost {row['cost']:+.1%}, tokens {row['tokens']:+.1%}"
                print(f"{rate} {row['value']:g}: {shown}", flush=True)
    else:
        report = fit(
            measure(args.episodes, args.seed),
            rounds=args.rounds,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
        document.update(report)
        for row in report["targets"]:
            figures = f"published {row['value']:.1f}, before {row['before']:.1f}, after {row['after']:.1f}"
            print(f"{row['agent']} {row['metric']}: {figures}, residual {row['residual']:+.1f}")
        for row in report["rates"]:
            held = "" if row["determined"] >= DETERMINED else ", no target determines it"
            print(f"{row['rate']}: {row['before']:.3f} -> {row['after']:.3f} ({row['determined']:.2f}{held})")
        print(f"sum of squared residuals: {report['loss']['before']:.1f} -> {report['loss']['after']:.1f}")
        ships = SimulatedRates()
        differ = [row["rate"] for row in report["rates"] if row["after"] != getattr(ships, row["rate"])]
        if differ:
            print(f"other rates ship of: {', '.join(differ)}", file=sys.stderr)
    if args.json is not None:
        write_atomically(args.json, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
