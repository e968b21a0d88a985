"""`costgym site`: results as a static site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...experiments.play.options import Data
from ...simulators.bounds import option
from ...simulators.errors import ConfigError
from ..options import Quiet, StoreUrl
from ..output import Progress

if TYPE_CHECKING:
    from ...experiments.board.store.runs import Run


def site(
    store: StoreUrl = None,
    run: Annotated[list[Path] | None, option("Folder of a leaderboard run; repeatable.", "DIR")] = None,
    out: Annotated[Path, option("Folder of the site; an older site is replaced.", "DIR")] = Path("site"),
    episodes: Annotated[int | None, option("Episodes of every entry to show in detail; all by default.")] = None,
    verify: Annotated[
        bool, option("First replay every run that has trajectories; the store records the result.", "", "--verify")
    ] = False,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Build a static site of results: ranking, significance, tables of the papers, agents, episodes.

    Example: `costgym site --run leaderboard --out site`
    """
    from ...experiments.board.store.runs import read_run
    from ...experiments.pages.site.build import build

    if store is None and not run:
        raise ConfigError("--store, --run", "expected a store or a run to build the site from")
    runs = [read_run(folder) for folder in run or ()]
    if store is not None:
        from ...experiments.board.store.store import Store

        kept = Store(store, create=False)
        runs += [each for each in kept.runs() if each.id not in {other.id for other in runs}]
    if verify:
        runs = [_verified(each, data) for each in runs]
        if store is not None:
            for each in runs:
                for entry in each.entries:
                    if entry.verified:
                        kept.mark_verified(each.id, entry.id)
    with Progress("reading episodes", quiet) as progress:
        page = build(runs, out, data, episodes, progress.update)
    if not quiet:
        typer.echo(f"site: {page.resolve()}")


def _verified(run: Run, data: str | None) -> Run:
    """Replay a run and mark its own entries as verified; if something differs, print it and remove every such mark."""
    from ...experiments.board.verify import verify

    if run.folder is None:
        return run
    verdict = verify(run.folder, data)
    if not verdict.verified:
        for problem in verdict.problems[:3]:
            typer.echo(f"not verified: {run.folder}: {problem}", err=True)
        rows = ({**entry.row, "verified": None} for entry in run.entries)  # a row may have claimed it
        return replace(
            run, entries=tuple(replace(e, row=row, verified=False) for e, row in zip(run.entries, rows, strict=True))
        )
    entries = tuple(entry if "submission" in entry.row else replace(entry, verified=True) for entry in run.entries)
    return replace(run, entries=entries)
