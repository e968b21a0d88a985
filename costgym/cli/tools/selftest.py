"""`costgym selftest`: is the world sound?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ..options import Quiet, Seed


def selftest(
    scenario: Annotated[str | None, typer.Argument(help="A scenario's name or YAML file; by default random worlds.")] = None,
    minutes: Annotated[float, typer.Option("--minutes", min=0.01, max=10_000, help="How long to search.")] = 1.0,
    seed: Seed = 0,
    found: Annotated[
        Path,
        typer.Option("--found", metavar="DIR", help="Folder of found cases, which are played first."),
    ] = Path("selftest-found"),
    quiet: Quiet = False,
) -> None:
    """Play random worlds with random actions, and check every rule, the batch, forks, threads and records.

    Example: `costgym selftest desk.yaml --minutes 0.2`
    """
    from ...experiments.lab.selftest.run import oracles, run
    from ...simulators.scenario import load_scenario

    begin = time.monotonic()
    report = run(60 * minutes, seed, None if scenario is None else load_scenario(scenario), found)
    for name in report.mended:
        typer.echo(f"{found / name}: found earlier, is sound now")
    for finding in report.findings:
        typer.echo(f"{found / finding.name}.yaml: {finding.oracle}: {finding.problem:.300}", err=True)
    if not quiet:
        tally = report.tally
        typer.echo(
            f"seed {seed}: {tally.worlds} worlds, {tally.episodes} episodes, {tally.steps} actions in "
            f"{time.monotonic() - begin:.0f} s, {report.refused} worlds refused with a sentence"
            + "".join(f", {count} by {name}" for name, count in sorted(tally.refused.items()))
            + f"; {len(report.findings)} findings by {', '.join(oracles())}"
        )
    if report.findings:
        raise typer.Exit(1)
