"""Judge CATP-LLM's claims on plans once more with one convention changed, from the boards of a reproduction that is done.

    costgym reproduce catp --seed 0 --out runs/catp
    python benchmarks/papers/catp_causes.py runs/catp --json benchmarks/results/causes_catp.json

Two conventions: plans that are not valid count with a quality of -0.5 instead of being left out; and the plans of prompted
planners run one tool after another, as the paper says of theirs, while CATP's branches run at once. Nothing is played.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.report import write_report
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.papers.catp import ALPHA, KINDS, METRICS, difference_row
from costgym.experiments.papers.paper import BOARD, PUBLISHED
from costgym.experiments.play.results import EpisodeResult

Results = Mapping[str, Sequence[EpisodeResult]]
PAIRS = (("catp-no-mask", "catp"), ("catp-no-feedback", "catp"), ("catp", "hydra"), ("catp", "zero-shot"))
FIGURES = ("quality_of_plan", "average_cost", "average_seconds")


def short_name(agent: str, kind: str) -> str:
    """Name of an agent in the tables: "catp-no-mask" for ``catp:RUN/policies/published-catp-no-mask-sequential-0.5``."""
    name = agent.rpartition("/")[2]
    for part in (f"{PUBLISHED}-", f"{BOARD}-"):
        name = name.removeprefix(part)
    for part in (f"-{ALPHA:g}", f"-{kind}", "-all"):
        name = name.removesuffix(part)
    return name


def seconds_apart(episode: EpisodeResult) -> float:
    """Seconds of a plan, of a prompted planner's with one tool after another."""
    trained = ":" in episode.agent
    return episode.seconds if trained else float(episode.figures["seconds_one_by_one"])


def differences(results: Results, ours: str, base: str, convention: str) -> dict[str, list[float]]:
    """Difference of each figure, with its paired interval."""
    row: dict[str, Any] = difference_row(results, ours, base, convention)
    return {name: [round(value, 4) for value in (row[name], *row["ci95"][name])] for name in FIGURES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of `costgym reproduce catp --out`")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for kind in KINDS:
        for protocol in (PUBLISHED, BOARD):
            results: dict[str, list[EpisodeResult]] = {}
            for part in (protocol, "shared"):
                for episode in read_episodes(args.run / "boards" / f"{part}-{kind}-{ALPHA:g}"):
                    results.setdefault(short_name(episode.agent, kind), []).append(episode)
            for ours, base in PAIRS:
                row: dict[str, Any] = {"tasks": kind, "policies": protocol, "difference": f"{ours} less {base}"}
                for label, convention in (("invalid plans left out", PUBLISHED), ("invalid plans count", BOARD)):
                    row[label] = differences(results, ours, base, convention)
                with patch.dict(METRICS, {"average_seconds": seconds_apart}):
                    row["prompted planners' tools one after another"] = differences(results, ours, base, protocol)
                rows.append(row)
    write_report({"command": f"python benchmarks/papers/catp_causes.py {args.run.name}", "rows": rows}, args.json)


if __name__ == "__main__":
    main()
