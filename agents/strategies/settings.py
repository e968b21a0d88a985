"""Limits of a search."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...simulators.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Limits of a search.

    Attributes:
        depth: Longest chain, counted in `unit`.
        unit: "steps": a reply is one; "nodes": as ToolBench counts them, one for a thought and two for a call.
        width: Children of a node.
        queries: Replies a tree search may ask for, votes included.
        give_up_levels: Levels a tree search goes back after giving up.
        depth_levels: Levels it goes back at the depth limit.
        text_is_answer: A reply without a call is the final answer; else it is a thought.
        register_width: Children of a node that only registered a tool.
    """

    depth: int = 12
    unit: Literal["steps", "nodes"] = "steps"
    width: int = 2
    queries: int = 200
    give_up_levels: int = 2
    depth_levels: int = 1
    text_is_answer: bool = True
    register_width: int = 1

    def __post_init__(self) -> None:
        for name in ("depth", "width", "queries", "give_up_levels", "depth_levels", "register_width"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"SearchSettings.{name}", f"expected a positive whole number, got {value!r}")
        if self.unit not in ("steps", "nodes"):
            raise ConfigError("SearchSettings.unit", f"expected steps or nodes, got {self.unit!r}")

    @classmethod
    def toolbench(cls) -> "SearchSettings":
        """ToolBench's: 12 nodes deep (4 to 6 steps), 2 wide, 200 queries."""
        return cls(depth=12, unit="nodes", width=2, queries=200, text_is_answer=False)

    @classmethod
    def btp(cls, tree_of_thoughts: bool = False) -> "SearchSettings":
        """BTP's: as ToolBench's; its ToT-DFS goes 8 nodes deep with 30 queries."""
        return replace(cls.toolbench(), depth=8, queries=30) if tree_of_thoughts else cls.toolbench()

    @classmethod
    def ecoact(cls) -> "SearchSettings":
        """EcoAct's: 24 nodes deep for it and its baselines; one child after a registration."""
        return replace(cls.toolbench(), depth=24)

    @classmethod
    def chosen(cls, fields: Mapping[str, Any], strategy: str) -> "SearchSettings | None":
        """Return the settings that a run gives a strategy; None where it leaves the strategy its own.

        Args:
            fields: Fields of the settings; a mapping under the name of a strategy holds further ones for that strategy alone.
            strategy: Name of the strategy, such as "tot-dfs".
        """
        common = {name: value for name, value in fields.items() if not isinstance(value, Mapping)}
        own = {**common, **fields.get(strategy, {})}
        return cls(**own) if own else None

    def deeper(self, depth: int, nodes: int) -> int:
        """Return the depth after a reply that makes so many nodes."""
        return depth + (1 if self.unit == "steps" else nodes)


class LimitedSearch:
    """Base of the strategies that a `SearchSettings` limits."""

    usual = SearchSettings()

    def __init__(self, settings: SearchSettings | None = None) -> None:
        self.settings = settings or self.usual
        self.text_is_answer = self.settings.text_is_answer
