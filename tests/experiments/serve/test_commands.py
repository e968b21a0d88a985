"""Commands as agents: what they are given, what is counted, and what they get away with."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `serve` is not installed")

from costgym.agents.models.base import ASSISTANT, FINISH, TOOL, USER, Function, FunctionCall, Message, Reply
from costgym.experiments.board.submissions.submission import validate
from costgym.experiments.board.verify import verify
from costgym.experiments.serve.command.desk import Desk, ModelRequest, ToolAnswer, ToolRequest
from costgym.experiments.serve.command.endpoint import endpoint
from costgym.experiments.serve.command.process import why_not_isolated
from costgym.simulators.calls import Usage
from tests.helpers.command_line import invoke
from tests.helpers.model_server import Server, wire_reply

EXAMPLES = Path(__file__).parents[3] / "examples" / "commands"
PLAIN = """
import json, os, sys, urllib.request

def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))

model, tools = os.environ["OPENAI_BASE_URL"] + "/chat/completions", os.environ["COSTGYM_TOOLS_URL"]
"""
LOOP = (
    PLAIN
    + """
functions = json.load(urllib.request.urlopen(tools))
messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": os.environ["COSTGYM_TASK"]}]
for _ in range(12):
    message = post(model, {"messages": messages, "tools": functions})["choices"][0]["message"]
    messages.append(message)
    for call in message.get("tool_calls", []):
        about = call["function"]
        answer = post(f"{tools}/{about['name']}", json.loads(about["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer["content"]})
        if about["name"] == "finish":
            sys.exit()
    if not message.get("tool_calls"):
        print(message["content"])
        break
"""
)


def script(folder: Path, text: str) -> list[str]:
    from costgym.agents.prompts import INSTRUCTIONS

    file = folder / "my_agent.py"
    file.write_text(f"SYSTEM = {INSTRUCTIONS!r}\n{text}")
    return [sys.executable, str(file)]


def rank(folder: Path, text: str, *options: str, episodes: int = 2) -> Any:
    """Rank a script; returns what the command line said, and the episodes of the script."""
    words = ("--episodes", str(episodes), "--concurrency", "2", "--quiet", "--out", str(folder / "run"), *options)
    done = invoke("rank", *words, "--", *script(folder, text))
    lines = (folder / "run" / "episodes.jsonl").read_text().splitlines() if (folder / "run").is_dir() else []
    return done, [episode for episode in map(json.loads, lines) if episode["agent"].startswith("command:")]


def actions(folder: Path) -> list[list[str]]:
    """The recorded actions of each episode of the script."""
    file = next((folder / "run").rglob("command*.jsonl"))
    return [json.loads(line)["actions"] for line in file.read_text().splitlines()[1:]]


def test_a_loop_over_http_is_the_agent_react_to_the_last_figure_and_is_handed_in(tmp_path: Path) -> None:
    done, mine = rank(tmp_path, LOOP, "--pack", str(tmp_path / "entry"), "--contact", "me@example.org", episodes=2)
    assert done.exit_code == 0, done.output
    episodes = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    apart = {"agent", "replies", "figures"}
    ours = [
        {key: value for key, value in episode.items() if key not in apart}
        for episode in episodes
        if episode["agent"] == "react"
    ]
    assert [{key: value for key, value in row.items() if key not in apart} for row in mine] == ours
    assert all(row["tokens"] == row["figures"]["input_tokens"] + row["figures"]["output_tokens"] for row in mine)
    assert all(row["figures"]["requests"] == row["replies"]["requests"] > 0 for row in mine)
    assert verify(tmp_path / "run").verified and validate(tmp_path / "entry").verified
    row = next(row for row in json.loads((tmp_path / "run" / "leaderboard.json").read_text())["rows"] if "isolated" in row)
    assert row["isolated"] is (not why_not_isolated()) and "metered" not in row and row["average_requests"] > 1


def test_a_command_without_walls_is_said_to_be_not_isolated_wherever_it_is_shown(tmp_path: Path) -> None:
    words = ("--episodes", "1", "--isolation", "none", "--beside", "", "--out", tmp_path / "run")
    done = invoke("rank", *words, "--", *script(tmp_path, "print(1)"))
    assert "not isolated" in done.stderr and "command:my_agent not isolated" in " ".join(done.stdout.split())
    assert "not isolated: its command" in (tmp_path / "run" / "index.html").read_text()


def test_the_answer_may_be_the_last_line_and_a_command_without_a_request_pays_for_what_it_was_shown(tmp_path: Path) -> None:
    done, mine = rank(tmp_path, "print('I think')\nprint('it is 42')", "--beside", "")
    assert done.exit_code == 0 and not any(row["crash"] for row in mine if "crash" in row)
    actions = [
        json.loads(line)["actions"] for line in next((tmp_path / "run").rglob("command*.jsonl")).read_text().splitlines()[1:]
    ]
    assert [json.loads(one)["arguments"] for (one,) in actions] == [{"answer": "it is 42"}] * 2
    assert all(row["tokens"] > 0 for row in mine)


ATTACKS = {
    "exits with an error": ("sys.exit('cannot go on')", "exit status 1: cannot go on"),
    "kills itself": ("os.kill(os.getpid(), 9)", "the command was killed by signal 9"),
    "never ends": ("import time\ntime.sleep(60)", "did not end within 0.8 s"),
    "asks for ever": ("while True: post(model, {'messages': [{'role': 'user', 'content': 'hm'}]})", ""),
    "claims tokens": (
        "post(tools + '/no_such', {'usage': {'input_tokens': 0}, 'name': 'finish'})\nprint('done')",
        "",
    ),
    "guesses an address": (
        "try: post(model.replace('/v1', 'x/v1'), {'messages': []})\nexcept Exception as error: sys.exit(str(error))",
        "HTTP Error 404",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_ends_in_its_own_episode(tmp_path: Path, attack: str) -> None:
    text, reason = ATTACKS[attack]
    limit = "0.8" if attack == "never ends" else "30"
    done, mine = rank(tmp_path, PLAIN + text, "--beside", "", "--time-limit", limit, "--budget", "price=5", episodes=1)
    assert done.exit_code == 0, done.output
    (episode,) = mine
    assert not episode["strict"] and reason in episode.get("crash", "") and not episode["void"]
    if attack == "asks for ever":
        assert episode["tokens"] > 300 and "crash" not in episode  # paid for every request until the episode was cut
    if attack == "claims tokens":
        assert episode["errors"]["agent"] == 1 and episode["tokens"] > 0
    assert verify(tmp_path / "run").verified


@pytest.mark.skipif(bool(why_not_isolated()), reason="bubblewrap cannot be used here")
def test_an_isolated_command_reaches_no_other_address_and_sees_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-secret")
    other = Server()
    port = other.url.split(":")[2].partition("/")[0]
    text = f"""
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), 2)
    seen = "reached"
except OSError as error:
    seen = type(error).__name__
print(seen, os.environ.get("MY_API_KEY"), os.environ["OPENAI_API_KEY"])
"""
    _, (episode,) = rank(tmp_path, PLAIN + text, "--beside", "", episodes=1)
    other.close()
    ((action,),) = actions(tmp_path)
    assert json.loads(action)["arguments"]["answer"] == "ConnectionRefusedError None costgym" and episode["calls"] == 0


def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    words = ["rank", "--episodes", "4", "--concurrency", "2", "--beside", "", "--quiet", "--out"]
    agent = script(tmp_path, "import time\ntime.sleep(0.2)\n" + LOOP)
    command = [sys.executable, "-m", "costgym", *words, str(tmp_path / "part"), "--", *agent]
    part = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    episodes = tmp_path / "part" / "episodes.jsonl"
    while not episodes.is_file() or not episodes.read_text().count("\n"):
        time.sleep(0.02)
    part.send_signal(signal.SIGKILL)
    part.wait()
    assert episodes.read_text().count("\n") < 4
    for name in ("part", "whole"):
        assert invoke(*words, tmp_path / name, "--", *agent).exit_code == 0
    for name in ("episodes.jsonl", "leaderboard.json", "run.json"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    left = subprocess.run(["pgrep", "-f", agent[1]], capture_output=True, text=True, check=False).stdout
    assert not left  # the killed run's commands died with it


# -- the endpoint ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def address() -> Any:
    """The address of an episode whose model answers every request with a thought and two calls."""
    desk, seen = Desk(), list[Any]()
    desk.functions = [Function("map", "d", {"type": "object"}), FINISH]
    desk.prices = {"map": 2.5}
    token = endpoint().open(desk)

    def answer() -> None:
        while (request := desk.take(time.monotonic() + 5)) is not None:
            if isinstance(request, ModelRequest):
                seen.append(request.ask)
                calls = (FunctionCall("map", {"city": "Lille"}, "c1"), FunctionCall("finish", '{"answer": "7"}', "c2"))
                usage = Usage(100, 30, 64, cache_write_tokens=26, reasoning_tokens=5)
                request.answer.set_result(Reply(Message(ASSISTANT, "I look.", calls), usage))
            elif isinstance(request, ToolRequest):
                request.answer.set_result(ToolAnswer(f"{request.name} {dict(request.arguments)}", False, {"status": "ok"}))

    threading.Thread(target=answer, daemon=True).start()
    variables = endpoint().variables(token)
    yield variables, seen
    desk.end("the episode has ended")
    endpoint().close(token)


TOOLS = [{"type": "function", "function": {"name": "map", "description": "d", "parameters": {"type": "object"}}}]


CALL = {"id": "c0", "type": "function", "function": {"name": "map", "arguments": "{}"}}
THOUGHT, USE = {"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "c0", "name": "map", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c0", "content": [{"type": "text", "text": "r"}]}


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions_and_responses_as_the_sdk_reads_them(address: Any, stream: bool) -> None:
    openai = pytest.importorskip("openai")
    variables, seen = address
    client = openai.OpenAI(base_url=variables["OPENAI_BASE_URL"], api_key="costgym", max_retries=0)
    history = [
        {"role": "developer", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c0", "content": "r"},
    ]  # fmt: skip
    reply: Any = client.chat.completions.create(model="any", messages=history, tools=TOOLS, stream=stream)
    if stream:
        pieces = list(reply)
        calls = [call for piece in pieces for choice in piece.choices for call in choice.delta.tool_calls or ()]
        content, usage = pieces[0].choices[0].delta.content, pieces[-1].usage
    else:
        calls, content, usage = reply.choices[0].message.tool_calls, reply.choices[0].message.content, reply.usage
    assert [(call.id, call.function.name, json.loads(call.function.arguments)) for call in calls] == [
        ("c1", "map", {"city": "Lille"}), ("c2", "finish", {"answer": "7"}),
    ]  # fmt: skip
    assert content == "I look." and (usage.prompt_tokens, usage.completion_tokens) == (100, 30)
    assert usage.prompt_tokens_details.cached_tokens == 64 and usage.completion_tokens_details.reasoning_tokens == 5
    items: list[Any] = [
        {"role": "user", "content": "q"}, {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c0", "name": "map", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c0", "output": "r"},
    ]  # fmt: skip
    flat = [{"type": "function", **TOOLS[0]["function"]}]  # type: ignore[dict-item]
    answer: Any = client.responses.create(model="any", instructions="s", input=items, tools=flat, stream=stream)
    if stream:
        events = list(answer)
        assert [event.sequence_number for event in events] == list(range(len(events)))
        answer = events[-1].response
    assert [item.type for item in answer.output] == ["message", "function_call", "function_call"]
    assert answer.output_text == "I look." and answer.usage.input_tokens_details.cached_tokens == 64
    roles = [[(message.role, message.content, message.name) for message in ask.messages] for ask in seen]
    assert roles == [[("system", "s", ""), (USER, "q", ""), (ASSISTANT, "", ""), (TOOL, "r", "map")]] * 2
    assert [[function.document() for function in ask.functions] for ask in seen] == [TOOLS] * 2


def test_messages_leave_cached_tokens_out_of_the_input_and_stream_the_same(address: Any) -> None:
    variables, seen = address
    body = {
        "model": "any", "max_tokens": 9, "system": [{"type": "text", "text": "s"}],
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [THOUGHT, USE]},
            {"role": "user", "content": [RESULT]},
        ],
        "tools": [{"name": "map", "description": "d", "input_schema": {"type": "object"}}],
    }  # fmt: skip
    whole = json.loads(post(variables["ANTHROPIC_BASE_URL"] + "/v1/messages", body))
    assert whole["usage"] == {
        "input_tokens": 10, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 26, "output_tokens": 30,
    }  # fmt: skip
    assert [block["type"] for block in whole["content"]] == ["text", "tool_use", "tool_use"]
    streamed = post(variables["ANTHROPIC_BASE_URL"] + "/v1/messages", {**body, "stream": True})
    events = [json.loads(line.removeprefix("data: ")) for line in streamed.splitlines() if line.startswith("data: ")]
    parts = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert [part.get("text") or json.loads(part["partial_json"]) for part in parts] == [
        "I look.",
        {"city": "Lille"},
        {"answer": "7"},
    ]
    assert [(m.role, m.content, m.name) for m in seen[0].messages] == [
        ("system", "s", ""), (USER, "q", ""), (ASSISTANT, "", ""), (TOOL, "r", "map"),
    ]  # fmt: skip


def post(url: str, body: Any) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.read().decode())


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("v1/chat/completions", [], "expected a JSON object"),
        ("v1/chat/completions", {"messages": 3}, "messages: expected a list"),
        ("v1/chat/completions", {"messages": [{"role": "king"}]}, "expected system"),
        (
            "v1/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "only texts can be passed on",
        ),
        ("v1/responses", {"input": "q", "previous_response_id": "resp_1"}, "send the whole conversation"),
        ("v1/responses", {"input": [{"type": "computer_call"}]}, "expected a message, a function_call"),
        ("v1/messages", {"messages": [{"role": "system", "content": "s"}]}, "expected a message of the user"),
    ],
)
def test_a_request_that_no_dialect_allows_is_refused_in_a_sentence(address: Any, path: str, body: Any, words: str) -> None:
    variables, seen = address
    assert words in post(f"{variables['ANTHROPIC_BASE_URL']}/{path}", body)
    assert not seen


def test_tools_over_mcp_are_those_over_http_and_an_ended_episode_has_a_last_word(address: Any) -> None:
    import anyio
    from mcp.client.session import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    variables, _ = address
    stdio = StdioServerParameters(
        command=sys.executable, args=[str(EXAMPLES / "mcp_stdio.py")], env={**os.environ, **variables}
    )

    async def play(server: Any) -> tuple[list[str], Any]:
        async with server as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            tools = await session.list_tools()
            return [tool.name for tool in tools.tools], await session.call_tool("map", {"city": "Lille"})

    listed = json.loads(urllib.request.urlopen(variables["COSTGYM_TOOLS_URL"]).read())
    assert [document.get("price") for document in listed] == [2.5, None]
    for server in (streamable_http_client(variables["COSTGYM_MCP_URL"]), stdio_client(stdio)):
        names, result = anyio.run(play, server)
        assert names == [document["function"]["name"] for document in listed] == ["map", "finish"]
        assert result.content[0].text == "map {'city': 'Lille'}"
    assert json.loads(post(variables["COSTGYM_TOOLS_URL"] + "/map", {"city": "Lille"})) == {
        "content": "map {'city': 'Lille'}", "is_error": False, "status": "ok",
    }  # fmt: skip


def test_a_spend_limit_ends_a_run_that_goes_on_with_a_higher_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    server.answers = lambda request: wire_reply("", ("finish", {"answer": "?"}), prompt=100_000, completion=1000)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    model = ("--model", "openai:gpt-4o-mini", "--beside", "")
    done, _ = rank(tmp_path, LOOP, *model, "--spend-limit", "0.02", episodes=3)
    assert done.exit_code == 3 and "spend limit" in done.output.lower() + done.stderr.lower()
    count = len(server.requests)
    done, mine = rank(tmp_path, LOOP, *model, "--spend-limit", "5", episodes=3)
    assert done.exit_code == 0 and len(mine) == 3
    assert count < len(server.requests) <= 3 + 1  # no reply was paid for twice
    server.close()


NEEDED = {"langgraph_agent": "langchain_mcp_adapters", "openai_agents": "agents.mcp", "pydantic_agent": "pydantic_ai"}


@pytest.mark.parametrize("file", ["curl.sh", "langgraph_agent.py", "openai_agents.py", "pydantic_agent.py"])
def test_an_example_of_at_most_forty_lines_plays_the_task(tmp_path: Path, file: str) -> None:
    assert len((EXAMPLES / file).read_text().splitlines()) <= 40
    name, _, kind = file.partition(".")
    if kind == "sh" and not all(map(shutil.which, ("curl", "jq"))):
        pytest.skip("curl and jq are not installed")
    python = os.environ.get(f"COSTGYM_PYTHON_OF_{name.upper()}", sys.executable)
    if kind == "py" and subprocess.run([python, "-c", f"import {NEEDED[name]}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{NEEDED[name]} is not installed; COSTGYM_PYTHON_OF_{name.upper()} may name an interpreter that has it")
    words = ["sh" if kind == "sh" else python, str(EXAMPLES / file)]
    done = invoke("rank", "--episodes", "1", "--beside", "", "--quiet", "--out", str(tmp_path / "run"), "--", *words)
    (episode,) = map(json.loads, (tmp_path / "run" / "episodes.jsonl").read_text().splitlines())
    assert done.exit_code == 0 and "crash" not in episode
    assert episode["calls"] == 3 and episode["figures"]["requests"] == 4 and verify(tmp_path / "run").verified


def test_options_of_a_request_go_to_the_server_and_a_request_that_it_refuses_is_the_agents_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    bad = (400, json.dumps({"error": {"message": "response_format: unknown"}}), {"Content-Type": "application/json"})
    server.answers = lambda request: bad if "response_format" in request else wire_reply("it is 42")
    task = "request = {'messages': [{'role': 'user', 'content': os.environ['COSTGYM_TASK']}]}\n"
    plain = "post(model, {**request, 'temperature': 0.7, 'max_completion_tokens': 9, 'n': 2})"
    odd = "post(model, {**request, 'response_format': {'type': 'odd'}})"
    for number, (last, crashed) in enumerate(((plain, False), (odd, True))):
        (tmp_path / str(number)).mkdir()
        done, mine = rank(tmp_path / str(number), PLAIN + task + last, "--model", "openai:tiny", "--beside", "", episodes=2)
        assert done.exit_code == 0 and [bool(row.get("crash")) for row in mine] == [crashed] * 2
    assert "refused its request" in mine[0]["crash"] and "http:" not in mine[0]["crash"]
    first = server.requests[0]
    assert (first["temperature"], first["max_tokens"]) == (0.7, 9) and "n" not in first and first["model"] == "tiny"
    server.close()
