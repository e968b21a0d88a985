"""DEER trained on the processor, beside the untrained deciders: six accuracies on seen and on unseen tools.

    python benchmarks/learning/deer.py                                  # the mixture
    python benchmarks/learning/deer.py --samplings random,inter,intra,mixture --json results.json

Runs are kept under --out and gone on with when the script is called again. Every policy is measured on the same samples: the
split `valid` (seen tools, the paper's mixture of candidates) and `test` (unseen tools, random candidates). `mean` is that of
P_DC on both.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from costgym.experiments.decisions import ACCURACIES, decision_rows
from costgym.experiments.deer_training import train_deer
from costgym.simulators.errors import require

GOALS = {"seen_p_ds": 0.95, "seen_p_dc": 0.85, "unseen_p_dc": 0.80}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/deer"), help="folder of the runs")
    parser.add_argument("--samplings", default="mixture", help="some of random, inter, intra, mixture, with commas between")
    parser.add_argument("--steps", type=int, default=None, help="optimiser steps of each run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--untrained", action=argparse.BooleanOptionalAction, default=True, help="also the untrained deciders")
    parser.add_argument("--json", type=Path, default=None, help="also write the rows to a file")
    args = parser.parse_args()
    require("torch", "train").set_num_threads(args.threads)
    print(f"{'decider':22} {'tools':7} " + " ".join(f"{name:>11}" for name in ACCURACIES), flush=True)
    rows: list[dict[str, Any]] = []
    if args.untrained:
        for row in decision_rows():
            kind = "seen" if row["split"] == "valid" else "unseen"
            _print(row["agent"], kind, [row.get(name) for name in ACCURACIES])
            rows.append({"decider": row["agent"], "tools": kind, **{name: row.get(name) for name in ACCURACIES}})
    settings = {} if args.steps is None else {"steps": args.steps}
    means = {}
    for sampling in args.samplings.split(","):
        began, cpu = time.monotonic(), time.process_time()
        result = train_deer(args.out / f"{sampling}-{args.seed}", seed=args.seed, sampling=sampling, **settings)
        minutes, cpu_minutes = (time.monotonic() - began) / 60, (time.process_time() - cpu) / 60
        for kind in ("seen", "unseen"):
            found = {name: result.metrics[f"{kind}_{name}"] for name in ACCURACIES}
            _print(f"trained, {sampling}", kind, list(found.values()))
            rows.append({"decider": f"trained, {sampling}", "tools": kind, "steps": result.steps, **found})
        means[sampling] = (result.metrics["seen_p_dc"] + result.metrics["unseen_p_dc"]) / 2
        print(f"# {result.steps} steps, {minutes:.1f} min ({cpu_minutes:.1f} of the CPU), loss {result.loss:.3f}; ", end="")
        print(f"mean {means[sampling]:.1%}", flush=True)
        if sampling == "mixture":
            for name, goal in GOALS.items():
                print(
                    f"# {name} {result.metrics[name]:.1%}, wanted {goal:.0%}: {'yes' if result.metrics[name] >= goal else 'NO'}"
                )
    if "mixture" in means and len(means) > 1:
        best = max((name for name in means if name != "mixture"), key=lambda name: means[name])
        verdict = "yes" if means["mixture"] > means[best] else "NO"
        print(
            f"# mixture {means['mixture']:.1%}, best single strategy ({best}) {means[best]:.1%}; mixture is better: {verdict}"
        )
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


def _print(name: str, kind: str, shares: list[float | None]) -> None:
    print(
        f"{name:22} {kind:7} " + " ".join("          -" if share is None else f"{share:11.1%}" for share in shares), flush=True
    )


if __name__ == "__main__":
    main()
