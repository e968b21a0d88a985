"""DEER's deciders, and a decider at play."""

from collections.abc import Sequence

import numpy as np
import pytest

from costgym import ConfigError
from costgym.agents.deer import (
    RATES,
    Decider,
    DecisionRates,
    DeerAgent,
    RuleAgent,
    RuleDecider,
    SimulatedDecider,
    examples,
)
from costgym.agents.deer.deciders import best_threshold
from costgym.agents.seat import begin
from costgym.envs.decision import ANSWER, DecisionAwareEnv
from costgym.experiments.play.decisions import accuracies, evaluate
from costgym.simulators.tools import Tool
from tests.helpers.playing import play
from tests.helpers.shared_data import shared

COUNTS = {"train": (60, 120, 180), "valid": (60, 90, 150), "test": (0, 90, 150)}


@pytest.fixture(scope="module")
def env() -> DecisionAwareEnv:
    return DecisionAwareEnv(samples={"counts": COUNTS}, split="valid")


class Always(Decider):
    """Searches and calls the first candidate, always."""

    name = "always"

    def search(self, query: str) -> bool:
        return True

    def choose(self, query: str, candidates: Sequence[Tool]) -> int | None:
        return 0


def test_a_decider_that_always_calls_the_first_is_right_as_often_as_the_first_is(env: DecisionAwareEnv) -> None:
    known = examples(env.world, "valid")
    scores = accuracies(evaluate(Always(), known))
    firsts = [example.gold == 0 for example in known if example.kind == "Call"]
    assert [*scores.values()] == [0.0, 1.0, 240 / 300, 0.0, sum(firsts) / 150, sum(firsts) / 240]


def test_without_forcing_what_was_never_reached_counts_as_wrong(env: DecisionAwareEnv) -> None:
    timid = SimulatedDecider(DecisionRates(no_search=1.0, search=0.0, no_call=1.0, call=1.0))
    known = examples(env.world, "valid")
    assert [*accuracies(evaluate(timid, known)).values()][3:] == [1.0, 1.0, 1.0]
    assert [*accuracies(evaluate(timid, known, forced=False)).values()][3:] == [0.0, 0.0, 0.0]


def test_a_simulated_decider_errs_at_its_rates(env: DecisionAwareEnv) -> None:
    known = examples(env.world, "valid") * 1
    pooled = [r for seed in range(20) for r in evaluate(SimulatedDecider(name="gpt-4"), known, seed)]
    scores, rates = accuracies(pooled), RATES["gpt-4"]
    assert scores["p_no_search"] == pytest.approx(rates.no_search, abs=0.03)
    assert scores["p_search"] == pytest.approx(rates.search, abs=0.02)
    assert scores["p_no_call"] == pytest.approx(rates.no_call, abs=0.02)
    assert scores["p_call"] == pytest.approx(rates.call, abs=0.02)


def test_a_faultless_simulated_decider_wins_every_episode(env: DecisionAwareEnv) -> None:
    agent = DeerAgent(SimulatedDecider(DecisionRates(1.0, 1.0, 1.0, 1.0)))
    for number in env.numbers[:60]:
        observation, info = env.reset(seed=1, options={"task": number})
        tell = begin(agent, env, observation, info, seed=number)
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(agent.act(observation, tell(info)))
            over = terminated or truncated
        assert info["is_success"]


def test_the_rule_learns_to_decide_better_than_either_habit(env: DecisionAwareEnv) -> None:
    rule = RuleDecider.fit(examples(env.world, "train"))
    seen = accuracies(evaluate(rule, examples(env.world, "valid")))
    unseen = accuracies(evaluate(rule, examples(env.world, "test")))
    assert seen["p_ds"] is not None and seen["p_ds"] > 240 / 300 + 0.1
    assert seen["p_dc"] is not None and seen["p_dc"] > 0.8
    assert unseen["p_dc"] is not None and unseen["p_dc"] > 0.8


def test_the_rule_reads_text_alone(env: DecisionAwareEnv) -> None:
    rule = RuleDecider.fit(examples(env.world, "train"))
    example = next(e for e in examples(env.world, "valid") if e.kind == "Call")
    before = rule.search(example.query), rule.choose(example.query, example.candidates)
    rule.begin(examples(env.world, "valid")[0].task, 99)
    assert (rule.search(example.query), rule.choose(example.query, example.candidates)) == before
    assert rule.choose("anything", ()) is None


def test_the_rule_needs_examples() -> None:
    with pytest.raises(ConfigError, match="examples"):
        RuleDecider.fit([])
    with pytest.raises(ConfigError, match="tool"):
        RuleDecider([])


def test_the_threshold_is_the_one_that_is_right_most_often() -> None:
    scores = np.array([0.1, 0.2, 0.3, 0.3, 0.4])
    assert best_threshold(scores, np.array([False, False, True, True, True])) == 0.3
    assert best_threshold(scores, np.array([True, True, True, True, True])) == 0.1
    # a wrong candidate at 0.4 is wrong either way; between 0.2 and 0.3 a yes wins two
    right, none = np.array([False, False, True, True, False]), np.array([True, True, False, False, False])
    assert best_threshold(scores, right, none) == 0.3


def test_an_agent_fits_the_rule_to_the_world_it_meets(env: DecisionAwareEnv) -> None:
    agent, wins = RuleAgent(), 0
    for number in env.numbers[:40]:
        observation, info = env.reset(seed=1, options={"task": number})
        tell = begin(agent, env, observation, info, seed=0)
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(agent.act(observation, tell(info)))
            over = terminated or truncated
        wins += info["is_success"]
    assert wins > 20


def test_a_search_that_the_budget_forbids_leaves_the_answer() -> None:
    env = DecisionAwareEnv(samples={"counts": COUNTS}, split="valid", budget={"tokens": 250})
    assert play(env, DeerAgent(Always()), task=env.numbers[0])[0] == [ANSWER]


def test_recorded_samples_are_scored_the_same_way() -> None:
    env = DecisionAwareEnv(data=str(shared("data/toolbench_family/tooldeer")), split="valid")
    known = examples(env.world, "valid")
    assert all((example.gold is not None) == (example.kind == "Call") for example in known)
    faultless = SimulatedDecider(DecisionRates(1.0, 1.0, 1.0, 1.0))
    assert set(accuracies(evaluate(faultless, known)).values()) == {1.0}
    rule = RuleDecider.fit(known[::2])
    scores = accuracies(evaluate(rule, known[1::2]))
    assert scores["p_ds"] is not None and 0.5 < scores["p_ds"] < 1.0
