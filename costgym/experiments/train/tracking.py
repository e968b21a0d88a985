"""Send the figures of a training run to W&B, MLflow or Trackio, through the trackers of accelerate."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from costgym.agents.settings import CONFIG
from costgym.experiments.train.run import Callback, TrainingStep
from costgym.simulators.errors import ConfigError, check_known, require

TRACKERS = ("wandb", "mlflow", "trackio")


class Tracked(Callback, AbstractContextManager["Tracked"]):
    """Passes a run's steps on, and logs their figures and the `config.json` of the run's folder in a project `costgym` of each
    tracker; a context that ends the logs. Raises UnknownName for names other than `TRACKERS`, ConfigError for one not
    installed."""

    def __init__(self, inner: Callback, trackers: Sequence[str], run: Path) -> None:
        for name in trackers:
            check_known("tracker", name, TRACKERS)
            if find_spec(name) is None:
                raise ConfigError("--report-to", f"{name} is not installed; run `pip install {name}`")
        self._inner, self._run, self._begun = inner, run, list[Any]()
        self._waiting: list[Any] = []
        if trackers:
            known = require("accelerate.tracking", "train").LOGGER_TYPE_TO_CLASS
            require("accelerate.state", "train").PartialState()  # which the trackers ask for
            self._waiting = [known[name]("costgym") for name in trackers]
        self._stage, self._before, self._last = "", 0, 0

    def on_step(self, step: TrainingStep) -> bool | None:
        while self._waiting:  # not earlier, so that a run that is refused or finished already leaves no empty log
            tracker = self._waiting.pop(0)
            tracker.start()
            self._begun.append(tracker)
            config = json.loads((self._run / CONFIG).read_text(encoding="utf-8"))
            tracker.store_init_configuration({"run": self._run.name, **config.get("settings", {})})
        if step.stage != self._stage:  # trackers drop what is not logged in order, and stages count from one again
            self._stage, self._before = step.stage, self._last
        self._last = self._before + step.step
        named = {f"{step.stage}/{name}" if step.stage else name: value for name, value in step.figures.items()}
        for tracker in self._begun:
            tracker.log(named, step=self._last)
        return self._inner.on_step(step)

    def on_message(self, text: str) -> None:
        self._inner.on_message(text)

    def __exit__(self, *_: object) -> None:
        for tracker in self._begun:
            tracker.finish()
