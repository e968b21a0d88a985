"""Compiled kernels on disk."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba", reason="needs the extra `train`")

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
