"""`costgym bench` with the machine and the date, whole episodes, and how a native step grows with environments and with tools.

OMP_NUM_THREADS=1 python benchmarks/throughput.py --steps 200000 --json benchmarks/results/throughput.json
"""

import argparse
import datetime
import json
import os
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console

from costgym.experiments.bench import ENV_ID, Entry, _play_rounds, _vector, measure, print_bench

sys.path.insert(0, str(Path(__file__).parent))
from episodes import measure_episodes

FLAT = (256, 1024, 4096, 16384)
"""Numbers of environments between which the cost of a step should not change."""
TOOLS = (16, 64, 256, 1432)
"""Numbers of candidates of a task, to measure how the cost grows with them."""


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def memory(generator: np.random.Generator, seed: int) -> dict[str, Any]:
    """Bytes per environment of a large batch after random play: its state, and the arrays that a step returns."""
    entry = _vector(ENV_ID, 8192, "native", generator, seed)
    for actions in entry.actions:
        observation, rewards, terminated, truncated, info = entry.env.step(actions)
    handed = [*observation.values(), rewards, terminated, truncated]
    handed += [value for key, value in info.items() if not key.startswith("_")]
    return {
        "envs": entry.envs,
        "state_bytes_per_env": round(entry.env.unwrapped.nbytes / entry.envs),
        "step_bytes_per_env": round(sum(array.nbytes for array in handed) / entry.envs),
        "shared_bytes": entry.env.unwrapped.shared_nbytes,
    }


def costs(entries: dict[int, Entry], steps: int) -> dict[int, float]:
    """Nanoseconds of one environment's step, the fastest of alternating rounds."""
    _play_rounds(list(entries.values()), steps)
    return {number: round(1e9 / max(entry.rates), 1) for number, entry in entries.items()}


def wide(tools: int, generator: np.random.Generator, seed: int) -> Entry:
    """A batch whose tasks offer so many tools. It has fewer tasks, because each has a table of its own."""
    source = {"kind": "marketplace", "tools": 1432, "candidates": tools, "train": 40, "test": 1}
    return _vector(ENV_ID, 256, "native", generator, seed, scenario={"source": source})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    report = {**measure(options.steps, options.seed), **measure_episodes(options.seed)}
    generator, seed = np.random.default_rng(options.seed), options.seed
    report["memory"] = memory(generator, seed)
    report["ns_by_envs"] = costs({n: _vector(ENV_ID, n, "native", generator, seed) for n in FLAT}, options.steps)
    report["ns_by_tools"] = costs({n: wide(n, generator, seed) for n in TOOLS}, options.steps)
    report["machine"]["processor"] = processor()
    report["machine"]["load"] = [round(before, 2), round(os.getloadavg()[0], 2)]
    report["versions"] = {"numpy": np.__version__, "gymnasium": gymnasium.__version__}
    report["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    print_bench(report, Console())
    print(
        json.dumps(
            {name: report[name] for name in ("rollouts", "agents", "threads", "memory", "ns_by_envs", "ns_by_tools")}, indent=1
        )
    )
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
