"""The manifest of a leaderboard submission: its fields, its JSON schema, and how it is read. And what trained agents weigh in.

`submission.json beside this file` holds the schema for whoever does not run this package.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....agents.checkpoints import FOLDER, checkpoints
from ....simulators.errors import DataError

FORMAT = "costgym.submission/1"
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 8 * 2**20
LEARNT = ("sb3:", "catp:", "ift:", "rltf:", "deer:", "btp:", "toolplanner:")
"""Before the folder of a training run, in the names of trained agents."""
_WEIGH = ("config.json", "checkpoint.json", "adapter_config.json", "tokenizer.json")
"""What decides how weights are used, beside the weights."""
MOST_PROBLEMS = 20
"""Problems of one file that are listed."""


class TrajectoryFile(BaseModel):
    """One entry of the leaderboard: an agent under a budget."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str = Field(pattern=r"^trajectories/[A-Za-z0-9%+@_.,=~-]+\.jsonl$", description="File with the entry's episodes.")
    agent: str = Field(min_length=1, max_length=200, description="The agent's name, as its episodes have it.")
    budget: dict[str, float] = Field(description="Limit of each limited resource: price, seconds, tokens, calls.")
    digest: str = Field(pattern="^[0-9a-f]{32}$", description="BLAKE2b hash of the file, 16 bytes in hex.")


class Submission(BaseModel):
    """The manifest of a submission."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["costgym.submission/1"] = Field(description="Version of this format.")
    version: str = Field(description="Version of costgym that played the episodes and replays them.")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,79}$", description="Who submits: a team, a method.")
    contact: str = Field(min_length=1, max_length=200, description="Where questions go.")
    url: str = Field(default="", max_length=500, pattern="^(https://.*)?$", description="Where more is to be read.")
    description: str = Field(default="", max_length=4000, description="What the agents are, in a few sentences.")
    model: str = Field(max_length=200, description="The language model behind the agents that need one.")
    suite: str = Field(max_length=200, description="The leaderboard's suite.")
    scenario: dict[str, Any] = Field(description="The world, whole.")
    digest: str = Field(description="The scenario's digest.")
    split: Literal["train", "test"] = Field(description="The tasks that were played.")
    grading: Literal["strict", "judge"] = Field(description="The grading that ranks.")
    seed: int = Field(ge=0, description="Seed of the run.")
    episodes: int = Field(ge=1, description="Episodes of every entry.")
    files: list[TrajectoryFile] = Field(min_length=1, max_length=10_000, description="The entries.")
    weights: dict[str, str] = Field(
        default={},  # pydantic copies it
        description="BLAKE2b hash, 16 bytes in hex, of the weights behind each trained agent, by the agent's name.",
    )
    rows: list[dict[str, Any]] = Field(description="The leaderboard rows that the submitter claims, one an entry.")


def schema() -> dict[str, Any]:
    """The manifest's JSON schema; `submission.json beside this file` holds the same."""
    return Submission.model_json_schema()


def weights_of(agents: Iterable[str]) -> dict[str, str]:
    """Hashes of what trained agents (``sb3:RUN``, ``toolplanner:RUN``, ...) play with, by the agent's name.

    The newest checkpoint counts, with the files that say how it is used; learning curves and what training would go on with do
    not. An agent whose folder holds no weights is left out.
    """
    found = {}
    for agent in agents:
        kind, colon, folder = agent.partition(":")
        if f"{kind}{colon}" in LEARNT:
            files = _weight_files(Path(folder))
            if any(path.suffix == ".safetensors" for path in files):
                state = hashlib.blake2b(digest_size=16)
                for path in files:
                    with path.open("rb") as file:
                        content = hashlib.file_digest(file, "blake2b").digest()
                    state.update(path.relative_to(folder).as_posix().encode() + b"\0" + content)
                found[agent] = state.hexdigest()
    return found


def _weight_files(run: Path) -> list[Path]:
    newest = checkpoints(run)[-1:]
    stages = {
        path.parent.resolve() for path in run.glob("*/*") if path.name == "config.json" and (path.parent / FOLDER).is_dir()
    }
    files = []
    for path in sorted(run.rglob("*")):
        inside = FOLDER in path.relative_to(run).parts
        if not path.is_file() or any(stage in path.resolve().parents for stage in stages):
            continue  # an earlier stage of the run plays under its own name
        if path.suffix == ".safetensors":
            played = not path.name.startswith(("optimizer", "training-"))
            if played and (not inside or path.parent in newest):
                files.append(path)
        elif path.name in _WEIGH and not inside:
            files.append(path)
    return files


def read_manifest(folder: Path) -> tuple[Submission | None, list[str]]:
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(path, "there is no such file; expected the folder that `costgym submit pack` wrote")
    if path.stat().st_size > LARGEST_MANIFEST:
        return None, [f"{MANIFEST}: is larger than {LARGEST_MANIFEST} bytes"]
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Submission.model_validate(document), []
    except ValidationError as error:
        return None, [f"{MANIFEST}, {text}" for text in texts_of(error)]
    except (ValueError, RecursionError) as error:
        return None, [f"{MANIFEST}: is no JSON ({error})"]


def texts_of(error: ValidationError) -> Iterator[str]:
    for each in error.errors()[:MOST_PROBLEMS]:
        yield f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
