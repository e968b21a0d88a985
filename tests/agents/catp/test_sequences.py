"""What the policy is shown and what it learns from; without torch."""

import math

import numpy as np
import pytest

from costgym.agents.catp.sequences import (
    CHOICE,
    DEPENDENCY_CHOICES,
    NOTHING,
    RETURN,
    STATE,
    TOOL_CHOICES,
    WORDS,
    batch_of,
    importance,
    returns_of,
    rewards_of,
    words_of,
)
from costgym.agents.catp.settings import CatpSettings
from costgym.envs.tpl import END, END_DEPENDENCIES, FIRST_DEPENDENCY, FIRST_TOOL, INPUT, KINDS, TplState, kind_of
from costgym.experiments.train.catp.dataset import (
    COMPOSED,
    ExecutedPlan,
    choices_of,
    collect,
    composed_tasks,
    labels,
    random_walk,
    records_of,
    relevant_choices,
    train_tasks,
)
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.opencatp import TOOLS, task, tasks
from costgym.simulators.opencatp.plan_space import PlanValues
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.plan import Plan
from costgym.simulators.quality import MAX_PRICE_USD
from tests.helpers.catp_scores import ShapedScores

DENOISE, CAPTION = FIRST_TOOL + TOOLS.index("image_denoising"), FIRST_TOOL + TOOLS.index("image_captioning")
AFTER_DENOISING = FIRST_DEPENDENCY + TOOLS.index("image_denoising")
CHOICES = (DENOISE, INPUT, END_DEPENDENCIES, CAPTION, AFTER_DENOISING, END_DEPENDENCIES, END)
PRICES = tuple(0.01 * (number + 1) for number in range(10))


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator(ShapedScores())


@pytest.mark.parametrize("level", range(4))
def test_importance_falls_with_the_distance_from_the_inputs_own_level(level):
    expected = [math.cos(math.pi * (i - level) / 8) for i in range(4)]
    assert importance(level).tolist() == pytest.approx(expected)
    assert importance(level)[level] == 1.0


def test_each_tool_is_charged_when_it_is_written_and_the_rewards_add_up_to_the_quality():
    charge = [0.5 * PRICES[choice - FIRST_TOOL] / MAX_PRICE_USD for choice in (DENOISE, CAPTION)]
    rewards = rewards_of(CHOICES, PRICES, score=0.8, alpha=0.5, feedback=True)
    assert rewards == pytest.approx([-charge[0], 0, 0, -charge[1], 0, 0, 0.4])
    late = rewards_of(CHOICES, PRICES, score=0.8, alpha=0.5, feedback=False)
    assert late == pytest.approx([0, 0, 0, 0, 0, 0, 0.4 - sum(charge)])


def test_the_return_in_a_record_is_the_return_still_to_come():
    record = ExecutedPlan(task(24), 1, CHOICES, 0.8, PRICES).record(CatpSettings(), baseline=0.3)
    first, second = (0.5 * PRICES[choice - FIRST_TOOL] / MAX_PRICE_USD for choice in (DENOISE, CAPTION))
    whole = 0.4 - first - second - 0.3
    assert record.returns == pytest.approx([whole, *[whole + first] * 3, *[whole + first + second] * 3])


def test_as_published_every_token_is_charged_all_tools_so_far():
    first, second = (0.5 * PRICES[choice - FIRST_TOOL] / MAX_PRICE_USD for choice in (DENOISE, CAPTION))
    rewards = rewards_of(CHOICES, PRICES, score=0.8, alpha=0.5, feedback=True, cumulative=True)
    both = first + second
    assert rewards == pytest.approx([-first, -first, -first, -both, -both, -both, 0.4 - both])
    late = rewards_of(CHOICES, PRICES, score=0.8, alpha=0.5, feedback=False, cumulative=True)
    assert late == rewards_of(CHOICES, PRICES, score=0.8, alpha=0.5, feedback=False)


def test_discounted_returns_follow_from_one_another_whatever_the_baseline_is():
    rewards = [-0.1, 0.0, -0.2, 0.4]
    assert returns_of(rewards, 0.0, 0.5) == pytest.approx([-0.1, 0.0, 0.0, 0.4])
    assert returns_of(rewards, 0.3, 0.5) == pytest.approx([-0.4, -0.6, -1.2, -2.0])
    for baseline in (0.0, 0.3):
        returns = returns_of(rewards, baseline, 0.5)
        assert [(now - reward) / 0.5 for now, reward in zip(returns, rewards, strict=False)][:3] == pytest.approx(returns[1:])


def test_the_paper_asks_for_the_largest_return_of_its_data():
    paper = CatpSettings(**CatpSettings.preset("paper"), gamma=0.9)
    plans = [ExecutedPlan(task(24), 1, CHOICES, score, PRICES) for score in (0.4, 0.8)]
    plans.append(ExecutedPlan(task(24), 2, CHOICES, 0.6, PRICES))
    first, second = (0.5 * PRICES[choice - FIRST_TOOL] / MAX_PRICE_USD for choice in (DENOISE, CAPTION))
    charges = [first, first, first, *[first + second] * 4]
    spent = sum(charge * 0.9**step for step, charge in enumerate(charges))
    records, target = records_of(plans, paper)
    assert target == pytest.approx(0.4 * 0.9**6 - spent) == pytest.approx(records[1].returns[0])
    assert [record.regret for record in records] == pytest.approx([0.2, 0.0, 0.0])
    centred, target = records_of(plans, CatpSettings(cumulative=True, gamma=0.9))
    assert target == 0.0 and [record.returns[0] for record in centred] == pytest.approx([-0.2 * 0.9**6, 0.0, 0.0])


def test_a_window_writes_the_first_state_in_full_and_then_only_what_is_new():
    record = ExecutedPlan(task(24), 1, CHOICES, 0.8, PRICES).record(CatpSettings(), 0.0)
    batch = batch_of([record, record], [(0, 2), (4, 5)], CatpSettings())
    denoise, sod, after_input, eod, caption = DENOISE + 2, 1, INPUT + 2, END_DEPENDENCIES + 2, CAPTION + 2
    r, s, c = RETURN, STATE, CHOICE
    assert batch.kind[0].tolist() == [r, s, c, r, s, s, c, r, s, *[NOTHING] * 2]
    assert batch.number[0].tolist()[:9] == [0, 0, DENOISE, 0, denoise, sod, INPUT, 0, after_input]
    assert batch.step[0].tolist()[:9] == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert batch.choice_position[0].tolist() == [1, 5, 8]
    assert batch.kind[1].tolist() == [r, *[s] * 7, c, r, s]
    assert batch.number[1].tolist()[1:8] == [0, denoise, sod, after_input, eod, caption, sod]
    assert batch.choice_position[1].tolist()[:2] == [7, 10]
    assert batch.choice.tolist() == [[DENOISE, INPUT, END_DEPENDENCIES], [AFTER_DENOISING, END_DEPENDENCIES, 0]]
    assert batch.counts.tolist() == [[True] * 3, [True, True, False]]


def test_without_masks_each_head_may_choose_all_that_is_its_own():
    record = ExecutedPlan(task(24), 1, CHOICES, 0.8, PRICES).record(CatpSettings(), 0.0)
    allowed = batch_of([record], [(0, 6)], CatpSettings(mask=False)).allowed[0]
    assert set(np.flatnonzero(allowed[0])) == set(np.flatnonzero(allowed[6])) == set(TOOL_CHOICES)
    assert set(np.flatnonzero(allowed[1])) == set(np.flatnonzero(allowed[5])) == set(DEPENDENCY_CHOICES)


def test_without_conditioning_no_return_is_in_the_sequence():
    record = ExecutedPlan(task(24), 1, CHOICES, 0.8, PRICES).record(CatpSettings(), 0.0)
    assert RETURN not in batch_of([record], [(0, 6)], CatpSettings(method="ift")).kind


def test_the_prompt_says_what_happened_to_the_image_and_what_is_wanted():
    prompt_words = [WORDS[number] for number in words_of(task(219), 2, size_words=True) if number]
    assert prompt_words == ["several outputs", "low-resolutioned", "grayscale", "caption in German", "object", "size 2"]


@pytest.mark.parametrize("task", tasks("all")[::7], ids=lambda task: str(task.task_id))
def test_a_random_walk_is_a_valid_plan_of_tools_that_the_task_can_use(task):
    chance = np.random.default_rng(task.task_id)
    for _ in range(20):
        choices = random_walk(task, chance)
        assert all(relevant_choices(task) >> choice & 1 for choice in choices)
        assert choices[-1] == END


def test_the_graph_is_pruned_to_the_tools_of_the_task():
    tools = {TOOLS[choice - FIRST_TOOL] for choice in range(FIRST_TOOL, INPUT) if relevant_choices(task(24)) >> choice & 1}
    restorers = {"image_colorization", "image_deblurring", "image_denoising", "image_super_resolution"}
    assert tools == {*restorers, "image_captioning"}


def test_the_data_hold_the_best_plan_of_each_task_and_level_and_only_valid_ones(evaluator):
    learnt = (task(24), task(202))
    settings = CatpSettings(walks=4, best=1, near=2, spread=2)
    collected = collect(learnt, evaluator, settings)
    values = PlanValues(evaluator)
    for plan_task in learnt:
        for level in range(4):
            plans = [plan for plan in collected if plan.task == plan_task and plan.level == level]
            best = choices_of(values.expected_optimum(plan_task, level, range(12), True), kind_of(plan_task))
            assert best in [plan.choices for plan in plans]
            assert len({plan.choices for plan in plans}) == len(plans)
            assert {plan.choices[-1] for plan in plans} == {END}
    assert collected == collect(learnt, evaluator, settings)


def test_a_returned_quality_is_the_mean_over_the_train_samples(evaluator):
    plan = collect((task(24),), evaluator, CatpSettings(walks=0, best=1, near=0, spread=0))[2]
    state = TplState(kind_of(plan.task))
    for choice in plan.choices:
        state.push(choice)
    qualities = [evaluator.evaluate(state.plan(), plan.task, sample, plan.level).quality for sample in range(12)]
    assert plan.quality(0.5) == pytest.approx(sum(qualities) / 12)


def test_joined_tasks_combine_outputs_of_train_tasks_on_the_same_images_and_are_new():
    joined = composed_tasks(1000, seed=0)
    assert len(joined) == 116
    assert composed_tasks(10, seed=0) == joined[:10]
    single = {(task.combination, task.wants[0]) for task in tasks("sequential", "train")}
    known = {(task.combination, frozenset(task.wants)) for task in tasks("all")}
    for plan_task in joined:
        assert all((plan_task.combination, want) in single for want in plan_task.wants)
        assert (plan_task.combination, frozenset(plan_task.wants)) not in known
        assert sum(want.german for want in plan_task.wants) <= 1
        assert plan_task.task_id >= COMPOSED and kind_of(plan_task) in KINDS


def test_only_runs_with_several_outputs_learn_from_joined_tasks():
    assert train_tasks(CatpSettings(tasks="sequential")) == tasks("sequential", "train")
    assert len(train_tasks(CatpSettings(tasks="all", composed=7))) == len(tasks("all", "train")) + 7
    assert train_tasks(CatpSettings(tasks="nonsequential", composed=0)) == tasks("nonsequential", "train")


def test_centred_returns_ask_for_zero_and_absolute_ones_for_the_largest_in_the_data(evaluator):
    plans = collect((task(24),), evaluator, CatpSettings(walks=3))
    best = max(plan.quality(0.5) for plan in plans)
    centred, wanted = records_of(plans, CatpSettings())
    assert wanted == 0.0
    assert max(record.returns[0] for record in centred) == pytest.approx(0.0)
    absolute, wanted = records_of(plans, CatpSettings(centred=False))
    assert wanted == pytest.approx(best)
    assert max(record.returns[0] for record in absolute) == pytest.approx(best)


def test_labels_are_the_same_plan_at_every_size_level_the_one_that_scores_best(evaluator):
    best_plans = labels((task(24),), evaluator)
    assert [plan.level for plan in best_plans] == [0, 1, 2, 3]
    assert len({plan.choices for plan in best_plans}) == 1
    best = PlanValues(evaluator).scores(task(24))[:12].mean(axis=0).max()
    assert best_plans[0].score == pytest.approx(best)


def test_a_plan_that_the_masks_do_not_admit_is_left_out():
    assert choices_of(Plan.from_list(["image_denoising", ["input_of_query"]]), "text") is None


@pytest.mark.parametrize(
    ("settings", "location"),
    [
        ({"tasks": "some"}, "tasks"),
        ({"steps": 0}, "steps"),
        ({"hidden_size": 50}, "hidden_size"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"batch_size": True}, "batch_size"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(settings, location):
    with pytest.raises(ConfigError) as error:
        CatpSettings(**settings)
    assert error.value.location == location
    with pytest.raises(UnknownName):
        CatpSettings(method="dpo")


def test_the_learning_rate_rises_then_stands_then_falls_to_a_tenth():
    settings = CatpSettings(steps=300, warmup_steps=10)
    rates = [settings.rate(step) for step in range(300)]
    assert rates[0] == pytest.approx(2e-4)
    assert rates[9] == rates[150] == pytest.approx(2e-3)
    assert rates[-1] == pytest.approx(2e-3 * (0.1 + 0.9 / 100))
    assert CatpSettings(model="some/model").rate(500) == pytest.approx(1e-4)
