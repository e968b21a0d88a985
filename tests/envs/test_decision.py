"""DEER's environment: what is right, what it costs, what stands in the samples."""

from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import costgym
from costgym.envs.decision import ANSWER, FIRST_CALL, SEARCH, DecisionAwareEnv
from costgym.simulators.decision.samples import CALL, NO_CALL, NO_SEARCH
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.ledger import Budget
from costgym.simulators.status import Status
from tests.helpers.shared_data import shared

COUNTS = {"train": (20, 40, 60), "test": (5, 10, 15)}


@pytest.fixture(scope="module")
def env() -> DecisionAwareEnv:
    return DecisionAwareEnv(samples={"counts": COUNTS})


def begin(env: DecisionAwareEnv, kind: str, which: int = 0) -> dict[str, Any]:
    tasks = [number for number in env.numbers if env.world.tasks[number].group == kind]
    return env.reset(seed=0, options={"task": tasks[which]})[1]


def gold(env: DecisionAwareEnv) -> int:
    right = env.task.needs[0].tools
    return next(i for i, tool in enumerate(env.candidates) if tool.name in right)


def test_it_passes_the_checks_of_gymnasium_and_stable_baselines() -> None:
    check_env(costgym.make("costgym/DecisionAware-v0", disable_env_checker=True).unwrapped)
    checker = pytest.importorskip("stable_baselines3.common.env_checker", reason="needs the extra `train`")
    checker.check_env(costgym.make("costgym/DecisionAware-v0"), warn=False)


def test_answering_directly_is_right_only_where_no_tool_is_needed(env: DecisionAwareEnv) -> None:
    outcomes = {}
    for kind in (NO_SEARCH, NO_CALL, CALL):
        begin(env, kind)
        *_, terminated, truncated, info = env.step(ANSWER)
        outcomes[kind] = (terminated, truncated, info["is_success"])
    assert outcomes == {NO_SEARCH: (True, False, True), NO_CALL: (True, False, False), CALL: (True, False, False)}


def test_after_a_search_none_fits_is_right_only_without_the_right_tool(env: DecisionAwareEnv) -> None:
    outcomes = {}
    for kind in (NO_SEARCH, NO_CALL, CALL):
        begin(env, kind)
        env.step(SEARCH)
        outcomes[kind] = env.step(env.none_action)[4]["is_success"]
    assert outcomes == {NO_SEARCH: False, NO_CALL: True, CALL: False}


def test_the_right_call_is_right_whether_the_tool_works_or_not(env: DecisionAwareEnv) -> None:
    statuses = Counter()
    for which in range(30):
        begin(env, CALL, which)
        env.step(SEARCH)
        info = env.step(FIRST_CALL + gold(env))[4]
        assert info["is_success"] and info["cost_calls"] == 1
        statuses[Status(info["status"]) is Status.OK] += 1
    assert statuses[True] > 0 and statuses[False] > 0


def test_a_wrong_call_is_billed_and_fails(env: DecisionAwareEnv) -> None:
    begin(env, CALL)
    env.step(SEARCH)
    wrong = next(i for i in range(5) if i != gold(env))
    fee = env.candidates[wrong].profile.fee
    _, reward, terminated, _, info = env.step(FIRST_CALL + wrong)
    assert terminated and not info["is_success"]
    assert info["cost_price"] > fee
    assert reward == pytest.approx(-0.5 * info["cost_price"] / env.world.max_price)


def test_searching_costs_time_and_tokens_and_shows_the_candidates(env: DecisionAwareEnv) -> None:
    begin(env, CALL)
    assert env.candidates == [] and env.documentation() == []
    observation, reward, terminated, _, info = env.step(SEARCH)
    assert not terminated and reward < 0
    assert info["cost_tokens"] > 0 and info["cost_seconds"] > 0 and info["cost_calls"] == 0
    assert len(env.candidates) == 5 == len(env.documentation())
    assert observation["stage"].tolist() == [0.0, 1.0]
    assert np.abs(observation["candidates"]).sum() > 0


def test_only_the_open_actions_of_a_stage_do_something(env: DecisionAwareEnv) -> None:
    info = begin(env, CALL)
    assert np.flatnonzero(info["action_mask"]).tolist() == [ANSWER, SEARCH]
    observation, _, terminated, _, info = env.step(FIRST_CALL)
    assert not terminated and not info["searched"] and info["status"] == int(Status.FORBIDDEN)
    assert observation["action_mask"].tolist() == info["action_mask"].astype(float).tolist()
    env.step(SEARCH)
    assert np.flatnonzero(env.action_masks()).tolist() == [*range(FIRST_CALL, FIRST_CALL + 5), env.none_action]
    assert not env.step(SEARCH)[2]


def test_a_wandering_agent_is_cut_off(env: DecisionAwareEnv) -> None:
    begin(env, CALL)
    flags = [env.step(env.none_action)[2:4] for _ in range(env.max_steps)]
    assert flags[-1] == (False, True) and set(flags[:-1]) == {(False, False)}


def test_a_spent_budget_ends_the_episode_without_success() -> None:
    env = DecisionAwareEnv(samples={"counts": COUNTS}, budget={"tokens": 40}, enforcement="terminate")
    begin(env, CALL)
    env.step(SEARCH)
    _, _, terminated, _, info = env.step(FIRST_CALL + gold(env) if env.searched else ANSWER)
    assert terminated and not info["is_success"] and info["budget_remaining_tokens"] < 0


def limited(begun: str, **budget: float) -> tuple[DecisionAwareEnv, dict[str, Any]]:
    env = DecisionAwareEnv(samples={"counts": COUNTS}, budget=budget)
    return env, begin(env, begun)


def test_a_budget_is_kept_by_default_and_without_one_the_scenario_chooses() -> None:
    assert limited(CALL, price=5.0)[0].enforcement == "refuse"
    assert DecisionAwareEnv(samples={"counts": COUNTS}, budget={}).enforcement == "terminate"
    assert DecisionAwareEnv(samples={"counts": COUNTS}, budget={"price": 5.0}, enforcement="record").enforcement == "record"


def test_a_search_that_leaves_nothing_for_the_decision_after_it_is_refused(env: DecisionAwareEnv) -> None:
    begin(env, CALL)
    spent = [env.step(action)[4]["cost_tokens"] for action in (SEARCH, env.none_action)]
    for tokens, allowed in ((sum(spent), True), (sum(spent) - 1, False)):
        tight, info = limited(CALL, tokens=tokens)
        assert info["action_mask"][[ANSWER, SEARCH]].tolist() == [True, allowed]
        observation, reward, terminated, _, info = tight.step(SEARCH)
        assert info["searched"] is allowed and not terminated
        if not allowed:
            assert (reward, info["status"], info["cost_tokens"]) == (0.0, int(Status.OVER_BUDGET), 0)
            assert info["cost_seconds"] == tight.world.gateway_s and not observation["candidates"].any()
        assert tight.step(tight.none_action if allowed else ANSWER)[2]


def test_a_call_must_be_paid_with_the_tokens_of_its_decision(env: DecisionAwareEnv) -> None:
    begin(env, CALL)
    searched = env.step(SEARCH)[4]["cost_price"]
    quotes = [env._playing().quote(slot) for slot in range(5)]
    dearest = quotes.index(max(quotes))
    thought = env.step(FIRST_CALL + dearest)[4]["cost_price"] - quotes[dearest]
    for limit, paid in ((searched + thought + quotes[dearest] + 1e-9, True), (searched + quotes[dearest], False)):
        tight, _ = limited(CALL, price=limit)
        info = tight.step(SEARCH)[4]
        assert info["action_mask"][FIRST_CALL + dearest] == paid and info["action_mask"][tight.none_action]
        _, _, terminated, _, info = tight.step(FIRST_CALL + dearest)
        assert terminated is paid and info["cost_calls"] == int(paid) and info["budget_remaining_price"] >= 0.0
        assert paid or info["status"] == int(Status.OVER_BUDGET)


def test_an_answer_that_the_budget_does_not_cover_gives_up(env: DecisionAwareEnv) -> None:
    begin(env, NO_SEARCH)
    cost = env.step(ANSWER)[4]["cost_price"]
    for limit, answered in ((cost, True), (0.9 * cost, False)):
        tight, info = limited(NO_SEARCH, price=limit)
        assert info["action_mask"][ANSWER]
        _, _, terminated, _, info = tight.step(ANSWER)
        assert (terminated, info["is_success"], info["cost_price"]) == (True, answered, cost if answered else 0.0)
        assert info["budget_remaining_price"] >= 0.0 and tight.episode is not None and tight.episode.exceeded is None


def test_the_samples_of_a_folder_play_the_same_way() -> None:
    env = DecisionAwareEnv(data=str(shared("data/toolbench_family/tooldeer")), split="valid")
    kinds = Counter(env.world.tasks[number].group for number in env.numbers)
    assert kinds == {NO_SEARCH: 50, NO_CALL: 50, CALL: 50}
    for number in env.numbers:
        env.reset(seed=0, options={"task": number})
        if env.task.group == NO_SEARCH:
            info = env.step(ANSWER)[4]
        else:
            env.step(SEARCH)
            info = env.step(env.none_action if env.task.group == NO_CALL else FIRST_CALL + gold(env))[4]
        assert info["is_success"], env.task.id


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"data": "/no/such/folder"}, "folder"),
        ({"samples": {"depth": 3}}, "depth"),
        ({"samples": {"candidates": 0}}, "candidates"),
        ({"samples": {"mixture": {"nearby": 1}}}, "nearby"),
        ({"samples": {"counts": {"train": [0, 0, 0]}}}, "train"),
        ({"features": 0}, "features"),
        ({"split": "holidays"}, "holidays"),
    ],
)
def test_settings_that_make_no_sense_are_clear_errors(settings: dict[str, Any], names: str) -> None:
    with pytest.raises(costgym.CostGymError, match=names):
        DecisionAwareEnv(**settings)


def test_its_settings_are_plain_data() -> None:
    env = costgym.make("costgym/DecisionAware-v0", samples={"counts": COUNTS, "clusters": 4}, budget={"price": 5})
    spec = gym.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert spec.kwargs["samples"]["clusters"] == 4


@pytest.mark.parametrize("price", [0.2, 0.4, 1.0])
def test_no_random_policy_beats_the_optimum_under_a_tight_budget(price: float) -> None:
    env, generator = DecisionAwareEnv(samples={"counts": COUNTS}, budget={"price": price}), np.random.default_rng(3)
    for number in env.numbers:
        _, info = env.reset(seed=int(number), options={"task": number})
        best, over = env.optimum(), False
        while not over:
            *_, over, _, info = env.step(int(generator.choice(np.flatnonzero(info["action_mask"]))))
        assert env.quality() <= best.quality + 1e-12


def test_nobody_does_better_than_the_optimum(env: DecisionAwareEnv) -> None:
    generator = np.random.default_rng(3)
    for number in env.numbers[:60]:
        _, info = env.reset(seed=int(number), options={"task": number})
        best, over = env.optimum(), False
        while not over:
            *_, terminated, truncated, info = env.step(int(generator.choice(np.flatnonzero(info["action_mask"]))))
            over = terminated or truncated
        assert env.quality() <= best.quality + 1e-12
        env.reset(seed=int(number), options={"task": number})
        for action in env.right_actions():
            env.step(action)
        assert env.quality() == pytest.approx(best.quality) and best.feasible
        assert env.episode is not None and env.episode.ledger.price == pytest.approx(best.price)


def test_where_the_right_decision_is_not_affordable_the_optimum_is_to_save(env: DecisionAwareEnv) -> None:
    begin(env, CALL)
    answered = env.costs(env.task.number)[ANSWER]
    saved = env.optimum(Budget(tokens=answered.tokens))
    assert not saved.feasible and saved.price == answered.price and saved.quality < 0
    given_up = env.optimum(Budget(tokens=answered.tokens - 1))
    assert not given_up.feasible and given_up.price == given_up.quality == 0


def test_several_scenarios_are_refused_in_words():
    for several in (["decision", "storm"], {"any_of": ["decision", "storm"]}):
        with pytest.raises(ConfigError, match="expected one scenario"):
            costgym.make("costgym/DecisionAware-v0", scenario=several)
    env = costgym.make("costgym/DecisionAware-v0")
    with pytest.raises(UnknownName, match="option of reset"):
        env.reset(seed=0, options={"scenario": "storm"})
