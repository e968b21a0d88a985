"""Checkpoints: a folder each, complete or not there at all; the one format of everything that is trained here.

`RUN/checkpoints/step-00000500/` holds `policy.safetensors` (the trained weights), `optimizer.safetensors` (what training needs
to go on) and `state.json`. A folder is written under another name and renamed when it is whole, so a killed run leaves no half
of one. The last two are kept. No file is ever unpickled, so a checkpoint from a stranger can be opened: at worst it is refused.

What a run *is* stands in its own file beside them: `config.json`, or, of reinforcement learning, `checkpoint.json`: the
algorithm, the environment with its settings and scenario, the network, the seed, the metrics, and the steps of the checkpoint
that counts. Older runs of it, which hold `policy-N.safetensors` and `training-N.safetensors` instead, are read too.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..simulators.errors import ConfigError, DataError, require
from ..simulators.scenario import Scenario
from ..simulators.version import __version__
from .base import NUMERIC

FOLDER = "checkpoints"
POLICY, OPTIMIZER, STATE = "policy.safetensors", "optimizer.safetensors", "state.json"
_KEPT = 2
FORMAT = "costgym.policy/1"
MANIFEST = "checkpoint.json"
LARGEST_MANIFEST = 16 * 2**20


# -- any run ------------------------------------------------------------------------------------------------------------------


def checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted((path for path in (run / FOLDER).glob("step-*") if _is_whole(path)), key=_steps_of)


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
    moments = {}
    kept = optimizer.state_dict()["state"]
    for number, name in enumerate(weights):
        for key, value in kept.get(number, {}).items():
            moments[f"{key}/{name}"] = value
    return save_tensors(run, step, weights, moments, state)


def save_tensors(
    run: Path, step: int, weights: Mapping[str, Any], training: Mapping[str, Any], state: Mapping[str, Any]
) -> Path:
    """The same where it is known which tensors training goes on with."""
    safetensors = require("safetensors.torch", "train")
    whole = run / FOLDER / f"step-{step:08d}"
    part = whole.with_suffix(".part")
    if part.exists():
        shutil.rmtree(part)
    part.mkdir(parents=True)
    for name, tensors in ((POLICY, weights), (OPTIMIZER, training)):
        safetensors.save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, part / name)
    (part / STATE).write_text(json.dumps({"step": step, **state}) + "\n", encoding="utf-8")
    if whole.exists():
        shutil.rmtree(whole)
    part.rename(whole)
    for old in checkpoints(run)[:-_KEPT]:
        if old != whole:
            shutil.rmtree(old)
    return whole


def load_weights(checkpoint: Path, weights: dict[str, Any]) -> None:
    """Fills weights from a checkpoint.

    Raises:
        DataError: a file is missing or damaged, or the weights are another policy's.
    """
    tensors = read_tensors(checkpoint / POLICY)
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
    tensors = read_tensors(checkpoint / OPTIMIZER)
    whole = optimizer.state_dict()
    names = list(weights)
    whole["state"] = {}
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        if name not in weights:
            raise DataError(checkpoint / OPTIMIZER, f"the optimiser of another policy; it has {key!r}")
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


def read_tensors(path: Path) -> dict[str, Any]:
    """A safetensors file; raises DataError where it is none."""
    torch_files = require("safetensors.torch", "train")
    try:
        found: dict[str, Any] = torch_files.load_file(path)
    except Exception as error:
        raise DataError(
            path, f"cannot be read as weights: it is missing or damaged ({error}); an older checkpoint may be whole"
        ) from error
    return found


def _is_whole(path: Path) -> bool:
    return path.name.removeprefix("step-").isdecimal() and (path / STATE).is_file()


def _steps_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


# -- reinforcement learning ---------------------------------------------------------------------------------------------------


class Checkpoint(BaseModel):
    """What `checkpoint.json` says.

    Attributes:
        format, version: of the file, and of the costgym that wrote it.
        algorithm: "ppo" or "dqn".
        env: id of the environment.
        settings: of the environment: split, budget, enforcement and so on.
        scenario: the whole scenario.
        network: what `ToolNetwork.describe` said.
        training: settings of the algorithm.
        seed: of the run.
        steps, segments, seconds: how far training is: decisions, stretches between checkpoints, seconds of training.
        state: numbers that training goes on with (the Lagrange multiplier and so on).
        metrics: of the last stretch.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: str = FORMAT
    version: str = __version__
    algorithm: str
    env: str = NUMERIC
    settings: dict[str, Any]
    scenario: Scenario
    network: dict[str, Any]
    training: dict[str, Any]
    seed: int = Field(ge=0)
    steps: int = Field(ge=0)
    segments: int = Field(ge=0)
    seconds: float = Field(ge=0)
    state: dict[str, float] = Field(default_factory=dict)
    metrics: dict[str, float | None] = Field(default_factory=dict)


def save_checkpoint(run: Path, checkpoint: Checkpoint, weights: dict[str, Any], training: dict[str, Any]) -> Path:
    """Write a checkpoint; a crash leaves the one before it in place.

    Args:
        run: the folder, which exists.
        checkpoint: what to say of it.
        weights: tensors of the policy by name.
        training: tensors that training needs to go on, by name.

    Returns:
        The file of the weights.
    """
    folder = save_tensors(run, checkpoint.steps, weights, training, {})
    draft = run / f".{MANIFEST}.{os.getpid()}.tmp"
    draft.write_text(checkpoint.model_dump_json(indent=1) + "\n", encoding="utf-8")
    draft.replace(run / MANIFEST)
    for pattern in ("policy-*.safetensors", "training-*.safetensors"):
        for old in run.glob(pattern):  # of the older layout
            old.unlink(missing_ok=True)
    return folder / POLICY


def read_checkpoint(run: str | Path, algorithms: tuple[str, ...] = ("ppo", "dqn")) -> Checkpoint:
    """What a run's folder says of its policy.

    Raises:
        DataError: there is none, it is damaged, or it is of another format, environment, algorithm or costgym version.
    """
    path = Path(run) / MANIFEST
    try:
        if path.stat().st_size > LARGEST_MANIFEST:
            raise DataError(path, f"is larger than {LARGEST_MANIFEST} bytes and so no checkpoint of costgym")
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror}); expected the folder of a `costgym train` run") from error
    except ValueError as error:
        raise DataError(path, "is no JSON; train the policy again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise DataError(path, f"expected format {FORMAT!r}, got {found!r}", "format")
    version, here = str(document.get("version")), __version__
    if version.split(".")[:2] != here.split(".")[:2]:
        raise DataError(path, f"was written by costgym {version}, this is {here}; use that version or train again", "version")
    if document.get("env") != NUMERIC:
        raise DataError(path, f"expected a policy for {NUMERIC}, got one for {document.get('env')!r}", "env")
    if document.get("algorithm") not in algorithms:
        raise DataError(path, f"expected one of {', '.join(algorithms)}, got {document.get('algorithm')!r}", "algorithm")
    try:
        return Checkpoint.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(path, first["msg"], ".".join(str(part) for part in first["loc"])) from None


def load_network(run: str | Path, checkpoint: Checkpoint) -> Any:
    """The `ToolNetwork` of a checkpoint, with its weights.

    Raises:
        DataError: the weights are missing, damaged or of another shape, or were trained on other observations.
        MissingExtra: torch or safetensors is not installed.
    """
    torch = require("torch", "train")
    require("safetensors", "train")
    from .tool_network import NetworkSettings, ToolNetwork

    place = Path(run) / MANIFEST
    described = dict(checkpoint.network)
    try:
        settings = NetworkSettings(**{name: described.get(name) for name in ("hidden", "rounds")})  # type: ignore[arg-type]
    except ConfigError as error:
        raise DataError(place, error.problem, "network") from None
    # shape first, memory later: a manifest may claim any size
    with torch.device("meta"):
        network = ToolNetwork(settings)
    differing = sorted(name for name, value in network.describe().items() if described.get(name) != value)
    if differing:
        raise DataError(place, f"the policy reads other observations than this version has: {', '.join(differing)}", "network")
    weights = read_tensors(_weights(Path(run), checkpoint.steps))
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if wanted != found or not all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
        raise DataError(_weights(Path(run), checkpoint.steps), f"the weights do not fit the network that {MANIFEST} describes")
    network.load_state_dict(weights, assign=True)
    return network.requires_grad_(True)


def load_training(run: str | Path, checkpoint: Checkpoint) -> dict[str, Any]:
    """The tensors that training goes on with.

    Raises:
        DataError: they are missing or damaged.
    """
    return read_tensors(_training(Path(run), checkpoint.steps))


def _weights(run: Path, steps: int) -> Path:
    older = run / f"policy-{steps}.safetensors"
    return older if older.is_file() else run / FOLDER / f"step-{steps:08d}" / POLICY


def _training(run: Path, steps: int) -> Path:
    older = run / f"training-{steps}.safetensors"
    return older if older.is_file() else run / FOLDER / f"step-{steps:08d}" / OPTIMIZER
