"""Inputs in the shapes that people reported in public, each with the value that is right.

The address names the thread, fixture or document whose shape it is; names and values are made here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.models.base import Function
from costgym.agents.models.call_forms import read_calls
from costgym.agents.models.streams import assemble
from costgym.agents.models.usage import read_server_usage
from costgym.experiments.play.call_logs.log import read_log
from costgym.simulators.calls import Usage
from costgym.simulators.forge.compose import api_document, world_document
from costgym.simulators.forge.graph import graph_of
from costgym.simulators.forge.readers.reading import read_document
from costgym.simulators.forge.requests import problem_of_task
from costgym.simulators.scenario import parse_scenario
from tests.helpers.specifications import content

TEXT, WHOLE, REAL = {"type": "string"}, {"type": "integer"}, {"type": "number"}
DATE = {"type": "string", "format": "date"}
INVOICE = {"id": TEXT, "due_date": DATE, "tax": REAL}


# -- documents that `forge` reads ------------------------------------------------------------------------------------------


def function(name: str, parameters: Any = None, result: Any = None, required: Any = None, **more: Any) -> dict[str, Any]:
    """A tool of `tools/list` with the properties of its arguments, all required unless said, and of its result."""
    schema = {
        "type": "object",
        "properties": parameters or {},
        "required": [*(parameters or {})] if required is None else required,
    }
    output = {} if result is None else {"outputSchema": {"type": "object", "properties": result}}
    return {"name": name, "description": f"{name}.", "inputSchema": schema, **output, **more}


def openapi(path: str, method: str, operation: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {"title": "Case", "version": "1"}, "paths": {path: {method: operation}}, **more}


def answer(schema: dict[str, Any], code: str = "200", kind: str = "application/json") -> dict[str, Any]:
    return {"responses": {code: {"description": "ok", "content": {kind: {"schema": schema}}}}}


def thing(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def in_path(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema or TEXT}


def body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


READ = [("record", "invoice")]
GET_INVOICE = {"operationId": "getInvoice", "parameters": [in_path("invoice_id")]}
NULLABLE = thing({"id": TEXT, "due_date": {"type": ["string", "null"], "format": "date"}})
DOCUMENTS: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "readmeio/api#690: a type that is a list with null": (
        openapi("/invoices/{invoice_id}", "get", GET_INVOICE | answer(NULLABLE)),
        READ,
    ),
    "kminami/apib2swagger#58: nullable of 3.0": (
        openapi(
            "/invoices/{invoice_id}",
            "get",
            GET_INVOICE | answer(thing({"id": TEXT, "due_date": {**DATE, "nullable": True}})),
            "3.0.0",
        ),
        READ,
    ),
    "swagger-api/swagger-parser#2125: a default of null": (
        openapi(
            "/invoices/{invoice_id}",
            "get",
            GET_INVOICE | answer(thing({**INVOICE, "labels": {"type": "array", "items": TEXT, "default": None}})),
        ),
        READ,
    ),
    "pydantic: anyOf with null": (
        [function("get_invoice", {"invoice_id": {"anyOf": [TEXT, {"type": "null"}]}}, INVOICE)],
        READ,
    ),
    "pydantic: an optional argument beside": (
        [
            function(
                "get_invoice",
                {"invoice_id": TEXT, "verbose": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}},
                INVOICE,
                ["invoice_id"],
            )
        ],
        READ,
    ),
    "koala73/worldmonitor#3677: an input schema without properties": (
        [
            function("list_invoices", None, {"invoices": {"type": "array", "items": thing({**INVOICE, "title": TEXT})}})
            | {"inputSchema": {"type": "object"}}
        ],
        [("list", "invoice")],
    ),
    "xpzouying/xiaohongshu-mcp#677: no arguments at all": (
        [
            {
                "name": "get_account_balance",
                "description": "d",
                "inputSchema": {"type": "object"},
                "outputSchema": thing({"balance": REAL}),
            }
        ],
        [("record", "account balance")],
    ),
    "PrefectHQ/fastmcp#109: a model as an argument": (
        [
            function("create_invoice", {"invoice": {"$ref": "#/$defs/Invoice"}})
            | {
                "inputSchema": {
                    "type": "object",
                    "properties": {"invoice": {"$ref": "#/$defs/Invoice"}},
                    "required": ["invoice"],
                    "$defs": {"Invoice": {**thing({"title": TEXT, "quantity": WHOLE}), "required": ["title", "quantity"]}},
                }
            }
        ],
        [("create", "invoice")],
    ),
    "ThinkInAIXYZ/go-mcp#170: required inside of a property": (
        [function("get_invoice", {"invoice_id": {"type": "string", "required": True}}, INVOICE)],
        READ,
    ),
    "junjiem/dify#18: properties that are null": (
        [function("get_account_balance", None, {"balance": REAL}) | {"inputSchema": {"type": "object", "properties": None}}],
        [("record", "account balance")],
    ),
    "ollama/ollama#17274: a name of several words": ([function("Get an invoice", {"invoice_id": TEXT}, INVOICE)], READ),
    "camel case": ([function("getInvoice", {"invoiceId": TEXT}, INVOICE)], READ),
    "a server's prefix": (
        [function(f"billing_{name}", {"invoice_id": TEXT}, INVOICE) for name in ("get_invoice", "fetch_invoice")],
        READ * 2,
    ),
    "a prefix of two underscores": ([function("mcp__billing__get_invoice", {"invoice_id": TEXT}, INVOICE)], READ),
    "dashes in a name": ([function("get-invoice", {"invoice-id": TEXT}, INVOICE)], READ),
    "a list by its name": (
        [
            function(
                "search_invoices", {"query": TEXT}, {"results": {"type": "array", "items": thing({**INVOICE, "title": TEXT})}}
            )
        ],
        [("list", "invoice")],
    ),
    "an id that is a number": ([function("get_invoice", {"invoice_id": WHOLE}, INVOICE)], READ),
    "an id with an example in its description": (
        [function("get_invoice", {"invoice_id": {"type": "string", "description": "The invoice, e.g. INV-20931"}}, INVOICE)],
        READ,
    ),
    "readOnlyHint on a name that writes": (
        [function("generate_payslip", {"employee_id": TEXT}, {"due_date": DATE}, annotations={"readOnlyHint": True})],
        [("record", "payslip")],
    ),
    "destructive by its hint": (
        [function("cancel_invoice", {"invoice_id": TEXT}, {}, annotations={"destructiveHint": True})],
        [("remove", "invoice")],
    ),
    "MCP's default is that a tool writes": ([function("archive_invoice", {"invoice_id": TEXT})], [("remove", "invoice")]),
    "the verb at the end of a path": (
        openapi(
            "/invoices/{invoice_id}/cancel",
            "post",
            {"operationId": "c", "parameters": [in_path("invoice_id")], "responses": {}},
        ),
        [("remove", "invoice")],
    ),
    "Google's custom verb": (
        openapi(
            "/v1/invoices/{invoice_id}:cancel",
            "post",
            {"operationId": "c", "parameters": [in_path("invoice_id")], "responses": {}},
        ),
        [("remove", "invoice")],
    ),
    "POST that searches": (
        openapi(
            "/invoices/search",
            "post",
            {
                "operationId": "searchInvoices",
                **body({**thing({"query": TEXT}), "required": ["query"]}),
                **answer({"type": "array", "items": thing({**INVOICE, "title": TEXT})}),
            },
        ),
        [("list", "invoice")],
    ),
    "POST that gets, as Plaid's": (
        openapi(
            "/invoices/get",
            "post",
            {
                "operationId": "invoicesGet",
                **body({**thing({"invoice_id": TEXT}), "required": ["invoice_id"]}),
                **answer(thing(INVOICE)),
            },
        ),
        READ,
    ),
    "PATCH with one optional field": (
        openapi(
            "/invoices/{invoice_id}",
            "patch",
            {
                "operationId": "u",
                "parameters": [in_path("invoice_id")],
                **body(thing({"email": {"type": "string", "format": "email"}})),
                **answer(thing(INVOICE)),
            },
        ),
        [("change", "invoice")],
    ),
    "DELETE without a body": (
        openapi(
            "/invoices/{invoice_id}",
            "delete",
            {"operationId": "d", "parameters": [in_path("invoice_id")], "responses": {"204": {"description": "gone"}}},
        ),
        [("remove", "invoice")],
    ),
    "a wrapped response": (
        openapi("/invoices/{invoice_id}", "get", GET_INVOICE | answer(thing({"data": thing(INVOICE)}))),
        READ,
    ),
    "a media type with a suffix": (
        openapi("/invoices/{invoice_id}", "get", GET_INVOICE | answer(thing(INVOICE), "200", "application/vnd.api+json")),
        READ,
    ),
    "only a default response": (
        openapi("/invoices/{invoice_id}", "get", GET_INVOICE | answer(thing(INVOICE), "default")),
        READ,
    ),
    "201 for what was made": (
        openapi(
            "/invoices",
            "post",
            {
                "operationId": "createInvoice",
                **body({**thing({"title": TEXT}), "required": ["title"]}),
                **answer(thing(INVOICE), "201"),
            },
        ),
        [("create", "invoice")],
    ),
    "a reference for a parameter": (
        openapi(
            "/invoices/{invoice_id}",
            "get",
            {"operationId": "g", "parameters": [{"$ref": "#/components/parameters/I"}], **answer(thing(INVOICE))},
            components={"parameters": {"I": in_path("invoice_id")}},
        ),
        READ,
    ),
    "oneOf with one object": (
        openapi("/invoices/{invoice_id}", "get", GET_INVOICE | answer({"oneOf": [{"type": "null"}, thing(INVOICE)]})),
        READ,
    ),
    "JSON lines of functions": (
        "\n".join(json.dumps(function(name, {"invoice_id": TEXT}, INVOICE)) for name in ("get_invoice", "read_invoice")),
        READ * 2,
    ),
    "Anthropic's input_schema": (
        [
            {
                "name": "get_invoice",
                "description": "d",
                "input_schema": {**thing({"invoice_id": TEXT}), "required": ["invoice_id"]},
                "output_schema": thing(INVOICE),
            }
        ],
        READ,
    ),
    "OpenAI's wrapping": (
        [
            {
                "type": "function",
                "function": {
                    "name": "get_invoice",
                    "description": "d",
                    "parameters": {**thing({"invoice_id": TEXT}), "required": ["invoice_id"]},
                    "returns": thing(INVOICE),
                },
            }
        ],
        READ,
    ),
    "types as Python names them": (
        [
            function(
                "get_invoice",
                {"invoice_id": {"type": "str"}},
                {"due_date": {"type": "str", "format": "date"}, "tax": {"type": "float"}},
            )
        ],
        READ,
    ),
    "a list of one kind as an argument": (
        [
            function(
                "create_invoice",
                {
                    "title": TEXT,
                    "labels": {"type": "array", "items": {"type": "string", "enum": ["travel", "office", "meals"]}},
                },
            )
        ],
        [("create", "invoice")],
    ),
    "an amount with its currency": (
        [
            function(
                "create_payout",
                {
                    "amount": {
                        **thing({"value": REAL, "currency": {"type": "string", "enum": ["EUR", "USD", "GBP"]}}),
                        "required": ["value", "currency"],
                    }
                },
            )
        ],
        [("create", "payout")],
    ),
    "arithmetic is not asked for": (
        [
            function("mean", {"numbers": {"type": "array", "items": REAL}}, {"result": REAL}),
            function("get_invoice", {"invoice_id": TEXT}, INVOICE),
        ],
        READ,
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_used_as_its_author_means_it(name: str) -> None:
    document, expected = DOCUMENTS[name]
    data = document.encode() if isinstance(document, str) else content(document)
    graph = graph_of(read_document("case.json", data))  # type: ignore[arg-type]
    assert [(draft.role, draft.noun) for draft in graph.capabilities] == expected, dict(graph.unused)
    made = world_document([api_document(graph)], "case", 0)
    assert made is not None
    world = parse_scenario(made).build()
    for number in world.tasks.numbers("test")[:20]:
        assert problem_of_task(world.tasks[number]) is None


# -- calls in replies, and usage -------------------------------------------------------------------------------------------

TAGS = Function("Apply tags", "", {"type": "object", "properties": {"tags": {"type": "array"}}})
MAP = Function("map", "", {"type": "object", "properties": {"city": TEXT, "days": WHOLE}})
NOW = Function("now", "", {"type": "object", "properties": {}})
LILLE = ("map", {"city": "Lille"})
REPLIES: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "ollama/ollama#7014: args, after some words": (
        'I look.\n<tool_call>\n{"name":"map", "args": {"city":"Lille"}}\n</tool_call>',
        [LILLE],
    ),
    "ollama/ollama#17274: a name of several words": (
        '<tool_call>\n{"name": "Apply tags", "arguments": {"tags": ["a"]}}\n</tool_call>',
        [("Apply tags", {"tags": ["a"]})],
    ),
    "NousResearch/hermes-agent#87900: no arguments for none": ('{"name": "now"}', [("now", {})]),
    "NousResearch/hermes-agent#87900: calls with only spaces between": (
        '{"name": "map", "arguments": {"city": "Lille"}} {"name": "now"}',
        [LILLE, ("now", {})],
    ),
    "sgomez/ollama-ai-provider#11: several, indented": (
        '{\n  "name": "map",\n  "arguments": {\n    "city": "Lille"\n  }\n} {\n  "name": "now",\n  "arguments": {}\n}',
        [LILLE, ("now", {})],
    ),
    "nugget/thane-ai-agent#21: a list": ('[{"name": "map", "arguments": {"city": "Lille"}}]', [LILLE]),
    "jundot/omlx#1153: Llama 4's parameters": ('{"name": "map", "parameters": {"city": "Lille"}}', [LILLE]),
    "TGI #2461: arguments under an alias": ('{"function": {"_name": "map", "city": "Lille"}}', [LILLE]),
    "a fence named tool_call": ('```tool_call\n{"name": "map", "arguments": {"city": "Lille"}}\n```', [LILLE]),
    "an argument of another type": (
        "<tool_call>\n<function=map>\n<parameter=city>\nLille\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        [("map", {"city": "Lille", "days": 3})],
    ),
    "prose with JSON in it is no call": ('Such as {"name": "Lille", "people": 236710}.', []),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_call_in_a_reply_is_read(name: str) -> None:
    text, expected = REPLIES[name]
    calls = read_calls(text, lenient=True, functions=(TAGS, MAP, NOW), known_only=True)[1]
    assert [(call.name, call.read()) for call in calls] == expected


USAGES: dict[str, tuple[dict[str, Any], Usage]] = {
    "BerriAI/litellm#6215: cached tokens are part of the prompt": (
        {"prompt_tokens": 2006, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 1920}},
        Usage(2006, 300, 1920),
    ),
    "HybridAIOne/hybridclaw#1516: writes beside the cached ones": (
        {
            "prompt_tokens": 2600,
            "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 400},
        },
        Usage(2600, 9, 2000, cache_write_tokens=400),
    ),
    "BerriAI/litellm#28009: creation tokens beside them": (
        {
            "prompt_tokens": 2600,
            "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 2000, "cache_creation_tokens": 400},
        },
        Usage(2600, 9, 2000, cache_write_tokens=400),
    ),
    "Portkey-AI/gateway#1754: Anthropic's input leaves the cache out": (
        {"input_tokens": 10, "output_tokens": 9, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30},
        Usage(100, 9, 60, cache_write_tokens=30),
    ),
    "details that are null": (
        {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": None, "completion_tokens_details": None},
        Usage(7, 3),
    ),
    "cached tokens that are null": (
        {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": None}},
        Usage(7, 3),
    ),
    "cached tokens at the top": ({"prompt_tokens": 70, "completion_tokens": 3, "cached_tokens": 64}, Usage(70, 3, 64)),
    "DeepSeek's hits": (
        {"prompt_tokens": 70, "completion_tokens": 3, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 6},
        Usage(70, 3, 64),
    ),
    "2389-research/tracker#545: thoughts are part of the output": (
        {"prompt_tokens": 7, "completion_tokens": 30, "completion_tokens_details": {"reasoning_tokens": 20}},
        Usage(7, 30, reasoning_tokens=20),
    ),
    "responses": ({"input_tokens": 70, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 64}}, Usage(70, 3, 64)),
    "numbers that are floats": ({"prompt_tokens": 7.0, "completion_tokens": 3.0}, Usage(7, 3)),
}


@pytest.mark.parametrize("name", USAGES)
def test_the_classes_of_tokens_are_a_vendors(name: str) -> None:
    reported, expected = USAGES[name]
    assert read_server_usage({"usage": reported}) == expected


def chunk(**delta: Any) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]})


def part(index: int | None, **call: Any) -> dict[str, Any]:
    return {**({} if index is None else {"index": index}), "function": call}


STREAMS: dict[str, tuple[list[str], list[tuple[str, str]]]] = {
    "arguments in pieces": (
        [chunk(tool_calls=[part(0, name="map", arguments='{"city":')]), chunk(tool_calls=[part(0, arguments='"Lille"}')])],
        [("map", '{"city":"Lille"}')],
    ),
    "two calls, one after the other": (
        [chunk(tool_calls=[part(0, name="map", arguments="{}")]), chunk(tool_calls=[part(1, name="now", arguments="{}")])],
        [("map", "{}"), ("now", "{}")],
    ),
    "whole calls without an index": (
        [
            chunk(tool_calls=[part(None, name="map", arguments="{}")]),
            chunk(tool_calls=[part(None, name="now", arguments="{}")]),
        ],
        [("map", "{}"), ("now", "{}")],
    ),
    "a name again in each piece": (
        [
            chunk(tool_calls=[part(0, name="map", arguments='{"city":')]),
            chunk(tool_calls=[part(0, name="map", arguments='"Lille"}')]),
        ],
        [("map", '{"city":"Lille"}')],
    ),
    "deltas that are null, comments, no last line": (
        [": keep-alive", chunk(content=None, tool_calls=None), chunk(tool_calls=[part(0, name="map", arguments="{}")])],
        [("map", "{}")],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_the_reply_that_it_is_in_pieces(name: str) -> None:
    lines, expected = STREAMS[name]
    message = assemble("\n\n".join(lines).encode())["choices"][0]["message"]
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]] == expected


# -- logs ------------------------------------------------------------------------------------------------------------------


def span(name: str = "execute_tool map", **attributes: Any) -> dict[str, Any]:
    about = {key.replace("__", "."): value for key, value in attributes.items()}
    times = {"start_time": "2026-03-01T09:00:00Z", "end_time": "2026-03-01T09:00:02Z"}
    return {"name": name, "context": {"trace_id": "t", "span_id": "s"}, **times, "attributes": about}


TOOL = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "map"}
EVENTS = [
    {"name": "gen_ai.tool.message", "attributes": {"content": '{"city": "Lille"}'}},
    {"name": "gen_ai.choice", "attributes": {"message": "rainy"}},
]
OTLP_EVENTS = [
    {
        "name": event["name"],
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in event["attributes"].items()],
    }  # type: ignore[attr-defined]
    for event in EVENTS
]
OTLP_SPAN = {
    "name": "execute_tool map",
    "traceId": "t",
    "spanId": "s",
    "startTimeUnixNano": "1000000000",
    "endTimeUnixNano": "3000000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
        {"key": "gen_ai.tool.name", "value": {"stringValue": "map"}},
    ],
    "events": OTLP_EVENTS,
}
LOGS: dict[str, tuple[Any, tuple[str, str, float | None, Any, Any]]] = {
    "semantic conventions": (
        span(**TOOL, gen_ai__tool__call__arguments='{"city": "Lille"}', gen_ai__tool__call__result="rainy"),
        ("map", "ok", 2.0, '{"city": "Lille"}', "rainy"),
    ),
    "kagent-dev/kagent#2734: under the names of ADK": (
        span(**TOOL, gcp__vertex__agent__tool_call_args='{"city": "Lille"}', gcp__vertex__agent__tool_response="rainy"),
        ("map", "ok", 2.0, '{"city": "Lille"}', "rainy"),
    ),
    "opensearch-project/agent-health#319: in events of the span": (
        span(**TOOL) | {"events": EVENTS},
        ("map", "ok", 2.0, '{"city": "Lille"}', "rainy"),
    ),
    "the same in OTLP": (
        {"resourceSpans": [{"scopeSpans": [{"spans": [OTLP_SPAN]}]}]},
        ("map", "ok", 2.0, '{"city": "Lille"}', "rainy"),
    ),
    "kagent-dev/kagent#2734: a result that says isError": (
        span(**TOOL, gen_ai__tool__call__result={"isError": True, "content": []}),
        ("map", "error", 2.0, None, {"isError": True, "content": []}),
    ),
    "an error type": (span(**TOOL, error__type="TimeoutError"), ("map", "timeout", 2.0, None, None)),
    "an HTTP status": (
        span(**TOOL, error__type="429", http__response__status_code=429),
        ("map", "rate_limited", 2.0, None, None),
    ),
    "MCP": (span("tools/call map", mcp__method__name="tools/call", mcp__tool__name="map"), ("map", "ok", 2.0, None, None)),
    "a name with its prefix alone": (
        span("execute_tool map", gen_ai__operation__name="execute_tool"),
        ("map", "ok", 2.0, None, None),
    ),
    "OpenInference": (
        span("map", openinference__span__kind="TOOL", tool__name="map", input__value="Lille", output__value="rainy"),
        ("map", "ok", 2.0, "Lille", "rainy"),
    ),
    "Traceloop": (
        span("map.tool", traceloop__span__kind="tool", traceloop__entity__name="map"),
        ("map", "ok", 2.0, None, None),
    ),
    "Vercel": (
        span("ai.toolCall", ai__operationId="ai.toolCall", ai__toolCall__name="map", ai__toolCall__args="{}"),
        ("map", "ok", 2.0, "{}", None),
    ),
    "Langfuse": (
        {
            "id": "o",
            "type": "TOOL",
            "name": "map",
            "traceId": "t",
            "startTime": "2026-03-01T09:00:00Z",
            "endTime": "2026-03-01T09:00:02Z",
            "level": "ERROR",
            "statusMessage": "timed out",
        },
        ("map", "timeout", 2.0, None, None),
    ),
    "LangSmith": (
        {
            "id": "r",
            "run_type": "tool",
            "name": "map",
            "trace_id": "t",
            "start_time": "2026-03-01T09:00:00",
            "end_time": "2026-03-01T09:00:02",
            "error": None,
            "inputs": {"input": "Lille"},
        },
        ("map", "ok", 2.0, {"input": "Lille"}, None),
    ),
    "OpenAI's Agents SDK": (
        {
            "id": "s",
            "trace_id": "t",
            "started_at": "2026-03-01T09:00:00Z",
            "ended_at": "2026-03-01T09:00:02Z",
            "span_data": {"type": "function", "name": "map", "input": "{}"},
        },
        ("map", "ok", 2.0, "{}", None),
    ),
    "milliseconds since 1970": (
        {"tool": "map", "started": 1772355600, "latency_s": 2, "status": "ok"},
        ("map", "ok", 2.0, None, None),
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_call_of_a_log_has_its_tool_its_end_and_what_went_in_and_out(tmp_path: Path, name: str) -> None:
    record, expected = LOGS[name]
    (tmp_path / "log.jsonl").write_text(json.dumps(record) + "\n")
    (call,) = read_log(tmp_path / "log.jsonl").calls
    label = call.status.label if call.status.label in ("ok", "timeout", "rate_limited") else "error"
    assert (call.tool, label, call.latency_s, call.arguments, call.result) == expected


def test_there_are_more_than_sixty_cases() -> None:
    assert sum(map(len, (DOCUMENTS, REPLIES, USAGES, STREAMS, LOGS))) > 60
