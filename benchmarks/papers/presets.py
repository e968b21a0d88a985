"""Train CATP by both presets, the paper's text and the authors' code, with several seeds, beside few-shot prompting.

    python benchmarks/papers/presets.py --seeds 5 --out runs/presets --json benchmarks/results/presets.json

A policy for each kind of tasks, measured as the published protocol does: plans that are not valid are left out of the means.
The intervals are Student's, over the seeds of training. Finished trainings are kept.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean, stdev

from scipy.stats import t

from costgym.agents.catp.settings import PRESETS, CatpSettings
from costgym.agents.networks import torch_threads
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.lab.papers.catp.policies import KINDS
from costgym.experiments.lab.papers.catp.rows import AVERAGE, difference_row, plan_rows
from costgym.experiments.lab.papers.protocols import PUBLISHED
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.play.files import write_atomically
from costgym.experiments.train.catp.train import train_catp

PROMPTED = "few-shot"
"""The best prompted planner of the published protocol."""
FIGURES = ("quality_of_plan", "average_cost", "plan_validity")


def over_seeds(values: list[float]) -> dict[str, float | list[float]]:
    """Mean and 95 % interval."""
    mean = fmean(values)
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {"mean": round(mean, 4), "ci95": [round(mean - half, 4), round(mean + half, 4)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--presets", default=",".join(("default", *PRESETS)), help="which to train, with commas between")
    parser.add_argument("--out", type=Path, default=Path("runs/presets"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = []
    for kind in KINDS:
        policies: dict[str, list[str]] = {name: [] for name in given.presets.split(",")}
        for seed in range(given.seeds):
            for name, runs in policies.items():
                folder = given.out / f"{kind}-{name}-{seed}-{given.steps}"
                settings = {} if name == "default" else CatpSettings.preset(name, kind)
                with torch_threads(1):
                    train_catp(folder, kind, given.steps, seed, device="cpu", save_every=100, **settings)
                runs.append(f"catp:{folder}")
        agents = [PROMPTED, *(run for runs in policies.values() for run in runs)]
        board = given.out / f"board-{kind}-{given.seeds}-{given.steps}"
        run_leaderboard(make_run_config("opencatp", agents=agents, vary={"alpha": (0.5,), "tasks": (kind,)}), board)
        results = {agent: [one for one in read_episodes(board) if one.agent == agent] for agent in agents}
        rows = {row["agent"]: row for row in plan_rows(results, PUBLISHED, average_only=True) if row["group"] == AVERAGE}
        print(f"{kind}: {PROMPTED} {rows[PROMPTED]['quality_of_plan']:.3f}")
        for name, runs in policies.items():
            row = {"tasks": kind, "preset": name, "seeds": given.seeds, "steps": given.steps}
            row |= {key: over_seeds([rows[run][key] for run in runs]) for key in FIGURES}
            less = [difference_row(results, run, PROMPTED, PUBLISHED)["quality_of_plan"] for run in runs]
            row[f"less {PROMPTED}"] = over_seeds(less)
            found.append(row)
            print(json.dumps(row), flush=True)
    if given.json is not None:
        write_atomically(given.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
