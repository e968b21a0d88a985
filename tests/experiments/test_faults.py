"""A sample of `benchmarks/hostile/faults.py`: commands whose disk fails, fills up or vanishes at one call."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/hostile/faults.py"

needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="the calls of the C library are counted by a compiled shim"
)


@needs_compiler
@pytest.mark.parametrize(
    ("jobs", "trials"),
    [
        pytest.param("collect,pack", 6, marks=pytest.mark.slow),
        pytest.param("leaderboard,add,site,store,export messages,export hf", 12, marks=pytest.mark.slow),
    ],
)
def test_whatever_fails_the_old_or_the_new_is_left_and_the_file_is_named(jobs: str, trials: int, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    line = [sys.executable, str(SCRIPT), "--jobs", jobs, "--sample", str(trials), "--seed", "3", "--json", str(report)]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"}, check=False, timeout=550)
    assert done.returncode == 0, done.stderr[-2000:]
    document = json.loads(report.read_text())
    assert sorted(document) == sorted(jobs.split(","))
    assert all(row["trials"] == trials and row["wrong"] == [] for row in document.values())
