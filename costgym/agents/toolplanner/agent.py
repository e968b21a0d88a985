"""ToolPlanner: extract tags, plan a path, then grow a solution tree among the tagged tools.

Three questions to one model. The tags decide which tools are shown, the path is written into the request, and the tree is
searched depth first.

Source: ToolPlanner (arXiv 2409.14826), Section 4.2 and Appendix A.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from costgym.agents import prompts
from costgym.agents.llm.session import LlmSession
from costgym.agents.llm.strategies import describe, read_plan
from costgym.agents.llm.types import Play, SearchResult
from costgym.agents.models.base import FINISH, PLAN, USER, Function, Message
from costgym.agents.toolplanner.tags import MOST_CANDIDATES, Tags, read_tags, tagged
from costgym.agents.toolplanner.tree import Round, plain_name
from costgym.simulators.errors import check_positive
from costgym.simulators.tools import Tool, ToolText

TAGS = "tags"  # purpose of a reply: the tags that the request names or implies
ASK_TAGS = (
    "Which functions does the request name or imply? Write a JSON object with three lists of equal length, categories, tools "
    "and apis; entries of one place belong together. Take the names from this list:"
)
ASK_OPEN = (
    "Which functions does the request need? Write a JSON object with three lists of equal length, categories, tools and apis; "
    "entries of one place belong together. Write the names as you know them. Categories: "
)
"""Where tools are retrieved, their names are the model's own knowledge, as they are of a model that is trained on them."""
PATH_LINE = "Solution path: "
_LINE = re.compile(r"^- (.*) of (.*) \(([^()]*)\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """Limits of ToolPlanner's reasoning, and which of its parts take part."""

    depth: int = 4  # rounds of a solution
    width: int = 2  # children of a round
    trees: int = 2  # solution trees; together with depth and width they bound the rounds (30 as published)
    candidates: int = MOST_CANDIDATES  # tools that the tags may bring into play
    # tags, path: whether tags are extracted, and whether a path is planned
    tags: bool = True
    path: bool = True
    answer: bool = False  # answer from what the rounds brought where no round answers, instead of giving up
    explore: bool = False  # go on after an answer, until all trees are full; the first answer counts. For trees to learn from.

    def __post_init__(self) -> None:
        for name in ("depth", "width", "trees", "candidates"):
            check_positive(f"PlannerSettings.{name}", getattr(self, name))

    @property
    def most_rounds(self) -> int:
        """Rounds of all trees when they are full."""
        return self.trees * sum([int(self.width**level) for level in range(self.depth)])


class ToolPlanner:
    """The strategy; composes with any model and any tool access. Where the tags mean nothing on offer, all functions stay.

    `tags`, `path` and `roots` (of its trees) are the last episode's; None and [] where the model could not be read.
    """

    text_is_answer = True

    def __init__(self, settings: PlannerSettings | None = None) -> None:
        self.settings = settings or PlannerSettings()
        left_out = [part for part in ("tags", "path") if not getattr(self.settings, part)]
        self.name = "toolplanner" + "".join(f"-no-{part}" for part in left_out) + "-answers" * self.settings.answer
        self.tags: Tags | None = None
        self.path: list[str] = []
        self.roots: list[Round] = []

    def play(self, session: LlmSession) -> Play[SearchResult]:
        self.tags, self.path, self.roots = None, [], []
        allowed: frozenset[str] | None = None
        request, categories = session.query, session.seat.categories
        if self.settings.tags:
            wanted = ASK_OPEN + ", ".join(categories) if categories else f"{ASK_TAGS}\n{tag_lines(session.tools)}"
            reply = yield from session.ask([session.request, Message(USER, wanted)], TAGS, functions=())
            self.tags = read_tags(reply.message.content)
            if self.tags is not None:
                if categories:
                    yield from _look_up(session, self.tags, self.settings.candidates)
                allowed = frozenset(tool.name for tool in tagged(self.tags, session.tools, self.settings.candidates)) or None
                request += "\n" + self.tags.lines()
        if self.settings.path:
            prompt = [Message(USER, request), Message(USER, prompts.PLAN)]
            reply = yield from session.ask(prompt, PLAN, functions=_shown(session, allowed))
            self.path = read_plan(reply.message.content) or []
            if self.path:
                request += f"\n{PATH_LINE}{', '.join(self.path)}"
        tree = _Tree(session, self.settings, allowed)
        yield from tree.grow([Message(USER, request)], self.roots, 0, self.settings.trees)
        if tree.ending.gave_up and self.settings.answer:
            return (yield from session.summarise(session.results()))
        return tree.ending


class _Tree:
    """A guided search under way; `grow` returns how many levels to go back."""

    def __init__(self, session: LlmSession, settings: PlannerSettings, allowed: frozenset[str] | None) -> None:
        self.session, self.settings, self.allowed = session, settings, allowed
        self.rounds = 0
        self.ending = SearchResult(None)

    def grow(self, history: list[Message], siblings: list[Round], depth: int, width: int) -> Play[bool]:
        """Make the rounds after a history, each with all that follows it; True when the search is over."""
        tried: list[str] = []
        for _ in range(width):
            if self.session.exhausted() or self.rounds >= self.settings.most_rounds:
                return True
            self.rounds += 1
            prompt = [*history, Message(USER, prompts.TRIED + " ".join(tried))] if tried else history
            reply = yield from self.session.ask(prompt, functions=_shown(self.session, self.allowed))
            turn = yield from self.session.perform(reply)
            tried.append(describe(turn))
            step = Round(tuple(result.call.name for result in turn.results), tuple(turn.messages))
            siblings.append(step)
            if turn.ending is not None:
                step.end, step.answer = "give_up" if turn.ending.gave_up else "answer", turn.ending.answer or ""
                if not turn.ending.gave_up:
                    self.ending = turn.ending if self.ending.gave_up else self.ending
                    if not self.settings.explore:
                        return True
            elif depth + 1 >= self.settings.depth:
                step.end = "cut"
            elif (yield from self.grow(history + turn.messages, step.children, depth + 1, self.settings.width)):
                return True
        return False


def _look_up(session: LlmSession, tags: Tags, most: int) -> Play[None]:
    """Search the catalogue for the tagged tools, each once."""
    yield from session.pay()
    for tag in tags.mappings()[:most]:
        if tag["api"]:
            yield from session.search(query=tag["api"], category=tag["category"], provider=tag["tool"])


def _shown(session: LlmSession, allowed: frozenset[str] | None) -> list[Function]:
    """Return the tagged functions of those on offer; all of them where nothing tagged is left."""
    offered = session.offered()
    shown = [function for function in offered if allowed is None or function.name in allowed]
    return [*shown, FINISH] if shown and allowed is not None else offered


def tag_lines(tools: Sequence[ToolText]) -> str:
    """Return the names to choose tags from, one tool a line."""
    return "\n".join(f"- {tool.title or tool.name} of {tool.provider} ({tool.category})" for tool in tools)


def listed_tools(text: str, tools: Iterable[Tool]) -> list[Tool]:
    """Return those of some tools that a text names in lines that `tag_lines` wrote."""
    there = {(plain_name(line[1]), plain_name(line[2])) for line in _LINE.finditer(text)}
    return [tool for tool in tools if (plain_name(tool.title or tool.name), plain_name(tool.provider)) in there]
