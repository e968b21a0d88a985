"""Score many plans at once, given as token sequences or `Plan`s: prices, times, scores and qualities.

The results equal those of `evaluation.Evaluator` to the last bit. Numba is needed (extra ``train``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, InvalidPlan, UnknownName
from ...plan import Plan
from ..levels import LEVELS
from ..scoring.evaluation import Evaluator
from ..scoring.table import CHAINS, OUTPUTS, OutcomeTable
from ..tasks import OpenCATPTask, all_tasks
from ..tools import ALL_TOKEN_TOOLS, DEPENDENCY_TOKEN, TOOL_TOKEN, TOOLS
from . import kernels

_SMALLEST = 1 << 12
_REASONS = {
    kernels.EMPTY: "a plan has at least one tool, this one is empty",
    kernels.NO_TOKEN: "no token of the planning language",
    kernels.NO_TOOL_YET: "a dependency before any tool",
    kernels.NO_DEPENDENCY: "the tool before has no dependencies; name earlier tools or the task's input",
    kernels.TWICE: "a tool occurs once, this one was there before",
    kernels.NOT_BEFORE: "a dependency that is not among the tools before",
    kernels.UNKNOWN_TOOL: "a tool that has no part in this world",
    kernels.WRONG_KIND: "the tool reads something of another kind (image or text)",
}


class PlanScores(NamedTuple):
    """Results of plans, in arrays of one figure per plan.

    Attributes:
        score: Task score.
        price: Price of the plan, USD.
        seconds: Time of the plan where branches run at once, seconds.
        quality: Quality of Plan.
        valid: False where a sequence of tokens is not a plan; its figures are then not numbers.
    """

    score: NDArray[np.float64]
    price: NDArray[np.float64]
    seconds: NDArray[np.float64]
    quality: NDArray[np.float64]
    valid: NDArray[np.bool_]


class PlanScorer:
    """Scores plans in batch as an `Evaluator` does one by one.

    Scores of the straight ways to an output are the outcome table's own array. Others, and all of another source of scores, are
    asked of the source once and kept, so a source has to give the same answer to the same question.

    Args:
        evaluator: Source of scores and prices and the weight between them; None for the shipped table and profile ``v100``.

    Raises:
        MissingExtra: Numba is not installed.
    """

    def __init__(self, evaluator: Evaluator | None = None) -> None:
        self.evaluator = evaluator = Evaluator() if evaluator is None else evaluator
        self.tables = _tables(evaluator)
        self._known = 0
        self.store = _store(_SMALLEST, 0)
        self.reserve(1 << 14)

    def reserve(self, plans: int) -> None:
        """Make room to note the scores that this number of plans lacks at once."""
        if self.store.missing.shape[1] < kernels.WANTS * plans:
            self.store = self.store._replace(missing=np.zeros((2, kernels.WANTS * plans), np.int64))

    @property
    def nbytes(self) -> int:
        """Size of the tables and of the cached scores in bytes; all episodes share them."""
        return sum(part.nbytes for part in (*self.tables, *self.store) if isinstance(part, np.ndarray))

    def look_up(self) -> None:
        """Ask the source for the scores that the last kernel lacked.

        Raises:
            DataError: The outcome table has no such text.
        """
        count = int(self.store.lacking[0])
        if not count:
            return
        keys, first = np.unique(self.store.missing[0, :count], return_index=True)
        values = np.array([self._ask(place) for place in self.store.missing[1, first].tolist()])
        self.store.lacking[0] = 0
        self._known += len(keys)
        if 2 * self._known > self.store.keys.size:
            before = self.store
            size = before.keys.size
            while size < 4 * self._known:
                size *= 2
            self.store = _store(size, 0)._replace(missing=before.missing)
            kept = before.keys >= 0
            kernels.insert(self.store, before.keys[kept], before.values[kept])
        kernels.insert(self.store, keys, values)

    def _ask(self, place: int) -> float:
        place, output = divmod(place, 8)
        place, route = divmod(place, kernels.ROUTES)
        place, chain = divmod(place, len(CHAINS))
        combination, sample = divmod(place, self.tables.samples)
        source, name = self.evaluator.scores, OUTPUTS[output]
        if route == self.tables.straight[output]:
            return source.score(combination, sample, CHAINS[chain], name)
        return source.text_score(combination, sample, CHAINS[chain], kernels.ROUTE_LIST[route], name)

    def score(
        self,
        plans: Sequence[Plan] | Sequence[Sequence[int]] | NDArray[Any],
        tasks: OpenCATPTask | int | Sequence[OpenCATPTask | int] | NDArray[Any],
        samples: int | Sequence[int] | NDArray[Any],
        levels: int | Sequence[int] | NDArray[Any] | None = None,
        *,
        invalid: str = "raise",
    ) -> PlanScores:
        """Score plans.

        Args:
            plans: P plans, or sequences of official tokens as `envs.tpl.encode` writes them; an array (P, L) of integers may be
                filled up with zeros.
            tasks: The task of each, or one for all: tasks or their numbers (old numbering).
            samples: The sample of each, or one for all.
            levels: Size levels; None for each sample's own.
            invalid: ``raise``, or ``mark`` to give invalid plans figures that are not numbers.

        Raises:
            InvalidPlan: One of them is not a plan of this world; says which, where and why.
            ConfigError: The numbers of plans, tasks, samples and levels do not fit.
            UnknownName: There is no such task or sample.
        """
        if invalid not in ("raise", "mark"):
            raise UnknownName("treatment of invalid plans", invalid, ("raise", "mark"))
        tokens, bounds = _flat(plans)
        count = len(bounds) - 1
        rows = _each("tasks", _rows(tasks), count)
        drawn = _each("samples", samples, count)
        if count and not (drawn.min() >= 0 and drawn.max() < self.tables.samples):
            wrong = drawn[(drawn < 0) | (drawn >= self.tables.samples)][0]
            raise UnknownName("sample", str(wrong), (f"0..{self.tables.samples - 1}",))
        if levels is None:
            sizes = (drawn + self.tables.task_id[rows]) % LEVELS
        else:
            sizes = _each("levels", levels, count)
            if count and not (sizes.min() >= 0 and sizes.max() < LEVELS):
                raise ConfigError("levels", f"expected size levels 0..{LEVELS - 1}, got {sizes.min()}..{sizes.max()}")
        figures, errors = np.empty((4, count)), np.zeros((2, count), np.int64)
        todo = np.ones(count, np.bool_)
        scratch = np.zeros((1, 10), np.int8), np.zeros((1, 10), np.int16), np.zeros((1, 10))
        while kernels.score_all(self.tables, self.store, tokens, bounds, rows, drawn, sizes, scratch, (figures, errors), todo):
            self.look_up()
        valid = errors[0] == 0
        if invalid == "raise" and not valid.all():
            first = int(np.flatnonzero(~valid)[0])
            raise InvalidPlan(_REASONS[int(errors[0, first])], f"plan {first + 1}, token {int(errors[1, first]) + 1}")
        return PlanScores(figures[0], figures[1], figures[2], figures[3], valid)


@lru_cache(maxsize=1)
def task_rows() -> dict[int, int]:
    """Row of each task in the tables, by its number."""
    return {task.task_id: row for row, task in enumerate(all_tasks())}


def _rows(tasks: Any) -> Any:
    known = task_rows()

    def row(task: Any) -> int:
        number = task.task_id if isinstance(task, OpenCATPTask) else int(task)
        if number not in known:
            raise UnknownName("OpenCATP task (old numbering)", str(number), map(str, known))
        return known[number]

    if isinstance(tasks, np.ndarray) and tasks.ndim == 1:
        numbers, inverse = np.unique(tasks, return_inverse=True)
        return np.array([row(number) for number in numbers.tolist()], np.int64)[inverse]
    return [row(task) for task in tasks] if isinstance(tasks, Sequence) else row(tasks)


def _each(name: str, values: Any, count: int) -> NDArray[np.int64]:
    """Return one whole number for each plan."""
    array = np.asarray(values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ConfigError(name, f"expected whole numbers, got {array.dtype}")
    if array.ndim and array.shape != (count,):
        raise ConfigError(name, f"expected one, or one for each of {count} plans, got shape {array.shape}")
    return np.ascontiguousarray(np.broadcast_to(array, (count,)), dtype=np.int64)


def _flat(plans: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All tokens in one array, and the index at which each plan begins."""
    if isinstance(plans, np.ndarray):
        if plans.ndim != 2 or not np.issubdtype(plans.dtype, np.integer):
            raise ConfigError(
                "plans", f"expected an array (plans, tokens) of integers, got shape {plans.shape} of {plans.dtype}"
            )
        bounds = np.arange(len(plans) + 1, dtype=np.int64) * plans.shape[1]
        return np.ascontiguousarray(plans, np.int64).reshape(-1), bounds
    tokens: list[int] = []
    bounds = np.zeros(len(plans) + 1, np.int64)
    tools, dependencies = TOOL_TOKEN, DEPENDENCY_TOKEN
    for number, plan in enumerate(plans):
        if isinstance(plan, Plan):
            try:
                for step in plan.steps:
                    tokens.append(tools[step.tool])
                    tokens += [dependencies[dep] for dep in step.deps]
            except KeyError as error:
                known = ", ".join(ALL_TOKEN_TOOLS)
                raise InvalidPlan(f"unknown tool {error}; known: {known}", f"plan {number + 1}") from None
        else:
            tokens += plan
        bounds[number + 1] = len(tokens)
    flat = np.array(tokens, np.int64)
    return np.where(flat > 0, flat, 1), bounds  # only arrays are padded with zeros; in a sequence a zero is not a token


def _store(size: int, missing: int) -> kernels.ScoreCache:
    return kernels.ScoreCache(
        np.full(size, -1, np.int64), np.zeros(size), np.zeros((2, missing), np.int64), np.zeros(1, np.int64)
    )


def _tables(evaluator: Evaluator) -> kernels.PlanTables:
    profile, source, tasks = evaluator.profile, evaluator.scores, all_tasks()
    # A subclass of the table is asked as any other source is.
    table = source if type(source) is OutcomeTable else None
    kind, route_tools, straight = kernels.route_tables()
    want_kind, want_output = np.zeros((2, len(tasks), kernels.WANTS), np.int8)
    for row, task in enumerate(tasks):
        for k, want in enumerate(task.wants):
            want_kind[row, k], want_output[row, k] = kernels.KINDS_OF_OUTPUT.index(want.kind), OUTPUTS.index(want.name)
    levels = range(LEVELS)
    return kernels.PlanTables(
        price=np.array([[profile.price(tool, level) for tool in TOOLS] for level in levels], np.float64),
        seconds=np.array([[profile.seconds(tool, level) for tool in TOOLS] for level in levels], np.float64),
        after=kernels.next_nodes(),
        route_kind=kind,
        route_tools=route_tools,
        straight=straight,
        task_id=np.array([task.task_id for task in tasks], np.int64),
        combination=np.array([task.combination for task in tasks], np.int64),
        want_count=np.array([len(task.wants) for task in tasks], np.int64),
        any_text=np.array([task.kind == "sequential" for task in tasks], np.bool_),
        want_kind=want_kind,
        want_output=want_output,
        from_table=table is not None,
        scores=np.zeros((0, 0, 0, 0), np.float32) if table is None else np.ascontiguousarray(table.scores),
        reader=np.zeros((0, 0, 0, 0), np.uint32) if table is None else np.ascontiguousarray(table._reader, np.uint32),
        tool=np.zeros((0, 0), np.int32) if table is None else np.ascontiguousarray(table._tool, np.int32),
        wanted=np.zeros((0, 0), np.uint32) if table is None else np.ascontiguousarray(table._wanted, np.uint32),
        samples=source.samples,
        alpha=float(evaluator.alpha),
        max_price=float(evaluator.max_price),
        compensated=sys.version_info >= (3, 12),
    )
