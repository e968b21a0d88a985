"""Conversations of strategies, from which a language model learns: their prompts, what is kept, and their order."""

import json
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.base import TEXT
from costgym.agents.models.base import ACT, Function, Message, Reply
from costgym.agents.models.local import template_messages
from costgym.agents.registry import make_agent
from costgym.experiments.play.text_episode import ToolEpisode
from costgym.experiments.train.sft import strategies
from costgym.experiments.train.sft.episodes import Conversation, gold_episodes, passing_episodes, token_rows, tokenize
from costgym.experiments.train.sft.strategies import Teacher, taught_episodes
from tests.experiments.train.test_sft import QUICK, SMALL, model

__all__ = ["model"]  # a fixture

TAUGHT = ("react+btp", "react+ecoact", "dfsdt", "toolplanner")
PRICE = {"price": 40}  # few episodes of dfsdt pass within less, and with it their first has several conversations
Said = tuple[int, list[str], list[str]]


def episodes(agent: str, budget: dict[str, float] | None = None) -> Any:
    return passing_episodes(strategies._player(SMALL, agent), SMALL, "train", budget, "short", 1)


def learnt_part(conversation: Conversation) -> Said:
    """The place where learning begins, the functions, and the replies from that place on: a call's name and values, or text."""
    replies = []
    for message in conversation.messages[conversation.begins :]:
        if message["role"] == "assistant":
            calls = [call["function"] for call in message.get("tool_calls", ())]
            call_texts = [f"{call['name']}: {'; '.join(map(str, call['arguments'].values()))}" for call in calls]
            replies += call_texts or [message["content"]]
    return conversation.begins, [tool["function"]["name"] for tool in conversation.tools], replies


def test_btp_teaches_calls_among_fewer_and_fewer_functions_and_the_summary() -> None:
    points, exchange = "query_team_points_for_karst_athletics_api", "fetch_exchange_amount_for_north_quote_live"
    assert list(map(learnt_part, next(episodes("react+btp")))) == [
        (2, [exchange, points, "finish"], [f"{points}: tm-84924F; 15"]),
        (4, [exchange, "finish"], [f"{exchange}: 9660; USD; 2025-12-09"]),
        (6, [], ["5963807; 6112.37"]),
    ]


def test_ecoact_teaches_to_register_before_a_call() -> None:
    points, exchange = "query_team_points_for_karst_athletics_api", "fetch_exchange_amount_for_north_quote_live"
    assert list(map(learnt_part, next(episodes("react+ecoact")))) == [
        (2, ["tool_register", "finish"], [f"tool_register: {points}"]),
        (4, [points, "tool_register", "finish"], [f"{points}: tm-84924F; 15", f"tool_register: {exchange}"]),
        (
            8,
            [points, exchange, "tool_register", "finish"],
            [f"{exchange}: 9660; USD; 2025-12-09", "finish: 5963807; 6112.37"],
        ),
    ]


def test_dfsdt_teaches_another_call_after_a_failure_and_to_give_a_branch_up() -> None:
    branches = next(episode for episode in episodes("dfsdt") if len(episode) > 1)
    attendance = ("query_match_attendance_for_karst_athletics_api", "match_attendance_for_fathom_sports_direct")
    address = ("fetch_stadium_address_for_karst_athletics_api", "stadium_address_for_fathom_sports_direct")
    match, team = "MT-29974T", "Bergen Mariners"
    assert [(begins, replies) for begins, _, replies in map(learnt_part, branches)] == [
        (2, [f"{attendance[0]}: {match}", f"{attendance[1]}: {match}", f"{address[0]}: {team}", "finish: ; True"]),
        (7, ["finish: ; True"]),
        (5, [f"{address[1]}: {team}"]),
        (6, [f"{attendance[1]}: {match}", "finish: 1412054; 337 Mill Road, Northern Quarter"]),
    ]


def test_toolplanner_teaches_tags_a_path_and_the_calls() -> None:
    fund, revenue = "get_find_fund_for_north_quote_live", "lookup_quarter_revenue_for_vivid_market_api"
    tags = {
        "categories": ["Finance", "Finance"],
        "tools": ["North Quote Live", "Vivid Market API"],
        "apis": ["get_find_fund", "lookup_quarter_revenue"],
    }
    assert list(map(learnt_part, next(episodes("toolplanner")))) == [
        (3, [], [json.dumps(tags)]),
        (3, [fund, revenue, "finish"], [json.dumps({"plan": [fund, revenue]})]),
        (
            2,
            [fund, revenue, "finish"],
            [f"{fund}: battery recycling", f"{revenue}: Foxhall Labs; 1992", "finish: FD-40094B; 6466872"],
        ),
    ]


class _Heard(Teacher):
    """A teacher that also keeps every request as it came, with its reply."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, str]] = []

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        answer = super().complete(messages, functions, purpose)
        message = template_messages([answer.message])[0]
        self.requests.append(_request(template_messages(messages), [function.document() for function in functions], message))
        return answer


def _request(messages: Any, tools: Any, reply: Any) -> tuple[str, str]:
    plain = json.loads(json.dumps([messages, tools, reply]))
    for message in [*plain[0], plain[2]]:
        message.pop("tool_call_id", None)
        for call in message.get("tool_calls", ()):
            del call["id"]
    return json.dumps(plain[:2]), json.dumps(plain[2])


@pytest.mark.parametrize("agent", TAUGHT)
def test_every_reply_is_learnt_once_under_the_prompt_that_the_agent_sent(agent: str) -> None:
    teacher, past = _Heard(), strategies.past_uses(SMALL) if "btp" in agent else ""
    player = make_agent(agent, TEXT, model=teacher, experience=strategies.Experience.from_jsonl(past))

    def play(episode: ToolEpisode, luck: Callable[[], float]) -> list[Conversation]:
        teacher.requests = []
        episode.play(player)
        conversations = teacher.conversations()
        learnt = [
            _request(talk.messages[:index], talk.tools, message)
            for talk in conversations
            for index, message in enumerate(talk.messages)
            if index >= talk.begins and message["role"] == "assistant"
        ]
        assert sorted(learnt) == sorted(teacher.requests)
        return conversations

    assert len(list(islice(passing_episodes(play, SMALL, "train", None, "short", 1), 8))) == 8


def test_only_episodes_that_pass_are_learnt_from_in_an_order_that_follows_from_the_seed(monkeypatch: Any) -> None:
    player, ended = strategies._player, []

    def watched(*of: Any) -> Any:
        inner = player(*of)

        def play(episode: ToolEpisode, luck: Any) -> Any:
            conversation = inner(episode, luck)
            ended.append((episode.passed, conversation))
            return conversation

        return play

    monkeypatch.setattr(strategies, "_player", watched)

    def taught(seed: int) -> list[Conversation]:
        return list(islice(taught_episodes(SMALL, ["dfsdt"], "train", PRICE, "short", seed), 20))

    first = taught(1)
    assert first == [talk for passed, conversation in ended if passed for talk in conversation][:20]
    assert {passed for passed, _ in ended} == {True, False}
    assert first == taught(1) != taught(2)


def test_agents_take_turns_and_those_of_react_are_gold_episodes() -> None:
    taught = taught_episodes(SMALL, ["react", "dfsdt"], "train", PRICE, "short", 1)
    gold, searched = gold_episodes(SMALL, "train", PRICE, "short", 1), episodes("dfsdt", PRICE)
    for _ in range(3):
        assert next(taught) == next(gold)
        for conversation in next(searched):
            assert next(taught) == conversation


def test_replies_to_another_prompt_are_not_learnt(model: Path) -> None:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    row = tokenize(tokenizer, next(episodes("react+ecoact"))[2])
    texts = tokenizer.decode([row.ids[position] for position in row.learnt_at]).split("<|im_end|>")
    called = [json.loads(text.removeprefix("<tool_call>").removesuffix("</tool_call>"))["name"] for text in texts[:-1]]
    assert called == ["fetch_exchange_amount_for_north_quote_live", "finish"] and texts[-1] == ""
    assert tokenizer.decode(row.ids).count("<tool_call>{") == 6  # with those before, and the form in the system message


def test_a_run_learns_from_the_agents_that_it_names(model: Path, tmp_path: Path) -> None:
    import transformers

    from costgym.experiments.train.sft.train import train_sft

    chosen = ("react", "react+ecoact")
    assert train_sft(tmp_path / "run", SMALL, 1, model=str(model), agents=chosen, **QUICK).finished
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    rows = token_rows(tmp_path / "rows", tokenizer, taught_episodes(SMALL, chosen, "train", None, "short", 1), 3, 4096)
    assert (tmp_path / "run" / "learnt.jsonl").read_bytes() == (tmp_path / "rows").read_bytes() and len(rows) == 3
