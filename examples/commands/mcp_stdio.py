"""The episode's tools as an MCP server over standard input and output, for clients that start their server themselves.

    python client.py examples/commands/mcp_stdio.py

Many clients hand no variables on to their server; write the address into HOME first: `echo $COSTGYM_TOOLS_URL > $HOME/url`.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

URL = os.environ.get("COSTGYM_TOOLS_URL") or (Path.home() / "url").read_text().strip()


def ask(path: str = "", arguments: dict[str, Any] | None = None) -> Any:
    """List the functions, or call one."""
    data = None if arguments is None else json.dumps(arguments).encode()
    with urlopen(Request(URL + path, data, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    functions = [{**entry["function"], "input_schema": entry["function"].pop("parameters")} for entry in ask()]
    return types.ListToolsResult(tools=[types.Tool(**function) for function in functions])


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    answer = await asyncio.to_thread(ask, f"/{params.name}", params.arguments or {})
    return types.CallToolResult(content=[types.TextContent(text=answer["content"])], is_error=answer["is_error"])


async def main() -> None:
    server: Server[Any] = Server("costgym", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


asyncio.run(main())
