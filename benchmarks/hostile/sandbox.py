"""Play every probe of the sandbox, and measure what an episode in it costs beside a plain one.

    python benchmarks/hostile/sandbox.py [episodes] [--rounds N] [--json FILE]

The probes are those of the tests (`tests/adversaries/inside.py`), from inside the sandbox and, where they do no harm, from a
process without one. Episodes are those of `greedy` (numbers) and `react` (text) as an agent's own code, within 20 credits: in
this process, in a process of its own, and in the sandbox, in turn; the smallest time of all rounds counts.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from costgym.agents.base import NUMERIC, TEXT
from costgym.agents.registry import make_agent
from costgym.experiments.board.reruns.process_agent import ProcessAgent
from costgym.experiments.board.reruns.sandbox import BUBBLEWRAP, NONE
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.play.episodes import play_many
from tests.adversaries import probes

OWN = """
from costgym.agents import make_agent
from costgym.agents.classic import GreedyAgent as Greedy

def React():
    return make_agent("react", "costgym/MarketplaceChat-v0")
"""
WAYS = {"in this process": None, "in a process of its own": NONE, "in the sandbox": BUBBLEWRAP}
AGENTS = {"greedy": NUMERIC, "react": TEXT}


@contextmanager
def player(name: str, view: str, kind: str | None) -> Iterator[Any]:
    if kind is None:
        yield make_agent(name, view)
        return
    with tempfile.TemporaryDirectory() as folder, ProcessAgent(name, view, Path(folder), sandbox=kind) as agent:
        yield agent


def costs(episodes: int, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Seconds to start, and milliseconds an episode, by agent and way."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for name, view in AGENTS.items():
        [track] = make_run_config("quick", agents=[name], budgets="price=20").tracks
        env = track.make_env(view, track.conditions[0])
        for _ in range(rounds):
            for way, kind in WAYS.items():
                begin = time.perf_counter()
                with player(name, view, kind) as agent:
                    started = time.perf_counter()
                    if not sum(1 for _ in play_many(env, agent, view, range(1), 0, seeds=track.seeds)):
                        raise RuntimeError("no episode was played")
                    warm = time.perf_counter()
                    for _ in play_many(env, agent, view, range(1, episodes + 1), 0, seeds=track.seeds):
                        pass
                    ended = time.perf_counter()
                mine = figures.setdefault(name, {}).setdefault(way, {"start_s": 1e9, "episode_ms": 1e9})
                mine["start_s"] = min(mine["start_s"], round(started - begin, 3))
                mine["episode_ms"] = min(mine["episode_ms"], round(1000 * (ended - warm) / episodes, 2))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Probes and cost of the sandbox.")
    parser.add_argument("episodes", nargs="?", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folders = {side: Path(folder) / side for side in ("inside", "outside")}
        sides = {side: probes.play(path, BUBBLEWRAP if side == "inside" else NONE) for side, path in folders.items()}
        played = {
            name: {side: outcomes[name] for side, outcomes in sides.items() if name in outcomes}
            for name in probes.inside.PROBES
        }
        for number, (name, ending) in enumerate(probes.ENDINGS.items()):
            played[name] = {"inside": ending.attack(Path(folder) / f"ending-{number}")}
    done = [name for name, outcomes in played.items() if outcomes.get("inside", "").startswith(("done", "error"))]
    report = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "probes": played,
        "played": sum("inside" in outcomes for outcomes in played.values()),
        "not refused": done,
        "succeed without a sandbox": sum(outcomes.get("outside") == "done" for outcomes in played.values()),
        "cost": costs(arguments.episodes, arguments.rounds),
    }
    print(json.dumps({name: value for name, value in report.items() if name != "probes"}, indent=1))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
