"""`costgym experience`: collect the past uses that BTP plans from."""

from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import Quiet
from costgym.cli.output import Progress
from costgym.experiments.play.options import EXPERIENCE, Data, Jobs, ScenarioName
from costgym.simulators.bounds import option


def experience(
    out: Annotated[Path, option("JSON lines; compressed if the name ends in .xz.", "FILE")],
    scenario: ScenarioName = None,
    data: Data = None,
    experience: Annotated[str | None, EXPERIENCE] = None,
    fresh: Annotated[bool, option("Collect them again instead of reading the package's or the cache.", "", "--fresh")] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Play train tasks and record which tool was used for which query, and whether it helped. BTP plans from these uses.

    Example: `costgym experience --experience dfsdt:5 --out past.jsonl`
    """
    from costgym.agents.base import TEXT
    from costgym.envs.registration import class_of, default_id
    from costgym.experiments.play.execution.engine import Local, default_jobs
    from costgym.experiments.play.experience import (
        ExperienceSettings,
        collect_experience,
        describe_experience,
        past_uses,
        write_experience,
    )
    from costgym.simulators.scenario import load_scenario

    world = load_scenario(scenario or "marketplace", data)
    world = world.in_world(*class_of(default_id(TEXT, world)).worlds)
    settings = ExperienceSettings() if experience is None else ExperienceSettings.parse(experience)
    engine = Local(jobs or default_jobs())
    with Progress("exploring", quiet) as progress:
        if fresh:
            text = collect_experience(world, settings, engine, progress=progress.update).to_jsonl()
        else:
            text = past_uses(world, settings, engine, progress.update)
    write_experience(out, text)
    if not quiet:
        described = describe_experience(text)
        typer.echo(
            f"{described['uses']:,} uses in {described['queries']:,} queries, {described['uses_per_tool']:.1f} for each of "
            f"{described['tools']:,} tools; digest {described['digest']}"
        )
