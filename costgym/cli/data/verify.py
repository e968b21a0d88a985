"""`costgym verify`: check records by replay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Data, EngineName, Jobs, Quiet, RayAddress
from ..output import workers


def verify(
    path: Annotated[Path, typer.Argument(help="A trajectory file, or the folder of a collection, a run or a submission.")],
    data: Data = None,
    jobs: Jobs = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    quiet: Quiet = False,
) -> None:
    """Replay recorded episodes and re-derive every figure.

    Example: `costgym verify leaderboard`
    """
    from ...experiments.board.verify import verify as replay_all

    with workers(engine, jobs, ray_address) as place:
        verdict = replay_all(path, None if data is None else str(data), engine=place)
    for problem in verdict.problems[:20]:
        typer.echo(problem, err=True)
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
