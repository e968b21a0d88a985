"""Planners without a model: the two exact oracles, greedy search, chance, and fixed chains."""

from collections.abc import Sequence
from typing import Any

from costgym.agents.opencatp.base import Proposal, Situation, generator
from costgym.envs.tpl import TplState, kind_of
from costgym.simulators.errors import ConfigError
from costgym.simulators.opencatp.plan_space import PlanValues, plan_space
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, train_samples
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.opencatp.tools import READER_OF
from costgym.simulators.plan import TASK_INPUT, Plan

RESTORER_OF = {
    "low-resolutioned": "image_super_resolution",
    "noisy": "image_denoising",
    "blurry": "image_deblurring",
    "grayscale": "image_colorization",
}
USUAL_ORDER = ("image_denoising", "image_deblurring", "image_super_resolution", "image_colorization")


class _ValuesPlanner:
    """Base of the planners that compare plans by their values, which are computed once per evaluator."""

    model = ""
    _known: PlanValues | None = None
    _plans: dict[Any, Plan]  # by what they depend on besides the evaluator

    def values(self, evaluator: Evaluator) -> PlanValues:
        if self._known is None or self._known.evaluator is not evaluator:
            self._known, self._plans = PlanValues(evaluator), {}
        return self._known


class ClairvoyantPlanner(_ValuesPlanner):
    """The best plan for each sample, as execution would show it: an upper bound for everybody."""

    name, privileged = "oracle", True

    def propose(self, situation: Situation) -> Proposal:
        values = self.values(situation.evaluator)
        if situation.sample is None:
            raise ConfigError("planner oracle", "expected the sample, which only bounds can see")
        return Proposal(values.clairvoyant(situation.task, situation.sample, situation.level, situation.complete))


class ExpectedOptimumPlanner(_ValuesPlanner):
    """The best fixed plan for the task and size level over the train samples: the best that is known before execution."""

    name, privileged = "oracle-informed", True

    def propose(self, situation: Situation) -> Proposal:
        values = self.values(situation.evaluator)
        key = (situation.task.task_id, situation.level, situation.complete)
        if key not in self._plans:
            samples = train_samples(situation.evaluator)
            self._plans[key] = values.expected_optimum(situation.task, situation.level, samples, situation.complete)
        return Proposal(self._plans[key])


class GreedyPlanner(_ValuesPlanner):
    """Begins without a restorer and adds the one that gains most on the train samples, until none gains.

    Restorers form one chain, and all readers stand at its end.
    """

    name = "greedy"

    def propose(self, situation: Situation) -> Proposal:
        values = self.values(situation.evaluator)
        key = (situation.task.task_id, situation.level)
        if key not in self._plans:
            self._plans[key] = self._search(values, situation)
        return Proposal(self._plans[key])

    def _search(self, values: PlanValues, situation: Situation) -> Plan:
        task = situation.task
        samples = train_samples(situation.evaluator)
        means = values.qualities(task, situation.level)[samples].mean(axis=0)
        worth = dict(zip(plan_space(task.wants).plans, means.tolist(), strict=True))
        chain: tuple[str, ...] = ()
        best = worth.get(chain_plan(task, chain), float("-inf")) if _possible(task, chain) else float("-inf")
        while True:
            options = [(*chain, tool) for tool in USUAL_ORDER if tool not in chain]
            scored = [(worth.get(chain_plan(task, option), float("-inf")), option) for option in options]
            value, option = max(scored, default=(float("-inf"), chain), key=lambda pair: pair[0])
            if value <= best:
                return chain_plan(task, chain if _possible(task, chain) else option)
            best, chain = value, option


class FixedPlanner:
    """A fixed answer to every task: every restorer that the description suggests, in the usual order; or none at all."""

    model = ""

    def __init__(self, name: str = "fixed-all", restore: bool = True) -> None:
        self.name, self._restore = name, restore

    def propose(self, situation: Situation) -> Proposal:
        task = situation.task
        chain = suggested(task) if self._restore else ()
        return Proposal(chain_plan(task, chain if _possible(task, chain) else suggested(task)[:1]))


class CheapestPlanner:
    """The cheapest plan that makes an output of every wanted kind: the least that can be done."""

    name, model = "do-nothing", ""

    def propose(self, situation: Situation) -> Proposal:
        task, level = situation.task, situation.level
        plans = [chain_plan(task, chain) for chain in ((), *((tool,) for tool in USUAL_ORDER)) if _possible(task, chain)]
        return Proposal(min(plans, key=lambda plan: situation.evaluator.cost(plan, level)[0]))


class RandomPlanner:
    """A random walk through the planning language: every allowed token alike."""

    name, model = "random", ""

    def propose(self, situation: Situation) -> Proposal:
        chance = generator(situation.seed, self.name)
        state = TplState(kind_of(situation.task))
        while not state.done:
            actions = state.actions()
            state.push(actions[int(chance.integers(len(actions)))])
        return Proposal(state.plan())


def suggested(task: OpenCATPTask) -> tuple[str, ...]:
    """Return the restorers that the task's description calls for, in the usual order."""
    wanted = {RESTORER_OF[name] for name in task.degradations}
    return tuple(tool for tool in USUAL_ORDER if tool in wanted)


def chain_plan(task: OpenCATPTask, chain: tuple[str, ...]) -> Plan:
    """Return a plan that restores in one chain and reads at its end.

    Where the restored image is wanted beside texts, the readers stand one restorer earlier: the last one's image is the
    answer, and an answer is what nothing else reads.
    """
    texts = [want for want in task.wants if not want.is_image]
    readers = [tool for want in texts for tool in (READER_OF[want.kind], *["machine_translation"] * want.german)]
    return Plan.from_list(chain_items(chain, readers, any(want.is_image for want in task.wants)), tidy=False)


def chain_items(chain: Sequence[str], readers: Sequence[str], wants_image: bool) -> list[Any]:
    """Return the items of such a plan, as `Plan.from_list` takes them; a translation in `readers` reads the tool before it."""
    items: list[Any] = []
    for before, tool in zip((TASK_INPUT, *chain), chain, strict=False):
        items += [tool, [before]]
    nodes = (TASK_INPUT, *chain)
    last = node = nodes[-2] if wants_image and chain else nodes[-1]
    for tool in readers:
        items += [tool, [last if tool == "machine_translation" else node]]
        last = tool
    return items


def _possible(task: OpenCATPTask, chain: tuple[str, ...]) -> bool:
    """A wanted image needs a restorer to come from."""
    return bool(chain) or not any(want.is_image for want in task.wants)
