"""ToolPlanner at play: three questions, few tools shown, thirty rounds at most."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from costgym import ConfigError
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import Dfsdt
from costgym.agents.models.base import ACT, PLAN, SYSTEM, Function, Message, Reply, reply
from costgym.agents.models.simulated import Simulated, SimulatedRates
from costgym.agents.toolplanner.agent import PATH_LINE, TAGS, PlannerSettings, ToolPlanner, listed_tools, tag_lines
from costgym.agents.toolplanner.simulated import SimulatedToolPlanner
from costgym.agents.toolplanner.tags import Retriever, Tags, gold_tools, tag_score, tags_of, write_tags
from costgym.agents.toolplanner.tree import REQUIRES, called_tools, extract_pairs, final_solution, names, score
from costgym.simulators.marketplace.loaders.toolbench import load_mgtoolbench
from costgym.simulators.world import World
from tests.helpers.playing import SMALL, calls, chat, play
from tests.helpers.scripted import Scripted
from tests.helpers.shared_data import shared

GIVE_UP = ("finish", {"answer": "", "give_up": True})


class Heard(SimulatedToolPlanner):
    """Keeps what it was asked."""

    def begin(self, world: Any, seed: int) -> None:
        super().begin(world, seed)
        self.heard: list[tuple[str, tuple[Message, ...], tuple[Function, ...]]] = []

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        self.heard.append((purpose, tuple(messages), tuple(functions)))
        return super().complete(messages, functions, purpose)


def test_a_faultless_model_extracts_plans_and_follows() -> None:
    env = chat(scenario={**SMALL, "failures": "reliable"}, level="hybrid", split="test")
    agent = LlmAgent(model := Heard(SimulatedRates.perfect()), planner := ToolPlanner())
    followed = 0
    for number in env.numbers[:20]:
        env.reset(options={"task": number})
        gold = gold_tools(env.task, env.world.catalog)
        if len(gold) > 3 or not {tool.name for tool in gold} <= set(env.task.candidates):
            continue
        play(env, agent, number)
        assert planner.tags == tags_of(gold)
        assert planner.path == [tool.name for tool in gold]
        assert [purpose for purpose, _, _ in model.heard[:2]] == [TAGS, PLAN]
        for purpose, messages, functions in model.heard[2:]:
            assert purpose == ACT
            assert {f.name for f in functions} == {"finish", *(tool.name for tool in gold)}
            assert messages[1].content.endswith(f"{PATH_LINE}{', '.join(planner.path)}")
        assert called_tools(final_solution(planner.roots), env.world.catalog) == list(gold)
        assert score(planner.roots, gold, "hybrid", env.world.catalog) == 1
        assert env.succeeded
        followed += 1
    assert followed > 10


def test_every_reply_is_paid_for() -> None:
    env = chat(level="hybrid")
    agent = LlmAgent(model := Heard(), ToolPlanner())
    play(env, agent, 3)
    charged = sum(charge.tokens for charge in env.episode.ledger)
    tokens = sum(sum(m.tokens for m in messages) + sum(f.tokens for f in functions) for _, messages, functions in model.heard)
    assert charged > tokens > 0


def test_a_stubborn_model_is_stopped_after_thirty_rounds() -> None:
    env = chat()
    env.reset(options={"task": 0})
    tool = env.task.candidates[0]
    agent = LlmAgent(model := Scripted(["no tags", "no plan"], after=(tool, {})), planner := ToolPlanner())
    play(env, agent, 0)
    assert len(model.heard) == 2 + 30 == 2 + planner.settings.most_rounds
    assert env.episode.grade is not None and env.episode.log[-1][2]
    assert [len(root.children) for root in planner.roots] == [2, 2]


def test_giving_up_ends_a_branch_and_an_answer_ends_the_search() -> None:
    env = chat()
    env.reset(options={"task": 0})
    tool = env.task.candidates[0]
    lines = ["no tags", "no plan", (tool, {}), GIVE_UP, (tool, {}), ("finish", {"answer": "It is 3."})]
    agent = LlmAgent(model := Scripted(lines), planner := ToolPlanner())
    play(env, agent, 0)
    assert len(model.heard) == 6 and env.episode.log[-1] == ("finish", "It is 3.", False)
    (root,) = planner.roots
    assert [(step.tools, step.end) for step in root.children] == [((), "give_up"), ((tool,), "")]
    assert root.children[1].children[0].answer == "It is 3."
    assert calls(env)[0][0] == tool


def test_tags_that_mean_nothing_leave_all_tools_in_play() -> None:
    env = chat()
    model = Scripted([write_tags(Tags(("Nowhere",), ("Nobody",), ("Nothing",))), '{"plan": []}', GIVE_UP, GIVE_UP, GIVE_UP])
    play(env, LlmAgent(model, ToolPlanner()), 0)
    shown = {f.name for f in model.heard[2][2]}
    assert shown == {"finish", *env.task.candidates}


def test_parts_can_be_left_out() -> None:
    env = chat(level="hybrid")
    purposes = {}
    for settings in (PlannerSettings(tags=False), PlannerSettings(path=False), PlannerSettings(tags=False, path=False)):
        planner = ToolPlanner(settings)
        play(env, LlmAgent(model := Heard(), planner), 1)
        purposes[planner.name] = [purpose for purpose, _, _ in model.heard if purpose != ACT]
    assert purposes == {"toolplanner-no-tags": [PLAN], "toolplanner-no-path": [TAGS], "toolplanner-no-tags-no-path": []}


def test_the_simulated_planner_is_the_simulated_model_where_nothing_is_named() -> None:
    env = chat(level=None)
    for number in range(10):
        plain = play(env, LlmAgent(Simulated(), Dfsdt()), number)
        assert play(env, LlmAgent(SimulatedToolPlanner(), Dfsdt()), number) == plain


def test_naming_tools_matters_to_a_model_that_minds() -> None:
    env = chat(scenario={**SMALL, "failures": "reliable"}, level="tool", split="test")
    first_is_named = {}
    for heed in (0.0, 1.0):
        hits = 0
        for number in env.numbers:
            play(env, LlmAgent(SimulatedToolPlanner(heed=heed), Dfsdt()), number)
            gold = {tool.name for tool in gold_tools(env.task, env.world.catalog)}
            hits += any(tool in gold for tool, _ in calls(env)[:1])
        first_is_named[heed] = hits / len(env.numbers)
    assert first_is_named[1.0] > first_is_named[0.0] + 0.3


def test_recorded_instructions_are_played_at_every_level() -> None:
    market = load_mgtoolbench(shared("data/toolbench_family/mgtoolbench_CC-BY-NC-SA-4.0"))
    world = World(market.catalog, market.tasks, market.answers)
    retriever = Retriever(list(market.catalog))
    for level, granularity in (("tool", "tool"), ("api", "api"), ("hybrid", REQUIRES["hybrid"])):
        env = chat(world, split="train", level=level)
        agent = LlmAgent(SimulatedToolPlanner(), planner := ToolPlanner())
        extracted, retrieved = [], []
        for number, task in enumerate(market.tasks):
            play(env, agent, number)
            gold = names(gold_tools(task, market.catalog), granularity)
            assert planner.tags is not None
            extracted.append((names(planner.tags.mappings(), granularity), gold))
            retrieved.append((names(retriever.top(task.instructions[level], 3), granularity), gold))
        assert tag_score(extracted).f1 > tag_score(retrieved).f1 + 0.1


def test_pairs_come_out_of_what_was_played() -> None:
    env = chat(level="hybrid", split="test")
    agent, made = LlmAgent(SimulatedToolPlanner(), planner := ToolPlanner()), 0
    for number in env.numbers:
        play(env, agent, number)
        gold = gold_tools(env.task, env.world.catalog)
        score(planner.roots, gold, "hybrid", env.world.catalog)
        for pair in extract_pairs(planner.roots, gold, "hybrid", env.world.catalog, number, env.candidates):
            assert pair.better.messages[0].role == pair.worse.messages[0].role == "assistant"
            made += bool(pair.made)
    assert made > 10


def test_lists_of_names_are_read_as_they_were_written() -> None:
    env = chat()
    env.reset(seed=0)
    assert listed_tools(tag_lines(env.candidates[1:]), env.candidates) == list(env.candidates[1:])


@pytest.mark.parametrize("settings", [{"depth": 0}, {"width": 2.5}, {"trees": True}, {"candidates": -1}])
def test_settings_that_make_no_sense_are_clear_errors(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        PlannerSettings(**settings)
    with pytest.raises(ConfigError, match="heed"):
        SimulatedToolPlanner(heed=1.5)


def test_any_reply_to_any_question_is_survived() -> None:
    replies = ["", "{}", "[]", '{"categories": [1], "tools": [], "apis": [""]}', '{"plan": "x"}', "\x00" * 50, "{" * 9000]

    class Mad:
        name = "mad"

        def reset(self, seed: int) -> None:
            self.said = seed

        def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
            self.said += 1
            assert messages[0].role == SYSTEM
            return reply(replies[self.said % len(replies)], (), messages, functions)

    env = chat()
    for number in range(14):
        play(env, LlmAgent(Mad(), ToolPlanner()), 0, seed=number)
        assert env.episode.over
    assert json.loads('{"plan": []}') == {"plan": []}


def test_tags_and_path_are_written_under_the_request_line_by_line() -> None:
    env = chat(scenario={**SMALL, "failures": "reliable"}, level="hybrid", split="test")
    env.reset(options={"task": env.numbers[0]})
    first, second = (env.world.catalog.get(name) for name in env.task.candidates[:2])
    tags = write_tags(tags_of([first, second]))
    plan = json.dumps({"plan": [second.name, first.name]})
    play(env, LlmAgent(model := Scripted([tags, plan, ("finish", {"answer": "x"})]), ToolPlanner()), env.numbers[0])
    (prompts, planned, acted) = [messages[1:] for _, messages, _ in model.heard]
    query = prompts[0].content
    assert (
        prompts[1].content.splitlines()[1:] == tag_lines([env.world.catalog.get(n) for n in env.task.candidates]).splitlines()
    )
    below = f"{query}\n{tags_of([first, second]).lines()}"
    assert planned[0].content == below
    assert [message.content for message in acted] == [f"{below}\nSolution path: {second.name}, {first.name}"]
    assert [f.name for f in model.heard[2][2]] == [n for n in env.task.candidates if n in (first.name, second.name)] + [
        "finish"
    ]


def test_a_planner_that_answers_says_what_it_found_instead_of_giving_up() -> None:
    env = chat(scenario={**SMALL, "failures": "reliable"}, split="test")
    lines = [GIVE_UP] * 6 + ["what I found"]
    settings = PlannerSettings(tags=False, path=False, answer=True)
    model = Scripted(lines[:2] + lines[-1:])
    play(env, LlmAgent(model, planner := ToolPlanner(settings)), env.numbers[0])
    assert planner.name == "toolplanner-no-tags-no-path-answers"
    assert env.episode.log[-1][:2] == ("finish", "what I found")
    play(env, LlmAgent(Scripted(lines), ToolPlanner(PlannerSettings(tags=False, path=False))), env.numbers[0])
    assert env.episode.log[-1][2] is True
