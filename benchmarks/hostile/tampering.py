"""Tampered records are rejected, honest ones are not, and checking is quicker than playing.

    python benchmarks/hostile/tampering.py [records] [agent] [--env ID] [--json FILE]

Plays a collection, then edits it one value at a time, each field in turn: half of the edits as they are, half with the seal
recomputed, as a forger who knows the code would. Every edit must be found, with its line and a reason, and no honest record
rejected. A name under a fresh seal is no lie that replay could know, so names are edited under the old seal alone. Times are of
this process's processor, best of three.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import costgym
from costgym.agents.base import Agent
from costgym.agents.registry import make_agent
from costgym.envs.base import base_env
from costgym.experiments.board.verify import verify
from costgym.experiments.play.collect import collect
from costgym.experiments.play.trajectories.format import Header, Trajectory, seal_of
from costgym.experiments.play.trajectories.record import record
from costgym.experiments.play.trajectories.verify import Checker

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.helpers.records import places, with_another_value

NOT_DERIVED = ("agent", "model", "episode", "seal")
"""Fields that the seal alone protects: a name says nothing about the world."""


def tamper(path: Path, records: int, seed: int = 0) -> dict[str, Any]:
    """Edit a collection `records` times and count what is found."""
    chance = np.random.default_rng(seed)
    header_line, *lines = path.read_text().splitlines()
    header = Header(**json.loads(header_line))
    fields = list(json.loads(lines[0]))
    rejected: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    missed: list[str] = []
    forged = path.with_name("forged.jsonl")
    for turn in range(records):
        field = fields[turn % len(fields)]
        document = json.loads(lines[int(chance.integers(len(lines)))])
        leaves = [leaf for leaf in places(document) if leaf[0] == field]
        leaf = leaves[int(chance.integers(len(leaves)))]
        wrong = with_another_value(document, leaf, lambda count: int(chance.integers(count)))
        if turn // len(fields) % 2 and field not in NOT_DERIVED:
            wrong["seal"] = seal_of(Trajectory(**{**wrong, "seal": ""}), header.seal)
        forged.write_text(f"{header_line}\n{json.dumps(wrong)}\n")
        verdict = verify(forged)
        tried[field] += 1
        if verdict.verified or "line 2" not in verdict.problems[0]:
            missed.append(f"{leaf}: {document['task']}")
        else:
            rejected[field] += 1
            reasons.setdefault(field, verdict.problems[0].split(": ", 1)[-1])
    forged.unlink()
    honest = verify(path)
    return {
        "records": records,
        "rejected": sum(rejected.values()),
        "missed": missed,
        "fields": {field: [rejected[field], tried[field]] for field in fields},
        "reasons": reasons,
        "honest": len(lines),
        "honest_rejected": len(lines) - honest.episodes,
    }


def seconds(do: Callable[[], None]) -> float:
    """Processor time of the best of three."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        do()
        times.append(time.process_time() - begin)
    return min(times)


def speed(path: Path, agent: Agent, episodes: int) -> dict[str, float]:
    """Seconds to play, to record and to verify the same episodes; each in a warm world."""
    header_line, *lines = path.read_text().splitlines()
    header = Header(**json.loads(header_line))
    env = header.make()
    worlds = [base_env(env).instance(index, 0) for index in range(episodes)]

    def playing() -> None:
        for number, seed, options in worlds:
            record(env, agent, number, seed, options=options)

    def checking() -> None:
        checker = Checker(header)
        checker.env = env
        for line in lines:
            problem, _ = checker.check(Trajectory(**json.loads(line)), line)
            assert not problem, problem

    return {"play_s": seconds(playing), "verify_s": seconds(checking)}


def player_in(env_id: str | None, name: str) -> tuple[Agent, Any]:
    """An agent and where it plays: a stormy market, or the OpenCATP tools under a budget that some plans pass."""
    if env_id is None:
        agent = make_agent(name)
        settings: dict[str, Any] = {"scenario": "storm", "split": "train", "max_steps": 400}
    else:
        agent = make_agent(name, env_id)
        settings = {"tasks": "all", "budget": {"price": 1.0}}
    return agent, costgym.make(agent.env_id, disable_env_checker=True, **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=int, nargs="?", default=1000)
    parser.add_argument("agent", nargs="?", default="react")
    parser.add_argument("--env", help="a view of OpenCATP, played by one of its planners")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    records, name, out, episodes = given.records, given.agent, given.json, 200
    with tempfile.TemporaryDirectory() as folder:
        agent, env = player_in(given.env, name)
        path = collect(env, agent, episodes, folder)
        report = {"agent": name, "env": agent.env_id, **tamper(path, records), **speed(path, agent, episodes)}
    report["play_to_verify"] = report["play_s"] / report["verify_s"]
    print(f"{report['rejected']} of {records} tampered records rejected, {report['honest_rejected']} of {episodes} honest ones")
    for field, (found, tried) in report["fields"].items():
        print(f"  {field:13} {found}/{tried}  {report['reasons'].get(field, '')[:110]}")
    for place in report["missed"]:
        print(f"  missed: {place}")
    print(f"{episodes} episodes of {name}: playing {report['play_s']:.3f} s, verifying {report['verify_s']:.3f} s, "
          f"{report['play_to_verify']:.1f} times as quick")  # fmt: skip
    if out is not None:
        out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
