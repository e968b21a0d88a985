"""The verdicts of an epoch, a hash chain: each line holds the digest of the line before, of the entry and of what was played.

The chain is the only state of an epoch that is judged. Its lines tell no task, trajectory or figure of a single episode.
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from costgym.experiments.board.epochs.epoch import Epoch
from costgym.experiments.board.epochs.identities import VERDICT, is_signed, sign
from costgym.simulators import __version__
from costgym.simulators.errors import DataError
from costgym.simulators.files import LineFile, decode_json, keep_lines, read_lines

CHAIN = "chain.jsonl"
REFERENCES = "references"  # the entry of the references, which are played first
IMAGE = "COSTGYM_IMAGE"  # variable that names the image of the judge's machine


class Verdict(BaseModel):
    """A line of the chain."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["costgym.verdict/2"] = "costgym.verdict/2"
    number: int
    previous: str  # SHA-256 of the line before; of the first, the hash of the epoch's terms
    entry: str  # digest of the folder that was judged
    identity: str = ""  # whose try it is: a registered name, or the name in the manifest where nobody is registered
    key: str = ""  # the public key that signed the entry
    accepted: bool = True  # it was played; else the reasons say why not
    reasons: tuple[str, ...] = ()
    about: dict[str, str] = {}  # what the entry says of itself; pydantic copies it
    agents: dict[str, tuple[str, ...]] = {}  # that were played, by their track
    rows: tuple[dict[str, Any], ...] = ()  # what they reached, over all secret worlds; `claimed` is what the entry says
    record: str = ""  # digest of the record of what was played, which is published with the secret
    environment: dict[str, str] = {}  # of the judge
    signature: str = ""  # of the judge, over the line without it

    @property
    def unsigned(self) -> str:
        """The line without its signature."""
        return self.model_copy(update={"signature": ""}).line

    @property
    def line(self) -> str:
        """The line, in the one form that it may have."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=True, separators=(",", ":"))


class Chain:
    """The verdicts in a board's folder; raises DataError where they are not a chain of this epoch."""

    def __init__(self, folder: Path, epoch: Epoch, key: Path | None = None) -> None:
        self._path, self._epoch, self._key = folder / CHAIN, epoch, key
        keep_lines(self._path, 2**62)  # a line that was cut off by a kill
        self.verdicts = read_chain(folder, epoch)

    def add(self, **content: Any) -> Verdict:
        """Append a verdict."""
        last = self.verdicts[-1].line if self.verdicts else None
        verdict = Verdict(
            number=len(self.verdicts),
            previous=_digest(last) if last else self._epoch.terms,
            environment=environment(),
            **content,
        )
        if self._key is not None:
            verdict = verdict.model_copy(update={"signature": sign(verdict.unsigned, self._key, VERDICT)})
        store = LineFile(self._path)
        store.append(verdict.line)
        store.close()
        # as whoever reads it finds it, to the order of its fields
        self.verdicts.append(Verdict.model_validate(json.loads(verdict.line)))
        return self.verdicts[-1]


def read_chain(folder: Path, epoch: Epoch) -> list[Verdict]:
    """Read the verdicts on an epoch; raises DataError, with the line, where one was changed, lost, added or moved."""
    path, verdicts, previous = folder / CHAIN, list[Verdict](), epoch.terms
    for number, line in enumerate(read_lines(path)):
        try:
            verdict = Verdict.model_validate(decode_json(line, once=True))
        except (ValidationError, ValueError, RecursionError) as error:
            raise DataError(path, "is not a verdict in this version's form", f"line {number + 1}") from error
        for problem in _problems(verdict, line, number, previous, epoch):
            raise DataError(path, problem, f"line {number + 1}")
        previous = _digest(line)
        verdicts.append(verdict)
    if len({verdict.entry for verdict in verdicts}) < len(verdicts):
        raise DataError(path, "has two verdicts on one entry")
    return verdicts


def _problems(verdict: Verdict, line: str, number: int, previous: str, epoch: Epoch) -> Iterator[str]:
    if verdict.line != line:
        yield "is not written as this version writes it"
    if (verdict.number, verdict.previous) != (number, previous):
        yield "does not follow the line before: a verdict was changed, lost, added or moved"
    if (verdict.entry == REFERENCES) != (number == 0):
        yield "is not in its place: the references come first, and once"
    if epoch.judge and not is_signed(verdict.unsigned, verdict.signature, epoch.judge, VERDICT):
        yield "is not signed by the judge's key"


def _digest(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()


def environment() -> dict[str, str]:
    """What the judge plays with: versions of Python and of the packages, the machine, and the image where one is named."""
    return {
        "costgym": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": _packages(),
        "image": os.environ.get(IMAGE, "")[:200],
    }


@lru_cache
def _packages() -> str:
    return _digest("\n".join(sorted({f"{package.name}=={package.version}" for package in metadata.distributions()})))
