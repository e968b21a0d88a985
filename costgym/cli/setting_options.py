"""Options of the command line from settings: Typer reads a function's parameters, but not the fields of a model.

A verb is a plain function. A parameter described by `simulators.bounds.option` or `argument` becomes one option; a parameter
whose type is a settings model becomes an option for each described field, under the model's own heading, and the function gets
the model. The same descriptions give the tables of the documentation. Values are checked by pydantic alone, so that the command
line and Python refuse the same ones in the same words.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import annotated_types
import typer
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from costgym.cli.completion import completed
from costgym.simulators.bounds import Settings, what_is_wrong
from costgym.simulators.errors import ConfigError

NUMBERS = {int: ("INTEGER", "a whole number"), float: ("NUMBER", "a number")}
"""How a number is shown in help, and named in errors."""
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
        extra = self.field.json_schema_extra
        return extra if isinstance(extra, dict) else {}

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
    def shown_name(self) -> str:
        """The name in error messages."""
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
        default = self.default
        if self.form is bool:
            yes, _, no = self.names[0].partition("/")
            default = (yes if default else no) if isinstance(default, bool) else None
        elif isinstance(default, tuple):
            default = ",".join(map(str, default))
        notes = [f"default: {default}"] if isinstance(default, int | float | str | Path) and default != "" else []
        notes += bounds_of(self.annotation, self.field.metadata)
        return (self.field.description or "") + (f"  [{'; '.join(notes)}]" if notes else "")

    def parameter(self) -> inspect.Parameter:
        """The parameter that makes Typer show it."""
        heading = getattr(self.model, "heading", None)
        number = self.form if self.form in (int, float) else None  # read by `read`, whose errors are in plain words
        metavar = self.extra.get("metavar") or (NUMBERS[number][0] if number else "TEXT" if self.form is str else None)
        description: dict[str, Any] = {"help": self.help, "metavar": metavar, "show_default": False}
        description["rich_help_panel"] = heading
        description["autocompletion"] = completed("agent" if metavar == "AGENT" else self.name)
        made = typer.Argument(**description) if self.is_argument else typer.Option(*self.names, **description)
        default = inspect.Parameter.empty if self.required else None
        form = str if number else self.form
        kind: Any = Annotated[form if self.required else form | None, made]
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    def read(self, value: Any) -> Any:
        """Convert the text of a number, split a text into the values between its commas, and NAME=VALUE into both."""
        kind = first_type(self.annotation)
        if kind in NUMBERS and isinstance(value, str):
            try:
                return kind(value)
            except ValueError:
                raise ConfigError(self.shown_name, f"expected {NUMBERS[kind][1]}, got {value!r:.80}") from None
        origin, inner = get_origin(kind), [first_type(argument) for argument in get_args(kind)]
        if origin is dict:
            pairs = [text.partition("=") for text in value]
            if not all(sign and name.strip() and text.strip() for name, sign, text in pairs):
                expected = self.extra["metavar"] or "NAME=VALUE"
                raise ConfigError(self.shown_name, f"expected {expected}, got {', '.join(value)!r}")
            return {name.strip(): self._convert(inner[1], text.strip(), value) for name, _, text in pairs}
        if origin in (tuple, Sequence) and isinstance(value, str):
            return tuple(self._convert(inner[0], part.strip(), value) for part in value.split(",") if part.strip())
        return value

    def _convert(self, kind: Any, text: str, whole: Any) -> Any:
        try:
            return kind(text) if kind in (int, float) else text
        except ValueError:
            expected = "whole numbers" if kind is int else "numbers"
            raise ConfigError(self.shown_name, f"expected {expected}, got {whole!r:.80}") from None

    def check(self, value: Any) -> Any:
        """A value that is not part of a model, once it holds to its description."""
        try:
            return TypeAdapter(self.annotation).validate_python(self.read(value))
        except ValidationError as error:
            raise ConfigError(self.shown_name, what_is_wrong(error)[1]) from None


def first_type(annotation: Any) -> Any:
    """The first alternative of a type, without what is written beside it; a choice between texts is a text."""
    while get_origin(annotation) in (Union, UnionType, Annotated):
        annotation = get_args(annotation)[0]
    known = annotation in (bool, int, float, str, Path) or get_origin(annotation) in (tuple, list, dict, Sequence)
    return annotation if known else str


def bounds_of(annotation: Any, metadata: Sequence[Any] = ()) -> list[str]:
    """The bounds of a number in words, from the type and what is written beside it; [] where they go without saying."""
    bounds: dict[type, float] = {}

    # bounds may stand at any depth: Annotated[int | None, ...] has them outside, Annotated[int, Ge(1)] | None inside
    def look(kind: Any, beside: Sequence[Any]) -> None:
        for mark in beside:
            if isinstance(mark, FieldInfo):
                look(None, mark.metadata)
            for bound, name in ((annotated_types.Ge, "ge"), (annotated_types.Gt, "gt"), (annotated_types.Le, "le")):
                if isinstance(mark, bound):
                    bounds.setdefault(bound, getattr(mark, name))
        if get_origin(kind) is Annotated:
            look(get_args(kind)[0], get_args(kind)[1:])
        elif get_origin(kind) in (Union, UnionType, dict):
            for inner in get_args(kind):
                look(inner, ())

    look(annotation, metadata)
    least, above, most = (bounds.get(kind) for kind in (annotated_types.Ge, annotated_types.Gt, annotated_types.Le))
    most = None if most is None or most > LARGEST_SHOWN else most
    if least is not None and most is not None:
        return [f"{least:g} to {most:g}"]
    low = f"at least {least:g}" if least is not None and least > 1 else f"above {above:g}" if above is not None else ""
    return [", ".join(filter(None, (low, "" if most is None else f"at most {most:g}")))] if low or most is not None else []


def options_of(model: type[Settings], defaults: Settings | None = None, without: Sequence[str] = ()) -> Iterator[Option]:
    """The options of a settings model, one for each field with a description, with the model's defaults or those handed in."""
    for name, field in model.model_fields.items():
        if field.description and name not in without:
            default = inspect.Parameter.empty if field.is_required() else field.default
            # what pydantic has taken out of the annotation; hints of the whole class would look at pydantic's own, too
            kind = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            yield Option(name, kind, field, default if defaults is None else getattr(defaults, name), model)


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that Typer can show and call, made from a function whose parameters are described."""
    hints, options, models = get_type_hints(command, include_extras=True), dict[str, Option](), dict[str, Any]()
    for parameter in inspect.signature(command).parameters.values():
        kind, without = hints[parameter.name], ()
        if get_origin(kind) is Annotated and isinstance(get_args(kind)[1], tuple):
            kind, without = get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Settings):
            defaults = None if parameter.default is inspect.Parameter.empty else parameter.default
            fields = {option.name: option for option in options_of(kind, defaults, without)}
            options |= {name: option for name, option in fields.items() if name not in options}
            models[parameter.name] = (kind, defaults, fields)
        else:
            option = Option(parameter.name, kind, FieldInfo.from_annotation(kind), parameter.default)
            options[parameter.name] = option

    def run(*arguments: Any, **values: Any) -> Any:
        values |= dict(zip(options, arguments, strict=False))
        # only what the user wrote reaches the model, so that it can tell that from its defaults (`Settings.explicit`)
        written = {name: value for name, value in values.items() if value is not None}
        made = {}
        for name, (kind, defaults, fields) in models.items():
            mine = {field: fields[field].read(written[field]) for field in fields if field in written}
            try:
                made[name] = kind(**{**({} if defaults is None else defaults.explicit), **mine})
            except ConfigError as error:
                field, *rest = error.location.split(".")
                if field in fields:
                    raise ConfigError(".".join([fields[field].shown_name, *rest]), error.problem) from None
                raise
        plain = {name: value for name, value in written.items() if options[name].model is None}
        return command(**{name: options[name].check(value) for name, value in plain.items()}, **made)

    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    signature = [option.parameter() for option in options.values()]
    run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    return run
