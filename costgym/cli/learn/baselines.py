"""`costgym baselines`: methods of reinforcement learning side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import EngineName, JsonFile, Quiet, RayAddress
from ..output import Progress, names_in, workers


def baselines(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the runs and the page; the same folder continues them.")
    ] = Path("baselines"),
    methods: Annotated[str | None, typer.Option("--methods", metavar="A,B,...", help="By default all.")] = None,
    envs: Annotated[str | None, typer.Option("--envs", metavar="ID,...", help="By default costgym/Marketplace-v0.")] = None,
    levels: Annotated[
        str | None,
        typer.Option("--levels", metavar="NAME,...", help="Scenarios; by default that of each environment."),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Training runs of every method.")] = 5,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Processor time of an online run at most; no limit by default.")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Decisions of an online run at most; 81920.")] = None,
    episodes: Annotated[int | None, typer.Option("--episodes", help="Test episodes of every run; 400.")] = None,
    cost_limit: Annotated[
        float | None,
        typer.Option("--cost-limit", help="On the mean price of an episode, for constrained methods; 7 credits."),
    ] = None,
    train_split: Annotated[
        str | None,
        typer.Option("--train-split", metavar="NAME", help="Tasks to learn from; train-large where there is one, else train."),
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Processes; all processors by default.")] = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Train and measure the baselines: methods, levels and seeds, with intervals over seeds.

    Repeating the command goes on with the runs that are missing. Without `--minutes` a run does not depend on how
    quick the machine is.

    Example: `costgym baselines --levels marketplace-easy,marketplace-hard --out runs/baselines`
    """
    import datetime
    import json
    import os
    import platform

    from ...agents.base import NUMERIC
    from ...experiments.lab.baselines.methods import METHODS
    from ...experiments.lab.baselines.report import rows, table, write
    from ...experiments.lab.baselines.run import BaselineSettings, left_out, run
    from ...experiments.play.files import write_atomically

    sizes = {"minutes": minutes, "steps": steps, "episodes": episodes, "cost_limit": cost_limit}
    given: dict[str, Any] = {name: value for name, value in sizes.items() if value is not None}
    settings, chosen = BaselineSettings(train_split=train_split, **given), names_in(methods) or list(METHODS)
    texts = {"methods": methods, "envs": envs, "levels": levels, "train-split": train_split}
    asked = [
        "costgym baselines",
        *(f"--{name} {text}" for name, text in texts.items() if text),
        f"--seeds {seeds}",
        *(f"--{name.replace('_', '-')} {value:g}" for name, value in given.items()),
    ]
    worlds = names_in(envs) or [NUMERIC]
    with workers(engine, jobs, ray_address, default=None) as place, Progress("baselines", quiet) as progress:
        records = run(
            out,
            settings,
            chosen,
            worlds,
            names_in(levels) or None,
            seeds,
            place,
            progress.update,
            progress.say,
        )
    machine = f"{platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} processors"
    missing = left_out(chosen, worlds)
    page = write(out, records, " ".join(asked), datetime.date.today().isoformat(), machine, missing)
    found = rows(records)
    if json_file is not None:
        write_atomically(json_file, json.dumps(found, indent=1) + "\n")
    if not quiet:
        typer.echo(table(found))
        typer.echo(f"page: {page.resolve()}")
