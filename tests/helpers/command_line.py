"""The command line: in a process of its own, in one that dies on the way, and in this one."""

import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
from typing import Any
from unittest import mock

import pytest
import typer.testing

from costgym.cli.app import app
from costgym.experiments.play.execution import engine

PRELOADED = (
    "pytest",
    "tests.helpers.epochs",
    "costgym.cli.data.records",
    "costgym.cli.play.leaderboard",
    "costgym.cli.share.submit",
    "costgym.experiments.board.store.store",
    __name__,
)


def costgym(*arguments: object, hash_seed: str = "0", check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "costgym", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        timeout=300,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def invoke(*arguments: object, columns: int = 200) -> Any:
    """Run a command in this process; its output, its errors and its exit code. Without `--jobs` it starts no other process,
    which would import and build everything again."""
    with mock.patch("os.sched_getaffinity", lambda _: {0}, create=True):
        return typer.testing.CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": str(columns)})


def processes() -> Any:
    """Processes that are forks of one without threads that has imported most modules already, so that they start at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def fork_workers(patch: pytest.MonkeyPatch) -> None:
    """Let workers of engines be such forks, too; they have the environment's variables of the first one."""
    patch.setattr(engine, "get_context", lambda method: processes())


def _run_and_die(moment: str, left: int, arguments: tuple[str, ...]) -> None:
    owner_name, _, name = moment.rpartition("." if "." in moment.rpartition(":")[2] else ":")
    owner = pkgutil.resolve_name(owner_name)
    real = getattr(owner, name)

    def dying(*values: Any, **named: Any) -> Any:
        nonlocal left
        answer = real(*values, **named)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(owner, name, dying)
    app([*arguments])


def killed_after(moment: str, left: int, *arguments: object) -> bool:
    """Run a command that is killed once a function, such as `package.module:Class.method`, has returned so many times; returns
    whether it was killed."""
    process = processes().Process(target=_run_and_die, args=(moment, left, tuple(map(str, arguments))))
    process.start()
    process.join(120)
    return process.exitcode == -signal.SIGKILL
