"""`costgym cost`: what agents and models cost per task and per month."""

from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from costgym.cli.data.calibrate import print_reading
from costgym.cli.options import JsonFile, Quiet, WorldOptions
from costgym.cli.output import Progress, print_table, prints, save_json
from costgym.cli.play.cost_tables import ERROR_OF_MEAN, CostTable, forecast_table, replanned_table, trace_table, with_classes
from costgym.experiments.play.costs.price_list import PriceList
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import Count, Settings, argument, option
from costgym.simulators.errors import ConfigError
from costgym.simulators.files import write_atomically


class ForecastOptions(Settings):
    """The options about a forecast."""

    heading: ClassVar[str] = "Forecast"

    agents: Annotated[tuple[str, ...] | None, option("Language agents of `costgym agents`, for a forecast.", "A,B,...")] = None
    episodes: Annotated[Count, option("Episodes of each agent and model.")] = 60
    decisions: Annotated[str, option("Who decides: the simulated language model, or a twin: FILE.yaml:twin.", "MODEL")] = (
        "simulated"
    )
    share_cache: Annotated[
        bool, option("Bill also a cache that all tasks share, which come evenly over the month.", "", "--share-cache")
    ] = False


def cost(
    traces: Annotated[list[Path] | None, argument("Logs of model calls, to price instead of a forecast.", "TRACE...")] = None,
    *,
    models: Annotated[
        tuple[str, ...] | None, option("Models of the price table; those of the log by default.", "A,B,...")
    ] = None,
    mode: Annotated[
        str | None,
        option(
            "Of a log's tokens: repriced (the default), or rescheduled: cached again. Of recorded episodes of react: "
            "replanned, by a twin of their model."
        ),
    ] = None,
    where: Annotated[
        dict[str, str] | None,
        option("Of a log: only records with this value; `FIELD!=VALUE` for others; repeatable.", "FIELD=VALUE"),
    ] = None,
    forecasts: ForecastOptions,
    world: WorldOptions,
    price_list: PriceList,
    tasks_per_month: Annotated[Count, option("Tasks that a month brings.")] = 10_000,
    seed: Seed = 0,
    json_file: JsonFile = None,
    page: Annotated[Path | None, option("Also write the table as a page, with tokens by class.", "FILE.html")] = None,
    quiet: Quiet = False,
) -> None:
    """Forecast what agents cost with models, or price the model calls of logs, in US dollars.

    For a forecast the decisions are those of the simulated language model, so the figures compare agents and price lists; they
    need no key and no network. Each model is billed twice: with its cache of prompts, and without. Bills hold the fees of the
    scenario's tools too.

    Example: `costgym cost --agents react,react+btp --models gpt-5-mini,claude-haiku-4-5 --tasks-per-month 10000`
    """
    agents, episodes, decisions = forecasts.agents, forecasts.episodes, forecasts.decisions
    chosen: dict[str, Any] = {name: str(value) for name, value in price_list.explicit.items() if value is not None}
    if absent := [str(trace) for trace in traces or () if not trace.exists()]:
        expected = f"expected a log, but the file {absent[0]!r:.60} does not exist"
        raise ConfigError("TRACE", f"{expected}; agents are named with --agents")
    if traces and mode == "replanned":
        rows = _replanned(traces, agents, models, world, tasks_per_month, price_list, episodes, quiet)
        table, more = replanned_table(rows, tasks_per_month), {}
    elif traces:
        from costgym.experiments.play.costs.trace_costs import REPRICED, trace_costs

        if agents:
            raise ConfigError("--agents", "agents are forecast in a scenario; leave them out to price logs")
        rows = trace_costs(traces, models or (), mode or REPRICED, tasks_per_month, price_list, where)
        table, more = trace_table(rows, tasks_per_month), chosen
    else:
        if option_of_logs := "--mode" if mode is not None else "--where" if where is not None else "":
            raise ConfigError(option_of_logs, "expected logs to price, such as `costgym cost traces.jsonl --mode rescheduled`")
        rows = _forecast(forecasts, models, world, tasks_per_month, price_list, seed, quiet)
        table = forecast_table(rows, tasks_per_month, decisions)
        more = {"decisions": decisions, "error_of_mean": ERROR_OF_MEAN, **chosen}
    save_json(json_file, {"rows": rows, **more})
    if page is not None:
        _write_page(page, table, rows)
    if prints(quiet, json_file):
        print_table(table.columns, table.cells, table.columns[: table.names])
        for name, records in {row["agent"]: row["records"] for row in rows if "records" in row}.items():
            print_reading(records, f"{name}: " if len({row["agent"] for row in rows}) > 1 else "")
        for note in table.notes:
            typer.echo(note)


def _write_page(page: Path, table: CostTable, rows: list[dict[str, Any]]) -> None:
    from costgym.experiments.pages.html import cost_page

    days = sorted({row["prices"] for row in rows if "prices" in row})
    prices = f"prices of {' and '.join(days)}" if days else "the prices of the table"
    write_atomically(page, cost_page(*with_classes(table, rows), prices))


def _forecast(
    forecasts: ForecastOptions,
    models: tuple[str, ...] | None,
    world: WorldOptions,
    tasks_per_month: int,
    price_list: PriceList,
    seed: int,
    quiet: bool,
) -> list[dict[str, Any]]:
    from costgym.experiments.play.costs.forecast import forecast

    if not forecasts.agents or not models:
        missing = "--models" if forecasts.agents else "--agents"
        raise ConfigError(missing, "a forecast needs --agents and --models; to price what you run already, name its logs")
    with Progress("playing", quiet) as progress:
        return forecast(
            forecasts.agents,
            models,
            world.arguments,
            tasks_per_month,
            price_list,
            forecasts.episodes,
            seed,
            forecasts.decisions,
            forecasts.share_cache,
            progress=progress.update,
            say=progress.say,
        )


def _replanned(
    traces: list[Path],
    agents: tuple[str, ...] | None,
    models: tuple[str, ...] | None,
    world: WorldOptions,
    tasks_per_month: int,
    price_list: PriceList,
    episodes: int,
    quiet: bool,
) -> list[dict[str, Any]]:
    from costgym.experiments.fit.replanned import replanned_costs

    if len(traces) != 1 or not models:
        raise ConfigError("--mode", "replanned takes one file of recorded episodes, and --models whose prices the tokens have")
    if others := [name for name, value in world.explicit.items() if name != "budget" and value is not None]:
        raise ConfigError(f"--{others[0].replace('_', '-')}", "the world of the record is played; only --budget can be another")
    chosen = agents or ("react",), models, world.budget, tasks_per_month, price_list, episodes
    with Progress("playing", quiet) as progress:
        return replanned_costs(traces[0], *chosen, progress=progress.update)
