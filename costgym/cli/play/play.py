"""`costgym play`: a person plays an episode in the terminal."""

import json
import shlex
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from costgym.agents.base import TEXT, Agent, view_of
from costgym.agents.seat import TextSeat
from costgym.cli.options import EnvName, WorldOptions
from costgym.cli.output import harmless
from costgym.envs.actions import FINISH, SEARCH, WAIT, encode_action, json_or_text
from costgym.envs.rendering.chart import number
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import option
from costgym.simulators.calls import Usage
from costgym.simulators.errors import ConfigError
from costgym.simulators.marketplace.schema import check_value
from costgym.simulators.tools import ToolCard

WIDTH, MAX_LINE = 80, 8_000  # characters
HELP = """\
  NUMBER         call a tool; arguments are asked for, or follow: `7 city=Oslo`
  about NUMBER   what a tool does and takes
  tools          the tools again
  wait SECONDS   let simulated time pass
  search WORDS   look for more tools, in worlds that have a catalogue to search
  answer TEXT    finish with this answer
  give up        finish without one"""


class Human(Agent):
    """A person at a terminal, or whatever writes to standard input. Each text that was shown counts as read once."""

    name = "human"
    env_id = TEXT

    def __init__(self, currency: str) -> None:
        self._currency = currency

    def reset(self, seat: TextSeat, observation: str, info: dict[str, Any], seed: int) -> None:
        self._seat, self._tools, self._info = seat, list(seat.tools), info
        _say("", observation, "")
        self._list_tools()
        _say("", "Commands:", raw=HELP)
        self._say_rest()

    def act(self, observation: str, info: dict[str, Any]) -> str:
        action = None
        while action is None:
            line = _ask("> ")
            action = encode_action(FINISH, {"answer": "", "give_up": True}) if line is None else self._read(line.strip())
        # a person reports no tokens; the environment charges what was shown and written
        return json.dumps({**json.loads(action), "usage": Usage(0, 0).document()})

    def observe(self, observation: str, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        self._info = info
        self._tools += info["found"]
        for result in info["results"]:
            _say(f"[{info['at_s']:.1f} s] {result['status'].replace('_', ' ')}:", result["text"])
        for line in info["news"]:
            _say(f"News: {line}")
        if info["found"]:
            self._list_tools(len(self._tools) - len(info["found"]))
        if not (terminated or truncated):
            self._say_rest()

    # -- what a line means ---------------------------------------------------------------------------------------------------

    def _read(self, line: str) -> str | None:
        """Return the action that a line stands for; None where none is taken, and a sentence says why."""
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word.lower():
            case "":
                _say("Type a command, or `help`.")
            case "help" | "?":
                _say(raw=HELP)
            case "tools":
                self._list_tools()
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
                _say(f"Expected words after `{word}`, for example `{word} the weather in Oslo`.")
            case "give" if rest == "up":
                return encode_action(FINISH, {"answer": "", "give_up": True})
            case _:
                card = self._find(word)
                arguments = None if card is None else self._arguments(card, rest)
                return None if card is None or arguments is None else encode_action(card.name, arguments)
        return None

    def _find(self, text: str) -> ToolCard | None:
        """Find a tool by its number or name; says so where there is none."""
        named = next((card for card in self._tools if card.name == text), None)
        if named is None and text.isdecimal() and 1 <= int(text[:9]) <= len(self._tools):
            named = self._tools[int(text) - 1]
        if named is None:
            known = f"tools are numbered 1 to {len(self._tools)}, and `help` lists the commands"
            _say(f"There is no tool or command {text[:40]!r}; {known}.")
        return named

    def _wait(self, text: str) -> str | None:
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds <= 86_400:
            _say(f"Expected seconds above 0 and at most 86,400 after `wait`, got {text[:40]!r}.")
            return None
        return encode_action(WAIT, {"seconds": seconds})

    def _arguments(self, card: ToolCard, text: str) -> dict[str, Any] | None:
        """Read the arguments on the line, then ask for required ones; None where a line is wrong, or an empty one goes back."""
        properties: Mapping[str, Any] = card.parameters.get("properties", {})
        arguments: dict[str, Any] = {}
        try:
            parts = shlex.split(text)
        except ValueError:
            _say("A quotation mark is open; expected NAME=VALUE pairs such as city='New York'.")
            return None
        for part in parts:
            name, sign, value = part.partition("=")
            if not sign or name not in properties:
                _say(f"Expected NAME=VALUE with one of {', '.join(properties) or 'no name'}, got {part[:40]!r}.")
                return None
            arguments[name] = _typed(value, properties[name])
            if problem := check_value(arguments[name], properties[name], name):
                _say(f"{problem}.")
                return None
        for name in card.parameters.get("required", ()):
            schema = properties.get(name, {})
            while name not in arguments:
                about = schema.get("description") or schema.get("type") or "text"
                line = _ask(textwrap.shorten(f"  {name} ({about})", WIDTH - 4, placeholder=" ...") + ": ")
                if not (line or "").strip():
                    _say("Nothing was called.")
                    return None
                value = _typed(str(line).strip(), schema)
                if problem := check_value(value, schema, name):
                    _say(f"{problem}.")
                else:
                    arguments[name] = value
        return arguments

    # -- what is shown -------------------------------------------------------------------------------------------------------

    def _list_tools(self, first: int = 0) -> None:
        quotes = self._info["quotes"]
        _say(f"Tools, with the price of a call in {self._currency}:")
        for index, card in enumerate(self._tools[first:], first + 1):
            about = textwrap.shorten(" ".join(card.description.split()), WIDTH - 13, placeholder=" ...")
            _say(raw=f"  {index:>3} {number(quotes[card.name]):>6}  {card.name}\n             {about}")

    def _describe(self, card: ToolCard) -> None:
        _say(
            f"{card.name}: {number(self._info['quotes'][card.name])} {self._currency} a call, by {card.provider}.",
            card.description,
        )
        for name, schema in card.parameters.get("properties", {}).items():
            needed = "" if name in card.parameters.get("required", ()) else ", optional"
            _say(f"  {name} ({schema.get('type', 'any')}{needed}): {schema.get('description', '')}")

    def _say_rest(self) -> None:
        rest = [
            f"{number(self._info[f'budget_remaining_{name}'])} of {number(limit)} {self._currency if name == 'price' else name}"
            for name, limit in self._seat.budget.items()
        ]
        spent = f"Spent: {number(self._info['cost_sum'])} {self._currency}; there is no limit."
        _say(f"Left: {', '.join(rest)}." if rest else spent)


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    """A value as its schema wants it: a text stays one, anything else is read as JSON where it can be."""
    return text if schema.get("type", "string") == "string" else json_or_text(text)


def _say(*lines: str, raw: str = "") -> None:
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
            _say("That line is not text in UTF-8; type it again.")
            continue
        if not sys.stdin.isatty():
            typer.echo(harmless(line))  # nobody typed it on this screen
        if len(line) > MAX_LINE or any(0xD800 <= ord(character) < 0xE000 for character in line):
            _say(f"Expected at most {MAX_LINE:,} whole characters; type it again.")
            continue
        return line


def play(
    world: WorldOptions,
    env: EnvName = None,
    task: Annotated[int | None, option("Number of the task within the split; by default the next one.")] = None,
    seed: Seed = 0,
    out: Annotated[Path, option("Folder that keeps the episodes; the same folder continues it.", "DIR")] = Path("human"),
) -> None:
    """Play an episode yourself, and see afterwards what the optimum would have done.

    The episode is recorded like any agent's, under the name `human`. Example: `costgym play --budget price=15`
    """
    from costgym.envs.base import base_env
    from costgym.envs.registration import make
    from costgym.envs.why import why
    from costgym.experiments.play.collect import open_collection
    from costgym.experiments.play.trajectories.format import Header
    from costgym.experiments.play.trajectories.record import record

    env_id = world.env_id(env, TEXT)
    if view_of(env_id) != TEXT:
        raise ConfigError("--env", f"expected a version of MarketplaceChat, which a person can play, got {env_id}")
    played_in = make(env_id, disable_env_checker=True, **world.arguments(env_id))
    view: Any = base_env(played_in)
    header = Header.of(played_in, env_id)
    with open_collection(out, header) as (store, played):
        if task is not None and not 0 <= task < len(view.numbers):
            raise ConfigError("--task", f"expected a number from 0 to {len(view.numbers) - 1}, got {task}")
        task_number, world_seed, _ = view.instance(played if task is None else task, seed)
        recorded, _ = record(played_in, Human(view.scenario.currency), task_number, world_seed, played, crashes="count")
        store.append(recorded.sealed_json(header))
    _say("", view.chart().verdict, why(view, recorded.truncated, recorded.crash), "")
    _say("Recorded. See it again:", raw=f"costgym show {shlex.quote(str(out))} --episode {played}")
