"""BTP and EcoAct with words and with MiniLM as similarity, on StableToolBench's solvable queries (extra `minilm`).

    python benchmarks/papers/similarity.py --data DIR --json benchmarks/results/similarity.json

BTP compares a query with past ones, which were played on the train half of DIR's queries. EcoAct compares no texts: its tools
are found by a retriever among those of all queries, as AnyTool finds them in the paper. Each test query is played in several
worlds, and differences are of the same tasks in the same worlds.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import costgym
from benchmarks.report import write_report
from benchmarks.retrieval import retrieval_quality
from costgym.agents.base import TEXT
from costgym.agents.btp.experience import Experience
from costgym.envs.registration import in_version
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import past_uses
from costgym.experiments.play.result_set import Results
from costgym.experiments.play.statistics import intervals
from costgym.simulators.scenario import Scenario, load_scenario

STRATEGIES = ("react", "dfsdt")
CANDIDATES = 20  # tools that EcoAct is offered
RESAMPLES = 2000
Row = dict[str, Any]


def played(scenario: Scenario, agent: str, budget: float | None, worlds: int) -> Results:
    """Play every test query in several worlds; the episodes of one query follow one another."""
    limits = {} if budget is None else {"price": budget}
    env = costgym.make(in_version(TEXT, scenario.world), scenario=scenario, split="test", budget=limits, grading="judge")
    return costgym.rollout(env, agent, episodes=worlds * len(scenario.build().tasks.numbers("test")))


def figures(results: Results) -> Row:
    summary = results.summary()
    names = ("pass_rate", "judged_pass_rate", "average_cost", "average_tokens")
    return {"episodes": len(results), **{name: [summary[name], *summary["ci95"][name]] for name in names}}


def difference(minilm: Results, words: Results, worlds: int) -> dict[str, list[float]]:
    """MiniLM less words: the mean and its 95 % interval over queries, of passes by the judge, price and tokens."""

    def values(results: Results) -> list[list[float]]:
        ordered = sorted(results, key=lambda one: (one.task, one.episode))
        return [[float(one.judged), one.price, float(one.tokens)] for one in ordered]

    pairs = np.array([values(minilm), values(words)])  # (2, episodes, figures)
    ends: dict[str, list[float]] = {}
    for number, name in enumerate(("judged_pass_rate", "average_cost", "average_tokens")):
        columns = pairs[:, :, number].T
        even = np.ones_like(columns)
        low, high = intervals(columns, even, range(len(columns)), 0, RESAMPLES, difference=True, group=worlds)
        ends[name] = [float(columns[:, 0].mean() - columns[:, 1].mean()), float(low[0]), float(high[0])]
    return ends


def retrieving(scenario: Scenario, retriever: str) -> Scenario:
    """A scenario whose tools on offer are found among those of all queries."""
    offered = {"candidates": {"from": "catalogue", "retriever": retriever, "k": CANDIDATES}}
    source = type(scenario.source).model_validate({**scenario.source.model_dump(), **offered})
    return scenario.model_copy(update={"source": source})


def seen_share(scenario: Scenario, past: Experience) -> float:
    """The share of the tools on offer in test tasks that have past uses."""
    world = scenario.build()
    used = {name for query in past.queries for name in query.uses}
    offered = [name in used for number in world.tasks.numbers("test") for name in world.tasks[number].candidates]
    return sum(offered) / len(offered)


def in_both(agents: Sequence[str], scenarios: Sequence[Scenario], budget: float | None, worlds: int) -> Row:
    """Play an agent with words and with MiniLM; the figures of both, and their difference."""
    words, minilm = [played(one, agent, budget, worlds) for agent, one in zip(agents, scenarios, strict=True)]
    ends = difference(minilm, words, worlds)
    return {"agent": agents[0], "words": figures(words), "minilm": figures(minilm), "minilm less words": ends}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a ToolBench or StableToolBench folder")
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--worlds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    scenario = load_scenario("toolbench", data=args.data)
    past = Experience.from_jsonl(past_uses(scenario, engine=Local(1)))
    rows = [
        in_both((f"{name}+btp", f"{name}+btp-minilm"), (scenario, scenario), args.budget, args.worlds) for name in STRATEGIES
    ]
    retrieving_scenarios = [retrieving(scenario, retriever) for retriever in ("bm25", "minilm")]
    rows += [in_both((f"{name}+ecoact",) * 2, retrieving_scenarios, None, args.worlds) for name in STRATEGIES]
    report = {
        "data": args.data.name, "budget": args.budget, "worlds": args.worlds, "candidates of ecoact": CANDIDATES,
        "past queries": len(past), "past uses": past.uses, "tools on offer with past uses": seen_share(scenario, past),
        "retrieval": retrieval_quality(scenario, ("bm25", "minilm"), (CANDIDATES,)), "rows": rows,
    }  # fmt: skip
    write_report(report, args.json, ("costgym", "transformers"))


if __name__ == "__main__":
    main()
