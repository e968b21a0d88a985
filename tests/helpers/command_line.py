"""The command line in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys


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
