"""The one world: its queries, that each kind is its own paper's world, and that no play beats the optimum."""

import itertools
import json
from operator import attrgetter

import pytest

import costgym
from costgym.simulators.grading import read_answer
from costgym.simulators.ledger import Budget
from costgym.simulators.one_world.kinds import KINDS
from costgym.simulators.opencatp.plan_space import plan_space
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.opencatp.tools import IMAGE_TOOLS, READER_TOOLS, TOOLS
from costgym.simulators.oracle.optimum import optimum
from costgym.simulators.scenario import Scenario, load_scenario
from tests.helpers import tiny_worlds
from tests.helpers.tiny_worlds import tiny_one_world

CHAT = "costgym/MarketplaceChat-v1"


def only(**source: object) -> Scenario:
    """The scenario with other fields of its source."""
    whole = load_scenario("one-world")
    return whole.model_copy(update={"source": whole.source.model_copy(update=source)})


@pytest.fixture(scope="module")
def world():
    return load_scenario("one-world").build()


def about_pictures(world, count: int):
    """Queries that want outputs of an image, with their numbers."""
    tasks = [(number, world.tasks[number]) for number in world.tasks.numbers("test")]
    return [(number, task) for number, task in tasks if task.group == "vision"][:count]


def test_every_kind_occurs_and_every_query_offers_apis_and_all_vision_tools(world):
    tasks = [world.tasks[number] for number in range(120)]
    assert {task.group for task in tasks} == set(KINDS)
    for task in tasks:
        assert set(TOOLS) < set(task.candidates)
        assert 16 <= len(set(task.candidates)) == len(task.candidates) <= 64
        assert [need.given for need in task.needs] == [task.group == "none"] * len(task.needs)
        assert all(need.given or set(need.tools) & set(task.candidates) for need in task.needs)
        assert len(task.needs) <= 6


def test_a_sum_is_answered_without_a_call_and_by_nothing_else(world):
    number, task = next((n, world.tasks[n]) for n in range(100) if world.tasks[n].group == "none")
    assert optimum(world, number, 5, Budget(price=1.0)).plan == ()
    assert world.episode(number, 5).finish(f"It is {task.needs[0].fact}.").strict
    assert not world.episode(number, 5).finish("I do not know.").strict


def test_an_answer_that_lists_every_class_states_none(world):
    from costgym.simulators.one_world.tasks import LABELS

    wanted = next(task for _, task in about_pictures(world, 60) if any(need.rivals for need in task.needs))
    need = next(need for need in wanted.needs if need.rivals and " " in need.rivals[0])
    assert read_answer([need], f"It is a {need.fact}.").present == (True,)
    assert read_answer([need], ", ".join((*LABELS, *need.rivals, need.fact))).present == (False,)


def test_the_cheapest_plan_is_the_cheapest_of_all_ways_that_are_tried_out(world):
    compared = 0
    for number, task in about_pictures(world, 80):
        queries, picture = world.answers.queries[number]
        if len(queries.wants) > 1 or queries.wants[0].is_image or queries.wants[0].german:
            continue
        quotes = {candidate.name: candidate.quote for candidate in world.candidates(number)}
        best = float("inf")
        for length in range(5):
            for chain in itertools.permutations(IMAGE_TOOLS, length):
                handle = world.answers.pictures.handle(picture)
                for tool in chain:
                    handle = world.answers.pictures.output(tool, {"image": handle}, [picture])
                for reader in READER_TOOLS:
                    text = world.answers.pictures.output(reader, {"image": handle}, [picture])
                    if read_answer(task.needs[-1:], text or "").present[0]:
                        best = min(best, sum(quotes[tool] for tool in (*chain, reader)))
        cheapest = optimum(world, number, 1, Budget())
        assert cheapest.exact
        if cheapest.feasible:
            assert cheapest.price == pytest.approx(best)
        else:  # it costs more than it is worth
            assert best > world.max_price
        compared += 1
    assert compared > 10


@pytest.mark.parametrize("kind", KINDS)
def test_no_sequence_of_calls_and_waits_beats_the_optimum_of_a_tiny_world(kind, monkeypatch):
    monkeypatch.setattr(tiny_worlds, "LONGEST", 2)
    for number in range(3):
        problem, tried = tiny_worlds.wrong_with(tiny_one_world(kind), seed=number, task=2 + number)
        assert not problem and tried >= 8


def test_no_play_beats_the_optimum():
    env = costgym.make("costgym/Marketplace-v0", scenario="one-world", split="test")
    for agent in ("cheapest", "greedy", "random", "oracle"):
        for episode in costgym.rollout(env, agent, episodes=60, seed=3):
            assert episode.regret >= -1e-9, (agent, episode.task)


# -- each kind is its own paper's world -----------------------------------------------------------------------------------


def test_facts_alone_are_the_marketplace_to_the_last_figure():
    alone = only(kinds={"facts": 1.0}, vision_tools=False, candidates=16)
    rules = {"max_price": 100.0, "slots": None, "gpu_capacity_mb": None, "budget": {"price": 20.0}, "enforcement": "terminate"}
    one = costgym.make(CHAT, scenario=alone.model_copy(update=rules), split="test")
    other = costgym.make(CHAT, scenario="marketplace", split="test")
    figures = attrgetter("strict", "price", "seconds", "tokens", "calls")
    for name in ("react", "react+ecoact", "toolplanner"):
        mine, theirs = (costgym.rollout(env, name, episodes=25, seed=1) for env in (one, other))
        for a, b in zip(mine, theirs, strict=True):
            assert figures(a) == figures(b)


def test_a_plan_of_vision_tools_is_worth_what_it_is_in_opencatp(world):
    env, theirs = (
        costgym.make(CHAT, scenario="one-world", split="test", budget={}),
        costgym.make("costgym/OpenCATPChat-v0", tasks="all", split="test"),
    )
    evaluator, compared = Evaluator(), 0
    for number, _ in about_pictures(world, 25):
        queries, picture = world.answers.queries[number]
        plans = plan_space(queries.wants).plans
        for plan in plans[number % 7 :: len(plans) // 3]:
            env.reset(seed=number, options={"task": number})
            handle = world.answers.pictures.handle(picture)
            steps = []
            for step in plan.steps:
                source = handle if step.deps[-1] == "input_of_query" else f"{{{step.deps[-1]}}}"
                takes = "text" if step.tool == "machine_translation" else "image"
                steps.append({"id": step.tool, "name": step.tool, "arguments": {takes: source}})
            observation, *_ = env.step(json.dumps({"plan": steps}))
            results = json.loads(observation)["results"]
            outputs = {entry["id"]: next(iter(json.loads(entry["content"]).values())) for entry in results}
            calls = env.unwrapped.episode.calls
            answered = [outputs[tool] for _, tool in evaluator.answers(plan, queries) if tool]
            env.step(json.dumps({"name": "finish", "arguments": {"answer": "; ".join(answered)}}))
            theirs.reset(
                seed=0, options={"task": queries.task_id, "sample": picture.sample, "level": env.unwrapped.task.size_level}
            )
            outcome = theirs.step(json.dumps({"plan": plan.to_list()}))[-1]
            assert sum(call.price for call in calls) / 100.0 == pytest.approx(outcome["price"], rel=1e-9)
            seconds = max(call.finished_s for call in calls) - min(call.submitted_s for call in calls)
            assert seconds == pytest.approx(outcome["execution_time_s"], rel=1e-9)
            assert env.unwrapped.figures()["score"] == pytest.approx(outcome["score"], abs=1e-6)
            compared += 1
    assert compared > 50


def test_decisions_cost_what_they_do_in_deers_environment(world):
    decisions = costgym.make("costgym/DecisionAware-v0", budget={}, disable_env_checker=True).unwrapped
    theirs = {tool.key: tool.profile for tool in decisions.world.catalog}
    assert {tool.key: tool.profile for tool in world.catalog if tool.name not in TOOLS} == theirs
    chat = costgym.make("costgym/MarketplaceChat-v0", scenario="decision", budget={}, disable_env_checker=True).unwrapped
    chat.world, compared = decisions.world, {"NoSearch": 0, "NoCall": 0, "Call": 0}
    for number in decisions.numbers[:60]:
        decisions.reset(seed=number, options={"task": number})
        for action in decisions.right_actions():
            decisions.step(action)
        chat.reset(seed=number, options={"task": number})
        need, right = decisions.task.needs[0], decisions.decision
        if decisions.task.group == "Call":
            chat.step(json.dumps({"name": need.tools[0], "arguments": need.arguments}))
        chat.step(json.dumps({"name": "finish", "arguments": {"answer": right}}))
        mine, other = ([(c.tool, c.status, c.price, c.k) for c in env.episode.calls] for env in (chat, decisions))
        assert mine == other
        assert chat.succeeded == decisions.succeeded is True
        for one, two in zip(chat.episode.calls, decisions.episode.calls, strict=True):
            assert one.finished_s - one.started_s == pytest.approx(two.finished_s - two.started_s, rel=1e-9)
        compared[decisions.task.group] += 1
    assert min(compared.values()) > 5
