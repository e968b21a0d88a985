"""Search the catalogue from within an episode: more tools by words, or step by step through categories and providers."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from ..simulators.retrieval import Retriever
from ..simulators.tools import ToolCard
from ..simulators.world import Candidate, Episode

MAX_QUERY = 2_000
"""Characters of a search's query that are read."""


def search_tools(
    retriever: Retriever, episode: Episode, arguments: Mapping[str, Any], card: Callable[[Candidate], ToolCard]
) -> tuple[str, list[ToolCard]]:
    """Search, which takes the retriever's time; returns what the agent reads, and the cards of the tools that are new on offer.

    With a query, or with a provider, tools are found; they are on offer from then on. Without either, names are listed: the
    categories, or one category's tools by provider, as in AnyTool's hierarchical search (arXiv 2402.04253, Section 3.1).
    """
    query, category, provider = (str(arguments.get(name) or "")[:MAX_QUERY] for name in ("query", "category", "provider"))
    episode.advance(retriever.settings.seconds)
    if episode.over:
        return "", []
    if not query and not provider:
        if not category:
            return json.dumps({"categories": retriever.categories}), []
        listed = retriever.listing(category)
        if not listed:
            return _nothing(f"there is no category {category[:80]!r}"), []
        return json.dumps({"category": category, "providers": listed}), []
    offered = frozenset(candidate.name for candidate in episode.candidates)
    numbers = retriever.search(query or provider, episode.task, offered, category, provider)
    found = [card(candidate) for candidate in episode.offer(numbers)]
    if not found:
        return _nothing("there is no further tool"), []
    return json.dumps({"found": [each.documentation()["function"] for each in found]}), found


def _nothing(why: str) -> str:
    return json.dumps({"found": [], "note": why})
