"""Define, read and check the manifest of a leaderboard submission.

`submission.json` in this folder contains the JSON schema for use without this package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....simulators.errors import DataError
from ..conditions import Condition
from ..run_config import RunConfig
from ..run_log import FOLDER, file_name

FORMAT = "costgym.submission/2"
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 8 * 2**20
MAX_PROBLEMS = 20  # listed per file


class TrajectoryFile(BaseModel):
    """An entry of the leaderboard: the episodes of an agent under a condition."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str = Field(pattern=r"^trajectories/[A-Za-z0-9%+@_.,=~-]+\.jsonl$", description="File with the entry's episodes.")
    agent: str = Field(min_length=1, max_length=200, description="Name of the agent, as in its episodes.")
    condition: int = Field(ge=0, description="Index of the entry's condition in the run's conditions.")
    digest: str = Field(pattern="^[0-9a-f]{32}$", description="BLAKE2b hash of the file, 16 bytes in hex.")


class Submission(BaseModel):
    """The manifest of a leaderboard submission."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["costgym.submission/2"] = Field(description="Version of this format.")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,79}$", description="Name of the submitter: a team or a method.")
    contact: str = Field(min_length=1, max_length=200, description="Contact for questions.")
    url: str = Field(default="", max_length=500, pattern="^(https://.*)?$", description="Address of further information.")
    description: str = Field(default="", max_length=4000, description="Short description of the agents.")
    run: RunConfig = Field(description="Configuration of the run, including the version of costgym.")
    files: list[TrajectoryFile] = Field(min_length=1, max_length=10_000, description="The entries.")
    rows: list[dict[str, Any]] = Field(description="Leaderboard rows claimed by the submitter, one per entry.")

    def condition_of(self, file: TrajectoryFile) -> Condition:
        """Return the condition of an entry."""
        return self.run.conditions[file.condition]

    @property
    def episodes(self) -> int:
        """Total number of episodes of all entries."""
        return sum(self.condition_of(file).episodes for file in self.files)


def schema() -> dict[str, Any]:
    """Return the manifest's JSON schema, which `submission.json` also contains."""
    return Submission.model_json_schema()


def read_manifest(folder: Path) -> tuple[Submission | None, list[str]]:
    """Read the manifest in a folder; return it and the problems found, as text.

    Raises:
        DataError: the folder has no manifest.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(path, "there is no such file; expected the folder that `costgym submit pack` wrote")
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        return None, [f"{MANIFEST}: is larger than {MAX_MANIFEST_BYTES} bytes"]
    try:
        manifest = Submission.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        return None, [f"{MANIFEST}, {text}" for text in texts_of(error)]
    except (ValueError, RecursionError) as error:
        return None, [f"{MANIFEST}: is not JSON ({error})"]
    return manifest, check_files(manifest)


def check_files(manifest: Submission) -> list[str]:
    """Check the manifest's list of files and return the problems found, as text."""
    run, seen = manifest.run, set[tuple[str, int]]()
    for file in manifest.files:
        if file.agent not in run.agents or file.condition >= len(run.conditions):
            return [f"{MANIFEST}, files: {file.path}: the run has no such agent or condition"]
        condition = manifest.condition_of(file)
        if file.path != f"{FOLDER}/{file_name(file.agent, condition.budget, condition.settings)}":
            return [f"{MANIFEST}, files: {file.path}: is not the file of {file.agent} under that condition"]
        if (file.agent, file.condition) in seen:
            return [f"{MANIFEST}, files: {file.path}: is listed twice"]
        seen.add((file.agent, file.condition))
    if len({condition.key for condition in run.conditions}) < len(run.conditions):
        return [f"{MANIFEST}, run.conditions: a condition is listed twice"]
    return []


def texts_of(error: ValidationError) -> Iterator[str]:
    """Yield each error of a pydantic validation as text."""
    for each in error.errors()[:MAX_PROBLEMS]:
        yield f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
