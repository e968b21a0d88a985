"""What a small language model learnt, and whether the simulated one predicted its effects.

    python benchmarks/learning/smallmodel.py --boards base=runs/base sft=runs/sft-board grpo=runs/grpo-board \\
        simulated=runs/simulated --curve runs/grpo --json benchmarks/results/smallmodel.json

The boards are runs of `costgym leaderboard --suite small` with the model named and with the simulated one (docs/smallmodel.md),
or folders of collections made by `costgym collect`, one an agent.
Writes as JSON: rows with their intervals, how the episodes of `react` ended, what training changed, and each agent less
`react` with the same model. Differences are paired, over episodes that both have played;
a board that is not finished is read as far as it is.
"""

import argparse
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from costgym.agents.base import TEXT
from costgym.envs.actions import FINISH
from costgym.envs.base import base_env
from costgym.envs.registration import make
from costgym.experiments.board.run_log import EPISODES
from costgym.experiments.play.episodes import AgentInfo, result_of
from costgym.experiments.play.metrics import RESAMPLES, paired_difference, summarise
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.statistics import intervals
from costgym.experiments.play.trajectories.format import read_trajectories
from costgym.experiments.play.trajectories.replay import replay_episode
from costgym.experiments.train.run import read_curve
from costgym.simulators.files import iter_lines, write_atomically

FIGURES = ("pass_rate_under_budget", "judged_pass_rate_under_budget", "average_cost", "cost_per_success", "agent_error_rate")
PLAIN = "react"

_INVALID = {"malformed", "unknown_tool", "invalid_arguments"}

Played = dict[str, list[EpisodeResult]]


def read_board(folder: Path) -> Played:
    """The text episodes of a board, or of the collections in a folder, by agent."""
    results: Played = {}
    for path in sorted(folder.glob("*/trajectories.jsonl")):
        header, episodes = read_trajectories(path)
        env = header.make()
        for recorded in episodes:
            replay_episode(env, recorded)
            about = AgentInfo(recorded.agent, recorded.model), header.env, recorded.episode
            results.setdefault(recorded.agent, []).append(result_of(base_env(env), *about))
    if results:
        return results
    for line in iter_lines(folder / EPISODES):
        result = EpisodeResult.from_json(line)
        if result.env.startswith("costgym/MarketplaceChat"):
            results.setdefault(result.agent, []).append(result)
    return results


def rows_of(boards: dict[str, Played]) -> list[dict[str, Any]]:
    """Figures of each agent with each model; `ci95` holds their intervals."""
    rows = []
    for model, played in boards.items():
        for agent, results in played.items():
            row = summarise(results)
            chosen = {name: row[name] for name in FIGURES}
            ends = {name: row["ci95"].get(name) for name in FIGURES} | {"valid_calls": valid_calls(results)[1]}
            named = {"model": model, "agent": agent, "episodes": row["episodes"]}
            rows.append({**named, **chosen, "valid_calls": valid_calls(results)[0], "ci95": ends})
    return rows


def valid_calls(results: list[EpisodeResult]) -> tuple[float | None, list[float] | None]:
    """Share of the calls that can be read, name a tool on offer and hold arguments of its form; its bootstrap interval."""
    made = np.array([[result.attempts] for result in results], float)
    if not made.sum():
        return None, None
    wrong = np.array([[sum(result.errors_by_status.get(name, 0) for name in _INVALID)] for result in results], float)
    low, high = intervals(made - wrong, made, [result.episode for result in results], 0, RESAMPLES)
    return 1 - float(wrong.sum() / made.sum()), [float(low[0]), float(high[0])]


def ends_of(folder: Path) -> dict[str, int]:
    """How many episodes of `react` ended in which way; those that failed count once, where the first way fits."""
    world = base_env(make(TEXT, scenario="marketplace-small", split="test", disable_env_checker=True)).world
    endings: Counter[str] = Counter()
    for path in folder.glob(f"trajectories/text/{PLAIN}.*.jsonl"):
        for line in itertools.islice(iter_lines(path), 1, None):  # the header stands first
            played = json.loads(line)
            statuses = {call[1] for call in played["calls"]}
            helped = {call[0] for call in played["calls"] if call[5]}
            ways = {
                "passed": played["final"]["strict"],
                "never answered": not any(_named(action) == FINISH for action in played["actions"]),
                "found the facts, answered wrongly": len(helped) >= len(world.tasks[played["number"]].needs),
                "ran out of budget": "over_budget" in statuses,
                "made invalid calls, then answered too early": bool(statuses & _INVALID),
            }
            endings[next((way for way, so in ways.items() if so), "answered too early")] += 1
    return dict(endings)


def _named(action: str) -> str:
    try:
        return str(json.loads(action)["name"])
    except (ValueError, KeyError, TypeError):
        return ""


def difference(name: str, a: list[EpisodeResult], b: list[EpisodeResult]) -> dict[str, Any]:
    """Every figure of `a` less that of `b`, with its paired interval."""
    gains = {metric: paired_difference(a, b, metric) for metric in FIGURES if metric != "cost_per_success"}
    return {
        "of": name,
        "episodes": next(iter(gains.values())).episodes,
        **{metric: [gain.difference, *gain.ci95] for metric, gain in gains.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", nargs="+", required=True, metavar="MODEL=RUN", help="in the order of training")
    parser.add_argument("--curve", type=Path, help="a run of `costgym train grpo`")
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    folders = {name: Path(folder) for name, _, folder in (text.partition("=") for text in args.boards)}
    boards = {name: read_board(folder) for name, folder in folders.items()}
    trained = [(name, played[PLAIN]) for name, played in boards.items() if name != "simulated" and PLAIN in played]
    document: dict[str, Any] = {
        "rows": rows_of(boards),
        "ends": {name: endings for name, folder in folders.items() if (endings := ends_of(folder))},
        "training": [difference(f"{after} less {before}", b, a) for (before, a), (after, b) in itertools.pairwise(trained)],
        "effects": [
            difference(f"{model}: {agent} less {PLAIN}", results, played[PLAIN])
            for model, played in boards.items()
            for agent, results in played.items()
            if agent != PLAIN and PLAIN in played
        ],
    }
    if args.curve is not None:
        document["curve"] = read_curve(args.curve)
    write_atomically(args.json, json.dumps(document, indent=1) + "\n")
    for row in document["rows"]:
        figures = (f"{name} {row[name]} {ends}" for name, ends in row["ci95"].items())
        print(row["model"], row["agent"], row["episodes"], *figures, sep=", ")
    for name, ends in document["ends"].items():
        print(name, ends)
    for entry in document["training"] + document["effects"]:
        print(entry)


if __name__ == "__main__":
    main()
