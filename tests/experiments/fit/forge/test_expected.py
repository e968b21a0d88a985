"""Worlds of one's own questions with expected calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from costgym.simulators.scenario import load_scenario
from tests.helpers.command_line import invoke
from tests.helpers.specifications import content

ORDER = {"payment_id": {"type": "string"}, "total": {"type": "number"}}
FUNCTIONS = [
    {
        "name": name, "description": f"{name}.", "response": response,
        "parameters": {"type": "object", "properties": {a: {"type": "string"} for a in arguments}, "required": list(arguments)},
    }
    for name, arguments, response in (
        ("get_order", ("order_id",), {"type": "object", "properties": ORDER}),
        ("refund_payment", ("payment_id", "reason"), {}),
        ("get_weather", ("city",), {}),
    )
]  # fmt: skip
REFUND = {
    "query": "Refund order A-77.",
    "calls": [
        {"tool": "getOrder", "arguments": {"order_id": "A-77"}},
        {"tool": "refund_payment", "arguments": {"payment_id": "pay_9", "reason": "damaged"}},
    ],
}
WEATHER = {"input": "How is the weather in Oslo?", "expected_tools": [
    {"name": "get_weather", "input_parameters": {"city": "Oslo"}, "output": "4.5 degrees"}]}  # fmt: skip


def forged_queries(tmp: Path, name: str, text: str) -> Any:
    (tmp / "tools.json").write_bytes(content(FUNCTIONS))
    (tmp / name).write_text(text)
    return invoke("forge", str(tmp / "tools.json"), "--queries", str(tmp / name), "--out", str(tmp / "world.yaml"))


@pytest.mark.parametrize("name", ["q.yaml", "q.json", "q.jsonl"])
def test_questions_are_the_tasks_and_a_call_takes_what_an_earlier_one_brings(tmp_path: Path, name: str) -> None:
    questions = [REFUND, WEATHER]
    text = yaml.safe_dump(questions) if name == "q.yaml" else json.dumps(questions)
    done = forged_queries(tmp_path, name, "\n".join(map(json.dumps, questions)) if name == "q.jsonl" else text)
    assert "2 tasks of your own, 3 tools, 3 expected calls" in done.stdout and done.exit_code == 0
    assert "made up: the results of 2 calls" in done.stdout
    assert "not checked: 1 arguments that nothing states" in done.stdout and "reason of refund_payment" in done.stdout
    world = load_scenario(str(tmp_path / "world.yaml")).build()
    refund, weather = (world.tasks[number] for number in world.tasks.numbers("test"))
    order, payment = refund.needs
    assert (order.fact, order.asked, payment.arguments, payment.after) == ("pay_9", False, {"payment_id": "pay_9"}, (0,))
    assert payment.state and not payment.asked and refund.query == REFUND["query"]
    answer = json.loads(world.answers.answer(world.catalog.get("get_order"), {"order_id": "A-77"}, refund))
    assert answer["payment_id"] == "pay_9" and isinstance(answer["total"], float) and "reason" not in answer
    assert (weather.needs[0].fact, weather.needs[0].asked) == ("4.5 degrees", True)


@pytest.mark.parametrize(
    ("questions", "problem"),
    [
        ("[{query: a}]", "question 1: expected a `query` and a list of `calls`"),
        ("[{query: a, calls: [{tool: refund}]}]", "unknown tool of question 1 'refund'"),
        ("[{query: a, calls: [{tool: get_order, arguments: 3}]}]", "expected a call with `tool` and `arguments`"),
        ("[]", "is empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence_and_writes_nothing(tmp_path: Path, questions: str, problem: str) -> None:
    done = forged_queries(tmp_path, "q.yaml", questions)
    assert problem in done.stderr and done.exit_code == 2 and not (tmp_path / "world.yaml").exists()
