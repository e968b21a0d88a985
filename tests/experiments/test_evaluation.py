"""Off-policy estimates of `benchmarks/learning/evaluation.py`."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning import evaluation
from costgym.experiments.play.named import build as building
from costgym.experiments.play.named.build import Reference, build

pytest.importorskip("minari")
DATASET = "costgym/sessions-v1/medium-v0"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "references", lambda world: (Reference(100.0, 70.0, 0.0), Reference(600.0, 75.0, 0.8)))
        build(DATASET, folder, episodes=4)
    return folder


def test_the_weights_of_the_policy_that_played_are_one(root: Path) -> None:
    data, numbers = evaluation.read(DATASET, root)
    labels = list(evaluation.TARGETS)
    assert len(numbers) == data["ended"].sum() == 4 and np.allclose(data["chances"].sum(-1), 1.0, atol=1e-5)
    same, other = (evaluation.weights(data, labels.index(label)) for label in ("paced, 0.2", "random"))
    assert np.allclose(same, 1.0, atol=1e-4) and not np.allclose(other, 1.0, atol=0.5)


def test_estimates_are_exact_where_the_answer_is_known() -> None:
    # two steps, where the second of two actions pays 1; the behaviour takes it with the chance 0.5, the target with 0.9
    actions = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])  # each as often as the behaviour plays it
    reward = actions.astype(np.float64)
    weight = np.cumprod(np.where(actions == 1, 0.9, 0.1) / 0.5, axis=1)
    q, v = reward + np.array([0.9, 0.0]), np.tile([1.8, 0.9], (4, 1))
    exact = evaluation.estimates(np.ones(4), weight, reward, q, v)
    for method in ("IS", "WIS", "PDIS", "PDWIS", "FQE", "DR", "WDR"):
        assert exact[method] == pytest.approx(1.8 * evaluation.UNIT), method
    wrong = evaluation.estimates(np.ones(4), weight, reward, np.where(actions == 1, 0.3, 0.1), np.full_like(v, 0.28))
    assert wrong["FQE"] == pytest.approx(0.28 * evaluation.UNIT)  # a wrong model, which exact weights put right
    assert wrong["DR"] == pytest.approx(1.8 * evaluation.UNIT) == wrong["WDR"]
    assert exact["mean of the data"] == pytest.approx(1.0 * evaluation.UNIT)


def test_fitted_values_learn_what_is_to_be_had() -> None:
    # one step: the first tool pays 0.8, the others nothing; a target's value is its chance of that tool
    generator = np.random.default_rng(0)
    count, heads = 512, len(evaluation.TARGETS)
    chances = np.zeros((count, heads, 8), np.float32)
    chances[:, :, 0], chances[:, :, 7] = np.linspace(0.1, 0.9, heads), np.linspace(0.9, 0.1, heads)
    state = np.zeros((count, 29), np.float32)
    state[:, 8] = 0.05  # five queries left
    tools = np.zeros((count, 6, 23), np.float32)
    tools[:, 0, 2] = 1.0
    action = generator.integers(8, size=count)
    data = {
        "tools": tools, "state": state, "chances": chances, "action": action,
        "reward": np.where(action == 0, 0.8, 0.0).astype(np.float32), "ended": np.ones(count, np.bool_),
    }  # fmt: skip
    _, v = evaluation.fitted(data, 0, 300)
    assert v.mean(axis=0) == pytest.approx(0.8 * np.linspace(0.1, 0.9, heads), abs=0.05)


def test_agreement_counts_ranks_and_errors() -> None:
    assert evaluation.agreement(np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0])) == (
        pytest.approx(-1.0),
        pytest.approx(4 / 3),
    )
