"""How far forecasts of cost are off: 24 conditions predicted from other tasks, then played.

    python benchmarks/forecast.py predict   # benchmarks/results/forecast.json, whose digest is committed before the next step
    python benchmarks/forecast.py score     # plays the conditions, and adds what came

A condition is an agent, a model's prices, a failure model and a budget, in a generated world of its own, so that the conditions
have no tasks in common. Predicted is the mean cost of 60 test tasks, with an 80 % interval, from 60 episodes on training tasks;
the plain guess is that the agent costs what it did in its first condition.
"""

import hashlib
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from costgym.agents.models.prices import shipped_prices
from costgym.agents.registry import make_agent
from costgym.envs.registration import make
from costgym.experiments.play.costs.bills import Bills, play_billed
from costgym.simulators.scenario import Scenario, load_scenario

OUT = Path("benchmarks/results/forecast.json")
CHAT, EPISODES, T_80 = "costgym/MarketplaceChat-v1", 60, 1.296  # quantile 0.9 of Student's t with 59 degrees of freedom
AGENTS, MODELS = ("react", "react+ecoact", "dfsdt"), ("gpt-5.1", "claude-sonnet-5")
WORLDS, BUDGETS = ("marketplace", "marketplace-reliable"), (15.0, 60.0)
CONDITIONS = list(product(AGENTS, MODELS, WORLDS, BUDGETS))
Condition = tuple[str, str, str, float]


def priced(world: str, model: str, seed: int) -> Scenario:
    scenario = load_scenario(world).in_world(1).model_copy(update={"seed": seed})
    return shipped_prices(model).price(scenario, model)


def costs(condition: Condition, split: str, seed: int) -> np.ndarray[Any, Any]:
    """US dollars of each episode of a condition, on the tasks of a split."""
    agent, model, world, budget = condition
    scenario = priced(world, model, 1000 + CONDITIONS.index(condition))
    env = make(CHAT, scenario=scenario, split=split, budget={"price": budget})
    played = list(play_billed(env, make_agent(agent, CHAT), CHAT, EPISODES, seed))
    table = shipped_prices(model)
    return Bills(played, table.models[model], table.per_dollar["credits"], "prefix").usd


def digest_of(predictions: list[Any]) -> str:
    return hashlib.sha256(json.dumps(predictions, sort_keys=True).encode()).hexdigest()


def predict() -> None:
    rows: list[dict[str, Any]] = []
    guesses: dict[str, float] = {}
    for condition in CONDITIONS:
        usd = costs(condition, "train", 1)
        mean, width = float(usd.mean()), T_80 * float(usd.std(ddof=1)) * (2 / EPISODES) ** 0.5
        guess = guesses.setdefault(condition[0], mean)
        rows.append({"condition": condition, "mean": mean, "interval": [mean - width, mean + width], "guess": guess})
    OUT.write_text(json.dumps({"predictions": rows}, indent=1) + "\n", encoding="utf-8")
    print(digest_of(rows))


def score() -> None:
    rows = json.loads(OUT.read_text(encoding="utf-8"))["predictions"]
    truths = [float(costs(tuple(row["condition"]), "test", 0).mean()) for row in rows]
    pairs = list(zip(rows, truths, strict=True))
    errors = {name: [abs(row[name] / truth - 1) for row, truth in pairs] for name in ("mean", "guess")}
    figures = {
        "coverage": sum(row["interval"][0] <= truth <= row["interval"][1] for row, truth in pairs),
        "of": len(rows),
        **{f"error_of_{name}": float(np.mean(values)) for name, values in errors.items()},
    }
    document = {"predictions": rows, "digest": digest_of(rows), "truths": truths, **figures}
    OUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(document["digest"], figures)


if __name__ == "__main__":
    {"predict": predict, "score": score}[sys.argv[1]]()
