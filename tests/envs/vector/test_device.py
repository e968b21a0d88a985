"""Native environments hand out tensors without a copy, and play the same on a device, for which every kernel compiles."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import costgym
from costgym.simulators.errors import ConfigError, EpisodeOver

pytest.importorskip("torch", reason="needs the extra `train`")
pytest.importorskip("numba", reason="needs the extra `train`")

import numba
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from costgym.envs.vector.device import ON_GPU, DeviceVectorEnv
from costgym.simulators.batch.blocks import is_block
from costgym.simulators.batch.device import Cpu, _kernel
from costgym.simulators.batch.memory import copy_share, take_place
from tests.helpers.ptx import CAPABILITIES, compile_ptx

SOURCE = {"kind": "marketplace", "tools": 30, "providers": 8, "categories": 3, "train": 5, "test": 3, "candidates": [3, 6]}
INEXACT = re.compile(r"\b(fma\.\w+(\.\w+)?\.f(32|64)|(add|sub|mul)\.f(32|64)|(div|sqrt|rcp)\.(approx|full)|\w+\.ftz)\b")
"""Operations in PTX that do not round as the CPU does: fused ones, those that may be fused later, and approximations."""
SMALL: dict[str, dict[str, Any]] = {
    "costgym/Marketplace-v0": {"scenario": {"source": SOURCE, "failures": "storm"}, "max_steps": 12},
    "costgym/MarketplaceSession-v1": {"queries": 8, "tools": 6, "capabilities": 2, "providers": 2, "max_steps": 25},
}


def make(name: str, count: int, **settings: Any) -> Any:
    return costgym.make_vec(name, count, **{**SMALL[name], **settings}).unwrapped


def on_a_device(name: str, count: int, **settings: Any) -> DeviceVectorEnv:
    tables = {"all_tables": True} if name == ON_GPU[0] else {}  # sessions have none
    return DeviceVectorEnv(make(name, count, **tables, **settings), Cpu())


class Replays(Cpu):
    """Captures like a GPU: what is captured is not done, and a replay knows its tensors alone, none of the code around them."""

    captures = True
    recorded: list[Any] | None = None

    def launch(self, row: Any, count: int, *arguments: Any, lanes: int = 1) -> None:
        if self.recorded is None:
            super().launch(row, count, *arguments, lanes=lanes)
        else:
            self.recorded.append(lambda: Cpu.launch(self, row, count, *arguments, lanes=lanes))

    def capture(self, play: Any) -> Any:
        self.recorded = recorded = []

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                out = function(*args, **(kwargs or {}))
                if isinstance(out, torch.Tensor):
                    recorded.append(lambda: out.copy_(function(*args, **(kwargs or {}))))
                return out

        with Mode():
            play()
        self.recorded = None
        return lambda: [launch() for launch in recorded]


def assert_equal(tensors: Any, arrays: Any, ended: Any = None) -> None:
    """Equal to the last bit, and of the same type; of an array of objects, the rows of `ended`."""
    if isinstance(arrays, dict):
        assert sorted(tensors) == sorted(arrays)
        for key, value in arrays.items():
            assert_equal(tensors[key], value, arrays.get("_final_obs"))
    elif isinstance(arrays, tuple):
        for one, other in zip(tensors, arrays, strict=True):
            assert_equal(one, other)
    elif isinstance(arrays, np.ndarray) and arrays.dtype == np.object_:
        for i in np.flatnonzero(ended).tolist():
            assert_equal({key: tensor[i] for key, tensor in tensors.items()}, arrays[i])
    else:
        assert tensors.numpy().dtype == arrays.dtype and tensors.numpy().tobytes() == np.ascontiguousarray(arrays).tobytes()


@pytest.mark.slow
def test_tensors_share_the_memory_of_a_native_environments_arrays() -> None:
    env = costgym.make_vec("costgym/Marketplace-v0", 3, tensors=True, copy=False, **SMALL["costgym/Marketplace-v0"])
    plain = make("costgym/Marketplace-v0", 3)
    assert_equal(env.reset(seed=1), plain.reset(seed=1))
    observations, *_ = env.step(torch.zeros(3, dtype=torch.int32))
    assert observations["tools"].data_ptr() == env.unwrapped._observed[0].ctypes.data  # the tools
    assert_equal(observations, plain.step(np.zeros(3, np.int64))[0])
    assert torch.equal(env.action_masks(), torch.from_numpy(plain.action_masks()))


def test_a_graph_needs_a_gpu_and_one_set_of_tensors() -> None:
    for settings in ({"device": "cuda"}, {"copy": False}):
        with pytest.raises(ConfigError, match="graph: needs a GPU, and copy=False"):
            costgym.make_vec("costgym/Marketplace-v0", 2, graph=True, **settings)


def test_a_graph_is_the_default_where_a_device_captures_and_a_step_writes_to_the_same_tensors() -> None:
    for device, copy, expected in ((Replays(), False, True), (Replays(), True, False), (Cpu(), False, False)):
        native = make("costgym/Marketplace-v0", 2, copy=copy, all_tables=True)
        assert DeviceVectorEnv(native, device)._graph is expected
        assert DeviceVectorEnv(native, device, graph=False)._graph is False


@pytest.mark.parametrize("name", SMALL)
def test_what_every_step_reads_lies_by_field_on_a_device(name: str) -> None:
    env = on_a_device(name, 40)
    trees = env._state, env._tables, env._view, *([env._state.sessions] if name == ON_GPU[1] else [])
    arrays = {field: getattr(tree, field) for tree in trees for field in tree._fields}
    for field in env.native.by_field:
        array = arrays[field]
        assert is_block(array.dtype) if array.dtype.fields else array.flags.f_contiguous, field
    assert env._state.episodes.shape == (2,) and not is_block(env._state.slots.dtype)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:1"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="expected cpu, cuda or cuda:N"):
        costgym.make_vec("costgym/Marketplace-v0", 2, device=name)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("device", "cuda"),
        ("tensors", True),
        ("graph", True),
        ("threads", 2),
        ("copy", False),
        ("all_tables", True),
        ("factored", True),
    ],
)
def test_arguments_of_the_native_batch_are_refused_elsewhere(argument: str, value: Any) -> None:
    for name in ("costgym/OpenCATP-v0", "costgym/OpenCATPCalls-v0", "costgym/DecisionAware-v0"):
        with pytest.raises(ConfigError, match=f"{argument}: is for costgym/Marketplace-v0, .* {name} has none"):
            costgym.make_vec(name, 2, **{argument: value})


@pytest.mark.slow
@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_what_is_played_on_a_device_equals_the_native_environment_to_the_last_bit(name: str, concurrent: bool) -> None:
    # interpreted, since a process would compile every kernel of a GPU for minutes
    settings = f"concurrent={concurrent}, factored={concurrent}"
    command = f"from tests.envs.vector.test_device import play_both; play_both({name!r}, {settings})"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", command], cwd=Path(__file__).parents[3], env=environment, check=True)


def play_both(name: str, **settings: Any) -> None:
    """Play the same on the CPU as it is and as a device, in all modes, with and without a graph."""
    for mode, copy in itertools.product(AutoresetMode, (False, True)):
        native = make(name, 7, autoreset_mode=mode, **settings)
        device = on_a_device(name, 7, copy=copy, autoreset_mode=mode, **settings)
        if not copy:
            device.device, device._graph = Replays(), True
        with pytest.raises(EpisodeOver, match="call reset"):
            device.step(np.zeros(7, np.int64))
        assert_equal(device.reset(seed=3), native.reset(seed=3))
        generator = np.random.default_rng(0)
        for _ in range(60):
            mask = native.action_masks()
            assert_equal(device.action_masks(), mask)
            actions = (generator.random(mask.shape) * mask).argmax(axis=1)
            results = native.step(actions)
            tensors = device.step(torch.from_numpy(actions))
            if "final_obs" not in results[-1]:  # a device does not look whether any has ended, and always hands them out
                for key in [key for key in tensors[-1] if key.removeprefix("_") in ("final_obs", "final_info")]:
                    del tensors[-1][key]
            assert_equal(tensors, results)
            ended = results[2] | results[3]
            if mode is AutoresetMode.DISABLED and ended.any():
                options = {"reset_mask": ended}
                assert_equal(device.reset(options={"reset_mask": torch.from_numpy(ended)}), native.reset(options=options))


def test_lanes_copy_a_row_together_in_wide_words_and_in_narrow_ones() -> None:
    @numba.njit
    def copy_all(target: Any, source: Any, next_row: Any) -> None:
        for k in range(source.shape[0]):
            i = take_place(next_row)
            for lane in range(4):
                copy_share(target, i, source, k, lane, 4)

    for columns in (16, 5):  # rows of 64 bytes, all aligned to 16, and of 20
        source = np.random.default_rng(0).random((3, columns), np.float32)
        target, next_row = np.zeros((4, columns), np.float32), np.ones(1, np.int64)
        copy_all(target, source, next_row)
        assert next_row[0] == 4 and target[0].sum() == 0 and target[1:].tobytes() == source.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "concurrent"), [(ON_GPU[0], False), (ON_GPU[0], True), (ON_GPU[1], True)])
def test_every_kernel_compiles_for_a_gpu_and_fuses_nothing(name: str, concurrent: bool) -> None:
    pytest.importorskip("numba_cuda", reason="needs the extra `cuda`")
    calls = record_calls(on_a_device(name, 2, concurrent=concurrent))
    if name == ON_GPU[1]:  # which minutes compile: the types of both forms are the same, so one kernel plays both
        alone = record_calls(on_a_device(name, 2))
        assert [numba.typeof(tuple(call[2:])) for call in alone] == [numba.typeof(tuple(call[2:])) for call in calls]
    for row, lanes, *arguments in calls:
        for capability in CAPABILITIES:
            code = compile_ptx(row, tuple(arguments), capability, lanes)
            assert re.search(rf"\.target sm_{capability[0]}{capability[1]}", code)
            inexact = INEXACT.search(code)
            assert inexact is None, f"{row.__name__}, {capability}: {inexact}"


def record_calls(env: DeviceVectorEnv) -> list[tuple[Any, ...]]:
    """The row functions that an environment launches, each with its threads a row and arguments once."""
    calls: dict[Any, tuple[Any, ...]] = {}

    class Recorder(Cpu):
        def launch(self, row: Any, count: int, *arguments: Any, lanes: int = 1) -> None:
            calls.setdefault(row, (row, lanes, *arguments))

    env.device = Recorder()
    env.reset(seed=0)
    env.step(np.zeros(env.num_envs, np.int64))
    return list(calls.values())


@pytest.mark.slow
def test_a_gpus_compiler_fuses_what_it_is_not_told_to_leave() -> None:
    pytest.importorskip("numba_cuda", reason="needs the extra `cuda`")
    from numba import cuda

    def add_product(a: Any, b: Any, c: Any) -> None:
        c[0] += a[0] * b[0]

    def row(a: Any, b: Any, c: Any, i: int) -> None:
        c[i] += a[i] * b[i]

    arrays = tuple(np.zeros((3, 4)))
    fused, _ = cuda.compile_ptx(add_product, tuple(map(numba.typeof, arrays)), cc=(9, 0))
    assert INEXACT.search(fused)
    assert not INEXACT.search(compile_ptx(numba.njit(row), arrays, (9, 0)))
    # a kernel that is linked at run time is optimised again, and fused
    assert _kernel(numba.njit(row)).targetoptions["lto"] is False
