"""TPL: plans as tokens, and masks without dead ends."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.envs.tpl import (
    ACTION_NAMES,
    ACTION_TOKENS,
    KINDS,
    MAX_TOKENS,
    N_ACTIONS,
    TplState,
    decode,
    encode,
    kind_of,
    token_items,
)
from costgym.simulators.errors import ConfigError, InvalidPlan, UnknownName
from costgym.simulators.opencatp import SIGNATURES, task
from costgym.simulators.opencatp.tools import EOP, SOP
from costgym.simulators.plan import Plan
from tests.helpers.tokens import push, replay

CAPTION_OF_DENOISED = [80000, 80006, 90000, 90017, 90001, 80008, 90000, 90006, 90001, 80001]


def finish_at_random(state: TplState, rng: random.Random) -> None:
    while not state.done:
        actions = state.actions()
        assert actions, f"no way on from {state.tokens}"
        state.push(rng.choice(actions))


def answers(plan: Plan, kind: str) -> bool:
    made = [SIGNATURES[tool].gives for tool in plan.sinks]
    if kind in ("image", "text"):
        return SIGNATURES[plan.nodes[-1]].gives == kind
    return made.count("image") >= kind.count("image") and made.count("text") >= kind.count("text")


def names(state: TplState) -> set[str]:
    return {ACTION_NAMES[action] for action in state.actions()}


def test_a_plan_has_the_official_tokens() -> None:
    plan = Plan.from_list(["image_denoising", ["input_of_query"], "image_captioning", ["image_denoising"]])
    assert encode(plan) == CAPTION_OF_DENOISED
    assert decode(CAPTION_OF_DENOISED) == plan


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([], "empty"),
        ([SOP, EOP], "empty"),
        ([SOP, 99999], "99999 is no token"),
        ([SOP, 90017, 80006], "dependency input_of_query before any tool"),
        ([SOP, 80006, 90000, 90001, EOP], "odd length"),
        ([SOP, 80006, 80005, 90000, 90017, 90001, EOP], "expected a list of dependencies"),
        ([SOP, 80006, 90000, 90006, 90001, EOP], "depends on itself"),
    ],
)
def test_tokens_that_write_no_plan_say_why(tokens: list[int], reason: str) -> None:
    with pytest.raises(InvalidPlan, match=reason):
        decode(tokens)


def test_a_plan_of_tools_without_tokens_cannot_be_encoded() -> None:
    with pytest.raises(InvalidPlan, match="'paint' has no token"):
        encode(Plan.from_list(["paint", ["input_of_query"]]))


def test_every_choice_has_its_own_token() -> None:
    assert len(set(ACTION_TOKENS)) == len(ACTION_NAMES) == N_ACTIONS == 23


def test_the_outputs_of_a_task_decide_its_kind() -> None:
    assert [kind_of(task(number)) for number in (0, 16, 201, 206, 215)] == [
        "image",
        "text",
        "image+text",
        "text+text",
        "image+text+text",
    ]


def test_an_image_task_is_offered_the_image_tools_only() -> None:
    assert names(TplState("image")) == {"image_colorization", "image_deblurring", "image_denoising", "image_super_resolution"}


def test_a_text_tool_waits_for_a_text() -> None:
    state = TplState("text")
    assert "machine_translation" not in names(state)
    push(state, (80008, 90017, 90001))
    assert "machine_translation" in names(state)


def test_a_dependency_is_named_once_and_fits_the_tool() -> None:
    state = replay("text", [80006, 90017, 90001, 80008, 90006])
    assert state.choosing_dependencies
    assert names(state) == {"EOD", "after input_of_query"}


def test_an_end_needs_what_the_task_wants() -> None:
    assert "EOP" not in names(replay("text", [80006, 90017, 90001]))
    both = replay("image+text", [80006, 90017, 90001, 80008, 90006, 90001])
    assert "EOP" not in names(both)  # the denoised image is used up by the caption
    push(both, (80005, 90006, 90001))
    assert "EOP" in names(both)


def test_the_last_tokens_are_kept_for_what_is_still_wanted() -> None:
    state = replay("image+text", [80006, 90017, 90001], max_tokens=14)
    assert names(state) == {
        "image_colorization", "image_deblurring", "image_super_resolution",
        "image_captioning", "image_classification", "object_detection",
    }  # fmt: skip
    push(state, (80005, 90006))
    assert names(state) == {"EOD"}  # a second dependency would leave no room for the text


def test_what_may_not_follow_is_refused_with_what_may() -> None:
    state = TplState("image")
    with pytest.raises(InvalidPlan, match="EOP may not follow; allowed: image_colorization"):
        state.push(0)
    with pytest.raises(InvalidPlan, match="99 may not follow"):
        state.push(99)
    done = replay("image", [80000, 80006, 90000, 90017, 90001, 80001])
    assert done.done
    with pytest.raises(InvalidPlan, match="the plan is finished"):
        done.push(0)


def test_a_state_of_another_kind_or_without_room() -> None:
    with pytest.raises(UnknownName, match="kind of task 'sound'"):
        TplState("sound")
    with pytest.raises(ConfigError, match="expected at least 14"):
        TplState("image", max_tokens=13)


def test_an_unfinished_plan_is_what_is_complete() -> None:
    state = replay("text", [80006, 90017, 90001, 80008, 90006])
    assert state.plan().to_list() == ["image_denoising", ["input_of_query"]]
    with pytest.raises(InvalidPlan, match="empty"):
        TplState("text").plan()


def test_copies_and_masks_are_independent() -> None:
    state = replay("text", [80006, 90017])
    twin = state.copy()
    push(twin, [90001])
    mask = state.mask()
    mask[:] = False
    assert state.mask().any()
    assert [len(parser.tokens) for parser in (state, twin)] == [4, 5]
    state.reset()
    assert state.tokens == [SOP]


@pytest.mark.parametrize("kind", KINDS)
def test_random_plans_are_all_valid(kind: str) -> None:
    rng, state = random.Random(7), TplState(kind)
    for _ in range(500):
        state.reset()
        finish_at_random(state, rng)
        plan = state.plan().check_types(SIGNATURES)
        assert answers(plan, kind)
        assert len(state.tokens) <= MAX_TOKENS


@given(st.sampled_from(KINDS), st.integers(14, 60), st.randoms(use_true_random=False))
def test_every_length_can_be_kept(kind: str, max_tokens: int, rng: random.Random) -> None:
    state = TplState(kind, max_tokens)
    finish_at_random(state, rng)
    assert len(state.tokens) <= max_tokens
    assert answers(state.plan().check_types(SIGNATURES), kind)
    assert encode(state.plan()) == state.tokens
    assert replay(kind, state.tokens, max_tokens).tokens == state.tokens


@pytest.mark.parametrize("kind", KINDS)
def test_no_dead_end_anywhere_in_short_plans(kind: str) -> None:
    waiting, seen = [TplState(kind, 18)], set()
    while waiting:
        state = waiting.pop()
        key = (state._used, state._consumed, state._current, state._deps, state._last, len(state.tokens))
        if key in seen:
            continue
        seen.add(key)
        assert state.done or state.legal, f"no way on from {state.tokens}"
        for action in state.actions():
            after = state.copy()
            after.push(action)
            waiting.append(after)
    assert len(seen) > 30


@given(st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_any_plan_a_mask_allows_at_greater_length_it_allows_at_exactly_its_own(kind: str, rng: random.Random) -> None:
    state = TplState(kind)
    finish_at_random(state, rng)
    assert replay(kind, state.tokens, max(14, len(state.tokens))).done


def test_tokens_are_added_one_choice_at_a_time() -> None:
    state, lengths = TplState("text"), []
    for token in (80008, 90017, 90001, 80001):
        lengths.append(len(state.tokens))
        push(state, [token])
    lengths.append(len(state.tokens))
    assert [after - before for before, after in pairwise(lengths)] == [2, 1, 1, 1]
    assert token_items(state.tokens) == ["image_captioning", ["input_of_query"]]
