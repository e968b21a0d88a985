"""What BTP remembers is collected on the train split."""

from __future__ import annotations

from costgym.experiments.training.data.experience import collect_experience
from costgym.simulators.scenario import parse_scenario
from tests.helpers.playing import SMALL


def test_collecting_plays_the_train_split_and_repeats_itself() -> None:
    scenario = parse_scenario({"name": "small", **SMALL})
    first, second = (collect_experience(scenario, episodes=30, seed=3) for _ in range(2))
    assert first.to_jsonl() == second.to_jsonl()
    train = {scenario.build().tasks[n].query for n in scenario.build().tasks.numbers("train")}
    assert len(first) == 30 and {past.query for past in first.queries} <= train
    flags = [flag for past in first.queries for used in past.uses.values() for flag in used]
    assert 0.2 < sum(flags) / len(flags) < 0.9
