"""Plans scored in batch come to what they come to one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.envs.tpl import decode, encode
from costgym.simulators.errors import ConfigError, CostGymError, InvalidPlan, UnknownName
from costgym.simulators.opencatp.batch.scorer import PlanScorer
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, sample_level
from costgym.simulators.opencatp.tasks import all_tasks, task
from costgym.simulators.opencatp.tools import SIGNATURES, TOOLS, predecessors
from costgym.simulators.plan import TASK_INPUT, Plan
from tests.helpers.opencatp_scores import RuleScores

SCORERS = {
    "shipped": PlanScorer(Evaluator()),
    "rules": PlanScorer(Evaluator(RuleScores(7), alpha=0.3)),
}
CAPTION = [80000, 80008, 90000, 90017, 90001, 80001]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan of the ten tools, in any order that can be, dependencies named twice included."""
    items: list[Any] = []
    made: list[str] = []
    for tool in draw(st.permutations(TOOLS)):
        there = [TASK_INPUT, *made]
        readable = [source for source in predecessors(tool) if source in there]
        if readable and draw(st.booleans()):
            items += [tool, draw(st.lists(st.sampled_from(readable), min_size=1, max_size=4))]
            made.append(tool)
    return Plan.from_list(items or ["image_captioning", [TASK_INPUT]])


@given(
    st.lists(st.tuples(plans(), st.sampled_from(all_tasks()), st.integers(0, 6)), max_size=8), st.sampled_from(list(SCORERS))
)
def test_a_batch_is_equal_to_its_plans_one_by_one(chosen: list[Any], name: str) -> None:
    scorer = SCORERS[name]
    expected = [scorer.evaluator.evaluate(plan, task, sample) for plan, task, sample in chosen]
    written, tasks, samples = [plan for plan, *_ in chosen], [task for _, task, _ in chosen], [sample for *_, sample in chosen]
    for given_plans in (written, [encode(plan) for plan in written]):
        found = scorer.score(given_plans, tasks, np.array(samples, np.int64))
        assert [tuple(row) for row in zip(*found[:4], strict=True)] == [tuple(outcome) for outcome in expected]
        assert found.valid.all()


def test_arrays_may_be_filled_up_and_one_task_may_serve_all() -> None:
    scorer = SCORERS["shipped"]
    short, long = CAPTION, [80000, 80006, 90000, 90017, 90001, 80008, 90000, 90006, 90001, 80001]
    array = np.array([short + [0] * (len(long) - len(short)), long], np.int32)
    found = scorer.score(array, 24, np.array([5, 6]), levels=2)
    expected = [scorer.evaluator.evaluate(decode(tokens), task(24), sample, 2) for tokens, sample in ((short, 5), (long, 6))]
    assert found.quality.tolist() == [outcome.quality for outcome in expected]
    own = scorer.score(array, np.array([24, 24]), 5)
    assert own.price[0] == scorer.evaluator.cost(decode(short), sample_level(task(24), 5))[0]


@given(st.lists(st.sampled_from([*range(80000, 80018), *range(90000, 90019), 0, 7]), max_size=12))
def test_what_is_no_plan_is_marked(tokens: list[int]) -> None:
    try:
        decode(tokens).check_types(SIGNATURES)
        valid = True
    except InvalidPlan:
        valid = False
    found = SCORERS["rules"].score([CAPTION, tokens], 24, 0, invalid="mark")
    assert found.valid.tolist() == [True, valid]
    assert np.isnan(found.score).tolist() == [False, not valid]


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([], "at least one tool"),
        ([80008, 90017, 12], "no token"),
        ([90017], "before any tool"),
        ([80008, 80001], "no dependencies"),
        ([80008, 90017, 80008, 90017], "there before"),
        ([80008, 90006], "not among the tools before"),
        ([80009, 90017], "no part in this world"),
        ([80011, 90017], "another kind"),
    ],
)
def test_what_is_no_plan_is_named_with_its_reason(tokens: list[int], reason: str) -> None:
    with pytest.raises(InvalidPlan, match=rf"plan 2.*{reason}|{reason}.*plan 2"):
        SCORERS["shipped"].score([CAPTION, tokens], 24, 0)


def test_wrong_questions_are_clear_errors() -> None:
    for arguments, error in (
        (([CAPTION], 24, 100), UnknownName),
        (([CAPTION], 2, 0), UnknownName),
        (([CAPTION], 24, [0, 1]), ConfigError),
        (([CAPTION], 24, [0.5]), ConfigError),
        (([CAPTION], 24, 0, 4), ConfigError),
        ((np.zeros(3, np.int64), 24, 0), ConfigError),
        (([Plan.from_list(["a_tool", [TASK_INPUT]])], 24, 0), InvalidPlan),
    ):
        with pytest.raises(error):
            SCORERS["shipped"].score(*arguments)
    assert SCORERS["shipped"].score([], 24, []).score.shape == (0,)


def test_a_score_is_asked_for_once() -> None:
    class Counted(RuleScores):
        asked = 0

        def text_score(self, *place: Any) -> float:
            type(self).asked += 1
            return super().text_score(*place)

    scorer = PlanScorer(Evaluator(Counted()))
    tokens = [80000, 80008, 90000, 90017, 90001, 80015, 90000, 90008, 90001, 80001]
    first = scorer.score([tokens] * 20_000, 24, 3)
    again = scorer.score([tokens], 24, 3)
    assert Counted.asked == 1
    assert {*first.score.tolist(), *again.score.tolist()} == {scorer.evaluator.score(decode(tokens), task(24), 3)}


def test_errors_of_a_broken_source_come_through() -> None:
    class Broken(RuleScores):
        def score(self, *place: Any) -> float:
            raise UnknownName("output", "x", ())

    with pytest.raises(CostGymError):
        PlanScorer(Evaluator(Broken())).score([CAPTION], 24, 0)
