"""A training run's folder, without a trainer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from costgym.agents.deer.settings import DeerConfig, DeerSettings
from costgym.agents.settings import read_config
from costgym.experiments.train.run import Callback, TrainingStep, open_run
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.scenario import load_scenario

CONFIG = DeerConfig(settings=DeerSettings(steps=3), scenario=None, data=())


def test_what_is_worked_out_during_a_run_is_kept_and_does_not_tell_it_from_others(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIG) as run:
        run.update(slots=5, common=("the", "of"))
    with open_run(tmp_path, CONFIG) as run:
        assert isinstance(run.config, DeerConfig) and (run.config.slots, run.config.common) == (5, ("the", "of"))
    assert read_config(tmp_path, DeerConfig) == run.config


def test_every_difference_is_named(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIG):
        pass
    other = DeerConfig(settings=DeerSettings(steps=4, sampling="inter"), scenario=load_scenario("decision"), data=("mine",))
    words = (
        r"scenario None there, 'decision 1-[0-9a-f]+' asked; data \(\) there, \('mine',\) asked; "
        r"sampling 'mixture' there, 'inter' asked; steps 3 there, 4 asked"
    )
    with pytest.raises(ConfigError, match=words), open_run(tmp_path, other):
        pass


def test_a_folder_may_hold_what_the_trainer_itself_writes(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / ".hidden").write_text("")
    with open_run(tmp_path, CONFIG, files=("tokenizer",)) as run:
        run.report(TrainingStep("", 1, 1, 1, {"loss": 2.0}))
        run.finish(1, {"loss": 2.0})
    with open_run(tmp_path, CONFIG, resume=False, files=("tokenizer",)) as run:
        assert sorted(path.name for path in tmp_path.glob("[!.]*")) == ["config.json"] and run.done() is None


def test_a_run_is_done_once_it_has_metrics_and_still_holds_what_it_made(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIG) as run:
        assert run.done("model.json") is None
        run.finish(7, {"loss": 0.5})
        assert run.done("model.json") is None
        (tmp_path / "model.json").write_text("{}")
        result = run.done("model.json")
        assert result is not None and (result.steps, result.metrics, result.finished) == (7, {"loss": 0.5}, True)
        (tmp_path / "metrics.json").write_text("{")
        assert run.done("model.json") is None


def test_a_step_is_in_the_curve_and_the_callback_says_when_to_stop(tmp_path: Path) -> None:
    class Patience(Callback):
        def on_step(self, step: TrainingStep) -> bool:
            return step.figures["loss"] < 1.0

    with open_run(tmp_path, CONFIG, callback=Patience()) as run:
        stops = [run.report(TrainingStep("", step, step, 2, {"loss": 2.0 / step - 0.5})) for step in (1, 2)]
    assert stops == [False, True]
    assert (tmp_path / "curve.jsonl").read_text() == '{"step": 1, "loss": 1.5}\n{"step": 2, "loss": 0.5}\n'


def test_only_one_process_writes_to_a_folder(tmp_path: Path) -> None:
    code = (
        "import sys; from costgym.experiments.train.run import open_run\n"
        "from costgym.agents.deer.settings import DeerConfig, DeerSettings\n"
        "from costgym.simulators.errors import ConfigError\n"
        "try:\n"
        "    with open_run(sys.argv[1], DeerConfig(settings=DeerSettings(steps=3), scenario=None, data=())): pass\n"
        "except ConfigError as error: print(error)"
    )
    with open_run(tmp_path, CONFIG):
        other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "another process writes to" in other.stdout


def test_a_damaged_config_does_not_start_the_run_again(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DataError, match="is not valid JSON"), open_run(tmp_path, CONFIG, resume=False):
        pass
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG.model_dump(mode="json"), "trainer": "catp"}))
    with pytest.raises(DataError, match="expected a run of deer, got one of 'catp'"), open_run(tmp_path, CONFIG, resume=False):
        pass
