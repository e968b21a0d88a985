"""Search for tools in the whole catalogue, in worlds whose tools on offer are retrieved."""

from collections.abc import Sequence

from ...envs.actions import SEARCH
from ..llm.session import LlmSession
from ..llm.types import ToolAccess
from ..models.base import Function


class Search(ToolAccess):
    """Offers the model a search of the catalogue; in a world without a retriever it changes nothing.

    Args:
        hierarchical: Categories are opened first, then their providers, as in AnyTool; otherwise the search takes words.

    Source: AnyTool (arXiv 2402.04253), Section 3.1, for the hierarchy.
    """

    def __init__(self, hierarchical: bool = False) -> None:
        self.hierarchical = hierarchical
        self.suffix = "browse" if hierarchical else "search"
        self._function: Function | None = None

    def reset(self, session: LlmSession) -> None:
        categories = session.seat.categories
        self._function = None
        if categories:
            self._function = _browse(categories) if self.hierarchical else _SEARCH

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        return offered if self._function is None else [*offered, self._function]


_SEARCH = Function(
    SEARCH,
    "Search for more functions by what they should do; those that are found can be called from then on.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "what is looked for, in words"}},
        "required": ["query"],
    },
)


def _browse(categories: Sequence[str]) -> Function:
    return Function(
        SEARCH,
        "Open a category to see its providers and their functions, then a provider; its functions can be called from then on.",
        {
            "type": "object",
            "properties": {
                "category": {"type": "string", "enum": list(categories)},
                "provider": {"type": "string", "description": "a provider of the category"},
                "query": {"type": "string", "description": "what the provider's functions should do"},
            },
            "required": ["category"],
        },
    )
