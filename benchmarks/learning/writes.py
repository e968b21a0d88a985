"""MaskablePPO on `marketplace-writes`, and then one look at 200 test tasks beside the other agents: who loses money?

    export OMP_NUM_THREADS=1
    python benchmarks/learning/writes.py choose --out runs/writes --minutes 0.8
    python benchmarks/learning/writes.py train --out runs/writes --minutes 5 --seeds 3
    python benchmarks/learning/writes.py play --out runs/writes --seeds 3 --json benchmarks/results/writes.json

`choose` compares settings of PPO on the train tasks alone, and takes those with the highest mean return; `train` trains with
them, a run a seed; a run that is there already is continued. The world's test split has 200 tasks; `play` gives the same world
400 and plays the last 200, which nobody has played while an agent was made, and compares agents episode by episode.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import costgym
from costgym.agents import make_agent
from costgym.agents.base import Agent
from costgym.agents.sb3 import Sb3Agent
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.statistics import FloatArray, intervals
from costgym.experiments.train.sb3.train import train_ppo

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report

SCENARIO = "marketplace-writes"
GRID: dict[str, dict[str, Any]] = {
    "defaults": {},
    "less entropy": {"ent_coef": 0.0003},
    "more entropy": {"ent_coef": 0.01},
    "faster": {"learning_rate": 3e-3},
    "wider": {"hidden_size": 64},
}
AGENTS = ("retry", "check-then-retry", "idempotent", "react", "dfsdt", "oracle")
FIGURES = ("passed", "state_correct", "duplicates", "money_lost", "price", "quality")
TASKS, FRESH = 200, range(200, 400)
WORLD_SEED = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("choose", "train", "play"))
    parser.add_argument("--out", type=Path, default=Path("runs/writes"))
    parser.add_argument("--minutes", type=float, default=5.0, help="of training, each run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--agents", default=",".join(AGENTS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    choice = args.out / "choice.json"
    if args.command == "choose":
        rows = {}
        for name, settings in GRID.items():
            folder = args.out / name.replace(" ", "-")
            train_ppo(folder, SCENARIO, 0, minutes=args.minutes, **settings)
            rows[name] = row = summary(play(Sb3Agent(folder), "train", range(TASKS)))
            print(f"{name:14}", "  ".join(f"{figure} {row[figure][0]:.3f}" for figure in FIGURES), flush=True)
        choice.write_text(json.dumps({"chosen": max(rows, key=lambda name: rows[name]["quality"]), "on_train_tasks": rows}))
    elif args.command == "train":
        chosen = json.loads(choice.read_text())["chosen"]
        for seed in range(args.seeds):
            began = time.process_time()
            result = train_ppo(args.out / f"ppo-{seed}", SCENARIO, seed, minutes=args.minutes, **GRID[chosen])
            print(f"ppo-{seed}: {result.steps} decisions, {time.process_time() - began:.0f} s of processor time", flush=True)
    else:
        compare(args)


def play(agent: Agent, split: str, tasks: range) -> list[EpisodeResult]:
    """Episodes of an agent on some tasks of a world that has as many as needed."""
    scenario = {"extends": SCENARIO, "source": {"kind": "writes", split: tasks.stop}}
    env = costgym.make(agent.env_id, scenario=scenario, split=split, enforcement="refuse", disable_env_checker=True)
    played = play_many(env, agent, agent.env_id, tasks, WORLD_SEED, recorded=False)
    return [result for result, _ in played]


def columns(runs: Sequence[Sequence[EpisodeResult]]) -> dict[str, FloatArray]:
    """The figures of each episode, (episodes,), each the mean over an agent's trainings."""
    values = [
        [[r.strict, *(r.figures[name] for name in FIGURES[1:4]), r.price, r.quality] for r in results] for results in runs
    ]
    return dict(zip(FIGURES, np.mean(np.array(values, float), axis=0).T, strict=True))


def interval(of: FloatArray, minus: FloatArray | None = None) -> list[float]:
    """A mean, or the mean of differences, with its 95 % interval over episodes."""
    both = of if minus is None else of - minus
    keys = tuple(range(len(both)))
    (low,), (high,) = intervals(both[:, None], np.ones((len(both), 1)), keys, 0, 2000)
    return [round(float(value), 4) for value in (both.mean(), low, high)]


def summary(*runs: Sequence[EpisodeResult]) -> dict[str, list[float]]:
    return {name: interval(column) for name, column in columns(runs).items()}


def compare(options: argparse.Namespace) -> None:
    """Play all agents on the fresh tasks."""
    made: dict[str, list[Agent]] = {
        "ppo": [Sb3Agent(options.out / f"ppo-{seed}", f"ppo-{seed}") for seed in range(options.seeds)]
    }
    made |= {name: [make_agent(name)] for name in options.agents.split(",")}
    rows, by_agent = [], {}
    for name, agents in made.items():
        runs = [play(agent, "test", FRESH) for agent in agents]
        by_agent[name] = columns(runs)
        row: dict[str, Any] = {"agent": name, "episodes": len(FRESH), **summary(*runs)}
        if len(runs) > 1:
            row["trainings"] = [{figure: round(float(columns([run])[figure].mean()), 4) for figure in FIGURES} for run in runs]
        rows.append(row)
        print(json.dumps(row), flush=True)
    pairs = [("ppo", name) for name in made if name != "ppo"] + [("retry", "check-then-retry"), ("dfsdt", "react")]
    differences = {
        f"{one} - {other}": {figure: interval(by_agent[one][figure], by_agent[other][figure]) for figure in FIGURES}
        for one, other in pairs
        if one in by_agent and other in by_agent
    }
    choice = json.loads((options.out / "choice.json").read_text())
    settings = {
        "scenario": SCENARIO,
        **choice,
        "minutes": options.minutes,
        "world_seed": WORLD_SEED,
        "tasks": "test 200 to 399 of 400",
    }
    write_report({**settings, "rows": rows, "differences": differences}, options.json, ("torch", "sb3-contrib", "numba"))


if __name__ == "__main__":
    main()
