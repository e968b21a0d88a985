"""The template of a leaderboard repository: its workflow's own lines say yes to an honest submission and no to a forged one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.leaderboard import run

TEMPLATE = Path(__file__).parents[3] / "examples/leaderboard"


def workflow() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((TEMPLATE / ".github/workflows/submission.yml").read_text())
    return document


def lines() -> list[str]:
    """What the workflow runs after the installation."""
    runs = [step["run"] for step in workflow()["jobs"]["judge"]["steps"] if "run" in step]
    assert "pip install" in runs[0] and len(runs) == 4
    return runs[1:]


def test_the_site_is_published_from_the_main_branch_whether_an_entry_was_refused_or_not() -> None:
    jobs = workflow()["jobs"]
    assert jobs["publish"]["needs"] == jobs["verdict"]["needs"] == "judge"
    assert jobs["publish"]["if"] == "github.event_name == 'push'"
    uses = [step.get("uses", "") for job in ("judge", "publish") for step in jobs[job]["steps"]]
    assert [use.partition("@")[0] for use in uses if "pages" in use] == [
        "actions/upload-pages-artifact",
        "actions/deploy-pages",
    ]


class Repository:
    """A copy of the template with a leaderboard, in which the workflow's lines are run."""

    def __init__(self, folder: Path) -> None:
        self.place, self.folder = folder / "repository", folder
        shutil.copytree(TEMPLATE, self.place)
        run(make_run_config(agents=["greedy"], **TERMS), self.place / "board")
        (folder / "bin").mkdir()
        for name, module in (("costgym", "-m costgym"), ("python", "")):
            command = folder / "bin" / name
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            command.chmod(0o755)
        self.summary, self.output = folder / "summary.md", folder / "output"
        about = {"GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_OUTPUT": str(self.output)}
        self.environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", **about}

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *who, *arguments], cwd=self.place, check=True, capture_output=True, text=True
        ).stdout.strip()

    def play(self, base: str = "") -> list[int]:
        self.summary.write_text("")
        self.output.write_text("")
        if base and (self.place / "board/episodes").exists():  # the workflow begins with a checkout
            self.git("checkout", "-q", base, "--", "board")
            self.git("clean", "-fdq", "board")
        bash = ["bash", "-e", "-o", "pipefail", "-c"]
        environment = {**self.environment, "BASE": base}
        return [subprocess.run([*bash, line], cwd=self.place, env=environment, check=False).returncode for line in lines()]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


TERMS: dict[str, Any] = {"budgets": "price=10", "episodes": 2}
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="the workflow's lines are for bash")


@pytest.mark.slow
@needs_bash
def test_the_workflow_says_yes_to_an_honest_submission_and_no_to_a_forged_one(repository: Repository) -> None:
    theirs = run(make_run_config(agents=["cheapest"], **TERMS), repository.folder / "theirs").folder
    pack(theirs, repository.place / "submissions/honest", "Honest", "a@example.org")
    assert repository.play() == [0, 0, 0]
    assert repository.summary.read_text().startswith("**yes**: submissions/honest/: 1 rows added, verified by replay")
    assert repository.output.read_text() == "refused=0\n"
    forged = repository.place / "submissions/forged"
    shutil.copytree(repository.place / "submissions/honest", forged)
    record = next(forged.rglob("*.jsonl"))
    record.write_text(record.read_text().replace('"share":0.0', '"share":1.0').replace('"price":', '"price":1', 1))
    shutil.rmtree(repository.place / "board/episodes")
    assert repository.play() == [0, 0, 0]
    text = repository.summary.read_text()
    assert "**no**: submissions/forged/" in text and "**yes**: submissions/honest/" in text
    assert repository.output.read_text() == "refused=1\n"
    assert (repository.place / "board/episodes/index.html").is_file()


@pytest.mark.slow
@needs_bash
@pytest.mark.skipif(shutil.which("git") is None, reason="the workflow reads the main branch by git")
def test_a_pull_request_displaces_neither_an_entry_nor_the_leaderboard(repository: Repository) -> None:
    path = repository.place
    cheapest = run(make_run_config(agents=["cheapest"], **TERMS), repository.folder / "cheapest").folder
    pack(cheapest, path / "submissions/standing", "Standing", "a@example.org")
    repository.git("init", "-q")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "standing")
    base = repository.git("rev-parse", "HEAD")
    pack(cheapest, path / "submissions/before it", "Standing", "b@example.org")
    pack(cheapest, path / "submissions/new", "New", "b@example.org")
    (path / "board/run.json").write_text("{}")
    assert repository.play(base) == [0, 0, 0]
    lines = repository.summary.read_text().splitlines()
    assert lines[0].startswith("**no**: board/: changes what only whoever keeps the leaderboard writes")
    assert [line[:40] for line in lines[1:] if line.startswith("**")] == [
        "**no**: submissions/before it/: error: --add"[:40],
        "**yes**: submissions/new/: 1 rows added, "[:40],
    ]
    assert "'Standing' is an entry of a@example.org" in repository.summary.read_text()
    shutil.rmtree(path / "submissions/before it")
    shutil.rmtree(path / "submissions/standing")
    pack(cheapest, path / "submissions/standing", "Standing", "a@example.org", description="Mine now.")
    assert repository.play(base) == [0, 0, 0]
    assert "**yes**: submissions/standing/, which replaces an entry that stands: 1 rows" in repository.summary.read_text()
    shutil.rmtree(path / "submissions/standing")
    assert repository.play(base) == [0, 0, 0]
    assert "**no**: submissions/standing/: removes an entry that stands" in repository.summary.read_text()
    assert repository.output.read_text() == "refused=1\n"
    (path / "epochs").mkdir()
    (path / "epochs/chain.jsonl").write_text("{}")
    assert repository.play(base) == [0, 0, 0]
    assert "**no**: epochs/: changes what only" in repository.summary.read_text()
