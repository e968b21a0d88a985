"""The folder of a training run; every trainer uses the same layout.

`config.json` holds the run's settings, `checkpoints/` its last two checkpoints, `curve.jsonl` its learning curve, and
`metrics.json` its final metrics, written when the run is finished. Only one process at a time can write to the folder. A folder
that belongs to another run, or that holds other files, raises an error before anything is written. Every random draw depends on
the seed and the step number alone, so a resumed run ends with the same weights as an uninterrupted one.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from costgym.agents.checkpoints import FOLDER, checkpoints, save_checkpoint
from costgym.agents.settings import CONFIG, PolicyConfig, differences, read_config
from costgym.simulators.errors import ConfigError, DataError, check_positive, require
from costgym.simulators.files import (
    cannot_write,
    decode_json,
    iter_lines,
    keep_lines,
    make_folder,
    read_bytes,
    sole_writer,
    write_atomically,
    writing,
)

CURVE = "curve.jsonl"
MAX_CURVE_BYTES = 256 * 2**20
METRICS = "metrics.json"
_ALWAYS = (CONFIG, CURVE, METRICS, FOLDER, "curves.html", "tensorboard")

Line = dict[str, float]
"""A line of the learning curve: `step`, and further values by name."""


def named_files(paths: Iterable[str | Path], most: int) -> tuple[str, ...]:
    """Return the name and content digest of each file of at most `most` bytes, which identify the data of a run."""
    contents = [(Path(path).name, read_bytes(Path(path), most)) for path in paths]
    return tuple(f"{name} {hashlib.blake2b(content, digest_size=16).hexdigest()}" for name, content in contents)


class TrainingStep(NamedTuple):
    """Progress after a training step."""

    stage: str  # name of the run's stage; "" if the run has a single stage
    step: int  # number of steps taken in the stage
    done: float  # progress of the run, in steps, or in seconds if the run has a time limit
    total: float  # length of the run, in the same unit
    figures: Mapping[str, float]  # the step's values in the learning curve, by name


class Callback:
    """Base class of observers of a training run. Override the methods you need; they do not affect the learnt weights."""

    def on_step(self, step: TrainingStep) -> bool | None:
        """Receive a step. Return True to stop: the run saves a checkpoint and ends; it can be resumed later."""
        return None

    def on_message(self, text: str) -> None:
        """Receive a line of text about the run."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The result of a training run."""

    run: Path
    steps: int  # total number of steps taken
    metrics: dict[str, float]  # final metrics by name; empty if the run was stopped
    finished: bool = True  # whether the run reached its end


class TrainingRun:
    """A training run whose folder this process has locked; `open_run` creates it."""

    def __init__(self, folder: Path, config: PolicyConfig, callback: Callback) -> None:
        self.folder, self.config, self.callback = folder, config, callback

    @property
    def checkpoint(self) -> Path | None:
        """The newest checkpoint, or None."""
        return next(reversed(checkpoints(self.folder)), None)

    def say(self, text: str) -> None:
        """Send a line of text to the callback."""
        self.callback.on_message(text)

    def update(self, **values: Any) -> None:
        """Add values that were determined during the run to its config."""
        self.config = self.config.model_copy(update=values)
        write_atomically(self.folder / CONFIG, self.config.model_dump_json(indent=1) + "\n")

    def cut_curve(self, step: int) -> None:
        """Delete the learning curve's lines after a step, which a killed run wrote after its last checkpoint, from the first
        line on that cannot be read, too."""
        path, lines = self.folder / CURVE, 0
        if path.exists():
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                for line in iter_lines(path):
                    if json.loads(line)["step"] > step:
                        break
                    lines += 1
            keep_lines(path, lines)

    def report(self, step: TrainingStep) -> bool:
        """Add a step to the learning curve and pass it to the callback; return True if the callback asks to stop."""
        path = self.folder / CURVE
        with writing(path), path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"step": step.step, **step.figures}) + "\n")
        return self.callback.on_step(step) is True

    def save(self, step: int, weights: Mapping[str, Any], training: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Write a checkpoint; see `save_checkpoint`."""
        save_checkpoint(self.folder, step, weights, training, state)

    def finish(self, steps: int, metrics: Mapping[str, float]) -> TrainingResult:
        """Write `metrics.json` and return the result of the run."""
        write_atomically(self.folder / METRICS, json.dumps({"steps": steps, **metrics}, indent=1) + "\n")
        return TrainingResult(self.folder, steps, dict(metrics))

    def done(self, holds: str = FOLDER) -> TrainingResult | None:
        """Return the result of a finished run whose folder still contains `holds`; else None."""
        try:
            record: dict[str, float] = json.loads((self.folder / METRICS).read_text(encoding="utf-8"))
            steps = int(record.pop("steps"))
        except (OSError, ValueError, KeyError, AttributeError, RecursionError):
            return None
        return TrainingResult(self.folder, steps, record) if (self.folder / holds).exists() else None


@contextmanager
def open_run(
    out: str | Path, config: PolicyConfig, *, resume: bool = True, callback: Callback | None = None, files: Collection[str] = ()
) -> Iterator[TrainingRun]:
    """Open and lock the folder of a run, and continue the run in it; without `resume` its files are deleted first.

    `files` names further files that the trainer writes. Raises ConfigError if the folder holds another run or other files,
    cannot be created, or is locked by another process.
    """
    folder = Path(out)
    check_folder(folder, config, resume, files)
    make_folder(folder)
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
        try:
            yield run
        except OSError as error:
            if error.filename is not None:
                raise
            raise cannot_write(folder, error) from error


def check_folder(folder: Path, config: PolicyConfig, resume: bool = True, files: Collection[str] = ()) -> None:
    """Check that a folder is empty or holds this run; arguments and errors are those of `open_run`."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError("--out", f"{folder} is a file; name a folder")
    if (folder / CONFIG).exists():
        odd = differences(read_config(folder, type(config)), config)
        if odd and resume:
            raise ConfigError("--out", f"{folder} holds another run ({'; '.join(odd)}); name another folder")
        return
    unknown = sorted(path.name for path in folder.glob("[!.]*") if path.name not in files)
    if unknown:
        raise ConfigError("--out", f"{folder} holds files that are not from a training run ({unknown[0]}); name another folder")


def require_modules(*names: str, extra: str = "train") -> None:
    """Check that optional dependencies are installed by importing them."""
    for name in names:
        require(name, extra)


def check_steps(option: str, steps: int | None) -> None:
    """Raise ConfigError unless a number, such as one of steps, is None or a positive whole number."""
    if steps is not None:
        check_positive(option, steps)


def read_curve(run: str | Path) -> list[Line]:
    """Read a run's learning curve, without an incomplete last line and values that are not finite; raises DataError if it is
    missing, too large, or a line has no step."""
    path = Path(run) / CURVE
    if not path.is_file():
        raise DataError(path, "there is no learning curve; expected the folder of a `costgym train` run")
    if path.stat().st_size > MAX_CURVE_BYTES:
        raise DataError(path, f"is larger than {MAX_CURVE_BYTES} bytes")
    lines = []
    for number, text in enumerate(iter_lines(path), 1):
        try:
            document: Any = decode_json(text)
        except ValueError as error:
            raise DataError(path, f"is not JSON ({error})", f"line {number}") from None
        if not isinstance(document, dict) or not _finite(document.get("step")):
            raise DataError(path, f"expected an object with a step, got {text[:60]}", f"line {number}")
        lines.append({str(name): float(value) for name, value in document.items() if _finite(value)})
    return lines


def _finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
