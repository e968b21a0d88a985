"""Concurrent sessions on one server: the time of a step, and whether every answer is that of the same session played locally.

    python benchmarks/serving.py --sessions 64 --steps 200 --json benchmarks/results/serving.json

The server is a process of its own on loopback, reached by WebSocket from client processes. Two loads: `flat out`, where each of
the clients sends its next step as soon as the answer is there, and `paced`, where it thinks in between (an agent's model
takes longer still). A step's time is the client's: from sending to having the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report
from tests.helpers.served import Exchange, differences, local_sessions, replay, served

SETTINGS = {"split": "test", "max_steps": 400}


def _cpu_s(process: int) -> float:
    """Processor time of a process, seconds (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(address: str, server: int, sessions: list[list[Exchange]], processes: int, pause_s: float) -> dict[str, Any]:
    """Measure one load: figures of its steps."""
    cpu_s = _cpu_s(server)
    parts = [sessions[i::processes] for i in range(processes)]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        done = pool.starmap(_run, [(address, part, pause_s) for part in parts])
    seconds = np.array([each for found, _, _ in done for each in found]) * 1e3
    wrong = [each for _, found, _ in done for each in found]
    wall_s = max(wall_s for _, _, wall_s in done)
    for difference in wrong[:3]:
        print(difference, file=sys.stderr)
    return {
        "pause_ms": 1e3 * pause_s,
        "steps": len(seconds),
        "steps_per_s": round(len(seconds) / wall_s),
        **{f"p{share}_ms": round(float(np.percentile(seconds, share)), 2) for share in (50, 90, 99)},
        "most_ms": round(float(seconds.max()), 2),
        "server_cpu_ms_per_step": round(1e3 * (_cpu_s(server) - cpu_s) / len(seconds), 3),
        "answers": sum(map(len, sessions)),
        "differences": len(wrong),
    }


def _run(address: str, sessions: list[list[Exchange]], pause_s: float) -> tuple[list[float], list[str], float]:
    gc.freeze()  # the clients' own pauses are not what is measured

    async def play() -> tuple[list[tuple[list[float], list[str]]], float]:
        begin = time.perf_counter()
        played = await asyncio.gather(*(replay(address, exchanges, pause_s) for exchanges in sessions))
        return played, time.perf_counter() - begin

    played, wall_s = asyncio.run(play())
    found = [each for exchanges, (_, answers) in zip(sessions, played, strict=True) for each in differences(exchanges, answers)]
    return [each for seconds, _ in played for each in seconds], found, wall_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sessions = local_sessions(options.sessions, options.steps, **SETTINGS)
    begin = os.getloadavg()[0]
    with served("--max-steps", SETTINGS["max_steps"], "--split", SETTINGS["split"]) as (address, process):
        measure(address, process.pid, sessions[:4], options.processes, 0.0)
        loads = {
            "flat out, 1 session": measure(address, process.pid, sessions[:1], 1, 0.0),
            "flat out": measure(address, process.pid, sessions, options.processes, 0.0),
            "paced": measure(address, process.pid, sessions, options.processes, 0.1),
        }
    report = {
        "sessions": options.sessions,
        "steps_each": options.steps,
        "client_processes": options.processes,
        "loads": loads,
        "exit_status": process.returncode,
        "load_of_the_machine_before": round(begin, 2),
        "niceness": os.nice(0),
        "processors": os.cpu_count(),
    }
    write_report(report, options.json)


if __name__ == "__main__":
    main()
