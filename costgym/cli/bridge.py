"""The bridge from settings to the command line: an option of Typer for every described parameter and field.

A verb is a plain function. A parameter described by `simulators.bounds.option` or `argument` becomes one option; a parameter
whose type is a settings model becomes an option for each described field, and the function gets the model. The same
descriptions give the tables of the documentation. Values are checked by pydantic alone, so that the command line and Python
refuse the same ones in the same words.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import annotated_types
import typer
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from typer.core import TyperCommand, TyperGroup

from costgym.simulators.bounds import Settings, what_is_wrong
from costgym.simulators.errors import ConfigError

Function = TypeVar("Function", bound=Callable[..., Any])
LARGEST_SHOWN = 1e12  # upper bounds above this are of no interest to a reader


class Option(NamedTuple):
    """An option of the command line: its type, and the description of it."""

    name: str
    annotation: Any
    field: FieldInfo
    default: Any
    model: type[Settings] | None = None  # the settings it belongs to; None for a parameter of its own

    @property
    def extra(self) -> dict[str, Any]:
        found = self.field.json_schema_extra
        return found if isinstance(found, dict) else {}

    @property
    def is_argument(self) -> bool:
        return bool(self.extra.get("argument"))

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def names(self) -> list[str]:
        """The spellings."""
        spelling = self.name.replace("_", "-")
        return self.extra.get("names") or [f"--{spelling}/--no-{spelling}" if self.form is bool else f"--{spelling}"]

    @property
    def place(self) -> str:
        """What an error calls it."""
        return self.extra["metavar"] or self.name.upper() if self.is_argument else self.names[0].partition("/")[0]

    @property
    def form(self) -> Any:
        """The type that Typer reads."""
        kind = first_type(self.annotation)
        if get_origin(kind) in (list, dict):
            inner: Any = first_type(get_args(kind)[0])
            return list[inner]
        return kind if isinstance(kind, type) else str

    @property
    def help(self) -> str:
        """What it is for, its default and its bounds."""
        usual = self.default
        if self.form is bool:
            yes, _, no = self.names[0].partition("/")
            usual = (yes if usual else no) if isinstance(usual, bool) else None
        elif isinstance(usual, tuple):
            usual = ",".join(map(str, usual))
        notes = [f"default: {usual}"] if isinstance(usual, int | float | str | Path) and usual != "" else []
        notes += bounds_of(self.annotation, self.field.metadata)
        return (self.field.description or "") + (f"  [{'; '.join(notes)}]" if notes else "")

    def parameter(self) -> inspect.Parameter:
        """The parameter that makes Typer show it."""
        shown: dict[str, Any] = {"help": self.help, "metavar": self.extra.get("metavar") or None, "show_default": False}
        made = typer.Argument(**shown) if self.is_argument else typer.Option(*self.names, **shown)
        default = inspect.Parameter.empty if self.required else None
        kind: Any = Annotated[self.form if self.required else self.form | None, made]
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    def read(self, value: Any) -> Any:
        """Take apart what stands in one text: values between commas, and NAME=VALUE."""
        kind = first_type(self.annotation)
        origin, inner = get_origin(kind), [first_type(each) for each in get_args(kind)]
        if origin is dict:
            pairs = [text.partition("=") for text in value]
            if not all(sign and name.strip() and of.strip() for name, sign, of in pairs):
                raise ConfigError(self.place, f"expected {self.extra['metavar'] or 'NAME=VALUE'}, got {', '.join(value)!r}")
            return {name.strip(): self._convert(inner[1], of.strip(), value) for name, _, of in pairs}
        if origin in (tuple, Sequence) and isinstance(value, str):
            return tuple(self._convert(inner[0], part.strip(), value) for part in value.split(",") if part.strip())
        return value

    def _convert(self, kind: Any, text: str, whole: Any) -> Any:
        try:
            return kind(text) if kind in (int, float) else text
        except ValueError:
            what = "whole numbers" if kind is int else "numbers"
            raise ConfigError(self.place, f"expected {what}, got {whole!r:.80}") from None

    def check(self, value: Any) -> Any:
        """A value that is not part of a model, once it holds to its description."""
        try:
            return TypeAdapter(self.annotation).validate_python(self.read(value))
        except ValidationError as error:
            raise ConfigError(self.place, what_is_wrong(error)[1]) from None


def first_type(annotation: Any) -> Any:
    """The first alternative of a type, without what is written beside it; a choice between texts is a text."""
    while get_origin(annotation) in (Union, UnionType, Annotated):
        annotation = get_args(annotation)[0]
    known = annotation in (bool, int, float, str, Path) or get_origin(annotation) in (tuple, list, dict, Sequence)
    return annotation if known else str


def bounds_of(annotation: Any, metadata: Sequence[Any] = ()) -> list[str]:
    """The bounds of a number in words, from the type and what is written beside it; [] where they go without saying."""
    found: dict[type, float] = {}

    # bounds may stand at any depth: Annotated[int | None, ...] has them outside, Annotated[int, Ge(1)] | None inside
    def look(kind: Any, beside: Sequence[Any]) -> None:
        for each in beside:
            if isinstance(each, FieldInfo):
                look(None, each.metadata)
            for bound, name in ((annotated_types.Ge, "ge"), (annotated_types.Gt, "gt"), (annotated_types.Le, "le")):
                if isinstance(each, bound):
                    found.setdefault(bound, getattr(each, name))
        if get_origin(kind) is Annotated:
            look(get_args(kind)[0], get_args(kind)[1:])
        elif get_origin(kind) in (Union, UnionType, dict):
            for each in get_args(kind):
                look(each, ())

    look(annotation, metadata)
    least, above, most = (found.get(kind) for kind in (annotated_types.Ge, annotated_types.Gt, annotated_types.Le))
    most = None if most is None or most > LARGEST_SHOWN else most
    if least is not None and most is not None:
        return [f"{least:g} to {most:g}"]
    low = f"at least {least:g}" if least is not None and least > 1 else f"above {above:g}" if above is not None else ""
    return [", ".join(filter(None, (low, "" if most is None else f"at most {most:g}")))] if low or most is not None else []


def options_of(model: type[Settings], usual: Settings | None = None, without: Sequence[str] = ()) -> Iterator[Option]:
    """The options of a settings model, one for each field with a description, whose defaults are those of `usual` settings."""
    for name, field in model.model_fields.items():
        if field.description and name not in without:
            own = inspect.Parameter.empty if field.is_required() else field.default
            # what pydantic has taken out of the annotation; hints of the whole class would look at pydantic's own, too
            kind = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            yield Option(name, kind, field, own if usual is None else getattr(usual, name), model)


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that Typer can show and call, made from a function whose parameters are described."""
    hints, shown, parts = get_type_hints(command, include_extras=True), dict[str, Option](), dict[str, Any]()
    for parameter in inspect.signature(command).parameters.values():
        kind, without = hints[parameter.name], ()
        if get_origin(kind) is Annotated and isinstance(get_args(kind)[1], tuple):
            kind, without = get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Settings):
            usual = None if parameter.default is inspect.Parameter.empty else parameter.default
            own = {option.name: option for option in options_of(kind, usual, without)}
            shown |= {name: option for name, option in own.items() if name not in shown}
            parts[parameter.name] = (kind, usual, own)
        else:
            option = Option(parameter.name, kind, FieldInfo.from_annotation(kind), parameter.default)
            shown[parameter.name] = option

    def run(*places: Any, **values: Any) -> Any:
        values |= dict(zip(shown, places, strict=False))
        # only what was given reaches the model, so that it can tell that from its defaults (`Settings.given`)
        given = {name: value for name, value in values.items() if value is not None}
        made = {}
        for name, (kind, usual, own) in parts.items():
            mine = {each: own[each].read(given[each]) for each in own if each in given}
            try:
                made[name] = kind(**{**({} if usual is None else usual.given), **mine})
            except ConfigError as error:
                field, *rest = error.place.split(".")
                place = own[field].place + "".join(f".{each}" for each in rest) if field in own else error.place
                raise ConfigError(place, error.problem) from None
        plain = {name: value for name, value in given.items() if shown[name].model is None}
        return command(**{name: shown[name].check(value) for name, value in plain.items()}, **made)

    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    signature = [option.parameter() for option in shown.values()]
    run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    return run


class PlainCommand(TyperCommand):
    """A command whose help has one column of options, so that no name is cut on a narrow terminal."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "rich_markup_mode": None})


class Verbs(typer.Typer):
    """A group of commands, each made from a function with described parameters."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        add = super().command(name, cls=PlainCommand, **settings)

        def register(function: Function) -> Function:
            add(with_options(function))
            return function

        return register


def defaulting_to(verb: str) -> type[TyperGroup]:
    """A kind of group of which one command need not be named: with "list", `costgym datasets FOLDER` lists a folder."""

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            named = bool(args) and (args[0] in self.commands or args[0] in ("--help", "--version"))
            return super().parse_args(ctx, args if named else [verb, *args])

    return Group
