"""`costgym proxy`: real tools under the world's luck."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...simulators.errors import ConfigError, require
from ..options import BudgetText, Data, Enforcement, ScenarioName, Seed


def proxy(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The MCP server: a command, or an address.")],
    scenario: ScenarioName = None,
    data: Data = None,
    seed: Seed = 0,
    budget: BudgetText = None,
    enforcement: Enforcement = None,
    faults: Annotated[
        float | None,
        typer.Option("--faults", metavar="FACTOR", help="Factor on the scenario's failures and outages; 0 for none."),
    ] = None,
    price: Annotated[
        list[str] | None, typer.Option("--price", metavar="TOOL=PRICE", help="Price of a call of a tool; repeatable.")
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option("--clock", help="calls: only calls let time pass, so runs repeat exactly; wall: real time passes."),
    ] = None,
    time_scale: Annotated[
        float, typer.Option("--time-scale", metavar="FACTOR", help="Real seconds for a second of the world; 0 for no delays.")
    ] = 1.0,
    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="Append each call to a log of JSON lines.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="NAME", help="Name of the run in the log.")] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="NAME", help="What the run is for; repeated runs share it.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Real time after which the server's own reply is too late.")
    ] = 60.0,
    tell: Annotated[
        bool, typer.Option("--tell", help="Each reply ends with its price and what is left of the budget.")
    ] = False,
    host: Annotated[str, typer.Option("--host", help="Address to listen on, with --port; local by default.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Serve over HTTP at this port instead of standard input.")
    ] = None,
) -> None:
    """Stand between an MCP client and a real MCP server, and impose a scenario's luck, prices and budget on its calls.

    Without a scenario nothing is imposed, and the calls are only logged.

    Example: `costgym proxy --scenario storm --seed 0 --budget price=20 --log calls.jsonl -- mcp-server-time`
    """
    for module in ("mcp_types", "mcp", "starlette", "uvicorn"):
        require(module, "serve")
    from ...experiments.serve.proxy.serve import Proxy, first_of_ours, serve_http, serve_stdio
    from ...experiments.serve.proxy.session import Settings
    from ...simulators.scenario import load_scenario

    if not 0 < timeout < float("inf"):
        raise ConfigError("--timeout", f"expected a positive number of seconds, got {timeout}")
    rules = None if scenario is None else load_scenario(scenario, data)
    given: dict[str, Any] = {"seed": seed, "budget": budget, "enforcement": enforcement, "faults": faults}
    given |= {"prices": _prices(price), "clock": clock, "time_scale": time_scale, "log": log, "run": run, "task": task}
    try:
        settings = Settings(scenario=rules, **given)
    except ConfigError as error:
        if not error.place.startswith("Settings."):
            raise
        raise ConfigError(f"--{error.place.removeprefix('Settings.').replace('_', '-')}", error.problem) from None
    between = Proxy(tuple(command), settings, timeout, tell)

    def ready(address: str) -> None:
        typer.echo(f"proxy at {address}", err=True)

    try:
        if port is not None:
            serve_http(between, host, port, ready)
        else:
            import asyncio

            asyncio.run(serve_stdio(between))
    except BaseExceptionGroup as group:
        ours = first_of_ours(group)
        if ours is None:
            raise
        raise ours from None


def _prices(given: list[str] | None) -> dict[str, float]:
    found = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            sign = ""
        if not sign or not name.strip():
            raise ConfigError("--price", f"expected TOOL=PRICE, got {text!r}")
    return found
