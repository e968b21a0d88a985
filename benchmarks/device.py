"""Compare a device's steps with the CPU's bit for bit, and measure how many it makes a second.

python benchmarks/device.py [DEVICE]
"""

import sys
import time
from typing import Any

import numpy as np

from costgym.envs.registration import make_vec
from costgym.simulators.errors import require


def compare_device(
    env_id: str, device: str = "cuda", envs: int = 4096, steps: int = 10_000_000, seed: int = 0, **settings: Any
) -> dict[str, Any]:
    """Play the same actions on a device and on the CPU, and compare observations, rewards, ends and `info` after every step.

    Args:
        env_id: id of an environment with a native batch.
        device: the device, as `make_vec` takes it.
        envs: number of environments.
        steps: number of steps of all environments together, rounded up.
        seed: seed of the first environment, and of the random allowed actions.
        settings: arguments of the environment.

    Returns:
        `steps` made, `differences`: number of steps of the batch after which something differed, and `first`: where, or None.
    """
    there = make_vec(env_id, envs, device=device, tensors=True, copy=False, **settings)
    here = make_vec(env_id, envs, copy=False, **settings)
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
        env_id, device, envs, seed, settings: as in `compare_device`.
        seconds: shortest duration of the measurement.

    Returns:
        `steps_per_second` of all environments together, and `step_s`: seconds that a step of the batch takes.
    """
    torch = require("torch", "train")
    env: Any = make_vec(env_id, envs, device=device, tensors=True, copy=False, **settings)
    env.reset(seed=seed)
    generator = torch.Generator(device=device).manual_seed(seed)

    def play(rounds: int) -> float:
        _wait(device)
        begin = time.perf_counter()
        for _ in range(rounds):
            mask = env.action_masks()
            env.step((torch.rand(mask.shape, generator=generator, device=device) * mask).argmax(dim=1))
        _wait(device)
        return time.perf_counter() - begin

    play(3)  # compiles
    # kernels run behind the host: a round counts only when it is long enough for the final wait not to matter
    rounds = 10
    while (taken := play(rounds)) < seconds:
        rounds = max(2 * rounds, int(1.2 * seconds * rounds / max(taken, 1e-9)))
    return {"env": env_id, "device": device, "envs": envs, "steps_per_second": rounds * envs / taken, "step_s": taken / rounds}


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


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    print(compare_device("costgym/Marketplace-v0", chosen))
    print(measure_device("costgym/Marketplace-v0", chosen))
