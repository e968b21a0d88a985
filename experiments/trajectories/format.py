"""The record of an episode: enough to replay it and to re-derive every figure.

A trajectory file is JSON lines: a header that says which world was played how, then one line an episode. It is append-only; a
process that is killed loses at most the episode in flight. Observations are not in it, only their digests: the world is
deterministic, so replay brings them back bit by bit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from ...envs.base import WITHOUT_INFLUENCE, base_env
from ...envs.registration import class_of
from ...simulators.errors import CostGymError, DataError
from ...simulators.version import __version__
from ..files import iter_lines

FORMAT = "costgym.trajectories/1"


@dataclass(frozen=True, slots=True)
class Header:
    """What all episodes of a file share.

    Attributes:
        format, version: of the file and of costgym.
        env: the environment's id.
        scenario: the world, whole; `digest` names it in short. OpenCATP's outcome table is named by a digest of its own.
        settings: the environment's other arguments: split, budget, and what one view has and others have not (enforcement,
            grading, max_steps, `max_tools`, `level`, `alpha`, ...).
        seal: hash of all the above; every episode's seal continues it.
    """

    env: str
    scenario: dict[str, Any]
    digest: str
    settings: dict[str, Any]
    format: str = FORMAT
    version: str = __version__
    seal: str = ""

    @classmethod
    def of(cls, env: gym.Env[Any, Any], env_id: str) -> Header:
        """The header for episodes of this environment.

        Raises:
            ConfigError: its episodes cannot be recorded.
        """
        world = base_env(env)
        document, settings = world.world_document(), world.world_settings()
        header = cls(
            env=env_id,
            scenario=document,
            digest=world.world_digest(document),
            settings={name: settings[name] for name in sorted(settings)},
        )
        return replace(header, seal=seal_of(header))

    def to_json(self) -> str:
        """The file's first line."""
        return _encode(_document(self))

    def make(self, data: str | None = None) -> gym.Env[Any, Any]:
        """The environment that the episodes were played in.

        Args:
            data: the folder or file that the world is read from, where it lies elsewhere now.

        Raises:
            DataError: what is read there is another world.
        """
        from ...envs.registration import make

        env = make(self.env, disable_env_checker=True, **self.arguments(data))
        base_env(env).check_world(self.scenario)
        return env

    def arguments(self, data: str | None = None) -> dict[str, Any]:
        """All that the environment is made from, as JSON, its data folder replaced where one is given."""
        return class_of(self.env).world_arguments(self.scenario, self.settings, data)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode.

    Attributes:
        agent, model: who played.
        episode: index in the run.
        task, number: the task's id and number.
        seed: of the world.
        options: further options of the reset, such as the sample of an OpenCATP task.
        actions: as given to `env.step`.
        rewards: one an action.
        observations: digests, one more than actions: the first is the reset's.
        calls: [tool, status, submitted_s, started_s, finished_s, cold, price] of every call.
        charges: [at_s, what, price, tokens, calls] of the ledger.
        truncated: the episode was cut off by its step limit.
        final: strict, judged, share, exceeded, price, seconds, tokens, calls, attempts, and what `BaseEnv.figures` adds.
        seal: hash of the header's seal and all the above. Replay finds every edited figure; the seal also finds an edited
            name, which replay cannot know. It shows accidents and careless edits; only replay is proof.
    """

    agent: str
    model: str
    episode: int
    task: str
    number: int
    seed: int
    options: dict[str, Any]
    actions: list[Any]
    rewards: list[float]
    observations: list[str]
    calls: list[list[Any]]
    charges: list[list[Any]]
    truncated: bool
    final: dict[str, Any]
    seal: str = ""

    def sealed(self, header: Header) -> Trajectory:
        """The same record with its seal."""
        return replace(self, seal=seal_of(self, header.seal))

    def to_json(self) -> str:
        """One line; ASCII, so that lone surrogates in a model's text survive."""
        return _encode(_document(self))

    def sealed_json(self, header: Header) -> str:
        """`sealed(header).to_json()`, written once."""
        body = _encode(_document(self, seal=""))
        return f'{body[:-2]}{_seal(body, header.seal)}"}}'


def seal_of(record: Header | Trajectory, before: str = "") -> str:
    """Hash of a record without its own seal, after another seal."""
    return _seal(_encode(_document(record, seal="")), before)


def _seal(body: str, before: str) -> str:
    return hashlib.blake2b(f"{before}\n{body}".encode(), digest_size=16).hexdigest()


_encode = json.JSONEncoder(separators=(",", ":")).encode


def _document(record: Header | Trajectory, **changed: Any) -> dict[str, Any]:
    """The fields by name. `dataclasses.asdict` would copy every list in them, at several times the cost of writing them."""
    return {field.name: getattr(record, field.name) for field in fields(record)} | changed


def relocated(scenario: Mapping[str, Any], data: str | None) -> dict[str, Any]:
    """A world's document that names another folder to be read; the same where none is given, or none is read."""
    source = scenario.get("source")
    if data is None or not isinstance(source, Mapping) or source.get("data") is None:
        return dict(scenario)
    return {**scenario, "source": {**source, "data": data}}


def check_header(header: Header, data: str | None = None) -> list[str]:
    """What is wrong with a header, in words.

    Args:
        header: of a file.
        data: the folder or file that the world is read from, where it lies elsewhere now.
    """
    if header.format != FORMAT:
        return [f"header, format: expected {FORMAT!r}, got {header.format!r}"]
    if header.version != __version__:
        return [f"header, version: recorded with costgym {header.version}, this is {__version__}; verify with that version"]
    if not header.env.startswith("costgym/") or header.env not in gym.registry:
        return [f"header, env: expected an environment of costgym, got {header.env!r}"]
    world = class_of(header.env)
    strange = sorted(header.settings.keys() & (world.WORLD_ARGUMENTS | WITHOUT_INFLUENCE))
    if strange:
        return [f"header, settings: {strange[0]!r} does not belong there"]
    try:
        digest = world.world_digest(relocated(header.scenario, data))
    except CostGymError as error:
        return [f"header, scenario: {error}"]
    if digest != header.digest:
        return [f"header, digest: the scenario's is {digest}, the file says {header.digest}"]
    if seal_of(header) != header.seal:
        return ["header, seal: env, settings or another field was edited after the file was written"]
    return []


def read_trajectories(path: Path) -> tuple[Header, Iterator[Trajectory]]:
    """A trajectory file: its header, and its episodes one by one.

    Raises:
        DataError: the file is missing or empty, or a line in it is no record; names the line.
    """
    if not path.is_file():
        raise DataError(path, "there is no such file; expected a trajectory file (JSON lines)")
    lines = iter_lines(path)
    first = next(lines, None)
    if first is None:
        raise DataError(path, "is empty; expected a header and episodes")
    return parse_header(first, path), (parse_trajectory(line, path, n) for n, line in enumerate(lines, 2))


def parse_header(line: str, path: Path) -> Header:
    """A file's first line; raises DataError where it is none."""
    header: Header = _parse(Header, line, path, 1)
    for name, kind in (("env", str), ("scenario", dict), ("digest", str), ("settings", dict), ("seal", str)):
        if not isinstance(getattr(header, name), kind):
            raise DataError(path, f"{name}: expected a {kind.__name__}, got {getattr(header, name)!r:.60}", "line 1")
    return header


def parse_trajectory(line: str, path: Path, number: int) -> Trajectory:
    """A file's further line; raises DataError where it is none."""
    trajectory: Trajectory = _parse(Trajectory, line, path, number)
    for name, kind in _KINDS:
        value = getattr(trajectory, name)
        if type(value) is not kind:
            raise DataError(path, f"{name}: expected a {kind.__name__}, got {value!r:.60}", f"line {number}")
    return trajectory


_KINDS: tuple[tuple[str, type], ...] = (
    ("agent", str),
    ("model", str),
    ("episode", int),
    ("task", str),
    ("number", int),
    ("seed", int),
    ("options", dict),
    ("actions", list),
    ("rewards", list),
    ("observations", list),
    ("calls", list),
    ("charges", list),
    ("truncated", bool),
    ("final", dict),
    ("seal", str),
)


def _parse(kind: Any, line: str, path: Path, number: int) -> Any:
    try:
        document = decode_once(line)
    except (ValueError, RecursionError) as error:
        raise DataError(path, f"is no JSON ({error})", f"line {number}") from None
    known = _FIELDS[kind]
    if not isinstance(document, dict) or document.keys() != known:
        got = sorted(set(document) ^ known) if isinstance(document, dict) else type(document).__name__
        raise DataError(path, f"expected the fields of a {kind.__name__.lower()}; these differ: {got}", f"line {number}")
    return kind(**document)


_FIELDS = {kind: frozenset(field.name for field in fields(kind)) for kind in (Header, Trajectory)}


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, each of whose names stands there once: readers differ in which of two values they believe."""
    document = dict(members)
    if len(document) < len(members):
        raise ValueError("a name stands twice in one object")
    return document


decode_once = json.JSONDecoder(object_pairs_hook=_once).decode
"""Reads JSON; raises ValueError where a name stands twice in one object."""
