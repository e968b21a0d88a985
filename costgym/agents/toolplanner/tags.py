"""Tags of an instruction: lists of categories, tools and APIs, extracted by a model or looked up by a retriever.

ToolPlanner's words: a *tool* is our provider, an *API* is our tool.

Source: ToolPlanner (arXiv 2409.14826), Sections 3.1 and 4.2.1 and Table 27.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from costgym.agents.llm.strategies import read_object
from costgym.agents.toolplanner.tree import plain_name
from costgym.simulators.errors import ConfigError
from costgym.simulators.retrieval.embedding import TextEmbedding
from costgym.simulators.retrieval.ranking import document_of
from costgym.simulators.tasks import Task
from costgym.simulators.tools import Catalog, Tool, ToolText

MOST_CANDIDATES = 5  # Tools that a tag list may bring into play. Source: the published settings (retrieved_api_nums).
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Tags:
    """Three lists, zipped by position: the i-th category, tool and API belong together. Entries may be empty."""

    categories: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()

    def mappings(self) -> list[dict[str, str]]:
        """Return the triples by place, as `match` and `names` take them; "" where a list is shorter."""
        triples = zip_longest(self.categories, self.tools, self.apis, fillvalue="")
        return [dict(zip(("category", "tool", "api"), triple, strict=True)) for triple in triples]

    def lines(self) -> str:
        """As the following prompts show them."""
        return "\n".join(
            f"{title}: {', '.join(names)}"
            for title, names in (("Categories", self.categories), ("Tools", self.tools), ("APIs", self.apis))
            if names
        )


def tags_of(tools: Iterable[Tool]) -> Tags:
    known = list(tools)
    return Tags(
        tuple(tool.category for tool in known),
        tuple(tool.provider for tool in known),
        tuple(tool.title or tool.name for tool in known),
    )


def gold_tools(task: Task, catalog: Catalog) -> tuple[Tool, ...]:
    """Return the tools that a task's instructions mean, one a need: what a solution has to call, and nothing else."""
    named = task.named or [need.tools[0] for need in task.needs if need.tools]
    return tuple(map(catalog.get, dict.fromkeys(named)))


def read_tags(text: str) -> Tags | None:
    """Return the tags in a reply, a JSON object with the lists `categories`, `tools` and `apis`; None if there is none."""
    document = read_object(text[:_LONGEST])
    lists = [] if document is None else [document.get(key, []) for key in ("categories", "tools", "apis")]
    if not lists or not all(isinstance(names, list) for names in lists):
        return None
    return Tags(*(tuple(name for name in names if isinstance(name, str)) for names in lists))


def write_tags(tags: Tags) -> str:
    """Tags as a model writes them."""
    return json.dumps({"categories": tags.categories, "tools": tags.tools, "apis": tags.apis})


def tagged(tags: Tags, offered: Sequence[ToolText], most: int = MOST_CANDIDATES) -> list[ToolText]:
    """The tools on offer that the first `most` of a tag list mean, in its order, each once.

    Of several with a named API it is the named tool's. Names that mean nothing on offer are left out.
    """
    tools: dict[str, ToolText] = {}
    for tag in tags.mappings():
        category, tool, api = map(plain_name, tag.values())
        same = [t for t in offered if api and api in (plain_name(t.title), plain_name(t.name))]
        same.sort(key=lambda t: (plain_name(t.provider) != tool, plain_name(t.category) != category))
        for one in same[:1]:
            tools.setdefault(one.name, one)
    return list(tools.values())[:most]


class Retriever:
    """Looks tools up by the words of their documents: the baseline that tag extraction is compared with."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        if not tools:
            raise ConfigError("Retriever", "expected at least one tool")
        self.tools = tuple(tools)
        documents = [document_of(tool) for tool in self.tools]
        self._embed = TextEmbedding(documents, 2048)
        self._vectors = self._embed(documents).astype(np.float32)

    def top(self, query: str, count: int) -> list[Tool]:
        """Return the `count` tools whose documents are closest to the query, the closest first."""
        scores = (self._vectors @ self._embed([query])[0].astype(np.float32)).round(5)
        return [self.tools[index] for index in np.argsort(-scores, kind="stable")[:count].tolist()]


class TagScore(NamedTuple):
    """The agreement of tag lists with what instructions name, over many tasks."""

    precision: float
    recall: float
    f1: float


def tag_score(pairs: Iterable[tuple[frozenset[str], frozenset[str]]]) -> TagScore:
    """Precision, recall and F1 over all (extracted, gold) names together. Source: ToolPlanner, Table 27."""
    hits = named = wanted = 0
    for extracted, gold in pairs:
        hits += len(extracted & gold)
        named += len(extracted)
        wanted += len(gold)
    precision = hits / named if named else 0.0
    recall = hits / wanted if wanted else 0.0
    return TagScore(precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0)
