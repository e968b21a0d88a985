"""`costgym play` on a terminal: the request and the budget stay on the screen, and typing filters the tools."""

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from costgym.cli.output import harmless
from costgym.envs.actions import FINISH, SEARCH, encode_action
from costgym.envs.rendering.chart import number
from costgym.experiments.play.game.human import MAX_WAIT_S, PlayerView, ToolRow, shortened, typed, wait_action
from costgym.simulators.errors import ConfigError
from costgym.simulators.tools import ToolCard

MIN_WIDTH, MIN_HEIGHT = 60, 20  # characters and lines of a terminal that the screen fits on
BAR = 30  # characters
MAX_REQUEST_LINES, MAX_ABOUT_LINES = 6, 5
SEQUENCES = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\x1b[5~": "page up", "\x1b[6~": "page down",
    "\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape",
    "\x04": "end", "\x03": "end", "\x17": "wait", "\x06": "find",
}  # fmt: skip
"""Keys by what a terminal sends for them: Ctrl-D and Ctrl-C end, Ctrl-W waits, Ctrl-F finds more tools."""
ONE_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+")  # or a text that was pasted
PROMPTS = {"answer": "your answer", "wait": "seconds to wait", "find": "words to find more tools by"}


def has_full_screen() -> bool:
    """Whether standard input and output are a terminal that is large enough and can be read key by key."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        import termios  # noqa: F401  # not on Windows
    except ImportError:
        return False
    size = os.get_terminal_size()
    return size.columns >= MIN_WIDTH and size.lines >= MIN_HEIGHT


@contextmanager
def terminal_keys() -> Iterator[Callable[[], str]]:
    """A function that waits for a key and returns its name or its text, while the terminal sends keys one by one."""
    import select
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    waiting: list[str] = []

    def read() -> str:
        if not waiting:
            data = os.read(terminal, 4096)
            # the bytes of one key may come in two parts: of a letter beyond ASCII, or of an arrow over a slow line
            while data and (_is_cut(data) or data in (b"\x1b", b"\x1b[")) and select.select([terminal], [], [], 0.05)[0]:
                data += os.read(terminal, 64)
            waiting.extend(ONE_KEY.findall(data.decode("utf-8", "ignore")) or ["\x04"])
        key = waiting.pop(0)
        return SEQUENCES.get(key, key)

    try:
        tty.setraw(terminal, termios.TCSADRAIN)
        yield read
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _is_cut(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


class FullScreen:
    """The screen of an episode, and what keys do on it.

    `keys` returns the next key: the name of one in `SEQUENCES`, or the text that was typed or pasted. By default keys are the
    terminal's.
    """

    def __init__(self, console: Console | None = None, keys: Callable[[], str] | None = None) -> None:
        self.console, self._keys = console or Console(), keys
        self._mode = "tools"  # what is typed: words that filter tools, an argument, or a text of `PROMPTS`
        self._words = self._typed = self._problem = ""
        self._selected = self._back = 0  # index among the filtered tools, and lines that the log is scrolled back
        self._card: ToolCard | None = None
        self._arguments: dict[str, Any] = {}

    def begin(self, view: PlayerView) -> None:
        self._view = view

    def choose(self) -> str | None:
        with (
            Live(console=self.console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
            self._reading() as key,
        ):
            while True:
                live.update(self.picture(), refresh=True)
                pressed = key()
                self._problem = ""
                if pressed == "end":
                    return None
                action = self._press(pressed)
                if action is not None:
                    live.update(self.picture(), refresh=True)
                    return action

    def show(self, over: bool) -> None:
        self._back = 0

    @contextmanager
    def _reading(self) -> Iterator[Callable[[], str]]:
        if self._keys is not None:
            yield self._keys
            return
        with terminal_keys() as keys:
            yield keys

    # -- what keys do --------------------------------------------------------------------------------------------------------

    def _press(self, key: str) -> str | None:
        """Do what a key stands for; returns the action that it completes."""
        rows = self._rows()
        match key:
            case "enter":
                return self._enter(rows)
            case "escape":
                self._leave(clear=self._mode == "tools")
            case "backspace":
                self._write(self._text()[:-1])
            case "up" | "down":
                self._selected = max(0, min(len(rows) - 1, self._selected + (1 if key == "down" else -1)))
            case "page up" | "page down":
                self._back = max(0, self._back + (5 if key == "page up" else -5))
            case "tab" | "wait":
                self._ask("answer" if key == "tab" else "wait")
            case "find" if self._view.can_search:
                self._ask("find")
            case _ if key.isprintable():
                self._write(self._text() + key)
        return None

    def _rows(self) -> list[ToolRow]:
        return self._view.tools(self._words)

    def _text(self) -> str:
        return self._words if self._mode == "tools" else self._typed

    def _write(self, text: str) -> None:
        if self._mode == "tools":
            self._words, self._selected = text, 0
        else:
            self._typed = text

    def _ask(self, mode: str) -> None:
        self._mode, self._typed = mode, ""

    def _leave(self, clear: bool = False) -> None:
        """Go back to the tools: a call whose argument was asked for is not made."""
        self._mode, self._typed, self._card, self._arguments = "tools", "", None, {}
        if clear:
            self._words, self._selected = "", 0

    def _enter(self, rows: list[ToolRow]) -> str | None:
        text = self._text().strip()
        if self._mode == "tools":
            if rows:
                self._selected = min(self._selected, len(rows) - 1)
                self._card, self._arguments = rows[self._selected].card, {}
                return self._next_argument()
            self._problem = "No tool has these words; Esc shows all."
        elif self._mode == "argument":
            return self._take_argument(text)
        elif not text:
            self._leave()
        elif self._mode == "wait":
            return self._wait(text)
        else:
            mode = self._mode
            self._leave()
            return encode_action(FINISH, {"answer": text}) if mode == "answer" else encode_action(SEARCH, {"query": text})
        return None

    def _wait(self, text: str) -> str | None:
        action = wait_action(text)
        if action is None:
            self._problem = f"Expected seconds above 0 and at most {MAX_WAIT_S:,}."
        else:
            self._leave()
        return action

    def _missing(self) -> str | None:
        """The name of the required argument that is asked for next; None where there is none."""
        assert self._card is not None
        return next((name for name in self._card.parameters.get("required", ()) if name not in self._arguments), None)

    def _next_argument(self) -> str | None:
        """Ask for the next argument; the call where none is missing."""
        assert self._card is not None
        if self._missing() is not None:
            self._ask("argument")
            return None
        action = encode_action(self._card.name, self._arguments)
        self._leave()
        return action

    def _take_argument(self, text: str) -> str | None:
        """Take the value of the argument that is asked for, or ``NAME=VALUE`` of another."""
        card, name = self._card, self._missing()
        assert card is not None and name is not None
        properties = card.parameters.get("properties", {})
        before, sign, value = text.partition("=")
        if sign and before in properties:
            name, text = before, value
        try:
            self._arguments[name] = typed(text, properties.get(name, {}), name)
        except ConfigError as error:
            self._problem = f"{error}."
            return None
        return self._next_argument()

    # -- what is drawn -------------------------------------------------------------------------------------------------------

    def picture(self) -> RenderableType:
        """The whole screen: request, budget, tools, what happened, and the line that is typed."""
        width, height = self.console.size
        request = _wrapped(self._view.query, width - 4, MAX_REQUEST_LINES)
        meters = [_meter(left.unit, left.rest, left.limit) for left in self._view.left()]
        prompt = self._prompt(width)
        room = height - len(request) - 2 - max(1, len(meters)) - len(prompt)
        log_height = max(5, room * 2 // 5)
        return Group(
            Panel(Text("\n".join(request)), title="Request", title_align="left", height=len(request) + 2),
            *(meters or [Text(f" spent {number(self._view.info['cost_sum'])} {self._view.currency}; no limit")]),
            self._tools(width, room - log_height),
            self._log(width, log_height),
            *prompt,
        )

    def _tools(self, width: int, height: int) -> RenderableType:
        rows = self._rows() if self._card is None else [row for row in self._view.tools() if row.card is self._card]
        selected = min(self._selected, len(rows) - 1)
        about = _wrapped(_about(rows[selected].card), width - 6, MAX_ABOUT_LINES) if rows else []
        room = max(1, height - 3 - len(about))
        first = max(0, min(selected - room // 2, len(rows) - room))
        table = Table(box=None, pad_edge=False, expand=True)
        table.add_column("")
        for name in ("#", "price", "success"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("tool", no_wrap=True, overflow="ellipsis", ratio=2)
        table.add_column("calls", no_wrap=True, overflow="ellipsis", ratio=1)
        for index, row in enumerate(rows[first : first + room], first):
            chosen = index == selected
            cells = (">" if chosen else " ", str(row.number), number(row.price), f"{row.success:.0%}", row.card.name, row.calls)
            table.add_row(*(Text(harmless(cell)) for cell in cells), style="reverse" if chosen else "")
        title = f"Tools ({self._view.currency} a call, advertised success)"
        if self._words:
            title = f"Tools with “{self._words}”: {len(rows)} of {len(self._view.cards)}"
        details = Text("\n".join(f"  {line}" for line in about), style="dim")
        return Panel(Group(table, details), title=Text(harmless(title)), title_align="left", height=height)

    def _log(self, width: int, height: int) -> RenderableType:
        lines: list[Text] = []
        for title, text in self._view.log:
            lines.append(Text(harmless(title), style="bold"))
            lines += [Text(f"  {line}") for line in _wrapped(shortened(text), width - 6, 12)]
        room = height - 2
        self._back = min(self._back, max(0, len(lines) - room))
        last = len(lines) - self._back
        shown = lines[max(0, last - room) : last] or [Text("Nothing yet: choose a tool and press Enter.", style="dim")]
        hidden = " (PgUp, PgDn)" if len(lines) > room else ""
        title = f"What happened in {self._view.world.account().now_s:.1f} s{hidden}"
        return Panel(Group(*shown), title=title, title_align="left", height=height)

    def _prompt(self, width: int) -> list[Text]:
        """The line that is typed, above it what was wrong with the last one, below it the keys."""
        if self._mode == "argument":
            assert self._card is not None
            name = self._missing() or ""
            schema = self._card.parameters.get("properties", {}).get(name, {})
            label = f"{name} ({schema.get('description') or schema.get('type', 'text')})"
            keys = "Enter: next or call · NAME=VALUE: another argument · Esc: do not call"
        elif self._mode == "tools":
            label = "filter"
            more = " · Ctrl-F: find" if self._view.can_search else ""
            keys = f"Enter: call · ↑↓ · Tab: answer · Ctrl-W: wait{more} · Ctrl-D: give up"
        else:
            label, keys = PROMPTS[self._mode], "Enter: send · Esc: back"
        typed_text = harmless(self._text())
        label = textwrap.shorten(harmless(label), width // 2, placeholder=" ...")
        shown = typed_text[-(width - len(label) - 6) :]
        line = Text.assemble((f" {label}: ", "bold"), shown, ("▏", "blink"))
        return [Text(f" {harmless(self._problem)[: width - 2]}", style="red"), line, Text(f" {keys}"[:width], style="dim")]


def _about(card: ToolCard) -> str:
    """What a tool does, and its arguments."""
    required = card.parameters.get("required", ())
    names = [name if name in required else f"[{name}]" for name in card.parameters.get("properties", {})]
    return f"{card.description} Arguments: {', '.join(names) or 'none'}. By {card.provider}."


def _meter(unit: str, rest: float, limit: float) -> Text:
    share = min(1.0, max(0.0, rest / limit)) if limit else 0.0
    full = round(BAR * share)
    colour = "green" if share > 0.5 else "yellow" if share > 0.2 else "red"
    return Text.assemble(
        " ", ("█" * full, colour), ("░" * (BAR - full), "dim"), f" {number(rest)} of {number(limit)} {unit} left"
    )


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """The lines of a text, at most so many; three dots stand for the rest."""
    lines = [line for part in harmless(text).split("\n") for line in textwrap.wrap(part, width, break_on_hyphens=False)]
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1][: width - 4]} ..."]
