"""A call's times and price are decided in one place of the event-driven world and in one kernel file."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [path for folder in ("simulators", "envs", "agents", "experiments") for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def names_in(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Attributes that a file assigns to, and modules that it imports; it is parsed once for all tests."""
    tree = ast.parse(text_of(path))
    return frozenset(written(tree)), frozenset(imported(tree))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def named(*names: str) -> list[Path]:
    """The files in which one of the names stands; the others need not be parsed."""
    return [path for path in FILES if any(name in text_of(path) for name in names)]


def written(tree: ast.AST) -> Iterator[str]:
    """Attributes that are assigned to, in tuples too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


@pytest.mark.parametrize(
    ("names", "allowed"),
    [
        ({"started_s", "ready_s"}, {"simulators/rules/layout.py"}),
        ({"finished_s"}, {"simulators/world/episode.py", "simulators/rules/layout.py"}),
        ({"busy", "reserved"}, {"simulators/world/episode.py", "simulators/rules/calls.py", "simulators/rules/records.py"}),
    ],
)
def test_times_and_reservations_of_calls_are_written_in_one_place(names: set[str], allowed: set[str]) -> None:
    paths = {path.relative_to(ROOT).as_posix() for path in named(*names) if names & names_in(path)[0]}
    assert paths == allowed


def test_only_the_episode_has_a_simulated_clock() -> None:
    clocks = [path for path in named("simpy") if "simpy" in names_in(path)[1]]
    assert [path.relative_to(ROOT).as_posix() for path in clocks] == ["simulators/clock.py"]
