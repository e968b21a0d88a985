"""Labelled decisions: what deciders are fitted on and scored by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...simulators.decision.samples import CALL, NO_CALL, NO_SEARCH
from ...simulators.draws import stable_integer
from ...simulators.tasks import Task
from ...simulators.tools import Tool
from ...simulators.world import World
from .deciders import Decider


@dataclass(frozen=True, slots=True)
class Example:
    """A query with its candidates and what is right about them.

    Attributes:
        task: where it comes from.
        candidates: what a search brings.
    """

    task: Task
    candidates: tuple[Tool, ...]

    @property
    def kind(self) -> str:
        """NoSearch, NoCall or Call."""
        return self.task.group

    @property
    def query(self) -> str:
        return self.task.query

    @property
    def gold(self) -> int | None:
        """Index of the right candidate, or None where none fits."""
        right = self.task.needs[0].tools
        return next((index for index, tool in enumerate(self.candidates) if tool.name in right), None)


def examples(world: World, split: str, limit: int | None = None) -> list[Example]:
    """The decisions of a split, in order.

    Args:
        world: of a `DecisionAware` environment (`env.unwrapped.world`).
        split: its name.
        limit: the first so many; None for all.
    """
    numbers = world.tasks.numbers(split)[:limit]
    tasks = [world.tasks[number] for number in numbers]
    return [Example(task, tuple(world.catalog.get(name) for name in task.candidates)) for task in tasks]


class Record(NamedTuple):
    """What was decided about an example.

    Attributes:
        kind: of the example.
        searched: the first decision.
        right_call: the second decision was right; None where it was not taken.
    """

    kind: str
    searched: bool
    right_call: bool | None


class Accuracies(NamedTuple):
    """DEER's six accuracies, each a share of right decisions; None without an example of that kind.

    Source: DEER, Eq. 1 and 2.
    """

    no_search: float | None
    search: float | None
    decision_search: float | None
    no_call: float | None
    call: float | None
    decision_call: float | None


def accuracies(records: Iterable[Record]) -> Accuracies:
    """The six accuracies. A call decision that was never reached (no search was made) counts as wrong."""
    known = list(records)
    nos = [not r.searched for r in known if r.kind == NO_SEARCH]
    search = [r.searched for r in known if r.kind != NO_SEARCH]
    noc = [r.right_call is True for r in known if r.kind == NO_CALL]
    call = [r.right_call is True for r in known if r.kind == CALL]
    return Accuracies(*(_share(flags) for flags in (nos, search, nos + search, noc, call, noc + call)))


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def evaluate(decider: Decider, known: Sequence[Example], seed: int = 0, forced: bool = True) -> list[Record]:
    """Ask a decider about examples.

    Args:
        decider: to be scored.
        known: the examples.
        seed: of a decider's own chance.
        forced: it chooses among the candidates of every example that needs a tool, whether it would have searched or not: the
            paper's protocol, in which the two decisions are scored apart. Else only after a search, as in an episode.
    """
    records = []
    for example in known:
        decider.begin(example.task, stable_integer(seed, "decider", example.task.id) >> 1)
        searched = decider.search(example.query)
        right: bool | None = None
        if example.kind != NO_SEARCH and (searched or forced):
            right = decider.choose(example.query, example.candidates) == example.gold
        records.append(Record(example.kind, searched, right))
    return records
