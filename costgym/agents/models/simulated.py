"""A language model without weights: it knows what the task needs and errs like a model, at rates that are parameters.

It decides from its context alone. A fact is known if and only if it stands in a function's result there; a tool can be
called if it is shown, or named, there; that a tool failed is known from its failure's text. What it takes from the task
itself is what a capable reader takes from the query and the documentation: which facts are wanted, which tools bear on
which, and the arguments that the query names.

Every figure made with it is one of a *simulated* model. Its rates are set so that the plain baselines land near their published
figures (BTP, Table 1: ReAct, DFSDT and ToT-DFS pass 44, 64 and 62 % at a cost of 15, 78 and 51) on the marketplace under the
judge; nothing in it knows of BTP or EcoAct.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from math import log2
from typing import Any

from costgym.agents import prompts
from costgym.agents.models.base import ACT, FINISH, PLAN, SUMMARISE, USER, VOTE, Function, FunctionCall, Message, Reply, reply
from costgym.agents.models.reading import Context, Reader, misread, plausible
from costgym.envs.actions import SEARCH
from costgym.simulators.draws import stable_uniforms
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.grading import type_of
from costgym.simulators.tasks import Task
from costgym.simulators.tools import Catalog

MAX_FRUITLESS = 2  # searches without a result after which the model stops searching
BLOCK = 64  # uniforms that are drawn at once; the last one is used first


@dataclass(frozen=True, slots=True)
class SimulatedRates:
    """The error rates of the simulated model. All are chances, 0 to 1.

    Their values are what `benchmarks/papers/fit.py` finds, which fits them to the published figures of plain baselines with
    gpt-3.5-turbo. Those that only a system under test meets are not fitted; `fit.FREE` names them.
    """

    overlook: float = 0.007  # a wanted fact is never noticed in the query; drawn once per fact and episode
    misunderstand: float = 0.014  # a wanted fact is misunderstood: the arguments are wrong for every tool; drawn once likewise
    wrong_tool: float = 0.037  # chooses a tool that does not serve, out of up to five functions shown or named
    crowding: float = 0.025  # added to that for each doubling of their number beyond five
    misread: float = 0.058  # misunderstands a tool's arguments; drawn once per fact, tool and episode
    correct: float = 0.771  # sets its misunderstanding right after a failure
    invalid: float = 0.015  # arguments that do not fit the schema
    invented: float = 0.003  # calls a function that does not exist
    stubborn: float = 0.204  # calls a tool again that has just failed, rather than another
    forbidden: float = 0.05  # calls a tool it can no longer see but has used
    grope: float = 0.943  # without any serving tool left, tries one that does not serve, rather than stopping
    early: float = 0.043  # stops after a fact although others are missing
    tire: float = 0.126  # stops, for each failure in a row
    give_up: float = 0.986  # it stops with some facts but not all, and gives up rather than answers
    give_up_empty: float = 0.918  # it stops without a fact, and gives up rather than answers
    forget: float = 0.022  # leaves a known fact out of the answer
    attend_costs: float = 0.03  # chooses the cheapest serving tool where prices are told, rather than any
    wrong_vote: float = 0.5  # votes for the worse of two steps
    notice: float = 0.7  # sees from its documentation that a tool it registered does not serve
    # goes by the name of a tool that promises what its documentation denies, among all that are shown; drawn once per fact and
    # tool. Where it reads only names it always does.
    skim: float = 0.5
    register_more: float = 0.3  # registers each further tool that it could register at once
    search: float = 0.9  # without a serving tool, searches the catalogue where it can
    thought: float = 1.0  # writes a thought beside a call, unless it is asked for another step than before, when it always does
    # after a call that writes has ended without telling whether it took effect, goes on without looking. The default is a
    # report from the field, seven of ten agents' payment paths that pay twice where the reply is lost (a comment in crewAI's
    # issue 5802), not a measurement of language models.
    repeat: float = 0.7
    guess: float = 0.0  # answers before its first call, from nothing, as small models do that were not taught to call

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ConfigError(f"SimulatedRates.{spec.name}", f"expected a chance between 0 and 1, got {value!r}")

    @classmethod
    def perfect(cls) -> "SimulatedRates":
        """Return a model that never errs."""
        never = {spec.name: 0.0 for spec in fields(cls)}
        return cls(**{**never, "correct": 1.0, "notice": 1.0, "search": 1.0, "thought": 1.0})


SIMULATED = "simulated"


def is_simulated(name: object) -> bool:
    """Return whether a model's name is the simulated one's, with rates of its own or without."""
    return isinstance(name, str) and name.partition(":")[0] == SIMULATED


def read_rates(name: str) -> SimulatedRates:
    """The rates in ``simulated`` or ``simulated:notice=0.9,skim=0.2``; raises ConfigError for what is not from 0 to 1."""
    known = {spec.name for spec in fields(SimulatedRates)}
    rates: dict[str, float] = {}
    for part in filter(None, name.partition(":")[2].split(",")):
        key, _, value = part.partition("=")
        check_known("rate of the simulated model", key, known)
        try:
            rates[key] = float(value)
        except ValueError:
            raise ConfigError(f"simulated:{key}", f"expected a chance between 0 and 1, got {value!r}") from None
    return SimulatedRates(**rates)


class Simulated:
    """The simulated language model. It stands on the world's side: an agent that is given one holds a handle to it."""

    name = SIMULATED
    on_world_side = True

    def __init__(self, rates: SimulatedRates | None = None) -> None:
        self.rates = rates or SimulatedRates()
        usual = SimulatedRates()
        rates_of_model = {spec.name: getattr(self.rates, spec.name) for spec in fields(usual)}
        differing = [f"{key}={value:g}" for key, value in rates_of_model.items() if value != getattr(usual, key)]
        if differing:
            self.name = f"{SIMULATED}:{','.join(differing)}"
        self._uniforms: list[float] = []

    def reset(self, seed: int) -> None:
        """Do nothing: `begin` announces an episode."""

    def begin(self, world: Any, seed: int) -> None:
        """Begin an episode: the model reads the task."""
        self._seed = seed
        self._understand(world.world.catalog, world.task)

    def _understand(self, catalog: Catalog, task: Task) -> None:
        self.task, self._reader = task, Reader(catalog, task)
        self._blocks, self._uniforms = 0, []
        self._skimmed: dict[tuple[int, str], bool] = {}
        # Misreadings last for an episode. All are drawn before the first reply, so that the order of calls cannot change them:
        # for each need one draw for overlooking, one for misunderstanding, and one per candidate for its arguments.
        width = 2 + len(task.candidates)
        self._lasting = stable_uniforms(width * len(task.needs), 0, self._seed, "simulated, lasting", task.number)
        self._noticed = [luck >= self.rates.overlook for luck in self._lasting[::width]]
        self._misunderstood = [luck < self.rates.misunderstand for luck in self._lasting[1::width]]
        self._corrected: set[tuple[int, str]] = set()

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        if purpose == VOTE:
            return reply(self._vote(messages), (), messages, functions)
        status = messages[-1].content if messages[-1].role == USER and messages[-1].content.startswith(prompts.STATUS) else ""
        conversation = messages[:-1] if status else messages
        context = self._reader.read(conversation, functions, status)
        if purpose == SUMMARISE:
            return reply(self._answer(context), (), messages, functions)
        if purpose == PLAN:
            return reply(self._plan(context), (), messages, functions)
        thought, call = self._act(context)
        again = conversation[-1].role == USER and conversation[-1].content.startswith(prompts.TRIED)
        if self.rates.thought < 1.0 and not again and not self._chance(self.rates.thought):
            thought = ""
        return reply(thought, (call,), messages, functions)

    # -- the next step ---------------------------------------------------------------------------------------------------

    def _act(self, context: Context) -> tuple[str, FunctionCall]:
        rates = self.rates
        wanted = [need for need in context.open if self._noticed[need]]
        # a rate of 0 takes no chance, so that the draws of models without it stay as they are
        if not wanted or (rates.guess and not context.used and self._chance(rates.guess)):
            return self._finish(context, False)
        if context.after_result and self._chance(rates.tire * context.failures if context.failures else rates.early):
            return self._stop(context)
        if self._chance(rates.invented):
            return "There should be a function for this.", FunctionCall(f"get_{self._reader.capability(wanted[0])}_info", "{}")
        if context.registered:
            name, need = context.registered, self._reader.need_of(context.registered)
            if (need in wanted and context.ready(need)) or not self._chance(rates.notice):
                promised = [n for n in wanted if name in self._reader.promising(n)]
                return self._call(context, need if need in wanted else (promised or wanted)[0], name)
            self._skimmed.update(dict.fromkeys(((n, name) for n in wanted), False))
        gone = [name for name in context.used if name not in context.shown and name not in context.names]
        if gone and self._chance(rates.forbidden):
            return self._call(context, wanted[0], gone[-1])
        for need in wanted:
            if not context.ready(need):
                continue
            if context.doubt in self._reader.serving(need) and not self._chance(self.rates.repeat):
                checks = [name for name in self._reader.checks(need) if name in context.shown]
                if checks:
                    return self._call(context, need, self._pick(checks))
            if self._chance(self._wrong_rate(context)):
                return self._wrong(context, need)
            serving = self._taken_for_serving(context, need)
            fresh = [name for name in serving if name not in context.failed]
            last = context.last_failed
            if last in serving and (last in context.shown) and self._chance(rates.stubborn):
                return self._call(context, need, last)
            if fresh:
                return self._call(context, need, self._choose(context, fresh))
        if context.search is not None and context.fruitless < MAX_FRUITLESS and self._chance(rates.search):
            search = self._search(context, context.search, next((n for n in wanted if context.ready(n)), wanted[0]))
            if search is not None:
                return search
        if self._chance(rates.grope):
            return self._wrong(context, wanted[0])
        return self._stop(context)

    def _taken_for_serving(self, context: Context, need: int) -> list[str]:
        """Return the tools at hand that seem to serve: by their documentation, or by the name where that is all there is."""
        reader = self._reader
        known = [
            name
            for name in reader.serving(need)
            if name in context.shown or (name in context.names and (context.described or name not in reader.misnamed))
        ]
        for name in reader.promising(need):
            if name in context.names and not context.described:
                known.append(name)
            elif name in context.shown or name in context.names:
                if (need, name) not in self._skimmed:
                    self._skimmed[need, name] = self._chance(self.rates.skim)
                known += [name] * self._skimmed[need, name]
        return known

    def _choose(self, context: Context, names: list[str]) -> str:
        """Choose one of several tools that serve: what is at hand first, and the price rarely matters."""
        if self._chance(self.rates.attend_costs) and context.costs:
            return min(names, key=lambda name: context.costs.get(name, 0.0))
        shown = [name for name in names if name in context.shown]
        return self._pick(shown or names)

    def _wrong_rate(self, context: Context) -> float:
        count = len(context.shown) + len(context.names)
        return self.rates.wrong_tool + self.rates.crowding * (log2(count / 5.0) if count > 5 else 0.0)

    def _wrong(self, context: Context, need: int) -> tuple[str, FunctionCall]:
        need_of, missing = self._reader.need_of, context.open
        others = [name for name in (*context.shown, *context.names) if need_of(name) not in missing]
        return self._call(context, need, self._pick(others)) if others else self._stop(context)

    def _call(self, context: Context, need: int, name: str) -> tuple[str, FunctionCall]:
        thought = f"I still need this: {self._reader.wish(need)}. {name} may have it."
        if name not in context.shown and name in context.names:
            return thought, self._register(context, name)
        tool = self._reader.tools.get(name)
        arguments: Any
        if tool is None:
            arguments = {}
        elif self._chance(self.rates.invalid):
            arguments = {"input": self._reader.wish(need)}
        elif name not in self._reader.serving(need):
            arguments = plausible(tool, self._reader.arguments(need, context), self._uniform())
        else:
            arguments = self._reader.arguments(need, context)
            if arguments is None:
                arguments = plausible(tool, None, self._uniform())
            wrong = self._misreads(need, name)
            if wrong and not self._misunderstood[need] and name in context.failed and self._chance(self.rates.correct):
                self._corrected.add((need, name))
                wrong = False
            if wrong:
                arguments = misread(tool, arguments, self._uniform())
        return thought, FunctionCall(name, arguments)

    def _misreads(self, need: int, name: str) -> bool:
        candidates = self.task.candidates
        if self._misunderstood[need] or name not in candidates or (need, name) in self._corrected:
            return self._misunderstood[need]
        luck: float = self._lasting[need * (2 + len(candidates)) + 2 + candidates.index(name)]
        return luck < self.rates.misread

    def _register(self, context: Context, name: str) -> FunctionCall:
        if not context.several:
            return FunctionCall("tool_register", {"name": name})
        more = [other for other in context.names if other != name and self._chance(self.rates.register_more)]
        return FunctionCall("tool_register", {"names": [name, *more]})

    def _search(self, context: Context, function: Function, need: int) -> tuple[str, FunctionCall] | None:
        """Search by the wish, or open the category and then a provider of a tool that serves; None where all are known."""
        wish = self._reader.wish(need)
        thought = f"No function here serves this: {wish}. There may be others."
        if "category" not in function.parameters["properties"]:
            return thought, FunctionCall(SEARCH, {"query": wish})
        known = {*context.shown, *context.names}
        missing = [tool for tool in map(self._reader.catalog.get, self._reader.serving(need)) if tool.name not in known]
        if not missing:
            return None
        category = missing[0].category
        if category not in context.listed:
            return thought, FunctionCall(SEARCH, {"category": category})
        provider = self._pick([tool.provider for tool in missing])
        return thought, FunctionCall(SEARCH, {"category": category, "provider": provider, "query": wish})

    # -- the end ---------------------------------------------------------------------------------------------------------

    def _stop(self, context: Context) -> tuple[str, FunctionCall]:
        rate = self.rates.give_up if context.known else self.rates.give_up_empty
        return self._finish(context, self._chance(rate))

    def _finish(self, context: Context, gave_up: bool) -> tuple[str, FunctionCall]:
        if gave_up:
            return "I cannot solve this.", FunctionCall(FINISH.name, {"answer": "", "give_up": True})
        return "I have what I need.", FunctionCall(FINISH.name, {"answer": self._answer(context)})

    def _answer(self, context: Context) -> str:
        facts = [need for need in context.known if not self._chance(self.rates.forget)]
        if not facts:
            return "The functions did not show what was asked for."
        return " ".join(f"{self._reader.wish(need)}: {self._written(need, context)}." for need in facts)

    def _written(self, need: int, context: Context) -> str:
        """A fact as this model writes it in this episode; a form of its own for each fact, by a stream of its own."""
        wanted = context.needs[need]
        luck = stable_uniforms(1, need, self._seed, "simulated, written", self.task.number)[0]
        return wanted.fact if wanted.fact_type == "words" else written(wanted.fact, wanted.fact_type, luck)

    # -- other purposes --------------------------------------------------------------------------------------------------

    def _plan(self, context: Context) -> str:
        steps = []
        for need in context.open:
            if not self._noticed[need]:
                continue
            serving = [name for name in self._reader.serving(need) if name in context.shown or name in context.names]
            if self._chance(self._wrong_rate(context)):
                serving = [*context.shown, *context.names]
            if serving:
                steps.append(self._choose(context, serving))
        return '{"plan": [' + ", ".join(f'"{name}"' for name in steps) + "]}"

    def _vote(self, messages: Sequence[Message]) -> str:
        """For the step whose result shows more facts; with none to tell them apart, for either."""
        _, _, steps = messages[-1].content.partition(prompts.STEP_A)
        first, _, second = steps.partition(prompts.STEP_B)
        known = self._reader.facts_in_history(messages[:-1])
        scores = [len(self._reader.facts_in(text) - known) - (text.count('"error"') > 0) for text in (first, second)]
        sees = self._chance(1.0 - self.rates.wrong_vote)
        better = (scores[0] > scores[1]) == sees if scores[0] != scores[1] else self._chance(0.5)
        return f"The one step shows more of what was asked for. {'A' if better else 'B'}"

    # -- chance ----------------------------------------------------------------------------------------------------------

    def _uniform(self) -> float:
        if not self._uniforms:
            self._uniforms = stable_uniforms(BLOCK, BLOCK * self._blocks, self._seed, "simulated", self.task.number)
            self._blocks += 1
        return self._uniforms.pop()

    def _chance(self, rate: float) -> bool:
        return (self._uniforms.pop() if self._uniforms else self._uniform()) < rate

    def _pick(self, names: Sequence[str]) -> str:
        return names[int(self._uniform() * len(names))]


PLAIN_SHARE = 0.4  # share of the facts that are written as they were read
_MOMENT = "%Y-%m-%d %H:%M"


def written(fact: str, fact_type: str, luck: float) -> str:
    """Write a fact in one of the forms of its type.

    Args:
        fact: The fact as a tool returned it.
        fact_type: Its type; empty for the one that its writing shows.
        luck: Uniform in [0, 1) that chooses the form.

    >>> [written("527911", "", luck) for luck in (0.1, 0.5, 0.7, 0.9)]
    ['527911', '527,911', '**527911**', '**527,911**']
    """
    if luck < PLAIN_SHARE:
        return fact
    forms = _forms(fact, fact_type or type_of(fact))
    return forms[int((luck - PLAIN_SHARE) / (1.0 - PLAIN_SHARE) * len(forms))]


def _forms(fact: str, fact_type: str) -> Sequence[str]:
    if fact_type == "number":
        # commas between its thousands; whatever stands behind it, such as a unit, stays
        grouped = re.sub(r"\A[0-9]+", lambda digits: f"{int(digits[0]):,}", fact)
        return (grouped, f"**{fact}**", f"**{grouped}**")
    if fact_type == "identifier":
        return (f"`{fact}`", f"**{fact}**", fact)
    if fact_type in ("date", "moment"):
        return _days(fact, fact_type)
    return (f"**{fact}**", f'"{fact}"', f"“{fact}”")


def _days(fact: str, fact_type: str) -> Sequence[str]:
    try:
        moment = datetime.strptime(fact, _MOMENT if fact_type == "moment" else _MOMENT[:8])
    except ValueError:
        return (fact,)
    # without the platform's locale, which would translate the names
    month = MONTHS[moment.month - 1]
    days = (f"{month} {moment.day}, {moment.year}", f"{moment.day} {month[:3]} {moment.year}", f"{moment:%Y/%m/%d}")
    if fact_type == "date":
        return days
    half = f"{moment.hour % 12 or 12}:{moment.minute:02d} {'AM' if moment.hour < 12 else 'PM'}"
    return (f"{days[0]} at {half}", f"{days[1]}, {moment:%H:%M}", fact.replace(" ", "T"))


MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
