"""Count how often the alarms of submissions ring for honest entries, and whether every honest entry is verified.

    python benchmarks/hostile/false_alarms.py [entries] [--first N] [--episodes N] [--json FILE]

An entry is a submission as anybody would make it: one agent of each track of the default suite, all agents of it in turn but
those that read the world or collect past uses for minutes, played on a seed of its own under one of the track's conditions,
packed and validated. Of each alarm: how many entries and rows it rang for, and the Wilson intervals of those shares, among the
rows for which it can ring at all.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

from costgym.experiments.board.run_config import RunConfig, make_run_config
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.leaderboard import run
from costgym.experiments.play.statistics import wilson

TRACKS: dict[str, frozenset[str]] = {
    "better than the optimum": frozenset({"text", "numbers", "plans", "decisions"}),
    "correct facts": frozenset({"text"}),
    "first calls worked": frozenset({"text", "numbers"}),
    "knows every tool": frozenset({"text", "numbers", "plans"}),
    "tasks have no flaw": frozenset({"plans", "decisions"}),
}
"""The alarms, by what their sentences say, and the tracks in which each can ring."""


def share(rang: int, of: int) -> dict[str, object]:
    low, high = wilson(rang / of, of)
    return {"rang": rang, "of": of, "share": rang / of, "ci95": [low, high]}


def honest_agents() -> dict[str, list[str]]:
    """The agents of the default suite that can be handed in, by track."""
    tracks = make_run_config("quick").tracks
    slow = ("oracle", "+btp")
    return {track.name: [name for name in track.agents if not any(each in name for each in slow)] for track in tracks}


def entry(number: int, agents: dict[str, list[str]], episodes: int) -> RunConfig:
    """The configuration of an entry: each track with an agent, under a condition, both in turn."""
    config = make_run_config("quick", seed=1000 + number)
    tracks = []
    for track in config.tracks:
        own = agents[track.name]
        each = track.conditions[(number // len(own)) % len(track.conditions)]
        count = min(episodes, each.episodes)
        few = each.model_copy(update={"episodes": count - count % track.seeds})
        tracks.append(track.model_copy(update={"agents": (own[number % len(own)],), "conditions": (few,)}))
    return config.model_copy(update={"tracks": tuple(tracks), "weights": {}, "experience": None})


def main() -> None:
    parser = argparse.ArgumentParser(description="Alarms among honest entries.")
    parser.add_argument("entries", nargs="?", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="number of the first entry, to go on where another run ended")
    parser.add_argument("--episodes", type=int, default=60, help="of each row, at most")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    started = time.process_time()
    by_track, refused, sentences = honest_agents(), list[str](), list[str]()
    rows: Counter[str] = Counter()
    rang: Counter[str] = Counter()
    entries: Counter[str] = Counter()
    for number in range(arguments.first, arguments.first + arguments.entries):
        with tempfile.TemporaryDirectory() as folder:
            played = run(entry(number, by_track, arguments.episodes), Path(folder) / "board").folder
            verdict = validate(pack(played, Path(folder) / "packed", "Honest", "a@example.org"))
        if not verdict.verified:
            refused.append(f"entry {number}: {verdict.problems[:1]}")
            print(refused[-1], flush=True)
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
            print(f"{number + 1} entries, {len(refused)} refused, {len(sentences)} alarms, "
                  f"{time.process_time() - started:.0f} s", flush=True)  # fmt: skip
    found = {
        "entries": arguments.entries,
        "episodes of a row, at most": arguments.episodes,
        "refused": refused,
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
