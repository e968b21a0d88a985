"""BTP's usefulness classifier learns from played and from recorded episodes."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.btp.usefulness import Observed, load_usefulness
from costgym.agents.registry import make_agent
from costgym.experiments.train.usefulness.train import Labelled, fit_usefulness, measure, train_btp
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import parse_scenario
from tests.helpers.playing import SMALL

if importlib.util.find_spec("sklearn") is None:  # found, not imported: every process that collects tests would do so
    pytest.skip("the train extra is not installed", allow_module_level=True)

GOOD = Observed(
    '{"city": "Lille", "latitude": 62.2}', "where is Lille", {"city": "lille"}, "map. Returns the latitude of a city."
)
BAD = Observed('{"error": "timeout"}', "where is Lille", {"city": "lille"}, "map. Returns the latitude of a city.")


def test_training_finds_what_helps_on_tasks_it_has_not_met(tmp_path: Path) -> None:
    scenario = parse_scenario({"name": "small", **SMALL})
    result = train_btp(tmp_path / "run", scenario, 1, episodes=60, held_out=30)
    assert result.metrics["auc"] > 0.85 and result.metrics["accuracy"] > 0.8
    judge = load_usefulness(tmp_path / "run")
    assert not judge.helpful("q", "t", {}, '{"error": "server error", "message": "500"}')


def test_it_learns_from_recorded_episodes_as_from_played_ones(tmp_path: Path) -> None:
    from costgym.envs.chat import MarketplaceChatEnv
    from costgym.experiments.play.collect import collect

    scenario = parse_scenario({"name": "small", **SMALL})
    env = MarketplaceChatEnv(scenario=scenario, split="train", budget={}, enforcement="record", max_steps=400)
    collect(env, make_agent("react"), 40, tmp_path / "records")
    result = train_btp(tmp_path / "run", scenario, records=tmp_path / "records")
    assert result.metrics["train_examples"] == result.metrics["examples"] > 60
    assert load_usefulness(tmp_path / "run").helpful(GOOD.query, "map", GOOD.arguments, GOOD.text)


def test_a_judge_is_measured_by_accuracy_precision_and_recall() -> None:
    class Suspicious:
        def helpful(self, query: str, name: str, arguments: Any, text: str) -> bool:
            return "perhaps" in text

    texts = [("perhaps", True), ("perhaps", True), ("perhaps", False), ("no", True), ("no", False)]
    known = [Labelled("map", GOOD._replace(text=text), helpful) for text, helpful in texts]
    assert measure(Suspicious(), known) == pytest.approx({"accuracy": 3 / 5, "precision": 2 / 3, "recall": 2 / 3})
    assert measure(Suspicious(), known[4:]) == {"accuracy": 1.0, "precision": 0.0, "recall": 0.0}


def test_results_of_one_kind_teach_nothing() -> None:
    with pytest.raises(ConfigError, match="only helpful"):
        fit_usefulness([Labelled("map", GOOD, True)] * 3)
