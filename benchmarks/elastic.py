"""A Ray cluster that grows and shrinks under a leaderboard, loses its head, loses the command; the same bytes each time.

    python benchmarks/elastic.py [--episodes N] [--agents A,B] [--json FILE]

Nodes are what `ray start` makes, all on this machine, of one processor each. One joins at a quarter of the run and one at a
half; the first of them leaves in order at 60 % (SIGTERM), the other is killed at 75 % (SIGKILL). Who did how many tasks is what
Ray's own context said on the node that did them. Then the head is killed in mid-run, with all that it runs, and later the
command itself; each time the same command is given again. Every file of every run is compared with that of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engines import files

from costgym.experiments.board.run_config import RunConfig, make_run_config
from costgym.experiments.leaderboard import run
from costgym.experiments.play.execution.engine import Local, open_engine
from costgym.experiments.play.execution.ray_cluster import Ray
from costgym.simulators.files import write_atomically

BIN = Path(sys.executable).parent


class Node:
    """A node of the cluster at an address, or its head."""

    def __init__(self, address: str, head: bool = False) -> None:
        place = ["--head", "--port", address.partition(":")[2], "--include-dashboard=false"] if head else ["--address", address]
        command = [BIN / "ray", "start", "--block", "--disable-usage-stats", "--num-cpus", "1", *place]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def leave(self) -> None:
        """In order: what it does is moved first."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def die(self) -> None:
        """All of it at once, as when a machine is switched off."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def answers(address: str) -> None:
    """Wait until a head takes connections."""
    host, _, port = address.partition(":")
    while True:
        try:
            socket.create_connection((host, int(port)), 1.0).close()
            return
        except OSError:
            time.sleep(0.2)


def alive() -> list[str]:
    import ray

    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


def joined(address: str, names: dict[str, str], name: str) -> Node:
    """A new node, once Ray's state lists it; `names` gets its id."""
    before = set(alive())
    node = Node(address)
    while not set(alive()) - before:
        time.sleep(0.2)
    names[(set(alive()) - before).pop()] = name
    return node


def grow_and_shrink(plan: RunConfig, folder: Path, total: int) -> dict[str, Any]:
    """A run on one node, on two, on three, on two, on one."""
    address = free_address()
    head = Node(address, head=True)
    answers(address)
    names: dict[str, str] = {}
    nodes: list[Node] = []
    log: list[str] = []

    def note(done: int, what: str) -> None:
        log.append(f"{done} of {total} episodes: {what}; tasks so far {counted()}")
        print(" ", log[-1], flush=True)

    def counted() -> dict[str, int]:
        return {names[node]: count for node, count in engine.tasks_by_node.items()}

    def at(done: int, all_: int) -> None:
        while steps and done >= steps[0][0] * all_:
            _, what, do = steps.pop(0)
            note(done, what)
            do()

    steps: list[tuple[float, str, Callable[[], None]]] = [
        (0.25, "a second node joins", lambda: nodes.append(joined(address, names, "second"))),
        (0.5, "a third node joins", lambda: nodes.append(joined(address, names, "third"))),
        (0.6, "the second leaves", lambda: nodes[0].leave()),
        (0.75, "the third is killed", lambda: nodes[1].die()),
    ]
    try:
        with open_engine("ray", None, address) as engine:
            assert isinstance(engine, Ray)
            names[alive()[0]] = "first"
            begin = time.monotonic()
            run(plan, folder, progress=at, engine=engine)
            seconds = time.monotonic() - begin
            note(total, "the end")
        return {"run": "nodes join and leave", "seconds": seconds, "tasks": counted(), "log": log}
    finally:
        head.leave()


def command(plan: RunConfig, folder: Path, address: str) -> subprocess.Popen[str]:
    budgets = ",".join(f"{condition.budget['price']:g}" for condition in plan.conditions)
    words: list[object] = ["leaderboard", "--agents", ",".join(plan.agents), "--budgets", f"price={budgets}"]
    words += ["--episodes", plan.conditions[0].episodes]
    words += ["--engine", "ray", "--ray-address", address, "--out", folder, "--quiet"]
    return subprocess.Popen([BIN / "costgym", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(folder: Path, episodes: int, process: subprocess.Popen[str]) -> int:
    """Wait until so many episodes are written down; returns how many are."""
    path = folder / "episodes.jsonl"
    while process.poll() is None:
        found = path.read_bytes().count(b"\n") if path.exists() else 0
        if found >= episodes:
            return found
        time.sleep(0.05)
    raise SystemExit(f"the command ended early: {process.communicate()}")


def lose(what: str, plan: RunConfig, folder: Path, total: int) -> dict[str, Any]:
    """Kill the head or the command in mid-run; give the same command again."""
    address = free_address()
    head = Node(address, head=True)
    answers(address)
    try:
        first = command(plan, folder, address)
        until(folder, total // 4, first)
        begin = time.monotonic()
        if what == "head":
            head.die()
        else:
            first.kill()
        said = first.communicate()[1].strip().splitlines()
        ended_s = time.monotonic() - begin
        kept = (folder / "episodes.jsonl").read_bytes().count(b"\n")
        print(
            f"  the {what} was killed; the command ended after {ended_s:.1f} s with {first.returncode}: {said[-1:]}", flush=True
        )
        if what == "head":
            address = free_address()
            head = Node(address, head=True)
            answers(address)
        begin = time.monotonic()
        again = command(plan, folder, address)
        errors = again.communicate()[1]
        if again.returncode:
            raise SystemExit(errors)
        seconds = time.monotonic() - begin
        print(f"  {kept} of {total} episodes were kept, the others played in {seconds:.1f} s", flush=True)
        return {
            "run": f"the {what} killed, the command given again", "ended_after_s": ended_s, "exit_status": first.returncode,
            "said": said[-1] if said else "", "episodes_kept": kept, "seconds_again": seconds,
        }  # fmt: skip
    finally:
        head.leave()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", default="react,dfsdt")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    # a token of their own keeps everyone else out of these clusters; nodes and commands inherit it
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    plan = make_run_config("quick", agents=arguments.agents.split(","), budgets="price=10,20", episodes=arguments.episodes)
    total = plan.episodes
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        begin = time.monotonic()
        run(plan, Path(place, "here"), engine=Local(1))
        rows.append({"run": "local, 1 job", "seconds": time.monotonic() - begin})
        reference = files(Path(place, "here"))
        for name, tried in (
            ("elastic", lambda folder: grow_and_shrink(plan, folder, total)),
            ("head", lambda folder: lose("head", plan, folder, total)),
            ("command", lambda folder: lose("command", plan, folder, total)),
        ):
            folder = Path(place, name)
            row = tried(folder)
            row["same"] = files(folder) == reference
            rows.append(row)
            print(f"{row['run']}: {'same bytes' if row['same'] else 'DIFFERENT'}", flush=True)
    if arguments.json is not None:
        write_atomically(arguments.json, json.dumps({"episodes": total, "agents": plan.agents, "runs": rows}, indent=1) + "\n")
    assert all(row.get("same", True) for row in rows)


if __name__ == "__main__":
    main()
