"""Checkpoints of reinforcement learning: a folder that says what was trained, where and how far, and holds its weights.

`RUN/checkpoint.json` names the format, the algorithm, the environment with its settings and scenario, the network, the seed and
the metrics; `RUN/policy-N.safetensors` the weights after N steps, and `RUN/training-N.safetensors` what training needs to go
on. No file is ever unpickled, so a checkpoint from a stranger can be opened: at worst it is refused.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .. import __version__
from ..simulators.errors import ConfigError, DataError, require
from ..simulators.scenario import Scenario
from .base import NUMERIC

FORMAT = "costgym.policy/1"
MANIFEST = "checkpoint.json"
LARGEST_MANIFEST = 16 * 2**20


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
        steps, legs, seconds: how far training is: decisions, stretches between checkpoints, seconds of training.
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
    legs: int = Field(ge=0)
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
    save_file = require("safetensors.torch", "train").save_file
    paths = _weights(run, checkpoint.steps), _training(run, checkpoint.steps)
    for path, tensors in zip(paths, (weights, training), strict=True):
        draft = path.with_name(f".{path.name}.tmp")
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, draft)
        draft.replace(path)
    draft = run / f".{MANIFEST}.{os.getpid()}.tmp"
    draft.write_text(checkpoint.model_dump_json(indent=1) + "\n", encoding="utf-8")
    draft.replace(run / MANIFEST)
    for pattern in ("policy-*.safetensors", "training-*.safetensors"):
        for old in run.glob(pattern):
            if old not in paths:
                old.unlink(missing_ok=True)
    return paths[0]


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


def read_tensors(path: Path) -> dict[str, Any]:
    """A safetensors file; raises DataError where it is none."""
    safetensors = require("safetensors.torch", "train")
    try:
        found: dict[str, Any] = safetensors.load_file(path)
    except Exception as error:
        raise DataError(path, f"is missing or damaged ({error}); train the policy again") from error
    return found


def _weights(run: Path, steps: int) -> Path:
    return run / f"policy-{steps}.safetensors"


def _training(run: Path, steps: int) -> Path:
    return run / f"training-{steps}.safetensors"
