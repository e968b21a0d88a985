"""Print and save what commands report."""

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any


def shown(text: object) -> str:
    """A message for a terminal: what others wrote in it cannot move the cursor, recolour or hide what stands there."""
    from costgym.experiments.play.metric_registry import plain

    return "\n".join(map(plain, str(text).split("\n")))


def save_json(file: Path | None, document: Any) -> None:
    """Write figures to the file of `--json`, if one was named."""
    if file is not None:
        from costgym.simulators.files import json_text, write_atomically

        write_atomically(file, json_text(document))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[str] = ()) -> None:
    """Print a table. Columns of `left` are texts, which may be folded where the screen is narrow; others are numbers."""
    from rich.table import Table

    cells, table = list(rows), Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        if column in left:
            table.add_column(column, overflow="fold")
        else:
            least = max(map(len, (column, *(row[index] for row in cells))))
            table.add_column(column, justify="right", no_wrap=True, min_width=least)
    for row in cells:
        table.add_row(*row)
    console().print(table)


def print_list(rows: list[dict[str, str]], json_file: Path | None) -> None:
    """Print rows of texts as a table."""
    save_json(json_file, rows)
    print_table(list(rows[0]), [list(row.values()) for row in rows], rows[0])


def console() -> Any:
    from rich.console import Console

    return Console()


class Progress:
    """Show a progress bar on standard error, or nothing; `state` says more, as often as the bar is drawn."""

    def __init__(self, what: str, quiet: bool) -> None:
        self._what, self._quiet = what, quiet
        self.state: Callable[[], str] = str

    def __enter__(self) -> "Progress":
        if not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar
            from rich.text import Text

            owner = self

            class State(ProgressColumn):
                def render(self, task: Any) -> Text:
                    return Text(owner.state())

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), State(), TimeRemainingColumn())
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

    @property
    def screen(self) -> Any:
        """The terminal above the bar, as a rich console; None where there is none."""
        return None if self._quiet or not self._bar.console.is_terminal else self._bar.console

    def __exit__(self, *exc: object) -> None:
        if not self._quiet:
            self._bar.stop()


def save_run(url: str | None, folder: Path) -> None:
    """Save a finished run in the store, if one was named."""
    if url is None:
        return
    from costgym.experiments.board.store.store import Store

    with Store(url) as store:
        store.save_folder(folder)
