"""All plans worth considering for a task, and what each comes to on every sample: the ground of the exact oracles.

Restorers form a forest under the task's image, each used at most once; every wanted text is read at one of its nodes (or at
the input) and translated where German is wanted; a wanted image is the one leaf that nothing reads. Plans outside this space
only add tools that change no output, so its best is the best of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from ..plan import TASK_INPUT, Plan
from .evaluation import Evaluator
from .levels import LEVELS
from .tasks import OpenCATPTask, Output
from .tools import IMAGE_TOOLS, OUTPUT_OF_READER

READER_OF = {output: reader for reader, output in OUTPUT_OF_READER.items()}
Forest = dict[str, str]
"""Parent of each restorer used: another one, or the task's input; parents stand before children."""


@lru_cache(maxsize=1)
def forests() -> tuple[Forest, ...]:
    """Every forest over every subset of the four restorers: 212, the empty one among them."""
    found: list[Forest] = []
    for count in range(len(IMAGE_TOOLS) + 1):
        for used in combinations(IMAGE_TOOLS, count):
            for parents in product(*[[TASK_INPUT, *(other for other in used if other != tool)] for tool in used]):
                forest = dict(zip(used, parents, strict=True))
                order = _order(forest)
                if order is not None:
                    found.append({tool: forest[tool] for tool in order})
    return tuple(found)


def _order(forest: Forest) -> list[str] | None:
    """Tools with parents before children; None where there is a cycle."""
    placed: list[str] = []
    waiting = list(forest)
    while waiting:
        ready = [tool for tool in waiting if forest[tool] == TASK_INPUT or forest[tool] in placed]
        if not ready:
            return None
        placed += ready
        waiting = [tool for tool in waiting if tool not in ready]
    return placed


def chain_to(forest: Forest, node: str) -> tuple[str, ...]:
    """The restorers from the input down to a node, the node last."""
    chain: list[str] = []
    while node != TASK_INPUT:
        chain.append(node)
        node = forest[node]
    return tuple(reversed(chain))


def _plans(wants: tuple[Output, ...]) -> Iterator[tuple[Plan, tuple[tuple[str, ...], ...]]]:
    texts = [want for want in wants if not want.is_image]
    wants_image = len(texts) < len(wants)
    for forest in forests():
        inner = set(forest.values())
        leaves = [tool for tool in forest if tool not in inner]
        for places in product([TASK_INPUT, *forest], repeat=len(texts)):
            free = [leaf for leaf in leaves if leaf not in places]
            if len(free) != (1 if wants_image else 0):
                continue
            items: list[object] = []
            for tool, parent in forest.items():
                items += [tool, [parent]]
            for want, place in zip(texts, places, strict=True):
                reader = READER_OF[want.kind]
                items += [reader, [place]]
                if want.german:
                    items += ["machine_translation", [reader]]
            where = iter(places)
            chains = tuple(chain_to(forest, free[0] if want.is_image else next(where)) for want in wants)
            if items:
                yield Plan.from_list(items, tidy=False), chains


@dataclass(frozen=True, slots=True)
class PlanSpace:
    """The plans for one set of wanted outputs.

    Attributes:
        plans: one after the other.
        chains: all different restorer chains that occur.
        chain_of: index into `chains` of each plan's wanted outputs.  # (plans, wants)
    """

    plans: tuple[Plan, ...]
    chains: tuple[tuple[str, ...], ...]
    chain_of: NDArray[np.int64]


@lru_cache(maxsize=64)
def plan_space(wants: tuple[Output, ...]) -> PlanSpace:
    """The plans for a task's wanted outputs."""
    found = list(_plans(wants))
    chains = tuple(sorted({chain for _, used in found for chain in used}, key=lambda chain: (len(chain), chain)))
    number = {chain: index for index, chain in enumerate(chains)}
    chain_of = np.array([[number[chain] for chain in used] for _, used in found], dtype=np.int64)
    return PlanSpace(tuple(plan for plan, _ in found), chains, chain_of)


class PlanValues:
    """What every plan of a task's space comes to, on every sample and size level; worked out once per task.

    Args:
        evaluator: scores, prices and the weight between them.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._scores: dict[int, NDArray[np.float64]] = {}
        self._prices: dict[tuple[Output, ...], NDArray[np.float64]] = {}

    def scores(self, task: OpenCATPTask) -> NDArray[np.float64]:
        """Task score of every plan on every sample.  # (samples, plans)"""
        found = self._scores.get(task.task_id)
        if found is None:
            space = plan_space(task.wants)
            source, samples = self.evaluator.scores, range(self.evaluator.scores.samples)
            table = np.zeros((len(task.wants), len(space.chains), len(samples)))
            for w, want in enumerate(task.wants):
                for c, chain in enumerate(space.chains):
                    if want.is_image:
                        table[w, c] = [source.score(task.combination, s, chain, "image") for s in samples]
                    else:
                        route = (READER_OF[want.kind], *(("machine_translation",) if want.german else ()))
                        wanted = want.kind + ("_de" if want.german else "")
                        table[w, c] = [source.text_score(task.combination, s, chain, route, wanted) for s in samples]
            total = np.zeros((len(space.plans), len(samples)))
            for w in range(len(task.wants)):
                total += table[w, space.chain_of[:, w]]
            found = self._scores[task.task_id] = (total / len(task.wants)).T
        return found

    def prices(self, task: OpenCATPTask) -> NDArray[np.float64]:
        """Price of every plan at every size level, USD.  # (levels, plans)"""
        found = self._prices.get(task.wants)
        if found is None:
            profile = self.evaluator.profile
            plans = plan_space(task.wants).plans
            found = np.array([[profile.plan_price(plan, level) for plan in plans] for level in range(LEVELS)])
            self._prices[task.wants] = found
        return found

    def qualities(self, task: OpenCATPTask, level: int) -> NDArray[np.float64]:
        """Quality of every plan on every sample at a size level.  # (samples, plans)"""
        alpha, scale = self.evaluator.alpha, self.evaluator.max_price
        return np.asarray(alpha * self.scores(task) - (1.0 - alpha) * self.prices(task)[level] / scale)

    def clairvoyant(self, task: OpenCATPTask, sample: int, level: int) -> Plan:
        """The best plan for one sample, known after execution: nothing does better."""
        return plan_space(task.wants).plans[int(np.argmax(self.qualities(task, level)[sample]))]

    def informed(self, task: OpenCATPTask, level: int, samples: range) -> Plan:
        """The best fixed plan for a task and size level over given samples: the best that can be known before execution."""
        return plan_space(task.wants).plans[int(np.argmax(self.qualities(task, level)[samples].mean(axis=0)))]
