"""Version 1's English: the same world under the words, and words that hold together."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest

from costgym.simulators.grading.answers import states
from costgym.simulators.marketplace.catalogue import false_promise
from costgym.simulators.marketplace.english import EnglishKind, capability_titled, english, with_article, write_fact
from costgym.simulators.marketplace.english_writes import WORDINGS, thing_of
from costgym.simulators.marketplace.vocabulary import vocabulary
from costgym.simulators.scenario import Scenario, load_scenario
from costgym.simulators.tasks import Need, fact_in, normalise
from costgym.simulators.tools import Tool

KNOWN, PLAIN = english(links=True), vocabulary(links=True)
NAMES = ("marketplace", "marketplace-extreme", "marketplace-writes")


def worlds(name: str):
    return (load_scenario(name).in_world(version).build() for version in (0, 1))


def test_the_same_calls_follow_from_the_same_ones() -> None:
    assert list(KNOWN.capabilities) == list(PLAIN.capabilities)
    for name, capability in KNOWN.capabilities.items():
        old = PLAIN.capabilities[name]
        assert bool(capability.gives) == bool(old.gives) and capability.category == old.category
        if capability.gives:
            follows = [{c.name for c in v.values() if c.takes(v[name].gives)} for v in (KNOWN.capabilities, PLAIN.capabilities)]
            assert follows[0] == follows[1], name


def test_titles_are_unique_and_lead_back() -> None:
    assert {capability_titled(capability.title): 1 for capability in KNOWN.capabilities.values()} == dict.fromkeys(
        KNOWN.capabilities, 1
    )
    assert all(re.fullmatch("[a-z]+(_[a-z]+)+", capability.title) for capability in KNOWN.capabilities.values())


def test_articles_are_the_library_s(monkeypatch: pytest.MonkeyPatch) -> None:
    # which would check its types at run time, and be imported for seconds
    monkeypatch.setitem(sys.modules, "typeguard", SimpleNamespace(typechecked=lambda function: function))  # type: ignore[arg-type]
    engine = pytest.importorskip("inflect", reason="articles are checked by the library `inflect`").engine()
    nouns = [kind.noun for kind in KNOWN.kinds.values() if kind.noun]
    nouns += [name for kind in KNOWN.kinds.values() if isinstance(kind, EnglishKind) and kind.spoken for name in kind.names]
    checked = [noun for noun in nouns if not noun.isupper() and noun.islower()]
    assert len(checked) > 80 and [noun for noun in checked if with_article(noun) != engine.a(noun)] == []


@pytest.mark.parametrize("name", KNOWN.kinds)
def test_a_value_names_its_number_and_what_is_made_up_names_nothing(name: str) -> None:
    kind, seed = KNOWN.kinds[name], 7
    for number in (0, 1, kind.size // 2, kind.size - 1):
        assert kind.number(kind.value(number, seed), seed) == number
        assert kind.number(str(kind.value(number, seed)).upper(), seed) == number
    for wrong in (None, True, "no such thing", "x" * 200, [], -1e300, float("nan"), "", 10**40):
        assert kind.number(wrong, seed) is None
    if "#" in getattr(kind, "pattern", ""):
        value = str(kind.value(0, seed))
        made_up = [re.sub(r"\d(?=\D*$)", str(digit), value) for digit in range(10)]
        assert sum(kind.number(code, seed) is not None for code in made_up) <= 4


@pytest.mark.parametrize("name", NAMES)
def test_tasks_have_the_same_structure_in_both_versions(name: str) -> None:
    plain, spoken = worlds(name)
    keys = {tool.name: tool.key for tool in spoken.catalog}
    assert [tool.key for tool in spoken.catalog] == [tool.name for tool in plain.catalog]
    assert [tool.profile for tool in spoken.catalog] == [tool.profile for tool in plain.catalog]
    assert [tool.capability for tool in spoken.catalog] == [tool.capability for tool in plain.catalog]

    def shape(need: Need, names: dict[str, str]) -> tuple[object, ...]:
        tools = tuple(names.get(tool, tool) for tool in need.tools)
        return tools, need.after, need.capability, need.alternative is None, need.asked, need.optional, need.state, need.amount

    for split in ("train", "test"):
        for number in plain.tasks.numbers(split)[:40]:
            old, new = plain.tasks[number], spoken.tasks[number]
            assert (old.id, old.number, old.group, old.size_level, old.solvable) == (
                new.id,
                new.number,
                new.group,
                new.size_level,
                new.solvable,
            )
            assert old.candidates == tuple(keys[tool] for tool in new.candidates)
            assert [shape(need, {}) for need in old.needs] == [shape(need, keys) for need in new.needs]
            assert old.named == tuple(keys[tool] for tool in new.named)


@pytest.mark.parametrize("name", ["marketplace", "marketplace-extreme"])
def test_every_tool_answers_the_facts_and_queries_hold_none(name: str) -> None:
    _, world = worlds(name)
    for number in world.tasks.numbers("test")[:80]:
        task = world.tasks[number]
        assert not re.search(r"[{}]|\ba [aeio]|  ", task.query), task.query
        for need in task.needs:
            assert need.wish in task.query and not fact_in(need.fact, normalise(task.query))
            for tool in need.tools:
                text = world.answers.answer(world.catalog.get(tool), need.arguments, task)
                assert states(need, f"The answer is {need.fact}.") and fact_in(need.fact, normalise(text))


def test_splits_share_no_entity() -> None:
    _, world = worlds("marketplace")
    named: dict[str, set[tuple[str, str]]] = {}
    for split in ("train", "test"):
        values = named[split] = set()
        for number in world.tasks.numbers(split):
            for need in world.tasks[number].needs:
                values |= {(name, str(value)) for name, value in (need.arguments or {}).items() if KNOWN.kinds[name].entity}
    assert len(named["train"]) > 300 and not named["train"] & named["test"]


def test_documentation_names_every_argument_and_misnamed_tools_promise_falsely() -> None:
    scenario = load_scenario("marketplace").in_world(1)
    source = scenario.source.model_copy(update={"misnamed": 0.3})
    world = Scenario.model_validate({**scenario.model_dump(), "source": source.model_dump()}).build()
    for tool in world.catalog:
        assert len(tool.name) <= 64 and re.fullmatch("[a-z0-9_]+", tool.name) and not re.search("[{}]|  ", tool.description)
        assert all(schema["description"].endswith((".", "?")) for schema in tool.parameters["properties"].values())
    wrong = [tool for tool in world.catalog if false_promise(tool)]
    assert 0.2 < len(wrong) / len(world.catalog) < 0.4
    plain = scenario.in_world(1).model_copy(update={"source": source.model_copy(update={"world": 0})}).build()
    assert {tool.key: false_promise(tool) for tool in world.catalog} == {
        tool.name: false_promise(tool) for tool in plain.catalog
    }


def test_numbers_keep_all_their_decimals_and_stay_within_their_range() -> None:
    for luck in range(0, 2**64, 2**64 // 997):
        text = str(write_fact("n:0.12:9.8:2", luck))
        assert re.fullmatch(r"\d\.\d\d", text) and 0.12 <= float(text) <= 9.8
        assert 1_100 <= int(write_fact("c:1100:48000", luck)) <= 48_000
        assert re.fullmatch("(15|16|17|18|19|20|21):[0-5][0-9]", str(write_fact("clock:15:22", luck)))


def test_things_of_writing_tasks_differ_for_every_number() -> None:
    for wording in WORDINGS.values():
        assert len({thing_of(wording, 0, number) for number in range(3_000)}) == 3_000


def test_a_key_is_the_name_unless_another_version_had_one() -> None:
    assert Tool("get_rain", "Returns the rain.", "Weather", "Nimbus").key == "get_rain"
    assert Tool("get_rain", "Returns the rain.", "Weather", "Nimbus", origin="rainfall_for_nimbus").key == "rainfall_for_nimbus"
