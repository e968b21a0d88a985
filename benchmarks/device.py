"""Compare a device's steps with the CPU's bit for bit, measure how many it makes a second, and say what limits them.

    python benchmarks/device.py --json benchmarks/results/device.json
    NUMBA_DISABLE_JIT=1 python benchmarks/device.py --device cpu --steps 200 --sizes 8 --seconds 0.01    # the script itself

Of both environments that a GPU plays: 2 million steps compared, kernel by kernel launched from the host and from a captured
graph; a table of steps a second over numbers of environments; and, of the largest, the share of each kernel in a step, its
registers and the warps that they leave room for. With two `--sizes` it takes about as many minutes as kernels take to compile.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report
from costgym.envs.registration import make_vec
from costgym.envs.vector.device import ON_GPU, DeviceVectorEnv
from costgym.simulators.batch.device import Cpu, _kernel
from costgym.simulators.errors import require

SIZES = "4096,16384,65536,131072,262144,1048576"
REGISTERS, WARPS, WARP = 65_536, 64, 32  # of a multiprocessor of an H100 or H200


def make(env_id: str, envs: int, device: str, graph: bool = False, **settings: Any) -> Any:
    """Make an environment on a device; ``cpu`` is the CPU in a GPU's place, which runs the GPU's kernels."""
    if device != "cpu":
        return make_vec(env_id, envs, device=device, copy=False, graph=graph, **settings)
    tables = {"all_tables": True} if env_id == ON_GPU[0] else {}
    native: Any = make_vec(env_id, envs, copy=False, **tables, **settings).unwrapped
    return DeviceVectorEnv(native, Cpu(), graph)


def compare_device(
    env_id: str, device: str = "cuda", envs: int = 4096, steps: int = 2_000_000, seed: int = 0, **settings: Any
) -> dict[str, Any]:
    """Play the same actions on a device and on the CPU, and compare observations, rewards, ends and `info` after every step.

    Args:
        env_id: id of an environment that a GPU plays.
        device: the device, as `make_vec` takes it.
        envs: number of environments.
        steps: number of steps of all environments together, rounded up.
        seed: seed of the first environment, and of the random allowed actions.
        settings: arguments of `make`.

    Returns:
        `steps` made, `differences`: number of steps of the batch after which something differed, and `first`: where, or None.
    """
    there = make(env_id, envs, device, **settings)
    here = make_vec(env_id, envs, copy=False, **{name: value for name, value in settings.items() if name != "graph"})
    generator = np.random.default_rng(seed)
    observed: Any = there.reset(seed=seed)
    expected: Any = here.reset(seed=seed)
    rounds, differences, first = -(-steps // envs), 0, _difference(observed, expected, "reset")
    for step in range(rounds):
        mask = expected[-1]["action_mask"]
        actions = (generator.random(mask.shape, np.float32) * mask).argmax(axis=1)
        observed, expected = there.step(_to(actions, device)), here.step(actions)
        where = _difference(observed, expected, f"step {step}")
        differences += where is not None
        first = first or where
    return {"env": env_id, "device": device, "envs": envs, "steps": rounds * envs, "differences": differences, "first": first}


def measure_device(
    env_id: str, device: str = "cuda", envs: int = 1 << 17, seconds: float = 5.0, seed: int = 0, **settings: Any
) -> dict[str, Any]:
    """Measure the steps per second of wall clock, with random allowed actions that are drawn on the device.

    Args:
        env_id, device, envs, seed, settings: as in `compare_device`. With `graph` actions are drawn in a graph too.
        seconds: shortest duration of the measurement.

    Returns:
        `steps_per_second` of all environments together, and `step_s`: seconds that a step of the batch takes.
    """
    return _measure(make(env_id, envs, device, **settings), env_id, seconds, seed)


def _measure(env: Any, env_id: str, seconds: float, seed: int) -> dict[str, Any]:
    play = _player(env, seed)
    play(3)  # compiles
    # kernels run behind the host: a round counts only when it is long enough for the final wait not to matter
    rounds = 10
    while (taken := play(rounds)) < seconds:
        rounds = max(2 * rounds, int(1.2 * seconds * rounds / max(taken, 1e-9)))
    envs, device = env.num_envs, env.device.name
    return {"env": env_id, "device": device, "envs": envs, "steps_per_second": rounds * envs / taken, "step_s": taken / rounds}


def _player(env: Any, seed: int) -> Callable[[int], float]:
    """A function that plays a number of steps with random allowed actions and returns seconds."""
    torch = require("torch", "train")
    env.reset(seed=seed)
    torch.manual_seed(seed)
    mask, device = env.action_masks(), env.device.name
    actions = torch.zeros(env.num_envs, dtype=torch.int64, device=device)

    def choose() -> None:
        actions.copy_((torch.rand(mask.shape, device=device) * env._mask).argmax(dim=1))

    choose()
    chosen = env.device.capture(choose) if env._graph else choose

    def play(rounds: int) -> float:
        _wait(device)
        begin = time.perf_counter()
        for _ in range(rounds):
            chosen()
            env.step(actions)
        _wait(device)
        return time.perf_counter() - begin

    return play


def limits(env_id: str, device: str, envs: int, step_s: float, seed: int = 0) -> dict[str, Any]:
    """What takes the time of a step that is launched from the host, of `step_s` seconds: the seconds in which the device works,
    those of each kernel, its registers and local memory, and the share of a processor's warps that they leave room for."""
    from torch.profiler import ProfilerActivity, profile

    env, rounds = make(env_id, envs, device), 20
    play = _player(env, seed)
    play(3)
    with profile(activities=[ProfilerActivity.CPU if device == "cpu" else ProfilerActivity.CUDA]) as measured:
        play(rounds)
    name = "self_cpu_time_total" if device == "cpu" else "self_device_time_total"
    parts = {event.key[:60]: getattr(event, name) / 1e6 / rounds for event in measured.key_averages()}
    largest = dict(sorted(parts.items(), key=lambda part: -part[1])[:8])
    working = sum(parts.values())
    rows = {}
    book = env.native.kernels
    for row, lanes in ((book.act_row, 1), *book.BEGINNING) if device != "cpu" else ():
        kernel = _kernel(row, lanes)
        registers = max(kernel.get_regs_per_thread().values())
        warps = min(WARPS, REGISTERS // (-(-registers // 8) * 8 * WARP))
        local = max(kernel.get_local_mem_per_thread().values())
        rows[row.__name__] = {"registers": registers, "local_bytes": local, "warps_share": warps / WARPS}
    host = working < 0.5 * step_s
    return {"device_s": working, "largest_s": largest, "kernels": rows, "limiter": "the host" if host else next(iter(largest))}


def _to(actions: Any, device: str) -> Any:
    return require("torch", "train").from_numpy(actions).to(device)


def _wait(device: str) -> None:
    if device != "cpu":
        require("torch", "train").cuda.synchronize(device)


def _difference(tensors: Any, arrays: Any, where: str) -> str | None:
    """Return the first place at which tensors and arrays differ in a bit; arrays of objects are left out."""
    if isinstance(arrays, dict):
        pairs = [(f"{where}, {key}", tensors[key], value) for key, value in arrays.items()]
    elif isinstance(arrays, tuple):
        pairs = [(where, one, other) for one, other in zip(tensors, arrays, strict=True)]
    elif arrays.dtype == np.object_:
        return None
    else:
        array = tensors.cpu().numpy()
        same = array.dtype == arrays.dtype and array.tobytes() == np.ascontiguousarray(arrays).tobytes()
        return None if same else where
    return next((difference for name, one, other in pairs if (difference := _difference(one, other, name)) is not None), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=2_000_000, help="to compare, of each environment and form")
    parser.add_argument("--sizes", default=SIZES, help="numbers of environments")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a measurement")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {"compared": [], "rows": [], "limits": {}}
    sizes = [int(size) for size in options.sizes.split(",")]
    for env_id in ON_GPU:
        for graph in (False, True):
            comparison = compare_device(env_id, options.device, min(4096, *sizes), options.steps, graph=graph)
            report["compared"].append({**comparison, "graph": graph})
            where = f", first at {comparison['first']}" if comparison["differences"] else ""
            print(
                f"{env_id}, graph={graph}: {comparison['differences']} of {comparison['steps']:,} steps differ{where}",
                flush=True,
            )
        eager = 0.0
        for size in sizes:
            rows = [measure_device(env_id, options.device, size, options.seconds, graph=graph) for graph in (False, True)]
            report["rows"] += [{**row, "graph": graph} for row, graph in zip(rows, (False, True), strict=True)]
            eager = rows[0]["step_s"]
            rates = [row["steps_per_second"] / 1e6 for row in rows]
            print(f"{env_id} {size:9,}: {rates[0]:8.2f} eager, {rates[1]:8.2f} in a graph, million steps/s", flush=True)
        report["limits"][env_id] = limit = limits(env_id, options.device, sizes[-1], eager)
        print(f"{env_id}: limited by {limit['limiter']}; {limit}", flush=True)
    if options.device != "cpu":
        report["gpu"] = require("torch", "train").cuda.get_device_name(options.device)
    write_report(report, options.json, ("numpy", "numba", "torch"))
    return int(any(comparison["differences"] for comparison in report["compared"]))


if __name__ == "__main__":
    sys.exit(main())
