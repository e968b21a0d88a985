"""The static site of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..simulators.errors import ConfigError
from .common import Data, Progress, Quiet, StoreUrl


def site(
    store: StoreUrl = None,
    run: Annotated[
        list[Path] | None, typer.Option("--run", metavar="DIR", help="Folder of a leaderboard run; may be given several times.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the site; an older site is replaced.")] = Path(
        "site"
    ),
    episodes: Annotated[
        int | None, typer.Option("--episodes", help="Episodes of every entry that can be looked into; all by default.")
    ] = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Results as a static site: ranking, significance, tables of the papers, agents, every episode."""
    from ..experiments.site import build
    from ..experiments.store_runs import read_run

    if store is None and not run:
        raise ConfigError("--store, --run", "expected a store or a run to make the site from")
    runs = [read_run(folder) for folder in run or ()]
    if store is not None:
        from ..experiments.store import Store

        kept = Store(store, create=False)
        runs += [each for each in kept.runs() if each.id not in {other.id for other in runs}]
    with Progress("looking into episodes", quiet) as progress:
        page = build(runs, out, None if data is None else str(data), episodes, progress.update)
    if not quiet:
        typer.echo(f"site: {page.resolve()}")


def check_store(url: str) -> None:
    """Open the store once before anything is played, so that a wrong URL costs no time."""
    from ..experiments.store import Store

    Store(url).close()


def save_run(url: str | None, folder: Path) -> None:
    """Keep a run that has ended in the store, where one was named."""
    if url is None:
        return
    from ..experiments.store import Store

    with Store(url) as store:
        store.save_folder(folder)
