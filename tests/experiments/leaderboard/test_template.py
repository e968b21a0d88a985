"""The template of a leaderboard repository: its workflow's own lines say yes to an honest submission and no to a forged one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from costgym.experiments.leaderboard.board import run
from costgym.experiments.leaderboard.run_config import make_run_config
from costgym.experiments.leaderboard.submissions.submission import pack

TEMPLATE = Path(__file__).parents[3] / "examples/leaderboard"


def lines() -> list[str]:
    """What the workflow runs after the installation."""
    workflow = yaml.safe_load((TEMPLATE / ".github/workflows/submission.yml").read_text())
    found = [step["run"] for step in workflow["jobs"]["judge"]["steps"] if "run" in step]
    assert "pip install" in found[0] and len(found) == 4
    return found[1:]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="the workflow's lines are for bash")
def test_the_workflow_says_yes_to_an_honest_submission_and_no_to_a_forged_one(tmp_path: Path) -> None:
    repository, terms = tmp_path / "repository", {"budgets": "price=10", "episodes": 2}
    shutil.copytree(TEMPLATE, repository)
    run(make_run_config(agents=["greedy"], **terms), repository / "board")  # type: ignore[arg-type]
    theirs = run(make_run_config(agents=["cheapest"], **terms), tmp_path / "theirs").folder  # type: ignore[arg-type]
    pack(theirs, repository / "submissions/honest", "Honest", "a@example.org")
    command = tmp_path / "bin/costgym"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m costgym "$@"\n')
    command.chmod(0o755)
    summary = tmp_path / "summary.md"
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}

    def play() -> list[int]:
        summary.write_text("")
        bash = ["bash", "-e", "-o", "pipefail", "-c"]
        return [subprocess.run([*bash, line], cwd=repository, env=environment, check=False).returncode for line in lines()]

    assert play() == [0, 0, 0]
    assert summary.read_text().startswith("**yes**: submissions/honest/: 1 rows added, verified by replay")
    assert (repository / "site/index.html").is_file()
    forged = repository / "submissions/forged"
    shutil.copytree(repository / "submissions/honest", forged)
    record = next(forged.rglob("*.jsonl"))
    record.write_text(record.read_text().replace('"share":0.0', '"share":1.0').replace('"price":', '"price":1', 1))
    assert play() == [1, 0, 0]
    assert "**no**: submissions/forged/" in summary.read_text() and "**yes**: submissions/honest/" in summary.read_text()
