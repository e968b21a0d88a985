"""CATP-LLM's offline training data: plans found by searching the tool graph, executed on the samples of the train tasks.

For each task, the graph is pruned to the tools that the task can use: all restoration tools, the tools that produce its output
types, and translation if the output is German. Random walks through the pruned graph yield plans of every shape; a search over
useful plans adds the best plans found and a range of worse ones. Every plan is executed on all train samples, and its return is
the mean over them, so that no return depends on a single image. Plans that the action masks forbid are excluded.

Source: CATP-LLM, section 3.2.2 (data generation).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from costgym.agents.catp.planner import prices_at
from costgym.agents.catp.sequences import Record, begin, extend, returns_of, rewards_of
from costgym.agents.catp.settings import CatpSettings
from costgym.envs.tpl import ACTION_TOKENS, END, FIRST_TOOL, INPUT, KINDS, TplState, encode, kind_of
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError, InvalidPlan
from costgym.simulators.opencatp.plan_space import PlanValues, plan_space
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, ScoreSource, split_samples
from costgym.simulators.opencatp.tasks import OpenCATPTask, Output
from costgym.simulators.opencatp.tasks import tasks as find_tasks
from costgym.simulators.opencatp.tools import IMAGE_TOOLS, LEVELS, READER_OF, TOOLS
from costgym.simulators.plan import Plan
from costgym.simulators.quality import returns_to_go

_ACTION_OF_TOKEN = {token: action for action, token in enumerate(ACTION_TOKENS)}
_NEAR_SHARE = 0.1
_REMEMBERED = 4
_collected: "WeakKeyDictionary[ScoreSource, list[tuple[Any, tuple[ExecutedPlan, ...]]]]" = WeakKeyDictionary()
"""The last collections from each source of scores, with what they depend on."""
COMPOSED = 1000
"""First id of the composed tasks."""


@dataclass(frozen=True, slots=True)
class ExecutedPlan:
    """A plan with its task score and prices."""

    task: OpenCATPTask
    level: int
    choices: tuple[int, ...]  # the policy's actions that write the plan; the last one is EOP
    score: float  # mean task score over the samples on which the plan was executed
    prices: tuple[float, ...]  # price of one run of each tool, USD, indexed by the tool's position in `TOOLS`
    sample: int = -1  # the sample on which the plan was executed; -1 for all train samples

    def record(self, settings: CatpSettings, baseline: float) -> Record:
        """Convert the plan to an episode; `baseline` is subtracted from its returns."""
        returns = returns_of(self._rewards(settings), baseline, settings.gamma)
        state = TplState(kind_of(self.task))
        record = begin(self.task, self.level, state, returns[0])
        for step, choice in enumerate(self.choices):
            state.push(choice)
            extend(record, choice, state, returns[min(step + 1, len(returns) - 1)])
        return record

    def total_return(self, settings: CatpSettings) -> float:
        """Return of the whole episode; the Quality of Plan where prices are charged once and nothing is discounted."""
        return returns_to_go(self._rewards(settings), settings.gamma)[0]

    def quality(self, alpha: float) -> float:
        """Quality of Plan."""
        return sum(rewards_of(self.choices, self.prices, self.score, alpha, True))

    def _rewards(self, settings: CatpSettings) -> list[float]:
        return rewards_of(
            self.choices,
            self.prices,
            self.score,
            settings.alpha,
            settings.intermediate_feedback,
            cumulative=settings.cumulative,
        )


@lru_cache(maxsize=1 << 15)
def choices_of(plan: Plan, kind: str) -> tuple[int, ...] | None:
    """Return the actions that write a plan, or None if the action masks forbid one of them."""
    try:
        state = TplState(kind)
        choices = [_ACTION_OF_TOKEN[token] for token in encode(plan) if token in _ACTION_OF_TOKEN]
        for choice in choices:
            state.push(choice)
    except InvalidPlan:
        return None
    return tuple(choices)


def relevant_choices(task: OpenCATPTask) -> int:
    """Return a bit mask of the actions in the tool graph pruned for a task: its usable tools and all non-tool actions."""
    tools = {*IMAGE_TOOLS, *(READER_OF[want.kind] for want in task.wants if not want.is_image)}
    if any(want.german for want in task.wants):
        tools.add("machine_translation")
    bits = sum(1 << (FIRST_TOOL + number) for number, tool in enumerate(TOOLS) if tool in tools)
    return bits | sum(1 << choice for choice in range(len(ACTION_TOKENS)) if not FIRST_TOOL <= choice < INPUT)


def random_walk(task: OpenCATPTask, chance: np.random.Generator) -> tuple[int, ...]:
    """Draw a valid plan: each token is drawn uniformly from the legal tokens in the pruned graph."""
    state, relevant = TplState(kind_of(task)), relevant_choices(task)
    choices: list[int] = []
    while not state.done:
        bits = state.legal & relevant
        if not bits:  # only tools outside the pruned graph could finish this plan: start another
            state.reset()
            choices.clear()
            continue
        options = [choice for choice in range(len(ACTION_TOKENS)) if bits >> choice & 1]
        # SearchResult, where legal, is as likely as continuing, so that short plans are not rare.
        ends = END in options and bool(chance.integers(2))
        choices.append(END if ends else options[int(chance.integers(len(options)))])
        state.push(choices[-1])
    return tuple(choices)


def train_tasks(settings: CatpSettings) -> tuple[OpenCATPTask, ...]:
    """Return the train tasks of a run's kind; for nonsequential tasks, composed tasks are added."""
    of_split = find_tasks(settings.tasks, "train")
    return of_split if settings.tasks == "sequential" else (*of_split, *composed_tasks(settings.composed, settings.seed))


def composed_tasks(count: int, seed: int) -> tuple[OpenCATPTask, ...]:
    """Compose tasks with two or three outputs from sequential train tasks on the same degraded images.

    So composed plans use train tasks and train samples only. Tasks that already exist, test tasks included, are excluded. At
    most one output is German, as in all tasks.
    """
    known = {(task.combination, frozenset(task.wants)) for task in find_tasks("all")}
    single: dict[int, list[Output]] = {}
    for task in find_tasks("sequential", "train"):
        single.setdefault(task.combination, []).append(task.wants[0])
    possible = [
        (combination, wants)
        for combination, outputs in sorted(single.items())
        for size in (2, 3)
        for wants in combinations(outputs, size)
        if len({want.kind for want in wants}) == size
        and "+".join(sorted("image" if want.is_image else "text" for want in wants)) in KINDS
        and sum(want.german for want in wants) <= 1
        and (combination, frozenset(wants)) not in known
    ]
    order = stable_generator(seed, "composed").permutation(len(possible))[:count].tolist()
    return tuple(
        OpenCATPTask(COMPOSED + number, COMPOSED + number, "nonsequential", "train", *possible[number]) for number in order
    )


def collect(tasks: Sequence[OpenCATPTask], evaluator: Evaluator, settings: CatpSettings) -> list[ExecutedPlan]:
    """Collect executed plans for tasks, by the settings, scores and prices alone; raises ConfigError without tasks. The last
    few collections of this process are remembered, since ablations learn from the same plans."""
    if not tasks:
        raise ConfigError("tasks", "expected at least one task to collect plans for")
    searched = (settings.seed, settings.walks, settings.best, settings.near, settings.spread)
    key = (evaluator.profile, evaluator.alpha, evaluator.max_price, tuple(tasks), searched)
    known = _collected.setdefault(evaluator.scores, [])
    for other, plans in known:
        if other == key:
            return list(plans)
    executed: list[ExecutedPlan] = []
    values = PlanValues(evaluator, share=False)
    for task in tasks:
        executed += _of_task(task, values, settings)
        values.forget(task)
    known.append((key, tuple(executed)))
    del known[:-_REMEMBERED]
    return executed


def _of_task(task: OpenCATPTask, values: PlanValues, settings: CatpSettings) -> Iterator[ExecutedPlan]:
    evaluator = values.evaluator
    train = split_samples(evaluator.scores.samples, "train")
    kind, space = kind_of(task), plan_space(task.wants)
    plans = space.plans[: space.complete]
    chance = stable_generator(settings.seed, "plans", task.task_id)
    walks = list(dict.fromkeys(random_walk(task, chance) for _ in range(settings.walks)))
    scores: dict[tuple[int, ...], float] = {}
    # a stable sort, here and below: equal qualities must come in the same order on every machine
    for level in range(LEVELS):
        order = np.argsort(-values.qualities(task, level)[train, : space.complete].mean(axis=0), kind="stable")
        near = order[settings.best : max(settings.best + settings.near, int(_NEAR_SHARE * len(order)))]
        picked = [*order[: settings.best].tolist()]
        for pool, count in ((near, settings.near), (order, settings.spread)):
            if count and len(pool):
                picked += chance.choice(pool, size=min(count, len(pool)), replace=False).tolist()
        written = [(choices, number) for number in picked if (choices := choices_of(plans[number], kind)) is not None]
        for choices, number in written:
            if choices not in scores:
                scores[choices] = float(np.mean(values.scores(task)[train, number]))
        for choices in dict.fromkeys([*(choices for choices, _ in written), *walks]):
            if choices not in scores:
                plan = _plan(kind, choices)
                scores[choices] = float(np.mean([evaluator.score(plan, task, sample) for sample in train]))
            yield ExecutedPlan(task, level, choices, scores[choices], prices_at(evaluator, level))


def labels(tasks: Sequence[OpenCATPTask], evaluator: Evaluator) -> list[ExecutedPlan]:
    """The plan with the highest task score for each task and size level, the cheaper one of equal plans: the labels of
    instruction fine-tuning, which does not consider prices."""
    train = split_samples(evaluator.scores.samples, "train")
    rows = []
    values = PlanValues(evaluator, share=False)
    for task in tasks:
        space, kind = plan_space(task.wants), kind_of(task)
        scores = values.scores(task)[train, : space.complete].mean(axis=0)
        prices = values.prices(task)[:, : space.complete].mean(axis=0)
        values.forget(task)
        for number in np.lexsort((prices, -np.round(scores, 9))).tolist():
            choices = choices_of(space.plans[number], kind)
            if choices is not None:
                break
        else:
            raise InvalidPlan(f"no plan that the masks admit solves task {task.task_id}")
        score = float(scores[number])
        rows += [ExecutedPlan(task, level, choices, score, prices_at(evaluator, level)) for level in range(LEVELS)]
    return rows


def records_of(plans: Sequence[ExecutedPlan], settings: CatpSettings) -> tuple[list[Record], float]:
    """Convert executed plans to episodes, and return them with the target return of the trained policy."""
    keys = [(plan.task.task_id, plan.level, plan.sample) for plan in plans]
    qualities = [plan.quality(settings.alpha) for plan in plans]
    # one value where the return is the quality, so that both are rounded alike
    is_quality = not settings.cumulative and settings.gamma == 1.0
    returns = qualities if is_quality else [plan.total_return(settings) for plan in plans]
    best, most = _greatest(keys, qualities), _greatest(keys, returns)
    records = [plan.record(settings, most[key] if settings.centred else 0.0) for key, plan in zip(keys, plans, strict=True)]
    for key, quality, record in zip(keys, qualities, records, strict=True):
        record.regret = best[key] - quality
    return records, 0.0 if settings.centred else max(most.values())


def _greatest(keys: Sequence[tuple[int, int, int]], values: Sequence[float]) -> dict[tuple[int, int, int], float]:
    best: dict[tuple[int, int, int], float] = {}
    for key, value in zip(keys, values, strict=True):
        best[key] = max(best.get(key, -np.inf), value)
    return best


def _plan(kind: str, choices: Sequence[int]) -> Plan:
    state = TplState(kind)
    for choice in choices:
        state.push(choice)
    return state.plan()
