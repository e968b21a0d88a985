"""A real MCP server for tests, in this process or in one of its own (`python -m tests.helpers.real_tools`)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.server.lowlevel import Server
from mcp.shared.memory import create_client_server_memory_streams

if TYPE_CHECKING:
    from costgym.experiments.serve.proxy.serve import Proxy

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


class Tools:
    """Adds, fails, sleeps and dies on request, and counts how often it was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.server: Server[Any] = Server("abacus", version="1", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        tools = [types.Tool(name="add", description="Adds.", input_schema=NUMBERS, output_schema=SUM)]
        tools += [types.Tool(name=name, description=name, input_schema={"type": "object"}) for name in ("fail", "sleep", "die")]
        return types.ListToolsResult(tools=tools)

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.calls.append(params.name)
        arguments = params.arguments or {}
        if params.name == "sleep":
            await anyio.sleep(float(arguments.get("seconds", 30)))
        if params.name == "die":
            os._exit(3)
        if params.name == "fail":
            return types.CallToolResult(content=[types.TextContent(text="404: no such number")], is_error=True)
        total = int(arguments.get("a", 0)) + int(arguments.get("b", 0))
        return types.CallToolResult(content=[types.TextContent(text=f'{{"sum": {total}}}')], structured_content={"sum": total})


@asynccontextmanager
async def through(proxy: Proxy, tools: Tools, note: Any = None) -> AsyncIterator[ClientSession]:
    """A client whose calls go through a proxy to a server, all in this process; `note` gets the messages nobody asked for."""
    async with (
        create_client_server_memory_streams() as (client, front),
        create_client_server_memory_streams() as (back, server),
        anyio.create_task_group() as group,
    ):
        group.start_soon(tools.server.run, *server, tools.server.create_initialization_options())
        group.start_soon(proxy.bridge(front, back).run)
        async with ClientSession(*client, message_handler=note) as session:
            await session.initialize()
            yield session
        await client[1].aclose()
        await anyio.sleep(0.01)
        group.cancel_scope.cancel()


if __name__ == "__main__":
    from mcp.server.stdio import stdio_server

    async def main() -> None:
        tools = Tools()
        async with stdio_server() as streams:
            await tools.server.run(*streams, tools.server.create_initialization_options())

    anyio.run(main)
