"""The tool server of a rollout: the functions of one episode over MCP."""

import asyncio
from typing import Any

import verifiers.v1 as vf
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent, Tool
from pydantic import Field

from costgym.experiments.play.text_episode import ToolEpisode
from costgym.simulators.errors import EpisodeOver


class Played(vf.State):
    """The calls of a rollout in their order, each a name and its arguments, and whether the episode has ended."""

    calls: list[tuple[str, dict[str, Any]]] = Field(default_factory=list)
    over: bool = False


class MarketplaceTools(vf.Toolset[vf.ToolsetConfig, Played]):
    """The functions that a task offers, with `finish`, under their own names."""

    TOOL_PREFIX = None

    async def setup_task(self, task: Any) -> None:
        """Begin the episode of the task."""
        self._episode, self._turn = ToolEpisode.of_row(task.row), asyncio.Lock()
        self._calls: list[tuple[str, dict[str, Any]]] = []

    def register(self, mcp: MCPServer) -> None:
        """Offer the functions; they differ from task to task, so the server's own methods are replaced."""
        server: Any = mcp
        server.list_tools, server.call_tool = self._list, self._in_turn

    async def _list(self) -> list[Tool]:
        functions = self._episode.functions
        return [
            Tool(name=function.name, description=function.description, input_schema=dict(function.parameters))
            for function in functions
        ]

    async def _in_turn(self, name: str, arguments: dict[str, Any], context: Any = None) -> CallToolResult:
        async with self._turn:  # calls of one reply come at the same time, and the world's order is the record's
            return await self._with_state(self._call)(name, arguments)

    async def _call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        try:
            text, failed = self._episode.call(name, arguments)
        except EpisodeOver as error:
            text, failed = str(error), True
        else:
            self._calls.append((name, arguments))
        self.state.calls, self.state.over = list(self._calls), self._episode.over
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=failed)


if __name__ == "__main__":
    MarketplaceTools.run()
