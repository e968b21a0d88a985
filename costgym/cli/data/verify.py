"""`costgym verify`: check records by replay."""

from pathlib import Path
from typing import Annotated

import typer

from ...experiments.play.options import Data
from ...simulators.bounds import argument
from ..options import Quiet, WorkerOptions


def verify(
    path: Annotated[Path, argument("A trajectory file, or the folder of a collection, a run or a submission.")],
    place: WorkerOptions,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Replay recorded episodes and compare every figure.

    Example: `costgym verify leaderboard`
    """
    from ...experiments.board.verify import verify as replay_all
    from ...experiments.play.metric_registry import plain

    with place.open() as engine:
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
        from ...experiments.leaderboard import regenerate_pages

        for page in regenerate_pages(path):
            typer.echo(f"{page}: regenerated from leaderboard.json")
