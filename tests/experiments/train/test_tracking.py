"""Trackers log the figures of a training run in one order over all stages; a stand-in for Trackio writes down what it gets."""

import json
from pathlib import Path

import pytest

from costgym.experiments.train.run import Callback, TrainingStep
from costgym.experiments.train.tracking import Tracked
from costgym.simulators.errors import ConfigError, UnknownName

STAND_IN = """
import json, pathlib
LOG = pathlib.Path(__file__).with_name("log.jsonl")
def note(*what):
    with LOG.open("a") as log:
        log.write(json.dumps(what) + "\\n")
class Run:
    def log(self, values, step):
        note("log", step, values)
    def finish(self):
        note("finish")
class config:
    update = staticmethod(lambda values, allow_val_change: note("config", values))
def init(project):
    note("init", project)
    return Run()
"""


def test_steps_of_all_stages_are_logged_in_order_and_the_log_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate", reason="needs the extra `train`")
    (tmp_path / "trackio.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text('{"settings": {"seed": 3}}')
    steps = [("", 1), ("", 2), ("rank", 1)]
    with pytest.raises(OSError), Tracked(Callback(), ["trackio"], run) as tracked:
        for stage, step in steps:
            assert tracked.on_step(TrainingStep(stage, step, step, 3, {"loss": 1.0 / step})) is None
        raise OSError
    documents = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert documents == [
        ["init", "costgym"], ["config", {"run": "run", "seed": 3}],
        ["log", 1, {"loss": 1.0}], ["log", 2, {"loss": 0.5}], ["log", 3, {"rank/loss": 1.0}], ["finish"],
    ]  # fmt: skip


def test_trackers_are_checked_before_the_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="nearest: wandb"):
        Tracked(Callback(), ["wandbb"], tmp_path)
    monkeypatch.setattr("costgym.experiments.train.tracking.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="--report-to: mlflow is not installed; run `pip install mlflow`"):
        Tracked(Callback(), ["mlflow"], tmp_path)
    with Tracked(Callback(), [], tmp_path) as silent:
        assert silent.on_step(TrainingStep("", 1, 1, 1, {})) is None
