"""Silent faults: they look like answers, hold no wanted fact, and are the same every time."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.failures import FailureModel
from costgym.simulators.failures.silent import corrupted, cut_off, drifted, spoilt, unsupported
from costgym.simulators.scenario import load_scenario
from costgym.simulators.status import LOOKS_OK, SILENT, Status
from costgym.simulators.tasks import Need, Task, fact_in, normalise
from tests.helpers.worlds import small_world, tool

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


def task(*facts: str) -> Task:
    return Task("t", 0, "q", tuple(Need(fact, ("a",)) for fact in facts), ("a",))


@given(
    document=JSON, fact=st.one_of(st.sampled_from(["21.45", "7", "Anna K. Brook", "北京"]), st.text(min_size=1)),
    luck=st.floats(0, 1, exclude_max=True), status=st.sampled_from(SILENT),
)  # fmt: skip
def test_no_wanted_fact_stands_in_a_spoilt_answer_and_it_is_the_same_every_time(
    document: Any, fact: str, luck: float, status: Status
) -> None:
    text = json.dumps({"about": document, "value": fact}, ensure_ascii=False)
    spoilt_text = spoilt(text, status, task(fact), luck)
    if normalise(fact):
        assert not fact_in(fact, normalise(spoilt_text))
    assert spoilt_text == spoilt(text, status, task(fact), luck)


def test_an_answer_is_cut_off_before_the_fact() -> None:
    assert cut_off('{"city": "Oslo", "temperature": 21.45}', 0.9, {"21.45"}) == '{"city": "Oslo", "temperature":'


def test_a_corrupt_value_keeps_its_type_and_the_others_stay() -> None:
    assert json.loads(corrupted('{"city": "Oslo", "temperature": 21.45}', 0.0, {"21.45"})) == {
        "city": "Oslo",
        "temperature": 32.56,
    }
    assert corrupted("the code is AB 12", 0.0, {"12"}) == "the code is AB 23"


def test_a_drifted_answer_has_its_values_in_rows_and_the_wanted_one_in_pieces() -> None:
    document = json.loads(drifted('{"data": {"city": "Oslo", "temperature": 21.45}}', 0.0, {"21.45"}))
    rows = [{"f": "datcit", "v": "Oslo"}, {"f": "dattem", "v": ["21...", "....45"]}]
    assert document == {"schema": "2.0", "rows": rows}


@pytest.mark.parametrize("status", SILENT)
def test_a_silent_fault_is_billed_looks_well_and_gives_no_fact(status: Status) -> None:
    model = FailureModel(slip=0.0, sticky=1.0, kinds={status.label: 1.0}, persistence=0.0)
    episode = small_world(tool("a", reliability=0.0, fee=3.0), failures=model).episode(0)
    call = episode.call(0)
    assert call.status is status and call.status in LOOKS_OK and status.executed
    assert (call.price, episode.known) == (3.0, [False])
    assert episode.content(call) and "error" not in episode.content(call)
    assert not fact_in(episode.needs[0].fact, normalise(episode.content(call)))


def test_the_scenario_silent_meets_every_silent_fault() -> None:
    world = load_scenario("silent").build()
    met = set()
    for number in range(60):
        episode = world.episode(number, seed=number)
        met |= {episode.call(slot).status for slot in range(4) if not episode.over}
    assert set(SILENT) <= met


def test_a_tools_own_slip_and_persistence_replace_the_worlds() -> None:
    model = FailureModel(slip=0.2, persistence=0.0)
    world = small_world(tool("sure", reliability=1.0, slip=0.0), tool("shaky", 1, reliability=1.0), failures=model, copies=1)
    calls = [[episode.call(slot).status for slot in (0, 1)] for episode in (world.episode(0, seed) for seed in range(300))]
    assert all(sure is Status.OK for sure, _ in calls)
    assert 30 < sum(shaky is not Status.OK for _, shaky in calls) < 90


@pytest.mark.parametrize(
    ("answer", "read_facts"),
    [
        ("It is 21.45 degrees in Oslo.", []),
        ("It is 22.45 degrees on 2027-03-01.", ["22.45", "2027-03-01"]),
        ("The code is AB-1207, of 3 rooms.", ["ab-1207"]),
        ("The price is 1,250.00 for Anna K. Brook.", ["anna k. brook"]),
    ],
)
def test_a_value_is_unsupported_if_nothing_that_was_read_holds_it(answer: str, read_facts: list[str]) -> None:
    read = ["How warm is Oslo?", '{"temperature": 21.45}', '{"price": "1250.00"}']
    assert unsupported(answer, read, ["Anna K. Brook", "somebody else"]) == read_facts
