"""A learnt ToolPlanner: ``toolplanner:RUN`` plays what `costgym train toolplanner` left in a folder.

The learnt model extracts tags, plans the path and chooses every round's action, each among what is on offer there. What a
capable reader takes from query, documentation and results (which fact a result shows, which argument a query names) comes
from the same deterministic reader as the simulated model's, and so do the words of the answer. An answer that holds nothing
that was asked for says so, and does not count as a pass.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costgym.agents import prompts
from costgym.agents.llm.session import LlmAgent
from costgym.agents.models.base import (
    ACT,
    FINISH,
    PLAN,
    TOOL,
    USER,
    Function,
    FunctionCall,
    LanguageModel,
    Message,
    Reply,
    reply,
)
from costgym.agents.models.reading import Reader, plausible
from costgym.agents.settings import read_config
from costgym.agents.toolplanner.agent import TAGS as ASK_TAGS
from costgym.agents.toolplanner.agent import ToolPlanner, listed_tools
from costgym.agents.toolplanner.guessing import understood
from costgym.agents.toolplanner.settings import PlannerConfig
from costgym.agents.toolplanner.tags import tags_of, write_tags
from costgym.agents.toolplanner.words import FINISH as ANSWER
from costgym.agents.toolplanner.words import (
    GIVE_UP,
    PATH,
    ROUND,
    STOP,
    TAGS,
    Piece,
    Step,
    found_in,
    list_pieces,
    request_pieces,
    result_line,
    round_pieces,
    written_tool,
)
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError, require
from costgym.simulators.tools import Tool

if TYPE_CHECKING:
    from costgym.agents.toolplanner.language_model import PlannerModel, ReadContext

LEARNT = "toolplanner:"  # before the folder of a `costgym train toolplanner` run
NOTHING_FOUND = "Unfortunately the functions showed nothing of what was asked for."
_LONGEST_PATH = 6


Chooser = Callable[[Sequence[float]], int]  # chooses an option by the scores of all


def _best(scores: Sequence[float]) -> int:
    return max(range(len(scores)), key=scores.__getitem__)


class LearntPlanner:
    """The language model behind a learnt ToolPlanner; `tags` and `path` are the tools that it named in this episode.

    Only actions are drawn at the temperature. `guided`: where a round has been tried, the next one in its place goes on with a
    plan: in the first tree with the path, in the next ones with another path, drawn at the temperature. So trees hold what the
    model itself prefers beside what its plan says, and another plan beside its own, and feedback can tell which was better.
    """

    on_world_side = True

    def __init__(self, model: "PlannerModel", name: str, temperature: float = 0.0, guided: bool = False) -> None:
        self.model, self.name, self.temperature, self.guided = model, name, temperature, guided
        self.tags: tuple[Tool, ...] | None = None
        self.path: tuple[Tool, ...] | None = None
        self._contexts: list[ReadContext] = []

    def reset(self, seed: int) -> None:
        """Do nothing: `begin` announces an episode."""

    def begin(self, world: Any, seed: int) -> None:
        """Begin an episode. A reader of the task does what the model cannot, such as writing arguments."""
        self.task = understood(world)
        self._reader = Reader(world.world.catalog, self.task)
        self._generator = stable_generator(seed, "learnt", world.task.number)
        self._contexts = []  # read in this episode, so that no score depends on an earlier one
        self._request = str(world.query)
        self.tags = self.path = None
        self._guide: tuple[Tool, ...] = ()
        self._others: tuple[Tool, ...] = ()

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        if purpose == ASK_TAGS:
            known = listed_tools(messages[-1].content, self._reader.tools.values())
            self.tags = tuple(self._list(known, TAGS, self.model.settings.candidates, False, _best))
            return reply(write_tags(tags_of(self.tags)), (), messages, functions)
        if purpose == PLAN:
            offered = [tool for function in functions if (tool := self._reader.tools.get(function.name))]
            self.path = self._guide = self._plan(offered)
            if self.guided:
                self._others = self._plan(offered, self._choose)
            names = ", ".join(f'"{tool.name}"' for tool in self.path)
            return reply(f'{{"plan": [{names}]}}', (), messages, functions)
        if purpose != ACT:
            raise ConfigError(self.name, f"was trained to extract tags, plan and act; it was asked to {purpose}")
        return reply("", (self._act(messages, functions),), messages, functions)

    # -- before the tree -------------------------------------------------------------------------------------------------

    def _plan(self, offered: Sequence[Tool], choose: Chooser = _best) -> tuple[Tool, ...]:
        return tuple(self._list(list(offered), PATH, _LONGEST_PATH, True, choose))

    def _list(self, left: list[Tool], marker: str, most: int, may_stop: bool, choose: Chooser) -> list[Tool]:
        """Return the tools that a list names, chosen one after the other, each once."""
        chosen: list[Tool] = []
        while left and len(chosen) < most:
            pieces = [*self._before(marker), *list_pieces(marker, [written_tool(tool) for tool in chosen], closed=False)]
            written = [written_tool(tool) for tool in left]
            index = choose(self._scores(pieces, written, [STOP] if may_stop else [], best_alone=choose is _best))
            if index == len(left):
                break
            chosen.append(left.pop(index))
        return chosen

    def _before(self, marker: str) -> list[Piece]:
        """Return the text before the tags, the path or the rounds."""
        pieces = request_pieces(self._request)
        if marker != TAGS and self.tags is not None:
            pieces += list_pieces(TAGS, [written_tool(tool) for tool in self.tags], closed=False)
        if marker == ROUND and self.path is not None:
            pieces += list_pieces(PATH, [written_tool(tool) for tool in self.path], closed=True)
        return pieces

    # -- rounds ----------------------------------------------------------------------------------------------------------

    def _act(self, messages: Sequence[Message], functions: Sequence[Function]) -> FunctionCall:
        tried = messages[-1].content if messages[-1].role == USER and messages[-1].content.startswith(prompts.TRIED) else ""
        tools = [tool for f in functions if (tool := self._reader.tools.get(f.name)) and f'"{tool.name}"' not in tried]
        # a search goes on after an answer only where that is wanted, and then neither ending is to be repeated
        endings = [ANSWER, GIVE_UP] if f'"{FINISH.name}"' not in tried else []
        named = [written_tool(tool) for tool in tools]
        if not named and not endings:
            return self._finish(messages, functions, GIVE_UP)
        steps = steps_of(messages, self._reader)
        if tried and not steps:
            self._guide = self._others  # the first tree is full
        planned = self._planned(steps, [*named, *endings]) if self._guide and self.guided and tried else None
        context = [*self._before(ROUND), *round_pieces(steps), Piece(ROUND)]
        index = self._choose(self._scores(context, named, endings)) if planned is None else planned
        if index >= len(tools):
            return self._finish(messages, functions, endings[index - len(tools)])
        return FunctionCall(tools[index].name, self._arguments(tools[index], messages, functions))

    def _planned(self, steps: Sequence[Step], options: Sequence[str]) -> int | None:
        """Return the option that follows the plan; None if no option does.

        The first of its tools that was not called; where all were and nothing was found, the one that was called least, once
        more; else the answer.
        """
        called = [step.action for step in steps]
        plan = [written_tool(tool) for tool in self._guide]
        wanted = [text for text in plan if text not in called]
        if not any(found_in(step.result) for step in steps):
            wanted += sorted(plan, key=called.count)
        return next((options.index(text) for text in [*wanted, ANSWER] if text in options), None)

    def _arguments(self, tool: Tool, messages: Sequence[Message], functions: Sequence[Function]) -> dict[str, Any]:
        """Fill the arguments with what the query names and results have shown; what is still unknown is guessed."""
        need = self._reader.need_of(tool.name)
        if need < 0:
            return plausible(tool, None, 0.5)
        context = self._reader.read(messages, functions)
        wanted = self._reader.arguments(need, context)
        if wanted is None:
            return plausible(tool, None, 0.5)
        unknown = [context.needs[i].fact for i in context.needs[need].after if i not in context.known]
        guessed = plausible(tool, None, 0.5)
        return {name: guessed.get(name, "unknown") if str(value) in unknown else value for name, value in wanted.items()}

    def _finish(self, messages: Sequence[Message], functions: Sequence[Function], ending: str) -> FunctionCall:
        if ending == GIVE_UP:
            return FunctionCall(FINISH.name, {"answer": "", "give_up": True})
        context = self._reader.read(messages, functions)
        facts = [f"{self._reader.wish(need)}: {context.needs[need].fact}." for need in context.known]
        return FunctionCall(FINISH.name, {"answer": " ".join(facts) or NOTHING_FOUND})

    # -- choosing --------------------------------------------------------------------------------------------------------

    def _scores(
        self, pieces: Sequence[Piece], tools: Sequence[str], endings: Sequence[str], best_alone: bool = False
    ) -> list[float]:
        """Log-probabilities of the tools, then of the endings, of which one is written; of tools alone, with `best_alone`,
        those that cannot be the best may have none.

        The tools on offer share all that the endings leave: what the model would give to tools that are not on offer says
        nothing of whether to end.
        """
        options = [self.model.option(text) for text in (*tools, *endings)]
        best_alone = best_alone and not endings  # all tools have a share in what the endings leave
        scores = np.array(self.model.option_scores(self.model.sequence(pieces).tokens, options, self._contexts, best_alone))
        if not tools or not endings:
            return list(map(float, scores))
        # in log space, since the probabilities of whole texts underflow
        named, ended = np.logaddexp.reduce(scores[: len(tools)]), np.logaddexp.reduce(scores[len(tools) :])
        rest = max(-np.expm1(ended), np.exp(named), np.finfo(float).tiny)
        scores[: len(tools)] += np.log(rest) - named
        return list(map(float, scores))

    def _choose(self, scores: Sequence[float]) -> int:
        if self.temperature == 0:
            return _best(scores)
        weights = np.exp((np.array(scores) - max(scores)) / self.temperature)
        edges = np.cumsum(weights) / weights.sum()  # rounding may leave the last edge below 1, hence the min below
        return min(int(np.searchsorted(edges, self._generator.random(), side="right")), len(scores) - 1)


def rounds_of(messages: Sequence[Message], view: Any) -> list[Step]:
    """The rounds in a conversation of an episode, with or without the request before them, in the model's words."""
    return steps_of([Message(USER, view.query), *messages], Reader(view.world.catalog, understood(view)))


def steps_of(messages: Sequence[Message], reader: Reader) -> list[Step]:
    """Return the same with a reader; the first message is the request."""
    steps: list[Step] = []
    known: frozenset[int] = frozenset()
    for index, message in enumerate(messages):
        if message.role == TOOL and message.name != FINISH.name and steps:
            shown = reader.facts_in(message.content)
            fresh, known = bool(shown - known), known | shown
            left = len(reader.read(messages[: index + 1], ()).open)
            steps[-1] = Step(steps[-1].action, result_line(fresh, '"error"' in message.content, left))
        steps += [Step(written_call(call, reader)) for call in message.calls]
    return steps


def written_call(call: FunctionCall, reader: Reader) -> str:
    """Return a call as the model writes it."""
    if call.name == FINISH.name:
        return GIVE_UP if (call.read() or {}).get("give_up") is True else ANSWER
    tool = reader.tools.get(call.name)
    return f" {call.name}" if tool is None else written_tool(tool)


def load_planner(run: str | Path, name: str | None = None) -> LearntPlanner:
    """The language model of a run under its agent's name; raises DataError if there is no such checkpoint."""
    folder = Path(run)
    settings = read_config(folder, PlannerConfig).settings
    for module in ("torch", "transformers", "safetensors"):
        require(module, "train")
    from costgym.agents.checkpoints import load_weights, newest
    from costgym.agents.toolplanner.language_model import PlannerModel, load_tokenizer

    checkpoint = newest(folder)
    model = PlannerModel(settings, load_tokenizer(settings, folder))
    load_weights(checkpoint, model.weights())
    model.network.eval()
    return LearntPlanner(model, name or f"{LEARNT}{run}")


def learnt_agent(run: str | Path, name: str | None = None, model: LanguageModel | None = None) -> LlmAgent:
    """A learnt ToolPlanner as an agent, played by `model` or the run's own; raises as `load_planner` does."""
    settings = read_config(run, PlannerConfig).settings
    name = name or f"{LEARNT}{run}"
    return LlmAgent(model or load_planner(run, name), ToolPlanner(settings.planner()), name=name)
