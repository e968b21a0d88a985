"""Options, progress and results that the trainers' commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ....experiments.train.run import Callback, TrainingResult, TrainingStep
from ....simulators.bounds import Settings, option
from ...options import Quiet
from ...output import Progress


class _Bar(Callback):
    """Shows a progress bar with the messages of a run above it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_step(self, step: TrainingStep) -> None:
        self._progress.update(int(step.done), int(step.total))

    def on_message(self, text: str) -> None:
        self._progress.say(text)


class Run(Settings):
    """The options about a trainer's run."""

    out: Annotated[Path, option("Folder of the run; the same folder continues it.", "DIR")]
    resume: Annotated[bool, option("Continue the run in the folder, or delete it and start again.")] = True
    report_to: Annotated[
        tuple[str, ...], option("Also log the figures there: wandb, mlflow or trackio.", "NAME[,NAME ...]")
    ] = ()
    quiet: Quiet = False

    def train(self, name: str, trainer: Callable[..., TrainingResult], *args: Any, **options: Any) -> None:
        """Train with a progress bar on standard error, then plot the learning curves and print the metrics and the folder."""
        from ....experiments.pages.learning_curves import publish
        from ....experiments.train.tracking import Tracked

        with Progress(f"training {name}", self.quiet) as progress, Tracked(_Bar(progress), self.report_to, self.out) as watch:
            result = trainer(self.out, *args, callback=watch, resume=self.resume, **options)
        curves = publish(result.run)
        if not self.quiet:
            for figure, value in result.metrics.items():
                typer.echo(f"{figure:24} {value:10.4f}")
            typer.echo(str(result.run) if curves is None else f"{result.run}\nlearning curves: {curves}")
