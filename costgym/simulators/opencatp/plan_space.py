"""All plans worth considering for a task, and the quality of each on every sample. The exact oracles search them.

Restorers form a forest under the task's image, each used at most once; every wanted text is read at one of its nodes (or at
the input); a wanted image is the one leaf that nothing reads. A German text may be translated or not. Where a single text is
wanted any text answers, so any reader may read it: a cheap one is sometimes worth more than the right one. An output may also
be left out where it costs more than it scores. Plans outside this space add tools that change no output, or text tools that no
task wants, which cost more than they could bring.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import combinations, product
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.opencatp.profile import Profile
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, ScoreSource
from costgym.simulators.opencatp.tasks import OpenCATPTask, Output
from costgym.simulators.opencatp.tools import IMAGE_TOOLS, LEVELS, READER_OF, READER_TOOLS
from costgym.simulators.plan import TASK_INPUT, Plan, PlanStep

Forest = dict[str, str]
"""The parent of each restorer in use: another restorer or the task's input. Parents stand before children."""


@lru_cache(maxsize=1)
def forests() -> tuple[Forest, ...]:
    """Every forest over every subset of the four restorers: 212, the empty one among them."""
    forests: list[Forest] = []
    for count in range(len(IMAGE_TOOLS) + 1):
        for used in combinations(IMAGE_TOOLS, count):
            for parents in product(*[[TASK_INPUT, *(other for other in used if other != tool)] for tool in used]):
                forest = dict(zip(used, parents, strict=True))
                # every choice of parents is tried, and those that go in a circle are left out: four tools make few enough
                order = _order(forest)
                if order is not None:
                    forests.append({tool: forest[tool] for tool in order})
    return tuple(forests)


def _order(forest: Forest) -> list[str] | None:
    """The tools with parents before children, or None where there is a cycle."""
    placed: list[str] = []
    while len(placed) < len(forest):
        ready = [tool for tool, parent in forest.items() if tool not in placed and parent in (TASK_INPUT, *placed)]
        if not ready:
            return None
        placed += ready
    return placed


def chain_to(forest: Forest, node: str) -> tuple[str, ...]:
    """The restorers from the input down to a node, the node last."""
    chain: list[str] = []
    while node != TASK_INPUT:
        chain.append(node)
        node = forest[node]
    return tuple(reversed(chain))


Route = tuple[str, ...]  # a reader and the text tools after it; empty for an image


def routes_to(want: Output, alone: bool) -> tuple[Route, ...]:
    """The routes from an image to a wanted output; the direct one comes first."""
    if want.is_image:
        return ((),)
    readers = [READER_OF[want.kind], *(reader for reader in READER_TOOLS if alone and reader != READER_OF[want.kind])]
    ends: tuple[Route, ...] = (("machine_translation",), ()) if want.german else ((),)
    return tuple((reader, *end) for reader in readers for end in ends)


Way = tuple[tuple[str, ...], Route]
"""The way in which an output was made: its chain of restorers, and the reader and text tools after it."""


def _plans(wants: tuple[Output, ...]) -> Iterator[tuple[Plan, tuple[Way | None, ...]]]:
    """The plans with the way to each wanted output, or None where it is left out. Plans that leave nothing out come first."""
    for included in product((True, False), repeat=len(wants)):
        for plan, ways in _plans_for(tuple(want for want, keep in zip(wants, included, strict=True) if keep), len(wants) == 1):
            candidates = iter(ways)
            yield plan, tuple(next(candidates) if keep else None for keep in included)
    if len(wants) == 1 and wants[0].is_image:
        for reader in READER_TOOLS:  # a plan has at least one tool
            yield Plan((_step(reader, TASK_INPUT),)), (None,)


def _plans_for(wants: tuple[Output, ...], alone: bool) -> Iterator[tuple[Plan, tuple[Way, ...]]]:
    texts = [want for want in wants if not want.is_image]
    wants_image = len(texts) < len(wants)
    options = [routes_to(want, alone) for want in texts]
    for forest in forests():
        inner = set(forest.values())
        leaves = [tool for tool in forest if tool not in inner]
        restorers = list(map(_step, forest, forest.values()))
        chains = {node: chain_to(forest, node) for node in (TASK_INPUT, *forest)}
        for parents in product([TASK_INPUT, *forest], repeat=len(texts)):
            # a leaf that nothing reads must be the wanted image; any other would be paid for nothing
            free = [leaf for leaf in leaves if leaf not in parents]
            if len(free) != (1 if wants_image else 0):
                continue
            for routes in product(*options):
                steps = [*restorers]
                for route, parent in zip(routes, parents, strict=True):
                    steps += map(_step, route, (parent, *route))
                where = iter(zip(parents, routes, strict=True))
                ends = [(free[0], ()) if want.is_image else next(where) for want in wants]
                if steps:
                    yield Plan(tuple(steps)), tuple((chains[end], route) for end, route in ends)


@cache
def _step(tool: str, source: str) -> PlanStep:
    return PlanStep(tool, (source,))


@dataclass(frozen=True, slots=True)
class PlanSpace:
    """The plans for one set of wanted outputs."""

    plans: tuple[Plan, ...]  # the plans
    ways: tuple[Way, ...]  # the different ways to an output that occur
    # index into `ways` of each plan's wanted outputs; one past the last where it is left out, (plans, wants)
    way_of: NDArray[np.int64]
    used: tuple[tuple[int, ...], ...]  # the ways that occur of each wanted output
    complete: int  # number of plans that leave no wanted output out; they come first


@lru_cache(maxsize=64)
def plan_space(wants: tuple[Output, ...]) -> PlanSpace:
    """The plans for a task's wanted outputs."""
    plans = list(_plans(wants))
    ways = tuple(sorted({way for _, used in plans for way in used if way is not None}, key=lambda way: (len(way[0]), way)))
    number: dict[Way | None, int] = {way: index for index, way in enumerate(ways)}
    number[None] = len(ways)
    way_of = np.array([[number[way] for way in used] for _, used in plans], dtype=np.int64)
    complete = sum(None not in used for _, used in plans)
    used = tuple(tuple(sorted(set(column) - {len(ways)})) for column in way_of.T.tolist())
    return PlanSpace(tuple(plan for plan, _ in plans), ways, way_of, used, complete)


@dataclass(slots=True)
class _Tables:
    """Scores of plans by task, of ways by image and output, and prices of plans, as far as they were asked for."""

    scores: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    ways: dict[tuple[int, str, Way], list[float]] = field(default_factory=dict)
    prices: dict[tuple[Output, ...], NDArray[np.float64]] = field(default_factory=dict)


_shared: WeakKeyDictionary[ScoreSource, list[tuple[Profile, _Tables]]] = WeakKeyDictionary()


def _tables_of(source: ScoreSource, profile: Profile) -> _Tables:
    """The tables of a score source and a profile; one for all that ask."""
    known = _shared.setdefault(source, [])
    for other, tables in known:
        if other == profile:
            return tables
    known.append((profile, _Tables()))
    return known[-1][1]


class PlanValues:
    """The quality of every plan of a task on every sample and size level, worked out once per task and shared if `share`."""

    def __init__(self, evaluator: Evaluator, share: bool = True) -> None:
        self.evaluator = evaluator
        self._tables = _tables_of(evaluator.scores, evaluator.profile) if share else _Tables()

    def scores(self, task: OpenCATPTask) -> NDArray[np.float64]:
        """Task score of every plan on every sample.  # (samples, plans)"""
        scores = self._tables.scores.get(task.task_id)
        if scores is None:
            scores = self._tables.scores[task.task_id] = self._scores_on(task, range(self.evaluator.scores.samples), keep=True)
        return scores

    def _scores_on(self, task: OpenCATPTask, samples: range, keep: bool) -> NDArray[np.float64]:
        """Task score of every plan on some samples.  # (samples, plans)"""
        space = plan_space(task.wants)
        # a plan's score is a sum over its outputs, and outputs share few ways: so a score is looked up once a way, not once a
        # plan
        total = np.zeros((len(space.plans), len(samples)))
        for w, want in enumerate(task.wants):
            table = np.zeros((len(space.ways) + 1, len(samples)))
            for index in space.used[w]:
                key = task.combination, want.name, space.ways[index]
                cached = self._tables.ways.get(key) if keep else None
                if cached is None:
                    cached = self._way_scores(*key, want, samples)
                    if keep:
                        self._tables.ways[key] = cached
                table[index] = cached
            total += table[space.way_of[:, w]]
        return (total / len(task.wants)).T

    def _way_scores(self, combination: int, name: str, way: Way, want: Output, samples: range) -> list[float]:
        """Score of an output that was made in one way.  # (samples,)"""
        source, (chain, route) = self.evaluator.scores, way
        if route == routes_to(want, False)[0]:  # the table holds these scores, which the evaluator uses too
            return [source.score(combination, s, chain, name) for s in samples]
        return [source.text_score(combination, s, chain, route, name) for s in samples]

    def forget(self, task: OpenCATPTask) -> None:
        """Drop the scores of a task's plans, the largest part of what is remembered."""
        self._tables.scores.pop(task.task_id, None)

    def prices(self, task: OpenCATPTask) -> NDArray[np.float64]:
        """Price of every plan at every size level, USD.  # (levels, plans)"""
        known = self._tables.prices.get(task.wants)
        if known is None:
            profile = self.evaluator.profile
            plans = [plan.nodes for plan in plan_space(task.wants).plans]
            prices = [{tool: profile.price(tool, level) for tool in profile.tools} for level in range(LEVELS)]
            known = np.array([[sum([price[tool] for tool in plan]) for plan in plans] for price in prices])
            self._tables.prices[task.wants] = known
        return known

    def qualities(self, task: OpenCATPTask, level: int, sample: int | None = None) -> NDArray[np.float64]:
        """Quality of every plan at a size level, on every sample or on one.  # (samples, plans) or (plans,)"""
        alpha, scale = self.evaluator.alpha, self.evaluator.max_price
        if sample is None:
            scores = self.scores(task)
        elif task.task_id in self._tables.scores:
            scores = self.scores(task)[sample]
        else:  # whoever asks for single samples asks for few of a task's
            scores = self._scores_on(task, range(sample, sample + 1), keep=False)[0]
        return np.asarray(alpha * scores - (1.0 - alpha) * self.prices(task)[level] / scale)

    def clairvoyant(self, task: OpenCATPTask, sample: int, level: int, complete: bool = False) -> Plan:
        """The best plan for one sample, known after execution; `complete`: of those that leave no wanted output out."""
        return self._best(task, self.qualities(task, level, sample), complete)

    def expected_optimum(self, task: OpenCATPTask, level: int, samples: range, complete: bool = False) -> Plan:
        """The best fixed plan for a task and size level over some samples, the best that can be known before execution."""
        return self._best(task, self.qualities(task, level)[samples].mean(axis=0), complete)

    def _best(self, task: OpenCATPTask, worth: NDArray[np.float64], complete: bool) -> Plan:
        space = plan_space(task.wants)
        return space.plans[int(np.argmax(worth[: space.complete] if complete else worth))]
