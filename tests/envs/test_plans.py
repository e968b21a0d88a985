"""A plan as one action: it runs as a DAG, what ran is billed, and nothing that it says raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import costgym

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["{a}", "{a.image}", "a", "b", "img-1745"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name", "arguments", "after", "x"]), inner)
    ),
    max_leaves=16,
)


@pytest.fixture(scope="module")
def env() -> Any:
    return costgym.make("costgym/MarketplaceChat-v1", scenario="one-world", disable_env_checker=True).unwrapped


def start(env: Any, budget: float = 30.0) -> str:
    """Begin a query about an image under a budget; returns the image's handle."""
    number = next(n for n in range(200) if env.world.tasks[n].group == "both" and env.world.tasks[n].size_level == 2)
    env.reset(seed=1, options={"task": number})
    env.episode.ledger.price = 30.0 - budget
    return str(env.world.answers.pictures.handle(env.world.answers.queries[number].picture))


def play(env: Any, steps: Any) -> tuple[list[dict[str, Any]], list[str]]:
    observation, _, _, _, info = env.step(json.dumps({"plan": steps}))
    return json.loads(observation).get("results", []), info["statuses"].split(",")


def step(id: str, tool: str, image: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "name": tool, "arguments": {"image": image}, **more}


def test_steps_run_side_by_side_and_take_the_results_of_others(env: Any) -> None:
    image = start(env)
    steps = [
        step("c", "image_colorization", image),
        step("k", "image_classification", "{c}"),
        step("o", "object_detection", image),
    ]
    results, statuses = play(env, steps)
    calls = {call.tool: call for call in env.episode.calls}
    assert statuses == ["ok"] * 3
    assert calls["object_detection"].started_s == calls["image_colorization"].started_s
    assert calls["image_classification"].started_s == calls["image_colorization"].finished_s
    assert calls["image_classification"].arguments == {"image": json.loads(results[0]["content"])["image"]}
    assert env.episode.ledger.price > sum(call.quote for call in env.episode.calls)


def test_a_step_may_wait_for_another_without_taking_its_result(env: Any) -> None:
    image = start(env)
    play(env, [step("a", "image_colorization", image), step("b", "object_detection", image, after=["a"])])
    first, second = env.episode.calls
    assert second.started_s == first.finished_s


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        (
            [step("a", "object_detection", "{b}"), step("b", "image_colorization", "{a}")],
            "depends on b, which comes only later",
        ),
        ([step("a", "object_detection", "{a}")], "a depends on itself"),
        ([step("a", "object_detection", "{z}")], "depends on 'z', which is not in the plan"),
        ([step("a", "object_detection", "x")] * 2, "occurs twice"),
        ([step(str(i), "object_detection", "x") for i in range(17)], "expected a list of 1 to 16 steps"),
    ],
)
def test_what_is_no_plan_is_refused_whole_and_costs_no_call(env: Any, steps: Any, problem: str) -> None:
    start(env)
    observation, *_, info = env.step(json.dumps({"plan": steps}))
    assert problem in observation
    assert info["statuses"] == "malformed" and env.episode.ledger.calls == 0


def test_unknown_images_and_foreign_tools_are_told_and_the_other_steps_run(env: Any) -> None:
    image = start(env)
    foreign = next(tool.name for tool in env.world.catalog if tool.name not in env.quotes())  # a tool, but not of this query
    steps = [step("a", "image_colorization", "img-9"), step("b", "object_detection", "{a}")]
    steps += [step("c", "no_such_tool", image), step("e", foreign, image)]
    _, statuses = play(env, [*steps, step("d", "image_classification", image)])
    assert statuses[0] in ("wrong_arguments", "no_data")  # it ran, and is billed
    assert statuses[1:] == ["invalid_arguments", "unknown_tool", "unknown_tool", "ok"]
    assert env.episode.ledger.calls == 2


def test_without_money_in_the_middle_the_rest_is_refused_and_what_ran_is_billed(env: Any) -> None:
    image = start(env, budget=12.0)
    quotes = env.quotes()
    assert quotes["image_colorization"] < 12.0 < quotes["image_super_resolution"]
    steps = [
        step("a", "image_colorization", image),
        step("b", "image_super_resolution", "{a}"),
        step("c", "object_detection", "{b}"),
    ]
    results, statuses = play(env, steps)
    assert statuses == ["ok", "over_budget", "invalid_arguments"]
    assert "step b was not executed (over_budget)" in results[2]["content"]
    assert env.episode.ledger.calls == 1 and not env.episode.over


def test_where_passing_a_limit_ends_the_episode_the_rest_of_a_plan_never_runs() -> None:
    env = costgym.make("costgym/MarketplaceChat-v1", scenario="one-world", enforcement="terminate", disable_env_checker=True)
    image = start(env.unwrapped, budget=2.0)
    steps = [step("a", "image_colorization", image), step("b", "object_detection", "{a}")]
    observation, _, terminated, _, info = env.step(json.dumps({"plan": steps}))
    assert terminated and info["statuses"] == "ok,cancelled"
    assert len(json.loads(observation)["results"]) == 2
    assert env.unwrapped.episode.ledger.calls == 1 and env.unwrapped.episode.exceeded == "price"


def test_version_0_of_the_world_knows_no_plans() -> None:
    env = costgym.make("costgym/MarketplaceChat-v0", scenario="marketplace")
    env.reset(seed=0)
    assert env.step(json.dumps({"plan": [step("a", "x", "y")]}))[-1]["statuses"] == "malformed"


@given(plan=JSON)
def test_no_plan_raises(env: Any, plan: Any) -> None:
    start(env)
    observation, reward, *_ = env.step(json.dumps({"plan": plan}))
    assert isinstance(observation, str) and reward <= 0.5


def test_an_episode_with_plans_is_replayed_to_the_bit(env: Any) -> None:
    image = start(env)
    play(
        env,
        [step("a", "image_colorization", image), step("b", "object_detection", "{a}"), step("c", "object_detection", image)],
    )
    copy = env.episode.fork()
    assert (copy.ledger.calls, copy.now_s, copy.calls) == (env.episode.ledger.calls, env.episode.now_s, env.episode.calls)
