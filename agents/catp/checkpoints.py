"""Checkpoints of a run: a folder each, complete or not there at all.

`RUN/checkpoints/step-00000500/` holds `policy.safetensors` (the trained weights), `optimizer.safetensors` and `state.json`. A
folder is written under another name and renamed when it is whole, so a killed run leaves no half of one. The last two are kept.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ...simulators.errors import DataError, require

FOLDER = "checkpoints"
POLICY, OPTIMIZER, STATE = "policy.safetensors", "optimizer.safetensors", "state.json"
_KEPT = 2


def checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted(path for path in (run / FOLDER).glob("step-" + "[0-9]" * 8) if (path / STATE).is_file())


def newest(run: Path) -> Path:
    """The newest checkpoint.

    Raises:
        DataError: there is none.
    """
    found = checkpoints(run)
    if not found:
        raise DataError(run, "the run has no checkpoint; train it (again), or wait for its first one")
    return found[-1]


def save(run: Path, step: int, weights: dict[str, Any], optimizer: Any, state: dict[str, Any]) -> Path:
    """Saves a checkpoint and drops the oldest ones.

    Args:
        step: how many steps were taken.
        weights: the trained weights by name.
        optimizer: an AdamW over them, in the same order.
        state: anything else, as JSON.
    """
    safetensors = require("safetensors.torch", "train")
    whole = run / FOLDER / f"step-{step:08d}"
    part = whole.with_suffix(".part")
    if part.exists():
        shutil.rmtree(part)
    part.mkdir(parents=True)
    safetensors.save_file({name: weight.detach().contiguous() for name, weight in weights.items()}, part / POLICY)
    moments = {}
    kept = optimizer.state_dict()["state"]
    for number, name in enumerate(weights):
        for key, value in kept.get(number, {}).items():
            moments[f"{key}/{name}"] = value.detach().contiguous()
    safetensors.save_file(moments, part / OPTIMIZER)
    (part / STATE).write_text(json.dumps({"step": step, **state}) + "\n", encoding="utf-8")
    if whole.exists():
        shutil.rmtree(whole)
    part.rename(whole)
    for old in checkpoints(run)[:-_KEPT]:
        shutil.rmtree(old)
    return whole


def load_weights(checkpoint: Path, weights: dict[str, Any]) -> None:
    """Fills weights from a checkpoint.

    Raises:
        DataError: a file is missing or damaged, or the weights are another policy's.
    """
    tensors = _read(checkpoint / POLICY)
    odd = sorted(set(tensors) ^ set(weights))
    if odd:
        raise DataError(checkpoint / POLICY, f"weights of another policy; differing: {', '.join(odd[:4])}")
    for name, weight in weights.items():
        if tensors[name].shape != weight.shape:
            raise DataError(
                checkpoint / POLICY, f"expected shape {tuple(weight.shape)}, got {tuple(tensors[name].shape)}", name
            )
        weight.data.copy_(tensors[name])


def load_optimizer(checkpoint: Path, weights: dict[str, Any], optimizer: Any) -> dict[str, Any]:
    """Restores the optimiser; returns the rest of the state."""
    tensors = _read(checkpoint / OPTIMIZER)
    whole = optimizer.state_dict()
    names = list(weights)
    whole["state"] = {}
    for key, value in tensors.items():
        kind, name = key.split("/", 1)
        whole["state"].setdefault(names.index(name), {})[kind] = value
    optimizer.load_state_dict(whole)
    return read_state(checkpoint)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint says besides its weights: `step` and whatever was saved with it."""
    try:
        state: Any = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(checkpoint / STATE, f"cannot be read as JSON: {error}") from error
    if not isinstance(state, dict) or not isinstance(state.get("step"), int):
        raise DataError(checkpoint / STATE, "expected a table with the number of steps")
    return state


def _read(path: Path) -> dict[str, Any]:
    safetensors = require("safetensors", "train")
    torch_files = require("safetensors.torch", "train")
    try:
        tensors: dict[str, Any] = torch_files.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(path, f"cannot be read as weights ({error}); an older checkpoint may be whole") from error
    return tensors
