"""Tools and tasks that a scenario lists itself."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

import costgym
from costgym.agents import make_agent
from costgym.simulators.errors import DataError, UnknownName
from costgym.simulators.scenario import load_scenario, parse_scenario

FILE = Path(__file__).parents[3] / "examples" / "weather_desk.yaml"
DOCUMENT = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def changed(path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    *steps, last = path.split(".")
    part: Any = document
    for step in steps:
        part = part[int(step)] if isinstance(part, list) else part[step]
    part[int(last) if isinstance(part, list) else last] = value
    return document


def test_a_tool_has_the_profile_that_was_written_and_is_advertised_as_it_is_unless_said() -> None:
    catalog = load_scenario(FILE).build().catalog
    profile = catalog.get("budget_weather").profile
    assert (profile.fee, profile.latency_s, profile.reliability, profile.advertised_success) == (1, (0.4,), 0.55, 0.9)
    assert catalog.get("sure_weather").profile.advertised_success == 0.99
    assert catalog.get("geocoder").profile.advertised_latency_s == 0.2
    assert catalog.get("geocoder").parameters["required"] == ["place"]


def test_a_need_may_take_what_an_earlier_one_found() -> None:
    task = load_scenario(FILE).build().tasks[1]
    assert task.needs[1].arguments == {"station": "BGO-2"}
    assert task.needs[1].after == (0,)
    assert task.needs[1].tools == ("budget_weather", "sure_weather")
    assert task.candidates == ("budget_weather", "sure_weather", "geocoder")


def test_tools_know_what_tasks_speak_of_and_nothing_else() -> None:
    world = load_scenario(FILE).build()
    tool, task = world.catalog.get("sure_weather"), world.tasks[0]
    assert world.answers.answer(tool, {"station": "osl-7 "}, task) == '{"station": "OSL-7", "weather": "-3.5 degrees"}'
    assert world.answers.answer(tool, {"station": "elsewhere"}, task) is None
    assert "-3.5" not in world.answers.irrelevant(tool, {"station": "OSL-7"}, task, 0.99)


def test_the_oracle_solves_it_and_both_views_agree_on_the_price() -> None:
    env = costgym.make("costgym/Marketplace-v0", scenario=str(FILE), budget={"price": 100})
    results = costgym.rollout(env, make_agent("oracle"), episodes=30, seed=0)
    assert sum(r.strict for r in results) >= 27
    chat = costgym.make("costgym/MarketplaceChat-v0", scenario=str(FILE))
    chat.reset(seed=1, options={"task": 0})
    *_, info = chat.step('{"name": "sure_weather", "arguments": {"station": "OSL-7"}}')
    assert info["cost_sum"] == 4.0


@pytest.mark.parametrize(
    ("path", "value", "kind", "says"),
    [
        ("source.tools.1.name", "budget_weather", DataError, "two tools are named 'budget_weather'"),
        ("source.tools.0.profile.fee", -1, DataError, "fee: expected a number from 0 to 1e+09"),
        ("source.tools.0.profile.latency_s", [], DataError, "at least one size level"),
        ("source.tools.0.profile.quota", 1.5, DataError, "expected a whole number, got 1.5"),
        ("source.tools.0.profile.fees", 1, UnknownName, "fees"),
        ("source.tasks.0.needs.0.capability", "wether", UnknownName, "wether"),
        ("source.tasks.1.needs.1.arguments.station", "{1}", DataError, "an earlier need"),
        ("source.tasks.0.tools", ["nothing"], UnknownName, "nothing"),
        ("source.tasks.0.tools", ["geocoder"], UnknownName, "weather"),
        (
            "source.tasks.2.needs.1",
            {"capability": "station", "arguments": {"place": "Turku"}, "fact": "TKU-4"},
            DataError,
            "an earlier need asks for the same",
        ),
        ("source.tasks.0.needs.0.type", "date", DataError, "expected a date, got '-3.5 degrees'"),
        ("source.tasks.0.needs.0.optional", True, DataError, "at least one need that is asked for"),
        ("source.tasks.0.needs.0.tolerance", -1, DataError, "greater than or equal to 0"),
        ("source.tasks.2.needs.0.arguments", {"place": "Bergen"}, DataError, "the same arguments must give the same fact"),
        ("source.tasks.0.query", "", DataError, "source.own.tasks.0.query"),
        ("source.tasks", [], DataError, "at least 1"),
    ],
)
def test_what_is_wrong_is_named(path: str, value: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind) as caught:
        parse_scenario(changed(path, value)).build()
    assert says in str(caught.value)


def test_a_split_without_tasks_is_refused() -> None:
    document = copy.deepcopy(DOCUMENT)
    for task in document["source"]["tasks"]:
        task["split"] = "train"
    with pytest.raises(DataError, match="no task is in the split 'test'"):
        parse_scenario(document).build()


def test_two_readings_of_one_file_are_one_world() -> None:
    assert load_scenario(FILE).digest == load_scenario(FILE).digest
    assert load_scenario(FILE).digest != parse_scenario(changed("source.tools.0.profile.fee", 2)).digest
