"""Put defects into the world, the batch and the verifier, one at a time, and see how soon `costgym selftest` finds them.

    python benchmarks/hostile/seeded_defects.py --minutes 5 --json benchmarks/results/seeded_defects.json

Each defect is a change of one line in a copy of the package. Prints a table: the defect, whether it was found, after how many
seconds, and by which oracle; the seconds are those of the whole process, with its start and what Numba compiles.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report

ROOT = Path(__file__).parents[2]
CALLS, EPISODE, BATCH = "simulators/calls.py", "simulators/episode.py", "simulators/batch/failures.py"
DEFECTS: tuple[tuple[str, str, str, str], ...] = (
    ("queued calls do not wait for their tool", EPISODE, "blocked = most and (", "blocked = False and ("),
    ("warm instances never cool", EPISODE, "now - idle[-1] <= profile.keep_alive_s", "True"),
    ("the rate window is too short", CALLS, "window[0] <= now - profile.window_s", "window[0] <= now - 0.9 * profile.window_s"),
    ("cut-off calls are billed in full", CALLS, "now - call.ready_s if ran", "spec.latency_s if ran"),
    ("running calls are not reserved", EPISODE,
     "return ledger.price + self._reserved, limit", "return ledger.price, limit"),
    ("persistence pulls the wrong way", "simulators/failures/model.py",
     "chance + pull * (1.0 - chance) if", "chance - pull * chance if"),
    ("outages begin late", "simulators/failures/model.py", "return begin <= at_s < end", "return begin + 0.05 <= at_s < end"),
    ("thinking forgets the first token", "simulators/world.py", "self.ttft_s + usage.output_tokens", "usage.output_tokens"),
    ("the batch's outages are 0.01 % longer", BATCH,
     "kept.begin - rules.burst_lasts_s", "kept.begin - 1.0001 * rules.burst_lasts_s"),
    ("verification accepts everything", "experiments/play/trajectories/verify.py", "    def check(self,",
     "    def check(self, *_):\n        return '', None\n\n    def unused(self,"),
)  # fmt: skip
SEARCH = """
import sys
from costgym.experiments.lab.selftest.run import run
for finding in run(60 * float(sys.argv[1]), int(sys.argv[2]), most=1).findings:
    print(f"{finding.oracle}: {finding.problem}")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the defects, from 1; all by default")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = list[dict[str, Any]]()
    chosen = [DEFECTS[number - 1] for number in given.only] if given.only else list(DEFECTS)
    for _, file, right, _ in chosen:
        if right not in (ROOT / file).read_text(encoding="utf-8"):
            raise SystemExit(f"{file} no longer holds {right!r}")
    for name, file, right, wrong in chosen:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "costgym"
            # what Numba has compiled is kept, unless the defect is in it
            left_out = shutil.ignore_patterns("__pycache__") if file == BATCH else None
            shutil.copytree(ROOT / "costgym", copy, symlinks=False, ignore=left_out)
            text = (copy / file).read_text(encoding="utf-8")
            (copy / file).write_text(text.replace(right, wrong), encoding="utf-8")
            command = [sys.executable, "-c", SEARCH, str(given.minutes), str(given.seed)]
            environment = {**os.environ, "PYTHONPATH": folder}
            begin = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
            seconds = time.monotonic() - begin
        first = done.stdout.strip().split("\n")[0]
        rows.append({"defect": name, "file": file, "found": bool(first), "seconds": round(seconds, 1), "finding": first[:200]})
        print(
            f"{name:42s} {'found' if first else 'NOT FOUND':10s}{seconds:5.0f} s  {first[:90]}{done.stderr[-200:]}", flush=True
        )
    found = sum(row["found"] for row in rows)
    print(f"{found} of {len(rows)} found")
    if given.json is not None:
        write_report({"minutes": given.minutes, "seed": given.seed, "found": found, "defects": rows}, given.json)
    raise SystemExit(0 if found == len(rows) else 1)


if __name__ == "__main__":
    main()
