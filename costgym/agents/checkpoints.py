"""Checkpoints: a folder each, complete or not there at all; the one format of everything that is trained here.

`RUN/checkpoints/step-00000500/` holds `policy.safetensors` (the trained weights), `optimizer.safetensors` (what training needs
to go on) and `state.json` (numbers that it needs to go on). A checkpoint is written under another name and renamed when it is
complete, so a killed run leaves no half of one. The last two are kept. No file is ever unpickled, so a checkpoint from someone
else can be opened: at worst it is refused.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costgym.simulators.errors import DataError, require
from costgym.simulators.files import open_plain, read_json, sync_folder, sync_tree

FOLDER = "checkpoints"
POLICY, OPTIMIZER, STATE = "policy.safetensors", "optimizer.safetensors", "state.json"
_KEPT = 2
_PART = ".part"


def checkpoints(run: Path) -> list[Path]:
    """List the complete checkpoints of a run, oldest first."""
    steps = {path: path.name.removeprefix("step-") for path in (run / FOLDER).glob("step-*") if (path / STATE).is_file()}
    return sorted((path for path, number in steps.items() if number.isdecimal()), key=lambda path: int(steps[path]))


def newest(run: Path) -> Path:
    paths = checkpoints(run)
    if not paths:
        raise DataError(run, "the run has no checkpoint; train it (again), or wait for its first one")
    return paths[-1]


def save_checkpoint(
    run: Path, step: int, weights: Mapping[str, Any], training: Mapping[str, Any], state: Mapping[str, Any]
) -> Path:
    """Write a checkpoint with the tensors and numbers that training needs to go on, atomically; remove the oldest ones."""
    files = require("safetensors.torch", "train")
    whole = run / FOLDER / f"step-{step:08d}"
    part = whole.with_suffix(_PART)
    try:
        _clear(run)
        part.mkdir(parents=True)
        for name, tensors in ((POLICY, weights), (OPTIMIZER, training)):
            files.save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, part / name)
        (part / STATE).write_text(json.dumps({"step": step, **state}) + "\n", encoding="utf-8")
        sync_tree(part)
        for old in [whole] if whole.exists() else []:
            old.rename(old.with_suffix(".old" + _PART))
        part.rename(whole)
        sync_folder(whole.parent)
        for old in [path for path in checkpoints(run)[:-_KEPT] if path != whole]:
            old.rename(old.with_suffix(_PART))  # so that no half of it is taken for a checkpoint
    except (OSError, require("safetensors", "train").SafetensorError) as error:
        raise DataError(
            whole,
            f"cannot be written: {getattr(error, 'strerror', None) or error}; make room, or repair the disk, and run the same "
            "command again; it continues from the previous checkpoint",
        ) from error
    finally:
        _clear(run)
    return whole


def _clear(run: Path) -> None:
    """Remove what a process that was killed, or a disk that was full, left of a checkpoint."""
    for left in (run / FOLDER).glob(f"*{_PART}"):
        shutil.rmtree(left, ignore_errors=True)


def load_weights(checkpoint: Path, weights: Mapping[str, Any]) -> None:
    """Fill weights from a checkpoint; raises DataError where it is missing, damaged or another policy's, or a weight is not a
    finite number."""
    path = checkpoint / POLICY
    tensors = read_tensors(path)
    odd = sorted(set(tensors) ^ set(weights))
    if odd:
        raise DataError(path, f"weights of another policy; differing: {', '.join(odd[:4])}")
    for name, weight in weights.items():
        if tensors[name].shape != weight.shape:
            raise DataError(path, f"expected shape {tuple(weight.shape)}, got {tuple(tensors[name].shape)}", name)
        if not bool(tensors[name].isfinite().all()):
            raise DataError(path, "a weight is not a finite number; train the policy again", name)
        weight.data.copy_(tensors[name])


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Read `step` and the other numbers of a checkpoint."""
    state: Any = read_json(checkpoint / STATE)
    if not isinstance(state, dict) or not isinstance(state.get("step"), int):
        raise DataError(checkpoint / STATE, "expected a table with the number of steps")
    return state


def read_tensors(path: Path) -> dict[str, Any]:
    torch_files = require("safetensors.torch", "train")
    try:
        open_plain(path, follow=False).close()  # its header bounds nothing but what is in the file
        tensors: dict[str, Any] = torch_files.load_file(path)
    except Exception as error:
        raise DataError(
            path, f"cannot be read as weights: it is missing or damaged ({error}); an older checkpoint may be intact"
        ) from error
    return tensors
