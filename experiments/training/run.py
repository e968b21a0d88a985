"""A training run and its folder, alike for every trainer.

`config.json` says what the run is, `checkpoints/` holds its last two checkpoints, `curve.jsonl` its learning curve and, once it
is finished, `metrics.json` what it came to. One process at a time writes there, and a folder that belongs to another run, or
that holds anything else, is refused before anything is written. Trainers draw as functions of their seed and of the step's
number, so a run that was stopped or killed and is gone on with ends with the same weights as one that was not.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...agents.checkpoints import FOLDER, checkpoints, save_checkpoint
from ...agents.settings import CONFIG, PolicyConfig, differences, read_config
from ...simulators.errors import ConfigError, require
from ..files import sole_writer, write_atomically
from .curve import CURVE, Curve

METRICS = "metrics.json"
_ALWAYS = (CONFIG, CURVE, METRICS, FOLDER, "curves.html", "tensorboard")


class TrainingStep(NamedTuple):
    """A step that was taken.

    Attributes:
        stage: which part of the run, "" where there is one.
        step: how many steps of the stage were taken.
        done, total: how far the run is and how far it goes: steps, or seconds where it goes by the clock.
        figures: what the learning curve says of the step.
    """

    stage: str
    step: int
    done: float
    total: float
    figures: Mapping[str, float]


class Callback:
    """Follows a training run; subclass it and override what you need. Nothing of it changes what is learnt."""

    def on_step(self, step: TrainingStep) -> bool | None:
        """Receive a step. Return True to stop: the run saves a checkpoint and ends, and can be gone on with."""
        return None

    def on_message(self, text: str) -> None:
        """Receive a line of text about the run."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What a training run came to.

    Attributes:
        run: its folder.
        steps: steps taken in all.
        metrics: figures at the end, by name; empty where the run was stopped.
        finished: it was not stopped.
    """

    run: Path
    steps: int
    metrics: dict[str, float]
    finished: bool = True


class TrainingRun:
    """A training run that this process holds; `open_run` opens one.

    Args:
        folder: where it is kept.
        config: what it is.
        callback: follows it.
    """

    def __init__(self, folder: Path, config: PolicyConfig, callback: Callback) -> None:
        self.folder, self.config, self.callback = folder, config, callback
        self.curve = Curve(folder)

    @property
    def checkpoint(self) -> Path | None:
        """The newest checkpoint."""
        return next(reversed(checkpoints(self.folder)), None)

    def say(self, text: str) -> None:
        """Tell the callback a line of text."""
        self.callback.on_message(text)

    def update(self, **found: Any) -> None:
        """Add to the config what was worked out during the run."""
        self.config = self.config.model_copy(update=found)
        write_atomically(self.folder / CONFIG, self.config.model_dump_json(indent=1) + "\n")

    def begin_anew(self) -> None:
        """Forget the learning curve and the metrics, for a trainer that cannot go on in the middle."""
        self.curve.cut(-1)
        (self.folder / METRICS).unlink(missing_ok=True)

    def report(self, step: TrainingStep) -> bool:
        """Add a step to the learning curve and tell the callback; True where it wants to stop."""
        self.curve.add(step.step, step.figures)
        return self.callback.on_step(step) is True

    def save(self, step: int, weights: Mapping[str, Any], training: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Write a checkpoint, see `save_checkpoint`."""
        save_checkpoint(self.folder, step, weights, training, state)

    def finish(self, steps: int, metrics: Mapping[str, float]) -> TrainingResult:
        """Write `metrics.json`."""
        write_atomically(self.folder / METRICS, json.dumps({"steps": steps, **metrics}, indent=1) + "\n")
        return TrainingResult(self.folder, steps, dict(metrics))

    def done(self, holds: str = FOLDER) -> TrainingResult | None:
        """What the run came to, if it is finished and still holds a file or folder; else None."""
        try:
            record: dict[str, float] = json.loads((self.folder / METRICS).read_text(encoding="utf-8"))
            steps = int(record.pop("steps"))
        except (OSError, ValueError, KeyError, AttributeError):
            return None
        return TrainingResult(self.folder, steps, record) if (self.folder / holds).exists() else None


@contextmanager
def open_run(
    out: str | Path, config: PolicyConfig, *, resume: bool = True, callback: Callback | None = None, files: Collection[str] = ()
) -> Iterator[TrainingRun]:
    """Open a run's folder, which is created if need be, and hold it for this process.

    Args:
        out: the folder.
        config: what the run is.
        resume: go on with the run that the folder holds; else remove what it left and begin anew.
        callback: follows the run.
        files: what the trainer itself writes into the folder.

    Raises:
        ConfigError: the folder holds another run or something else, cannot be made, or another process writes there.
        DataError: the folder's run cannot be read.
    """
    folder = Path(out)
    check_folder(folder, config, resume, files)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("--out", f"{folder} cannot be a folder: {error.strerror}") from error
    with sole_writer(folder):
        check_folder(folder, config, resume, files)
        if not resume:
            for path in [folder / name for name in (*_ALWAYS, *files)] + list(folder.glob("events.out.tfevents.*")):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        run = TrainingRun(folder, config, callback or Callback())
        if (folder / CONFIG).exists():
            run.config = read_config(folder, type(config))
        else:
            run.update()
        yield run


def check_folder(folder: Path, config: PolicyConfig, resume: bool = True, files: Collection[str] = ()) -> None:
    """See that a folder is free, or holds this run; arguments and errors as for `open_run`."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError("--out", f"{folder} is a file; name a folder")
    if (folder / CONFIG).exists():
        odd = differences(read_config(folder, type(config)), config)
        if odd and resume:
            raise ConfigError("--out", f"{folder} holds another run ({'; '.join(odd)}); name another folder")
        return
    strange = sorted(path.name for path in folder.glob("[!.]*") if path.name not in files)
    if strange:
        raise ConfigError("--out", f"{folder} holds something else than a training run ({strange[0]}); name another folder")


def require_modules(*names: str, extra: str = "train") -> None:
    """Import optional dependencies before anything else is done.

    Raises:
        MissingExtra: one is not installed.
    """
    for name in names:
        require(name, extra)


def check_steps(option: str, steps: int | None) -> None:
    """Raise ConfigError where a number of steps makes no sense."""
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        raise ConfigError(option, f"expected a positive whole number, got {steps!r}")
