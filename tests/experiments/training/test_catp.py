"""Training runs: resumed, stopped, damaged, and what they learn."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers.catp_scores import ShapedScores

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")
pytest.importorskip("safetensors", reason="the train extra is not installed")

from costgym.agents.catp import CatpPlanner  # noqa: E402
from costgym.agents.opencatp.base import Situation  # noqa: E402
from costgym.agents.registry import make_planner  # noqa: E402
from costgym.experiments.training.catp.measure import measure, plans_of  # noqa: E402
from costgym.experiments.training.catp.train import Watching, read_curve, train_catp, train_ift, train_rltf  # noqa: E402
from costgym.simulators.errors import ConfigError, DataError, MissingExtra, TrainingFailed  # noqa: E402
from costgym.simulators.opencatp import task, tasks  # noqa: E402
from costgym.simulators.opencatp.scoring.evaluation import Evaluator  # noqa: E402

TINY = {
    "width": 32,
    "layers": 1,
    "heads": 2,
    "batch": 8,
    "walks": 2,
    "best": 1,
    "near": 1,
    "spread": 0,
    "composed": 0,
    "tasks": "nonsequential",
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator(ShapedScores(10))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, evaluator):
    folder = tmp_path_factory.mktemp("finished") / "run"
    train_catp(folder, steps=4, evaluator=evaluator, **TINY)
    return folder


@pytest.fixture
def run(tmp_path, finished):
    """A short finished run, to be spoilt."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("train", [train_catp, train_ift, train_rltf], ids=["catp", "ift", "rltf"])
def test_a_run_stopped_and_resumed_ends_in_the_same_bytes(tmp_path, evaluator, train):
    kwargs = {**TINY, "evaluator": evaluator, "warm_steps": 4, "group": 2}
    straight = train(tmp_path / "straight", steps=8, watching=Watching(save_every=2), **kwargs)
    stopped = train(tmp_path / "cut", steps=8, watching=Watching(save_every=2, stop=lambda step: step == 5), **kwargs)
    assert stopped.steps == 5
    resumed = train(tmp_path / "cut", steps=8, watching=Watching(save_every=2), **kwargs)
    assert resumed.steps == straight.steps == 8
    whole, parts = files(tmp_path / "straight"), files(tmp_path / "cut")
    assert set(parts) - set(whole) == set(whole) - set(parts) == set()
    for name in whole:
        if name.endswith(".safetensors") or name == "config.json":
            assert parts[name] == whole[name], name
    losses = [[line["loss"] for line in read_curve(tmp_path / name)] for name in ("straight", "cut")]
    assert losses[0] == losses[1] and len(losses[0]) == 8


def test_a_killed_run_goes_on_from_its_last_whole_checkpoint(tmp_path, evaluator):
    def die(step, steps, loss):
        if step == 5:
            raise KeyboardInterrupt

    kwargs = {**TINY, "evaluator": evaluator}
    straight = train_catp(tmp_path / "straight", steps=6, **kwargs)
    with pytest.raises(KeyboardInterrupt):
        train_catp(tmp_path / "killed", steps=6, watching=Watching(progress=die, save_every=2), **kwargs)
    (tmp_path / "killed" / "checkpoints" / "step-00000005.part").mkdir()
    with (tmp_path / "killed" / "curve.jsonl").open("a") as curve:
        curve.write('{"step": 5, "lo')
    train_catp(tmp_path / "killed", steps=6, **kwargs)
    assert [line["step"] for line in read_curve(tmp_path / "killed")] == [1, 2, 3, 4, 5, 6]
    ends = [tmp_path / name / "checkpoints" / "step-00000006" / "policy.safetensors" for name in ("straight", "killed")]
    assert ends[0].read_bytes() == ends[1].read_bytes()
    assert straight.steps == 6


def test_resuming_with_other_settings_is_refused_and_beginning_anew_is_not(run, evaluator):
    with pytest.raises(ConfigError, match="steps 4 there, 5 asked"):
        train_catp(run, steps=5, evaluator=evaluator, **TINY)
    assert train_catp(run, steps=2, resume=False, evaluator=evaluator, **TINY).steps == 2
    assert len(read_curve(run)) == 2


def test_a_folder_with_something_else_in_it_is_not_touched(tmp_path, evaluator):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something else"):
        train_catp(tmp_path, steps=1, resume=False, evaluator=evaluator, **TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(tmp_path, evaluator, monkeypatch):
    from costgym.experiments.training.catp import learning

    whole = learning.choice_loss

    def spoilt(logs, batch):
        spoilt.calls += 1
        return whole(logs, batch) * (float("nan") if spoilt.calls == 5 else 1.0)

    spoilt.calls = 0
    monkeypatch.setattr(learning, "choice_loss", spoilt)
    with pytest.raises(TrainingFailed) as error:
        train_catp(tmp_path / "run", steps=8, evaluator=evaluator, watching=Watching(save_every=2), **TINY)
    assert error.value.step == 4
    assert error.value.kept.endswith("step-00000004")
    assert CatpPlanner(tmp_path / "run").plans([(task(202), 0)], evaluator)[0] is not None


def test_a_trained_policy_is_a_planner_by_name(run, evaluator):
    planner = make_planner(f"catp:{run}")
    situation = Situation(task(201), 3, 2, evaluator, 0)
    assert planner.name == f"catp:{run}"
    assert planner.propose(situation) == CatpPlanner(run).propose(situation)
    sampled = CatpPlanner(run, sample=True)
    assert sampled.propose(situation) == sampled.propose(situation)


def test_the_same_seed_trains_the_same_policy_and_leaves_global_chance_alone(tmp_path, run, evaluator):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train_catp(tmp_path / "again", steps=4, evaluator=evaluator, **TINY)
    assert torch.equal(torch.rand(3), expected)
    assert files(tmp_path / "again") == files(run)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "costgym.catp/0"}, "expected format costgym.catp/1, got 'costgym.catp/0'"),
        ({"env": "costgym/Marketplace-v0"}, "trained for 'costgym/Marketplace-v0', expected costgym/OpenCATP-v0"),
        ({"settings": {"steps": 3}}, "exactly the settings of this version"),
        ({"target_return": "high"}, "expected a finite number"),
    ],
)
def test_a_run_of_another_kind_is_refused(run, change, words):
    path = run / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=words.replace("(", r"\(")):
        CatpPlanner(run)


def test_damaged_weights_are_refused_by_name(run):
    (run / "checkpoints" / "step-00000004" / "policy.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(DataError, match=r"policy\.safetensors: cannot be read as weights"):
        CatpPlanner(run)


def test_weights_of_another_policy_are_refused(run):
    path = run / "config.json"
    record = json.loads(path.read_text())
    record["settings"]["context"] = False
    path.write_text(json.dumps(record))
    with pytest.raises(DataError, match="weights of another policy"):
        CatpPlanner(run)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(DataError, match="no training run"):
        make_planner(f"catp:{tmp_path}")


def test_a_missing_extra_says_what_to_install(tmp_path, evaluator, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r'pip install "costgym\[train\]"'):
        train_catp(tmp_path / "run", steps=1, evaluator=evaluator, **TINY)
    assert not (tmp_path / "run").exists()


def test_an_unknown_setting_is_refused(tmp_path, evaluator):
    with pytest.raises(ConfigError, match="no such setting"):
        train_catp(tmp_path / "run", evaluator=evaluator, widht=3)


@pytest.mark.slow
def test_a_small_policy_learns_to_plan_for_unseen_tasks(tmp_path):
    evaluator = Evaluator(ShapedScores(20))
    train_catp(
        tmp_path / "run", tasks="sequential", steps=500, seed=0, evaluator=evaluator, width=64, walks=4, learning_rate=2e-3
    )
    planner = CatpPlanner(tmp_path / "run")
    unseen = tasks("sequential", "test")
    trained = measure(plans_of(planner, evaluator), unseen, "test", evaluator)
    informed = measure(plans_of(make_planner("oracle-informed"), evaluator), unseen, "test", evaluator)
    assert trained.valid == 1.0
    assert trained.quality >= 0.85 * informed.quality
    for name in ("zero-shot", "few-shot", "hydra"):
        assert trained.quality > measure(plans_of(make_planner(name), evaluator), unseen, "test", evaluator).quality
