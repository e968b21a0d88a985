"""`costgym collect`: record episodes."""

import re
from pathlib import Path
from typing import Annotated

import typer

from ...experiments.play.options import Seed
from ...simulators.bounds import Count, option
from ..options import EnvName, ModelOptions, Quiet, WorkerOptions, WorldOptions
from ..output import Progress
from ..players import make_player


def collect(
    agent: Annotated[str, option("Agent that plays, from `costgym agents`.")],
    out: Annotated[Path, option("Folder of the collection; the same folder continues it.", "DIR")],
    language: ModelOptions,
    place: WorkerOptions,
    env: EnvName = None,
    world: WorldOptions = WorldOptions(split="train"),  # noqa: B008, it is frozen
    episodes: Annotated[Count, option("Number of episodes.")] = 100,
    seed: Seed = 0,
    format: Annotated[str, option("jsonl; minari, parquet, hf or messages in addition.")] = "jsonl",
    quiet: Quiet = False,
) -> None:
    """Record an agent's episodes; an interrupted run can be continued.

    Example: `costgym collect --agent greedy --episodes 100 --out greedy`
    """
    from ...experiments.play.execution.concurrent import batch_of
    from ...experiments.play.trajectories.collect import collect as record_episodes

    language.keep_replies()
    with (
        place.open(language.model, language.batch, language.concurrency) as engine,
        Progress(f"recording {agent}", quiet) as progress,
    ):
        player, played = make_player(agent, env, world, seed, language.model, language.prices, at_hand=batch_of(engine))
        path = record_episodes(played, player, episodes, out, seed, progress.update, engine)
    if not quiet:
        typer.echo(str(path))
    if format != "jsonl":
        from ...experiments.play.export.formats import export as write

        allowed = re.sub(r"[^A-Za-z0-9_]+", "-", agent).strip("-")  # in the id of a dataset of Minari
        name = f"costgym/{allowed}-v0" if format == "minari" else out / format
        written = write(path, format, name)
        if not quiet:
            typer.echo(str(written))
