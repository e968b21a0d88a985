"""The common view of an OpenCATP episode: calls, charges and a grade in the terms of the tool world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..calls import Call
from ..ledger import RESOURCES, Budget, Ledger
from ..plan import TASK_INPUT
from ..status import Status
from ..tasks import Grade, Task
from .profile import Profile
from .tasks import OpenCATPTask
from .tools import TOOLS

WRITING = "plan"
"""The name under which a ledger charges the tokens of a plan."""


@dataclass(frozen=True, slots=True)
class PlanView:
    """A `costgym.simulators.episode_view.EpisodeView` of an episode over the OpenCATP tools.

    Attributes:
        task, number, seed, budget, calls, ledger, now_s, exceeded, grade, over: See there. The grade's share is the task score.
    """

    task: Task
    number: int
    seed: int
    budget: Budget
    calls: tuple[Call, ...]
    ledger: Ledger
    now_s: float
    exceeded: str | None
    grade: Grade | None
    over: bool

    def remaining(self) -> dict[str, float]:
        """Return what is left of each limited resource."""
        used = dict(zip(RESOURCES, (self.ledger.price, self.now_s, self.ledger.tokens, self.ledger.calls), strict=True))
        return {name: limit - used[name] for name, limit in self.budget.items()}


def plan_task(task: OpenCATPTask, sample: int, level: int) -> Task:
    """A task on a sample as a task of the tool world. Its id names both, for example ``sequential-24-sample-61``."""
    name = f"{task.kind}-{task.task_id}-sample-{sample}"
    return Task(name, task.task_id, task.description, (), TOOLS, task.kind, size_level=level)


def plan_call(
    tool: str,
    arguments: Mapping[str, str],
    submitted_s: float,
    started_s: float,
    ready_s: float,
    finished_s: float,
    price: float,
    status: Status = Status.OK,
) -> Call:
    """A call of a tool. A time of -1 has not come yet; `arguments` name what the tool reads or waits for."""
    call = Call(TOOLS.index(tool), 1, submitted_s, arguments, tool, status, started_s, ready_s, finished_s)
    call.cold, call.price = ready_s > started_s, price
    return call


def plan_calls(
    steps: Iterable[tuple[str, Sequence[str]]], profile: Profile, level: int, status: Status = Status.OK
) -> list[Call]:
    """The calls of a plan as it runs: each tool from the end of the last of what it depends on.

    Args:
        steps: Tools in the order written, each with its dependencies, which come before it.
        profile, level: Profile of the tools, and the size level of the input.
        status: Status of all calls.
    """
    calls, ends = [], {TASK_INPUT: 0.0}
    for tool, after in steps:
        start_s = max([0.0, *(ends[each] for each in after)])
        ends[tool] = start_s + profile.seconds(tool, level)
        times = (start_s, start_s, start_s, ends[tool])
        calls.append(plan_call(tool, {"after": ", ".join(after)}, *times, profile.price(tool, level), status))
    return calls


def refused_call(at_s: float, reason: str) -> Call:
    """A call that was refused: it was never executed and never billed."""
    return Call(-1, 0, at_s, None, "", Status.MALFORMED, finished_s=at_s, reason=reason)


def plan_ledger(calls: Sequence[Call], price: float, tokens: int = 0) -> Ledger:
    """The ledger of an episode, in which calls are charged in the order of their ends.

    Args:
        calls: All calls that were asked for.
        price: Total price, as the environment added it up; a sum in another order may differ in its last digits.
        tokens: Tokens of the plan.
    """
    ledger = Ledger()
    if tokens:
        ledger.charge(0.0, WRITING, 0.0, tokens)
    for call in sorted((call for call in calls if call.k and call.finished_s >= 0.0), key=lambda call: call.finished_s):
        ledger.charge(call.finished_s, call.tool, call.price, 0, 1)
    ledger.price, ledger.attempts = price, len(calls)
    return ledger
