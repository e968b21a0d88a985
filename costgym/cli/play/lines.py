"""A screen of lines for `costgym play`: one after the other, for pipes and terminals without more."""

import shlex
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import typer

from costgym.cli.output import harmless
from costgym.envs.actions import FINISH, SEARCH, encode_action
from costgym.envs.rendering.chart import number
from costgym.experiments.play.game.human import GIVE_UP, MAX_WAIT_S, PlayerView, shortened, typed, wait_action
from costgym.simulators.errors import ConfigError
from costgym.simulators.tools import ToolCard

WIDTH, MAX_LINE = 80, 8_000  # characters
HELP = """\
  NUMBER         call a tool; arguments are asked for, or follow: `7 city=Oslo`
  about NUMBER   what a tool does and takes
  tools [WORDS]  the tools again, or those with these words
  more           the last result in full
  wait SECONDS   let simulated time pass
  search WORDS   look for more tools, in worlds that have a catalogue to search
  answer TEXT    finish with this answer
  give up        finish without one"""


class Lines:
    """Shows an episode line by line."""

    def begin(self, view: PlayerView) -> None:
        self._view, self._shown = view, 0
        say("", view.query, "")
        self._list_tools()
        say("", "Commands:", raw=HELP)
        self._say_rest()

    def choose(self) -> str | None:
        action = None
        while action is None:
            line = _ask("> ")
            action = GIVE_UP if line is None else self._read(line.strip())
        return action

    def show(self, over: bool) -> None:
        log, offered = self._view.log, len(self._view.cards) - len(self._view.info["found"])
        for title, text in log[self._shown :]:
            say(f"{title}:", shortened(text))
        self._shown = len(log)
        if self._view.info["found"]:
            self._list_tools(first=offered)
        if not over:
            self._say_rest()

    # -- what a line means ---------------------------------------------------------------------------------------------------

    def _read(self, line: str) -> str | None:
        """Return the action that a line stands for; None where none is taken, and a sentence says why."""
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word.lower():
            case "":
                say("Type a command, or `help`.")
            case "help" | "?":
                say(raw=HELP)
            case "tools":
                self._list_tools(rest)
            case "more":
                say(self._view.log[-1][1] if self._view.log else "There is no result yet.")
            case "about" if (card := self._find(rest)) is not None:
                self._describe(card)
            case "about":
                pass
            case "wait":
                return self._wait(rest)
            case "search" if rest:
                return encode_action(SEARCH, {"query": rest})
            case "answer" if rest:
                return encode_action(FINISH, {"answer": rest})
            case "search" | "answer":
                say(f"Expected words after `{word}`, for example `{word} the weather in Oslo`.")
            case "give" if rest == "up":
                return GIVE_UP
            case _:
                card = self._find(word)
                arguments = None if card is None else self._arguments(card, rest)
                return None if card is None or arguments is None else encode_action(card.name, arguments)
        return None

    def _find(self, text: str) -> ToolCard | None:
        """Find a tool by its number or name; says so where there is none."""
        cards = self._view.cards
        named = next((card for card in cards if card.name == text), None)
        if named is None and text.isdecimal() and 1 <= int(text[:9]) <= len(cards):
            named = cards[int(text) - 1]
        if named is None:
            known = f"tools are numbered 1 to {len(cards)}, and `help` lists the commands"
            say(f"There is no tool or command {text[:40]!r}; {known}.")
        return named

    def _wait(self, text: str) -> str | None:
        action = wait_action(text)
        if action is None:
            say(f"Expected seconds above 0 and at most {MAX_WAIT_S:,} after `wait`, got {text[:40]!r}.")
        return action

    def _arguments(self, card: ToolCard, text: str) -> dict[str, Any] | None:
        """Read the arguments on the line, then ask for required ones; None where a line is wrong, or an empty one goes back."""
        properties: Mapping[str, Any] = card.parameters.get("properties", {})
        arguments: dict[str, Any] = {}
        try:
            parts = shlex.split(text)
        except ValueError:
            say("A quotation mark is open; expected NAME=VALUE pairs such as city='New York'.")
            return None
        for part in parts:
            name, sign, value = part.partition("=")
            if not sign or name not in properties:
                say(f"Expected NAME=VALUE with one of {', '.join(properties) or 'no name'}, got {part[:40]!r}.")
                return None
            if not _take(arguments, name, value, properties[name]):
                return None
        for name in card.parameters.get("required", ()):
            schema = properties.get(name, {})
            while name not in arguments:
                about = schema.get("description") or schema.get("type") or "text"
                line = _ask(textwrap.shorten(f"  {name} ({about})", WIDTH - 4, placeholder=" ...") + ": ")
                if not (line or "").strip():
                    say("Nothing was called.")
                    return None
                _take(arguments, name, str(line).strip(), schema)
        return arguments

    # -- what is shown -------------------------------------------------------------------------------------------------------

    def _list_tools(self, words: str = "", first: int = 0) -> None:
        rows = self._view.tools(words, first)
        if not rows:
            say(f"No tool has the words {words[:40]!r}.")
            return
        say(f"Tools, with the price of a call in {self._view.currency} and the success that they advertise:")
        for row in rows:
            about = textwrap.shorten(" ".join(row.card.description.split()), WIDTH - 13, placeholder=" ...")
            calls = f"  [{row.calls}]" if row.calls else ""
            figures = f"  {row.number:>3} {number(row.price):>6} {row.success:>5.0%}"
            say(raw=f"{figures}  {row.card.name}{calls}\n             {about}")

    def _describe(self, card: ToolCard) -> None:
        row = self._view.tools(first=self._view.cards.index(card))[0]
        say(
            f"{card.name}: {number(row.price)} {self._view.currency} a call, {row.success:.0%} success advertised, "
            f"by {card.provider}.",
            card.description,
        )
        for name, schema in card.parameters.get("properties", {}).items():
            needed = "" if name in card.parameters.get("required", ()) else ", optional"
            say(f"  {name} ({schema.get('type', 'any')}{needed}): {schema.get('description', '')}")

    def _say_rest(self) -> None:
        rest = [f"{number(left.rest)} of {number(left.limit)} {left.unit}" for left in self._view.left()]
        spent = f"Spent: {number(self._view.info['cost_sum'])} {self._view.currency}; there is no limit."
        say(f"Left: {', '.join(rest)}." if rest else spent)


def _take(arguments: dict[str, Any], name: str, text: str, schema: Mapping[str, Any]) -> bool:
    """Add an argument; says what is wrong with it, and returns False, where its value is not allowed."""
    try:
        arguments[name] = typed(text, schema, name)
    except ConfigError as error:
        say(f"{error}.")
    return name in arguments


def say(*lines: str, raw: str = "") -> None:
    """Print lines, wrapped at 80 columns, and text that is laid out already."""
    for line in (shown_line for text in lines for shown_line in harmless(text).split("\n")):
        typer.echo(textwrap.fill(line, WIDTH, break_on_hyphens=False, break_long_words=True))
    if raw:
        typer.echo(harmless(raw))


def _ask(prompt: str) -> str | None:
    """Read a line; None at the end of the input."""
    while True:
        try:
            line = input(prompt)
        except (EOFError, KeyboardInterrupt):
            typer.echo("")
            return None
        except UnicodeDecodeError:
            say("That line is not text in UTF-8; type it again.")
            continue
        if not sys.stdin.isatty():
            typer.echo(harmless(line))  # nobody typed it on this screen
        if len(line) > MAX_LINE or any(0xD800 <= ord(character) < 0xE000 for character in line):
            say(f"Expected at most {MAX_LINE:,} whole characters; type it again.")
            continue
        return line
