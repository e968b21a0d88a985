"""Fit the simulated model's rates to the papers' plain baselines, and sweep the rates that no baseline determines.

    python benchmarks/papers/fit.py --json benchmarks/results/fit.json
    python benchmarks/papers/fit.py --sweep --json benchmarks/results/sweep.json

A fit plays train tasks, a sweep test tasks. The rates that a fit finds are those that ship: a line says so if they are not.
`residual` counts the tolerances between a figure and its target.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.strategies import SearchSettings
from costgym.experiments.lab.papers.fit import DETERMINED, fit, measure, sweep
from costgym.experiments.lab.papers.protocols import protocols
from costgym.experiments.play.files import write_atomically

MANY = {"source": {"candidates": [21, 64]}}
BTP: dict[str, Any] = {"agents": ("react", "react+btp"), "protocol": protocols("btp")[0]}
SWEPT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("attend_costs", {"agents": ("react", "react+prompt")}),
    ("attend_costs", BTP),
    ("forbidden", BTP),
    ("notice", {"scenario": MANY, "search": SearchSettings(depth=24)}),
    (
        "register_more",
        {"scenario": MANY, "search": SearchSettings(depth=24), "agents": ("react+ecoact", "react+ecoact-several")},
    ),
    ("skim", {"scenario": {"source": {"candidates": [21, 64], "misnamed": 0.3}}, "search": SearchSettings(depth=24)}),
    (
        "search",
        {
            "scenario": {"source": {"candidates": {"from": "catalogue", "retriever": "bm25", "k": 5}}},
            "agents": ("react", "react+search"),
        },
    ),
)
"""Where each free rate is met."""
VALUES = (0.0, 0.25, 0.5, 0.75, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000, help="of each agent at every measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--only", choices=sorted({rate for rate, _ in SWEPT}), help="Sweep this rate alone.")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    document: dict[str, Any] = {"episodes": args.episodes, "seed": args.seed}
    if args.sweep:
        document["sweeps"] = []
        for rate, settings in SWEPT:
            if args.only not in (None, rate):
                continue
            rows = sweep(rate, VALUES, args.episodes, args.seed, **settings)
            agents = settings.get("agents", ("react", "react+ecoact"))
            document["sweeps"].append({"rate": rate, "agents": agents, "rows": rows})
            print(f"{agents[1]} less {agents[0]}")
            for row in rows:
                points = f"PR {row['PR']:+.1f}, PBC {row['PBC']:+.1f}, strict {row['PBC_strict']:+.1f}"
                shown = f"{points}, cost {row['cost']:+.1%}, tokens {row['tokens']:+.1%}"
                print(f"{rate} {row['value']:g}: {shown}", flush=True)
    else:
        found = fit(
            measure(args.episodes, args.seed),
            rounds=args.rounds,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
        document.update(found)
        for row in found["targets"]:
            figures = f"published {row['value']:.1f}, before {row['before']:.1f}, after {row['after']:.1f}"
            print(f"{row['agent']} {row['metric']}: {figures}, residual {row['residual']:+.1f}")
        for row in found["rates"]:
            held = "" if row["determined"] >= DETERMINED else ", no target determines it"
            print(f"{row['rate']}: {row['before']:.3f} -> {row['after']:.3f} ({row['determined']:.2f}{held})")
        print(f"sum of squared residuals: {found['loss']['before']:.1f} -> {found['loss']['after']:.1f}")
        ships = SimulatedRates()
        differ = [row["rate"] for row in found["rates"] if row["after"] != getattr(ships, row["rate"])]
        if differ:
            print(f"other rates ship of: {', '.join(differ)}", file=sys.stderr)
    if args.json is not None:
        write_atomically(args.json, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
