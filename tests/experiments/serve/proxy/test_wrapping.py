"""Python functions, and tools of agent frameworks, under the world's luck."""

import asyncio
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from costgym.chaos import Chaos, ConnectionFault, Fault, TimeoutFault, wrap
from costgym.experiments.serve.proxy.call_log import read_runs
from costgym.simulators.errors import CostGymError
from costgym.simulators.status import Status

ROOT = Path(__file__).parents[4]


def double(number: int, offset: int = 0) -> dict[str, int]:
    """Twice a number."""
    made.append(number)
    return {"double": 2 * number + offset}


async def triple(number: int) -> str:
    made.append(number)
    return f"{number} times three is {3 * number}"


made: list[int] = []


def outcomes(tool: Any, times: int = 30) -> list[Any]:
    results: list[Any] = []
    for number in range(times):
        try:
            value = tool(number)
            results.append(asyncio.run(value) if asyncio.iscoroutine(value) else value)
        except Fault as fault:
            results.append(fault.status)
    return results


@pytest.mark.parametrize("function", [double, triple])
def test_a_function_meets_the_same_faults_twice(function: Any) -> None:
    wrapped = [wrap(function, scenario="silent", seed=seed, time_scale=0, budget="price=1000") for seed in (6, 6, 7)]
    outcomes_of_all = [outcomes(tool) for tool in wrapped]
    assert outcomes_of_all[0] == outcomes_of_all[1] != outcomes_of_all[2]
    assert wrapped[0].__name__ == function.__name__ and wrapped[0].__doc__ == function.__doc__


def test_what_the_world_fails_is_not_called() -> None:
    made.clear()
    statuses = []
    for seed in range(6):
        chaos = Chaos([double], scenario="storm", seed=seed, time_scale=0)
        outcomes(chaos.tools[0], 8)
        statuses += [call.status for call in chaos.session.episode.calls]
    assert 0 < len(made) == statuses.count(Status.OK) < len(statuses)


def test_without_a_scenario_only_the_log_is_kept(tmp_path: Path) -> None:
    with Chaos([double, triple], scenario=None, log=tmp_path / "calls.jsonl", task="sums") as chaos:
        two, three = chaos.tools
        assert (two(2, offset=1), asyncio.run(three(2))) == ({"double": 5}, "2 times three is 6")
        chaos.success = True
    (run,) = read_runs([tmp_path / "calls.jsonl"])
    assert [(call["tool"], call["arguments"]) for call in run.calls] == [
        ("double", {"number": 2, "offset": 1}),
        ("triple", {"number": 2}),
    ]
    assert (run.success, run.settings["task"]) == (True, "sums")


def test_tools_of_one_list_share_a_budget() -> None:
    one, other = wrap([double, triple], scenario=None, prices={"double": 3, "triple": 1}, budget={"price": 5})
    one(1)
    with pytest.raises(Fault, match="does not cover this call") as refused:
        one(1)
    assert refused.value.status == "over_budget"
    assert asyncio.run(other(1)) == "1 times three is 3"


def test_faults_are_errors_that_retries_know() -> None:
    assert issubclass(TimeoutFault, TimeoutError) and issubclass(ConnectionFault, ConnectionError)
    kinds = set()
    for seed in range(12):
        tool = wrap(double, scenario="storm", seed=seed, time_scale=0, budget="price=1000")
        for _ in range(6):
            try:
                tool(1)
            except TimeoutError as error:
                kinds.add(type(error))
            except ConnectionError as error:
                kinds.add(type(error))
            except Fault as error:
                kinds.add(error.status)
    assert {TimeoutFault, ConnectionFault, "server_error"} <= kinds


def test_a_function_of_ones_own_may_still_fail(tmp_path: Path) -> None:
    def broken() -> None:
        raise KeyError("mine")

    with Chaos([broken], scenario=None, log=str(tmp_path / "calls.jsonl")) as chaos, pytest.raises(KeyError):
        chaos.tools[0]()
    (run,) = read_runs([tmp_path / "calls.jsonl"])
    assert (run.calls[0]["status"], run.calls[0]["error"]) == ("server_error", "KeyError: 'mine'")
    with pytest.raises(TypeError):
        wrap(double, scenario=None)(1, 2, 3)


def test_latency_is_slept() -> None:
    chaos = Chaos([double], scenario="marketplace", faults=0, time_scale=0.01)
    begun = time.monotonic()
    chaos.tools[0](1)
    assert time.monotonic() - begun >= 0.01 * chaos.session.episode.now_s > 0


@dataclass
class FunctionTool:
    """The documented surface of the OpenAI Agents SDK's tool."""

    name: str
    description: str
    params_json_schema: dict[str, Any]
    on_invoke_tool: Any


def test_a_tool_of_the_agents_sdk_returns_errors_as_text() -> None:
    async def invoke(context: Any, text: str) -> int:
        return 2 * int(json.loads(text)["number"])

    tool = FunctionTool("double", "", {"type": "object"}, invoke)
    texts = []
    for seed in range(8):
        wrapped = wrap(tool, scenario="storm", seed=seed, time_scale=0)
        assert wrapped is not tool and tool.on_invoke_tool is invoke
        texts += [asyncio.run(wrapped.on_invoke_tool(None, '{"number": 4}')) for _ in range(3)]
    assert 8 in texts and any(isinstance(text, str) and "error" in json.loads(text) for text in texts)


@pytest.mark.parametrize("wrong", [3, object(), None])
def test_what_is_no_tool_is_refused(wrong: Any) -> None:
    with pytest.raises(CostGymError, match="expected a function"):
        wrap(wrong)


FRAMEWORKS = {
    "langgraph": """
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
@tool
def double(number: int) -> int:
    "Twice a number."
    return 2 * number
@tool
async def triple(number: int) -> int:
    "Three times a number."
    return 3 * number
found = []
for seed in range(8):
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(wrap([double, triple], scenario="storm", seed=seed, time_scale=0)))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    calls = [{"name": name, "args": {"number": 4}, "id": name} for name in ("double", "triple")]
    told = asyncio.run(graph.compile().ainvoke({"messages": [AIMessage("", tool_calls=calls)]}))
    found += [message.content for message in told["messages"][1:]]
""",
    "openai-agents": """
from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
set_tracing_disabled(True)
@function_tool
def double(number: int) -> int:
    "Twice a number."
    return 2 * number
class Scripted(Model):
    turn = 0
    async def get_response(self, *args, **kwargs):
        self.turn += 1
        text = ResponseOutputText(text="done", type="output_text", annotations=[])
        message = ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[text])
        call = ResponseFunctionToolCall(arguments='{"number": 4}', call_id="c", name="double", type="function_call")
        return ModelResponse(output=[message if self.turn > 2 else call], usage=Usage(), response_id=None)
    def stream_response(self, *args, **kwargs):
        raise NotImplementedError
found = []
for seed in range(8):
    agent = Agent(name="plain", model=Scripted(), tools=[wrap(double, scenario="storm", seed=seed, time_scale=0)])
    result = asyncio.run(Runner.run(agent, "double it"))
    found += [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]
""",
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_real_frameworks_call_wrapped_tools(framework: str, tmp_path: Path) -> None:
    try:
        importlib.metadata.version(framework)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{framework} is not installed")
    # elsewhere, since a package of the Agents SDK is called like a folder of this project
    (tmp_path / "costgym").symlink_to(ROOT / "costgym")
    script = f"import asyncio\nfrom costgym.chaos import wrap\n{FRAMEWORKS[framework]}\nprint('\\n'.join(found))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert "8" in lines and any('"error"' in line for line in lines)
