"""OpenCATP as a tool world: its ten tools are a catalogue, a plan is a schedule of their calls, and `Episode` plays it.

A tool is called once and lasts exactly as long as its profile says, so there is no chance in these episodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from costgym.simulators.calls import Call, Candidate, Usage
from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import FailureModel
from costgym.simulators.ledger import Budget
from costgym.simulators.opencatp.profile import Profile, v100
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.opencatp.tools import LEVELS, SIGNATURES, TOOLS
from costgym.simulators.plan import TASK_INPUT, Plan, PlanStep
from costgym.simulators.rules import actions
from costgym.simulators.status import Status
from costgym.simulators.tasks import OnlyTask, Task, TaskSet
from costgym.simulators.tools import Catalog, Tool, ToolProfile
from costgym.simulators.world import World
from costgym.simulators.world.episode import Episode

WRITING = "plan"  # the name under which a ledger charges the tokens of a plan
_STEPS_PER_MB = 2**20  # whole bytes: fractions of a MB do not add up exactly, so memory could not always be given back


def whole_bytes(size_mb: float) -> float:
    """An amount of memory in whole bytes, MB: such amounts add up exactly."""
    return round(size_mb * _STEPS_PER_MB) / _STEPS_PER_MB


class _Outputs:
    """What the tools return: the kind of their output. The outputs themselves were made beforehand, or are made at the end."""

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str:
        return f'{{"made": "{SIGNATURES[tool.name].gives}"}}'

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        return "{}"


@dataclass(frozen=True)
class PlanWorld(World):
    """The world of OpenCATP's tools at one size level."""

    # profile, level: profile of the tools, and the size level of the sample
    profile: Profile = field(default_factory=v100)
    level: int = 0

    def episode_of(self, task: OpenCATPTask, sample: int, seed: int, budget: Budget) -> "PlanEpisode":
        """Begin a task on a sample; nothing is enforced here, since a limit is the environment's to tell."""
        name = f"{task.kind}-{task.task_id}-sample-{sample}"
        played = Task(name, task.task_id, task.description, (), TOOLS, task.kind, size_level=self.level)
        return PlanEpisode(replace(self, tasks=OnlyTask(played)), task.task_id, seed, budget, "record")

    def _candidate(self, task: Task, index: int, name: str, needs: tuple[int, ...]) -> Candidate:
        candidate = super()._candidate(task, index, name, needs)
        seconds, price, fee = self.profile.seconds(name, self.level), self.profile.price(name, self.level), candidate.fee
        return replace(
            candidate,
            fee=fee if seconds > 0.0 else price,
            quote=price,
            rate_per_s=(price - fee) / seconds if seconds > 0.0 else 0.0,
            latency_s=seconds,
            gpu_mb=whole_bytes(self.profile.gpu_mb(self.level)[name]),
        )


def plan_worlds(
    profile: Profile, slots: int | None = None, gpu_capacity_mb: float | None = None, cold_starts: bool = False
) -> tuple[PlanWorld, ...]:
    """The worlds of the tools at each size level; `cold_starts`: a tool is loaded first, which is not billed."""
    loading = profile.cold_start_s() if cold_starts else dict.fromkeys(TOOLS, 0.0)
    worlds = []
    for level in range(LEVELS):
        needs = profile.gpu_mb(level)
        largest = max(TOOLS, key=lambda tool: needs[tool])
        if gpu_capacity_mb is not None and not gpu_capacity_mb >= needs[largest]:
            raise ConfigError(
                "gpu_capacity_mb", f"expected at least {needs[largest]:g}, which {largest} needs, got {gpu_capacity_mb}"
            )
        # beyond what all tools need together a machine has room for anything, so larger figures change nothing
        capacity = None if gpu_capacity_mb is None else min(gpu_capacity_mb, sum(needs.values()) + 1.0)
        tools = []
        for name in TOOLS:
            cost = profile.tools[name]
            measured = ToolProfile(
                fee=profile.pricing.per_run,
                latency_s=tuple(ms / 1000.0 for ms in cost.time_ms),
                cpu_cons_mb=cost.cpu_cons_mb,
                gpu_cons_mb=cost.gpu_cons_mb,
                cpu_inst_mb=cost.cpu_inst_mb[level],
                gpu_inst_mb=cost.gpu_inst_mb[level],
                cold_start_s=loading[name],
                timeout_s=1e6,
            )
            tools.append(Tool(name, name.replace("_", " "), "vision", "OpenCATP", profile=measured))
        worlds.append(
            PlanWorld(
                catalog=Catalog(tools),
                tasks=TaskSet((), {}),
                answers=_Outputs(),
                failures=FailureModel(slip=0.0, bursts=None),
                faas=profile.pricing,
                gateway_s=0.0,
                slots=slots,
                gpu_capacity_mb=None if capacity is None else whole_bytes(capacity),
                profile=profile,
                level=level,
            )
        )
    return tuple(worlds)


class PlayedPlan(NamedTuple):
    """A plan as it is played."""

    steps: Sequence[PlanStep]  # its tools, in the order written, with what they depend on
    tokens: int = 0  # the tokens that it took to write it
    refusal: str | None = None  # the reason why it was turned down; None where it was not
    valid: bool = True  # whether its calls count; those of a plan that was turned down are cancelled, though paid
    forbidden: int = 0  # tokens that were refused while it was written
    usage: Usage | None = None  # the tokens of a request to a model by class, where they cost something
    token_price: float = 0.0  # what these cost


class PlanEpisode(Episode):
    """An episode over OpenCATP's tools, each of which runs once, on the task's input or on another tool's output."""

    __slots__ = ()

    def call_of(self, tool: str) -> Call | None:
        """The call of a tool, or None where it was not made."""
        return next((call for call in self.calls if call.tool == tool), None)

    def is_ready(self, artefact: str) -> bool:
        """Return whether the task's input or a tool's output is there."""
        call = self.call_of(artefact)
        return artefact == TASK_INPUT or (call is not None and made(call))

    def start(self, tool: str, arguments: Mapping[str, str]) -> Call:
        """Start a tool; `arguments` name what it reads or waits for."""
        return self.submit(TOOLS.index(tool), arguments)

    def wait_for_end(self) -> list[Call]:
        """Go to the next end of a call; returns all calls that end at that moment. Without calls in flight no time passes."""
        ended = []
        while (completion := self.wait()) is not None:
            assert isinstance(completion, Call)
            ended.append(completion)
            if not self.unread and self.clock.peek() > self.now_s:
                break
        return ended

    def refuse(self) -> None:
        """Refuse an action that the mask forbids: it takes a moment, costs nothing and is no call."""
        self.log.append(("refuse",))
        self.ledger.attempts += 1
        actions.refuse(self, self.rules, self, 0)

    def stop(self) -> None:
        """End the episode. Calls that run are cut off and charged for the part that ran."""
        if not self.over:
            self.finish(gave_up=True)

    def write(self, tokens: int) -> None:
        """Charge the tokens of a plan, which take no time and cost nothing here."""
        self.log.append(("write", tokens))
        self.ledger.charge(self.now_s, WRITING, 0.0, tokens)

    def request(self, usage: Usage, price: float) -> None:
        """Charge the tokens with which a model wrote a plan; no time passes."""
        self.log.append(("request", usage, price))
        self.ledger.usages.append(usage)
        self.ledger.charge(self.now_s, "think", price, usage.input_tokens + usage.output_tokens)

    def play(self, plan: PlayedPlan) -> None:
        """Run a plan: each tool as soon as everything that it depends on has ended. The calls are kept in the order written."""
        if plan.usage is not None:
            self.request(plan.usage, plan.token_price)
        elif plan.tokens:
            self.write(plan.tokens)
        for _ in range(plan.forbidden):
            self.refuse()
        if plan.refusal is not None:
            self.submit(-1, None, Status.MALFORMED, plan.refusal)
        waiting = list(plan.steps)
        while waiting or self.in_flight:
            # a new list, since starting a tool takes it out of those that wait
            for step in [step for step in waiting if all(self.is_ready(dep) for dep in step.deps)]:
                waiting.remove(step)
                self.start(step.tool, {"after": ", ".join(step.deps)})
            self.wait_for_end()
        # calls end in another order than they stand in the plan; readers of a plan expect the written one
        position = {step.tool: number for number, step in enumerate(plan.steps)}
        self.calls.sort(key=lambda call: position.get(call.tool, len(position)))
        for call in self.calls if not plan.valid else ():
            call.status = Status.CANCELLED if call.k else call.status

    def plan(self) -> Plan | None:
        """The plan of the tools that have ended, in the order called; None where none has."""
        steps = tuple(PlanStep(call.tool, ((call.arguments or {})["on"],)) for call in self.calls if made(call))
        return Plan(steps) if steps else None


def made(call: Call) -> bool:
    """Return whether a call has ended with an output."""
    return call.finished_s >= 0.0 and call.status is Status.OK
