"""Measure policies that learn under a limit on the mean tokens of a decision, or on the mean seconds of a marketplace's task.

    export OMP_NUM_THREADS=1
    python benchmarks/learning/limits.py choose
    python benchmarks/learning/limits.py tokens --seeds 0,1,2,3,4
    python benchmarks/learning/limits.py seconds --seeds 0,1,2,3,4

`choose` compares rates of the dual ascent of `examples/token_limit.py`, under that program's limit, in the world and on the
split `valid` of the scenario `decision`; rate 0 shows what is spent without a limit. The rate is that of the most right
decisions among those that keep the limit, or of the fewest tokens where none does. `tokens` trains and tests with it in a
world with another seed, whose tools and tasks `choose` never saw. `seconds` is `costgym train ppo --split train-large` with
its own settings, tested on the marketplace's test split; its limit is 0.6 of what `greedy` takes on average in 400 train
episodes, to one significant digit. Every command adds its figures to `--json`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from costgym.agents import Agent, make_agent
from costgym.agents.base import NUMERIC
from costgym.agents.sb3 import Sb3Agent
from costgym.envs.base import base_env
from costgym.envs.registration import make
from costgym.experiments.play.episodes import play
from costgym.experiments.train.sb3.train import train_ppo

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import token_limit

from benchmarks.report import write_report

RESULTS = Path(__file__).parents[1] / "results" / "limits.json"
TOKENS, SECONDS = 500.0, 10.0
RATES = (0.0, 0.1, 0.3)
ANOTHER_WORLD = {"extends": "decision", "seed": 1}
EPISODES = 900
Figures = dict[str, Any]


def spent(agent: Agent, split: str, episodes: int) -> tuple[float, float]:
    """Share of a split's first episodes in the marketplace that an agent passes, and their mean seconds."""
    env, passed, seconds = make(NUMERIC, split=split), 0, 0.0
    for index in range(episodes):
        view = play(env, agent, *base_env(env).instance(index, 0)[:2])
        assert view.grade is not None
        passed, seconds = passed + (view.grade.strict and view.exceeded is None), seconds + view.now_s
    return passed / episodes, seconds / episodes


def check_limit() -> None:
    """Hold the limit on seconds to its rule."""
    seconds = spent(make_agent("greedy"), "train", 400)[1]
    assert float(f"{0.6 * seconds:.1g}") == SECONDS, seconds


def tokens_of(seed: int, decisions: int, rate: float, split: str, scenario: Any) -> Figures:
    """Train under the limit on tokens, and measure."""
    began = time.process_time()
    model = token_limit.train(TOKENS, decisions, seed, rate, scenario)
    took = round(time.process_time() - began)
    right, tokens = token_limit.measure(model, EPISODES, split, scenario)
    return {"rate": rate, "limit": TOKENS, "right": right, "tokens": tokens, "kept": tokens <= TOKENS, "processor_s": took}


def seconds_of(seed: int, steps: int) -> Figures:
    """Train under the limit on seconds, and measure."""
    began = time.process_time()
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train_ppo(run, seed=seed, steps=steps, split="train-large", lagrangian={"seconds": SECONDS})
        took = round(time.process_time() - began)
        passed, seconds = spent(Sb3Agent(run), "test", 400)
    return {"limit": SECONDS, "passed": passed, "seconds": seconds, "kept": seconds <= SECONDS, "processor_s": took}


def chosen_rate(compared: list[Figures]) -> float:
    """The rate that `choose` found."""
    best = max(compared[1:], key=lambda figures: (figures["kept"], figures["right"] if figures["kept"] else -figures["tokens"]))
    return float(best["rate"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("choose", "tokens", "seconds"))
    parser.add_argument("--seeds", default="0,1,2,3,4", help="of training, with commas between them")
    parser.add_argument("--decisions", type=int, default=81_920, help="of a training under the limit on tokens")
    parser.add_argument("--steps", type=int, default=98_304, help="of a training under the limit on seconds")
    parser.add_argument("--json", type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    report: Figures = json.loads(args.json.read_text()) if args.json.exists() else {}
    if args.part == "choose":
        report["choose"] = [tokens_of(0, args.decisions, rate, "valid", "decision") for rate in RATES]
        write_report(report, args.json, ("torch", "stable-baselines3", "sb3-contrib"))
        return
    for seed in args.seeds.split(","):
        if args.part == "tokens":
            measured = tokens_of(int(seed), args.decisions, chosen_rate(report["choose"]), "test", ANOTHER_WORLD)
        else:
            check_limit()
            measured = seconds_of(int(seed), args.steps)
        report[args.part] = {**report.get(args.part, {}), seed: measured}
        write_report(report, args.json, ("torch", "stable-baselines3", "sb3-contrib"))


if __name__ == "__main__":
    main()
