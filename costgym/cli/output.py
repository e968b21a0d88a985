"""Print what commands report, and choose the engines that they work on."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from ..simulators.errors import ConfigError

if TYPE_CHECKING:
    from ..experiments.play.execution.engine import Engine


def workers(
    engine: str, jobs: int | None, address: str | None, model: str = "simulated", default: int | None = 1, batch: int = 1
) -> AbstractContextManager[Engine]:
    """Open the engine of the options, by default local processes. Workers get the environment variables of the model.

    Args:
        engine, jobs, address: the options.
        model: its name.
        default: number of local processes where none is asked for; None for one a processor.
        batch: episodes at a time that a local model replies to together; above 1, they are played in this process.

    Raises:
        ConfigError: options that do not go together, or a batch of a model that cannot reply to several.
    """
    from ..agents.models.named import many_at_once, variables_of
    from ..experiments.play.execution.batched import Batched
    from ..experiments.play.execution.engine import open_engine

    if batch == 1:
        return open_engine(engine, default if jobs is None and engine == "local" else jobs, address, variables_of(model))
    if jobs is not None or engine != "local":
        raise ConfigError("--batch", "expected neither --jobs nor --engine: the batch is played in this process")
    return nullcontext(Batched(many_at_once(model), batch))


def names_in(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def print_list(rows: list[dict[str, str]], json_file: Path | None) -> None:
    from rich.table import Table

    from ..experiments.play.files import write_atomically

    if json_file is not None:
        write_atomically(json_file, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    console().print(table)


def console() -> Any:
    from rich.console import Console

    return Console()


class PlainCommand(TyperCommand):
    """A command whose help has one column of options, so that no name is cut on a narrow terminal."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "rich_markup_mode": None})


class Progress:
    """Show a progress bar on standard error, or nothing."""

    def __init__(self, what: str, quiet: bool) -> None:
        self._what, self._quiet = what, quiet

    def __enter__(self) -> Progress:
        if not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task(self._what, total=None)
            self._bar.start()
        return self

    def update(self, done: int, total: int) -> None:
        if not self._quiet:
            self._bar.update(self._task, completed=done, total=total)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._quiet:
            self._bar.console.print(text, markup=False, highlight=False)

    def __exit__(self, *exc: object) -> None:
        if not self._quiet:
            self._bar.stop()


def check_store(url: str) -> None:
    """Open the store once before any episode is played, so that a wrong URL is reported at once."""
    from ..experiments.board.store.store import Store

    Store(url).close()


def save_run(url: str | None, folder: Path) -> None:
    """Save a finished run in the store, if one was named."""
    if url is None:
        return
    from ..experiments.board.store.store import Store

    with Store(url) as store:
        store.save_folder(folder)
