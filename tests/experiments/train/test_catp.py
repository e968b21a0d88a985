"""CATP-LLM's runs: what plays, what is refused, plan pools, and what is learnt."""

import json
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.catp_scores import ShapedScores
from tests.helpers.training import CATP, StopAt, one_thread

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")
pytest.importorskip("safetensors", reason="the train extra is not installed")

from costgym.agents.catp import CatpPlanner  # noqa: E402
from costgym.agents.opencatp.base import Situation  # noqa: E402
from costgym.agents.registry import make_planner  # noqa: E402
from costgym.experiments.train.catp.measure import measure  # noqa: E402
from costgym.experiments.train.catp.pools import pool_data  # noqa: E402
from costgym.experiments.train.catp.train import train_catp  # noqa: E402
from costgym.experiments.train.run import named_files, read_curve  # noqa: E402
from costgym.simulators.errors import DataError, TrainingFailed  # noqa: E402
from costgym.simulators.opencatp.pools import MAX_POOL_BYTES  # noqa: E402
from costgym.simulators.opencatp.profile import v100  # noqa: E402
from costgym.simulators.opencatp.scoring.evaluation import Evaluator  # noqa: E402
from costgym.simulators.opencatp.tasks import task, tasks  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator(ShapedScores(10))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, evaluator: Evaluator) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    train_catp(folder, steps=4, evaluator=evaluator, check_every=2, **CATP)
    return folder


@pytest.fixture
def run(tmp_path: Path, finished: Path) -> Path:
    """A short finished run, to be spoilt."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_figures_on_the_train_tasks_are_in_the_curve_where_they_are_asked_for(run: Path) -> None:
    lines = read_curve(run)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert ["train_quality" in line for line in lines] == [False, True, False, True]
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["train_quality"] == lines[-1]["train_quality"]
    assert metrics["loss"] == pytest.approx(sum(line["loss"] for line in lines) / 4)


def test_a_loss_that_is_no_number_leaves_a_policy_that_plays(
    tmp_path: Path, evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from costgym.experiments.train.catp import learning

    whole, calls = learning.choice_loss, []

    def spoilt(logs: Any, batch: Any) -> Any:
        calls.append(1)
        return whole(logs, batch) * (float("nan") if len(calls) == 5 else 1.0)

    monkeypatch.setattr(learning, "choice_loss", spoilt)
    with pytest.raises(TrainingFailed) as error:
        train_catp(tmp_path / "run", steps=8, evaluator=evaluator, save_every=2, **CATP)
    assert (error.value.step, Path(str(error.value.checkpoint)).name) == (4, "step-00000004")
    assert CatpPlanner(tmp_path / "run").plans([(task(202), 0)], evaluator)[0] is not None


def test_an_outcome_table_is_trained_on_by_its_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such outcome table"):
        train_catp(tmp_path / "run", steps=4, outcomes=str(tmp_path / "none.npz"), **CATP)


def test_a_trained_policy_is_a_planner_by_name(run: Path, evaluator: Evaluator) -> None:
    planner = make_planner(f"catp:{run}")
    situation = Situation(task(201), 3, 2, evaluator, 0)
    assert planner.name == f"catp:{run}"
    assert planner.propose(situation) == CatpPlanner(run).propose(situation)
    sampled = CatpPlanner(run, sample=True)
    assert sampled.propose(situation) == sampled.propose(situation)


def test_damaged_weights_are_refused_by_name(run: Path) -> None:
    (run / "checkpoints" / "step-00000004" / "policy.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(DataError, match=r"policy\.safetensors: cannot be read as weights"):
        CatpPlanner(run)


def test_weights_of_another_policy_are_refused(run: Path) -> None:
    path = run / "config.json"
    record = json.loads(path.read_text())
    record["settings"]["context"] = False
    path.write_text(json.dumps(record))
    with pytest.raises(DataError, match="weights of another policy"):
        CatpPlanner(run)


# -- plan pools ----------------------------------------------------------------------------------------------------------------


CHAINS = (["image_denoising"], ["image_deblurring"], ["image_denoising", "image_deblurring"])


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Plans of two train tasks on six samples each, as OpenCATP records them; one plan is of no known task."""
    plans = []
    for task_id in (1, 4):
        for sample in range(6):
            for number, chain in enumerate(
                (["image_denoising"], ["image_deblurring"], ["image_denoising", "image_deblurring"])
            ):
                plan: list[Any] = []
                for index, tool in enumerate(chain):
                    plan += [tool, ["input_of_query"] if index == 0 else [chain[index - 1]]]
                runs = [100.0 * (1 + sample % 3)] * len(chain)
                plans.append({
                    "task_id": task_id, "sample_id": sample, "plan": plan, "score": 60.0 + 10 * number + sample,
                    "score_kind": "vit_score", "tool_exec_time_ms": runs, "tool_cpu_inst_mb": [0.0] * len(chain),
                    "tool_gpu_inst_mb": [10.0] * len(chain),
                })  # fmt: skip
    plans.append({**plans[0], "task_id": 9999})
    path = tmp_path / "pool.json"
    path.write_text(json.dumps({"plans": plans}))
    return path


def test_a_quarter_of_a_pools_tasks_and_samples_is_held_out(pool: Path) -> None:
    data = pool_data([pool], 0, v100())
    pairs = [{(plan.task.task_id, plan.sample) for plan in side} for side in (data.train, data.held_out)]
    assert (len(data.train), len(data.held_out), data.left_out) == (30, 6, 1)
    assert not pairs[0] & pairs[1] and len(pairs[1]) == 2
    first = [plan for plan in data.train if plan.choices == data.train[0].choices]
    assert [plan.score for plan in first] == pytest.approx([(60 + plan.sample) / 100 for plan in first])


def test_a_policy_learns_from_a_pool_and_is_measured_on_what_was_held_out(
    pool: Path, tmp_path: Path, evaluator: Evaluator
) -> None:
    settings = {**CATP, "tasks": "sequential", "steps": 40}
    follower = StopAt()
    result = train_catp(tmp_path / "run", evaluator=evaluator, pool=[pool], callback=follower, **settings)
    assert "30 plans of 2 tasks for training" in follower.said
    assert result.metrics["pairs"] == 2 and result.metrics["pool_best"] > result.metrics["pool_mean"]
    assert result.metrics["choice_accuracy"] > result.metrics["choice_chance"]
    assert train_catp(tmp_path / "run", evaluator=evaluator, pool=[pool], **settings).metrics == result.metrics
    assert CatpPlanner(tmp_path / "run").plans([(task(1), 0)], evaluator)[0] is not None


def test_a_run_knows_its_pool_again(pool: Path, tmp_path: Path, evaluator: Evaluator) -> None:
    settings: dict[str, Any] = {**CATP, "tasks": "sequential", "steps": 1, "evaluator": evaluator}
    train_catp(tmp_path / "run", pool=[pool], **settings)
    (before,) = named_files([pool], MAX_POOL_BYTES)
    document = json.loads(pool.read_text())
    pool.write_text(json.dumps({"plans": document["plans"][:-1]}))
    for other in ([pool], []):
        with pytest.raises(Exception, match=rf"data \('{before}',\) there"):
            train_catp(tmp_path / "run", pool=other, **settings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tasks": "nonsequential"}, r"held-out plans \(nonsequential tasks\), got 0 and 0"),
        ({"pool": ["none.json"]}, "none.json"),
    ],
)
def test_a_pool_without_anything_to_learn_from_is_named(
    pool: Path, tmp_path: Path, evaluator: Evaluator, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        settings = {**CATP, "tasks": "sequential", "steps": 1, "pool": [pool], **change}
        train_catp(tmp_path / "run", evaluator=evaluator, **settings)


@pytest.mark.slow
def test_a_small_policy_learns_to_plan_for_unseen_tasks(tmp_path: Path) -> None:
    evaluator = Evaluator(ShapedScores(20))
    train_catp(
        tmp_path / "run",
        tasks="sequential",
        steps=500,
        seed=0,
        evaluator=evaluator,
        hidden_size=64,
        walks=4,
        learning_rate=2e-3,
    )
    planner = CatpPlanner(tmp_path / "run")
    plans_of = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "opencatp" / "unseen_tasks.py"))["plans_of"]
    unseen = tasks("sequential", "test")
    trained = measure(plans_of(planner, evaluator), unseen, "test", evaluator)
    informed = measure(plans_of(make_planner("oracle-informed"), evaluator), unseen, "test", evaluator)
    assert trained.valid == 1.0
    assert trained.quality >= 0.85 * informed.quality
    for name in ("zero-shot", "few-shot", "hydra"):
        assert trained.quality > measure(plans_of(make_planner(name), evaluator), unseen, "test", evaluator).quality
