"""Calls in the forms that models and servers write, and what is said of those that are not read."""

import json
from typing import Any

import pytest

from costgym.agents.models.base import FINISH, UNREAD, USER, Function, FunctionCall, Message
from costgym.agents.models.call_forms import read_arguments, read_calls
from costgym.agents.models.openai import OpenAIModel, chat_messages
from costgym.agents.models.replies import read_reply
from costgym.agents.models.usage import read_server_usage
from costgym.simulators.errors import ConfigError, InfrastructureError
from tests.helpers.model_server import Server, wire_reply

CITY = {"city": {"type": "string"}, "days": {"type": "integer"}}
MAP = Function("map", "Shows a map.", {"type": "object", "properties": CITY, "required": ["city"]})

CALL = (FunctionCall("map", {"city": "Lille"}),)
CUT_OFF = FunctionCall("", '{"name": "ma')


@pytest.mark.parametrize(
    "text,content,calls",
    [
        ('<tool_call>\n{"name": "map", "arguments": {"city": "Lille"}}\n</tool_call>', "", CALL),
        ('<think>hm</think>So: <tool_call>{"name": "map", "arguments": {"city": "Lille"}}', "So:", CALL),
        ('ok [TOOL_CALLS] [{"name": "map", "arguments": {"city": "Lille"}}]', "ok", CALL),
        ('{"name": "map", "parameters": {"city": "Lille"}}', "", CALL),
        ('```json\n{"function": {"name": "map", "arguments": {"city": "Lille"}}}\n```', "", CALL),
        ('<|python_tag|>{"type": "function", "name": "map", "parameters": {"city": "Lille"}}', "", CALL),
        ('{"name": "map", "arguments": {"city": "Lille"}}\n{"name": "map", "arguments": {"city": "Lille"}}', "", CALL * 2),
        ('```json\n{"name": "map", "arguments": {"city": "Lille"}}\n```\n\n```json\n{"name": "ma', "", (*CALL, CUT_OFF)),
        ('{"name": "finish", "answer": "7"}', "", (FunctionCall("finish", {"answer": "7"}),)),
        ('<tool_call>{"name": "map", "city": "Lille"}</tool_call>', "", CALL),
        ('{"name": "Lille", "people": 236710}', '{"name": "Lille", "people": 236710}', ()),
        ('{"name": "map", "arguments": {"city": "Lil', '{"name": "map", "arguments": {"city": "Lil', ()),
        ("<tool_call>{broken</tool_call>", "", (FunctionCall("", "{broken"),)),
        ("<tool_call>[3]</tool_call>", "", (FunctionCall("", "{}"),)),
        ('{"answer": 3}', '{"answer": 3}', ()),
        ("The answer is 3.", "The answer is 3.", ()),
        ("<think>never ends", "", ()),
        ("", "", ()),
    ],
)
def test_calls_are_read_in_the_forms_that_models_write(text, content, calls):
    assert read_calls(text)[:2] == read_calls(text, lenient=True)[:2] == (content, calls)


def test_a_fence_around_a_call_in_a_text_is_no_part_of_the_text():
    text = 'I look:\n```json\n{"name": "map", "arguments": {"city": "Lille"}}\n```\nThen: {"name": "finish", "answer": "7"}'
    calls = read_calls(text, lenient=True)
    assert calls[:2] == ("I look:\n\nThen:", (*CALL, FunctionCall("finish", {"answer": "7"})))
    assert read_calls(text) == (text, (), "")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{{"name": "map", "arguments": {"city": "Lille"}}}', ""),
        ('{{"name": "map", "arguments": {"city": "Lille"}}}}\n', ""),
        ('{{"name": "map", "arguments": {"city": "Lille"}}', ""),
        ('I look:\n```json\n{{"name": "map", "arguments": {"city": "Lille"}}}\n```', "I look:"),
        ('<tool_call>\n{{"name": "map", "arguments": {"city": "Lille"}}}\n</tool_call>', ""),
        ('As in [1]: {"name": "map", "arguments": {"city": "Lille"}} [2]', "As in [1]:  [2]"),
    ],
)
def test_doubled_braces_of_a_chat_template_are_no_part_of_the_text(text, content):
    # left in the conversation, they are what a small model writes next
    assert read_calls(text, lenient=True)[:2] == (content, CALL)


WRITTEN = '{"name": "map", "arguments": {"city": "Lille", "days": 2}}'
BARE = '{"city": "Lille", "days": 2}'
FORMS = {
    "text": [
        f"<tool_call>{WRITTEN}</tool_call>",
        f"<|tool_call|>[{WRITTEN}]<|/tool_call|>",
        f"<TOOLCALL>[{WRITTEN}]</TOOLCALL>",
    ],
    "json": [
        WRITTEN,
        f"```json\n{WRITTEN}\n```",
        f'<|python_tag|>{{"type": "function", "function": {WRITTEN}}}',
        f"So: {WRITTEN}",
    ],
    "xml": [
        "<tool_call>\n<function=map>\n<parameter=city>\nLille\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
        "</function>\n</tool_call>",
        f"<function=map>{BARE}</function>",
        '<minimax:tool_call><invoke name="map"><parameter name="city">Lille</parameter>'
        '<parameter name="days">2</parameter></invoke>',
        '<｜DSML｜function_calls><｜DSML｜invoke name="map">'
        '<｜DSML｜parameter name="city" string="true">Lille</｜DSML｜parameter>'
        '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>',
    ],
    "glm": [
        "<tool_call>map\n<arg_key>city</arg_key>\n<arg_value>Lille</arg_value>\n<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>"
    ],
    "pythonic": ['[map(city="Lille", days=2)]', '<|python_start|>[map("Lille", 2)]<|python_end|>', "map(city='Lille', days=2)"],
    "mistral": [f"[TOOL_CALLS][{WRITTEN}]", f"[TOOL_CALLS]map[ARGS]{BARE}", f"[TOOL_CALLS] map{BARE}"],
    "deepseek": [
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>map<｜tool▁sep｜>{BARE}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>map\n```json\n{BARE}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ],
    "kimi": [
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.map:0<|tool_call_argument_begin|>{BARE}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    ],
    "harmony": [
        f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.map <|constrain|>json"
        f"<|message|>{BARE}<|call|>",
        f"<|start|>assistant to=functions.map<|channel|>commentary json<|message|>{BARE}<|call|>",
    ],
    "gemma": [
        "```tool_code\nprint(map(city='Lille', days=2))\n```",
        "<start_function_call>call:map{city:<escape>Lille<escape>,days:2}<end_function_call>",
        '<|tool_call>call:map{city:<|"|>Lille<|"|>,days:2}<tool_call|>',
    ],
}


def answer(finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}]}


@pytest.mark.parametrize(("form", "text"), [(form, text) for form, texts in FORMS.items() for text in texts])
def test_each_form_is_read_by_default_and_named_where_it_is_not(form: str, text: str) -> None:
    reply = read_reply(answer(content=text), [Message(USER, "q")], [MAP, FINISH])
    assert [(call.name, call.read()) for call in reply.message.calls] == [("map", {"city": "Lille", "days": 2})]
    assert (reply.form, reply.outcome, reply.notes) == (form, "", ("estimated_tokens",))
    unread = read_reply(answer(content=text), [Message(USER, "q")], [MAP, FINISH], "native")
    assert not unread.message.calls and unread.message.content == text and UNREAD[form] in unread.notes


def test_a_call_that_a_server_left_among_the_thoughts_is_read_there_and_a_thought_of_json_is_none() -> None:
    marked = answer(content="", reasoning_content=f"I should call. {FORMS['text'][0]}")
    assert read_reply(marked, (), [MAP]).message.calls[0].name == "map"
    thought = answer(content="It is 7.", reasoning_content=FORMS["text"][0])
    assert not read_reply(thought, (), [MAP]).message.calls
    assert not read_reply(answer(content=None, reasoning=f"I think of {WRITTEN}"), (), [MAP]).message.calls
    assert read_reply(answer(content="hm</think>It is 7."), (), [MAP]).message.content == "It is 7."


@pytest.mark.parametrize("name", ["functions.map", "functions.map:0", " map", "default_api.map", "map<|channel|>commentary"])
def test_a_name_with_a_prefix_is_that_of_the_function_and_other_names_are_counted(name: str) -> None:
    wire = [{"id": "c1", "function": {"name": name, "arguments": '"{\\"city\\": \\"Lille\\"}"'}}]
    reply = read_reply(answer(tool_calls=wire), (), [MAP])
    assert (reply.message.calls[0].name, reply.message.calls[0].arguments) == ("map", {"city": "Lille"})
    other = read_reply(answer(tool_calls=[{"function": {"name": "functions.nap", "arguments": "{}"}}]), (), [MAP])
    assert other.message.calls[0].name == "functions.nap" and "unknown_functions" in other.notes


def test_texts_that_hold_no_call_stay_texts_and_a_strange_mark_is_counted() -> None:
    for text in ('{"name": "Lille", "people": 7}', "[1]: map(city)", "print(3)", 'Look: {"name": "other", "arguments": {}}'):
        reply = read_reply(answer(content=text), (), [MAP])
        assert (reply.message.content, reply.message.calls, reply.notes) == (text, (), ("estimated_tokens",))
    for text in (WRITTEN, "[map(city='Lille')]"):  # where nothing is on offer, as for a plan
        assert read_reply(answer(content=text), (), ()).message.content == text
    reply = read_reply(answer(content="Action: map\nAction Input: Lille"), (), [MAP])
    assert reply.notes == (UNREAD["unknown"], "estimated_tokens")


@pytest.mark.parametrize(
    "text", ["<start_function_call>call:a{", "<tool_call>", "<function=a><parameter=b>", "[map(", "{'a':", "<arg_key>a"]
)
def test_reading_takes_time_in_proportion_to_the_text(text: str) -> None:
    assert len(read_calls(text * 20_000, lenient=True, functions=[MAP]).calls) <= 20_000
    assert isinstance(read_arguments(text * 20_000), str)


def chat(prompt: Any = 100, completion: Any = 30, **more: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}}


THOUGHT, CACHED = {"reasoning_tokens": 20}, {"cached_tokens": 64}
OF_ANTHROPIC = {"cache_read_input_tokens": 64, "cache_creation_input_tokens": 26}
OF_GEMINI = {"promptTokenCount": 100, "candidatesTokenCount": 10, "cachedContentTokenCount": 64, "thoughtsTokenCount": 20}
OF_RESPONSES = {"input_tokens": 100, "output_tokens": 30, "input_tokens_details": CACHED, "output_tokens_details": THOUGHT}
REPORTS: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "OpenAI, chat": (chat(prompt_tokens_details=CACHED, completion_tokens_details=THOUGHT), (64, 0, 20)),
    "OpenAI, responses": ({"usage": OF_RESPONSES}, (64, 0, 20)),
    "Anthropic": ({"usage": {"input_tokens": 10, "output_tokens": 30, **OF_ANTHROPIC}}, (64, 26, 0)),
    "Gemini": ({"usageMetadata": OF_GEMINI}, (64, 0, 20)),
    "llama.cpp": (chat() | {"timings": {"cache_n": 64, "prompt_n": 36}}, (64, 0, 0)),
    "llama.cpp, own": ({"tokens_evaluated": 100, "tokens_predicted": 30, "tokens_cached": 64}, (64, 0, 0)),
    "vLLM": (chat(prompt_tokens_details=None), (0, 0, 0)),
    "Ollama": ({"prompt_eval_count": 100, "eval_count": 30}, (0, 0, 0)),
    "LiteLLM": (chat(**OF_ANTHROPIC, prompt_tokens_details=CACHED), (64, 26, 0)),
    "DeepSeek": (chat(prompt_cache_hit_tokens=64), (64, 0, 0)),
    "xAI": (chat(completion=10, total_tokens=130, completion_tokens_details=THOUGHT), (0, 0, 20)),
    "as text": (chat("100", 30.0), (0, 0, 0)),
}


@pytest.mark.parametrize("vendor", REPORTS)
def test_each_vendors_counting_is_mapped_to_one(vendor: str) -> None:
    report, (cached, written, thought) = REPORTS[vendor]
    usage = read_server_usage(report)
    assert usage is not None and usage.document() == {
        "input_tokens": 100, "output_tokens": 30, "cached_tokens": cached,
        **({"cache_write_tokens": written} if written else {}), **({"reasoning_tokens": thought} if thought else {}),
    }  # fmt: skip


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": -1, "completion_tokens": 2}]
)
def test_a_report_that_cannot_be_right_is_none(usage: Any) -> None:
    assert read_server_usage({"usage": usage}) is None


# -- servers ----------------------------------------------------------------------------------------------------------------


QUESTION = [Message(USER, "q")]


def ask(server: Server, messages: list[Message] = QUESTION, **settings: Any) -> Any:
    return OpenAIModel("tiny", url=server.url, **settings).complete(messages, [MAP])


def refusal(text: str) -> Any:
    return 400, json.dumps({"error": {"message": text}}), {"Content-Type": "application/json"}


def test_a_server_that_only_streams_is_asked_for_a_stream(server: Server) -> None:
    calls = [{"id": "c1", "function": {"name": "map", "arguments": ""}}]
    calls += [{"function": {"arguments": part}} for part in ('{"city": ', '"Lille"}')]
    pieces: list[Any] = [{"role": "assistant", "content": "I "}, {"content": "look."}]
    pieces += [{"tool_calls": [{"index": 0, **call}]} for call in calls]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": piece}]} for piece in pieces]
    chunks.append({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    stream = (200, body, {"Content-Type": "text/event-stream"})
    server.answers = [refusal("This model only support stream mode"), stream, stream]
    model = OpenAIModel("tiny", url=server.url)
    for _ in range(2):
        reply = model.complete([Message(USER, "q")], [MAP])
        assert (reply.message.content, reply.message.calls[0].read(), reply.usage[:2]) == ("I look.", {"city": "Lille"}, (7, 3))
    assert [request.get("stream") for request in server.requests] == [None, True, True]


def test_a_server_that_refuses_empty_texts_gets_others_and_null_stands_beside_calls(server: Server) -> None:
    history = [
        Message(USER, "q"),
        Message("assistant", "", (FunctionCall("map", "{}", "c1"),)),
        Message("tool", "", call_id="c1"),
    ]
    assert [entry["content"] for entry in chat_messages(history)] == ["q", None, ""]
    server.answers = [refusal("text content blocks must be non-empty"), wire_reply("done")]
    assert ask(server, history).message.content == "done"
    assert [entry["content"] for entry in server.requests[1]["messages"]] == ["q", "-", "-"]


FAILED: list[Any] = [
    {"error": {"message": "Provider returned error", "code": 502}},
    {"choices": None, "error": {"message": "Upstream error", "code": "429"}},
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 0}},
    {"choices": [{"message": {"content": ""}, "finish_reason": "error", "error": {"message": "disconnected"}}]},
    answer("error", content=""),
]


@pytest.mark.parametrize("document", FAILED)
def test_a_failure_inside_of_an_answer_is_the_servers_and_is_tried_again(server: Server, document: Any) -> None:
    server.answers = [document, wire_reply("done")]
    settings = ask(server)
    assert (settings.message.content, settings.notes, len(server.requests)) == ("done", ("provider_errors",), 2)
    server.answers = [document] * 2
    with pytest.raises(InfrastructureError, match="2 tries"):
        ask(server, tries=2)


def test_a_refusal_names_the_setting_that_cures_it(server: Server) -> None:
    server.answers = [refusal("property 'seed' is unsupported")]
    with pytest.raises(ConfigError, match="add send_seed=false to the model's name"):
        ask(server)
    server.answers = [{"error": {"message": "no such model", "code": 404}}]
    with pytest.raises(ConfigError, match=r"error 404.*no such model"):
        ask(server)


def test_calls_of_one_reply_have_ids_of_their_own_and_half_a_character_is_no_argument() -> None:
    wire = [{"id": "call_0", "function": {"name": "map", "arguments": '{"city": "Lille"}'}}] * 2
    reply = read_reply({"choices": [{"message": {"tool_calls": wire}}]}, [], [MAP])
    assert [call.id for call in reply.message.calls] == ["call_0", "call_0_1"] and reply.outcome == ""
    half = [{"id": "a", "function": {"name": "map", "arguments": '{"city": "\\ud83d"}'}}]
    assert read_reply({"choices": [{"message": {"tool_calls": half}}]}, [], [MAP]).outcome == "malformed"
