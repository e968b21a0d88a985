"""Verification by replay: the recorded actions are played again in the deterministic world, and every figure must come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .. import __version__
from ..simulators.errors import CostGymError, DataError
from .trajectories import FORMAT, Header, Trajectory, read_trajectories, replay, seal_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """What replay says of a file.

    Attributes:
        path: the file.
        episodes: how many agreed.
        problems: what did not, in words, each with its place.
    """

    path: Path
    episodes: int
    problems: tuple[str, ...]

    @property
    def verified(self) -> bool:
        return not self.problems and self.episodes > 0


def verify(path: str | Path, data: str | None = None, progress: Callable[[int], None] | None = None) -> Verdict:
    """Replay every episode of a trajectory file and compare every figure.

    Args:
        path: a trajectory file, or a folder with a `trajectories.jsonl`.
        data: folder of a ToolBench scenario, where it lies elsewhere now.
        progress: called with the number of episodes looked at.

    Raises:
        DataError: there is no file, or its header cannot be read.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "trajectories.jsonl"
    header, episodes = read_trajectories(file)
    problems = _check_header(header)
    if problems:
        return Verdict(file, 0, tuple(problems))
    env = header.make(data)
    good, number = 0, 0
    seen: set[tuple[str, int]] = set()
    while True:
        number += 1
        try:
            recorded = next(episodes, None)
        except DataError as error:
            problems.append(str(error))
            break
        if recorded is None:
            break
        place = f"line {number + 1}, {recorded.agent} episode {recorded.episode}"
        found = _twice(recorded, seen) or _compare(env, recorded) or _check_seal(header, recorded)
        if found:
            problems.append(f"{place}: {found}")
        else:
            good += 1
        if progress is not None:
            progress(number)
    if number == 1 and not problems:
        problems.append("the file holds no episode")
    return Verdict(file, good, tuple(problems))


def _twice(recorded: Trajectory, seen: set[tuple[str, int]]) -> str:
    try:
        key = (recorded.agent, recorded.episode)
        if key in seen:
            return "this episode stands in the file twice"
        seen.add(key)
    except TypeError:
        return "agent and episode are of a wrong type"
    return ""


def _check_header(header: Header) -> list[str]:
    if header.format != FORMAT:
        return [f"header, format: expected {FORMAT!r}, got {header.format!r}"]
    if header.version != __version__:
        return [f"header, version: recorded with costgym {header.version}, this is {__version__}; verify with that version"]
    try:
        digest = header.scenario_model().digest
    except CostGymError as error:
        return [f"header, scenario: {error}"]
    if digest != header.digest:
        return [f"header, digest: the scenario's is {digest}, the file says {header.digest}"]
    if seal_of(header) != header.seal:
        return ["header, seal: env, settings or another field was edited after the file was written"]
    return []


def _check_seal(header: Header, recorded: Trajectory) -> str:
    if seal_of(recorded, header.seal) == recorded.seal:
        return ""
    return "seal: the agent, the model, the episode's index or the seal itself was edited after the record was written"


def _compare(env: Any, recorded: Trajectory) -> str:
    """What differs first, in words; empty where nothing does."""
    try:
        played = replay(env, recorded)
    except (CostGymError, TypeError, ValueError, OverflowError, AttributeError, KeyError) as error:
        return f"cannot be replayed: {error}"
    for field in fields(Trajectory):
        if field.name == "seal":
            continue
        wanted, got = getattr(played, field.name), getattr(recorded, field.name)
        if not _same(wanted, got):
            return f"{field.name}: {_difference(wanted, got)}"
    return ""


def _same(a: Any, b: Any) -> bool:
    """Equality that keeps 1, 1.0 and True apart where JSON does."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)


def _difference(wanted: Any, got: Any) -> str:
    if isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            return f"replay has {len(wanted)} entries, the record {len(got)}"
        index = next(i for i, (a, b) in enumerate(zip(wanted, got, strict=True)) if not _same(a, b))
        return f"entry {index}: replay says {wanted[index]!r:.120}, the record {got[index]!r:.120}"
    if isinstance(wanted, dict) and isinstance(got, dict):
        key = next(k for k in [*wanted, *got] if not (k in wanted and k in got and _same(wanted[k], got[k])))
        return f"{key}: replay says {wanted.get(key)!r:.120}, the record {got.get(key)!r:.120}"
    return f"replay says {wanted!r:.120}, the record {got!r:.120}"
