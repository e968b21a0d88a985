"""`costgym calibrate`: fit a scenario to a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...simulators.errors import ConfigError
from ..options import JsonFile, Quiet
from ..output import console


def calibrate(
    log: Annotated[Path, typer.Argument(help="Logged calls in JSON lines, or a folder of StableToolBench's answers.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="YAML file of the scenario.")] = Path("calibrated.yaml"),
    name: Annotated[str | None, typer.Option("--name", help="Name of the scenario.")] = None,
    least_calls: Annotated[int | None, typer.Option("--least-calls", help="Tools with fewer calls are left out.")] = None,
    gap: Annotated[float, typer.Option("--gap", metavar="SECONDS", help="Length of a pause that ends an episode.")] = 3600.0,
    token_price: Annotated[
        str | None, typer.Option("--token-price", metavar="IN,OUT", help="USD per million tokens, for logs without prices.")
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Fit latencies, failures and prices to logged calls, and report the quality of the fit.

    Example: `costgym calibrate calls.jsonl --out mine.yaml`
    """
    from ...experiments.calibration.calibrate import calibrate as fit

    if out.suffix not in (".yaml", ".yml"):
        raise ConfigError("--out", f"expected a name ending in .yaml, got {out}")
    found = fit(log, name or out.stem, least_calls, gap, None if token_price is None else _prices(token_price))
    found.write(out, json_file)
    if not quiet:
        _print(found.report)
        typer.echo(f"scenario: {out}")


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

    columns = ("tool", "calls", "median s", "spread", "KS", "best family", "success", "95 %", "unseen", "price")
    rows = []
    for tool, row in report["tools"].items():
        unseen = report["unseen"]["tools"].get(tool, {})
        latency, judged, price = row["latency"], unseen.get("latency"), row["price"]
        cells = (
            tool,
            str(row["calls"]),
            "-" if latency is None else f"{latency['median_s']:.3g}",
            "-" if latency is None else f"{latency['spread']:.2f}",
            "-" if judged is None else f"{judged['ks']:.3f}",
            "-" if judged is None else {"lognorm": "lognormal"}.get(judged["best"], judged["best"]),
            f"{row['success']:.1%}",
            "{:.0%} to {:.0%}".format(*row["success_ci95"]),
            "-" if not unseen else f"{unseen['success']:.1%}",
            "-" if price is None else f"{price['fee']:.3g} ({price['model']})",
        )
        rows.append(cells)
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        # only the name may give way where the screen is narrow
        least = None if index == 0 else max(map(len, (column, *(cells[index] for cells in rows))))
        table.add_column(
            column, justify="left" if column in ("tool", "best family") else "right", no_wrap=True, min_width=least
        )
    for cells in rows:
        table.add_row(*cells)
    console().print(table)
    found, failures = report["unseen"], report["failures"]
    typer.echo(
        f"failures: slip {failures['slip']:.3f}, persistence {failures['persistence']:.3f}, sticky {failures['sticky']:.3f}"
    )
    if "outcome_log_likelihood" in found:
        fit = found["outcome_log_likelihood"]
        typer.echo(
            f"{found['calls']} unseen calls: log-likelihood {fit['chain']:.3f} a call (independent failures: "
            f"{fit['independent']:.3f}); success as predicted for {found['success_rates_as_predicted']:.0%} of the tools"
        )
    for tool, count in report["left_out"].items():
        typer.echo(f"left out: {tool}, {count} calls")
    for warning in report["warnings"]:
        typer.echo(f"note: {warning}")
