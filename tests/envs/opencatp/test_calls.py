"""OpenCATPCalls-v0: plans made by calling tools."""

import random
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from costgym.envs.opencatp.calls import CALL_NAMES, CALLS, OpenCATPCallsEnv
from costgym.simulators.errors import ConfigError, EpisodeOver, UnknownName
from costgym.simulators.opencatp import v100
from costgym.simulators.opencatp.profile import Profile, ToolCost
from costgym.simulators.opencatp.tools import TOOLS
from costgym.simulators.plan import Plan
from costgym.simulators.quality import quality_of_plan
from costgym.simulators.status import Status
from tests.helpers.opencatp_scores import RuleScores

IN = "input_of_query"
WAIT, FINISH = len(CALLS), len(CALLS) + 1
ACTION_NAMES = (*CALL_NAMES, "wait", "finish")


def make(**settings: Any) -> OpenCATPCallsEnv:
    return OpenCATPCallsEnv(**({"tasks": "all", "scores": RuleScores(), "concurrent": True} | settings))


def call(tool: str, source: str = IN) -> int:
    return CALLS.index((tool, source))


def test_gymnasium_finds_nothing_wrong() -> None:
    for mode in ("ansi", "rgb_array"):
        check_env(make(render_mode=mode))


def test_stable_baselines_finds_nothing_wrong() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker", reason="needs the extra `train`")
    checker.check_env(make(), warn=False)


def test_there_is_an_action_for_every_call_that_types_allow() -> None:
    assert len(CALLS) == 4 * 4 + 3 * 5 + 3 * 5
    assert len(set(ACTION_NAMES)) == len(ACTION_NAMES) == make().action_space.n == 48


def test_two_readers_run_at_once() -> None:
    env, profile = make(), v100()
    env.reset(options={"task": 226, "level": 0})
    events = []
    for action in (call("image_captioning"), call("object_detection"), WAIT, WAIT, FINISH):
        _, reward, over, truncated, info = env.step(action)
        events.append((info["execution_time_s"], info["price"], over))
    detect, caption = (profile.price(tool, 0) for tool in ("object_detection", "image_captioning"))
    first, second = (profile.seconds(tool, 0) for tool in ("object_detection", "image_captioning"))
    assert events == [
        (0.0, 0.0, False), (0.0, 0.0, False), (first, detect, False),
        (second, detect + caption, False), (second, detect + caption, True),
    ]  # fmt: skip
    assert (info["plan_valid"], info["score"], reward, truncated) == (True, 0.5, 0.25, False)
    assert info["quality_of_plan"] == pytest.approx(quality_of_plan(0.5, detect + caption))
    assert env.plan() == Plan.from_list(["image_captioning", [IN], "object_detection", [IN]])


def test_only_what_is_there_can_be_read_and_each_tool_called_once() -> None:
    env = make()
    _, info = env.reset(options={"task": 24})
    allowed = {ACTION_NAMES[action] for action in np.flatnonzero(info["action_mask"])}
    assert allowed == {f"{tool} on {source}" for tool, source in CALLS if source == IN} | {"finish"}
    _, _, _, _, info = env.step(call("image_denoising"))
    assert not info["action_mask"][call("image_denoising")]
    assert not info["action_mask"][call("image_captioning", "image_denoising")]
    assert info["action_mask"][WAIT]
    observation, _, _, _, info = env.step(WAIT)
    assert info["action_mask"][call("image_captioning", "image_denoising")]
    assert not info["action_mask"][WAIT]
    assert observation["tools"][4, 4:7].tolist() == [1.0, 0.0, 1.0]


def test_an_action_outside_the_mask_does_nothing() -> None:
    env = make()
    env.reset(options={"task": 24})
    for action in (WAIT, call("image_captioning", "image_denoising")):
        _, reward, over, truncated, info = env.step(action)
        assert (reward, over, truncated, info["price"], info["execution_time_s"]) == (0.0, False, False, 0.0, 0.0)
        assert info["status"] == Status.FORBIDDEN
    assert env.step(call("image_denoising"))[4]["status"] == Status.OK


def test_finishing_with_nothing_scores_and_costs_nothing() -> None:
    env = make()
    env.reset(options={"task": 24})
    _, reward, over, _, info = env.step(FINISH)
    assert (reward, over, info["plan_valid"], info["quality_of_plan"]) == (0.0, True, False, 0.0)
    assert env.step(FINISH)[1:3] == (0.0, True)


def test_a_part_of_what_is_wanted_scores_its_part_but_is_no_valid_plan() -> None:
    env = make()
    env.reset(options={"task": 226})
    for action in (call("image_captioning"), WAIT, FINISH):
        info = env.step(action)[4]
    assert (info["score"], info["plan_valid"], info["is_success"]) == (0.25, False, False)


def test_one_slot_runs_one_after_the_other() -> None:
    env, profile = make(slots=1), v100()
    env.reset(options={"task": 226, "level": 0})
    for action in (call("image_captioning"), call("object_detection"), WAIT, WAIT):
        info = env.step(action)[4]
    assert info["execution_time_s"] == profile.seconds("image_captioning", 0) + profile.seconds("object_detection", 0)


def test_a_passed_limit_ends_the_episode_without_a_score() -> None:
    env = make(budget={"seconds": 0.2})
    env.reset(options={"task": 24, "level": 0})
    env.step(call("image_captioning"))
    _, _, over, _, info = env.step(WAIT)
    assert (over, info["score"], info["is_success"], env.account().exceeded) == (True, 0.0, False, "seconds")


def test_a_call_that_the_budget_cannot_pay_is_masked_and_refused_by_default() -> None:
    profile = v100()
    caption, detect = (profile.price(tool, 0) for tool in ("image_captioning", "object_detection"))
    for limit, paid in ((caption + detect, True), (np.nextafter(caption + detect, 0.0), False)):
        env = make(concurrent=False, budget={"price": float(limit)})
        env.reset(options={"task": 226, "level": 0})
        info = env.step(call("image_captioning"))[4]
        second = call("object_detection")
        assert info["action_mask"][second] == paid and info["action_mask"][env.finish_action]
        observation, reward, over, _, info = env.step(second)
        assert info["budget_remaining_price"] == (0.0 if paid else limit - caption) and not over
        assert paid or (reward, info["cost_calls"], info["cost_seconds"]) == (0.0, 0, 0.0)
        assert observation in env.observation_space
        assert env.step(env.finish_action)[4]["score"] == (0.5 if paid else 0.25)


@pytest.mark.parametrize("budget", [{"seconds": 0.2}, {"calls": 0.5}])
def test_seconds_and_calls_are_known_beforehand_too(budget: dict[str, float]) -> None:
    env = make(concurrent=False, budget=budget)
    _, info = env.reset(options={"task": 24, "level": 0})
    assert not info["action_mask"][call("image_captioning")]
    assert info["action_mask"][: len(CALLS)].any() == ("seconds" in budget)


def test_calls_that_still_run_count_with_their_whole_price() -> None:
    profile = v100()
    caption, detect = (profile.price(tool, 0) for tool in ("image_captioning", "object_detection"))
    env = make(budget={"price": caption + 0.5 * detect}, enforcement="refuse")
    env.reset(options={"task": 226, "level": 0})
    info = env.step(call("image_captioning"))[4]
    assert info["price"] == 0.0 and not info["action_mask"][call("object_detection")]


def test_loading_counts_as_time() -> None:
    profile = Profile("cold", {tool: ToolCost((1000.0,) * 4, 100.0, 100.0, cold_start_s=2.0) for tool in TOOLS})
    for cold, allowed in ((False, True), (True, False)):
        env = make(profile=profile, concurrent=False, cold_starts=cold, budget={"seconds": 2.5})
        _, info = env.reset(seed=0)
        assert info["action_mask"][: len(CALLS)].any() == allowed


def test_what_a_passed_limit_does_is_the_users_choice() -> None:
    assert (make(concurrent=False).enforcement, make().enforcement) == ("refuse", "terminate")
    ends = {}
    for enforcement in ("terminate", "record"):
        env = make(concurrent=False, budget={"seconds": 0.2}, enforcement=enforcement)
        env.reset(options={"task": 24, "level": 0})
        assert env.action_masks()[call("image_captioning")]
        over = env.step(call("image_captioning"))[2]
        info = env.step(env.finish_action)[4]
        ends[enforcement] = over, info["score"], info["is_success"], env.account().exceeded
    assert ends == {"terminate": (True, 0.0, False, "seconds"), "record": (False, 0.0, False, "seconds")}
    with pytest.raises(UnknownName, match="enforcement"):
        make(enforcement="ask")


def test_steps_are_limited() -> None:
    env = make(max_steps=3)
    env.reset(options={"task": 24})
    assert [env.step(WAIT)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


@given(st.integers(0, 2**31), st.one_of(st.none(), st.integers(1, 2)))
def test_the_return_is_the_quality_and_time_never_runs_back(seed: int, slots: int | None) -> None:
    env, rng = make(slots=slots), random.Random(seed)
    _, info = env.reset(seed=seed)
    total, now, over = 0.0, 0.0, False
    while not over:
        assert info["action_mask"].any()
        observation, reward, over, truncated, info = env.step(rng.choice(np.flatnonzero(info["action_mask"]).tolist()))
        assert env.observation_space.contains(observation)
        assert info["execution_time_s"] >= now
        total, now, over = total + reward, info["execution_time_s"], over or truncated
    assert total == pytest.approx(quality_of_plan(info["score"], info["price"]), abs=1e-12)
    assert info["quality_of_plan"] == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("settings", [{"slots": 0}, {"slots": 1.5}, {"max_steps": 0}, {"gpu_capacity_mb": 10.0}, {"alpha": 2}])
def test_settings_that_make_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        make(**settings)


def test_memory_in_fractions_is_given_back_whole() -> None:
    tools = {tool: ToolCost((1000.0,) * 4, 100.0, 50.1 + 33.3 * number) for number, tool in enumerate(TOOLS)}
    for extra in range(20):
        env = make(profile=Profile("odd", tools), gpu_capacity_mb=349.8 + 7.7 * extra)
        env.reset(seed=extra)
        for tool in ("image_deblurring", "image_denoising", "image_captioning", "image_super_resolution"):
            info = env.step(call(tool))[4]
        while info["action_mask"][WAIT]:
            info = env.step(WAIT)[4]
        assert env._episode.in_flight == 0, extra


def test_a_step_before_the_first_reset() -> None:
    with pytest.raises(EpisodeOver, match="reset"):
        make().step(0)
    with pytest.raises(EpisodeOver, match="reset"):
        make().action_masks()


def test_what_still_runs_is_drawn_as_running() -> None:
    env = make(render_mode="ansi")
    env.reset(options={"task": 226, "level": 0})
    for action in (call("image_captioning"), call("object_detection"), WAIT):
        env.step(action)
    captioning, detection = [line for line in env.render().splitlines() if line[:4] in ("  1 ", "  2 ")]
    assert "image_captioning" in captioning and "running" in captioning
    assert "object_detection" in detection and "ok" in detection
