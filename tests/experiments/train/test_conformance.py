"""What every trainer does alike: whose folder it is, going on, damage, and losses that are no numbers."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.train.run import read_curve
from costgym.simulators.errors import ConfigError, DataError, MissingExtra, TrainingFailed
from tests.helpers.training import TRAINERS, StopAt, Trainer, files, one_thread

torch = pytest.importorskip("torch", reason="the train extra is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:retrieval accuracy is only")
MARKS = dict.fromkeys(("ppo", "dqn", "sessions", "sessions-1"), pytest.mark.native) | {"toolplanner": pytest.mark.slow}
"""The first four play in the native batch; ToolPlanner trains in three stages, each on collected episodes: a minute in all."""
KILLS = {"ppo": 384, "sessions-1": 48, "catp": 4, "toolplanner": 4}
"""Steps after which a run is killed, behind a checkpoint."""
NAMES = [pytest.param(name, marks=MARKS.get(name, ())) for name in TRAINERS]
STEPWISE = [param for param in NAMES if TRAINERS[str(param.values[0])].resumes]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture
def trainer(name: str) -> Trainer:
    for module in TRAINERS[name].needs:
        pytest.importorskip(module, reason="the train extra is not installed")
    return TRAINERS[name]


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int | None], Path]:
    """Runs that were trained once, to be copied: whole, or stopped for the first time."""
    made: dict[tuple[str, int | None], Path] = {}

    def run(name: str, stop: int | None) -> Path:
        if (name, stop) not in made:
            made[name, stop] = tmp_path_factory.mktemp(name) / "run"
            TRAINERS[name].train(made[name, stop], callback=StopAt(stop))
        return made[name, stop]

    return run


@pytest.fixture
def finished(name: str, trainer: Trainer, trained_run: Any, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run(name, None), tmp_path / "finished"))


@pytest.fixture
def stopped(name: str, trainer: Trainer, trained_run: Any, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run(name, trainer.stops[0]), tmp_path / "stopped"))


@pytest.fixture
def spoilt_weights() -> Iterator[None]:
    """Every step of an optimiser makes a weight no number."""

    def spoil(optimizer: Any, *_: Any) -> None:
        with torch.no_grad():
            optimizer.param_groups[0]["params"][0].fill_(float("nan"))

    from torch.optim.optimizer import register_optimizer_step_post_hook

    handle = register_optimizer_step_post_hook(spoil)
    yield
    handle.remove()


def compared(folder: Path) -> dict[str, object]:
    """What two runs of the same settings have alike: all but the clock, and the checkpoint before the last."""
    alike: dict[str, object] = {}
    for name, content in files(folder).items():
        if name.endswith("curve.jsonl"):
            alike[name] = [{**line, "seconds": 0.0} for line in read_curve((folder / name).parent)]
        elif name.endswith("metrics.json"):
            alike[name] = {**json.loads(content), "seconds": 0.0}
        elif "checkpoints" not in name and "events" not in name:
            alike[name] = content
    for last in {path.parent: path for path in sorted(folder.rglob("checkpoints/step-*"))}.values():
        alike |= {f"{last.relative_to(folder)}/{file.name}": file.read_bytes() for file in last.glob("*.safetensors")}
    return alike


@pytest.mark.parametrize("name", NAMES)
def test_a_finished_run_is_not_trained_again(trainer: Trainer, finished: Path) -> None:
    before, follower = files(finished), StopAt()
    again = trainer.train(finished, callback=follower)
    assert again.finished and again.metrics and files(finished) == before and not follower.steps
    assert json.loads((finished / "metrics.json").read_text()) == {"steps": again.steps, **again.metrics}


@pytest.mark.parametrize("name", STEPWISE)
def test_a_run_stopped_and_resumed_ends_in_the_same_bytes(trainer: Trainer, stopped: Path, finished: Path) -> None:
    for stop in trainer.stops[1:]:
        assert not trainer.train(stopped, callback=StopAt(stop)).finished
    result = trainer.train(stopped)
    assert result.finished and result.run == stopped
    assert compared(stopped) == compared(finished)


@pytest.mark.parametrize("name", [param for param in NAMES if param.values[0] in KILLS])
def test_a_killed_run_goes_on_from_its_last_whole_checkpoint(
    name: str, trainer: Trainer, finished: Path, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    with pytest.raises(KeyboardInterrupt):
        trainer.train(killed, callback=StopAt(KILLS[name], kill=True))
    for curve in killed.rglob("curve.jsonl"):
        with curve.open("a") as lines:
            lines.write('{"step": 99, "lo')
        (curve.parent / "checkpoints" / "step-00000099.part").mkdir(parents=True)
    trainer.train(killed)
    for part in killed.rglob("*.part"):
        part.rmdir()
    assert compared(killed) == compared(finished)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_another_run_is_refused_with_the_differing_settings(trainer: Trainer, finished: Path) -> None:
    before = files(finished)
    with pytest.raises(ConfigError, match=r"holds another run \(seed 0 there, 1 asked\)"):
        trainer.train(finished, seed=1)
    assert files(finished) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_run_can_be_started_again(trainer: Trainer, finished: Path) -> None:
    (finished / "notes.txt").write_text("mine")
    trainer.train(finished, seed=1, resume=False, callback=StopAt(1))
    assert json.loads((finished / "config.json").read_text())["settings"]["seed"] == 1
    assert (finished / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_with_something_else_in_it_is_not_touched(trainer: Trainer, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"files that are not from a training run \(notes\.txt\)"):
        trainer.train(tmp_path, resume=False)
    with pytest.raises(ConfigError, match="is a file"):
        trainer.train(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"surprise": 1}, "surprise: no such setting"),
        ({"seed": -1}, "seed: expected a number greater than or equal to 0, got -1"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(trainer: Trainer, tmp_path: Path, settings: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        trainer.train(tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_extra_says_what_to_install(trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sb3_contrib" if "sb3_contrib" in trainer.needs else trainer.needs[-1], None)
    with pytest.raises(MissingExtra, match=r'pip install "costgym\[train\]"'):
        trainer.train(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", STEPWISE)
def test_a_damaged_checkpoint_is_named(trainer: Trainer, stopped: Path) -> None:
    for weights in stopped.rglob("policy.safetensors"):
        weights.write_bytes(b"\x00" * 64)
    with pytest.raises(DataError, match=r"policy\.safetensors: cannot be read as weights"):
        trainer.train(stopped)


@pytest.mark.parametrize("name", STEPWISE)
def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(
    trainer: Trainer, stopped: Path, spoilt_weights: None
) -> None:
    good = {name: content for name, content in files(stopped).items() if name.endswith(".safetensors")}
    with pytest.raises(TrainingFailed, match=r"(NaN|nan|no longer a finite number).*Try a lower learning rate") as error:
        trainer.train(stopped)
    assert error.value.checkpoint is not None and Path(error.value.checkpoint).is_dir()
    assert {name: content for name, content in files(stopped).items() if name.endswith(".safetensors")} == good


# Stable-Baselines3 seeds the global generators
@pytest.mark.parametrize("name", [param for param in STEPWISE if param.values[0] not in ("ppo", "sessions", "sessions-1")])
def test_training_leaves_global_chance_alone(trainer: Trainer, tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    trainer.train(tmp_path / "run", callback=StopAt(1))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", STEPWISE)
def test_the_callback_hears_of_every_step_and_what_is_going_on(trainer: Trainer, tmp_path: Path) -> None:
    follower = StopAt(trainer.stops[0])
    trainer.train(tmp_path / "run", callback=follower)
    assert all(0 < step.done <= step.total for step in follower.steps)
    assert all("loss" in step.figures for step in follower.steps)
