"""The marketplace as TRL trains on it: tools as methods, one world for a group, rewards from the world's state."""

import inspect
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from costgym.experiments.play.text_episode import ToolFailure
from costgym.simulators.errors import BudgetExceeded, ConfigError, EpisodeOver
from costgym.simulators.scenario import Scenario, parse_scenario
from tests.helpers.tiny_model import save_tiny_model
from tests.helpers.trl_tools import tools_of

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from trl_marketplace import TaskEnvironment, TrlWorld, episode_return


def scenario(failures: str = "reliable", **settings: Any) -> Scenario:
    source = {"kind": "marketplace", "tools": 40, "providers": 10, "categories": 4, "train": 12, "test": 2, "candidates": 4}
    return parse_scenario({"name": "small", "source": source, "failures": failures, **settings})


def begin(world: TrlWorld, index: int = 0) -> TaskEnvironment:
    row = world.rows()[index]
    environment = world.environment_factory[row["environment"]]()
    environment.reset(**{name: value for name, value in row.items() if name != "environment"})
    return environment


def solve(environment: TaskEnvironment) -> None:
    episode = environment._episode.env.account()
    for index, need in enumerate(episode.needs):
        for tool in need.tools:
            if not episode.known[index] and hasattr(environment, tool):
                getattr(environment, tool)(**need.arguments)
    environment.finish(answer="; ".join(str(need.fact) for need in episode.needs))


def test_the_tools_of_a_task_are_its_candidates_and_finish_and_nothing_of_gymnasium() -> None:
    environment = begin(TrlWorld(scenario(), tasks=1))
    assert not isinstance(environment, gym.Env)
    names = {tool.__name__ for tool in tools_of(environment)}
    assert names == {tool.name for tool in environment._episode.env.candidates} | {"finish"}


def test_a_tool_documents_itself_with_its_price() -> None:
    world = TrlWorld(scenario(), tasks=1)
    environment = begin(world)
    tool = environment._episode.env.candidates[0]
    method = getattr(environment, tool.name)
    quote = environment._episode.env.quotes()[tool.name]
    assert f"One call costs {quote:g} credits." in (inspect.getdoc(method) or "")
    required = tool.parameters["required"]
    defaults = {name: parameter.default for name, parameter in inspect.signature(method).parameters.items()}
    assert set(defaults) == set(tool.parameters["properties"])
    assert all((defaults[name] is inspect.Parameter.empty) == (name in required) for name in defaults)


def test_short_documents_of_a_task_are_those_of_supervised_episodes() -> None:
    utils = pytest.importorskip("transformers.utils", reason="needs transformers (the train extra)")
    world = TrlWorld(scenario(), tasks=1, documents="short")
    environment = begin(world)
    documents = {function["function"]["name"]: function["function"] for function in environment._episode.env.documentation()}
    for method in tools_of(environment):
        if method.__name__ != "finish":
            schema = utils.get_json_schema(method)["function"]
            known = documents[method.__name__]
            assert schema["description"] == known["description"]
            assert schema["parameters"]["required"] == known["parameters"]["required"]


def test_transformers_reads_every_schema() -> None:
    utils = pytest.importorskip("transformers.utils", reason="needs transformers (the train extra)")
    for kind in TrlWorld(scenario()).environment_factory.values():
        environment = kind()
        for method in tools_of(environment):
            function = utils.get_json_schema(method)["function"]
            assert function["name"] == method.__name__ and function["description"]
            assert set(function["parameters"]["required"]) <= set(function["parameters"]["properties"])


def test_a_group_shares_one_world() -> None:
    world = TrlWorld(scenario("storm"), tasks=2, rounds=2)
    first, second = begin(world), begin(world)
    assert first._episode.env.account().seed == second._episode.env.account().seed

    def story(environment: TaskEnvironment) -> list[str]:
        log = []
        need = environment._episode.env.account().needs[0]
        for tool in need.tools * 3:
            try:
                log.append(getattr(environment, tool)(**need.arguments))
            except Exception as error:
                log.append(str(error))
        return log

    assert story(first) == story(second)


def test_the_reward_is_the_quality_of_the_plan() -> None:
    world = TrlWorld(scenario(), tasks=3)
    solved, idle = begin(world), begin(world)
    solve(solved)
    assert solved._episode.passed
    metrics: dict[str, float] = {}
    rewards = episode_return([solved, idle], log_metric=metrics.__setitem__)
    assert rewards == pytest.approx([solved._episode.env.quality(), 0.0])
    assert metrics == {
        "episode/success": 0.5,
        "episode/price": solved._episode.price / 2,
        "episode/finished": 0.5,
    }


def test_a_failing_tool_raises_what_it_says_and_is_paid() -> None:
    environment = begin(TrlWorld(scenario(), tasks=1))
    tool = next(iter(environment._episode.env.candidates))
    with pytest.raises(ToolFailure, match="argument"):
        getattr(environment, tool.name)(no_such_argument=1)
    assert environment._episode.env.account().ledger.attempts == 1


def test_nothing_can_be_called_after_the_end() -> None:
    environment = begin(TrlWorld(scenario(), tasks=1))
    assert environment.finish(answer="no idea") == "The task has ended."
    with pytest.raises(EpisodeOver, match="nothing more can be called"):
        environment.finish(answer="again")


def test_a_spent_budget_ends_the_task_in_words() -> None:
    world = TrlWorld(scenario(), tasks=1, budget={"calls": 1})
    environment = begin(world)
    need = environment._episode.env.account().needs[0]
    tool = next(tool for tool in need.tools if hasattr(environment, tool))
    getattr(environment, tool)(**need.arguments)
    with pytest.raises(BudgetExceeded, match="calls: spent 2 of a budget of 1"):
        getattr(environment, tool)(**need.arguments)
    with pytest.raises(EpisodeOver):
        environment.finish(answer="too late")


def test_rows_carry_what_a_reset_needs() -> None:
    world = TrlWorld(scenario(), tasks=2, rounds=3)
    assert all(set(row) == {"prompt", "environment", "task", "seed"} for row in world.rows())
    with pytest.raises(ConfigError, match="expected the columns task and seed, got prompt"):
        begin(world).reset(prompt=[])


@pytest.mark.slow
def test_trls_trainer_takes_a_step(tmp_path: Path) -> None:
    trl = pytest.importorskip("trl", reason="needs trl (the train extra)")
    import transformers

    from costgym.agents.models.chat_template import CHAT_TEMPLATE, RESPONSE_TEMPLATE

    model = transformers.AutoModelForCausalLM.from_pretrained(save_tiny_model(tmp_path / "model"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    tokenizer.chat_template, tokenizer.response_template = CHAT_TEMPLATE, RESPONSE_TEMPLATE
    world = TrlWorld(scenario(), tasks=1, rounds=1, documents="short")
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path / "run"), max_steps=1, per_device_train_batch_size=2, num_generations=2,
        max_completion_length=8, use_cpu=True, bf16=False, report_to="none", save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=model, args=arguments, train_dataset=world.train_dataset, environment_factory=world.environment_factory,
        reward_funcs=world.reward_funcs, processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    logged = next(line for line in trainer.state.log_history if "reward" in line)
    assert trainer.state.global_step == 1 and logged["reward"] == logged["rewards/episode_return/mean"]
