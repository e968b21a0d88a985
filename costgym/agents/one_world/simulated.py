"""The simulated model where queries may need no tool, or be about an image.

Whether it looks for a tool that it does not need is decided at the rate of DEER's untrained models; which vision tools it
thinks an image needs at the rates of the simulated planner of OpenCATP. It takes what a reader says of an image for the truth,
since nothing tells it that the text is wrong. Where no query is of such a kind it is `SimulatedToolPlanner` to the last draw.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costgym.agents import prompts
from costgym.agents.deer.deciders import RATES
from costgym.agents.models.base import ACT, USER, Function, FunctionCall, Message, Reply, reply
from costgym.agents.models.reading import Context
from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.one_world.planning import STEPS
from costgym.agents.opencatp.planners import PRICES_HEADING
from costgym.agents.opencatp.simulated import PlannerRates, SimulatedPlanner
from costgym.agents.toolplanner.simulated import HEED, SimulatedToolPlanner
from costgym.envs.opencatp.chat import read_plan
from costgym.simulators.draws import stable_uniforms
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.opencatp.tools import TOOLS
from costgym.simulators.plan import Plan
from costgym.simulators.tasks import Need, Task

NO_SEARCH = RATES["gpt-3.5-turbo"].no_search  # share of the queries without need of a tool that it answers at once
MALFORMED = PlannerRates().malformed  # share of its plans that are none


class SimulatedOneWorld(SimulatedToolPlanner):
    """`SimulatedToolPlanner` that reads images through vision tools, and looks for a tool now and then where none is needed."""

    def __init__(self, rates: SimulatedRates | None = None, heed: float = HEED) -> None:
        super().__init__(rates, heed)
        self._needless = False
        self._query: Any = None  # what is asked of an image, in such a query

    def begin(self, world: Any, seed: int) -> None:
        super().begin(world, seed)
        needs_tools = any(need.given for need in self.task.needs)
        luck = stable_uniforms(1, 0, seed, "simulated, needless", self.task.number)[0] if needs_tools else 1.0
        self._needless = luck >= NO_SEARCH and needs_tools and self.rates != SimulatedRates.perfect()
        self._see({})

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        if purpose == STEPS:
            return reply(self._steps(messages, functions), (), messages, functions)
        return super().complete(messages, functions, purpose)

    def _act(self, context: Context) -> tuple[str, FunctionCall]:
        if self._needless and not context.used and (context.shown or context.names):
            if not context.registered:
                return self._wrong(context, 0)
            self._needless = False
        return super()._act(context)

    def _wrong(self, context: Context, need: int) -> tuple[str, FunctionCall]:
        if not context.open:  # nothing is missing, so every function is one that is not needed
            return self._call(context, need, self._pick([*context.shown, *context.names]))
        return super()._wrong(context, need)

    def _answer(self, context: Context) -> str:
        return super()._answer(replace(context, known=[need for need in context.known if self._stated(context.needs[need])]))

    def _stated(self, need: Need) -> bool:
        """Whether it says a fact in its answer: not what only served to find another where an image is asked about."""
        return need.asked or self._query is None

    # -- images ----------------------------------------------------------------------------------------------------------

    def _see(self, prices: dict[str, float]) -> None:
        """Think of the tools that the image needs, at these prices of a call, USD, if any are told."""
        query = self._query = getattr(self._view.world.answers, "queries", {}).get(self.task.number)
        if query is None:
            return
        planner = SimulatedPlanner(perfect=self.rates == SimulatedRates.perfect())
        planner.reset(self._seed)
        heading = f"{PRICES_HEADING}\n{json.dumps(prices)}\n\n" if prices else ""
        text = planner.complete([Message(USER, heading + self._view.task.query)], (), ACT).message.content
        plan, _ = read_plan(text)
        if plan is not None:
            self._understand(self._reader.catalog, believed(self._view.world.answers, self._view.task, query, plan))

    # -- plans -----------------------------------------------------------------------------------------------------------

    def _steps(self, messages: Sequence[Message], functions: Sequence[Function]) -> str:
        """A plan of all calls that it thinks are needed; what follows from a fact that it overlooks is not in it."""
        price_lines = (line for line in messages[-1].content.splitlines() if line.startswith(prompts.COSTS))
        costs: dict[str, float] = json.loads(next(price_lines, prompts.COSTS + "{}")[len(prompts.COSTS) :])
        per_dollar = getattr(self._view.world, "per_dollar", 1.0)
        self._see({tool: costs[tool] / per_dollar for tool in TOOLS if tool in costs})
        context = self._reader.read(messages, functions)
        context.costs = costs
        if self._chance(MALFORMED):
            return "First I would look at what was asked for, then call what may help."
        steps: dict[int, dict[str, Any]] = {}
        for need in context.open:
            wanted = context.needs[need]
            if not self._noticed[need] or not all(before in steps for before in wanted.after):
                continue
            serving = [name for name in self._reader.serving(need) if name in context.shown]
            if not serving or self._chance(self._wrong_rate(context)):
                serving = list(context.shown) or serving
            if not serving:
                continue
            _, call = self._call(context, need, self._choose(context, serving))
            arguments = dict(call.read() or {})
            for before in wanted.after:
                fact = context.needs[before].fact
                arguments = {key: f"{{s{before}}}" if value == fact else value for key, value in arguments.items()}
            steps[need] = {"id": f"s{need}", "name": call.name, "arguments": arguments}
        return json.dumps({"plan": list(steps.values())})


def believed(answers: Any, task: Task, query: Any, plan: Plan) -> Task:
    """A query about an image as one understands it who thinks that this plan is what it takes."""
    answered = [(want, tool) for want, tool in Evaluator().answers(plan, query.task) if tool is not None]
    chains = plan.chains()
    ways = tuple(dict.fromkeys(answers.way_of(chains[tool]) for _, tool in answered))
    if not ways:
        return task
    needs = answers.needs_of(query, ways, [Need("", ()) for _ in ways])
    if task.group == "both":
        last, shown = task.needs[-1], needs[-1].fact
        needs = [replace(need, asked=False) for need in needs]
        needs.append(answers.about_shown(last, shown, len(needs) - 1))
    return replace(task, needs=tuple(needs))
