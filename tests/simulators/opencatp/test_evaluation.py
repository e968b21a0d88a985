"""What plans are worth on samples."""

from collections import Counter

import pytest

from costgym.simulators.errors import ConfigError, DataError, InvalidPlan, InvalidProfile, UnknownName
from costgym.simulators.opencatp import Output, all_tasks, task, v100
from costgym.simulators.opencatp.scoring.evaluation import (
    Evaluator,
    check_sample,
    sample_level,
    shipped_outcomes,
    split_samples,
)
from costgym.simulators.opencatp.tools import OUTPUT_OF_READER
from costgym.simulators.plan import Plan
from costgym.simulators.quality import MAX_PRICE_USD, quality_of_plan
from tests.helpers.opencatp_scores import RuleScores

IN = ["input_of_query"]
RESTORE = Plan.from_list(["image_denoising", IN, "image_deblurring", ["image_denoising"]])
BOTH = Plan.from_list(["image_denoising", IN, "image_deblurring", ["image_denoising"], "object_detection", ["image_denoising"]])


@pytest.fixture
def evaluator() -> Evaluator:
    return Evaluator(RuleScores())


def test_an_outcome_is_score_price_time_and_their_quality(evaluator: Evaluator) -> None:
    outcome = evaluator.evaluate(RESTORE, task(9), sample=5, level=2)
    assert outcome.score == 0.4
    assert outcome.price == v100().price("image_denoising", 2) + v100().price("image_deblurring", 2)
    assert outcome.seconds == v100().seconds("image_denoising", 2) + v100().seconds("image_deblurring", 2)
    assert outcome.quality == quality_of_plan(0.4, outcome.price, 0.5, MAX_PRICE_USD)
    assert Evaluator(RuleScores()).evaluate(RESTORE, task(9), 5, 2) == outcome


def test_branches_are_scored_side_by_side_and_none_overwrites_another(evaluator: Evaluator) -> None:
    swapped = Plan.from_list(
        ["image_denoising", IN, "object_detection", ["image_denoising"], "image_deblurring", ["image_denoising"]]
    )
    assert evaluator.score(BOTH, task(201), 0) == evaluator.score(swapped, task(201), 0) == (0.4 + 0.6) / 2


def test_what_is_missing_scores_nothing(evaluator: Evaluator) -> None:
    only_text = Plan.from_list(["image_denoising", IN, "object_detection", ["image_denoising"]])
    assert evaluator.score(only_text, task(201), 0) == 0.6 / 2
    assert evaluator.missing(only_text, task(201)) == (Output("image"),)
    caption = Plan.from_list(["image_denoising", IN, "image_captioning", IN])
    assert evaluator.missing(caption, task(201)) == (Output("object"),)
    assert evaluator.missing(BOTH, task(201)) == ()


def test_a_sequential_text_task_takes_any_text_for_its_answer(evaluator: Evaluator) -> None:
    assert evaluator.score(Plan.from_list(["object_detection", IN]), task(24), 0) == 0.5


def test_german_wants_a_translation(evaluator: Evaluator) -> None:
    english = Plan.from_list(["image_captioning", IN])
    german = Plan.from_list(["image_captioning", IN, "machine_translation", ["image_captioning"]])
    assert evaluator.score(english, task(18), 0) == evaluator.score(german, task(75), 0) == 0.5
    assert evaluator.score(german, task(18), 0) == evaluator.score(english, task(75), 0) == 0.2


def test_the_last_of_several_images_is_the_answer(evaluator: Evaluator) -> None:
    two = Plan.from_list(["image_denoising", IN, "image_deblurring", ["image_denoising"], "image_colorization", IN])
    assert evaluator.score(two, task(9), 0) == 0.2


def test_a_plan_that_its_tools_cannot_run_has_no_outcome(evaluator: Evaluator) -> None:
    for plan in (Plan.from_list(["machine_translation", IN]), Plan.from_list(["paint", IN])):
        for _ in range(2):
            with pytest.raises(InvalidPlan):
                evaluator.evaluate(plan, task(9), 0)
            with pytest.raises(InvalidPlan):
                evaluator.cost(plan, 0)


def test_every_task_meets_every_level_equally_often() -> None:
    for wish in all_tasks():
        for split, share in (("train", 15), ("test", 10)):
            levels = Counter(sample_level(wish, sample) for sample in split_samples(100, split))
            assert levels == dict.fromkeys(range(4), share)


def test_splits_part_the_samples() -> None:
    assert (split_samples(100, "train"), split_samples(100, "test")) == (range(60), range(60, 100))
    with pytest.raises(ConfigError, match="expected train or test"):
        split_samples(100, "all")
    with pytest.raises(UnknownName, match="unknown sample '100'"):
        check_sample(RuleScores(), 100)


def test_an_invalid_weight_is_refused() -> None:
    with pytest.raises(ConfigError, match="alpha"):
        Evaluator(RuleScores(), alpha=1.5)
    with pytest.raises(UnknownName, match="profile"):
        Evaluator(RuleScores(), profile="a100")
    with pytest.raises(InvalidProfile, match="size level"):
        Evaluator(RuleScores()).evaluate(RESTORE, task(9), 0, level=4)


def test_the_straight_way_scores_what_any_way_would() -> None:
    try:
        table = shipped_outcomes()
    except DataError as missing:
        pytest.skip(str(missing))
    for reader, kind in OUTPUT_OF_READER.items():
        for name, route in ((kind, (reader,)), (f"{kind}_de", (reader, "machine_translation"))):
            for degradation, sample in ((0, 0), (7, 31), (14, 99)):
                for chain in ((), ("image_denoising",), ("image_denoising", "image_deblurring")):
                    straight = table.score(degradation, sample, chain, name)
                    assert straight == pytest.approx(table.text_score(degradation, sample, chain, route, name), abs=1e-4)
