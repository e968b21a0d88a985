"""Change one constant or operator of a rule at a time in a copy of the package, and see which test fails, and how soon.

    python benchmarks/hostile/seeded_defects.py --json benchmarks/results/seeded_defects.json

The seconds are those of pytest up to the first failing test, with its start.
"""

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
RULES = "costgym/simulators/rules"
DEFECTS: tuple[tuple[str, str, str, str], ...] = (
    ("queued calls do not wait for their tool", f"{RULES}/gateway.py", ">= spec.concurrency", "> spec.concurrency"),
    ("warm instances cool too soon", f"{RULES}/calls.py", "<= keep_alive_s", "<= 0.5 * keep_alive_s"),
    ("the rate window is too short", f"{RULES}/gateway.py", "now - spec.window_s", "now - 0.9 * spec.window_s"),
    ("cut-off calls are billed in full", f"{RULES}/calls.py", "now - ready if ran", "spec.latency_s if ran"),
    ("a refused connection takes a second", f"{RULES}/calls.py", "CONNECTION_REFUSED_S = 0.05", "CONNECTION_REFUSED_S = 1.0"),
    ("persistence pulls the wrong way", f"{RULES}/failures.py", "pull * (1.0 - chance) if", "-pull * chance if"),
    ("outages are longer", f"{RULES}/failures.py", "begin - lasts_s", "begin - 1.1 * lasts_s"),
    ("wrong arguments are never without data", f"{RULES}/calls.py", "u_content < 0.5", "u_content < 1.5"),
    ("a budget admits one call too many", f"{RULES}/gateway.py", "layout.in_flight(e) + 1 >", "layout.in_flight(e) >"),
    ("effects settle at once", f"{RULES}/writes.py", "now + effect.settles_s", "now"),
    ("a duplicate is clean", f"{RULES}/writes.py", "entity) > 0", "entity) > 1"),
    ("facts in memory never die", f"{RULES}/sessions.py", "found_s <= layout", "found_s <= 1e9 + layout"),
)  # fmt: skip
TESTS = [f"tests/simulators/{name}" for name in ("test_world.py", "test_failures.py", "test_episode.py", "writes", "sessions")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the defects, from 1; all by default")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = list[dict[str, Any]]()
    chosen = [DEFECTS[number - 1] for number in options.only] if options.only else list(DEFECTS)
    for _, file, right, _ in chosen:
        if right not in (ROOT / file).read_text(encoding="utf-8"):
            raise SystemExit(f"{file} no longer holds {right!r}")
    for name, file, right, wrong in chosen:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder)
            for part in ("costgym", "tests"):
                shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
            for part in ("conftest.py", "pyproject.toml"):
                shutil.copy(ROOT / part, copy)
            text = (copy / file).read_text(encoding="utf-8")
            (copy / file).write_text(text.replace(right, wrong), encoding="utf-8")
            flags = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not native"]
            begin = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *flags, *TESTS],
                capture_output=True, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": folder}, check=False,
            )  # fmt: skip
            seconds = time.monotonic() - begin
        failed = [
            line.removeprefix("FAILED ").split(" - ")[0] for line in done.stdout.splitlines() if line.startswith("FAILED ")
        ]
        test = failed[0] if failed else ""
        rows.append({"defect": name, "file": file, "found": bool(test), "seconds": round(seconds, 1), "test": test})
        print(f"{name:42s} {'found' if test else 'NOT FOUND':10s}{seconds:5.0f} s  {test}", flush=True)
    detected = sum(row["found"] for row in rows)
    print(f"{detected} of {len(rows)} found")
    if options.json is not None:
        write_report({"found": detected, "defects": rows}, options.json)
    raise SystemExit(0 if detected == len(rows) else 1)


if __name__ == "__main__":
    main()
