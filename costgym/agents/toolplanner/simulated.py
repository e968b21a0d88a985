"""The simulated model where an instruction names tools: it extracts the names when asked, and minds them now and then when not.

It adds one rate to those of `Simulated`. What it errs at when extracting tags or planning a path are the rates it errs at when
choosing tools: a fact that it overlooks has no tag, and a wrong choice is a wrong tag.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from costgym.agents.models.base import ACT, USER, Function, Message, Reply, reply
from costgym.agents.models.reading import Context
from costgym.agents.models.simulated import Simulated, SimulatedRates
from costgym.agents.toolplanner.agent import ASK_OPEN, PATH_LINE, TAGS, listed_tools
from costgym.agents.toolplanner.guessing import understood
from costgym.agents.toolplanner.tags import tags_of, write_tags
from costgym.agents.toolplanner.tree import plain_name
from costgym.simulators.errors import ConfigError
from costgym.simulators.tools import Tool

HEED = 0.9
"""Share of its actions in which the model prefers a tool that the request names. Set by hand on instructions of an earlier
form, so that plain tree search matched 13 % of the hybrid ones, as ToolLLaMA-Tree does (ToolPlanner, Table 1)."""


class SimulatedToolPlanner(Simulated):
    """`Simulated` to the last draw where a request names no tool; it prefers a named tool with the chance `heed` a choice."""

    def __init__(self, rates: SimulatedRates | None = None, heed: float = HEED) -> None:
        super().__init__(rates)
        if not 0 <= heed <= 1:
            raise ConfigError("SimulatedToolPlanner.heed", f"expected a chance between 0 and 1, got {heed!r}")
        self.heed = heed
        self._request = ""
        self._path: tuple[str, ...] = ()

    def begin(self, world: Any, seed: int) -> None:
        self._seed, self._view = seed, world
        self._understand(world.world.catalog, understood(world))

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        request = next((message.content for message in messages if message.role == USER), "")
        if request is not self._request:
            _, separator, path = request.rpartition(f"\n{PATH_LINE}")
            self._request, self._path = request, tuple(path.split(", ")) if separator else ()
        if purpose == TAGS:
            return reply(self._tags(messages, functions), (), messages, functions)
        return super().complete(messages, functions, purpose)

    def _tags(self, messages: Sequence[Message], functions: Sequence[Function]) -> str:
        """For each fact that it notices a tool from the list: one that the request names, if any that serve are named."""
        text = messages[-1].content
        knows_all = text.startswith(ASK_OPEN)
        if knows_all and self.task is not self._view.task:
            self._understand(self._reader.catalog, understood(self._view, everywhere=True))
        context = self._reader.read(messages, functions)
        if knows_all:  # it errs as among as many tools as there are categories
            tools = list(self._reader.catalog)
            context.shown = dict.fromkeys(text[len(ASK_OPEN) :].split(", "))
        else:
            tools = listed_tools(text, self._reader.tools.values())
            context.shown = {tool.name: None for tool in tools}
        chosen: list[Tool] = []
        for need in context.open:
            serving = [tool for tool in tools if self._reader.need_of(tool.name) == need]
            if not self._noticed[need] or not tools:
                continue
            wrong = not serving or self._chance(self._wrong_rate(context))
            options = tools if wrong else named(serving, self._request) or serving
            chosen.append(options[int(self._uniform() * len(options))])
        return write_tags(tags_of(chosen))

    def _choose(self, context: Context, names: list[str]) -> str:
        planned = [name for name in self._path if name in names]
        if planned:
            return planned[0]
        if len(names) > 1:
            tools = [tool for name in names if (tool := self._reader.tools.get(name)) is not None]
            wanted = [tool.name for tool in named(tools, self._request)]
            if wanted and len(wanted) < len(names) and self._chance(self.heed):
                names = wanted
        return super()._choose(context, names)


def named(tools: Iterable[Tool], text: str) -> list[Tool]:
    """Return the tools that a text names best: by API and provider, else by either of them."""
    known = [(tool, _stands_in(tool.title or tool.name, text), _stands_in(tool.provider, text)) for tool in tools]
    both = [tool for tool, api, provider in known if api and provider]
    return both or [tool for tool, api, _ in known if api] or [tool for tool, _, provider in known if provider]


@lru_cache(maxsize=65_536)
def _stands_in(name: str, text: str) -> bool:
    """Return whether a name stands in a text, as written or with spaces for underscores."""
    if not name.strip() or (name not in text and plain_name(name) not in plain_name(text)):
        return False  # most names are not, and to look for one as a word takes a pattern of its own
    if name.isalpha() and name.islower():
        # an ordinary word names an API only where one is called for: "followers" is in many a wish
        text = " ".join(re.findall(rf"with {name} of|[^.?!]*\b(?:call|[Uu]sing|APIs?)\b[^.?!]*", text))
    if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
        return True
    if " " not in name and "_" in name and name.islower():
        return False  # as written or not at all: `book_price` must not be found in "get_book_price"
    return re.search(rf"(?<!\w){re.escape(plain_name(name))}(?!\w)", plain_name(text)) is not None
