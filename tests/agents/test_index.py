"""The honest index policy, and what it and the informed policy are worth beside each other."""

import numpy as np
import pytest

import costgym
from costgym.agents.classic import DoNothingAgent
from costgym.agents.index import BayesIndexAgent, cut_given
from costgym.agents.registry import agents, make_agent
from costgym.envs.marketplace import MarketplaceEnv
from costgym.experiments.play.episodes import play
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.failures import PRESETS, draw_reliability
from costgym.simulators.world.belief import reliabilities, states_given
from tests.helpers.worlds import scenario_of, small_world, tool

NUMERIC = "costgym/Marketplace-v0"


def test_reliabilities_have_the_mean_of_their_preset() -> None:
    for name in ("rapidapi-2023", "rapidapi-2024", "storm"):
        points, shares = reliabilities(PRESETS[name])
        assert shares.sum() == pytest.approx(1.0)
        assert points @ shares == pytest.approx(PRESETS[name].usable, abs=0.01)


def test_what_an_advert_says_is_how_reliable_tools_with_that_advert_are() -> None:
    model = PRESETS["rapidapi-2023"]
    drawn = [draw_reliability(model, 5, f"tool {number}") for number in range(6000)]
    for low, high in ((0.5, 0.65), (0.75, 0.85), (0.9, 0.99), (1.0, 1.1)):
        here = [advert for advert in drawn if low <= advert.success < high]
        advertised = np.mean([states[0] + states[1] / 2 for states in (states_given(model, a.success) for a in here)])
        assert advertised == pytest.approx(np.mean([advert.reliability for advert in here]), abs=0.04)


def test_slow_adverts_are_cut_off() -> None:
    assert cut_given(1.0) == 0.0
    assert 0.0 < cut_given(20.0) < cut_given(40.0) < cut_given(200.0) < cut_given(1000.0) == pytest.approx(1.0)


def test_a_tool_that_the_time_out_will_cut_is_not_called() -> None:
    slow = tool("slow", fee=1.0, latency_s=90.0, advertised_latency_s=90.0, timeout_s=30.0)
    world = small_world(slow, tool("quick", fee=9.0), max_price=100.0)
    env = MarketplaceEnv(scenario=scenario_of(world), split="test", budget={})
    for agent in (BayesIndexAgent(), make_agent("oracle-informed")):
        assert [call.tool for call in play(env, agent, 0, 0).calls] == ["quick"]
    assert play(env, make_agent("greedy"), 0, 0).calls[0].tool == "slow"


def test_it_is_an_honest_agent() -> None:
    entry = next(entry for entry in agents(NUMERIC) if entry.name == "bayes-index")
    assert not entry.privileged and not BayesIndexAgent.privileged
    with pytest.raises(UnknownName, match="rapidapi-2023"):
        BayesIndexAgent("rapidapi-2032")
    with pytest.raises(ConfigError, match="alpha"):
        BayesIndexAgent(alpha=1.0)


def returns(agent: str, seeds: int, tasks: int, **settings: object) -> np.ndarray:
    env = costgym.make(NUMERIC, split="test", disable_env_checker=True, **settings)
    made, observed = make_agent(agent, NUMERIC), []
    for seed in range(seeds):
        for number in env.unwrapped.numbers[:tasks]:  # type: ignore[attr-defined]
            play(env, made, number, seed)
            observed.append(env.unwrapped.quality())  # type: ignore[attr-defined]
    return np.array(observed)


@pytest.mark.parametrize("scenario", ["marketplace", "marketplace-hard", "storm"])
def test_nobody_without_foresight_beats_the_informed_policy(scenario: str) -> None:
    informed = returns("oracle-informed", 1, 100, scenario=scenario)
    others = ("bayes-index", "greedy", "cheapest", "random", "do-nothing")
    gaps = {name: informed - returns(name, 1, 100, scenario=scenario) for name in others}
    assert [name for name, gap in gaps.items() if gap.mean() + 1.96 * gap.std() / len(gap) ** 0.5 <= 0.0] == []
    assert gaps["greedy"].mean() > 0.02


@pytest.mark.slow
def test_nobody_beats_the_informed_policy_in_three_times_four_hundred_episodes() -> None:
    informed = returns("oracle-informed", 3, 400)
    for name in ("bayes-index", "greedy", "cheapest", "random", "do-nothing"):
        gap = informed - returns(name, 3, 400)
        assert gap.mean() - 1.96 * gap.std() / len(gap) ** 0.5 > 0.0, name


@pytest.mark.parametrize("env_id", [name for name in costgym.ENV_IDS if "Chat" not in name])
def test_doing_nothing_takes_at_most_what_the_cheapest_end_costs(env_id: str) -> None:
    env, agent = costgym.make(env_id, disable_env_checker=True), make_agent("do-nothing", env_id)
    for seed in range(5):
        episode = play(env, agent, None, seed)
        calls = [call for call in episode.calls if call.k]
        if "OpenCATP-v" in env_id:
            assert calls  # a plan has at least one tool
        else:
            assert calls == []


def test_doing_nothing_scores_nothing_in_the_marketplace() -> None:
    assert (returns("do-nothing", 1, 20) == 0.0).all()
    assert DoNothingAgent.name == "do-nothing"
