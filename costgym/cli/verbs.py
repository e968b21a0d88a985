"""Verbs of the command line and groups of them, with one look for help: headings, one column of names, 80 characters.

A verb's module is imported when the verb is used. Help over all verbs therefore reads a table of names and summaries.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from costgym.cli.setting_options import with_options

Function = TypeVar("Function", bound=Callable[..., Any])
ARGUMENTS, OPTIONS = "Arguments", "Options"


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the options of a command under their headings: arguments first, then a verb's own, then those of settings."""
    sections: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], OPTIONS: []}
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is not None:
            heading = ARGUMENTS if parameter.param_type_name == "argument" else getattr(parameter, "rich_help_panel", None)
            sections.setdefault(heading or OPTIONS, []).append(record)
    for heading, records in sections.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


class Command(TyperCommand):
    """A verb."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "rich_markup_mode": None})

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)


class Group(TyperGroup):
    """Verbs of one kind; without a word it shows its help."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "rich_markup_mode": None})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            verb: Any = self.get_command(ctx, name)
            sections.setdefault(verb.rich_help_panel or "Commands", []).append((name, verb.get_short_help_str(200)))
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class Entry(NamedTuple):
    """A verb that is not imported yet."""

    heading: str
    summary: str  # the first sentence of its help
    path: str  # module:function or module:group


class LazyGroup(Group):
    """Verbs that are imported when they are used; a subclass sets `entries`."""

    entries: ClassVar[dict[str, Entry]]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A stand-in with name and summary, for help; `resolve_command` imports the verb itself."""
        if cmd_name not in self.entries:
            return None
        heading, summary, _ = self.entries[cmd_name]
        return Command(name=cmd_name, help=summary, rich_help_panel=heading)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = {name: self.get_command(ctx, name) for name in self.entries}  # for the nearest names in an error
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self.load(name), rest

    def load(self, name: str) -> Any:
        """Import a verb."""
        return _load(name, self.entries[name].path)


@cache
def _load(name: str, path: str) -> Any:
    module, _, attribute = path.partition(":")
    verb = getattr(import_module(module), attribute)
    if isinstance(verb, typer.Typer):
        command: Any = typer.main.get_group(verb)
        command.name = name
        return command
    single = Verbs(add_completion=False)
    single.command(name)(verb)
    return typer.main.get_command(single)


class Verbs(typer.Typer):
    """A group of commands, each made from a function with described parameters."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": Group, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        add = super().command(name, cls=Command, **settings)

        def register(function: Function) -> Function:
            add(with_options(function))
            return function

        return register


def defaulting_to(verb: str) -> type[Group]:
    """A kind of group of which one command need not be named: with "list", `costgym datasets FOLDER` lists a folder."""

    class Defaulting(Group):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
            return super().parse_args(ctx, args if named else [verb, *args])

    return Defaulting
