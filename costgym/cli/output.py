"""Print and save what commands report."""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

STANDARD_OUTPUT = Path("-")  # as the file of --json
NARROWEST = 16
"""Width of a column of texts that is kept on a narrow screen."""


def harmless(text: object) -> str:
    """A message for a terminal: what others wrote in it cannot move the cursor, recolour or hide what stands there."""
    return "\n".join("".join(c if c.isprintable() else "�" for c in line) for line in str(text).split("\n"))


def save_json(file: Path | None, document: Any) -> None:
    """Write figures to the file of `--json`, if one was named, or to standard output."""
    if file is None:
        return
    from costgym.simulators.files import json_text, write_atomically

    if file == STANDARD_OUTPUT:
        print(json_text(document), end="")
    else:
        write_atomically(file, json_text(document))


def prints(quiet: bool, json_file: Path | None = None) -> bool:
    """Whether a command prints its table: not if it is to be quiet, nor beside JSON on standard output."""
    return not quiet and json_file != STANDARD_OUTPUT


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[str] = ()) -> None:
    """Print a table. Columns of `left` are texts, which may be folded where the screen is narrow; others are numbers, and those
    that do not fit beside the texts are printed below, beside the texts again."""
    from rich.table import Table

    cells, screen = list(rows), console()
    widths = [max(map(len, (column, *(row[index] for row in cells)))) for index, column in enumerate(columns)]
    texts = [index for index, column in enumerate(columns) if column in left]
    room = screen.width - sum(min(widths[index], NARROWEST) + 2 for index in texts)
    for block in _blocks([index for index in range(len(columns)) if index not in texts], widths, room):
        table = Table(box=None, pad_edge=False)
        shown = sorted((*texts, *block))
        for index in shown:
            if index in texts:
                table.add_column(columns[index], overflow="fold", min_width=min(widths[index], NARROWEST))
            else:
                table.add_column(columns[index], justify="right", no_wrap=True, min_width=widths[index])
        for row in cells:
            table.add_row(*(row[index] for index in shown))
        screen.print(table)


def _blocks(numbers: Sequence[int], widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns of numbers, as many in a block as fit into the room."""
    blocks: list[list[int]] = [[]]
    used = 0
    for index in numbers:
        if blocks[-1] and used + widths[index] + 2 > room + 2:
            blocks.append([])
            used = 0
        blocks[-1].append(index)
        used += widths[index] + 2
    return blocks


def print_list(rows: list[dict[str, str]], json_file: Path | None) -> None:
    """Print rows of texts as a table; into a pipe go lines with tabs."""
    save_json(json_file, rows)
    if not prints(False, json_file):
        return
    if sys.stdout.isatty():
        _print_texts(rows)
    else:
        for line in (rows[0], *(row.values() for row in rows)):
            print("\t".join(line))


def _print_texts(rows: list[dict[str, str]]) -> None:
    """Print rows of texts as a table, whose first column holds names and is never folded, so that they can be copied."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(rows[0]):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*row.values())
    console().print(table)


def console() -> Any:
    from rich.console import Console

    return Console()


class Progress:
    """Show a progress bar on standard error, or nothing; `state` says more, as often as the bar is drawn. The bar appears with
    the first progress or message, so that a wrong argument is reported without one."""

    def __init__(self, label: str, quiet: bool) -> None:
        self._label, self._quiet = label, quiet
        self._bar: Any = None
        self.state: Callable[[], str] = str

    def __enter__(self) -> "Progress":
        return self

    def update(self, done: int, total: int) -> None:
        if not self._quiet:
            bar = self._begin()
            bar.update(bar.task_ids[0], completed=done, total=total)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._quiet:
            self._begin().console.print(text, markup=False, highlight=False)

    def _begin(self) -> Any:
        if self._bar is None:
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
            self._bar.add_task(self._label, total=None)
            self._bar.start()
        return self._bar

    @property
    def screen(self) -> Any:
        """The terminal above the bar, as a rich console; None where there is none."""
        if self._quiet:
            return None
        screen = self._begin().console
        return screen if screen.is_terminal else None

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def save_run(url: str | None, folder: Path) -> None:
    """Save a finished run in the store, if one was named."""
    if url is None:
        return
    from costgym.experiments.board.store.store import Store

    with Store(url) as store:
        store.save_folder(folder)
