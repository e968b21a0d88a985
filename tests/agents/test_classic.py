"""Random, cheapest, greedy and the oracles: exact stories in small worlds, bounds in the marketplace."""

from collections.abc import Sequence

import gymnasium as gym
import numpy as np
import pytest

from costgym.agents.classic import CheapestAgent, GreedyAgent, RandomAgent
from costgym.agents.oracle import ExpectedOptimumAgent, OracleAgent
from costgym.agents.seat import begin
from costgym.envs.marketplace import MarketplaceEnv
from costgym.experiments.play.episodes import play
from costgym.simulators.calls import WorldEvent
from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import FailureModel
from costgym.simulators.world import World
from tests.helpers.worlds import BROKEN, scenario_of, small_world, tool

BUDGETED = (CheapestAgent, GreedyAgent, ExpectedOptimumAgent, OracleAgent)


def env_of(world: World, **settings) -> MarketplaceEnv:
    """The numeric view of a hand-made world, without limits unless asked for."""
    return MarketplaceEnv(scenario=scenario_of(world), split="test", **{"budget": {}, **settings})


def played(agent, world: World, task: int = 0, seed: int = 0, **settings) -> Sequence[str]:
    """The tools that an agent calls, with how each call ended."""
    episode = play(env_of(world, **settings), agent, task, seed)
    return [f"{call.tool} {call.status.label}" for call in episode.calls]


MIXED = (
    tool("dear", 0, fee=6.0, advertised_success=0.9),
    tool("dead", 0, fee=1.0, reliability=0.0, advertised_success=0.1),
    tool("fair", 0, fee=3.0, advertised_success=0.8),
    tool("second", 1, fee=2.0, advertised_success=0.7),
    tool("useless", -1, fee=0.5),
)


def test_the_cheapest_tool_comes_first_and_the_next_cheapest_after_its_tries():
    world = small_world(*MIXED, failures=BROKEN)
    assert played(CheapestAgent(), world) == ["dead server_error", "dead server_error", "fair ok", "second ok"]
    assert played(CheapestAgent(tries=1), world) == ["dead server_error", "fair ok", "second ok"]


def test_greed_goes_by_advertised_success_per_price():
    world = small_world(*MIXED, failures=BROKEN)
    assert played(GreedyAgent(), world) == ["fair ok", "second ok"]
    flattered = (MIXED[0], tool("dead", 0, fee=1.0, reliability=0.0, advertised_success=0.9), *MIXED[2:])
    assert played(GreedyAgent(tries=1), small_world(*flattered, failures=BROKEN)) == [
        "dead server_error",
        "fair ok",
        "second ok",
    ]


def test_a_chain_is_followed_in_its_order():
    world = small_world(tool("last", 0), tool("first", 1), after={0: (1,)})
    for agent in (CheapestAgent(), GreedyAgent(), OracleAgent(), ExpectedOptimumAgent()):
        assert played(agent, world) == ["first ok", "last ok"]


def test_what_does_not_fit_the_budget_is_not_called():
    world = small_world(*MIXED, failures=BROKEN)
    assert played(CheapestAgent(), world, budget={"price": 4.5}) == ["dead server_error", "dead server_error", "second ok"]
    for enforcement in ("terminate", "refuse", "record"):
        for price in (1.0, 2.0, 4.0, 5.0, 7.5):
            for agent in BUDGETED:
                episode = play(env_of(world, budget={"price": price}, enforcement=enforcement), agent(), 0, 0)
                assert episode.ledger.price <= price and episode.exceeded is None
                assert all(call.status.label != "over_budget" for call in episode.calls)


def test_a_number_of_calls_is_kept_too():
    world = small_world(*MIXED, failures=BROKEN)
    for agent in BUDGETED:
        episode = play(env_of(world, budget={"calls": 1}), agent(), 0, 0)
        assert episode.ledger.calls <= 1 and episode.exceeded is None


def test_banned_tools_are_left_alone():
    world = small_world(tool("a", fee=1.0), tool("b", fee=2.0), events=[WorldEvent(0.0, "ban", (0,))])
    for agent in BUDGETED:
        assert played(agent(), world)[-1] == "b ok"


def test_nothing_to_call_means_finish():
    world = small_world(tool("useless", -1))
    for agent in BUDGETED:
        assert played(agent(), world) == []


def test_the_oracle_knows_the_dead_and_the_informed_know_their_reliability():
    world = small_world(*MIXED, failures=BROKEN)
    assert played(OracleAgent(), world) == ["fair ok", "second ok"]
    assert sorted(played(ExpectedOptimumAgent(), world)) == ["fair ok", "second ok"]


def test_the_informed_turn_away_from_a_tool_that_failed():
    failures = FailureModel(slip=0.0, sticky=1.0, kinds={"server_error": 1.0}, persistence=0.0)
    world = small_world(tool("half", fee=1.0, reliability=0.5), tool("sure", fee=4.0), failures=failures, copies=30)
    stories = {tuple(played(ExpectedOptimumAgent(), world, number)) for number in range(30)}
    assert ("half ok",) in stories
    assert any(story[0] == "half server_error" and story[-1] == "sure ok" for story in stories)


@pytest.mark.parametrize("agent", [CheapestAgent, GreedyAgent, ExpectedOptimumAgent, OracleAgent])
def test_an_agent_calls_the_same_tools_one_by_one_and_where_calls_could_run_side_by_side(agent):
    world = small_world(*MIXED, after={1: (0,)}, copies=6)
    for task in range(6):
        assert played(agent(), world, task) == played(agent(), world, task, concurrent=True) != []


def test_random_draws_from_the_mask_by_its_own_seed():
    world = small_world(*MIXED, failures=BROKEN)

    def actions(agent_seed):
        env, agent = env_of(world, mask="legal"), RandomAgent()
        observation, info = env.reset(seed=1)
        tell = begin(agent, env, observation, info, agent_seed)
        taken, over = [], False
        while not over:
            action = agent.act(observation, tell(info))
            assert info["action_mask"][action]
            taken.append(action)
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        return taken

    runs = [actions(seed) for seed in range(40)]
    assert runs[0] == actions(0)
    assert len({tuple(run) for run in runs}) > 20
    assert {action for run in runs for action in run} == set(range(6))


@pytest.mark.parametrize("tries", [0, -1, 1.5, True, "2"])
def test_tries_must_be_a_positive_number(tries):
    with pytest.raises(ConfigError, match="tries"):
        CheapestAgent(tries=tries)


def test_an_agent_for_numbers_says_so_in_the_text_view():
    env = gym.make("costgym/MarketplaceChat-v0", disable_env_checker=True)
    observation, info = env.reset(seed=0)
    with pytest.raises(ConfigError, match="expected a seat in costgym/Marketplace-v0, got one in costgym/MarketplaceChat-v0"):
        begin(CheapestAgent(), env, observation, info, 0)


@pytest.mark.parametrize(
    ("scenario", "grading"),
    [
        ("marketplace", "strict"),
        ("marketplace", "judge"),
        pytest.param("storm", "strict", marks=pytest.mark.slow),  # where the oracle searches longest
        ("storm", "judge"),
        ("faas", "strict"),
        ("faas", "judge"),
    ],
)
def test_no_agent_beats_the_oracle_and_greedy_beats_random(scenario, grading):
    budget = {"price": 20.0 if scenario != "faas" else 0.05}
    env = gym.make(
        "costgym/Marketplace-v0", scenario=scenario, split="test", budget=budget, grading=grading, disable_env_checker=True
    )
    passes, spent = {}, {}
    for agent in (RandomAgent(), CheapestAgent(), GreedyAgent(), ExpectedOptimumAgent(), OracleAgent()):
        results = []
        for number in env.unwrapped.numbers[: 40 if grading == "strict" else 15]:
            episode = play(env, agent, number, 0)
            results.append(env.unwrapped.succeeded)
            # under pay-per-use a call may cost more than its quote; the oracle alone knows
            if agent.name == "oracle" or (agent.name != "random" and scenario != "faas"):
                assert episode.ledger.price <= budget["price"] + 1e-12
            spent.setdefault(agent.name, []).append(episode.ledger.price)
        passes[agent.name] = np.array(results)
    best = passes["oracle"].mean()
    assert all(best >= passed.mean() for passed in passes.values())
    assert passes["greedy"].mean() > passes["random"].mean()
    if grading == "strict" and scenario == "marketplace":
        for name, passed in passes.items():
            assert not (passed & ~passes["oracle"]).any()
            both = passed & passes["oracle"]
            assert (np.array(spent["oracle"])[both] <= np.array(spent[name])[both] + 1e-9).all()
