"""The command line: in a process of its own, and in this one."""

import os
import subprocess
import sys
from typing import Any
from unittest.mock import patch

import typer.testing

from costgym.cli.app import app


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
    with patch("os.sched_getaffinity", lambda _: {0}, create=True):
        return typer.testing.CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": str(columns)})
