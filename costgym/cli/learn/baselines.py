"""`costgym baselines`: methods of reinforcement learning side by side."""

from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import JsonFile, ManyWorkerOptions, Quiet
from costgym.cli.output import Progress, prints, save_json
from costgym.experiments.baselines.settings import BaselineSettings
from costgym.simulators.bounds import Count, option


def baselines(
    settings: BaselineSettings,
    workers: ManyWorkerOptions,
    out: Annotated[Path, option("Folder of the runs and the page; the same folder continues them.", "DIR")] = Path("baselines"),
    methods: Annotated[tuple[str, ...] | None, option("Methods; all by default.", "A,B,...")] = None,
    envs: Annotated[tuple[str, ...] | None, option("Environments; costgym/Marketplace-v0 by default.", "ID,...")] = None,
    levels: Annotated[tuple[str, ...] | None, option("Scenarios; by default that of each environment.", "NAME,...")] = None,
    seeds: Annotated[Count, option("Training runs of every method.")] = 5,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Train and measure the baselines: methods, levels and seeds, with intervals over seeds.

    Repeating the command continues with the runs that are missing. Without `--minutes` a run does not depend on the speed
    of the machine.

    Example: `costgym baselines --levels marketplace-easy,marketplace-hard --out runs/baselines`
    """
    import datetime
    import os
    import platform

    from costgym.agents.base import NUMERIC
    from costgym.experiments.baselines.methods import METHODS
    from costgym.experiments.baselines.report import rows, table, write
    from costgym.experiments.baselines.run import left_out, run

    chosen, worlds = methods or list(METHODS), envs or (NUMERIC,)
    texts = {"methods": methods, "envs": envs, "levels": levels}
    written = {**{name: ",".join(names) for name, names in texts.items() if names}, "seeds": seeds, **settings.explicit}
    options = [
        f"--{name.replace('_', '-')} {f'{value:g}' if isinstance(value, float) else value}" for name, value in written.items()
    ]
    with workers.open() as engine, Progress("baselines", quiet) as progress:
        records = run(out, settings, chosen, worlds, levels, seeds, engine, progress.update, progress.say)
    machine = f"{platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} processors"
    command = " ".join(["costgym baselines", *options])
    page = write(out, records, command, datetime.date.today().isoformat(), machine, left_out(chosen, worlds))
    report_rows = rows(records)
    save_json(json_file, report_rows)
    if prints(quiet, json_file):
        typer.echo(table(report_rows))
        typer.echo(f"page: {page.resolve()}")
