"""OpenCATP's tools on the clock of every world: plans as schedules of calls, slots, memory, loading and what is cut off."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.errors import ConfigError, EpisodeOver
from costgym.simulators.ledger import Budget
from costgym.simulators.opencatp import TOOLS, Profile, task, v100
from costgym.simulators.opencatp.world import PlanEpisode, PlayedPlan, made, plan_worlds
from costgym.simulators.plan import TASK_INPUT, Plan, PlanStep
from costgym.simulators.status import Status

ON_INPUT = {"on": TASK_INPUT}


def begin(level: int = 0, profile: Profile | None = None, **machine: Any) -> PlanEpisode:
    return plan_worlds(profile or v100(), **machine)[level].episode_of(task(9), 3, 5, Budget())


def timed(seconds: dict[str, float], loading: float = 0.0) -> Profile:
    """The published profile with other durations."""
    costs = v100().tools
    tools = {
        tool: replace(cost, time_ms=(1000.0 * seconds.get(tool, 1.0),) * 4, cold_start_s=loading)
        for tool, cost in costs.items()
    }
    return replace(v100(), tools=tools)


def test_calls_run_at_once_and_are_charged_when_they_end() -> None:
    episode, profile = begin(), v100()
    caption, detection = episode.start("image_captioning", ON_INPUT), episode.start("object_detection", ON_INPUT)
    assert (episode.ledger.price, episode.in_flight, episode.now_s) == (0.0, 2, 0.0)
    assert episode.wait_for_end() == [detection]
    assert episode.ledger.price == profile.price("object_detection", 0)
    assert episode.now_s == profile.seconds("object_detection", 0)
    assert episode.wait_for_end() == [caption]
    assert episode.now_s == profile.seconds("image_captioning", 0)
    assert episode.wait_for_end() == []
    assert episode.plan() == Plan.from_list(["image_captioning", [TASK_INPUT], "object_detection", [TASK_INPUT]])


def test_calls_that_end_at_the_same_moment_are_told_together() -> None:
    episode = begin(profile=timed({}))
    calls = [episode.start(tool, ON_INPUT) for tool in ("image_denoising", "image_deblurring", "object_detection")]
    assert episode.wait_for_end() == calls and episode.now_s == 1.0


def test_one_slot_makes_a_queue() -> None:
    episode = begin(slots=1)
    first, second = episode.start("object_detection", ON_INPUT), episode.start("image_captioning", ON_INPUT)
    assert (first.started_s, second.started_s) == (0.0, -1.0)
    episode.wait_for_end()
    assert second.started_s == first.finished_s


def test_a_call_that_waits_for_memory_holds_its_slot() -> None:
    profile = v100()
    costs = {tool: replace(cost, gpu_cons_mb=600.0, gpu_inst_mb=(0.0,) * 4) for tool, cost in profile.tools.items()}
    costs["sentiment_analysis"] = replace(costs["sentiment_analysis"], gpu_cons_mb=0.0)
    episode = begin(profile=replace(profile, tools=costs), slots=2, gpu_capacity_mb=1000.0)
    calls = [episode.start(tool, {"on": "x"}) for tool in ("image_captioning", "object_detection", "sentiment_analysis")]
    assert [call.started_s for call in calls] == [0.0, -1.0, -1.0]


def test_a_call_waits_for_gpu_memory() -> None:
    episode = begin(gpu_capacity_mb=1600.0)
    episode.start("image_captioning", ON_INPUT)
    episode.wait_for_end()
    summary, translation = (
        episode.start(tool, {"on": "image_captioning"}) for tool in ("text_summarization", "machine_translation")
    )
    assert (summary.started_s, translation.started_s) == (episode.now_s, -1.0)
    with pytest.raises(ConfigError, match="text_summarization needs, got 1000"):
        plan_worlds(v100(), gpu_capacity_mb=1000.0)


def test_what_still_runs_at_the_end_is_charged_for_its_part_and_makes_nothing() -> None:
    episode, profile = begin(), v100()
    episode.start("object_detection", ON_INPUT)
    denoising = episode.start("image_denoising", ON_INPUT)
    episode.wait_for_end()
    episode.stop()
    episode.stop()
    ran_s = profile.seconds("object_detection", 0)
    rate = profile.pricing.rate_per_ms(1690.15625, 0.0, 99.67431640625)
    assert episode.ledger.price == pytest.approx(profile.price("object_detection", 0) + 2e-7 + 1000 * ran_s * rate, rel=1e-12)
    assert denoising.status is Status.CANCELLED and not made(denoising)
    assert episode.plan() == Plan.from_list(["object_detection", [TASK_INPUT]])
    with pytest.raises(EpisodeOver):
        episode.start("image_captioning", ON_INPUT)
    with pytest.raises(EpisodeOver):
        episode.wait_for_end()


def test_a_tool_is_loaded_before_it_runs_and_loading_is_not_billed() -> None:
    profile = timed({}, loading=5.0)
    episode = begin(profile=profile, cold_starts=True)
    call = episode.start("image_denoising", ON_INPUT)
    episode.wait_for_end()
    assert (call.started_s, call.ready_s, call.finished_s, call.cold) == (0.0, 5.0, 6.0, True)
    assert call.price == profile.price("image_denoising", 0)


def test_a_fork_continues_like_its_original() -> None:
    episode = begin(slots=2, gpu_capacity_mb=2000.0)
    episode.write(12)
    for tool in ("image_denoising", "image_deblurring", "object_detection"):
        episode.start(tool, ON_INPUT)
    episode.wait_for_end()
    twin = episode.fork()
    for state in (episode, twin):
        while state.in_flight:
            state.wait_for_end()
    assert list(twin.ledger) == list(episode.ledger) and twin.calls == episode.calls and twin.now_s == episode.now_s


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Plan, dict[str, float]]:
    tools = draw(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=8, unique=True))
    steps = []
    for number, tool in enumerate(tools):
        deps = draw(st.lists(st.sampled_from([TASK_INPUT, *tools[:number]]), min_size=1, max_size=3, unique=True))
        steps.append(PlanStep(tool, tuple(deps)))
    return Plan(tuple(steps)), {tool: draw(st.floats(0.001, 1e3)) for tool in tools}


@given(schedules())
def test_without_limits_a_plan_takes_its_longest_path_exactly(case: tuple[Plan, dict[str, float]]) -> None:
    plan, seconds = case
    profile = timed(seconds)
    episode = begin(profile=profile)
    episode.play(PlayedPlan(plan.steps))
    assert episode.now_s == profile.plan_seconds(plan, 0)
    assert [call.tool for call in episode.calls] == list(plan.nodes)
    assert episode.ledger.price == pytest.approx(profile.plan_price(plan, 0), rel=1e-12)


@given(schedules(), st.integers(1, 4), st.floats(1600.0, 4000.0))
def test_limits_are_kept_and_cost_only_time(case: tuple[Plan, dict[str, float]], slots: int, capacity_mb: float) -> None:
    plan, seconds = case
    profile = timed(seconds)
    episode = begin(profile=profile, slots=slots, gpu_capacity_mb=capacity_mb)
    episode.play(PlayedPlan(plan.steps))
    needs = profile.gpu_mb(0)
    for call in episode.calls:
        beside = [other for other in episode.calls if other.started_s <= call.started_s < other.finished_s]
        assert len(beside) <= slots and sum(needs[other.tool] for other in beside) <= capacity_mb + 1e-5
    longest, one_by_one = profile.plan_seconds(plan, 0), sum(profile.seconds(tool, 0) for tool in plan.nodes)
    assert longest <= episode.now_s <= one_by_one * (1 + 1e-12)
    if slots == 1:
        assert episode.now_s == pytest.approx(one_by_one, rel=1e-12)
    assert episode.ledger.price == pytest.approx(profile.plan_price(plan, 0), rel=1e-12)
