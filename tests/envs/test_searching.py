"""Searching the catalogue from the text environment: what is read, what it costs, and what may be called then."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents.registry import make_agent
from costgym.envs.actions import encode_action
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from costgym.experiments.play.episodes import play_many
from tests.helpers.toolbench_folders import query, write

TEXT = "costgym/MarketplaceChat-v0"
SOURCE = {"kind": "marketplace", "tools": 120, "providers": 24, "categories": 6, "train": 20, "test": 20}


def document(**retrieval: Any) -> dict[str, Any]:
    candidates = {"from": "catalogue", "retriever": "bm25", "k": 3, **retrieval}
    return {"name": "open", "source": {**SOURCE, "candidates": candidates}, "failures": "reliable"}


def env(**settings: Any) -> Any:
    return costgym.make(TEXT, scenario=document(), split="test", enforcement="record", disable_env_checker=True, **settings)


def search(here: Any, **arguments: str) -> tuple[Any, dict[str, Any]]:
    observation, _, _, _, info = here.step(encode_action("search_tools", arguments))
    return json.loads(observation), info


def test_a_search_takes_time_and_tokens_and_offers_what_it_finds() -> None:
    here = env()
    text, _ = here.reset(seed=1, options={"task": 3})
    before = len(here.unwrapped.candidates)
    results, info = search(here, query=text)
    assert [len(results["found"]), before, len(here.unwrapped.candidates)] == [3, 3, 6]
    assert info["cost_calls"] == 0 and info["cost_price"] == 0.0
    assert info["cost_seconds"] >= 0.3 and info["cost_tokens"] > 0
    name = results["found"][0]["name"]
    assert name in here.unwrapped.quotes()
    arguments = dict.fromkeys(results["found"][0]["parameters"]["required"], "x")
    *_, info = here.step(encode_action(name, arguments))
    assert info["results"][0]["tool"] == name and "unknown_tool" not in info["statuses"]


def test_categories_then_providers_then_tools() -> None:
    here = env()
    here.reset(seed=1)
    categories = search(here)[0]["categories"]
    listed = search(here, category=categories[0])[0]["providers"]
    provider = next(iter(listed))
    results, _ = search(here, category=categories[0], provider=provider)
    assert {here.unwrapped.world.catalog.get(tool["name"]).provider for tool in results["found"]} <= {provider}
    assert search(here, category="none of them")[0]["found"] == []


def test_without_a_retriever_the_name_is_an_unknown_function() -> None:
    here = costgym.make(TEXT, disable_env_checker=True)
    here.reset(seed=0)
    assert search(here, query="x")[0]["error"] == "unknown_tool"
    assert here.unwrapped.seat(TEXT).categories == ()


@pytest.mark.native
def test_the_numeric_environment_and_the_batch_meet_the_same_tools() -> None:
    pytest.importorskip("numba", reason="needs the extra `train`")
    one = costgym.make("costgym/Marketplace-v0", scenario=document(), split="test", disable_env_checker=True)
    many = costgym.make_vec("costgym/Marketplace-v0", 3, scenario=document(), split="test")
    observations, infos = many.reset(seed=[5, 6, 7])
    for index, seed in enumerate((5, 6, 7)):
        observation, info = one.reset(seed=seed)
        assert all(np.array_equal(observation[name], observations[name][index]) for name in observation)
        assert np.array_equal(info["action_mask"], infos["action_mask"][index])


def test_searching_helps_and_is_paid_for() -> None:
    plain, searching, opening = (
        [result for result, _ in play_many(env(max_steps=200), make_agent(name), TEXT, range(20), 0)]
        for name in ("react", "react+search", "react+browse")
    )
    for better in (searching, opening):
        assert sum(r.strict for r in better) > sum(r.strict for r in plain)
        assert sum(r.tokens for r in better) > sum(r.tokens for r in plain)
        assert all(r.regret is None or r.regret > -1e-9 for r in better)


def test_a_board_over_retrieved_tools_is_verified_by_replay(tmp_path: Path) -> None:
    (tmp_path / "open.yaml").write_text(json.dumps(document()))
    agents = ["react+search", "react+ecoact+browse", "dfsdt+search", "toolplanner"]
    plan = make_run_config("toolplanner", str(tmp_path / "open.yaml"), None, agents, episodes=2)
    run(plan, tmp_path / "run")
    verdict = verify(tmp_path / "run")
    assert verdict.verified and verdict.episodes == 8


def test_toolbench_queries_are_played_with_retrieved_tools(tmp_path: Path) -> None:
    records = [query(number, query=f"text {number}") for number in (1, 2, 3, 4)]
    write(tmp_path / "test_instruction/G1_instruction.json", records)
    source = {"kind": "toolbench", "data": str(tmp_path), "candidates": {"retriever": "oracle", "k": 1}}
    here = costgym.make(TEXT, scenario={"name": "tb", "source": source}, disable_env_checker=True)
    here.reset(seed=0)
    task = here.unwrapped.task
    assert len(task.candidates) == 1 and task.candidates[0] in task.needs[0].tools
    bm25 = {**source, "candidates": {"retriever": "bm25", "k": 1}}
    other = costgym.make(TEXT, scenario={"name": "tb", "source": bm25}, disable_env_checker=True)
    assert other.unwrapped.scenario.digest != here.unwrapped.scenario.digest
