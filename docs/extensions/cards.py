"""The part of an environment's card that is measured or counted: splits, reference scores, learner, datasets, speed.

Figures are those of `benchmarks/results/cards.json`, which `benchmarks/cards.py` writes. Learners that ship are trained by the
commands of their cards in `costgym/agents/zoo`; their curves lie beside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import costgym
from costgym.envs.registration import parameters_of
from costgym.experiments.play.named.catalogue import FAMILIES
from costgym.simulators.errors import CostGymError

ROOT = Path(costgym.__file__).parents[1]
FIGURES = ROOT / "benchmarks" / "results" / "cards.json"
ELSEWHERE = {
    "costgym/MarketplaceChat-v0": "[`zoo:toolplanner`](../results/train.md#agents-that-ship)",
    "costgym/OpenCATPCalls-v0": "[`bc`](../../benchmarks/results/baselines/others.md)",
}  # learners that `benchmarks/cards.py` does not play
NAMES = ("train", "train-large", "valid", "test", "unseen", "shifted")  # of splits, in the order of a page


@cache
def figures() -> Mapping[str, Any]:
    """What `benchmarks/cards.py` has measured."""
    measured: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return measured


@cache
def splits(env_id: str) -> str:
    """The splits of an environment, each with the number of its tasks."""
    counts = {}
    for name in NAMES:
        try:
            env: Any = costgym.make(env_id, split=name).unwrapped
        except CostGymError:
            continue
        counts[name] = len(env.tasks) * len(env.samples) if hasattr(env, "samples") else len(env.numbers)
    return ", ".join(f"`{name}` {count:,}" for name, count in counts.items())


def horizon(env_id: str) -> str:
    """How long an episode can be."""
    known = parameters_of(env_id)
    if "queries" in known:
        rules: Any = costgym.make(env_id).unwrapped
        return f"{rules.rules.queries} queries"
    return next((f"`{name}` {known[name]}" for name in ("max_steps", "max_tokens") if name in known), "one action")


def _returns(env_id: str, learnt: bool) -> list[str]:
    rows = [row for row in figures()["rows"] if row["env"] == env_id and row["agent"].startswith("zoo:") == learnt]
    texts = []
    for row in rows:
        mean, half, digits = row["return"], row["half"], 0 if "Session" in env_id else 3
        low, middle, high = (f"{value:.{digits}f}".replace("-", "−") for value in (mean - half, mean, mean + half))
        texts.append(f"`{row['agent']}` {middle} ({low}–{high})")
    return texts


def learner(env_id: str) -> str:
    """The best learner, with links to its hyperparameters and its curve; empty where there is none."""
    learners = _returns(env_id, learnt=True)
    if not learners:
        return ELSEWHERE.get(env_id, "")
    folder = f"../../costgym/agents/zoo/{learners[0].split('`')[1].removeprefix('zoo:')}"
    return f"{learners[0]} ([settings]({folder}/config.json), [curve]({folder}/curve.jsonl))"


def datasets(env_id: str) -> str:
    """The named datasets that were recorded in an environment; empty where there are none."""
    worlds = [f"`{family.name}`" for family in FAMILIES if family.env_id == env_id]
    return f"[{', '.join(worlds)}](../offline.md#datasets-with-names)" if worlds else ""


def speed(env_id: str) -> str:
    """Steps a second of one environment, relative to CartPole."""
    (row,) = (row for row in figures()["speeds"] if row["env"] == env_id)
    return f"{row['to_cartpole']:.2g} × CartPole"


def footnote() -> str:
    """Where the figures are from."""
    return (
        f"[^cards]: Measured: `python benchmarks/cards.py`; x86-64 beside other work; {figures()['date']};\n"
        "    [figures](../../benchmarks/results/cards.json)."
    )


def rows(env_id: str) -> list[str]:
    """The measured and counted lines of a card."""
    lines = {
        "Splits": splits(env_id),
        "[Mean returns](index.md#cards)": ", ".join(_returns(env_id, learnt=False)),
        "Learner": learner(env_id),
        "Datasets": datasets(env_id),
        "Speed": speed(env_id),
    }
    return [f"* {name}: {text}" for name, text in lines.items() if text]
