"""The file format of recorded episodes, from which an episode can be replayed and all its metrics recomputed.

A trajectory file consists of JSON lines: a header with the environment, scenario and settings, then one line per episode. It is
append-only; a killed process loses at most the episode in progress. Observations are stored as digests only: the world is
deterministic, so replay reproduces them exactly.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import gymnasium as gym

from costgym.agents.models.base import REPLIES
from costgym.envs.base import WITHOUT_INFLUENCE, base_env
from costgym.envs.registration import class_of
from costgym.envs.world_spec import WorldSpec
from costgym.experiments.play.metric_registry import plain
from costgym.simulators import __version__, same_world
from costgym.simulators.digests import SCHEMA
from costgym.simulators.errors import CostGymError, DataError
from costgym.simulators.files import decode_json, iter_lines

FORMAT = "costgym.trajectories/2"
OPTIONAL = frozenset({"crash", "replies"})  # fields of an episode that are left out where they are empty
MAX_CRASH = 300
URL = re.compile(r"\s*https?://[^\s:/]+(?::\d+)?[^\s:]*")
_ADDRESS = re.compile(URL.pattern + r"|\bat 0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{8,}")


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a trajectory file, which applies to all its episodes."""

    env: str  # id of the environment
    scenario: dict[str, Any]  # the complete scenario; `digest` is its hash. OpenCATP's outcome table has a separate digest.
    digest: str
    settings: dict[str, Any]  # the environment's other arguments: split, budget, and those of some views alone
    format: str = FORMAT
    version: str = __version__
    seal: str = ""  # hash of all fields above; it is an input of every episode's seal

    @classmethod
    def of(cls, env: gym.Env[Any, Any], env_id: str) -> "Header":
        """Create the header for episodes of an environment."""
        world = base_env(env)
        spec, settings = world.world_spec(), dict(sorted(world.world_settings().items()))
        header = cls(env_id, dict(spec.document), spec.digest, settings)
        return replace(header, seal=seal_of(header))

    def to_json(self) -> str:
        """Return the first line of the file."""
        return _encode(_document(self))

    def make(self, data: str | None = None) -> gym.Env[Any, Any]:
        """Create the environment in which the episodes were played, from `data` if its data has moved since the recording.
        Raises DataError if that is the data of another scenario."""
        from costgym.envs.registration import make

        env = make(self.env, disable_env_checker=True, **self.arguments(data))
        base_env(env).check_world(self.scenario)
        return env

    def arguments(self, data: str | None = None) -> dict[str, Any]:
        """Return all arguments of the environment as JSON values, with the data folder replaced if one is given."""
        return self.world.arguments(self.settings, data)

    @property
    def world(self) -> WorldSpec:
        """The world of the episodes."""
        return class_of(self.env).world_class(self.scenario)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The record of an episode. Its seal is a hash of the header's seal and all other fields: it detects changed names, which
    replay cannot check, but can be recomputed, so only replay is proof."""

    agent: str
    model: str
    episode: int  # index in the run
    task: str
    number: int
    seed: int  # seed of the world
    options: dict[str, Any]  # further reset options, such as the sample of an OpenCATP task
    actions: list[Any]  # actions as passed to `env.step`
    rewards: list[float]  # one reward per action
    observations: list[str]  # digests of the observations; the first is that of the reset, followed by one per action
    calls: list[list[Any]]  # [tool, status, submitted_s, started_s, finished_s, cold, price] for every call
    charges: list[list[Any]]  # [at_s, what, price, tokens, calls] for every entry of the ledger
    truncated: bool  # whether the episode was ended by its step limit
    final: dict[str, Any]  # strict, judged, share, exceeded, price, seconds, tokens, calls, attempts, and `BaseEnv.figures`
    crash: str = ""  # the exception of the agent's code that ended the episode; empty for others, and left out of their lines
    replies: dict[str, int] = field(default_factory=dict)  # of a real model by outcome and form; left out where empty
    seal: str = ""

    def sealed_json(self, header: Header) -> str:
        """Return the record with its seal as one JSON line; it is ASCII, which preserves lone surrogates in a model's text."""
        body = _encode(_document(self, seal=""))
        # the body ends with an empty seal, which is filled in between its quotes
        return f'{body[:-2]}{_seal(body, header.seal)}"}}'


def seal_of(record: Header | Trajectory, before: str = "") -> str:
    """Compute the seal of a record from its other fields and a preceding seal."""
    return _seal(_encode(_document(record, seal="")), before)


def _seal(body: str, before: str) -> str:
    return hashlib.blake2b(f"{before}\n{body}".encode(), digest_size=16).hexdigest()


_encode = json.JSONEncoder(separators=(",", ":")).encode


def _document(record: Header | Trajectory, **changed: Any) -> dict[str, Any]:
    """Return the fields by name, without copying lists as the slower `dataclasses.asdict` does."""
    document = {field.name: getattr(record, field.name) for field in fields(record)} | changed
    for name in OPTIONAL:
        if name in document and not document[name]:
            del document[name]
    return document


def relocated(scenario: Mapping[str, Any], data: str | None) -> dict[str, Any]:
    """A world's document that names another folder to be read; the same where none is given, or none is read."""
    source = scenario.get("source")
    if data is None or not isinstance(source, Mapping) or source.get("data") is None:
        return dict(scenario)
    return {**scenario, "source": {**source, "data": data}}


def check_header(header: Header, data: str | None = None) -> list[str]:
    """List what is wrong with a header, in words."""
    if header.format != FORMAT:
        return [f"header, format: expected {FORMAT!r}, got {header.format!r}"]
    if not isinstance(header.version, str) or not same_world(header.version):
        recorded = f"recorded with costgym {header.version!s:.60}, this is {__version__}"
        return [f"header, version: {recorded}; verify with that version"]
    if not header.env.startswith("costgym/") or header.env not in gym.registry:
        return [f"header, env: expected an environment of costgym, got {header.env!r}"]
    world_class = class_of(header.env).world_class
    if unknown := sorted(header.settings.keys() & (world_class.arguments_of_world | WITHOUT_INFLUENCE)):
        return [f"header, settings: {unknown[0]!r} does not belong there"]
    try:
        digest = world_class(relocated(header.scenario, data)).digest_like(header.digest)
    except CostGymError as error:
        moved = "; if the folder has moved, give its place with --data" if isinstance(error, DataError) and data is None else ""
        return [f"header, scenario: {error}{moved}"]
    if not digest:
        known = f"expected one of a known schema, 0 or {SCHEMA}"
        return [f"header, digest: {known}, got {header.digest!r:.40}; verify with the version that recorded the file"]
    if digest != header.digest:
        return [f"header, digest: the scenario's is {digest}, the file says {header.digest}"]
    if seal_of(header) != header.seal:
        return ["header, seal: env, settings or another field was edited after the file was written"]
    return []


def read_trajectories(path: Path) -> tuple[Header, Iterator[Trajectory]]:
    """Read a trajectory file; return its header and an iterator over its episodes. Raises DataError if the file is missing or
    empty, or a line is not a valid record; the error contains the line number."""
    first, lines = first_line(path)
    return parse_header(first, path), (parse_trajectory(line, path, n) for n, line in enumerate(lines, 2))


def first_line(path: Path) -> tuple[str, Iterator[str]]:
    """The header's line of a trajectory file, and those after it; raises DataError if the file is missing or empty."""
    if not path.is_file():
        raise DataError(path, "there is no such file; expected a trajectory file (JSON lines)")
    lines = iter_lines(path)
    first = next(lines, None)
    if first is None:
        raise DataError(path, "is empty; expected a header and episodes")
    return first, lines


def parse_header(line: str, path: Path) -> Header:
    """Parse the first line of a file; raises DataError if it is not a header."""
    header: Header = _parse(Header, line, path, 1)
    return header


def parse_trajectory(line: str, path: Path, number: int) -> Trajectory:
    """Parse a line after the header; raises DataError if it is not a trajectory."""
    trajectory: Trajectory = _parse(Trajectory, line, path, number)
    if trajectory.crash != shown_crash(trajectory.crash):
        raise DataError(path, f"crash: expected at most {MAX_CRASH} printable characters", f"line {number}")
    if not all(name in REPLIES and type(count) is int and count > 0 for name, count in trajectory.replies.items()):
        expected = f"counts above 0 of {', '.join(REPLIES)}"
        raise DataError(path, f"replies: expected {expected}, got {trajectory.replies!r:.60}", f"line {number}")
    return trajectory


def shown_crash(message: str) -> str:
    """An exception's message as records hold it: short, printable, without addresses of servers and of memory."""
    return plain(_ADDRESS.sub("", message[: 4 * MAX_CRASH]))[:MAX_CRASH]


def _parse(kind: Any, line: str, path: Path, number: int) -> Any:
    try:
        document = decode_json(line, once=True)
    except ValueError as error:
        raise DataError(path, f"is not JSON ({error})", f"line {number}") from None
    known = _TYPES[kind].keys()
    if not isinstance(document, dict) or document.keys() | (known & OPTIONAL) != known:
        got = sorted(set(document) ^ known) if isinstance(document, dict) else type(document).__name__
        raise DataError(path, f"expected the fields of a {kind.__name__.lower()}; these differ: {got}", f"line {number}")
    for name, wanted in _TYPES[kind].items():
        if name in document and type(document[name]) is not wanted and name not in ("format", "version"):  # see `check_header`
            raise DataError(path, f"{name}: expected a {wanted.__name__}, got {document[name]!r:.60}", f"line {number}")
    return kind(**document)


_TYPES = {
    kind: {name: get_origin(hint) or hint for name, hint in get_type_hints(kind).items()} for kind in (Header, Trajectory)
}
