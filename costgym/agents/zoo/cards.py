"""Trained agents that ship: ``zoo:ppo`` plays the weights in the folder `ppo` beside this module.

Such a folder is a training run without what only training needs. Its `card.json` says which command trained it, what it
reached, and the digest of every file, which is checked before anything is loaded.
"""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costgym.simulators.errors import DataError, check_known

ZOO = "zoo:"
FOLDER = Path(__file__).parent
CARD = "card.json"
Kind = Literal["sb3", "catp", "deer", "toolplanner", "sessions"]


class Card(BaseModel):
    """The `card.json` of a trained agent."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    summary: str = Field(description="One line for lists.")
    kind: Kind = Field(description="Kind of the trained agent, which plays as `KIND:FOLDER`.")
    command: str = Field(description="The command that trained it.")
    seed: int = Field(description="Seed of the training run.")
    date: str = Field(description="Day of the training run.")
    version: str = Field(description="Version of costgym that trained it.")
    processor_minutes: float = Field(description="What training took, in minutes of processor time.")
    figures: dict[str, float] = Field(description="What it reached at the end of training, as the trainer reports it.")
    files: dict[str, str] = Field(description="BLAKE2b digest (16 bytes, in hex) of every file that is played, by its path.")


def zoo_names() -> list[str]:
    """Return the names of the agents that ship: ``zoo:catp`` and so on."""
    return [f"{ZOO}{path.parent.name}" for path in sorted(FOLDER.glob(f"*/{CARD}"))]


def is_zoo(name: str) -> bool:
    """Return whether a name is of the zoo's form; the zoo need not have the agent."""
    return name.startswith(ZOO)


@lru_cache
def read_card(name: str) -> Card:
    """Read the card of an agent by its name."""
    check_known("agent of the zoo", name, zoo_names())
    path = FOLDER / name.removeprefix(ZOO) / CARD
    try:
        return Card.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError) as error:
        raise DataError(path, f"is not a valid card of a trained agent ({error}); install costgym again") from error


@lru_cache
def zoo_folder(name: str) -> Path:
    """The folder of an agent, every file checked against its card; raises DataError where one is missing or differs."""
    card, folder = read_card(name), FOLDER / name.removeprefix(ZOO)
    for file, wanted in card.files.items():
        path = folder / file
        if not path.is_file():
            raise DataError(path, "is missing; install costgym again")
        if digest(path) != wanted:
            raise DataError(path, f"is not the file that {CARD} names (digest {digest(path)}, not {wanted}); install again")
    return folder


def digest(path: Path) -> str:
    """BLAKE2b digest of a file, 16 bytes in hex."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
