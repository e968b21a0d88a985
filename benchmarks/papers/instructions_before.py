"""Compare text episodes and BTP's experience under the earlier instructions of ToolPlanner and under the present ones.

    python benchmarks/papers/instructions_before.py --out runs/before --json benchmarks/results/instructions_before.json

Earlier instructions held the whole query at every level (`whole query` in causes.py). Episodes are compared in five figures,
the experience by its bytes; a pair of figures is before and after.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from costgym.agents.base import TEXT
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.play.experience import ExperienceSettings, collect_experience
from costgym.simulators.scenario import load_scenario

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.papers.causes import PATCHES, apart
from benchmarks.report import write_report

SUITES = ("quick", "toolplanner")
USES = 5


def play(earlier: bool, suite: str, out: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Episodes of a suite's text rows: strict, judged, price, calls and tokens of each, by agent and budget."""
    with patch(*PATCHES["whole query"]) if earlier else nullcontext():
        folder = run_leaderboard(make_run_config(suite), out / f"{suite}-{'earlier' if earlier else 'present'}").folder
        found: dict[str, list[tuple[Any, ...]]] = {}
        for one in read_episodes(folder):
            if one.env == TEXT:
                key = f"{one.agent}, {one.budget.get('price', 0):g}"
                found.setdefault(key, []).append((one.strict, one.judged, one.price, one.calls, one.tokens))
    return found


def experience(earlier: bool) -> str:
    """The SHA-256 of what DFSDT remembers of train tasks."""
    with patch(*PATCHES["whole query"]) if earlier else nullcontext():
        found = collect_experience(load_scenario("marketplace"), ExperienceSettings(explorer="dfsdt", uses=USES))
    return hashlib.sha256(found.to_jsonl().encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/before"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for suite in SUITES:
        before, now = (apart(play, earlier, suite, args.out) for earlier in (True, False))
        assert before.keys() == now.keys()
        for name in now:
            pairs = list(zip(before[name], now[name], strict=True))
            row: dict[str, Any] = {"suite": suite, "row": name, "episodes": len(pairs)}
            row["episodes that differ"] = sum(a != b for a, b in pairs)
            for place, figure in enumerate(("strict", "judged", "price", "calls", "tokens")):
                row[figure] = [round(sum(float(pair[side][place]) for pair in pairs) / len(pairs), 4) for side in (0, 1)]
            rows.append(row)
            print(row, flush=True)
    digests = [apart(experience, earlier) for earlier in (True, False)]
    print("experience:", "the same bytes" if digests[0] == digests[1] else "other bytes", digests)
    if args.json is not None:
        write_report(
            {"command": "python benchmarks/papers/instructions_before.py", "rows": rows, "experience": digests}, args.json
        )


if __name__ == "__main__":
    main()
