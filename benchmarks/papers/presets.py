"""Train CATP by its presets, the paper's text and the authors' code, or with settings changed, beside prompting; several seeds.

    python benchmarks/papers/presets.py --seeds 5 --presets default,paper,code --json benchmarks/results/presets.json
    python benchmarks/papers/presets.py --presets paper,paper+mask=false --than paper --tasks sequential

A policy for each kind of tasks, measured as the published protocol does: plans that are not valid are left out of the means.
A name is ``default``, a preset, or ``rltf``, and then fields of `CatpSettings` with a value in JSON, each after a ``+``. The
intervals are Student's, over the seeds of training; with one seed a bootstrap's, over plans. Finished trainings are kept.
"""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from unittest.mock import patch

from scipy.stats import t

from costgym.agents.catp.settings import PRESETS, CatpSettings
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.papers.catp import AVERAGE, KINDS, difference_row, plan_rows
from costgym.experiments.papers.paper import PUBLISHED
from costgym.experiments.train.catp.train import train_catp, train_rltf
from costgym.simulators.files import write_atomically
from costgym.simulators.threads import torch_threads

PROMPTED = "few-shot"
"""The best prompted planner of the published protocol."""
FIGURES = ("quality_of_plan", "score", "average_cost", "average_seconds", "plan_validity")
LESS = {"quality_of_plan": "less", "average_cost": "USD less", "average_seconds": "seconds less"}


def over_seeds(values: Sequence[float]) -> dict[str, float | list[float]]:
    """Mean and 95 % interval; of one seed there is none."""
    mean = fmean(values)
    if len(values) == 1:
        return {"mean": round(mean, 4)}
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return {"mean": round(mean, 4), "ci95": [round(mean - half, 4), round(mean + half, 4)]}


def train(name: str, kind: str, seed: int, steps: int, out: Path, device: str = "cpu") -> str:
    """Train a policy, or find it in its folder; return its agent's name."""
    base, *changes = name.split("+")
    settings: dict[str, Any] = CatpSettings.preset(base, kind) if base in PRESETS else {}
    settings |= {field: json.loads(value) for field, value in (change.split("=", 1) for change in changes)}
    steps = settings.pop("steps", steps)
    folder = out / re.sub(r"[^\w.-]", "_", f"{kind}-{name}-{seed}-{steps}")
    method = train_rltf if base == "rltf" else train_catp
    # its metrics on the train tasks are not asked for, and take a large model longer than the training
    with torch_threads(1), patch("costgym.experiments.train.catp.learning.OfflineLearner.check", lambda _: {}):
        method(folder, kind, steps, seed, device=device, save_every=100, **settings)
    return f"{'rltf' if base == 'rltf' else 'catp'}:{folder}"


def figure(rows: Sequence[dict[str, Any]], key: str) -> dict[str, float | list[float]]:
    """Mean and interval of one figure over the rows of some seeds."""
    if len(rows) > 1:
        return over_seeds([row[key] for row in rows])
    return {"mean": round(rows[0][key], 4), "ci95": [round(end, 4) for end in rows[0]["ci95"][key]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--presets", default=",".join(("default", *PRESETS)), help="which to train, with commas between")
    parser.add_argument("--than", default=PROMPTED, help="what they are compared with: a prompted planner, or one of them")
    parser.add_argument("--tasks", default=",".join(KINDS), help="kinds of tasks, with commas between")
    parser.add_argument("--out", type=Path, default=Path("runs/presets"))
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto; a policy is measured on a GPU where there is one")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    names, report = args.presets.split(","), []
    for kind in args.tasks.split(","):
        runs: dict[str, list[str]] = {
            name: [train(name, kind, seed, args.steps, args.out, args.device) for seed in range(args.seeds)] for name in names
        }
        others = runs.get(args.than, [args.than] * args.seeds)
        agents = list(dict.fromkeys([*others, *(run for preset_runs in runs.values() for run in preset_runs)]))
        board = args.out / re.sub(r"[^\w.-]", "_", f"board-{kind}-{args.presets}-{args.than}-{args.seeds}-{args.steps}")
        run_leaderboard(make_run_config("opencatp", agents=agents, vary={"alpha": (0.5,), "tasks": (kind,)}), board)
        results = {agent: [one for one in read_episodes(board) if one.agent == agent] for agent in agents}
        rows = {row["agent"]: row for row in plan_rows(results, PUBLISHED, average_only=True) if row["group"] == AVERAGE}
        if args.than not in runs:
            print(f"{kind}: {args.than} {rows[args.than]['quality_of_plan']:.3f}")
        for name, results_of in runs.items():
            row: dict[str, Any] = {"tasks": kind, "preset": name, "seeds": args.seeds, "steps": args.steps}
            row |= {key: figure([rows[run] for run in results_of], key) for key in FIGURES}
            if name != args.than:
                less = [difference_row(results, *pair, PUBLISHED) for pair in zip(results_of, others, strict=True)]
                row |= {f"{word} {args.than}": figure(less, key) for key, word in LESS.items()}
            report.append(row)
            print(json.dumps(row), flush=True)
            if args.json is not None:
                write_atomically(args.json, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
