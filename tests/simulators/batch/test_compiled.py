"""Compiled kernels on disk."""

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.simulators.batch.rng import say_compiling

KERNEL = """
from costgym.simulators.batch.rng import compiled

@compiled
def twice(x):
    return 2 * x
"""
GONE = b"ccostgym.simulators.batch.rng\nAClassOfAnEarlierVersion\n."  # a pickle of a name that is not there


def load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_kernel_cache_index_of_an_earlier_version_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    assert load(file).twice(3) == 6
    (index,) = tmp_path.rglob("*.nbi")
    with index.open("rb") as store:
        version = pickle.load(store)
    index.write_bytes(pickle.dumps(version, protocol=-1) + GONE)
    assert load(file).twice(4) == 8
    assert GONE not in index.read_bytes()


INTERPRETED = """
from functools import partial
import numpy as np
from gymnasium.vector import AutoresetMode
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.envs.native import SessionVectorEnv
from tests.helpers.lockstep import run_views, session_actions

play = partial(run_views, mode=AutoresetMode.NEXT_STEP)
play(2, 25, 0, scenario="marketplace-writes", max_steps=12)
sessions = {"scalar_env": MarketplaceSessionEnv, "native_env": SessionVectorEnv, "choose": session_actions}
play(2, 25, 0, queries=5, tools=6, concurrent=True, **sessions)

calls = []  # of the first tool, more than a byte counts
def call_the_first(generator, observation, mask):
    calls.append(4 * observation["tools"][0, 0, 11])
    return np.zeros(1, np.int64)
play(1, 270, 3, scenario="marketplace", max_steps=280, budget={}, mask="legal", choose=call_the_first)
assert max(calls) > 255, max(calls)
"""


def test_kernels_play_as_plain_python_where_numba_compiles_nothing() -> None:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", INTERPRETED]
    subprocess.run(command, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, check=True)


def test_a_kernel_that_has_to_be_compiled_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    kernel = SimpleNamespace(_cache=SimpleNamespace(_cache_file=SimpleNamespace(_load_index=dict)))
    for _ in range(3):
        say_compiling(kernel, "what this test is about")
    assert [record.getMessage() for record in caplog.records] == [
        "costgym compiles what this test is about, about a minute; what is compiled is kept on disk"
    ]
    kernel._cache._cache_file._load_index = lambda: {"a signature": "its file"}
    say_compiling(kernel, "what is on disk")
    assert len(caplog.records) == 1
