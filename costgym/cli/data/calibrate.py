"""`costgym calibrate`: fit a scenario to a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...simulators.errors import ConfigError
from ..options import JsonFile, Quiet
from ..output import console


def calibrate(
    log: Annotated[
        Path,
        typer.Argument(
            help="Logged calls: JSON lines, OpenTelemetry, Langfuse, LangSmith, LiteLLM, Lambda; or StableToolBench's folder."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="YAML file of the scenario.")] = Path("calibrated.yaml"),
    name: Annotated[str | None, typer.Option("--name", help="Name of the scenario.")] = None,
    least_calls: Annotated[int | None, typer.Option("--least-calls", help="Tools with fewer calls are left out.")] = None,
    gap: Annotated[float, typer.Option("--gap", metavar="SECONDS", help="Length of a pause that ends an episode.")] = 3600.0,
    token_price: Annotated[
        str | None, typer.Option("--token-price", metavar="IN,OUT", help="USD per million tokens, for logs without prices.")
    ] = None,
    price: Annotated[
        list[str] | None, typer.Option("--price", metavar="TOOL=PRICE", help="Price of a call, for logs without; repeatable.")
    ] = None,
    mapped: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=EXPRESSION", help="Where the log has a field: `latency_s=ms/1000`; repeatable."),
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option("--tasks", metavar="FILE", help="YAML list of your own tasks, in place of generated ones.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Also write a page with log and world over each other.")
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Fit latencies, failures and prices to logged calls, and judge the fit by simulating it.

    Example: `costgym calibrate calls.jsonl --out mine.yaml`
    """
    from ...experiments.fit.calibration.calibrate import calibrate as fit

    if out.suffix not in (".yaml", ".yml"):
        raise ConfigError("--out", f"expected a name ending in .yaml, got {out}")
    if page is not None and page.suffix not in (".html", ".htm"):
        raise ConfigError("--page", f"expected a name ending in .html, got {page}")
    found = fit(
        log,
        name or out.stem,
        least_calls,
        gap,
        None if token_price is None else _prices(token_price),
        prices={tool: _price(tool, text) for tool, text in _pairs("--price", price).items()},
        fields=_pairs("--map", mapped),
        tasks=tasks,
    )
    found.write(out, json_file)
    if page is not None:
        from ...experiments.pages.calibration import calibration_page
        from ...experiments.play.files import write_atomically

        write_atomically(page, calibration_page(found))
    if not quiet:
        _print(found.report)
        typer.echo(f"scenario: {out}")
        if page is not None:
            typer.echo(f"page: {page}")


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    found = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise ConfigError(option, f"expected NAME=VALUE, got {text!r}")
        found[name.strip()] = value.strip()
    return found


def _price(tool: str, text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < float("inf"):
        raise ConfigError("--price", f"expected a price of at least 0 for {tool}, got {text!r}")
    return price


def _prices(text: str) -> tuple[float, float]:
    try:
        prices = [float(part) for part in text.split(",")]
    except ValueError:
        prices = []
    if len(prices) != 2 or not all(0 <= price < float("inf") for price in prices):
        raise ConfigError("--token-price", f"expected two prices, got {text!r}; for example 2.5,10")
    return prices[0], prices[1]


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    columns = ("tool", "calls", "median s", "spread", "price", "success", "95 %", "world", "unseen", "predicted", "missed")
    rows = []
    for tool, row in report["tools"].items():
        unseen, latency, price = report["unseen"]["tools"].get(tool), row["latency"], row["price"]
        judged = row.get("reproduced")
        cells = (
            tool,
            str(row["calls"]),
            "-" if latency is None else f"{latency['median_s']:.3g}",
            "-" if latency is None else f"{latency['spread']:.2f}",
            "-" if price is None else f"{price['fee']:.3g}",
            f"{row['success']:.1%}",
            "{:.0%} to {:.0%}".format(*row["success_ci95"]),
            "-" if judged is None else f"{judged['success']['world']:.1%}",
            "-" if unseen is None else f"{unseen['success']:.1%}",
            "-" if unseen is None else f"{unseen['success_predicted']:.1%}",
            "-" if judged is None else str(sum(not figure["within"] for figure in judged.values())),
        )
        rows.append(cells)
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        # only the name may give way where the screen is narrow
        least = None if index == 0 else max(map(len, (column, *(cells[index] for cells in rows))))
        table.add_column(column, justify="left" if column == "tool" else "right", no_wrap=True, min_width=least)
    for cells in rows:
        table.add_row(*cells)
    console().print(table)
    found = report["unseen"]
    judged = [figure["within"] for row in report["tools"].values() for figure in row.get("reproduced", {}).values()]
    if judged:
        typer.echo(f"the written world, simulated: {sum(judged)} of {len(judged)} figures within the log's 95 % intervals")
    if "outcome_log_likelihood" in found:
        likely = found["outcome_log_likelihood"]
        typer.echo(
            f"{found['calls']} unseen calls: {found['figures_as_predicted']} of {found['figures']} figures as predicted; "
            f"log-likelihood {likely['chain']:.3f} a call (independent failures: {likely['independent']:.3f})"
        )
    for line in report["not_reproduced"]:
        typer.echo(f"not reproduced: {line}")
    for tool, count in report["left_out"].items():
        typer.echo(f"left out: {tool}, {count} calls")
    for warning in report["warnings"]:
        typer.echo(f"note: {warning}")
