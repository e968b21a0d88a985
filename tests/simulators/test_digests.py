"""Digests of worlds: schema 1 leaves defaults out, and schema 0 still names what version 0.2 recorded."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

import costgym
from costgym.envs.registration import class_of
from costgym.experiments.play.trajectories.format import Header, check_header, seal_of
from costgym.simulators.digests import digest_of, recorded_text, schema_of
from costgym.simulators.scenario import Scenario, load_scenario, parse_scenario
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.tasks import Need, Task
from costgym.simulators.tools import Effect, Tool, ToolProfile
from tests.helpers.shared_data import shared

FAMILY = "data/toolbench_family"
RECORDED = {
    "decision": "4de7abaaaee4278e", "faas": "062f3e62f3d7c23f", "marketplace": "c13c00622d12b9e8",
    "marketplace-retrieved": "e39443e2a8175a0d", "marketplace-small": "365d04da43d451e8",
    "marketplace-writes": "d5824f6a1db2dfc3", "silent": "a0fecbbc9775bdb5", "storm": "fe2017fd87e394d1",
    "toolbench": "59cf6b7cbc71554c", "toolbench-retrieved": "2b816ae901a6718e", "tooldeer": "6c74ec0089c8f928",
}  # fmt: skip
"""Digests by which version 0.2 recorded the worlds that come with the package."""
FOLDERS = {
    ("toolbench", "toolbench"): "b8351afa852287c0",
    ("tooldeer", "tooldeer"): "6640aea45b70ffa6",
    ("anytool", "anytool"): "8ff239b7b6bdc56e",
}
"""The same of published data, whose tasks and tools count."""


def test_schema_0_names_the_worlds_of_version_0_2() -> None:
    assert {name: load_scenario(name).digest_under(0) for name in RECORDED} == RECORDED
    assert SessionRules().digest_under(0) == "65bbe260ec4e5a76"
    assert SessionRules(tools=30, scenario=load_scenario("storm")).digest_under(0) == "4a491583eef9f11f"


@pytest.mark.parametrize(("kind", "folder"), FOLDERS)
def test_schema_0_names_what_a_folder_holds(kind: str, folder: str) -> None:
    scenario = load_scenario(kind, shared(f"{FAMILY}/{folder}"))
    assert scenario.digest_under(0) == FOLDERS[kind, folder] and scenario.digest.startswith("1-")


def test_schema_0_leaves_out_fields_that_are_younger_than_recorded_worlds() -> None:
    need, tool = Need("a fact", ("tool",), {"q": 1}, fact_type="words"), Tool("tool", "about", "Weather", "us")
    text = recorded_text(Task("t", 0, "query", (need, replace(need, alternative=need, amount=2.0)), ("tool",), named=("tool",)))
    old = "fact='a fact', tools=('tool',), arguments={'q': 1}, after=(), wish='', capability='', alternative="
    assert text.startswith(
        f"Task(id='t', number=0, query='query', needs=(Need({old}None), Need({old}Need({old}None), amount=2.0)"
    )
    assert "named" not in text and "effect" not in recorded_text(tool) and "slip" not in recorded_text(tool)
    assert "effect=Effect(role=1, of='x'," in recorded_text(replace(tool, effect=Effect(1, "x")))


def test_a_field_that_is_added_changes_no_digest_as_long_as_it_is_at_its_default() -> None:
    @dataclass
    class World:
        name: str
        fee: float = 1.0

    before = digest_of(World("w"))

    @dataclass
    class Later(World):
        tax: float = 0.0
        notes: tuple[str, ...] = ()

    assert digest_of(Later("w")) == digest_of(Later("w", fee=1)) == before != digest_of(Later("w", tax=0.1))
    assert digest_of({"tools": [ToolProfile(fee=2.0)]}) == digest_of({"tools": (ToolProfile(fee=2),)})


def test_scenarios_with_the_same_meaning_have_one_digest_and_others_have_others() -> None:
    plain = load_scenario("marketplace")
    same_world = parse_scenario({**plain.model_dump(mode="json"), "slots": None, "gateway_s": 0.05})
    kinds = [
        Scenario.model_validate({"name": "w", "source": {"kind": kind}}) for kind in ("toolbench", "mgtoolbench", "anytool")
    ]
    assert same_world.digest == plain.digest and plain.digest_under(7) == ""
    assert len({scenario.digest for scenario in (plain, load_scenario("storm"), *kinds)}) == 5


SMALL = {"source": {"kind": "marketplace", "tools": 60, "providers": 12, "categories": 4}}


@pytest.mark.parametrize(
    ("env_id", "settings"),
    [
        ("costgym/Marketplace-v0", {"scenario": SMALL}),
        ("costgym/MarketplaceSession-v0", {"drift": 0.1}),
        ("costgym/OpenCATP-v0", {}),
    ],
)
def test_a_recording_of_a_world_of_ones_own_is_known_under_either_schema(env_id: str, settings: dict[str, Any]) -> None:
    header = Header.of(costgym.make(env_id, **settings), env_id)
    old = replace(header, digest=class_of(env_id).world_class(header.scenario).digest_under(0))
    assert (schema_of(header.digest), schema_of(old.digest)) == (1, 0)
    for recorded in (header, replace(old, seal=seal_of(old))):
        assert check_header(recorded) == []
    for digest, problem in (("7-c13c00622d12b9e8", "a known schema"), ("c13c00622d12b9e9", "the file says c13c")):
        forged = replace(header, digest=digest)
        assert problem in check_header(replace(forged, seal=seal_of(forged)))[0]
