"""`costgym/MarketplaceSession-v0`: what it shows, what it allows, and what it is worth."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION
from costgym.envs import columns
from costgym.envs.features.session_features import query_features, tool_features, without_counts
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.experiments.play.episodes import play
from costgym.experiments.play.trajectories.record import record
from costgym.experiments.play.trajectories.replay import replay_episode
from costgym.simulators.errors import CostGymError
from costgym.simulators.sessions.draw import draw_session
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.status import LIMITS, Status
from tests.helpers.command_line import invoke

SMALL: dict[str, Any] = {"queries": 12, "tools": 8, "capabilities": 2, "providers": 2}

SIDE: dict[str, Any] = {**SMALL, "concurrent": True}


def walk(env: Any, episodes: int, seed: int = 0) -> Any:
    generator = np.random.default_rng(seed)
    for number in range(episodes):
        observation, info = env.reset(seed=seed + number)
        over = False
        yield observation, 0.0, info
        while not over:
            action = int(generator.choice(np.flatnonzero(info["action_mask"])))
            observation, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            yield observation, reward, info


def test_the_names_of_the_columns_are_as_many_as_the_columns() -> None:
    for memory in ("counts", "raw"):
        env = MarketplaceSessionEnv(memory=memory)
        shapes = {name: space.shape for name, space in env.observation_space.spaces.items()}  # type: ignore[attr-defined]
        rules = SessionRules()
        width = len(tool_features(rules, memory))
        assert shapes == {"tools": (24, width), "query": (len(query_features(rules)),), "resources": (5,)}


@pytest.mark.parametrize("settings", [{}, SMALL, {"memory": "raw"}, {"mask": "legal"}, {"budget": {}}, {"queries": 1}, SIDE])
def test_every_observation_lies_within_the_space(settings: dict[str, Any]) -> None:
    env = MarketplaceSessionEnv(**settings)
    for observation, _, info in walk(env, 3):
        assert env.observation_space.contains(observation)
        assert 0 <= info["query"] <= env.rules.queries


def test_version_1_shows_all_that_references_read_beside_the_public_rules() -> None:
    env = costgym.make("costgym/MarketplaceSession-v1")
    at, rules = columns(env), env.unwrapped.rules

    def of_log(share: float, most: float) -> float:
        return float(np.expm1(float(share) * np.log1p(most)))

    for observation, _, info in walk(env, 2):
        resources, query = observation["resources"], observation["query"]
        left = of_log(resources[at["resources"]["credits"]], 1e5), of_log(resources[at["resources"]["time"]], 1e6)
        assert left == pytest.approx(
            (max(0.0, info["budget_remaining_price"]), max(0.0, info["budget_remaining_seconds"])), rel=1e-4, abs=1e-4
        )
        assert of_log(resources[at["resources"]["clock"]], 1e4) == pytest.approx(info["at_s"], rel=1e-4, abs=1e-4)
        if info["query"] < rules.queries:
            assert rules.queries - round(of_log(query[at["query"]["left"]], 1e4)) == info["query"]
        ends = {Status.TIMEOUT: "last_timeout", Status.CONNECTION_ERROR: "last_not_connected", Status.OUTAGE: "last_outage"}
        shown = {name for name in (*ends.values(), "last_limited") if resources[at["resources"][name]]}
        expected = {"last_limited"} if info["status"] in LIMITS else {ends[info["status"]]} if info["status"] in ends else set()
        assert shown == expected
        assert resources[at["resources"]["no_price_limit"]] == 0.0 == 1.0 - resources[at["resources"]["no_calls_limit"]]


def test_levels_are_ids_too_and_shifted_sessions_are_played_by_agents_that_know_the_rules_of_train() -> None:
    for env_id, level in costgym.LEVEL_IDS.items():
        easy, named = costgym.make(env_id).unwrapped, costgym.make("costgym/MarketplaceSession-v1", level=level).unwrapped
        assert easy.rules == named.rules and easy.observation_space == named.observation_space
    env = costgym.make("costgym/MarketplaceSessionEasy-v1", split="shifted", queries=12)
    env.reset(seed=0)
    seat, rules = env.unwrapped.seat("costgym/MarketplaceSession-v1"), env.unwrapped.rules
    assert (rules.drift, seat.rules.drift, rules.queries, seat.rules.queries) == (0.01, 0.0, 12, 12)
    with pytest.raises(CostGymError, match="unknown level 'harder'; nearest: hard"):
        costgym.make("costgym/MarketplaceSession-v1", level="harder")


def test_tools_of_version_1_move_as_often_and_their_facts_live_as_long_as_the_rules_say() -> None:
    rules = SessionRules(world=1, drift=0.05, price_drift=0.1, ttl_s=50.0, repeat=0.4)
    drawn = [draw_session(rules, number) for number in range(60)]
    moved = np.mean([(session.factors[1:] != session.factors[:-1]).mean() for session in drawn])
    again = np.mean([(session.fact != np.arange(rules.queries)).mean() for session in drawn])
    lives = np.concatenate([session.lives_s for session in drawn]).mean()
    # a fifth of the moves chooses the same factor again
    assert (moved, again, lives) == pytest.approx((0.08, 0.396, 50.0), rel=0.05)
    assert draw_session(rules.model_copy(update={"world_seed": 7}), 0).value.tolist() != drawn[0].value.tolist()


def test_raw_memory_shows_the_last_call_alone() -> None:
    for observation, _, _ in walk(MarketplaceSessionEnv(memory="raw", mask="legal"), 3):
        assert observation["tools"][:, -2:].sum() <= 1.0


@pytest.mark.parametrize("settings", [{}, SIDE])
def test_without_the_counts_an_observation_is_the_raw_one(settings: dict[str, Any]) -> None:
    walks = [walk(MarketplaceSessionEnv(**settings, memory=memory, mask="legal"), 3) for memory in ("counts", "raw")]
    for (counted, _, info), (raw, _, _) in zip(*walks, strict=True):
        stripped = without_counts(MarketplaceSessionEnv(**settings).rules, counted["tools"], info["tool"])
        assert (stripped == raw["tools"]).all()


def test_counts_are_the_agents_own() -> None:
    env = MarketplaceSessionEnv(mask="legal", budget={})
    columns = tool_features(env.rules, "counts")
    env.reset(seed=1)
    ended = {slot: [] for slot in range(24)}
    for step in range(60):
        slot = step % 5
        observation, *_, info = env.step(slot)
        if info["status"] not in (Status.RATE_LIMITED, Status.QUOTA_EXCEEDED):
            ended[slot].append(info["status"] == Status.OK)
    for slot, ends in ended.items():
        row = dict(zip(columns, observation["tools"][slot].tolist(), strict=True))
        assert row["calls"] == pytest.approx(min(1.0, np.log1p(len(ends)) / 5.0), abs=1e-6)
        assert row["mean_ok"] == pytest.approx((sum(ends) + 1) / (len(ends) + 2), abs=1e-6)


def test_the_return_is_the_value_or_the_value_less_the_price() -> None:
    for reward in ("value", "value-minus-price"):
        env = MarketplaceSessionEnv(reward=reward, **SMALL)
        total = 0.0
        for _, gained, _ in walk(env, 1, seed=3):
            total += gained
        episode = env.account()
        price = episode.ledger.price if reward == "value-minus-price" else 0.0
        assert total == pytest.approx(episode.value - price) == pytest.approx(env.quality())
        assert env.figures()["value_share"] == episode.value_share


def test_the_limits_are_computed_for_each_session_unless_given() -> None:
    env = MarketplaceSessionEnv()
    seen = set()
    for seed in range(4):
        env.reset(seed=seed)
        seen.add(tuple(env.account().budget.as_dict().items()))
    assert len(seen) == 4 and all(dict(limits).keys() == {"price", "seconds"} for limits in seen)
    one_env = MarketplaceSessionEnv(budget={"price": 50})
    one_env.reset(seed=0)
    assert one_env.budget.as_dict() == {"price": 50}


def test_splits_share_no_session_and_a_session_can_be_named() -> None:
    numbers = [set(MarketplaceSessionEnv(split=split).numbers) for split in ("train", "valid", "test")]
    assert not numbers[0] & numbers[1] and not numbers[1] & numbers[2] and not numbers[0] & numbers[2]
    env = MarketplaceSessionEnv()
    env.reset(seed=0, options={"task": 100_007})
    assert env.account().number == 100_007
    env.reset(seed=0, options={"task": "session-12"})
    assert env.account().task.id == "session-12"
    with pytest.raises(CostGymError, match="expected the number of a session, got 'seven'"):
        env.reset(options={"task": "seven"})


@pytest.mark.parametrize(("env_id", "split"), [(SESSION, "test"), ("costgym/MarketplaceSessionHard-v1", "shifted")])
def test_a_record_replays_and_names_its_world(env_id: str, split: str) -> None:
    env = costgym.make(env_id, split=split, **SMALL)
    trajectory, episode = record(env, make_agent("optimistic", SESSION), 100_301, 5)
    assert replay_episode(env, trajectory)[0] == trajectory
    assert trajectory.final["value_share"] == episode.value_share  # type: ignore[attr-defined]
    world = env.unwrapped
    spec = world.world_spec()  # type: ignore[attr-defined]
    again = costgym.make(env_id, **spec.arguments(world.world_settings()))  # type: ignore[attr-defined]
    assert replay_episode(again, trajectory)[0] == trajectory
    other = type(spec)({**spec.document, "rules": {**spec.document["rules"], "drift": 0.5}})
    assert other.digest != spec.digest


def test_a_session_is_collected_verified_and_drawn(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    collected = invoke("collect", "--env", SESSION, "--agent", "paced", "--episodes", 2, "--out", out)
    assert collected.exit_code == 0, collected.output
    verified = invoke("verify", out)
    assert verified.exit_code == 0, verified.output
    shown = invoke("show", out, "--out", tmp_path / "episode.html")
    assert shown.exit_code == 0, shown.output


def test_it_is_drawn_as_text_and_as_an_image() -> None:
    for mode in ("ansi", "rgb_array"):
        env = costgym.make(SESSION, render_mode=mode, **SMALL)
        play(env, make_agent("greedy", SESSION), None, 0)
        frame = env.render()
        assert isinstance(frame, str) if mode == "ansi" else frame.ndim == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory": "count"}, "nearest: counts"),
        ({"reward": "price"}, "known: value, value-minus-price"),
        ({"split": "unseen"}, "known: test, train, valid"),
        ({"drift": 2}, "drift"),
        ({"queries": 0}, "queries"),
        ({"success_share": 0}, "success_share"),
        ({"max_steps": -1}, "max_steps: expected a positive whole number or None"),
        ({"queris": 3}, "nearest: queries"),
    ],
)
def test_wrong_arguments_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CostGymError) as raised:
        costgym.make(SESSION, **settings)
    assert message in str(raised.value)


# -- calls side by side --------------------------------------------------------------------------------------------------------


def side_by_side(number: int, **settings: Any) -> tuple[MarketplaceSessionEnv, list[int]]:
    """A session at its start, and the tools that serve its first query."""
    env = MarketplaceSessionEnv(**{**SIDE, "budget": {}, "repeat": 0.0, **settings})
    _, info = env.reset(seed=number, options={"task": number})
    return env, np.flatnonzero(info["action_mask"][: env.rules.tools]).tolist()


def test_a_call_takes_no_time_until_it_is_waited_for_and_the_first_right_answer_passes_the_query() -> None:
    passed = 0
    for number in range(20):
        env, tools = side_by_side(number)
        for slot in tools:
            observation, reward, *_, info = env.step(slot)
            assert (info["at_s"], info["cost_price"], reward) == (0.0, 0.0, 0.0)
        columns = env.column_names["tools"]
        running = observation["tools"][:, [columns.index(name) for name in ("in_flight", "for_this", "running_s")]]
        assert running[tools].tolist() == [[0.25, 0.25, 0.0]] * len(tools)
        assert running.sum() == 0.5 * len(tools)
        episode = env.account()
        ends = {call.slot: (call.ends_s, call.status) for call in episode.flying}
        for slot in sorted(ends, key=lambda slot: ends[slot][0]):
            *_, info = env.step(env.wait_action)  # type: ignore[arg-type]
            assert (info["at_s"], info["status"], info["tool"]) == (ends[slot][0], ends[slot][1], slot)
        if Status.OK in [status for _, status in ends.values()]:
            passed += 1
            first = min(at_s for at_s, status in ends.values() if status is Status.OK)
            assert info["query"] == 1 and episode.passed == [True]
            assert episode.memory[0][0] >= first  # a later answer is fresher
    assert passed > 5


def test_a_call_outlives_its_query_and_is_billed_and_remembered() -> None:
    remembered = 0
    for number in range(20):
        env, tools = side_by_side(number)
        env.step(tools[0])
        env.step(env.next_action)
        price = float(
            env.account().quote(tools[0]) / env.account().factors[tools[0]] * env.account().session.factors[0, tools[0]]
        )
        *_, reward, _, _, info = env.step(env.wait_action)  # type: ignore[arg-type]
        assert (info["query"], info["cost_price"], reward) == (1, price, 0.0)
        if info["status"] == Status.OK:
            remembered += 1
            assert env.account().memory == {0: (info["at_s"], 0)} and env.account().called == 0
    assert remembered > 3


def test_a_cancelled_call_bills_what_it_has_used() -> None:
    """Nothing while it loads, its price once it runs; it takes no time, and tells nothing."""
    seen = set()
    for number in range(30):
        for pauses in (0, 1, 5):
            env, tools = side_by_side(number)
            episode = env.account()
            cold = [slot for slot in tools if episode.candidates[slot].profile.cold_start_s > 1.0] or tools
            slot = cold[0]
            env.step(slot)
            for _ in range(pauses):
                *_, info = env.step(env.pause_action)  # type: ignore[arg-type]
            if not env.action_masks()[env.cancel_action + slot]:  # type: ignore[operator]
                continue
            observation, *_, info = env.step(env.cancel_action + slot)  # type: ignore[operator]
            loaded = float(pauses) >= episode.candidates[slot].profile.cold_start_s
            assert (info["at_s"], info["status"]) == (float(pauses), Status.CANCELLED)
            assert info["cost_price"] == (episode.quote(slot) if loaded else 0.0) and info["cost_calls"] == int(loaded)
            assert not episode.in_flight and episode.reserved == 0.0 and episode.clock.is_idle
            assert observation["tools"][:, -3:].sum() == 0.0 and not info["action_mask"][env.wait_action]
            seen.add((loaded, pauses))
    assert {(False, 0), (True, 0), (False, 1), (True, 5)} <= seen


def test_one_call_at_a_time_plays_the_sequential_session_and_agents_do() -> None:
    for name in ("greedy", "bayes-index", "thompson", "optimistic", "informed-paced"):
        agent = make_agent(name, SESSION)
        one, other = (MarketplaceSessionEnv(**{**SIDE, "concurrent": form}, split="test") for form in (False, True))
        for seed in range(3):
            play(one, agent, None, seed)
            play(other, agent, None, seed)
            ends = [(env.account().value, env.account().ledger.price, env.account().now_s) for env in (one, other)]
            assert ends[0] == ends[1], name


def test_the_bound_of_calls_side_by_side_leaves_time_out() -> None:
    env, _ = side_by_side(3, budget={"price": 30, "seconds": 5.0})
    alone, _ = side_by_side(3, budget={"price": 30})
    assert env.optimum().quality == alone.optimum().quality


def test_a_fork_of_calls_side_by_side_goes_on_alike_and_a_drawn_one_ends_them_anew() -> None:
    ends = set()
    for seed in range(12):
        env, tools = side_by_side(4)
        for slot in tools[:2]:
            env.step(slot)
        env.step(env.pause_action)  # type: ignore[arg-type]
        twin, drawn, again = env.fork(), env.fork(seed=seed), env.fork(seed=seed)
        results = [env.step(env.wait_action)[4] for env in (env, twin, drawn, again)]  # type: ignore[arg-type]
        pairs = [(info["at_s"], info["status"], info["tool"]) for info in results]
        assert pairs[0] == pairs[1] and pairs[2] == pairs[3] and pairs[2][0] > 1.0
        ends.add(pairs[2])
    assert len(ends) > 6


def test_a_session_of_calls_side_by_side_is_recorded_and_replayed() -> None:
    env = costgym.make(SESSION, split="test", **SIDE)
    trajectory, _ = record(env, make_agent("random", SESSION), 100_301, 5)
    assert replay_episode(env, trajectory)[0] == trajectory
    world = env.unwrapped
    arguments = world.world_spec().arguments(world.world_settings())  # type: ignore[attr-defined]
    assert replay_episode(costgym.make(SESSION, **arguments), trajectory)[0] == trajectory
