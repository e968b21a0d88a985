"""Forged leaderboard runs are rejected, whatever was edited in which file, and honest ones are not.

    python benchmarks/hostile/forged_runs.py [--edits 10000] [--honest 200] [--json FILE]

Plays small runs of each track, each with a submission that it keeps. Named forgeries (rows that nobody played, files that are
extra or missing, another seed in all places ...) are tried first; then every file of every run is edited, as often as any
other: bytes changed, added, removed or cut, lines dropped or doubled, and single values of JSON, in the form in which they
are written. None may pass and none may end in anything but a verdict or an error of costgym's. Runs on other seeds, with
other agents, must all pass, as they are and packed as submissions.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.leaderboard import run

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.helpers.forgeries import FORGERIES, edited, files_of, honest_run, judge

RUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "text": (("react+btp", "dfsdt"), ("react", "toolplanner")),
    "numbers": (("greedy", "oracle"), ("cheapest", "random")),
    "plans": (("few-shot", "oracle"), ("hydra",)),
    "decisions": (("deer-rule",), ("deer",)),
}
"""Who plays on a board, and who is handed in."""
HONEST = (
    ("react", "dfsdt+ecoact"),
    ("random", "greedy"),
    ("zero-shot", "hugginggpt"),
    ("deer", "deer-rule"),
    ("plan-act", "cheapest", "hydra", "deer"),
    ("tot-dfs", "cot@5+ecoact"),
    ("few-shot", "oracle"),
    ("react+btp", "toolplanner", "oracle"),
)


def forgeries(folder: Path) -> list[str]:
    """Try every named forgery; returns those that were not named as they should be."""
    board, wrong = honest_run(folder / "named"), []
    for name, (forge, expected) in FORGERIES.items():
        forged = folder / "forged"
        shutil.copytree(board, forged)
        forge(forged)
        verdict = judge(forged)
        if expected not in verdict:
            wrong.append(f"{name}: expected {expected!r}, got {verdict!r}")
        shutil.rmtree(forged)
    return wrong


def edits_in(folder: Path, edits: int) -> dict[str, Any]:
    """Edit the files of all runs, each as often as any other."""
    boards = {name: honest_run(folder / name, agents, theirs) for name, (agents, theirs) in RUNS.items()}
    counts = {name: len(files_of(board)) for name, board in boards.items()}
    of_each = math.ceil(edits / sum(counts.values()))
    found: dict[str, Any] = {"files": sum(counts.values()), "edits_of_each_file": of_each, "edits": 0, "wrong": [], "runs": {}}
    for seed, (name, board) in enumerate(boards.items()):
        assert judge(board) == "", (name, judge(board))
        begin = time.process_time()
        tried, wrong = edited(board, of_each * counts[name], seed, lambda text: print(text, flush=True))
        assert judge(board) == "", (name, judge(board))
        found["edits"] += tried
        found["wrong"] += [f"{name}: {each}" for each in wrong]
        found["runs"][name] = {"files": counts[name], "edits": tried, "wrong": len(wrong)}
        print(f"{name}: {tried} edits of {counts[name]} files, {len(wrong)} not rejected, "
              f"{(time.process_time() - begin) / max(1, tried):.3f} s each", flush=True)  # fmt: skip
    return found


def honest_runs(folder: Path, runs: int) -> list[str]:
    """Play and verify runs that nobody edited; returns what was said of those that did not pass."""
    wrong = []
    for number in range(runs):
        agents, place = HONEST[number % len(HONEST)], folder / f"honest-{number}"
        settings: dict[str, Any] = {"seed": 100 + number, "episodes": 2 + number % 4}
        if number // len(HONEST) % 2 and number % len(HONEST) < 2:  # plans and decisions are graded one way
            settings["grading"] = "judge"
        board = run(make_run_config("quick", agents=agents, **settings), place / "board").folder
        said = [judge(board)]
        if "oracle" not in agents:
            said.append(judge(pack(board, place / "packed", f"Team {number}", "a@b.org")))
        wrong += [f"run {number}, {', '.join(agents)}: {each}" for each in said if each]
        shutil.rmtree(place)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edits", type=int, default=10_000)
    parser.add_argument("--honest", type=int, default=200)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        missed = forgeries(folder)
        print(f"{len(FORGERIES)} kinds of forgery, {len(FORGERIES) - len(missed)} named", *missed, sep="\n  ", flush=True)
        report = edits_in(folder, given.edits)
        rejected = honest_runs(folder, given.honest)
        print(f"{given.honest} honest runs, {len(rejected)} rejected", *rejected, sep="\n  ")
    report |= {"forgeries": list(FORGERIES), "forgeries_missed": missed}
    report |= {"honest": given.honest, "honest_rejected": rejected, "processor_seconds": round(time.process_time(), 1)}
    print(f"{report['edits']} edits of {report['files']} files, {len(report['wrong'])} not rejected; "
          f"{report['processor_seconds']:.0f} s of a processor")  # fmt: skip
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return bool(missed or report["wrong"] or rejected)


if __name__ == "__main__":
    sys.exit(main())
