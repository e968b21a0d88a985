"""What BTP remembers is collected on train tasks once, kept, and shared by every run."""

import json
import lzma

import pytest

from costgym.agents.btp.experience import Experience
from costgym.agents.registry import make_agent
from costgym.envs.chat import MarketplaceChatEnv
from costgym.experiments.play import experience as module
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import (
    SHIPPED,
    ExperienceSettings,
    collect_experience,
    describe_experience,
    experience_key,
    past_uses,
)
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.marketplace.tasks import LARGE_SPLIT
from costgym.simulators.scenario import load_scenario, parse_scenario
from tests.helpers.command_line import invoke
from tests.helpers.playing import SMALL

SCENARIO = parse_scenario({"name": "small", **SMALL})
FEW = ExperienceSettings(uses=0.5)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "costgym"


def test_collecting_plays_distinct_train_tasks_until_each_tool_has_enough_uses():
    experience = collect_experience(SCENARIO, FEW)
    tasks = SCENARIO.build().tasks
    assert experience.uses >= 0.5 * 240 > experience.uses - 20
    assert [past.query for past in experience.queries] == [
        tasks[n].query for n in tasks.numbers(LARGE_SPLIT)[: len(experience)]
    ]
    flags = [flag for past in experience.queries for used in past.uses.values() for flag in used]
    assert 0.2 < sum(flags) / len(flags) < 0.9


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing():
    assert collect_experience(SCENARIO, FEW, Local(2)).to_jsonl() == collect_experience(SCENARIO, FEW).to_jsonl()


def test_of_a_tree_search_the_path_that_ended_in_an_answer_is_remembered():
    path, whole = (collect_experience(SCENARIO, FEW.model_copy(update={"remembered": kind})) for kind in ("path", "all"))
    env = MarketplaceChatEnv(scenario=SCENARIO, split=LARGE_SPLIT, budget={}, enforcement="record", max_steps=400)
    (first,) = list(module.play_split(SCENARIO, LARGE_SPLIT, [0], 0, ("experience",), make_agent("dfsdt")))[:1]
    calls = [call.tool for call in first.episode.calls if call.slot >= 0 and call.status.executed]
    assert sum(map(len, whole.queries[0].uses.values())) == len(calls)
    for short, long in zip(path.queries, whole.queries, strict=False):
        assert short.query == long.query
        assert all(len(flags) <= len(long.uses[name]) for name, flags in short.uses.items())
    assert len(path) > len(whole) and env.numbers[0] == 0


def test_uses_are_kept_and_more_of_them_continue(cache):
    few = past_uses(SCENARIO, FEW)
    (cached,) = cache.rglob("*.xz")
    before = cached.stat().st_mtime_ns
    assert past_uses(SCENARIO, FEW) == few and cached.stat().st_mtime_ns == before
    more = past_uses(SCENARIO, ExperienceSettings(uses=0.8))
    assert more.startswith(few) and len(more) > len(few)
    assert past_uses(SCENARIO, FEW) == few
    assert more == collect_experience(SCENARIO, ExperienceSettings(uses=0.8)).to_jsonl()


def test_a_damaged_file_of_the_cache_is_collected_anew(cache):
    wanted = past_uses(SCENARIO, FEW)
    (cached,) = cache.rglob("*.xz")
    cached.write_bytes(cached.read_bytes()[:40])
    assert past_uses(SCENARIO, FEW) == wanted


def test_only_what_changes_calls_makes_other_experience():
    key = experience_key(load_scenario("marketplace"), ExperienceSettings())
    world = load_scenario("marketplace")
    same = world.model_copy(
        update={"budget": {"price": 5.0}, "name": "mine", "source": world.source.model_copy(update={"test": 9})}
    )
    other = world.model_copy(update={"source": world.source.model_copy(update={"candidates": 5})})
    assert experience_key(same, ExperienceSettings(uses=1.0)) == key
    assert experience_key(other, ExperienceSettings()) != key != experience_key(world, ExperienceSettings(explorer="react"))


@pytest.mark.parametrize("name", ["marketplace", "one-world"])
def test_the_experience_of_the_default_boards_worlds_comes_with_the_package_and_is_what_playing_gives(name: str):
    path = SHIPPED / f"{experience_key(load_scenario(name), ExperienceSettings())}.jsonl.xz"
    lines = lzma.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    again = collect_experience(load_scenario(name), ExperienceSettings(uses=0.05)).to_jsonl().splitlines(keepends=True)
    assert again == lines[: len(again)] and len(again) > 10
    assert path.stat().st_size < 800_000


@pytest.mark.slow
def test_the_shipped_file_can_be_made_again():
    text = collect_experience(load_scenario("marketplace"), ExperienceSettings(), Local(2)).to_jsonl()
    assert text == past_uses(load_scenario("marketplace"))


def test_experience_says_how_much_it_is():
    text = '{"query": "a", "uses": {"x": [1, 0], "y": [1]}}\n{"query": "b", "uses": {}}\n'
    experience = describe_experience(text)
    assert (experience["queries"], experience["tools"], experience["uses"], experience["uses_per_tool"]) == (2, 2, 3, 1.5)
    assert describe_experience(text * 2)["digest"] != experience["digest"] and json.dumps(experience)
    assert describe_experience("")["uses_per_tool"] == 0.0 and Experience.from_jsonl(text).uses == 3


@pytest.mark.parametrize("text,wanted", [("react:5", ("react", 5.0)), ("7", ("dfsdt", 7.0)), ("tot-dfs", ("tot-dfs", None))])
def test_settings_are_read_from_a_line(text, wanted):
    settings = ExperienceSettings.parse(text)
    assert (settings.explorer, settings.uses) == (wanted[0], ExperienceSettings().uses if wanted[1] is None else wanted[1])


def test_what_cannot_explore_is_a_clear_error():
    with pytest.raises(UnknownName, match="dfsdt"):
        ExperienceSettings.parse("dfsdr:5")
    with pytest.raises(ConfigError, match="dfsdt:100"):
        ExperienceSettings.parse("dfsdt:many")
    with pytest.raises(ConfigError, match="greedy"):
        collect_experience(SCENARIO, ExperienceSettings(explorer="greedy", uses=1.0))


def test_the_command_line_writes_experience_and_plays_from_it(tmp_path):
    past = tmp_path / "past.jsonl"
    done = invoke("experience", "--experience", "0.05", "--out", past, "--jobs", "1", "--quiet")
    assert done.exit_code == 0, done.output
    text = past.read_text()
    assert (
        text == past_uses(load_scenario("marketplace").in_world(1), ExperienceSettings(uses=0.05))
        and describe_experience(text)["uses"] > 70
    )
    line = ["run", "--agent", "react+btp", "--episodes", "2", "--budget", "price=20", "--jobs", "1", "--quiet"]
    assert invoke(*line, "--experience", past).exit_code == 0
    refused = invoke("run", "--agent", "react", "--episodes", "2", "--experience", "5", "--quiet")
    assert refused.exit_code == 2 and "+btp" in refused.output
