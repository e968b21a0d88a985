"""Training data of ToolPlanner: a teacher's solved paths (stage 1), and pairs from its own solution trees (stage 2).

The teacher is the simulated model in a plain tree search. It plays the query without an instruction. The instruction is then
written for the tools that it called first; if one of them failed, the teacher continued with another suitable tool. Stage 1
therefore teaches the policy to plan the named tools and to solve the task; stage 2's feedback teaches it to follow the
instruction when a named tool fails.

Source: ToolPlanner (arXiv 2409.14826), Section 3.1 (tags and paths are those of solved paths), 4.3 and Appendix C.2.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from costgym.agents.base import TEXT
from costgym.agents.llm.session import LlmAgent
from costgym.agents.models.base import ASSISTANT, FINISH, TOOL, FunctionCall, Message
from costgym.agents.models.reading import Reader
from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.toolplanner.agent import PlannerSettings, ToolPlanner
from costgym.agents.toolplanner.learnt import LearntPlanner, rounds_of
from costgym.agents.toolplanner.settings import LearntSettings
from costgym.agents.toolplanner.simulated import SimulatedToolPlanner
from costgym.agents.toolplanner.tags import gold_tools
from costgym.agents.toolplanner.tree import (
    End,
    Feedback,
    Round,
    called_tools,
    extract_pairs,
    final_solution,
    passed,
    score,
)
from costgym.agents.toolplanner.words import FINISH as ANSWER
from costgym.agents.toolplanner.words import (
    GIVE_UP,
    PATH,
    ROUND,
    TAGS,
    Piece,
    Step,
    episode_pieces,
    found_in,
    list_pieces,
    request_pieces,
    round_pieces,
    written_tool,
)
from costgym.envs.chat import MarketplaceChatEnv
from costgym.envs.registration import in_version, make
from costgym.experiments.play.episodes import play
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.files import iter_lines
from costgym.simulators.marketplace.instructions import instructions
from costgym.simulators.marketplace.sources import MarketplaceSource
from costgym.simulators.scenario import Scenario
from costgym.simulators.tools import Catalog, Tool

STEPS = 400
TEACHER = SimulatedRates(give_up=0.5)
"""Rates of the simulated model as the teacher: it is as likely to give up as to give a partial answer."""


class Demonstration(NamedTuple):
    """A solved path in the model's text format."""

    request: str  # the instruction
    tags: tuple[str, ...]  # candidates: tools of the path, then others that were called, then other suitable ones
    path: tuple[str, ...]  # tools of the path, each once
    steps: tuple[Step, ...]  # rounds of the path

    def pieces(self, settings: LearntSettings) -> list[Piece]:
        """Return the path as training text."""
        tags, path = self.tags if settings.tags else None, self.path if settings.path else None
        return episode_pieces(self.request, tags, path, self.steps, named=len(self.path))

    def heeded(self, feedback: Feedback) -> "Demonstration":
        """Return the path without the rounds that feedback rejects.

        Instruction-following feedback rejects a call outside the path and every round after it. Task-completion feedback
        accepts such a call if all tools of the path were called and nothing was found.
        """
        if not feedback.following:
            return self
        steps: list[Step] = []
        left = False
        for step in self.steps:
            if step.result and step.action not in self.path and not left:
                called = {taken.action for taken in steps}
                left = feedback.completion and called >= set(self.path) and not any(found_in(step.result) for step in steps)
                if not left:
                    break
            steps.append(step)
        return self._replace(steps=tuple(steps))


def training_scenario(scenario: Scenario, settings: LearntSettings) -> Scenario:
    """Return the scenario with the number of train tasks in the settings; its test tasks are unchanged."""
    if not isinstance(scenario.source, MarketplaceSource):
        return scenario
    return scenario.model_copy(update={"source": scenario.source.model_copy(update={"train": settings.tasks})})


def text_env(scenario: Scenario, level: str | None, settings: LearntSettings) -> Any:
    """Create the text view of the train tasks at an instruction level, under the settings' budget."""
    return make(
        in_version(TEXT, scenario.world), scenario=scenario, split="train", level=level, max_steps=STEPS,
        budget=settings.budget or {},
        enforcement=None if settings.budget else "record", disable_env_checker=True,
    )  # fmt: skip


def tasks_and_levels(settings: LearntSettings, count: int) -> Iterator[tuple[int, str]]:
    """Yield pairs of task index and instruction level; each of the two coarsest levels has half the tasks (Section 3.1)."""
    for index in range(count):
        for level in settings.levels:
            if level == ("statement", "category")[index % 2] and len(settings.levels) > 1:
                continue
            yield index, level


def demonstrations(scenario: Scenario, settings: LearntSettings) -> list[Demonstration]:
    """Collect paths that the teacher solved, each with an instruction.

    The teacher plays the query without an instruction, which is then written for the tool that it called first for each need.
    Every instruction has its own path in a world with its own seed, so only it determines which of the suitable tools were
    chosen. A path that the settings' budget does not pay for is not a solved one.
    """
    world = training_scenario(scenario, settings)
    env = text_env(world, None, settings)
    teacher = ToolPlanner(PlannerSettings(tags=False, path=False))
    agent = LlmAgent(SimulatedToolPlanner(TEACHER), teacher)
    numbers = env.unwrapped.numbers[: settings.tasks]
    examples = []
    for index, level in tasks_and_levels(settings, len(numbers)):
        for number in range(settings.worlds):
            episode = play(env, agent, numbers[index], stable_integer(settings.seed, "teacher", level, number) >> 2)
            path, task = final_solution(teacher.roots), episode.task
            if not path or path[-1].end != "answer" or not passed(path[-1].answer):
                continue
            chosen, called, steps = _solved(path, env.unwrapped)
            if len(chosen) < len(task.needs) or not steps[:-1]:
                continue
            gold = [chosen[need] for need in range(len(task.needs))]
            request = instructions(task.query, task.instructions["statement"], task.needs, gold)[level]
            useful = dict.fromkeys(map(written_tool, chosen.values()))
            # a candidate list of the same length as the model's
            others = [tool for tool in env.unwrapped.candidates if any(tool.name in need.tools for need in task.needs)]
            tags = dict.fromkeys([*useful, *map(written_tool, called), *map(written_tool, others)])
            examples.append(Demonstration(request, tuple(tags)[: settings.candidates], tuple(useful), steps))
    if not examples:
        within, other = (" within the budget", "a higher budget") if settings.budget else ("", "another scenario")
        raise ConfigError("scenario", f"the teacher solves none of the train tasks{within}; choose {other}")
    return examples


def _solved(path: Sequence[Round], view: MarketplaceChatEnv) -> tuple[dict[int, Tool], list[Tool], tuple[Step, ...]]:
    """Return of a solved path the tool called first for each need, in order of the calls; all tools called; the rounds."""
    catalog = view.world.catalog
    # a tool name that does not exist must not be learnt
    steps = [step for step in path if step.end or called_tools([step], catalog)]
    reader = Reader(catalog, view.task)
    called = called_tools(steps, catalog)
    chosen: dict[int, Tool] = {}
    for tool in called:
        if reader.need_of(tool.name) >= 0:
            chosen.setdefault(reader.need_of(tool.name), tool)
    messages = [message for step in steps for message in step.messages]
    return chosen, called, tuple(rounds_of(messages, view))


# -- solution trees ------------------------------------------------------------------------------------------------------------


class GrownRound(BaseModel):
    """A round of a recorded tree; action and result are text in the model's format."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    action: str
    result: str
    tool: str = ""  # name of the called tool, or ""
    end: End = ""  # how the solution ends in this round, or ""
    passed: bool = False  # whether the round's answer is not empty
    children: "tuple[GrownRound, ...]" = ()  # the rounds that follow


class GrownTree(BaseModel):
    """The solution trees that the model searched for one instruction."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    task: str  # its id
    level: str  # of the instruction
    request: str  # the instruction
    tags: tuple[str, ...] | None  # the candidates that the model wrote, in its format; None if it does not write them
    path: tuple[str, ...] | None  # the path that it wrote, likewise
    shown: tuple[str, ...]  # names of the tools offered in the tree
    gold: tuple[str, ...]  # names of the tools that the instruction names
    roots: tuple[GrownRound, ...]

    def called(self) -> Iterator[str]:
        """Yield the names of the tools of its rounds."""
        rounds = list(self.roots)
        while rounds:
            step = rounds.pop()
            rounds += step.children
            yield from [step.tool] if step.tool else []

    def before(self) -> list[Piece]:
        """Return the text that precedes the rounds."""
        pieces = request_pieces(self.request)
        if self.tags is not None:
            pieces += list_pieces(TAGS, self.tags, closed=False)
        if self.path is not None:
            pieces += list_pieces(PATH, self.path, closed=True)
        return pieces


def grow_trees(planner: LearntPlanner, scenario: Scenario, settings: LearntSettings, start: int = 0) -> Iterator[GrownTree]:
    """Generate the solution trees of the model of stage 1, searched in full, or as far as the budget reaches, at the settings'
    temperature, on train tasks from index `start`; the instruction levels alternate."""
    world = training_scenario(scenario, settings)
    envs = {level: text_env(world, level, settings) for level in settings.levels}
    strategy = ToolPlanner(settings.planner(explore=True))
    agent = LlmAgent(planner, strategy)
    numbers = envs[settings.levels[0]].unwrapped.numbers[: min(settings.tasks, settings.rank_tasks)]
    for index in range(start, len(numbers)):
        number, level = numbers[index], settings.levels[index % len(settings.levels)]
        env = envs[level]
        view: MarketplaceChatEnv = env.unwrapped
        # a seed other than the teacher's, so that tools that worked for the teacher may fail here
        episode = play(env, agent, number, stable_integer(settings.seed, "trees", index) >> 2)
        shown = planner.tags if planner.tags else tuple(view.candidates)
        yield GrownTree(
            task=episode.task.id,
            level=level,
            request=view.query,
            tags=None if planner.tags is None else tuple(map(written_tool, planner.tags)),
            path=None if planner.path is None else tuple(map(written_tool, planner.path)),
            shown=tuple(tool.name for tool in shown),
            gold=tuple(tool.name for tool in gold_tools(episode.task, view.world.catalog)),
            roots=tuple(_grown(root, (), view) for root in strategy.roots),
        )


def _grown(step: Round, before: tuple[Message, ...], view: MarketplaceChatEnv) -> GrownRound:
    messages = (*before, *step.messages)
    action, result = rounds_of(messages, view)[-1]
    return GrownRound(
        action=action,
        result=result,
        tool=step.tools[0] if step.tools else "",
        end=step.end,
        passed=step.end == "answer" and passed(step.answer),
        children=tuple(_grown(child, messages, view) for child in step.children),
    )


def read_trees(path: Path) -> list[GrownTree]:
    """Read solution trees from a file."""
    trees = []
    for number, line in enumerate(iter_lines(path), 1):
        try:
            trees.append(GrownTree.model_validate_json(line))
        except ValidationError as error:
            raise DataError(path, f"is not a solution tree ({error.errors()[0]['msg']})", f"line {number}") from None
    return trees


# -- pairs -------------------------------------------------------------------------------------------------------------------


class RankedPair(NamedTuple):
    """Two actions after the same text, in the model's format, the first better than the second."""

    before: tuple[Piece, ...]  # the preceding text, up to the marker of the round
    better: str
    worse: str
    made: str  # how the worse action was constructed; "" if it is from a tree
    level: str  # of the instruction


def ranked_pairs(trees: Sequence[GrownTree], catalog: Catalog, settings: LearntSettings) -> list[RankedPair]:
    """Extract the pairs of all trees by the settings' feedback: each round of reward 1 above those of negative reward after the
    same history, or above one that is made up where there is none.

    Giving up is never the better one: without task-completion feedback it has reward 1 after the right calls.

    Source: ToolPlanner, Appendix C.2.2.
    """
    known = {tool.name: tool for tool in catalog}
    pairs: list[RankedPair] = []
    for tree in trees:
        roots = [_round(root) for root in tree.roots]
        gold = [known[name] for name in tree.gold]
        score(roots, gold, tree.level, catalog, settings.feedback)
        shown = [known[name] for name in tree.shown if name in known]
        seed = stable_integer(settings.seed, "pairs", tree.task, tree.level) >> 2
        for pair in extract_pairs(roots, gold, tree.level, catalog, seed, shown, settings.feedback):
            better, worse = _step(pair.better, known).action, _step(pair.worse, known).action
            if better not in (worse, GIVE_UP):
                before = (*tree.before(), *round_pieces([_step(step, known) for step in pair.history]), Piece(ROUND))
                pairs.append(RankedPair(before, better, worse, pair.made, tree.level))
    return pairs


def _round(grown: GrownRound) -> Round:
    """Convert a recorded round to a `Round`, the input of the rewards; its text becomes its messages."""
    return Round(
        tools=(grown.tool,) if grown.tool else (),
        messages=(Message(ASSISTANT, grown.action), Message(TOOL, grown.result)),
        end=grown.end,
        answer="an answer" if grown.passed else "",
        children=[_round(child) for child in grown.children],
    )


def _step(step: Round, known: dict[str, Tool]) -> Step:
    message = step.messages[0]
    if not message.calls:
        return Step(message.content, step.messages[1].content)
    return Step(_written(message.calls[0], known))


def _written(call: FunctionCall, known: dict[str, Tool]) -> str:
    if call.name == FINISH.name:
        return GIVE_UP if (call.read() or {}).get("give_up") is True else ANSWER
    return written_tool(known[call.name])
