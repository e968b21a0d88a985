"""`costgym calibrate`: fit a scenario to a log."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from costgym.cli.options import JsonFile, Quiet
from costgym.cli.output import print_table, prints, save_json
from costgym.simulators.bounds import Amount, Settings, argument, option
from costgym.simulators.errors import ConfigError


class Reading(Settings):
    """How to read a log, and which calls of it."""

    least_calls: Annotated[int | None, option("Tools with fewer calls are left out.")] = None
    gap: Annotated[float, option("Length of a pause that ends an episode.", "SECONDS")] = 3600.0
    hours: Annotated[tuple[int, ...] | None, option("Only calls that began between two hours of the day, UTC.", "FROM,TO")] = (
        None
    )
    token_price: Annotated[tuple[Amount, ...] | None, option("USD per million tokens, for logs without prices.", "IN,OUT")] = (
        None
    )
    price: Annotated[
        dict[str, Amount] | None, option("Price of a call, for logs without prices; repeatable.", "TOOL=PRICE")
    ] = None
    mapped: Annotated[
        dict[str, str] | None,
        option("How to read a field from the log: `latency_s=ms/1000`; repeatable.", "FIELD=EXPRESSION", "--map"),
    ] = None
    where: Annotated[
        dict[str, str] | None,
        option("Only records with this value: `service.name=agent`; `FIELD!=VALUE` for others; repeatable.", "FIELD=VALUE"),
    ] = None


def calibrate(
    log: Annotated[
        Path,
        argument("Logged calls: JSON lines, CSV, spans, exports of other programs, messages; or StableToolBench's folder."),
    ],
    out: Annotated[Path, option("YAML file of the scenario.", "FILE")] = Path("calibrated.yaml"),
    name: Annotated[str | None, option("Name of the scenario.")] = None,
    *,
    reading: Reading,
    tasks: Annotated[Path | None, option("YAML list of your own tasks, in place of generated ones.", "FILE")] = None,
    page: Annotated[Path | None, option("Also write a page that compares the log with the world.", "FILE")] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Fit latencies, failures and prices to logged calls, and check the fit by simulating it.

    Example: `costgym calibrate calls.jsonl --out mine.yaml`
    """
    from costgym.experiments.fit.calibration.calibrate import calibrate as fit

    if out.suffix not in (".yaml", ".yml"):
        raise ConfigError("--out", f"expected a name ending in .yaml, got {out}")
    if page is not None and page.suffix not in (".html", ".htm"):
        raise ConfigError("--page", f"expected a name ending in .html, got {page}")
    fitted = fit(
        log,
        name or out.stem,
        reading.least_calls,
        reading.gap,
        _pair("--token-price", reading.token_price, "2.5,10"),
        prices=reading.price or {},
        fields=reading.mapped or {},
        where=reading.where or {},
        tasks=tasks,
        hours=_pair("--hours", reading.hours, "22,6"),
    )
    fitted.write(out)
    save_json(json_file, fitted.report)
    if page is not None:
        from costgym.experiments.pages.world_pages import calibration_page
        from costgym.simulators.files import write_atomically

        write_atomically(page, calibration_page(fitted))
    if prints(quiet, json_file):
        _print(fitted.report)
        typer.echo(f"scenario: {out}")
        if page is not None:
            typer.echo(f"page: {page}")


def _pair(name: str, values: tuple[Any, ...] | None, example: str) -> tuple[Any, Any] | None:
    if values is not None and len(values) != 2:
        raise ConfigError(name, f"expected two numbers such as {example}, got {len(values)}")
    return None if values is None else (values[0], values[1])


def print_reading(records: Mapping[str, Any], name: str = "") -> None:
    """Print which records of a log are no calls, and which could not be read."""
    for reason, count in records["left_out"].items():
        typer.echo(f"{name}left out: {count} {reason}")
    if records["unreadable"]:
        typer.echo(f"{name}skipped: {records['unreadable']} records that cannot be read, first {records['problems'][0]}")


def _print(report: dict[str, Any]) -> None:
    columns = ("tool", "calls", "median s", "spread", "price", "success", "95 %", "world", "unseen", "predicted", "missed")
    rows = []
    for tool, row in report["tools"].items():
        unseen, latency, price = report["unseen"]["tools"].get(tool), row["latency"], row["price"]
        judged = row.get("reproduced")
        rows.append((
            tool,
            str(row["calls"]),
            "-" if latency is None else f"{latency['median_s']:.3g}",
            "-" if latency is None else "table" if latency["spread"] is None else f"{latency['spread']:.2f}",
            "-" if price is None else f"{price['fee']:.3g}",
            f"{row['success']:.1%}",
            "{:.0%}–{:.0%}".format(*row["success_ci95"]),
            "-" if judged is None else f"{judged['success']['world']:.1%}",
            "-" if unseen is None else f"{unseen['success']:.1%}",
            "-" if unseen is None else f"{unseen['success_predicted']:.1%}",
            "-" if judged is None else str(sum(not figure["within"] for figure in judged.values())),
        ))  # fmt: skip
    print_table(columns, rows, ("tool",))
    if (hours := report["hours"]) is not None:
        typer.echo(f"{report['calls']} calls from {hours['from']}:00 to {hours['to']}:00, {hours['share']:.1%} of the log")
    unseen = report["unseen"]
    judged = [figure["within"] for row in report["tools"].values() for figure in row.get("reproduced", {}).values()]
    if judged:
        typer.echo(f"the written world, simulated: {sum(judged)} of {len(judged)} figures within the log's 95 % intervals")
    if "outcome_log_likelihood" in unseen:
        likely = unseen["outcome_log_likelihood"]
        typer.echo(
            f"{unseen['calls']} unseen calls: {unseen['figures_as_predicted']} of {unseen['figures']} figures as predicted; "
            f"log-likelihood {likely['chain']:.3f} a call (independent failures: {likely['independent']:.3f})"
        )
    if (shared := report["outages"]) is not None:
        count, times = len(shared["spans"]), f"every {shared['every_s']:.0f} s, {shared['lasts_s']:.0f} s long"
        typer.echo(f"{count} outages that {', '.join(shared['tools'])} share: {times}")
    print_reading(report["records"])
    for line in report["not_reproduced"]:
        typer.echo(f"not reproduced: {line}")
    for tool, count in report["left_out"].items():
        typer.echo(f"left out: {tool}, {count} calls")
    for warning in report["warnings"]:
        typer.echo(f"note: {warning}")
