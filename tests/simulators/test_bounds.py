"""Scenarios at the borders: what lies outside is refused with a sentence, what lies inside is played."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from costgym.simulators.bounds import BOUNDS
from costgym.simulators.errors import ConfigError, CostGymError, DataError, UnknownName
from costgym.simulators.failures import Bursts, FailureModel
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import Scenario, load_scenario, parse_scenario
from costgym.simulators.tasks import Judge
from costgym.simulators.tools import ToolProfile
from tests.helpers.worlds import BROKEN, small_world, tool

TOOL = {"name": "a", "capability": "c"}
OWN = {"kind": "own", "tools": [TOOL], "tasks": [{"query": "q", "needs": [{"capability": "c", "fact": "f"}]}]}


def with_profile(**profile: Any) -> dict[str, Any]:
    return {"name": "x", "source": {**OWN, "tools": [{**TOOL, "profile": profile}]}}


REFUSED: dict[str, dict[str, Any]] = {
    "no way to fail": {"failures": {"kinds": {}}},
    "an unknown way to fail": {"failures": {"kinds": {"gremlins": 1.0}}},
    "a negative weight": {"failures": {"kinds": {"timeout": -1.0, "empty": 2.0}}},
    "a weight that is not a number": {"failures": {"kinds": {"timeout": math.nan}}},
    "weights of zero": {"failures": {"kinds": {"timeout": 0.0}}},
    "outages without end": {"failures": {"bursts": {"every_s": 1e-7, "lasts_s": 1e-7}}},
    "an endless outage": {"failures": {"bursts": {"every_s": 5, "lasts_s": math.inf}}},
    "shares over one": {"failures": {"dead_share": 0.7, "perfect_share": 0.7}},
    "a share that is not a number": {"failures": {"usable": math.nan}},
    "a beta of zero": {"failures": {"beta": [0.0, 1.0]}},
    "an infinite noise": {"failures": {"advertised_spread": math.inf}},
    "a huge spread": with_profile(latency_spread=300),
    "durations in no order": with_profile(latency_quantiles=[2.0, 1.0]),
    "durations that are no table": with_profile(latency_quantiles=2.0),
    "a list of fees": with_profile(fee=[1.0, 2.0]),
    "outages of an unknown tool": {**with_profile(), "failures": {"bursts": {"every_s": 5, "lasts_s": 1, "tools": ["nobody"]}}},
    "a quota over 32 bits": with_profile(quota=3_000_000_000),
    "more places than memory": with_profile(concurrency=2**40),
    "a fee that overflows": with_profile(fee=1e308),
    "an infinite fee": with_profile(fee=math.inf),
    "a window that takes 250 MiB": with_profile(rate_limit=32_000),
    "a judge's curve below zero": {"judge": {"curve": -1.0}},
    "a judge that is not a number": {"judge": {"none": math.nan}},
    "an infinite time": {"events": [{"at_s": math.inf, "kind": "ban"}]},
    "prices that explode": {"events": [{"at_s": 1, "kind": "price_change", "factor": 1000.0}] * 4},
    "prices that vanish": {"events": [{"at_s": 1, "kind": "price_change", "factor": 0.001}] * 4},
    "a thinking time that is not a number": {"ttft_s": math.nan},
    "a speed of nearly nothing": {"tokens_per_s": 1e-305},
    "an infinite budget": {"budget": {"price": math.inf}},
    "a tiny budget": {"budget": {"price": 5e-324}},
    "half a character": {"description": "before \ud800 after"},
    "half a character deep inside": {
        "source": {**OWN, "tasks": [{"query": "q\udfff", "needs": [{"capability": "c", "fact": "f"}]}]}
    },
    "a fact of spaces": {"source": {**OWN, "tasks": [{"query": "q", "needs": [{"capability": "c", "fact": "  "}]}]}},
    "a tool offered twice": {
        "source": {**OWN, "tasks": [{"query": "q", "tools": ["a", "a"], "needs": [{"capability": "c", "fact": "f"}]}]}
    },
    "outages that stress makes endless": {"stress": {"failures": 100}, "failures": {"bursts": {"every_s": 5, "lasts_s": 1}}},
    "calls that stress makes endless": {**with_profile(latency_s=[1000.0]), "stress": {"latency": 1000}},
    "a stress that is not a number": {"stress": {"latency": math.nan}},
    "a number of a million digits": {"seed": 10**300_000},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_crash_or_split_the_worlds_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises((DataError, ConfigError, UnknownName)) as refused:
        parse_scenario({"name": "x", **REFUSED[name]}).build().tasks[0]
    text = str(refused.value)
    assert "pydantic" not in text and "errors.pydantic.dev" not in text and len(text) < 400
    text.encode()


@pytest.mark.parametrize("path", [bound for bound in BOUNDS if bound.startswith("profile.")])
def test_both_ends_of_a_profiles_range_are_taken_and_nothing_beyond(path: str) -> None:
    name = path.removeprefix("profile.")
    low, high, _, whole = BOUNDS[path]

    def value_of(value: float) -> dict[str, Any]:
        listed = {"latency_s": [value], "latency_quantiles": sorted((1.0, value))}
        return with_profile(**{name: listed.get(name, value)})

    for value in (low, high):
        number = int(value) if whole else value
        parse_scenario(value_of(number)).build()
    for value in (low - 1, high * 1.001 + 1, math.nan, math.inf):
        with pytest.raises((DataError, ConfigError)):
            parse_scenario(value_of(value)).build()


def with_share(path: str, value: float) -> dict[str, Any]:
    part, _, name = path.partition(".")
    document: dict[str, Any] = {"name": "x", "source": {"kind": "marketplace", "tools": 40, "providers": 8, "categories": 2}}
    if part == "events":
        return {**document, "events": [{"at_s": 1.0, "kind": "ban", name: value}]}
    if name == "perfect_share":  # with dead_share, at most everything
        return {**document, "failures": {name: value, "dead_share": 0.0}}
    if name == "dead_share":
        return {**document, "failures": {name: value, "perfect_share": 0.0}}
    return {**document, part: {**document.get(part, {}), name: value}}


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, range_ in BOUNDS.items()
        if path.split(".")[0] in ("failures", "events", "source") and range_[:2] == (0, 1)
    ],
)
def test_both_ends_of_a_share_are_taken_and_nothing_beyond(path: str) -> None:
    for value in (0, 1):
        parse_scenario(with_share(path, value)).build()
    for wrong in (-1e-9, 1.0000001, math.nan, math.inf):
        with pytest.raises((DataError, ConfigError), match=path.rpartition(".")[2]):
            parse_scenario(with_share(path, wrong))


def test_every_share_of_the_failure_model_stands_in_the_table() -> None:
    tuples = {"beta", "kinds", "bursts"}
    assert {f"failures.{name}" for name in FailureModel.model_fields.keys() - tuples} <= BOUNDS.keys()


@pytest.mark.parametrize(
    "make",
    [
        lambda: FailureModel(usable=2.0),
        lambda: Bursts(every_s=-1.0, lasts_s=1.0),
        lambda: Scenario(name="x", budgett={}),  # type: ignore[call-arg]
        lambda: Judge(curve=-1.0),
        lambda: ToolProfile(fee=math.nan),
        lambda: Budget(price=1e300),
    ],
)
def test_pydantic_errors_are_converted_to_config_errors(make: Any) -> None:
    with pytest.raises(CostGymError) as error:
        make()
    assert "pydantic" not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "name: x\nseed: " + "9" * 5000,
        "name: x\ndescription: !!timestamp 2024-99-99\n",
        "a: &a {b: *a}\n",
        "[" * 3000,
        'name: "\\ud800"\n',
        "extends: other.yaml\n",
        "1: 2\n",
    ],
)
def test_a_file_that_is_no_scenario_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    (tmp_path / "other.yaml").write_text("extends: bad.yaml\n")
    with pytest.raises(DataError, match=r"bad\.yaml|other\.yaml"):
        load_scenario(tmp_path / "bad.yaml")


def test_a_call_a_million_seconds_into_outages_of_a_second_is_soon_told() -> None:
    failures = BROKEN.model_copy(update={"bursts": Bursts(every_s=1.0, lasts_s=1.0)})
    episode = small_world(tool("a"), failures=failures).episode(0)
    episode.advance(100_000.0)
    episode.call(0)
    spans = episode.bursts.spans if episode.bursts else []
    assert 40_000 < len(spans) < 60_000 and all(a[1] <= b[0] for a, b in pairwise(spans))
    assert len(episode._draws.values) < 1_000  # only the outages are kept
