"""`costgym chaos`: what runs of real tools under faults come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ...simulators.errors import ConfigError
from ..options import JsonFile, Quiet
from ..output import PlainCommand, console

chaos = typer.Typer(help="Judge runs of real tools under the world's luck.", no_args_is_help=True, rich_markup_mode="markdown")


@chaos.command(cls=PlainCommand)
def report(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Logs of `costgym proxy` or `costgym.chaos`.")],
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Show success, cost per success, and R(k): the chance that all of k repeated runs succeed.

    Example: `costgym chaos report calls.jsonl --json reliability.json`
    """
    from ...experiments.play.files import write_atomically
    from ...experiments.serve.proxy.call_log import read_runs
    from ...experiments.serve.proxy.reliability import reliability

    found = reliability(read_runs(logs))
    if not found["runs"]:
        raise ConfigError("LOG", "the logs hold no runs")
    if json_file is not None:
        write_atomically(json_file, json.dumps(found, indent=1) + "\n")
    if not quiet:
        _print(found)


@chaos.command(cls=PlainCommand)
def verdict(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The log that holds the run.")],
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="The run's name, as `costgym proxy --run` gave it.")],
    success: Annotated[bool, typer.Option("--success/--failure", help="Whether it did what it was for.")],
) -> None:
    """Note in a log whether a run did what it was for.

    Example: `costgym chaos verdict calls.jsonl --run monday --success`
    """
    from ...experiments.serve.proxy.call_log import give_verdict

    give_verdict(log, run, success)


def _print(found: dict[str, Any]) -> None:
    from rich.table import Table

    most = max(len(row["reliability"]) for row in found["surface"])
    shown = [k for k in (1, 2, 4, 8, 16, 32) if k <= most]
    columns = (
        "scenario",
        "faults",
        "budget",
        "runs",
        "fault rate",
        "price a run",
        "price a success",
        *(f"R({k})" for k in shown),
    )
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in ("scenario", "budget") else "right")
    for row in found["surface"]:
        values = {each["k"]: each for each in row["reliability"]}
        table.add_row(
            row["scenario"],
            f"{row['faults']:g}",
            row["budget"],
            str(row["runs"]),
            "-" if row["fault_rate"] is None else f"{row['fault_rate']['value']:.1%}",
            "-" if row["price_per_run"] is None else f"{row['price_per_run']:.4g}",
            "-" if row["price_per_success"] is None else f"{row['price_per_success']:.4g}",
            *(
                "-" if k not in values else "{:.0%} [{:.0%}, {:.0%}]".format(values[k]["value"], *values[k]["ci95"])
                for k in shown
            ),
        )
    console().print(table)
    for words, key in (
        ("without a verdict (`costgym chaos verdict`)", "without_verdict"),
        ("cut off before their end", "unfinished"),
    ):
        names = found[key]
        if names:
            typer.echo(f"{len(names)} of {found['runs']} runs {words}: {', '.join(names[:5])}{', ...' if names[5:] else ''}")
