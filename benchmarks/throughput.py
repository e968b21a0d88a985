"""`costgym bench` with the machine and the date, for the record.

OMP_NUM_THREADS=1 python benchmarks/throughput.py --steps 200000 --json benchmarks/results/throughput.json
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
from pathlib import Path

import gymnasium
import numpy as np
from rich.console import Console

from costgym.experiments.lab.benchmarking.bench import measure, print_bench


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    report = measure(options.steps, options.seed)
    report["machine"]["processor"] = processor()
    report["machine"]["load"] = [round(before, 2), round(os.getloadavg()[0], 2)]
    report["versions"] = {"numpy": np.__version__, "gymnasium": gymnasium.__version__}
    report["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    print_bench(report, Console())
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
