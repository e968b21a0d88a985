"""The same bytes wherever a leaderboard is played, and whatever is lost on the way; and how long it takes.

    python benchmarks/engines.py [--episodes N] [--agents A,B] [--json FILE]

One process, two processes, Ray on one node and on two (of this machine: they share its processors); then two processes and
Ray's with one worker killed by SIGKILL in mid-run, and two nodes of which the second is killed. Every file of every run is
compared with that of the first. Times are by the wall, from the first task to the last line: starting Ray is not in them.
"""

import argparse
import json
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from costgym.experiments.board.run_config import RunConfig, make_run_config
from costgym.experiments.leaderboard import run
from costgym.experiments.play.execution.engine import Engine, Local, open_engine
from costgym.experiments.play.execution.ray_cluster import Ray
from costgym.simulators.files import write_atomically


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@contextmanager
def cluster(nodes: int) -> Iterator[tuple[Engine, Any]]:
    """An engine on so many Ray nodes of one processor each, and the last of the nodes."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    built = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    last = None
    try:
        for _ in range(nodes - 1):
            last = built.add_node(num_cpus=1)
        ray.init(address=built.address, log_to_driver=False, logging_level=logging.ERROR)
        built.wait_for_nodes()
        yield Ray(ray), lambda: built.remove_node(last, allow_graceful=False)
    finally:
        ray.shutdown()
        built.shutdown()


def worker() -> psutil.Process:
    """A process of ours that plays episodes."""
    while True:
        for process in psutil.Process().children(recursive=True):
            try:
                words = " ".join(process.cmdline())
                if "ray::_do_apart" in words or "spawn_main" in words:
                    return process
            except psutil.Error:
                continue
        time.sleep(0.01)


def kill_worker() -> None:
    worker().send_signal(signal.SIGKILL)


def timed(plan: RunConfig, folder: Path, engine: Engine, at_episode: int = 0, loss: Callable[[], None] | None = None) -> float:
    """Seconds of a run; `loss` is called once, when so many episodes are written down."""
    lost = threading.Event()

    def progress(done: int, total: int) -> None:
        if loss is not None and done >= at_episode and not lost.is_set():
            lost.set()
            loss()

    begin = time.monotonic()
    run(plan, folder, progress=progress, engine=engine)
    assert loss is None or lost.is_set()
    return time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", default="react,dfsdt,tot-dfs")
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    plan = make_run_config("quick", agents=arguments.agents.split(","), budgets="price=10,20", episodes=arguments.episodes)
    total = plan.episodes
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        reference: dict[str, bytes] = {}

        def note(name: str, folder: Path, seconds: float) -> None:
            nonlocal reference
            written = files(folder)
            reference = reference or written
            rows.append({"run": name, "seconds": seconds, "episodes_per_s": total / seconds, "same": written == reference})
            print(f"{name:36} {seconds:6.2f} s, {total / seconds:6.0f} episodes/s, "
                  f"{'same bytes' if written == reference else 'DIFFERENT'}", flush=True)  # fmt: skip

        def played(name: str, engine: Engine, loss: Callable[[], None] | None = None) -> None:
            folder = Path(temporary, str(len(rows)))
            note(name, folder, timed(plan, folder, engine, total // 4, loss))

        played("local, 1 job", Local(1))
        played("local, 2 jobs", Local(2))
        played("local, 2 jobs, a worker killed", Local(2), kill_worker)
        with open_engine("ray", 2) as engine:
            played("ray, to start its workers", engine)
            played("ray, 1 node of 2 processors", engine)
            played("ray, 1 node, a worker killed", engine, kill_worker)
        with cluster(2) as (engine, kill_node):
            played("ray, 2 nodes, to start their workers", engine)
            played("ray, 2 nodes of 1 processor", engine)
            played("ray, 2 nodes, the second killed", engine, kill_node)
    if arguments.json is not None:
        write_atomically(arguments.json, json.dumps({"episodes": total, "agents": plan.agents, "runs": rows}, indent=1) + "\n")
    assert all(row["same"] for row in rows)


if __name__ == "__main__":
    main()
