"""OpenCATP-v0: plans written token by token."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from costgym.envs.opencatp.plans import OpenCATPEnv
from costgym.envs.tpl import ACTION_TOKENS, KINDS, decode, kind_of
from costgym.simulators.errors import ConfigError, EpisodeOver, UnknownName
from costgym.simulators.opencatp import tasks, v100
from costgym.simulators.quality import MAX_PRICE_USD, cumulative_reward, quality_of_plan
from costgym.simulators.status import Status
from tests.helpers.opencatp_scores import RuleScores

ROOT = Path(__file__).resolve().parents[3]
CAPTION_OF_DENOISED = (80006, 90017, 90001, 80008, 90006, 90001, 80001)


def make(**settings: Any) -> OpenCATPEnv:
    return OpenCATPEnv(**({"tasks": "all", "scores": RuleScores()} | settings))


def write(env: OpenCATPEnv, tokens: tuple[int, ...]) -> tuple[list[float], dict[str, Any]]:
    """Rewards of some official tokens and the last info."""
    rewards = []
    for token in tokens:
        _, reward, _, _, info = env.step(ACTION_TOKENS.index(token))
        rewards.append(reward)
    return rewards, info


def play(env: OpenCATPEnv, rng: random.Random, info: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    total, over = 0.0, False
    while not over:
        _, reward, over, truncated, info = env.step(rng.choice(np.flatnonzero(info["action_mask"]).tolist()))
        assert not truncated
        total += reward
    return total, info


def test_gymnasium_finds_nothing_wrong() -> None:
    check_env(make(), skip_render_check=True)
    for mode in ("ansi", "rgb_array"):
        check_env(make(render_mode=mode))


def test_stable_baselines_finds_nothing_wrong() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker", reason="needs the extra `train`")
    checker.check_env(make(), warn=False)


def test_a_plan_earns_its_quality_step_by_step() -> None:
    env, profile = make(), v100()
    env.reset(options={"task": 24, "sample": 3, "level": 1})
    rewards, info = write(env, CAPTION_OF_DENOISED)
    denoise, caption = profile.price("image_denoising", 1), profile.price("image_captioning", 1)
    charge = -0.5 / MAX_PRICE_USD
    assert rewards == pytest.approx([charge * denoise, 0, 0, charge * caption, 0, 0, 0.5 * 0.6], rel=1e-12)
    assert info["quality_of_plan"] == pytest.approx(quality_of_plan(0.6, denoise + caption), rel=1e-12)
    assert (info["plan_valid"], info["is_success"], info["score"]) == (True, True, 0.6)
    assert info["price"] == denoise + caption
    assert info["execution_time_s"] == profile.seconds("image_denoising", 1) + profile.seconds("image_captioning", 1)
    assert info["cost_sum"] == info["price"]


def test_the_published_reward_charges_all_tools_so_far_at_every_token() -> None:
    env, profile = make(reward="cumulative"), v100()
    env.reset(options={"task": 24, "sample": 3, "level": 1})
    rewards, info = write(env, CAPTION_OF_DENOISED)
    first = profile.price("image_denoising", 1)
    both = first + profile.price("image_captioning", 1)
    # A tool and the SOD that follows it are two tokens.
    charged = [2 * first, first, first, 2 * both, both, both]
    assert rewards[:-1] == pytest.approx([-0.5 * price / MAX_PRICE_USD for price in charged], rel=1e-12)
    assert rewards[-1] == pytest.approx(cumulative_reward(0.6, both, is_final=True), rel=1e-12)
    assert info["quality_of_plan"] == pytest.approx(quality_of_plan(0.6, both), rel=1e-12)


def test_branches_overlap_in_time() -> None:
    env, profile = make(), v100()
    env.reset(options={"task": 201, "level": 0})
    _, info = write(env, (80006, 90017, 90001, 80005, 90006, 90001, 80008, 90006, 90001))
    assert info["execution_time_s"] == profile.seconds("image_denoising", 0) + profile.seconds("image_deblurring", 0)
    plan = env.plan()
    assert plan is not None
    assert info["execution_time_s"] == profile.plan_seconds(plan, 0)


def test_a_plan_that_is_never_finished_is_invalid() -> None:
    env = make()
    env.reset(options={"task": 24})
    before = env.action_masks()
    for _ in range(env.max_tokens - 1):
        _, reward, terminated, truncated, info = env.step(0)
        assert (reward, terminated, truncated, info["status"]) == (0.0, False, False, Status.FORBIDDEN)
        assert np.array_equal(info["action_mask"], before)
    _, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (-0.5, False, True)
    assert (info["plan_valid"], info["is_success"], info["quality_of_plan"]) == (False, False, -0.5)
    assert info["action_mask"].any()
    again = env.step(5)
    assert (again[1], again[2]) == (0.0, True)


def test_a_passed_limit_ends_the_episode_without_a_score() -> None:
    env = make(budget={"price": 0.05, "calls": 5})
    env.reset(options={"task": 24, "level": 3})
    _, reward, terminated, _, info = env.step(ACTION_TOKENS.index(80006))
    assert (terminated, info["is_success"], info["score"], env.account().exceeded) == (True, False, 0.0, "price")
    assert info["budget_remaining_price"] == 0.05 - v100().price("image_denoising", 3)
    assert info["budget_remaining_calls"] == 4
    assert info["budget_remaining_seconds"] == float("inf")
    assert reward == info["quality_of_plan"]


def test_the_cost_may_be_another_resource() -> None:
    env = make(cost="tokens")
    env.reset(options={"task": 24})
    _, info = write(env, CAPTION_OF_DENOISED)
    assert (info["cost_sum"], info["cost"]) == (len(CAPTION_OF_DENOISED) + 2, 1)


@given(st.integers(0, 2**31), st.sampled_from(["sequential", "nonsequential", "all"]), st.sampled_from(["train", "test"]))
def test_the_return_is_the_quality_of_plan(seed: int, kind: str, split: str) -> None:
    env = make(tasks=kind, split=split)
    _, info = env.reset(seed=seed)
    assert env.task in tasks(kind, split)
    assert info["sample"] in env.samples
    total, info = play(env, random.Random(seed), info)
    outcome = env.evaluator.evaluate(decode(env.state.tokens), env.task, info["sample"], info["size_level"])
    assert total == pytest.approx(outcome.quality, rel=1e-9, abs=1e-12)
    assert info["quality_of_plan"] == pytest.approx(outcome.quality, rel=1e-9, abs=1e-12)
    assert info["execution_time_s"] == outcome.seconds
    assert info["price"] == pytest.approx(outcome.price, rel=1e-12)
    assert env.evaluator.missing(decode(env.state.tokens), env.task) == () or env.task.kind == "nonsequential"


def test_costs_of_the_steps_add_up() -> None:
    env, rng = make(cost="seconds"), random.Random(2)
    for seed in range(20):
        _, info = env.reset(seed=seed)
        sums = dict.fromkeys(("cost", "cost_price", "cost_seconds", "cost_tokens", "cost_calls"), 0.0)
        over = False
        while not over:
            _, _, over, _, info = env.step(rng.choice(np.flatnonzero(info["action_mask"]).tolist()))
            for key in sums:
                assert info[key] >= 0
                sums[key] += info[key]
        assert sums["cost"] == pytest.approx(info["cost_sum"])
        assert sums["cost_price"] == pytest.approx(info["price"])
        assert sums["cost_seconds"] == pytest.approx(info["execution_time_s"])
        assert sums["cost_tokens"] == len(env.state.tokens) - 1


def test_all_kinds_of_tasks_and_all_levels_occur() -> None:
    env = make()
    seen = set()
    for seed in range(200):
        _, info = env.reset(seed=seed)
        seen.add((kind_of(env.task), info["size_level"]))
    assert {kind for kind, _ in seen} == set(KINDS)
    assert {level for _, level in seen} == set(range(4))


def test_observations_are_in_their_space_and_are_not_shared() -> None:
    env, rng = make(), random.Random(1)
    observation, info = env.reset(seed=1)
    while True:
        assert env.observation_space.contains(observation)
        before = {name: array.copy() for name, array in observation.items()}
        previous = observation
        observation, _, over, _, info = env.step(rng.choice(np.flatnonzero(info["action_mask"]).tolist()))
        assert all(np.array_equal(previous[name], before[name]) for name in before)
        assert not any(np.shares_memory(previous[name], observation[name]) for name in before)
        if over:
            break


def test_the_mask_is_the_languages_own() -> None:
    env = make()
    _, info = env.reset(options={"task": 0})
    assert info["action_mask"].tolist() == env.action_masks().tolist() == env.state.mask().tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": "parallel"}, "expected sequential, nonsequential or all"),
        ({"split": "dev"}, "expected train or test"),
        ({"alpha": 0.0}, "strictly between 0 and 1"),
        ({"alpha": 1.0}, "strictly between 0 and 1"),
        ({"alpha": float("nan")}, "strictly between 0 and 1"),
        ({"level": 4}, "expected a size level"),
        ({"max_tokens": 5}, "expected at least 14"),
        ({"budget": {"price": -1}}, "budget price"),
        ({"budget": {"money": 1}}, "unknown resource 'money'"),
        ({"success_score": float("nan")}, "success_score"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reward": "sparse"}, "unknown reward 'sparse'"),
        ({"profile": "a100"}, "unknown profile 'a100'"),
        ({"cost": "money"}, "unknown cost resource"),
        ({"render_mode": "video"}, "unknown render mode"),
    ],
)
def test_unknown_names_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        make(**settings)


def test_options_that_make_no_sense() -> None:
    env = make()
    with pytest.raises(EpisodeOver, match="reset"):
        env.step(3)
    with pytest.raises(EpisodeOver, match="reset"):
        env.action_masks()
    with pytest.raises(UnknownName, match="OpenCATP task"):
        env.reset(options={"task": 2})
    with pytest.raises(UnknownName, match="sample"):
        env.reset(options={"sample": 100})
    for options in ({"level": 4}, {"level": "large"}, {"task": "0"}):
        with pytest.raises(ConfigError, match="options"):
            env.reset(options=options)


def test_a_plan_is_told_call_by_call_and_drawn() -> None:
    env = make(render_mode="ansi")
    env.reset(options={"task": 24, "sample": 3, "level": 1})
    write(env, CAPTION_OF_DENOISED)
    drawing = env.render()
    *heading, budget, _, _, denoising, captioning, _, figures, rest = drawing.splitlines()
    assert " ".join(map(str.strip, heading)) == f"task sequential-24-sample-3: {env.task.description}"
    assert budget == "budget: unlimited; seed -1" and max(map(len, drawing.splitlines())) <= 80
    assert figures.startswith("at 1.44 s; score 0.600, pass; ") and rest.endswith("Quality of Plan 0.181")
    assert denoising.split()[:5] == ["1", "0.00", "0.98", "image_denoising", "ok"]
    assert captioning.split()[:5] == ["2", "0.98", "1.44", "image_captioning", "ok"]
    picture = make(render_mode="rgb_array")
    picture.reset(seed=0)
    image = picture.render()
    assert (image.dtype, image.shape) == (np.uint8, (640, 960, 3))


def test_a_step_needs_no_torch() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.helpers.opencatp_scores import RuleScores; "
        "from costgym.envs.opencatp.plans import OpenCATPEnv; env = OpenCATPEnv(scores=RuleScores()); "
        "env.reset(seed=0); env.step(3); "
        "print(sorted({'torch', 'transformers', 'matplotlib', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
