"""Scenarios that read a folder: MGToolBench's instruction levels and ToolDEER's decisions, from the command line's names on."""

from pathlib import Path

import pytest

from costgym.envs.decision import DecisionAwareEnv
from costgym.envs.registration import make
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.scenario import load_scenario, parse_scenario
from tests.helpers.shared_data import shared
from tests.helpers.toolbench_folders import query, write

FAMILY = "data/toolbench_family"


def levels(folder: Path) -> Path:
    for ending in ("_ground", "_cut", "_level_cate", "_level_tool", "_level_api"):
        records = [query(number, query=f"text {number} of {ending}") for number in (1, 2, 3, 4)]
        write(folder / f"test_sample/G3{ending}.json", records)
    return folder


def test_an_mgtoolbench_folder_is_played_at_the_level_that_is_asked_for(tmp_path: Path) -> None:
    scenario = load_scenario("mgtoolbench", levels(tmp_path))
    env = make("costgym/MarketplaceChat-v0", scenario=scenario, split="test", level="tool", disable_env_checker=True)
    assert str(env.reset(seed=1)[0]).endswith("of _level_tool")
    elsewhere = load_scenario("mgtoolbench", levels(tmp_path / "elsewhere"))
    assert elsewhere != scenario and elsewhere.digest == scenario.digest
    levels(tmp_path / "other")
    write(tmp_path / "other/test_sample/G3_ground.json", [query(n, query="else") for n in (1, 2, 3, 4)])
    assert load_scenario("mgtoolbench", tmp_path / "other").digest != scenario.digest


def test_a_leaderboard_over_instruction_levels_is_verified_by_replay(tmp_path: Path) -> None:
    plan = make_run_config("toolplanner", "mgtoolbench", levels(tmp_path / "data"), ["dfsdt", "toolplanner"], episodes=2)
    run(plan, tmp_path / "run")
    verdict = verify(tmp_path / "run")
    assert verdict.verified and verdict.episodes == 4


def test_a_tooldeer_folder_is_played_under_the_scenarios_prices(tmp_path: Path) -> None:
    folder = str(shared(f"{FAMILY}/tooldeer"))
    plan = make_run_config("deer", "tooldeer", folder, ["deer-rule"], episodes=12, split="test")
    rows = run(plan, tmp_path / "run").document["rows"]
    assert rows[0]["episodes"] == 12 and 0 < rows[0]["pass_rate"] <= 1
    assert verify(tmp_path / "run").verified
    by_kind, by_folder = DecisionAwareEnv(plan.tracks[0].scenario, split="test"), DecisionAwareEnv(data=folder, split="test")
    assert [task.query for task in by_kind.world.tasks] == [task.query for task in by_folder.world.tasks]
    assert by_kind.world.tokens == by_folder.world.tokens and by_kind.k == by_folder.k
    assert DecisionAwareEnv("tooldeer", data=folder, split="test").scenario.model_dump(mode="json") == plan.tracks[0].scenario


def test_published_mgtoolbench_tasks_have_their_five_levels() -> None:
    world = load_scenario("mgtoolbench", shared(f"{FAMILY}/mgtoolbench_CC-BY-NC-SA-4.0")).build()
    assert len(world.tasks) >= 40
    assert all(len(task.instructions) == 5 for task in world.tasks)


def anytool(folder: Path, file: str = "anytoolbench.json") -> Path:
    apis = [{"category_name": "XY"[n // 3], "tool_name": f"T{n}", "api_name": "A"} for n in range(6)]
    write(folder / file, [{"query": f"q{n}", "query_id": str(n), "gt_api_list": [api]} for n, api in enumerate(apis)])
    return folder


def test_an_anytool_folder_is_played_and_verified_by_replay(tmp_path: Path) -> None:
    plan = make_run_config("quick", "anytool", anytool(tmp_path / "data"), ["greedy", "react"], episodes=3)
    rows = run(plan, tmp_path / "run").document["rows"]
    assert {row["agent"] for row in rows} >= {"greedy", "react"} and verify(tmp_path / "run").verified
    in_repository = load_scenario("anytool", anytool(tmp_path / "repository", "atb_data/anytoolbench.json"))
    same = make_run_config("quick", in_repository, agents=["greedy"], episodes=3)
    assert same.tracks[0].digest == plan.tracks[0].digest
    document = {"tool_name": "Extra", "api_list": [{"name": "B", "description": "b"}]}
    write(tmp_path / "repository/data/toolenv/tools/X/Extra.json", document)
    tasks = parse_scenario({"name": "again", "source": in_repository.source.model_dump(), "seed": 1}).build().tasks
    offered = {name for task in tasks for name in task.candidates}
    assert "b_for_extra" in offered


@pytest.mark.parametrize("name", ["toolbench", "mgtoolbench", "anytool", "tooldeer"])
def test_a_folder_that_is_missing_or_something_else_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--data FOLDER"):
        load_scenario(name).build()
    with pytest.raises(DataError, match=str(tmp_path)):
        load_scenario(name, tmp_path).build()
    with pytest.raises(ConfigError, match="choose one of kind toolbench, mgtoolbench, anytool, tooldeer"):
        load_scenario("marketplace", tmp_path)
