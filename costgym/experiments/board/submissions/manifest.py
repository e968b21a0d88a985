"""Define, read and check the manifest of a leaderboard submission.

`submission.json` in this folder contains its JSON schema for use without this package.
"""

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costgym.experiments.board.run_config import RowConfig, RunConfig
from costgym.experiments.board.run_log import trajectory_path
from costgym.simulators.bounds import Settings
from costgym.simulators.errors import DataError
from costgym.simulators.files import decode_json, json_text, read_text


class About(Settings):
    """What a submission says of itself."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,79}$", description="Who submits: a team, a method.")
    contact: str = Field(min_length=1, max_length=200, description="Where to send questions.")
    url: str = Field(default="", max_length=500, pattern="^(https://.*)?$", description="Where to read more.")
    description: str = Field(default="", max_length=4000, description="What the agents are, in a few sentences.")
    organisation: str = Field(default="", max_length=200, description="Whose work it is.")
    date: str = Field(default="", pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="Day of the run, as 2026-11-22.")
    code: str = Field(default="", max_length=500, pattern="^(https://.*)?$", description="Where the agents' code is.")
    commit: str = Field(default="", pattern="^([0-9a-f]{7,64})?$", description="Commit of the code that was run.")
    cost: str = Field(default="", max_length=200, description="What the run cost, in real money or machine hours.")
    model: str = Field(
        default="",
        max_length=200,
        exclude_if=lambda value: not value,  # manifests from before this field keep their bytes
        description="What the agents think with: a language model and its version, a policy's network, or none.",
    )


FORMAT = "costgym.submission/3"
MANIFEST = "manifest.json"
CODE = "code"  # folder of the agents' own files in a submission; they are run in a sandbox, and kept nowhere else
SIGNATURE = "entry.sig"  # by the key of whoever hands it in, for one epoch
RECORDED = Path(str(files(__package__ or "costgym.experiments.board.submissions"))) / "recorded"  # entries that ship
MAX_MANIFEST_BYTES = 8 * 2**20
MAX_PROBLEMS = 20  # listed per file


VoidReasons = dict[Annotated[int, Field(ge=0, le=10_000_000)], Annotated[str, Field(max_length=2000)]]
"""Why episodes are void, by index."""


class TrajectoryFile(BaseModel):
    """An entry of the leaderboard: the episodes of an agent under a condition."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str = Field(
        pattern=r"^trajectories/[a-z][a-z-]*/[A-Za-z0-9%+@_.,=~-]+\.jsonl$", description="File with the entry's episodes."
    )
    track: str = Field(pattern="^[a-z][a-z-]*$", description="The track that it was played in.")
    agent: str = Field(
        min_length=1, max_length=200, pattern="^[ -~]+$", description="The agent's name, as its episodes have it: ASCII."
    )
    condition: int = Field(ge=0, description="Number of the track's condition that it was played under.")
    digest: str = Field(pattern="^[0-9a-f]{32}$", description="BLAKE2b hash of the file, 16 bytes in hex.")
    void: VoidReasons = Field(
        default={},  # pydantic copies it
        exclude_if=lambda value: not value,
        description="Episodes that a broken back-end made void, with its message; they have no line, and count as failures.",
    )


_about: Any = About.model_fields


class Submission(BaseModel):
    """The manifest of a leaderboard submission."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["costgym.submission/3"] = Field(description="Version of this format.")
    name: str = _about["name"]
    contact: str = _about["contact"]
    url: str = _about["url"]
    description: str = _about["description"]
    organisation: str = _about["organisation"]
    date: str = _about["date"]
    code: str = _about["code"]
    commit: str = _about["commit"]
    cost: str = _about["cost"]
    model: str = _about["model"]
    run: RunConfig = Field(description="The run's configuration, with the version that played it.")
    files: list[TrajectoryFile] = Field(min_length=1, max_length=10_000, description="The entries.")
    rows: list[dict[str, Any]] = Field(description="Leaderboard rows claimed by the submitter, one per entry.")

    def row_of(self, file: TrajectoryFile) -> RowConfig:
        """Return the row that an entry has to be: its agent under its condition of its track."""
        track = self.run.track(file.track)
        return RowConfig(track, file.agent, file.condition, track.conditions[file.condition])

    def about(self) -> dict[str, str]:
        """Describe the submitter, the contact and the manifest, as the leaderboard shows them, without what was left empty."""
        names = ("description", "organisation", "date", "code", "commit", "cost", "model")
        optional = {**{name: getattr(self, name) for name in names}, "release": self.run.release or ""}
        known = {name: value for name, value in optional.items() if value}
        return {"name": self.name, "contact": self.contact, "url": self.url, **known, "manifest": manifest_digest(self)}


def read_manifest(folder: Path) -> tuple[Submission | None, list[str]]:
    """Read the manifest in a folder; return it and the problems found, as text."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(path, "there is no such file; expected the folder that `costgym submit pack` wrote")
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        return None, [f"{MANIFEST}: is larger than {MAX_MANIFEST_BYTES} bytes"]
    text = read_text(path, MAX_MANIFEST_BYTES, follow=False)
    try:
        manifest = Submission.model_validate(decode_json(text, once=True))
    except ValidationError as error:
        return None, [f"{MANIFEST}, {text}" for text in texts_of(error)]
    except (ValueError, RecursionError) as error:
        return None, [f"{MANIFEST}: is not valid JSON ({error})"]
    return manifest, check_files(manifest)


def manifest_text(manifest: Submission) -> str:
    """`manifest.json` as it is written."""
    return json_text(manifest.model_dump(mode="json"))


def manifest_digest(manifest: Submission) -> str:
    """The hash that names a manifest."""
    return hashlib.blake2b(manifest_text(manifest).encode(), digest_size=16).hexdigest()


def is_shipped(manifest: Submission) -> bool:
    """Whether the submission is one that came with the package, byte for byte: the manifest holds its files' digests."""
    folder = RECORDED / manifest.name / MANIFEST
    return folder.is_file() and folder.read_text(encoding="utf-8") == manifest_text(manifest)


def name_key(name: str) -> str:
    """What is the same in names that nobody tells apart who reads them: letters whatever their case, words but not spaces."""
    return " ".join(name.split()).casefold()


def check_files(manifest: Submission) -> list[str]:
    """List what is wrong with the list of files, in words."""
    run, seen = manifest.run, set[tuple[str, str, int]]()
    tracks = {track.name: track for track in run.tracks}
    if len(tracks) < len(run.tracks):
        return [f"{MANIFEST}, run.tracks: a track is listed twice"]
    for track in run.tracks:
        if len({condition.key for condition in track.conditions}) < len(track.conditions):
            return [f"{MANIFEST}, run.conditions: a condition is listed twice"]
    for file in manifest.files:
        track_config = tracks.get(file.track)
        if track_config is None or file.agent not in track_config.agents or file.condition >= len(track_config.conditions):
            return [f"{MANIFEST}, files: {file.path}: the run has no such agent or condition"]
        if file.path != trajectory_path(manifest.row_of(file)):
            return [f"{MANIFEST}, files: {file.path}: is not the file of {file.agent} under that condition"]
        if (file.track, file.agent, file.condition) in seen:
            return [f"{MANIFEST}, files: {file.path}: is listed twice"]
        seen.add((file.track, file.agent, file.condition))
    return []


def texts_of(error: ValidationError) -> Iterator[str]:
    """Yield each error of a pydantic validation as text."""
    for problem in error.errors()[:MAX_PROBLEMS]:
        yield f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
