"""A usefulness classifier that was learnt: what it reads, how it is kept, and what it takes from bad input."""

import json
from typing import Any

import numpy as np
import pytest

from costgym import DataError
from costgym.agents.btp.usefulness import (
    FILE,
    NUMBERS,
    LearntUsefulness,
    Observed,
    WordModel,
    load_usefulness,
    numbers_of,
)

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
    for example in (GOOD, BAD):
        request: tuple[Any, ...] = (example.query, "map", example.arguments, example.text)
        assert again.probability(*request) == pytest.approx(judge.probability(*request), rel=1e-12)  # type: ignore[attr-defined]
        assert again.helpful(*request) is judge.helpful(*request)


@pytest.mark.parametrize(
    "change,field",
    [({"format": "x"}, "format"), ({"version": "0.0.1"}, "version"), ({"words": {"a": [1]}}, "words"),
     ({"numbers": {}}, "numbers"), ({"threshold": 2.0}, "threshold"), ({"words": {"a": [1, "b"]}}, "words"),
     ({"documents": {"a": 1}}, "documents")],
)  # fmt: skip
def test_a_damaged_classifier_is_refused(tmp_path, change, field):
    document = json.loads(LearntUsefulness(WordModel.unfitted([GOOD], least=1)).to_json())
    (tmp_path / FILE).write_text(json.dumps({**document, **change}))
    with pytest.raises(DataError, match=field):
        load_usefulness(tmp_path)


def test_a_missing_classifier_is_named(tmp_path):
    with pytest.raises(DataError, match="train btp"):
        load_usefulness(tmp_path)


def test_btp_takes_the_judge_of_a_run(tmp_path):
    from costgym.agents.registry import make_agent

    (tmp_path / FILE).write_text(LearntUsefulness(WordModel.unfitted([GOOD], least=1)).to_json())
    agent: Any = make_agent("react+btp", usefulness=tmp_path)
    assert isinstance(agent._access[0].usefulness, LearntUsefulness)
