"""Measure how much quicker a record is verified than played.

    python benchmarks/verification.py [--episodes N] [--repeats N] [--agents A,B,...] [--json FILE]

Every agent's episodes are collected (played and written down, as `costgym collect` does) and verified (read, replayed and
compared, as `costgym verify` does), turn about, several times; a time is that of this process's processor, the best of its
repeats, in a world that stands already.
"""

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import costgym
from costgym.agents.registry import make_agent
from costgym.experiments.board.verify import verify
from costgym.experiments.play.collect import collect
from costgym.simulators.files import write_atomically

AGENTS = "react,dfsdt,tot-dfs,plan-act,react+ecoact"


def measure(name: str, scenario: str, episodes: int, repeats: int) -> dict[str, Any]:
    """Seconds to play and to verify the same episodes, best of `repeats` each, and their ratio."""
    agent = make_agent(name)
    env = costgym.make(agent.env_id, scenario=scenario, split="train", max_steps=400, disable_env_checker=True)
    played, verified = [], []
    size = 0
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.process_time()
            path = collect(env, agent, episodes, folder)
            middle = time.process_time()
            verdict = verify(path)
            end = time.process_time()
            assert verdict.verified and verdict.episodes == episodes, verdict.problems
            size = path.stat().st_size
        played.append(middle - begin)
        verified.append(end - middle)
    play_s, verify_s = min(played), min(verified)
    return {
        "agent": name,
        "episodes": episodes,
        "bytes": size,
        "play_s": play_s,
        "verify_s": verify_s,
        "ratio": play_s / verify_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", default=AGENTS)
    parser.add_argument("--scenario", default="marketplace")
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.agents.split(","):
        row = measure(name, arguments.scenario, arguments.episodes, arguments.repeats)
        rows.append(row)
        folder = 1e6 / row["episodes"]
        print(f"{name:14} play {row['play_s'] * folder:6.0f} µs an episode, verify {row['verify_s'] * folder:6.0f} µs, "
              f"{row['ratio']:.2f} times as quick", flush=True)  # fmt: skip
    play_s, verify_s = sum(row["play_s"] for row in rows), sum(row["verify_s"] for row in rows)
    print(f"together       {play_s / verify_s:.2f} times as quick")
    if arguments.json is not None:
        report = {
            "scenario": arguments.scenario, "python": platform.python_version(), "processor": platform.machine(),
            "repeats": arguments.repeats, "rows": rows, "ratio": play_s / verify_s,
        }  # fmt: skip
        write_atomically(arguments.json, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
