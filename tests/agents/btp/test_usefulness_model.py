"""A usefulness classifier that was learnt: what it reads, how it is kept, and what it takes from bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from costgym import ConfigError, DataError
from costgym.agents.btp.usefulness import Observed
from costgym.agents.btp.usefulness_model import (
    FILE,
    NUMBERS,
    LearntUsefulness,
    WordModel,
    load_usefulness,
    numbers_of,
)
from costgym.simulators.scenario import parse_scenario
from tests.helpers.playing import SMALL

GOOD = Observed(
    '{"city": "Lille", "latitude": 62.2}', "where is Lille", {"city": "lille"}, "map. Returns the latitude of a city."
)
BAD = Observed('{"error": "timeout"}', "where is Lille", {"city": "lille"}, "map. Returns the latitude of a city.")


def numbers(observed: Observed) -> dict[str, float]:
    return dict(zip(NUMBERS, numbers_of(observed), strict=True))


def test_it_sees_errors_nothing_and_answers_about_something_else():
    assert numbers(GOOD)["repeated"] == 1.0 and numbers(GOOD)["contradicted"] == 0.0
    assert numbers(BAD)["error_word"] == 1.0
    assert numbers(GOOD._replace(text="{}"))["nothing"] == 1.0
    assert numbers(GOOD._replace(text='{"city": "Krakow"}'))["contradicted"] == 1.0


def test_probabilities_are_those_of_the_logistic_regression():
    blank = WordModel.unfitted([GOOD, BAD], least=1)
    weights = np.linspace(-1.0, 1.0, len(blank.weights))
    model = WordModel(blank.vocabulary, blank.rarity, weights)
    by_hand = [1.0 / (1.0 + np.exp(-float(row.astype(np.float64) @ weights))) for row in model.features([GOOD, BAD])]
    assert model.probabilities([GOOD, BAD]).tolist() == pytest.approx(by_hand, rel=1e-12)
    words = model.features([GOOD])[0, : len(model.vocabulary)]
    assert float(np.linalg.norm(words)) == pytest.approx(1.0, rel=1e-6)


def test_what_is_written_judges_alike_when_it_is_read(tmp_path):
    blank = WordModel.unfitted([GOOD, BAD], least=1)
    judge = LearntUsefulness(
        WordModel(blank.vocabulary, blank.rarity, np.linspace(-1, 1, len(blank.weights))), {"map": "a map"}
    )
    (tmp_path / FILE).write_text(judge.to_json({"seed": 3}), encoding="utf-8")
    again = load_usefulness(tmp_path)
    for each in (GOOD, BAD):
        asked: tuple[Any, ...] = (each.query, "map", each.arguments, each.text)
        assert again.probability(*asked) == pytest.approx(judge.probability(*asked), rel=1e-12)  # type: ignore[attr-defined]
        assert again.helpful(*asked) is judge.helpful(*asked)


@pytest.mark.parametrize(
    "change,told",
    [({"format": "x"}, "format"), ({"version": "0.0.1"}, "version"), ({"words": {"a": [1]}}, "words"),
     ({"numbers": {}}, "numbers"), ({"threshold": 2.0}, "threshold"), ({"words": {"a": [1, "b"]}}, "words"),
     ({"documents": {"a": 1}}, "documents")],
)  # fmt: skip
def test_a_damaged_classifier_is_refused(tmp_path, change, told):
    document = json.loads(LearntUsefulness(WordModel.unfitted([GOOD], least=1)).to_json())
    (tmp_path / FILE).write_text(json.dumps({**document, **change}))
    with pytest.raises(DataError, match=told):
        load_usefulness(tmp_path)


def test_a_missing_classifier_is_named(tmp_path):
    with pytest.raises(DataError, match="train btp"):
        load_usefulness(tmp_path)


def test_the_area_under_the_curve_counts_ties_half():
    from costgym.experiments.training.usefulness.train import area_under_curve

    assert area_under_curve(np.array([0.9, 0.5, 0.5, 0.1]), [True, True, False, False]) == 3.5 / 4
    with pytest.raises(ConfigError, match="helpful"):
        area_under_curve(np.array([0.9]), [True])


def test_training_finds_what_helps_on_tasks_it_has_not_met(tmp_path):
    pytest.importorskip("sklearn")
    from costgym.experiments.training.usefulness.train import UsefulnessSettings, train_btp

    scenario = parse_scenario({"name": "small", **SMALL})
    settings = UsefulnessSettings(episodes=60, held_out=30)
    result = train_btp(tmp_path / "run", scenario, 1, settings=settings)
    assert result.metrics["auc"] > 0.85 and result.metrics["accuracy"] > 0.8
    again = train_btp(tmp_path / "run", scenario, 1, settings=settings)
    assert again.metrics == result.metrics
    with pytest.raises(ConfigError, match="another run"):
        train_btp(tmp_path / "run", scenario, 2, settings=settings)
    judge = load_usefulness(tmp_path / "run")
    assert not judge.helpful("q", "t", {}, '{"error": "server error", "message": "500"}')


def test_btp_takes_the_judge_of_a_run(tmp_path):
    from costgym.agents.registry import make_agent

    (tmp_path / FILE).write_text(LearntUsefulness(WordModel.unfitted([GOOD], least=1)).to_json())
    agent: Any = make_agent("react+btp", usefulness=tmp_path)
    assert isinstance(agent._access[0].usefulness, LearntUsefulness)


def test_results_of_one_kind_teach_nothing():
    pytest.importorskip("sklearn")
    from costgym.experiments.training.usefulness.train import Labelled, fit_usefulness

    with pytest.raises(ConfigError, match="only helpful"):
        fit_usefulness([Labelled("map", GOOD, True)] * 3)


@pytest.mark.slow
def test_a_small_longformer_learns_from_the_same_results(tmp_path):
    pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    from costgym.experiments.training.usefulness.train import Labelled
    from costgym.experiments.training.usefulness.transformer import fit_transformer

    torch.set_num_threads(1)
    known = [Labelled("map", GOOD, True), Labelled("map", BAD, False)] * 12
    judge = fit_transformer(tmp_path, known, "longformer", 0, epochs=15)
    assert judge.helpful(GOOD.query, "map", GOOD.arguments, GOOD.text)
    assert not judge.helpful(BAD.query, "map", BAD.arguments, BAD.text)
    again: Any = load_usefulness(tmp_path)
    assert again.probability(GOOD.query, "map", {}, "x") == judge.probability(GOOD.query, "map", {}, "x")
    assert not list(tmp_path.rglob("*.bin")) and list(tmp_path.rglob("*.safetensors"))
