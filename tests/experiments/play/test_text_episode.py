"""An episode by function calls is the episode that the environment plays."""

import json

import pytest

from costgym import BudgetExceeded, ConfigError, EpisodeOver
from costgym.agents.models.base import FunctionCall
from costgym.agents.registry import make_agent
from costgym.envs.registration import make
from costgym.experiments.play.rollout import rollout
from costgym.experiments.play.text_episode import (
    ENV_ID,
    TextWorld,
    ToolEpisode,
    ToolFailure,
    function_line,
    task_rows,
    text_prompt,
)
from costgym.simulators.calls import Usage
from costgym.simulators.scenario import parse_scenario
from tests.helpers.solving import next_call

SOURCE = {"kind": "marketplace", "tools": 40, "providers": 10, "categories": 4, "train": 8, "test": 4, "candidates": 4}
SMALL = parse_scenario({"name": "small", "description": "A small marketplace.", "source": SOURCE})


def solve(episode):
    task, read, tried = episode.env.task, "", []
    names = {function.name for function in episode.functions}
    while not episode.over:
        name, arguments = next_call(task, names, read, tried)
        tried.append(name)
        read += episode.call(name, arguments).text
    return tried


def test_rows_are_the_tasks_of_the_split_in_order():
    rows = task_rows(SMALL, "test", 2)
    assert [row["id"] for row in rows] == ["test-00000", "test-00001"]
    assert rows[0]["query"] == ToolEpisode(rows[0]["task"], scenario=SMALL).query


def test_rows_to_train_on_name_every_task_with_its_own_seeds():
    rows = TextWorld(SMALL, tasks=2, rounds=3).rows()
    assert [row["task"] for row in rows] == ["train-00000", "train-00001"] * 3
    assert len({row["seed"] for row in rows}) == len(rows)
    assert (
        rows
        == TextWorld(SMALL, tasks=2, rounds=3, budget="price=5").rows()
        != TextWorld(SMALL, tasks=2, rounds=3, seed=1).rows()
    )
    for wrong in ({"most_needs": 0}, {"tasks": True}, {"rounds": None}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            TextWorld(SMALL, **wrong)
    with pytest.raises(ConfigError, match="no task of the split test asks for at most 1 facts"):
        TextWorld(SMALL, "test", most_needs=1)


def test_a_row_begins_the_episode_that_it_names():
    row = {"task": "test-00001", "seed": 5, "budget": "price=3", "documents": None, "prompt": "?"}
    episode = ToolEpisode.of_row(row, scenario=SMALL, documents="short", budget="price=9")
    assert (episode.env.task.id, episode.env.account().seed, episode.env.documents) == ("test-00001", 5, "short")
    assert episode.env.budget.as_dict() == {"price": 3.0}
    with pytest.raises(ConfigError, match="expected the columns task and seed, got prompt"):
        ToolEpisode.of_row({"prompt": "?"})


def test_written_rows_hold_all_that_their_episodes_need(tmp_path):
    world = TextWorld("marketplace-small", "test", tasks=2, rounds=2, budget="price=3", grading="judge")
    path = world.write(tmp_path / "rows.jsonl", lambda episode: {"prompt": episode.prompt()})
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [{name: row[name] for name in ("task", "seed")} for row in rows] == world.rows()
    episode = ToolEpisode.of_row(rows[1])
    assert rows[1]["prompt"][1]["content"] == episode.query == world.tasks[rows[1]["task"]]
    assert (episode.env.split, episode.env.documents, episode.env.max_steps) == ("test", "short", 32)
    assert (episode.env.grading, episode.env.budget.as_dict()) == ("judge", {"price": 3.0})
    with pytest.raises(ConfigError, match="expected a name or a YAML file"):
        TextWorld(SMALL).write(tmp_path / "none.jsonl", lambda episode: {})


def test_a_call_as_a_tool_that_raises_errors_and_the_reward_of_each_step():
    episode = ToolEpisode(task_rows(SMALL)[0]["task"], 0, SMALL, {"calls": 1})
    with pytest.raises(ToolFailure, match="argument"):
        episode.ask(episode.functions[0].name, {"no_such": 1})
    call = next_call(episode.env.task, {function.name for function in episode.functions}, "", ())
    assert episode.ask(*call) and episode.step_reward() == episode.reward < 0 == episode.step_reward()
    with pytest.raises(BudgetExceeded, match="calls: spent 2 of a budget of 1"):
        episode.ask(*call)
    assert episode.over and not episode.passed and episode.price == episode.score()["price"]


def test_the_score_is_that_of_the_episode_and_the_return_is_its_quality():
    passed = 0
    for row in task_rows(SMALL, "test"):
        episode = ToolEpisode(row["task"], 3, SMALL, "price=40")
        tried = solve(episode)
        score = episode.score()
        passed += score["success"]
        assert score["calls"] == len(tried) - (tried[-1] == "finish") and score["price"] <= 40
        assert episode.reward == pytest.approx(score["quality"])
        assert score["success"] == 0 or score["share_of_facts"] == 1
    assert passed > 0


def test_an_episode_that_is_left_is_given_up():
    episode = ToolEpisode(task_rows(SMALL)[0]["task"], 0, SMALL)
    assert episode.score()["success"] == 0 and episode.over
    with pytest.raises(EpisodeOver):
        episode.call("finish", {"answer": "late"})
    episode.finish("late")  # stays as it is
    assert episode.score()["share_of_facts"] == 0


def test_a_limit_that_is_passed_ends_it_without_success():
    episode = ToolEpisode(task_rows(SMALL)[0]["task"], 0, SMALL, {"calls": 1})
    name = episode.functions[0].name
    answers = episode.turn([FunctionCall(name, '{"no": "arguments"}'), FunctionCall("wait", {"seconds": 3})])
    assert [answer.failed for answer in answers] == [True, True] and "wait?" in answers[1].text
    assert episode.env.episode.now_s < 3  # nobody waits by the name of a function
    name, arguments = next_call(episode.env.task, {function.name for function in episode.functions}, "", ())
    while not episode.over:
        episode.call(name, arguments)
    assert episode.env.episode.ledger.calls == 2
    assert episode.over and episode.exceeded == "calls" and episode.score()["within_budget"] == 0


def test_a_finish_among_several_calls_ends_the_episode():
    episode = ToolEpisode(task_rows(SMALL)[0]["task"], 0, SMALL)
    answers = episode.turn([FunctionCall(episode.functions[0].name, {}), FunctionCall("finish", {"answer": "?"})])
    assert len(answers) == 2 and episode.over


def test_a_reply_without_a_call_is_paid_and_answered_with_a_reminder():
    episode = ToolEpisode(task_rows(SMALL)[0]["task"], 0, SMALL)
    (message,) = episode.say("I wonder.")
    assert message["role"] == "user" and "function call" in message["content"]
    assert episode.env.episode.ledger.tokens > 100  # the prompt and the documents were read


def test_reported_tokens_are_taken_as_they_are():
    episode = ToolEpisode(task_rows(SMALL)[0]["task"], 0, SMALL)
    episode.call("finish", {"answer": "?"}, Usage(70, 7))
    assert episode.env.episode.ledger.tokens == 77


def test_costgyms_agents_play_it_with_the_result_of_a_rollout():
    numbers = [row["task"] for row in task_rows(SMALL, "test")]
    agent = make_agent("react", ENV_ID)
    expected = rollout(make(ENV_ID, disable_env_checker=True, scenario=SMALL, split="test", budget={"price": 20}), agent, 4, 5)
    for result in expected:
        number = next(n for n in numbers if ToolEpisode(n, scenario=SMALL).env.task.id == result.task)
        episode = ToolEpisode(number, result.seed, SMALL, "price=20", split="test")
        episode.play(make_agent("react", ENV_ID))
        score = episode.score()
        assert (score["price"], score["calls"], score["seconds"]) == (result.price, result.calls, result.seconds)


def test_text_prompts_hold_one_line_a_tool_with_its_price():
    episode = ToolEpisode(task_rows(SMALL)[0]["task"], 0, SMALL, documents="short")
    system, user = text_prompt(episode)
    assert user["content"] == episode.query
    for function in episode.functions:
        assert function_line(function) in system["content"].splitlines()
    for name, price in episode.env.quotes().items():
        assert any(
            line.startswith(f"{name}(") and line.endswith(f" {price:g} credits.") for line in system["content"].splitlines()
        )
