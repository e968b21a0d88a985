"""`costgym doctor`: the settings that a server needs, in at most five requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.models.named import read_model_name
from tests.helpers.command_line import invoke
from tests.helpers.model_server import wire_reply

BOTH = wire_reply("", ("get_weather", {"station": "OS-7714"}), ("get_time", {}))
XML = wire_reply("<tool_call><function=get_time></function></tool_call>")


def refusal(text: str, status: int = 400) -> Any:
    return status, json.dumps({"error": {"message": text}}), {"Content-Type": "application/json"}


def stream(request: dict[str, Any]) -> Any:
    if not request.get("stream"):
        return refusal("only stream mode is supported")
    delta = {"content": None, "tool_calls": [{"index": 0, "id": "c", "function": {"name": "get_time", "arguments": "{}"}}]}
    return 200, f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n", {"Content-Type": "text/event-stream"}


SERVERS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "plain": (lambda request: BOTH, {}, {"calls": "native", "usage": "reported", "parallel_calls": True, "requests": 4}),
    "xml": (lambda request: XML, {}, {"calls": "xml", "parallel_calls": False}),
    "no seed": (
        lambda request: refusal("unknown field: seed") if "seed" in request else BOTH,
        {"send_seed": False},
        {"seed": "refused", "requests": 5},
    ),
    "long names": (
        lambda request: refusal("Use 'max_completion_tokens' instead") if "max_tokens" in request else BOTH,
        {"max_completion_tokens": 1024},
        {},
    ),
    "no system": (
        lambda request: refusal("System role not supported", 500) if request["messages"][0]["role"] == "system" else BOTH,
        {"system": "user"},
        {"usable": True},
    ),
    "stream": (stream, {"stream": True}, {"stream": "only", "usage": "estimated", "calls": "native"}),
    "no tools": (lambda request: refusal("tiny does not support tools"), {}, {"usable": False, "requests": 1}),
    "silent": (lambda request: wire_reply("I cannot."), {}, {"usable": False, "calls": "none"}),
}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_is_told_apart_in_at_most_five_requests(server: Any, tmp_path: Path, kind: str) -> None:
    server.answers, settings, wanted = SERVERS[kind]
    done = invoke("doctor", "--model", "openai:tiny", "--json", tmp_path / "found.json", "--out", tmp_path / "models.yaml")
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["settings"] == settings and document["requests"] <= 5 and {key: document[key] for key in wanted} == wanted
    assert done.exit_code == (0 if document["usable"] else 1)
    assert bool(document["problems"]) == (not document["usable"]) == ("problem: " in done.stderr)
    if document["usable"]:
        read = read_model_name(f"{tmp_path / 'models.yaml'}:tiny")
        assert read is not None and (read.model, read.settings) == ("tiny", settings)


def test_only_a_model_behind_a_server_is_asked() -> None:
    assert invoke("doctor", "--model", "simulated").stderr.startswith("error: --model: expected openai:NAME")
