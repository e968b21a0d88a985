"""Find what decides whether a paper's effects follow: the published protocol with one change at a time.

    python benchmarks/papers/causes.py ecoact --episodes 300

prints each counted effect under the published protocol and under every variation, with whose setting the change is: the
paper's, where its text or code leave it open, or ours.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from costgym.experiments.lab.papers.causes import variations
from costgym.experiments.lab.papers.claims import counted
from costgym.experiments.lab.papers.protocols import Protocol
from costgym.experiments.lab.papers.reproduce import play_protocol
from costgym.experiments.play.files import write_atomically

Found = dict[str, dict[str, tuple[str, bool]]]
"""Measured and whether it follows, by claim and variation."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paper", choices=("ecoact", "toolplanner"))
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help="Names of variations, separated by commas; by default all.")
    parser.add_argument("--agents", help="Of EcoAct's systems, those to play, such as react,react+ecoact; by default all.")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    chosen = [v for v in variations(args.paper) if args.only is None or v.name in args.only.split(",")]
    agents = None if args.agents is None else args.agents.split(",")
    found: Found = {}
    for variation in chosen:
        with tempfile.TemporaryDirectory() as folder:
            rows = play_protocol(args.paper, variation, args.seed, args.episodes, args.jobs, Path(folder), agents=agents)
        effects = counted(rows["effects"])
        for row in effects:
            key = f"{row['claim']} ({row['grading']})" if row["grading"] else row["claim"]
            found.setdefault(key, {})[variation.name] = (row["measured"], row["follows"])
        count = f"{sum(row['follows'] for row in effects)} of {len(effects)}"
        print(f"{variation.name} [{variation.whose}]: {count}: {variation.summary}", flush=True)
        if args.json is not None:
            write(args.json, args, chosen, found)
    for claim, measured in found.items():
        print(f"\n{claim}")
        for name, (text, follows) in measured.items():
            print(f"  {'yes' if follows else 'no ':3} {name}: {text}")


def write(path: Path, args: argparse.Namespace, chosen: list[Protocol], found: Found) -> None:
    """Write what is known so far: a run may be stopped between two variations."""
    document = {
        "paper": args.paper,
        "episodes": args.episodes,
        "seed": args.seed,
        **({"agents": args.agents.split(",")} if args.agents else {}),
        "variations": [{"name": v.name, "whose": v.whose, "summary": v.summary} for v in chosen],
        "effects": {
            claim: {name: {"measured": text, "follows": follows} for name, (text, follows) in row.items()}
            for claim, row in found.items()
        },
    }
    write_atomically(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
