"""Sessions over forged worlds: the world's tools, the sessions' rules, in Python and in compiled code."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION, SESSION_CHAT
from costgym.envs.base import base_env
from costgym.experiments.play.episodes import play
from costgym.simulators.errors import ConfigError
from costgym.simulators.forge.folder import WorldFolder
from costgym.simulators.scenario import load_scenario, parse_scenario
from costgym.simulators.sessions import draw
from costgym.simulators.sessions.draw import draw_session
from costgym.simulators.sessions.informed import limits, value_bound
from costgym.simulators.sessions.plan import SPREADS
from costgym.simulators.sessions.rules import SessionRules
from tests.helpers.command_line import invoke
from tests.helpers.specifications import forged_worlds


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forged_worlds(tmp_path_factory.mktemp("forged"))


def test_the_worlds_of_a_folder_take_turns_and_give_their_tools(worlds: Path) -> None:
    folder = WorldFolder(worlds, parse_scenario)
    rules = SessionRules(scenario=load_scenario(worlds), tools=10)
    for number in range(2 * len(folder)):
        session, catalog = (
            draw_session(rules, number),
            {tool.name: tool for tool in folder[number % len(folder)].build().catalog},
        )
        assert 1 <= session.kinds <= rules.capabilities and len(session.tools) <= 10
        for slot, tool in enumerate(session.tools):
            mine, profile = catalog[tool.name], session.profiles
            fields = ("fee", "reliability", "cold_start_s", "rate_limit", "quota", "advertised_success", "cpu_cons_mb")
            assert all(getattr(tool.profile, name) == getattr(mine.profile, name) for name in fields)
            assert tool.profile.latency_s == (mine.profile.latency_at(1),) and profile.latency_spread[slot] in SPREADS
            assert (tool.provider, tool.description) == (mine.provider, mine.description)
            rivals = {catalog[other.name].capability for other in session.tools if other.capability == tool.capability}
            assert rivals == {mine.capability}
        assert set(session.capability.tolist()) <= set(range(session.kinds))
    again = draw_session(SessionRules.model_validate_json(rules.model_dump_json()), 3)
    assert again.tools == draw_session(rules, 3).tools


def test_a_world_that_reads_nothing_leaves_its_turn_to_the_next(worlds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, first, rivals_of = SessionRules(scenario=load_scenario(worlds)), load_scenario(worlds / "0").name, draw._rivals
    monkeypatch.setattr(draw, "_rivals", lambda world: {} if world.name == first else rivals_of(world))
    names = {tool.name for tool in load_scenario(worlds / "1").build().catalog}
    assert {tool.name for tool in draw_session(rules, 0).tools} <= names
    monkeypatch.setattr(draw, "_rivals", lambda world: {})
    with pytest.raises(ConfigError, match="a session needs tools that read"):
        draw_session(rules, 2)


def test_slots_without_a_tool_are_zero_masked_and_refused(worlds: Path) -> None:
    env = costgym.make(SESSION, scenario=worlds, tools=40, queries=3, mask="legal")
    observation, info = env.reset(seed=0)
    count = len(base_env(env).account().candidates)
    assert count < 40 and not observation["tools"][count:].any() and observation["tools"][:count].any(axis=1).all()
    assert info["action_mask"][:count].all() and not info["action_mask"][count:40].any()
    _, reward, *_, info = env.step(count)
    assert (reward, info["cost_price"], info["at_s"]) == (0.0, 0.0, 0.05)


def test_agents_play_and_the_bound_holds_over_forged_worlds(worlds: Path) -> None:
    env = costgym.make(SESSION, scenario=worlds, queries=30)
    earned = {
        name: [play(env, make_agent(name, SESSION), number, 0) for number in range(12)] for name in ("paced", "informed-paced")
    }
    rules = base_env(env).rules
    drawn = [draw_session(rules, number) for number in range(12)]
    bound = np.mean([value_bound(session, *limits(session)) / session.value.sum() for session in drawn])
    shares = {name: np.mean([result.value_share for result in results]) for name, results in earned.items()}
    assert shares["paced"] > 0.1 and shares["informed-paced"] < bound


def test_agents_are_told_the_public_rules_and_not_the_world(worlds: Path) -> None:
    env = base_env(costgym.make(SESSION, scenario=worlds))
    env.reset(seed=0)
    seat: Any = env.seat(SESSION)
    world = load_scenario(worlds)
    assert (
        seat.rules.scenario is None and seat.rules.failures.beta == world.failures.beta and not seat.rules.failures.persistence
    )


@pytest.mark.parametrize(("env_id", "agent"), [(SESSION, "paced"), (SESSION_CHAT, "cheapest")])
def test_a_session_over_worlds_is_recorded_and_verified_elsewhere(
    worlds: Path, tmp_path: Path, env_id: str, agent: str
) -> None:
    source = tmp_path / "worlds"
    source.mkdir()
    for file in worlds.iterdir():
        (source / file.name).write_bytes(file.read_bytes())
    options = ("--env", env_id, "--agent", agent, "--episodes", 3, "--split", "train", "--scenario", source)
    assert invoke("collect", *options, "--out", tmp_path / "runs").exit_code == 0
    moved = source.rename(tmp_path / "elsewhere")
    checked = invoke("verify", tmp_path / "runs", "--data", moved)
    assert checked.exit_code == 0 and "3 episodes verified, 0 problems" in checked.output


def test_worlds_whose_rules_or_prices_no_session_has_are_refused_in_words(worlds: Path) -> None:
    world = load_scenario(worlds / "0")
    with pytest.raises(ConfigError, match=r"a session needs pricing: 'flat', and .* has 'faas'"):
        draw_session(SessionRules(scenario=world.model_copy(update={"pricing": "faas"})), 0)
    dear = world.source.tools[0].model_copy(update={"profile": {"fee": 50.0}})
    source = world.source.model_copy(update={"tools": (dear, *world.source.tools[1:])})
    with pytest.raises(ConfigError, match=f"prices up to 10, .*; {dear.name} of .* costs 50"):
        draw_session(SessionRules(scenario=world.model_copy(update={"source": source})), 0)


@pytest.mark.native
@pytest.mark.parametrize("memory", ["counts", "raw"])
def test_python_native_and_compiled_sessions_over_worlds_are_equal(worlds: Path, memory: str) -> None:
    pytest.importorskip("numba", reason="needs the extra `train`")
    from gymnasium.vector import AutoresetMode

    from costgym.envs.native import SessionVectorEnv
    from costgym.envs.sessions.session import MarketplaceSessionEnv
    from tests.helpers.lockstep import CompiledSessions, run_views, session_actions

    for native, mask in ((SessionVectorEnv, "legal"), (CompiledSessions, "useful")):
        met = run_views(
            4, 300, 5, AutoresetMode.NEXT_STEP, None, MarketplaceSessionEnv, native, session_actions,
            scenario=worlds, queries=8, memory=memory, mask=mask, drift=0.1, outage_every_s=20.0,
        )  # fmt: skip
        assert met["terminated"] > 20
