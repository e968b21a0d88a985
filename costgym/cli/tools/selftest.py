"""`costgym selftest`: check the rules of the world."""

import time
from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import Quiet
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import argument, option


def selftest(
    scenario: Annotated[
        str | None, argument("A scenario, its YAML file, or a folder of worlds; by default random ones.")
    ] = None,
    minutes: Annotated[float, option("Duration of the search.", ge=0.01, le=10_000)] = 1.0,
    seed: Seed = 0,
    found: Annotated[Path, option("Folder of found cases, which are played first.", "DIR")] = Path("selftest-found"),
    quiet: Quiet = False,
) -> None:
    """Play random worlds with random actions, and check every rule, the batch, forks, threads and records.

    Example: `costgym selftest desk.yaml --minutes 0.2`
    """
    from costgym.experiments.lab.selftest.run import oracles, run_in_processes
    from costgym.simulators.scenario import load_scenario

    begin = time.monotonic()
    report = run_in_processes(60 * minutes, seed, None if scenario is None else load_scenario(scenario), found)
    for name in report.mended:
        typer.echo(f"{found / name}: found earlier, now correct")
    for finding in report.findings:
        typer.echo(f"{found / finding.name}.yaml: {finding.oracle}: {finding.problem:.300}", err=True)
    if not quiet:
        tally = report.tally
        typer.echo(
            f"seed {seed}: {tally.worlds} worlds, {tally.episodes} episodes, {tally.steps} actions in "
            f"{time.monotonic() - begin:.0f} s, {report.refused} worlds refused with a message"
            + "".join(f", {count} by {name}" for name, count in sorted(tally.refused.items()))
            + f"; {len(report.findings)} findings by {', '.join(oracles())}"
        )
    if report.findings:
        raise typer.Exit(1)
