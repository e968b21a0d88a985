"""Exports that other tools read: ATIF, JSON lines of chat messages, ShareGPT."""

import json
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.agents.base import TEXT
from costgym.agents.registry import make_agent
from costgym.experiments.play.collect import collect
from costgym.experiments.play.export.formats import export
from costgym.experiments.play.trajectories.replay import replayed
from costgym.simulators.status import Origin
from tests.helpers.command_line import invoke


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = costgym.make(TEXT, scenario="marketplace", budget="price=30")
    return collect(env, make_agent("react"), 40, tmp_path_factory.mktemp("chats") / "react", seed=3)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_clean_episodes_alone_are_exported_unless_asked(chats: Path, tmp_path: Path) -> None:
    played = list(replayed(chats))
    passed = [episode for episode in played if episode.passed]
    clean = [episode for episode in passed if all(call.status.origin is not Origin.AGENT for call in episode.episode.calls)]
    assert 0 < len(clean) < len(passed) < len(played)
    for only, wanted in {"clean": clean, "passed": passed, "all": played}.items():
        done = invoke("export", chats, "--format", "jsonl", "--out", tmp_path / f"{only}.jsonl", "--only", only)
        assert done.exit_code == 0, done.output
        assert [row["task"] for row in lines(tmp_path / f"{only}.jsonl")] == [episode.recorded.task for episode in wanted]
    assert len(lines(export(chats, "jsonl", tmp_path / "usual.jsonl"))) == len(clean)
    assert invoke("export", chats, "--format", "sharegpt", "--out", tmp_path / "x", "--only", "some").exit_code == 2


def test_prompts_state_the_prices_and_the_budget(chats: Path, tmp_path: Path) -> None:
    for row in lines(export(chats, "jsonl", tmp_path / "chat.jsonl")):
        system = row["messages"][0]["content"]
        assert f"Cost of one call: {json.dumps(row['prices'])}" in system and 'Remaining budget: {"price": 30.0}' in system
        assert set(row["prices"]) == {tool["function"]["name"] for tool in row["tools"]} - {"finish", "wait"}
        assert row["passed"] and 0 < row["price"] <= 30 and row["currency"] == "credits"
        assert row["messages"][-1]["tool_calls"][0]["function"]["name"] == "finish"


def test_atif_documents_keep_the_rules_of_the_format(chats: Path, tmp_path: Path) -> None:
    files = sorted(export(chats, "atif", tmp_path / "atif", only="all").iterdir())
    documents = [json.loads(file.read_text()) for file in files]
    assert documents == lines(export(chats, "atif", tmp_path / "atif.jsonl", only="all")) and len(documents) == 40
    for document, played in zip(documents, replayed(chats), strict=True):
        steps = document["steps"]
        assert document["schema_version"] == "ATIF-v1.7" and [step["step_id"] for step in steps] == list(
            range(1, len(steps) + 1)
        )
        assert [step["source"] for step in steps[:3]] == ["system", "user", "agent"]
        for step in steps:
            calls = [call["tool_call_id"] for call in step.get("tool_calls", ())]
            results = [result["source_call_id"] for result in step.get("observation", {"results": []})["results"]]
            assert set(results) <= set(calls) and (step["source"] == "agent" or not calls)
        spent = document["final_metrics"]
        assert spent["total_prompt_tokens"] + spent["total_completion_tokens"] == played.recorded.final["tokens"]
        assert document["agent"]["model_name"] == "simulated" and document["extra"]["price"] == played.recorded.final["price"]
        asked_calls = [
            call for step in steps for call in step.get("tool_calls", ()) if call["function_name"] not in ("finish", "wait")
        ]
        assert len(asked_calls) == played.recorded.final["attempts"]


def test_sharegpt_turns_alternate_and_end_with_the_answer(chats: Path, tmp_path: Path) -> None:
    for row in lines(export(chats, "sharegpt", tmp_path / "share.jsonl")):
        kinds = [turn["from"] for turn in row["conversations"]]
        assert kinds[0] == "human" and kinds[-1] == "gpt" and set(kinds) <= {"human", "gpt", "function_call", "observation"}
        assert all((kind in ("human", "observation")) == (index % 2 == 0) for index, kind in enumerate(kinds))
        offered = {tool["name"] for tool in json.loads(row["tools"])}
        called = [json.loads(turn["value"]) for turn in row["conversations"] if turn["from"] == "function_call"]
        assert called and all(
            call["name"] in offered for turn in called for call in (turn if isinstance(turn, list) else [turn])
        )


def test_numbers_are_refused(tmp_path: Path) -> None:
    run = collect(costgym.make("costgym/Marketplace-v0"), make_agent("cheapest"), 2, tmp_path / "run", seed=0)
    done = invoke("export", run, "--format", "atif", "--out", tmp_path / "out")
    assert (
        done.exit_code == 2
        and "needs episodes of costgym/MarketplaceChat-v0" in done.stderr
        and not (tmp_path / "out").exists()
    )


def test_exports_of_version_1_tell_the_tokens_by_class(tmp_path: Path) -> None:
    env = costgym.make("costgym/MarketplaceChat-v1")
    played = collect(env, make_agent("react"), 3, tmp_path / "react", seed=3)
    rows = lines(export(played, "jsonl", tmp_path / "chat.jsonl", only="all"))
    metrics = [row["final_metrics"] for row in lines(export(played, "atif", tmp_path / "atif.jsonl", only="all"))]
    assert [row["tokens"]["cached_tokens"] for row in rows] == [document["total_cached_tokens"] for document in metrics]
    assert all(row["tokens"]["input_tokens"] > row["tokens"]["cached_tokens"] > 0 for row in rows)
