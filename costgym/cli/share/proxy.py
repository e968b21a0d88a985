"""`costgym proxy`: real tools under the world's luck, and reports on their runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from costgym.cli.options import JsonFile, Quiet
from costgym.cli.output import print_table, prints, save_json
from costgym.cli.verbs import Verbs, defaulting_to
from costgym.experiments.play.metric_registry import brief, span
from costgym.experiments.serve.limits import AccessOptions
from costgym.experiments.serve.proxy.session import Settings
from costgym.simulators.bounds import argument, option
from costgym.simulators.errors import ConfigError, require

proxy = Verbs(
    cls=defaulting_to("run"),
    help="Run real tools under the world's luck, and report on their runs. The word `run` may be left out.",
)


@proxy.command("run")
def run_proxy(
    command: Annotated[list[str], argument("The MCP server: a command, or an address.", "COMMAND")],
    settings: Settings,
    access: AccessOptions,
    timeout: Annotated[float, option("Real time allowed for a reply.", "SECONDS", gt=0, allow_inf_nan=False)] = 60.0,
    tell: Annotated[bool, option("End each reply with its price and the rest of the budget.", "", "--tell")] = False,
    host: Annotated[str, option("Address to listen on, with --port; local by default.")] = "127.0.0.1",
    port: Annotated[int | None, option("Serve over HTTP at this port, not standard input.", ge=0, le=65535)] = None,
) -> None:
    """Impose a scenario's luck, prices and budget on the calls between an MCP client and a real MCP server.

    Without a scenario nothing is imposed, and calls are only logged.

    Example: `costgym proxy run --scenario storm --seed 0 --budget price=20 --log calls.jsonl -- mcp-server-time`
    """
    for module in ("mcp_types", "mcp", "starlette", "uvicorn", "websockets"):
        require(module, "serve")
    from costgym.experiments.serve.proxy.serve import Proxy, first_of_ours, serve_http, serve_stdio

    between = Proxy(tuple(command), settings, timeout, tell)

    try:
        if port is not None:
            allowed = access.access(host)
            serve_http(between, host, port, lambda address: typer.echo(f"proxy at {address}", err=True), allowed)
        else:
            import asyncio

            asyncio.run(serve_stdio(between))
    except BaseExceptionGroup as group:
        if (ours := first_of_ours(group)) is None:
            raise
        raise ours from None


@proxy.command()
def report(
    logs: Annotated[list[Path], argument("Logs of `costgym proxy` or `costgym.chaos`.", "LOG...")],
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Show success, cost per success, and R(k): the chance that all of k repeated runs succeed.

    Example: `costgym proxy report calls.jsonl --json reliability.json`
    """
    from costgym.experiments.serve.proxy.call_log import read_runs, reliability

    report_document = reliability(read_runs(logs))
    if not report_document["runs"]:
        raise ConfigError("LOG", "the logs contain no runs")
    save_json(json_file, report_document)
    if prints(quiet, json_file):
        _print(report_document)


@proxy.command()
def verdict(
    log: Annotated[Path, argument("The log that holds the run.", "LOG")],
    run: Annotated[str, option("The run's name, as `costgym proxy --run` gave it.", "NAME")],
    success: Annotated[bool, option("Whether the run achieved its goal.", "", "--success/--failure")],
) -> None:
    """Note in a log whether a run achieved its goal.

    Example: `costgym proxy verdict calls.jsonl --run monday --success`
    """
    from costgym.experiments.serve.proxy.call_log import give_verdict

    give_verdict(log, run, success)


def _print(report_document: dict[str, Any]) -> None:
    most = max(len(row["reliability"]) for row in report_document["surface"])
    shown = [k for k in (1, 2, 4, 8, 16, 32) if k <= most]
    columns = ("scenario", "faults", "budget", "runs", "fault rate", "price a run", "price a success")
    rows = []
    for row in report_document["surface"]:
        values = {estimate["k"]: estimate for estimate in row["reliability"]}
        rows.append((
            row["scenario"],
            f"{row['faults']:g}",
            row["budget"],
            str(row["runs"]),
            "-" if row["fault_rate"] is None else f"{row['fault_rate']['value']:.1%}",
            "-" if row["price_per_run"] is None else f"{row['price_per_run']:.4g}",
            "-" if row["price_per_success"] is None else f"{row['price_per_success']:.4g}",
            *("-" if k not in values else _share(values[k]) for k in shown),
        ))  # fmt: skip
    print_table((*columns, *(f"R({k}) %" for k in shown)), rows, ("scenario", "budget"))
    about = {"without_verdict": "without a verdict (`costgym proxy verdict`)", "unfinished": "cut off before their end"}
    for key, words in about.items():
        if names := report_document[key]:
            typer.echo(
                f"{len(names)} of {report_document['runs']} runs {words}: {', '.join(names[:5])}{', ...' if names[5:] else ''}"
            )


def _share(figure: dict[str, Any]) -> str:
    low, high = (brief(end, "rate") for end in figure["ci95"])
    return f"{brief(figure['value'], 'rate')} {span(low, high)}"
