"""Failures are held to the figures that were measured on real marketplaces."""

from math import inf
from types import SimpleNamespace

import numpy as np
import pytest

from costgym.simulators.draws import KIND, OUTCOME, Draws, DrawSource
from costgym.simulators.failures import (
    KINDS,
    PRESETS,
    FailureModel,
    cumulative_kinds,
    draw_latency_s,
    draw_reliability,
    state_chances,
)
from costgym.simulators.rules.failures import ALIVE, DEAD, DEGRADED, outage_after, pick, start_next, wake, way_to_fail
from costgym.simulators.rules.records import ToolState
from costgym.simulators.status import Status

MODEL = PRESETS["rapidapi-2024"]


@pytest.fixture(scope="module")
def adverts():
    return [draw_reliability(MODEL, 0, f"tool_{i}") for i in range(6000)]


class Hidden:
    """The hidden state of a tool in an episode, as the rules of failures play it."""

    def __init__(self, draws: Draws, slot: int, reliability: float, model: FailureModel) -> None:
        kinds = cumulative_kinds(model.kinds)
        alive, degraded = state_chances(reliability, model.slip)
        world = SimpleNamespace(kinds=kinds, kind_edges=(*(edge for edge, _ in kinds[:-1]), inf))
        self.tables, self.rules = SimpleNamespace(world=world), SimpleNamespace(sticky=model.sticky)
        self.spec = SimpleNamespace(
            alive_edge=alive, degraded_edge=alive + degraded, slip=model.slip, persistence=model.persistence
        )
        self.draws, self.slot, self.tool = draws, slot, ToolState(0)
        wake(self.tables, None, self.spec, self.tool, draws.at(0, slot)[OUTCOME], draws.at(0, slot)[KIND])

    def works(self) -> bool:
        """Whether the next call finds the tool working."""
        start_next(self.spec, self.tool, self.draws.at(self.tool.started + 1, self.slot)[OUTCOME])
        return bool(self.tool.works)

    def failure(self, k: int) -> Status:
        """How the k-th call fails if it does."""
        return way_to_fail(self.tables, self.rules, None, self.tool, self.draws.at(k, self.slot)[KIND])


def outcomes_of(model: FailureModel, count: int, calls: int, seed: int = 0) -> np.ndarray:
    """Whether each call worked, shape (count, calls): tools by their reliability, one episode each."""
    source, rows = DrawSource(), []
    for i in range(count):
        hidden = Hidden(Draws(source, seed, i, 1), 0, draw_reliability(model, seed, f"tool_{i}").reliability, model)
        rows.append([hidden.works() for _ in range(calls)])
    return np.array(rows)


@pytest.mark.parametrize("name", ["rapidapi-2023", "rapidapi-2024", "storm"])
def test_a_call_after_a_failure_fails_far_more_often_than_one_after_a_success(name):
    worked = outcomes_of(PRESETS[name], 4000, 6)
    before, now = worked[:, :-1], worked[:, 1:]
    fail_after_fail = 1 - now[~before].mean()
    fail_after_ok = 1 - now[before].mean()
    assert fail_after_fail == pytest.approx(0.90, abs=0.04)
    assert fail_after_ok == pytest.approx(0.13, abs=0.05)


@pytest.mark.parametrize(("name", "usable"), [("rapidapi-2023", 0.615), ("rapidapi-2024", 0.444), ("storm", 0.38)])
def test_the_mean_reliability_is_the_eras_usable_share(name, usable):
    drawn = [draw_reliability(PRESETS[name], 0, f"tool_{i}").reliability for i in range(6000)]
    assert np.mean(drawn) == pytest.approx(usable, abs=0.02)
    assert outcomes_of(PRESETS[name], 4000, 1).mean() == pytest.approx(usable, abs=0.04)


def test_what_is_advertised_follows_the_truth_and_overstates_it(adverts):
    truth = np.array([advert.reliability for advert in adverts])
    success = np.array([advert.success for advert in adverts])
    fame = np.array([advert.popularity for advert in adverts])
    assert np.corrcoef(truth, success)[0, 1] == pytest.approx(0.89, abs=0.03)
    assert np.corrcoef(fame, truth)[0, 1] == pytest.approx(0.88, abs=0.03)
    assert success.mean() > truth.mean() + 0.2
    assert success.min() >= 0 and success.max() <= 1
    assert fame.min() >= 0 and fame.max() <= 9.9


def test_a_reliable_world_never_fails():
    model = PRESETS["reliable"]
    assert outcomes_of(model, 300, 5).all()
    assert {draw_reliability(model, 0, f"tool_{i}").success for i in range(300)} == {1.0}


def test_tools_keep_their_telemetry_with_the_chance_that_the_usable_share_gives():
    drawn = [draw_reliability(MODEL, 0, f"tool_{i}", advertised=0.8) for i in range(4000)]
    assert {advert.success for advert in drawn} == {0.8}
    assert {round(advert.reliability, 12) for advert in drawn} == {0.8, round(0.8 * MODEL.slip, 12)}
    survived = np.mean([advert.reliability == 0.8 for advert in drawn])
    assert survived == pytest.approx(0.444 / 0.784, abs=0.03)


def test_latency_has_the_measured_median_and_tail():
    seconds = np.array([draw_latency_s(0, f"tool_{i}") for i in range(8000)])
    assert np.median(seconds) == pytest.approx(0.826, rel=0.06)
    assert (seconds > 30).mean() == pytest.approx(0.024, abs=0.01)


@pytest.mark.parametrize("reliability", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_states_chances_make_up_the_reliability(reliability):
    alive, degraded = state_chances(reliability, 0.08)
    assert 0 <= alive <= 1 and degraded >= 0 and alive + degraded <= 1 + 1e-12
    assert alive + 0.5 * degraded == pytest.approx(reliability)


def test_an_episodes_states_are_as_likely_as_they_should_be():
    source = DrawSource()
    states = [Hidden(Draws(source, 0, i, 1), 0, 0.5, MODEL).tool.chain for i in range(4000)]
    shares = [states.count(state) / 4000 for state in (ALIVE, DEGRADED, DEAD)]
    assert shares == pytest.approx([0.45, 0.10, 0.45], abs=0.025)


def test_a_failing_tool_mostly_fails_in_its_usual_way():
    source, same, usual = DrawSource(), [], []
    for i in range(1500):
        hidden = Hidden(Draws(source, 0, i, 1), 0, 0.0, MODEL)
        usual.append(hidden.tool.usual)
        same += [hidden.failure(k) is hidden.tool.usual for k in range(1, 4)]
    assert np.mean(same) == pytest.approx(MODEL.sticky + (1 - MODEL.sticky) * sum(s * s for s in KINDS.values()), abs=0.02)
    for name, share in KINDS.items():
        assert usual.count(Status[name.upper()]) / 1500 == pytest.approx(share, abs=0.04)


def test_kinds_are_renormalised_and_the_last_one_takes_the_rest():
    kinds = cumulative_kinds({"timeout": 3.0, "empty": 1.0, "irrelevant": 0.0})
    assert kinds == ((0.75, Status.TIMEOUT), (1.0, Status.EMPTY))
    world = SimpleNamespace(world=SimpleNamespace(kinds=kinds, kind_edges=(0.75, inf)))
    assert [pick(world, None, luck) for luck in (0.0, 0.7499, 0.75, 0.9999, 1.0)] == [
        Status.TIMEOUT, Status.TIMEOUT, Status.EMPTY, Status.EMPTY, Status.EMPTY,
    ]  # fmt: skip


def test_outages_come_and_last_on_average_as_long_as_the_scenario_says() -> None:
    luck = (np.arange(10_000) + 0.5) / 10_000
    begins = [outage_after(300.0, 20.0, 0.1, False, 1000.0, value, 0.5)[0] for value in luck]
    assert np.mean(begins) - 1000.0 == pytest.approx(300.0, rel=1e-3)
    spans = [outage_after(300.0, 20.0, 0.1, False, 1000.0, 0.5, value) for value in luck]
    assert np.mean([end - begin for begin, end in spans]) == pytest.approx(20.0, rel=1e-3)
    first = [outage_after(300.0, 20.0, 0.1, True, 0.0, value, 0.5)[0] for value in luck]
    assert np.mean([begin == 0.0 for begin in first]) == pytest.approx(0.1, abs=1e-3)
