"""Count how often the alarms of submissions ring for honest entries, and whether every honest entry is verified.

    python benchmarks/hostile/false_alarms.py [entries] [--json FILE]

Runs of honest agents are played on one seed after another, packed and validated like anybody's; each row is an entry. Says how
many were verified, how many alarms rang and the interval of that share.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from costgym.experiments.leaderboard.board import run
from costgym.experiments.leaderboard.run_config import make_run_config
from costgym.experiments.leaderboard.submissions.submission import pack, validate
from costgym.experiments.statistics import wilson

AGENTS = ("greedy", "cheapest", "react", "dfsdt+ecoact")


def main() -> None:
    parser = argparse.ArgumentParser(description="Alarms among honest entries.")
    parser.add_argument("entries", nargs="?", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    started, verified, rung, entries = time.process_time(), 0, [], 0
    seed = 0
    while entries < arguments.entries:
        seed += 1
        with tempfile.TemporaryDirectory() as folder:
            config = make_run_config(
                "quick", agents=list(AGENTS), budgets="price=30", episodes=arguments.episodes, seed=1000 + seed
            )
            packed = pack(run(config, Path(folder) / "board").folder, Path(folder) / "packed", "Honest", "a@example.org")
            verdict = validate(packed)
        entries += len(verdict.rows)
        verified += len(verdict.rows) if verdict.verified else 0
        rung += [each for own in verdict.alarms for each in own]
        if seed % 10 == 0:
            print(f"{entries} entries, {verified} verified, {len(rung)} alarms", flush=True)
    low, high = wilson(len(rung) / entries, entries)
    found = {
        "entries": entries,
        "verified": verified,
        "alarms": rung,
        "share": len(rung) / entries,
        "ci95": [low, high],
        "processor_seconds": round(time.process_time() - started, 1),
    }
    print(json.dumps(found, indent=1))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
