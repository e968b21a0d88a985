"""Evaluators and trainers of others play an episode and get its score. Each test needs the framework's own package."""

import asyncio
import json
import runpy
import shlex
import threading
import time
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

import costgym
from costgym.experiments.play.text_episode import ENV_ID, ToolEpisode, task_rows
from tests.helpers.command_line import invoke
from tests.helpers.served import served
from tests.helpers.solving import next_call, tagged
from tests.helpers.trl_tools import tools_of

WORLD = """\
name: small
source: {kind: marketplace, tools: 40, providers: 10, categories: 4, train: 8, test: 4, candidates: 4}
"""
SEED, BUDGET = 3, "price=40"
EXAMPLES = Path(__file__).parents[2] / "examples"
OPENENV = EXAMPLES / "openenv_hub"


@pytest.fixture(autouse=True)
def examples_are_importable(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("world") / "small.yaml"
    path.write_text(WORLD)
    return str(path)


def play(scenario, number):
    """The episode as `ToolEpisode` plays it: its calls and its score."""
    episode = ToolEpisode(number, SEED, scenario, BUDGET, split="test")
    names, read, calls = {function.name for function in episode.functions}, "", []
    while not episode.over:
        calls.append(next_call(episode.env.task, names, read, [name for name, _ in calls]))
        read += episode.call(*calls[-1]).text
    return calls, episode.score()


def test_inspect_ai_scores_its_samples_like_the_world(scenario, tmp_path):
    pytest.importorskip("inspect_ai", reason="Inspect AI is not installed (it needs fsspec <= 2026.6)")
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from costgym.experiments.serve.inspect_task import marketplace

    rows = task_rows(scenario, "test", 3)
    known = {row["query"]: play(scenario, row["task"]) for row in rows}

    def say(messages, tools, choice, config):
        query = next(message.text for message in messages if message.role == "user")
        number = sum(message.role == "tool" for message in messages)
        output = ModelOutput.for_tool_call("mockllm/model", *known[query][0][number])
        output.usage = ModelUsage(input_tokens=9, output_tokens=1, total_tokens=10)
        return output

    task = marketplace(scenario=scenario, tasks=3, budget=BUDGET, seed=SEED)
    (log,) = evaluate(task, model=get_model("mockllm/model", custom_outputs=say), display="none", log_dir=str(tmp_path))
    assert log.status == "success"
    for sample in log.samples:
        score = dict(sample.scores["world"].value)
        expected = known[sample.input][1]
        assert {name: score[name] for name in ("success", "price", "calls")} == {
            name: expected[name] for name in ("success", "price", "calls")
        }
    passed = sum(score["success"] for _, score in known.values())
    means = {score.name: {name: metric.value for name, metric in score.metrics.items()} for score in log.results.scores}
    assert passed > 0 and means["success"]["mean"] == pytest.approx(passed / 3)
    spent = sum(score["price"] for _, score in known.values())
    assert means["world"]["cost_per_success"] == pytest.approx(spent / passed)


def test_inspect_ai_knows_the_task_by_name_and_plays_costgyms_agents(scenario, tmp_path):
    pytest.importorskip("inspect_ai", reason="Inspect AI is not installed (it needs fsspec <= 2026.6)")
    from inspect_ai import eval as evaluate

    from costgym.experiments.serve.inspect_task import agent, marketplace

    task = marketplace(scenario="marketplace-small", tasks=8, budget=BUDGET, seed=SEED)
    (log,) = evaluate(task, solver=agent("react"), model="none/none", display="none", log_dir=str(tmp_path))
    assert log.status == "success"
    optima = []
    for row, sample in zip(task_rows("marketplace-small", "test", 8), log.samples, strict=True):
        episode = ToolEpisode(row["task"], SEED, "marketplace-small", BUDGET, split="test")
        episode.play(costgym.agents.make_agent("react"))
        figures, score = episode.score(), sample.scores["world"]
        optima.append(figures.pop("optimum_price", None))
        assert score.value == figures and score.metadata["optimum_price"] == optima[-1]
    assert None in optima and optima != [None] * 8  # tasks that cannot be solved are among the others


def test_skyrl_plays_text_and_sums_to_the_quality_of_plan(scenario, tmp_path):
    skyrl_gym = pytest.importorskip("skyrl_gym", reason="SkyRL-gym is not installed")
    from skyrl_marketplace import write_data

    row = task_rows(scenario, "test", 1)[0]
    calls, expected = play(scenario, row["task"])
    config = {"scenario": scenario, "budget": BUDGET, "split": "test"}
    env = skyrl_gym.make("costgym", env_config=config, extras={"task": row["task"], "seed": SEED})
    prompt, _ = env.init([{"role": "user", "content": row["query"]}])
    assert calls[0][0] in prompt[0]["content"]
    outputs = [env.step(tagged(*call)) for call in calls]
    assert [output["done"] for output in outputs] == [False] * (len(calls) - 1) + [True]
    assert sum(output["reward"] for output in outputs) == pytest.approx(expected["quality"])
    assert env.get_metrics()["success"] == expected["success"]

    cut = skyrl_gym.make("costgym", env_config=config, extras={"task": row["task"], "seed": SEED, "max_turns": 1})
    cut.init([])
    assert cut.step("Let me think.") == {"observations": [], "reward": 0.0, "done": True, "metadata": {}}
    assert cut.get_metrics()["success"] == 0

    pytest.importorskip("datasets", reason="the extra `train` is not installed")
    train, validation = write_data(tmp_path, tasks=2, rounds=3, validation=1, scenario=scenario, budget=BUDGET)
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(train).to_pylist()
    assert len(rows) == 6 and len({(row["task"], row["seed"]) for row in rows}) == 6 and rows[0]["env_class"] == "costgym"
    assert pyarrow.parquet.read_table(validation).num_rows == 1


def test_nemo_gym_answers_function_calls_until_the_end(scenario, tmp_path):
    pytest.importorskip("nemo_gym", reason="NeMo Gym is not installed (it needs Python 3.13)")
    from unittest.mock import MagicMock

    from nemo_gym.base_resources_server import BaseResourcesServerConfig
    from nemo_gym.openai_utils import NeMoGymResponse
    from nemo_gym.server_utils import ServerClient
    from nemo_gym_marketplace import MarketplaceServer, write_rows

    path = write_rows(tmp_path / "rows.jsonl", tasks=1, scenario=scenario, split="test", budget=BUDGET)
    row = json.loads(path.read_text())
    about = {**row, "seed": SEED}
    calls, expected = play(scenario, row["task"])
    assert calls[0][0] in [tool["name"] for tool in row["responses_create_params"]["tools"]]
    config = BaseResourcesServerConfig(host="", port=0, entrypoint="", name="")
    server = MarketplaceServer(config=config, server_client=MagicMock(spec=ServerClient))

    def response(name, arguments):
        item = {"type": "function_call", "call_id": "c", "name": name, "arguments": json.dumps(arguments)}
        base = {"id": "r", "created_at": 0.0, "model": "m", "object": "response", "tool_choice": "auto", "tools": []}
        return NeMoGymResponse(**base, parallel_tool_calls=True, output=[item])

    async def episode():
        await server.reset(about, "me")
        return [await server.step(response(*call), about, "me") for call in calls]

    steps = asyncio.run(episode())
    assert [step[2] for step in steps] == [False] * (len(calls) - 1) + [True]
    assert steps[0][4]["tool_outputs"][0]["call_id"] == "c"
    assert sum(step[1] for step in steps) == pytest.approx(expected["quality"])
    assert steps[-1][4]["success"] == expected["success"]
    assert steps[-1][4]["mask_sample"] is False and (steps[-1][4]["failure_reason"] is None) == bool(expected["success"])


@pytest.fixture
def server(scenario):
    """OpenEnv's routes alone: its client's package and the SDK of MCP that the whole server has do not install together."""
    starlette = pytest.importorskip("starlette.applications", reason="the extra `serve` is not installed")
    uvicorn = pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    from costgym.envs.registration import make
    from costgym.experiments.serve.limits import Limits
    from costgym.experiments.serve.openenv import OpenEnv
    from costgym.experiments.serve.sessions import Sessions

    def make_env():
        return make(ENV_ID, disable_env_checker=True, scenario=scenario, split="test", budget={"price": 40})

    routes = OpenEnv(Sessions(make_env, Limits(), 0, time.monotonic), ENV_ID, "").routes()
    running = uvicorn.Server(uvicorn.Config(starlette.Starlette(routes=routes), port=0, log_level="warning"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    running.should_exit = True
    thread.join(10)


def test_trl_plays_a_servers_tasks_through_openenv(scenario, server):
    pytest.importorskip("openenv", reason="OpenEnv's client is not installed")
    from trl_marketplace import RemoteWorld

    world = RemoteWorld(server, tasks=2, rounds=2)
    rows = world.rows()
    assert len(rows) == 4 and rows[0]["task"] != rows[1]["task"] and rows[0]["seed"] != rows[2]["seed"]
    number = next(row["task"] for row in task_rows(scenario, "test") if row["id"] == rows[0]["task"])
    calls, expected = play(scenario, number)
    environment = world.environment_factory[rows[0]["environment"]]()
    assert rows[0]["prompt"][-1]["content"] == ToolEpisode(number, SEED, scenario).query
    assert {name for name, _ in calls} <= {method.__name__ for method in tools_of(environment)}
    environment.reset(task=rows[0]["task"], seed=SEED)
    for name, arguments in calls:
        try:
            getattr(environment, name)(**arguments)
        except Exception as error:  # as the trainer does
            assert type(error).__name__ == "ToolFailure"
    figures = {}
    assert world.reward_funcs[0]([environment], figures.__setitem__) == [pytest.approx(expected["quality"])]
    assert figures["episode/success"] == expected["success"] and figures["episode/price"] == pytest.approx(expected["price"])


def test_the_openenv_package_starts_a_server_with_options_that_exist():
    manifest = yaml.safe_load((OPENENV / "openenv.yaml").read_text())
    assert manifest["name"] == "costgym" and manifest["port"] == 8000
    low, high = manifest["validation"]["reward"]["range"]
    assert (low, high) == (-0.5, 0.5)  # the Quality of Plan with alpha 0.5, see rule of the default world
    image = (OPENENV / "Dockerfile").read_text()
    command = json.loads(image[image.index('CMD ["sh"') + 4 :])[2]
    words = shlex.split(command)
    assert words[:3] == ["exec", "costgym", "serve"] and words[words.index("--port") + 1] == str(manifest["port"])
    help_text = invoke("serve", "--help").output
    assert all(word in help_text for word in words if word.startswith("--"))


@pytest.mark.slow
def test_the_oracle_that_the_openenv_package_declares_reaches_the_highest_reward(monkeypatch, capsys):
    for package, least in (("websockets", "15"), ("mcp", "2.3")):
        pytest.importorskip(package, reason="needs the extra `serve`")
        if Version(metadata.version(package)) < Version(least):
            pytest.skip(f"`costgym serve` needs {package} {least}")
    declared = yaml.safe_load((OPENENV / "openenv.yaml").read_text())["validation"]
    oracle = declared["capabilities"]["oracle"]
    assert oracle["form"] == "script"
    world = {"scenario": "marketplace", "split": "train", "budget": "price=20"}
    for name, value in world.items():
        monkeypatch.setenv(f"COSTGYM_{name.upper()}", value)
    with served("--env", ENV_ID, *(word for name, value in world.items() for word in (f"--{name}", value))) as (address, _):
        runpy.run_path(str(OPENENV / oracle["location"]))["main"](address.replace("http", "ws") + "/ws")
    reward = float(capsys.readouterr().out.split()[-1])
    assert declared["reward"]["range"][1] - declared["reward"]["oracle_tolerance"] <= reward <= declared["reward"]["range"][1]
