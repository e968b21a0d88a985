"""Common parts of the trainers' subcommands: options, options generated from settings, progress and final output."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from ....agents.settings import TrainerSettings
from ....experiments.train.run import Callback, TrainingResult, TrainingStep
from ...output import Progress

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run; the same folder continues it.")]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Continue the run in the folder, or delete it and start again.")
]


class Messages(Callback):
    """Prints the messages of a run."""

    def on_message(self, text: str) -> None:
        typer.echo(text)


class _Bar(Callback):
    """Shows a progress bar with the messages of a run above it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_step(self, step: TrainingStep) -> None:
        self._progress.update(int(step.done), int(step.total))

    def on_message(self, text: str) -> None:
        self._progress.say(text)


def run_trainer(name: str, quiet: bool, train: Callable[..., TrainingResult], *args: Any, **options: Any) -> None:
    """Train with a progress bar on standard error, then plot the learning curves and print the metrics and the folder."""
    from ....experiments.pages.learning_curves import publish

    with Progress(f"training {name}", quiet) as progress:
        result = train(*args, callback=_Bar(progress), **options)
    curves = publish(result.run)
    if not quiet:
        for name, figure in result.metrics.items():
            typer.echo(f"{name:24} {figure:10.4f}")
        typer.echo(str(result.run) if curves is None else f"{result.run}\nlearning curves: {curves}")


def with_settings(
    kind: type[TrainerSettings], without: tuple[str, ...] = (), also: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option for every field of a settings class to a command; given values are passed as its `settings`.

    Args:
        kind: settings class.
        without: fields for which the command has its own options.
        also: alternative option names, by field.
    """
    names = [name for name in kind.model_fields if name != "seed" and name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            given = {name: value for name in names if (value := values.pop(name)) is not None}
            command(**values, settings={name: _read(kind, name, value) for name, value in given.items()})

        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(command).parameters.values()
            if parameter.name != "settings"
        ]
        made = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(kind, name, also or {}))
            for name in names
        ]
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *made]}
        del run.__wrapped__
        return run

    return decorate


def _option(kind: type[TrainerSettings], name: str, also: Mapping[str, str]) -> Any:
    field, form = kind.model_fields[name], _plain(kind.model_fields[name].annotation)
    spelling = name.replace("_", "-")
    spelled = f"--{spelling}/--no-{spelling}" if form is bool else f"--{spelling}"
    usual = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    note = "required" if field.is_required() else f"default: {usual}"
    shown = field.description if usual is None else f"{field.description}  [{note}]"
    names = [spelled, *([also[name]] if name in also else [])]
    option = typer.Option(*names, help=shown, show_default=False)
    return Annotated[form | None, option]


def _plain(form: Any) -> Any:
    """Return the type of an option: the first of bool, int, float and str that occurs in the field's type."""
    if form in (bool, int, float, str):
        return form
    if get_origin(form) in (Union, UnionType, Annotated):
        return _plain(get_args(form)[0])
    return str  # several words are separated by commas


def _read(kind: type[TrainerSettings], name: str, value: Any) -> Any:
    """Convert the value of an option to the value of its field."""
    several = get_origin(kind.model_fields[name].annotation) is tuple
    return tuple(part.strip() for part in value.split(",") if part.strip()) if several else value
