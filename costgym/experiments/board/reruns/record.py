"""The record of a rerun: the submission that was run again, and the secret that determined seed and worlds."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costgym.experiments.board.submissions.manifest import Submission, VoidReasons, manifest_digest
from costgym.simulators.errors import DataError
from costgym.simulators.files import decode_json

RECORD = "rerun.json"
OUTCOMES = "outcomes.npz"  # the outcome table of a rerun of plans, beside its record, where it is not the public one
STANDARD_INPUT = "-"


class Record(BaseModel):
    """The content of `rerun.json`: the submission that was run again, and the secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["costgym.rerun/3"] = "costgym.rerun/3"
    manifest: str  # hash of the submission's manifest
    secret: str = Field(min_length=32, max_length=1000)  # published with the rerun; seed and worlds follow from it
    commitment: str  # hash of the secret, published before the rerun
    episodes: int | None = Field(default=None, ge=1)  # of every row and world; None for as many as were submitted
    worlds: int = Field(default=1, ge=1, le=100)  # how many worlds every row was played in, where worlds are generated
    outcomes: str | None = None  # digest of the outcome table that plans were run on, where it is not the public one
    sandbox: Literal["bubblewrap", "none"] = "none"  # of the agents' processes
    void: dict[str, VoidReasons] = {}  # of our own back-ends, by the path of their row's file; pydantic copies it

    def to_json(self) -> str:
        """The record as it is written."""
        return json.dumps(self.model_dump(mode="json"), indent=1) + "\n"

    def problems(self, manifest: Submission) -> list[str]:
        """List how the record contradicts itself or the submission."""
        found = []
        if self.manifest != manifest_digest(manifest):
            found.append(f"{RECORD}: belongs to another submission")
        if self.commitment != commitment_of_text(self.secret):
            found.append(f"{RECORD}: the secret does not match the commitment")
        return found


def read_record(folder: Path) -> Record:
    """Read the record in a rerun's folder; raises DataError if there is none."""
    path = folder / RECORD
    try:
        return Record.model_validate(decode_json(path.read_text(encoding="utf-8"), once=True))
    except (ValidationError, ValueError, RecursionError) as error:
        raise DataError(path, "is not a record of a rerun in this version's form; `costgym submit rerun` writes one") from error
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}; expected the folder of a `costgym submit rerun`") from error


def read_secret(path: Path) -> str:
    """Read a secret from a file, or from standard input where the path is ``-``."""
    try:
        text = (sys.stdin.read() if str(path) == STANDARD_INPUT else path.read_text(encoding="ascii")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read as a secret ({error})") from error
    if len(text) < 32:
        raise DataError(path, f"expected a secret of at least 32 characters, got {len(text)}")
    return text


def commitment_of_text(secret: str) -> str:
    """The hash that commits to a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def seed_of_text(secret: str) -> int:
    """Derive the seed of the episodes from a secret, 60 bits."""
    return _bits("costgym rerun", secret)


def world_seed_of_text(secret: str) -> int:
    """Derive the seed of the worlds from a secret, 60 bits; it reveals nothing about the seed of the episodes."""
    return _bits("costgym rerun, world", secret)


def _bits(purpose: str, secret: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{purpose} {secret}".encode()).digest()[:8], "big") >> 4
