"""`costgym collect`, `export` and `verify`: record episodes, convert and replay them."""

import re
from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import EXISTS, EnvName, ModelOptions, Quiet, WorkerOptions, WorldOptions
from costgym.cli.output import Progress
from costgym.cli.players import make_player
from costgym.experiments.play.options import Data, Seed
from costgym.simulators.bounds import Count, argument, option
from costgym.simulators.errors import ConfigError


def collect(
    agent: Annotated[str, option("Agent that plays, from `costgym agents`.")],
    out: Annotated[Path, option("Folder of the collection; the same folder continues it.", "DIR")],
    language: ModelOptions,
    workers: WorkerOptions,
    env: EnvName = None,
    world: WorldOptions = WorldOptions(split="train"),  # noqa: B008, it is frozen
    episodes: Annotated[Count, option("Number of episodes.")] = 100,
    seed: Seed = 0,
    format: Annotated[str, option("jsonl; minari, parquet, hf or messages in addition.")] = "jsonl",
    shard: Annotated[str, option("Record the I-th of N equal parts alone, for several machines.", "I/N")] = "1/1",
    quiet: Quiet = False,
) -> None:
    """Record an agent's episodes; an interrupted run can be continued.

    Example: `costgym collect --agent greedy --episodes 100 --out greedy`
    """
    from costgym.experiments.play.collect import collect as record_episodes
    from costgym.experiments.play.execution.concurrent import batch_of

    part = re.fullmatch(r"(\d+)/(\d+)", shard)
    if part is None or (shard != "1/1" and format != "jsonl"):
        raise ConfigError("--shard", f"expected I/N such as 2/4, and an export of its own once all are there, got {shard!r}")
    language.keep_replies()
    with (
        workers.open(language.model, language.batch, language.concurrency) as engine,
        Progress(f"recording {agent}", quiet) as progress,
    ):
        player, played = make_player(agent, env, world, seed, language.model, language.prices, at_hand=batch_of(engine))
        number, count = map(int, part.groups())
        path = record_episodes(played, player, episodes, out, seed, progress.update, engine, (number, count))
    if not quiet:
        typer.echo(str(path))
    if format != "jsonl":
        from costgym.experiments.play.export.formats import export as write

        allowed = re.sub(r"[^A-Za-z0-9_]+", "-", agent).strip("-")  # in the id of a dataset of Minari
        name = f"costgym/{allowed}-v0" if format == "minari" else out / format
        written = write(path, format, name)
        if not quiet:
            typer.echo(str(written))


def export(
    path: Annotated[Path, EXISTS, argument("A trajectory file, or the folder of a collection.")],
    format: Annotated[str, option("minari, parquet, hf, messages, atif, jsonl, sharegpt or experience.")],
    out: Annotated[str, option("File or folder; for minari the dataset's id.", "NAME")],
    kind: Annotated[str | None, option("messages: sft or dpo.")] = None,
    only: Annotated[str | None, option("clean, passed or all episodes; by default passed for messages, else clean.")] = None,
    pairs: Annotated[str | None, option("messages, dpo: pairs of one task under one seed, or task for any seeds.")] = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Write recorded trajectories in another format.

    Example: `costgym export greedy --format parquet --out greedy/parquet`
    """
    from costgym.experiments.play.export.formats import export as write

    options = {"kind": kind, "only": only, "pairs": pairs, "data": data}
    written = write(path, format, out, **{name: value for name, value in options.items() if value is not None})
    if not quiet:
        typer.echo(str(written))


def verify(
    path: Annotated[Path, EXISTS, argument("A trajectory file, or the folder of a collection, a run or a submission.")],
    workers: WorkerOptions,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Replay recorded episodes and compare every figure.

    Example: `costgym verify leaderboard`
    """
    from costgym.experiments.board.verify import verify as replay_all
    from costgym.experiments.play.metric_registry import plain

    with workers.open() as engine:
        verdict = replay_all(path, data, engine=engine)
    for problem in verdict.problems[:20]:
        typer.echo(plain(problem), err=True)
    if len(verdict.problems) > 20:
        typer.echo(f"... and {len(verdict.problems) - 20} more", err=True)
    if not quiet:
        typer.echo(f"{verdict.path}: {verdict.episodes} episodes verified, {len(verdict.problems)} problems")
    if not verdict.verified:
        raise typer.Exit(1)
    if (path / "leaderboard.json").is_file():
        from costgym.experiments.leaderboard import regenerate_pages

        for page in regenerate_pages(path):
            typer.echo(f"{page}: regenerated from leaderboard.json")
