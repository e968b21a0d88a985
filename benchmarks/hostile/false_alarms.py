"""Count how often the alarms of submissions ring for honest entries, and whether every honest entry is verified.

    python benchmarks/hostile/false_alarms.py [entries] [--json FILE]

An entry is a submission as anybody would make it: one agent of each track of the default suite, all agents of it in turn but
those that read the world, played on a seed of its own, packed and validated. Of each alarm: how many entries and rows it rang
for, and the Wilson intervals of those shares, among the rows for which it can ring at all.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.leaderboard import run
from costgym.experiments.play.statistics import wilson

TRACKS: dict[str, frozenset[str]] = {
    "better than the optimum": frozenset({"text", "numbers", "plans", "decisions"}),
    "right facts stand in answers": frozenset({"text"}),
    "first calls worked": frozenset({"text", "numbers"}),
    "tasks have no flaw": frozenset({"plans", "decisions"}),
}
"""The alarms, by what their sentences say, and the tracks in which each can ring."""


def share(rang: int, of: int) -> dict[str, object]:
    low, high = wilson(rang / of, of)
    return {"rang": rang, "of": of, "share": rang / of, "ci95": [low, high]}


def honest_agents() -> dict[str, list[str]]:
    """The agents of the default suite that can be handed in, by track."""
    tracks = make_run_config("quick").tracks
    return {track.name: [name for name in track.agents if not name.startswith("oracle")] for track in tracks}


def main() -> None:
    parser = argparse.ArgumentParser(description="Alarms among honest entries.")
    parser.add_argument("entries", nargs="?", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=60, help="of each row")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    started = time.process_time()
    by_track, verified, sentences = honest_agents(), 0, []
    rows: Counter[str] = Counter()
    rang: Counter[str] = Counter()
    entries: Counter[str] = Counter()
    for number in range(arguments.entries):
        agents = [own[number % len(own)] for own in by_track.values()]
        with tempfile.TemporaryDirectory() as folder:
            config = make_run_config(
                "quick", agents=agents, budgets="price=30", episodes=arguments.episodes, seed=1000 + number
            )
            packed = pack(run(config, Path(folder) / "board").folder, Path(folder) / "packed", "Honest", "a@example.org")
            verdict = validate(packed)
        verified += verdict.verified
        rung: set[str] = set()
        for row, said in zip(verdict.rows, verdict.alarms, strict=True):
            rows[row["track"]] += 1
            for sentence in said:
                (alarm,) = (each for each in TRACKS if each in sentence)
                rang[alarm] += 1
                rung.add(alarm)
                sentences.append(f"entry {number}, {row['agent']}: {sentence}")
                print(sentences[-1], flush=True)
        entries.update(rung)
        if (number + 1) % 20 == 0:
            print(f"{number + 1} entries, {verified} verified, {len(sentences)} alarms, "
                  f"{time.process_time() - started:.0f} s", flush=True)  # fmt: skip
    found = {
        "entries": arguments.entries,
        "verified": verified,
        "agents": by_track,
        "rows": dict(rows),
        "alarms": {
            alarm: {
                "entries": share(entries[alarm], arguments.entries),
                "rows": share(rang[alarm], sum(rows[track] for track in tracks)),
            }
            for alarm, tracks in TRACKS.items()
        },
        "sentences": sentences,
        "processor_seconds": round(time.process_time() - started, 1),
    }
    print(json.dumps(found, indent=1))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
