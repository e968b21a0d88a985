"""`costgym site`: results as a static site."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costgym.cli.options import Quiet, StoreUrl
from costgym.cli.output import Progress
from costgym.experiments.play.options import Data
from costgym.simulators.bounds import option
from costgym.simulators.errors import ConfigError, DataError

if TYPE_CHECKING:
    from costgym.experiments.board.store.runs import Run


def site(
    store: StoreUrl = None,
    run: Annotated[list[Path] | None, option("Folder of a leaderboard run; repeatable.", "DIR")] = None,
    out: Annotated[Path, option("Folder of the site; an older site is replaced.", "DIR")] = Path("site"),
    episodes: Annotated[int | None, option("Episodes of every entry to show in detail; all by default.")] = None,
    verify: Annotated[bool, option("First replay every run and refuse one that differs from replay.", "", "--verify")] = False,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Build a static site of results: ranking, significance, agents, episodes.

    Example: `costgym site --run leaderboard --out site`
    """
    from costgym.experiments.board.run_config import copied_run
    from costgym.experiments.board.store.runs import read_run
    from costgym.experiments.pages.site.build import build

    if store is None and not run:
        raise ConfigError("--store, --run", "expected a store or a run to build the site from")
    with ExitStack() as open_folders:
        runs = [read_run(open_folders.enter_context(copied_run(folder))) for folder in run or ()]
        if store is not None:
            from costgym.experiments.board.store.store import Store

            kept = open_folders.enter_context(Store(store, create=False))
            others = [each for each in kept.runs() if each.id not in {other.id for other in runs}]
            copies = [None if each.folder is None else open_folders.enter_context(copied_run(each.folder)) for each in others]
            runs += [replace(each, folder=copy) for each, copy in zip(others, copies, strict=True)]
        if verify:
            runs = [_verified(each, data) for each in runs]
            for each in runs if store is not None else ():
                for entry in each.entries:
                    if entry.verified:
                        kept.mark_verified(each.id, entry.id)
        with Progress("reading episodes", quiet) as progress:
            page = build(runs, out, data, episodes, progress.update)
    if not quiet:
        typer.echo(f"site: {page.resolve()}")


def _verified(run: "Run", data: str | None) -> "Run":
    """Replay a run and mark its own entries as verified; a run that differs from replay is refused."""
    from costgym.experiments.board.verify import verify

    if run.folder is None:
        return run
    verdict = verify(run.folder, data)
    if not verdict.verified:
        more = f" (and {len(verdict.problems) - 3} more problems)" if len(verdict.problems) > 3 else ""
        problems = "; ".join(verdict.problems[:3]) or "it holds no episode"
        raise DataError(run.folder, f"differs from replay, so no site was built: {problems}{more}")
    entries = tuple(entry if "submission" in entry.row else replace(entry, verified=True) for entry in run.entries)
    return replace(run, entries=entries)
