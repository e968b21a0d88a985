"""PPO under limits on price, seconds and calls at once: its learning curve against the limits, and what it costs on test tasks.

    OMP_NUM_THREADS=1 python benchmarks/learning/limits.py --out runs/limits

trains on the train split as `costgym train ppo --steps 150000 --cost-limit "price=8;seconds=6;calls=3"` does, draws
`docs/limits.svg` and plays 400 episodes of the test split. A run that is there already is continued, or only played.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import costgym
from costgym.agents import make_agent
from costgym.agents.sb3 import Sb3Agent
from costgym.experiments.files import write_atomically
from costgym.experiments.reports.charts import Panel, Series, panels
from costgym.experiments.training.curve import read_curve
from costgym.experiments.training.sb3.train import train_ppo

LIMITS = {"price": 8.0, "seconds": 6.0, "calls": 3.0}
UNITS = {"price": "credits", "seconds": "simulated seconds", "calls": "calls"}
PICTURE = Path(__file__).parents[2] / "docs" / "limits.svg"
POINTS = 24  # of each line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/limits"))
    parser.add_argument("--steps", type=int, default=150_000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    train_ppo(given.out, steps=given.steps, budget={"price": 20}, lagrangian=LIMITS, resume=True)
    print(f"{time.process_time() - began:.0f} s of processor time")
    draw(given.out)
    for agent in (Sb3Agent(given.out, "limited"), make_agent("greedy")):
        env = costgym.make("costgym/Marketplace-v0", split="test", budget={"price": 20})
        results = costgym.rollout(env, agent, 400, seed=0)
        costs = {name: np.mean([getattr(result, name) for result in results]) for name in LIMITS}
        told = ", ".join(f"{name} {costs[name]:.2f} (limit {limit:g})" for name, limit in LIMITS.items())
        print(f"{agent.name}: success {np.mean([result.strict for result in results]):.3f}, {told}")


def draw(run: Path) -> None:
    """Draw the mean costs of the run's episodes against their limits."""
    lines = read_curve(run)
    each = max(1, len(lines) // POINTS)
    groups = [lines[start : start + each] for start in range(0, len(lines), each)]
    grid = []
    for number, (name, limit) in enumerate(LIMITS.items()):
        column = "cost" if number == 0 else f"cost_{name}"
        steps = [group[-1]["step"] / 1000 for group in groups]
        costs = [float(np.mean([line[column] for line in group if column in line])) for group in groups]
        ends = [steps[0], steps[-1]]
        series = [Series("mean cost", steps, costs, 0), Series("limit", ends, [limit, limit], 1, dashed=True)]
        grid.append(Panel(f"{name.capitalize()}, {UNITS[name]} an episode", "thousand decisions", series))
    write_atomically(PICTURE, panels([grid]))


if __name__ == "__main__":
    main()
