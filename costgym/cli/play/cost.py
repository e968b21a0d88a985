"""`costgym cost`: what agents and models cost per task and per month."""

from pathlib import Path
from typing import Annotated, Any

from costgym.cli.data.calibrate import print_reading
from costgym.cli.options import JsonFile, Quiet, WorldOptions
from costgym.cli.output import Progress, print_table, prints, save_json
from costgym.experiments.play.costs.price_list import PriceList
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import Count, argument, option
from costgym.simulators.errors import ConfigError


def cost(
    traces: Annotated[list[Path] | None, argument("Logs of model calls, to price instead of a forecast.", "TRACE...")] = None,
    *,
    agents: Annotated[tuple[str, ...] | None, option("Language agents of `costgym agents`, for a forecast.", "A,B,...")] = None,
    models: Annotated[
        tuple[str, ...] | None, option("Models of the price table; those of the log by default.", "A,B,...")
    ] = None,
    mode: Annotated[str | None, option("Of a log's tokens: repriced (the default), or rescheduled: cached again.")] = None,
    where: Annotated[
        dict[str, str] | None,
        option("Of a log: only records with this value; `FIELD!=VALUE` for others; repeatable.", "FIELD=VALUE"),
    ] = None,
    world: WorldOptions,
    price_list: PriceList,
    tasks_per_month: Annotated[Count, option("Tasks that a month brings.")] = 10_000,
    episodes: Annotated[Count, option("Episodes of each agent and model.")] = 60,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Forecast what agents cost with models, or price the model calls of logs, in US dollars.

    For a forecast the decisions are those of the simulated language model, so the figures compare agents and price lists; they
    need no key and no network. Each model is billed twice: with its cache of prompts, and without. Bills hold the fees of the
    scenario's tools too.

    Example: `costgym cost --agents react,react+btp --models gpt-5-mini,claude-haiku-4-5 --tasks-per-month 10000`
    """
    chosen = {name: str(value) for name, value in price_list.given.items() if value is not None}
    if traces:
        if missing_file := next((str(trace) for trace in traces if not trace.exists()), None):
            raise ConfigError(
                "TRACE", f"expected a log, but there is no file {missing_file!r:.60}; agents are named with --agents"
            )
        from costgym.experiments.play.costs.trace_costs import REPRICED, trace_costs

        if agents:
            raise ConfigError("--agents", "agents are forecast in a scenario; leave them out to price logs")
        rows = trace_costs(traces, models or (), mode or REPRICED, tasks_per_month, price_list, where)
        save_json(json_file, {"rows": rows, **chosen})
        if prints(quiet, json_file):
            _print_traces(rows, tasks_per_month)
        return
    if option_of_logs := "--mode" if mode is not None else "--where" if where is not None else "":
        raise ConfigError(option_of_logs, "expected logs to price, such as `costgym cost traces.jsonl --mode rescheduled`")
    if not agents or not models:
        missing = "--agents" if not agents else "--models"
        raise ConfigError(missing, "a forecast needs --agents and --models; to price what you run already, name its logs")
    from costgym.experiments.play.costs.forecast import forecast

    with Progress("playing", quiet) as progress:
        rows = forecast(
            agents,
            models,
            world.arguments,
            tasks_per_month,
            price_list,
            episodes,
            seed,
            progress=progress.update,
            say=progress.say,
        )
    save_json(json_file, {"rows": rows, **chosen})
    if prints(quiet, json_file):
        _print(rows, tasks_per_month)


def _print_traces(rows: list[dict[str, Any]], tasks_per_month: int) -> None:
    import typer

    columns = ("log", "model", "cache", "traces", "$", "$ a trace", "p50", "p95", "$ a month", "cached")
    cells = [
        [
            row["agent"],
            row["model"],
            row["cache"],
            f"{row['tasks']:,}",
            *(_dollars(row[name]) for name in ("usd", "usd_per_task", "usd_p50", "usd_p95")),
            f"{row['usd_per_month']:,.0f}",
            f"{row['cached_share']:.0%}",
        ]
        for row in rows
    ]
    print_table(columns, cells, columns[:3])
    for name, records in {row["agent"]: row["records"] for row in rows}.items():
        print_reading(records, f"{name}: " if len({row["agent"] for row in rows}) > 1 else "")
    meaning = {"recorded": "tokens by class as the log has them", "prefix": "counted again by the vendor's rules"}
    cache = rows[0]["cache"]
    typer.echo(f"A month has {tasks_per_month:,} traces. Cache `{cache}`: {meaning[cache]}.")


def _print(rows: list[dict[str, Any]], tasks_per_month: int) -> None:
    import typer

    columns = ("agent", "model", "cache", "success", "$ a task", "p50", "p95", "$ a success", "$ a month", "cached")
    cells = [
        [
            row["agent"],
            row["model"],
            row["cache"],
            f"{row['success']:.0%}",
            *(_dollars(row[name]) for name in ("usd_per_task", "usd_p50", "usd_p95", "usd_per_success")),
            f"{row['usd_per_month']:,.0f}",
            f"{row['cached_share']:.0%}",
        ]
        for row in rows
    ]
    print_table(columns, cells, columns[:3])
    typer.echo(
        f"A month has {tasks_per_month:,} tasks. Decisions are those of a simulated language model; "
        "cache `prefix` bills prompts as the vendor's cache does, `none` without it."
    )


def _dollars(amount: float | None) -> str:
    return "–" if amount is None else f"{amount:.2g}" if amount < 10 else f"{amount:,.0f}"
