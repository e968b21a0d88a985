"""CATP-LLM on the authors' executed plans: several seeds of a policy, each with a quarter of the pairs held out.

    python benchmarks/papers/pools.py --data DIR --seeds 5 --json benchmarks/results/pools.json
    python benchmarks/papers/pools.py --data DIR --seeds 5 --steps 100 --model models/smollm2

DIR is the folder of OpenCATP's plan pools. The preset is the paper's text. A published model takes 16 rows a step, and a higher
learning rate with a shorter warm-up than a small one. The intervals are Student's, over the seeds; finished trainings are kept.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.papers.presets import over_seeds
from benchmarks.report import write_report
from costgym.agents.catp.settings import CatpSettings
from costgym.experiments.train.catp.train import train_catp
from costgym.simulators.threads import torch_threads

POOLS = {"sequential": "seq_plan_pool.json", "nonsequential": "nonseq_plan_pool.json"}
OF_A_MODEL: dict[str, Any] = {"batch_size": 16, "warmup_steps": 10, "learning_rate": 1e-3}
GAINS = (("choice_accuracy", "choice_chance"), ("chosen", "pool_mean"))
"""Pairs of figures of which the first should be above the second."""


def row_of(kind: str, steps: int, measured: list[dict[str, float]]) -> dict[str, Any]:
    """Return the figures of the seeds of one kind of tasks, with their means and intervals."""
    row: dict[str, Any] = {"tasks": kind, "seeds": len(measured), "steps": steps}
    row |= {name: over_seeds([one[name] for one in measured]) for name in measured[0]}
    for high, low in GAINS:
        row[f"{high} - {low}"] = over_seeds([one[high] - one[low] for one in measured])
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tasks", default=",".join(POOLS), help="kinds of tasks, with commas between")
    parser.add_argument("--model", type=Path, help="folder of a published model; by default a small one")
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="multiply in bfloat16")
    parser.add_argument("--out", type=Path, default=Path("runs/pools"))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    name = "small" if chosen.model is None else chosen.model.name
    of_model = {} if chosen.model is None else {"model": str(chosen.model), "bf16": chosen.bf16, **OF_A_MODEL}
    rows = []
    for kind in chosen.tasks.split(","):
        settings = {**CatpSettings.preset("paper", kind), **of_model}
        measured = []
        for seed in range(chosen.seeds):
            folder = chosen.out / f"{name}-{kind}-{seed}-{chosen.steps}"
            with torch_threads(1):
                result = train_catp(
                    folder, kind, chosen.steps, seed, pool=(chosen.data / POOLS[kind],), save_every=50, **settings
                )
            measured.append(result.metrics)
            print(kind, seed, json.dumps(result.metrics), flush=True)
        rows.append(row_of(kind, chosen.steps, measured))
    write_report({"command": "python benchmarks/papers/pools.py", "model": name, "rows": rows}, chosen.json)


if __name__ == "__main__":
    main()
