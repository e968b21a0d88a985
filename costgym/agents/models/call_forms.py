"""Read the calls in the text of a reply, in the forms that open models write.

Servers are meant to move a model's calls into the API's own field. Where the server has no parser for the model, the call stays
in the text as the model's chat template has it. A text is data: nothing in it is evaluated.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from costgym.agents.models.base import Function, FunctionCall
from costgym.envs.actions import FINISH

MAX_TEXT = 400_000  # characters of a reply in which calls are looked for
MAX_SHOWN = 2000  # characters of a call that cannot be read

_ARGUMENTS = ("arguments", "parameters")
_SHORTER = {"args", "params", "input"}  # other names of the arguments, where nothing else stands beside them
_TAG_NAMES = r"tool_calls?|function_calls?|toolcall|minimax:tool_call|｜DSML｜function_calls"
_TAGS = re.compile(
    rf"<(?P<tag>{_TAG_NAMES})>(?P<body>.*?)(?:</(?P=tag)>|\Z)"
    r"|<\|tool_call\|>(?P<granite>.*?)(?:<\|/tool_call\|>|\Z)"
    r"|<\|python_start\|>(?P<llama4>.*?)(?:<\|python_end\|>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_XML_CALL = re.compile(
    r"<(?:｜DSML｜)?(?:function=|invoke name=)\"?(?P<name>[^\">\s]{1,200})\"?\s*>(?P<body>.*?)"
    r"(?:</(?:｜DSML｜)?(?:function|invoke)>|\Z)",
    re.DOTALL,
)
_XML_ARGUMENT = re.compile(
    r"<(?:｜DSML｜)?parameter(?:=| name=)\"?(?P<name>[^\">\s]{1,200})\"?[^>]{0,100}>\n?(?P<value>.*?)\n?"
    r"(?:</(?:｜DSML｜)?parameter>|(?=<parameter)|\Z)",
    re.DOTALL,
)
_NAME_IN_TAG = re.compile(r"<function>\s*(?P<name>[\w.:-]{1,200})\s*</function>(?P<arguments>.*)\Z", re.DOTALL)
_FENCED = re.compile(r"```(?:json)?\s*(?P<body>.*?)\s*```\Z", re.DOTALL)
_RESIDUE = re.compile(r"[\s}\]\"']*(?:</?[\w|:]{1,40}>)?\s*")  # what models write behind arguments that have ended
_GLM_ARGUMENT = re.compile(
    r"<arg_key>(?P<name>[^<]{1,200})</arg_key>\s*<arg_value>(?P<value>.*?)(?:</arg_value>|\Z)", re.DOTALL
)
_MISTRAL = re.compile(r"\[TOOL_CALLS\]\s*(?P<body>.*?)(?=\[TOOL_CALLS\]|\Z)", re.DOTALL)
_MISTRAL_NAMED = re.compile(r"(?P<name>[\w.:-]{1,200})\s*(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*(?P<arguments>\{.*)\Z", re.DOTALL)
_HARMONY = re.compile(
    r"(?:<\|start\|>)?[^<|]{0,200}<\|channel\|>(?P<head>[^<]{0,200}(?:<\|constrain\|>[^<]{0,50})?)"
    r"<\|message\|>(?P<body>.*?)(?:<\|call\|>|<\|end\|>|<\|return\|>|(?=<\|start\|>|<\|channel\|>)|\Z)",
    re.DOTALL,
)
_HARMONY_TO = re.compile(r"to=([\w.:-]{1,200})")
_SECTION = re.compile(r"<\|tool_call_begin\|>(?P<body>.*?)(?:<\|tool_call_end\|>|\Z)", re.DOTALL)  # DeepSeek and Kimi
_SECTION_MARKS = re.compile(r"<\|tool_calls(?:_section)?_(?:begin|end)\|>")
_SEPARATOR = re.compile(r"<\|tool_sep\|>|<\|tool_call_argument_begin\|>|\n")
_WIDE_MARKS = re.compile("<｜[a-z▁]{1,40}｜>")  # DeepSeek's marks, in full-width characters
_GEMMA = re.compile(
    r"```tool_code\s*\n(?P<code>.*?)(?:```|\Z)"
    r"|(?:<start_function_call>|<\|tool_call>)\s*call:(?P<name>[\w.-]{1,200})\s*\{(?P<body>.*?)"
    r"(?:\}\s*(?:<end_function_call>|<tool_call\|>)|\Z)",
    re.DOTALL,
)
_GEMMA_ARGUMENT = re.compile(
    r"(?P<name>\w{1,200}):(?:(?P<quote><escape>|<\|\"\|>)(?P<text>.*?)(?P=quote)|(?P<bare>[^,{}\[\]<]{1,2000}))", re.DOTALL
)
_START = re.compile(r"\s*(?:```(?:json)?\s*)?(?:<\|python_tag\|>)?\s*(?=[\[{])")
_BETWEEN = re.compile(r"(?:[\s,;]|```(?:json)?|<\|eom_id\|>|<\|eot_id\|>)*")  # what stands between and behind bare calls
_CLOSERS = re.compile(r"(?:\s*[}\]])*")
_EMPTY = re.compile(r"```(?:json)?\s*```")
_THOUGHT = re.compile(r"<(think|thought|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL)
_THOUGHT_END = "</think>"
_NAMESPACE = re.compile(r"\A(?:functions?|default_api|tools?|api)[.:/]")
_NAME_TAIL = re.compile(r"(?::\d+|<\|.*)\Z", re.DOTALL)
_TRACE = re.compile(
    rf"<(?:{_TAG_NAMES})\b|<function=|<invoke name=|\[TOOL_CALLS\]|to=functions\.|<\|tool_call|<start_function_call>"
    r"|<｜tool▁call|```tool_code|<\|python_tag\|>|^Action Input:",
    re.IGNORECASE | re.MULTILINE,
)
_DECODER = json.JSONDecoder()

Functions = Sequence[Function]


class Read(NamedTuple):
    """A reply's text without its calls, the calls, and their form (`agents.models.base.FORMS`)."""

    content: str
    calls: tuple[FunctionCall, ...] = ()
    form: str = ""


def read_calls(text: str, lenient: bool = False, functions: Functions = (), known_only: bool = False) -> Read:
    """Return the text and calls of a reply: calls between marks of any family of models, or bare JSON or Python.

    Args:
        lenient: A call may stand anywhere in the text, as a JSON object with a name and arguments; otherwise bare calls are all
            of the text, one or several. An object with a name and other fields than arguments is data, but for `finish`.
        functions: Those on offer: their schemas give types to arguments that are written as text.
        known_only: With `lenient`, an object inside of a text is a call only if it names one of the functions.

    >>> read_calls('I look. <tool_call>{"name": "map", "arguments": {"city": "Lille"}}</tool_call>')
    Read(content='I look.', calls=(FunctionCall(name='map', arguments={'city': 'Lille'}, id=''),), form='text')
    >>> read_calls('First: {"name": "map", "arguments": {}} and then we see.', lenient=True)
    Read(content='First:  and then we see.', calls=(FunctionCall(name='map', arguments={}, id=''),), form='json')
    >>> read_calls('<function=map><parameter=city>\\nLille\\n</parameter></function>').form
    'xml'
    >>> read_calls('[map(city="Lille")]')
    Read(content='', calls=(FunctionCall(name='map', arguments={'city': 'Lille'}, id=''),), form='pythonic')
    """
    text = without_thoughts(text[:MAX_TEXT])
    for read in _MARKED:
        if (result := read(text, functions)) is not None:
            return result
    if bare := _bare(text):
        return Read("", tuple(bare), "json")
    if python := _pythonic(text, functions):
        return Read("", tuple(python), "pythonic")
    return _anywhere(text, {function.name for function in functions} if known_only else None) if lenient else Read(text.strip())


def without_thoughts(text: str) -> str:
    """Remove what a model thinks before its reply. Some templates open the thought in the prompt, so that only its end shows.

    >>> without_thoughts("Is it 3? No.</think>It is 4."), without_thoughts("<think>hm</think>4")
    ('It is 4.', '4')
    """
    text = _THOUGHT.sub("", text)
    return text.rpartition(_THOUGHT_END)[2]


def looks_like_a_call(text: str) -> bool:
    """Return whether a text holds a mark of calls, read or not."""
    return _TRACE.search(text) is not None


def resolve_name(name: str, functions: Functions) -> str:
    """Return the function on offer that a written name stands for, without a namespace and a number; else the name as it is.

    >>> from costgym.agents.models.base import FINISH
    >>> resolve_name("functions.finish:0", [FINISH]), resolve_name("functions.map", [FINISH])
    ('finish', 'functions.map')
    """
    offered = {function.name for function in functions}
    if name in offered:
        return name
    short = _NAME_TAIL.sub("", _NAMESPACE.sub("", name.strip()))
    return short if short in offered else name


def read_arguments(text: str) -> Any:
    """Return the arguments that a text holds, as an object where it can be read as one, else the text as it is.

    Besides JSON these are read: JSON that a server encoded twice, in a fence, with closing brackets, quotes or a tag too many,
    or with line breaks and quotes escaped once too often, and a Python dictionary.

    >>> read_arguments('"{\\\\"city\\\\": \\\\"Lille\\\\"}"'), read_arguments("{'city': 'Lille'}}"), read_arguments("{city")
    ({'city': 'Lille'}, {'city': 'Lille'}, '{city')
    """
    start = text.strip()
    if not start or len(start) > MAX_TEXT:
        return text
    if fenced := _FENCED.match(start):
        start = fenced["body"]
    try:
        value, end = _DECODER.raw_decode(start)
        if isinstance(value, str) and end == len(start):
            inner = read_arguments(value) if len(value) < len(start) else value
            return inner if isinstance(inner, dict) else text
        return value if isinstance(value, dict) and _RESIDUE.fullmatch(start, end) else text
    except (ValueError, RecursionError):
        pass
    end = len(start.rstrip("} \n\t"))
    value = _literal(start[: end + 1]) if start.startswith("{") else None
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return value
    for escaped, meant in (("\\n", "\n"), ('\\"', '"')):
        if start.startswith("{") and escaped in start and isinstance(value := _json(start.replace(escaped, meant)), dict):
            return value
    return text


def _json(text: str) -> Any:
    """The value of a JSON text, in whose strings lines may break; None for any other text."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


# -- forms between marks -----------------------------------------------------------------------------------------------------


def _tagged(text: str, functions: Functions) -> Read | None:
    """Calls between tags such as ``<tool_call>``; what stands in them tells the form."""
    matches = list(_TAGS.finditer(text))
    if not matches:
        return None
    calls: list[FunctionCall] = []
    form = ""
    for match in matches:
        body = next(part for part in match.group("body", "granite", "llama4") if part is not None).strip()
        form, read = _in_a_tag(body, functions)
        calls += read
    return Read(_TAGS.sub("", text).strip(), tuple(calls), form)


def _in_a_tag(body: str, functions: Functions) -> tuple[str, list[FunctionCall]]:
    if calls := _xml_calls(body, functions):
        return "xml", calls
    if named := _NAME_IN_TAG.match(body):
        return "xml", [FunctionCall(named["name"], read_arguments(named["arguments"]))]
    name, mark, _ = body.partition("<arg_key>")
    if mark or (body and re.fullmatch(r"[\w.:-]{1,200}", body)):
        pairs = {match["name"].strip(): match["value"] for match in _GLM_ARGUMENT.finditer(body)}
        return "glm", [_typed_call(name.strip(), pairs, functions)]
    if not body.startswith(("{", "[{", "[ {", "[\n")) and (calls := _pythonic(body, functions)):
        return "pythonic", calls
    return "text", _calls_in(body)


def _xml(text: str, functions: Functions) -> Read | None:
    """Qwen3-Coder's ``<function=NAME><parameter=KEY>``, Llama 3's ``<function=NAME>{...}``, and ``<invoke name="NAME">``."""
    calls = _xml_calls(text, functions)
    return Read(_XML_CALL.sub("", text).strip(), tuple(calls), "xml") if calls else None


def _xml_calls(text: str, functions: Functions) -> list[FunctionCall]:
    calls = []
    for match in _XML_CALL.finditer(text):
        body = match["body"].strip()
        pairs = {pair["name"]: pair["value"] for pair in _XML_ARGUMENT.finditer(body)}
        if pairs or not body:
            calls.append(_typed_call(match["name"], pairs, functions))
        else:
            calls.append(FunctionCall(match["name"], read_arguments(body)))
    return calls


def _mistral(text: str, functions: Functions) -> Read | None:
    """``[TOOL_CALLS]`` before a list of JSON objects, or before each name with its arguments."""
    matches = list(_MISTRAL.finditer(text))
    if not matches:
        return None
    calls: list[FunctionCall] = []
    for match in matches:
        named = _MISTRAL_NAMED.match(match["body"])
        calls += (
            [FunctionCall(named["name"], read_arguments(named["arguments"]))] if named else _calls_in(match["body"].strip())
        )
    return Read(text[: matches[0].start()].strip(), tuple(calls), "mistral")


def _harmony(text: str, functions: Functions) -> Read | None:
    """gpt-oss' channels: calls go to a recipient, ``analysis`` is thought, ``final`` is the reply's text."""
    if "<|channel|>" not in text and "<|message|>" not in text:
        return None
    calls, content = [], ""
    for match in _HARMONY.finditer(text):
        recipient = _HARMONY_TO.search(match[0][: match.end("head") - match.start()])
        if recipient:
            calls.append(FunctionCall(recipient[1].removeprefix("functions."), read_arguments(match["body"])))
        elif match["head"].strip().startswith("final"):
            content += match["body"].strip()
    return Read(content, tuple(calls), "harmony" if calls else "")


def _sections(text: str, functions: Functions) -> Read | None:
    """DeepSeek's and Kimi's sections: a name, a separator and JSON arguments."""
    narrow = _WIDE_MARKS.sub(lambda mark: mark[0].replace("｜", "|").replace("▁", "_"), text)
    matches = list(_SECTION.finditer(narrow))
    if not matches:
        return None
    calls = []
    for match in matches:
        parts = [part.strip() for part in _SEPARATOR.split(match["body"], maxsplit=2)]
        if len(parts) > 1 and parts[0] == "function":  # DeepSeek V3 writes the type first
            parts = parts[1:]
        written = "\n".join(parts[1:]).strip().removeprefix("```json").removesuffix("```")
        calls.append(FunctionCall(parts[0], read_arguments(written)))
    form = "kimi" if "<|tool_call_argument_begin|>" in narrow else "deepseek"
    return Read(_SECTION_MARKS.sub("", _SECTION.sub("", narrow)).strip(), tuple(calls), form)


def _gemma(text: str, functions: Functions) -> Read | None:
    """Gemma's fenced ``tool_code`` and the ``call:NAME{...}`` of its function-calling models."""
    calls: list[FunctionCall] = []
    for match in _GEMMA.finditer(text):
        if match["name"] is None:
            calls += _pythonic(match["code"], functions)
            continue
        pairs = {
            pair["name"]: pair["text"] if pair["quote"] else pair["bare"].strip()
            for pair in _GEMMA_ARGUMENT.finditer(match["body"])
        }
        calls.append(_typed_call(match["name"], pairs, functions))
    return Read(_GEMMA.sub("", text).strip(), tuple(calls), "gemma") if calls else None


_MARKED: tuple[Callable[[str, Functions], Read | None], ...] = (_gemma, _tagged, _xml, _mistral, _sections, _harmony)


def _typed_call(name: str, pairs: Mapping[str, str], functions: Functions) -> FunctionCall:
    """A call whose arguments are written as text: the function's schema says which of them are not strings."""
    known = resolve_name(name, functions)
    schema = next((function.parameters for function in functions if function.name == known), {})
    properties = schema.get("properties", {})
    return FunctionCall(name, {key: _typed(value, properties.get(key)) for key, value in pairs.items()})


def _typed(value: str, schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind in (None, "string"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return {"True": True, "False": False, "None": None}.get(value.strip(), value)


# -- bare forms --------------------------------------------------------------------------------------------------------------


def _pythonic(text: str, functions: Functions) -> list[FunctionCall]:
    """The calls of a text that is Python and nothing else: a list of calls, or calls one after another."""
    source = text.strip().removeprefix("<|python_tag|>").strip()
    if "(" not in source or not source.endswith((")", "]", ";")) or len(source) > MAX_TEXT // 10:
        return []
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    calls: list[FunctionCall] = []
    for statement in body:
        value = getattr(statement, "value", None)  # of an expression or of `x = call()`
        for node in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
            call = _python_call(node, functions)
            if call is None:
                return []
            calls.append(call)
    return calls


def _python_call(node: Any, functions: Functions) -> FunctionCall | None:
    if not isinstance(node, ast.Call):
        return None
    name = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
    if name == "print" and len(node.args) == 1 and isinstance(node.args[0], ast.Call):
        return _python_call(node.args[0], functions)
    known = resolve_name(name, functions)
    schema = next((function.parameters for function in functions if function.name == known), {})
    order = [
        *schema.get("required", ()),
        *(key for key in schema.get("properties", {}) if key not in schema.get("required", ())),
    ]
    if not name or len(node.args) > len(order):
        return None
    try:
        arguments = {key: ast.literal_eval(value) for key, value in zip(order, node.args, strict=False)}
        arguments |= {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in node.keywords}
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None
    return None if "" in arguments else FunctionCall(name, arguments)


def _literal(text: str) -> Any:
    """The value of a Python literal; None for any other text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _bare(text: str) -> list[FunctionCall]:
    """Return the calls of a text of JSON values and nothing else; one that is cut off after others is a call without a name."""
    calls: list[FunctionCall] = []
    start = _START.match(text)
    index = start.end() if start else len(text)
    while index < len(text):
        try:
            document, end = _DECODER.raw_decode(text, index)
        except (ValueError, RecursionError):
            return [*calls, FunctionCall("", text[index : index + MAX_SHOWN])] if calls and text[index] == "{" else []
        calls += _calls_of(document, False)
        behind = _BETWEEN.match(text, end)
        index = behind.end() if behind else end
    return calls


def _anywhere(text: str, names: set[str] | None = None) -> Read:
    """The JSON objects in a text that are calls (of these functions), and the text around them."""
    calls: list[FunctionCall] = []
    around, index = "", 0
    while (start := text.find("{", index)) >= 0:
        try:
            document, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            around, index = around + text[index : start + 1], start + 1
            continue
        read = [call for call in _calls_of(document, False) if names is None or call.name in names]
        if read:
            around += text[index:start]
            # models copy the doubled braces in which some chat templates show calls; the outer ones are not part of the text
            if around.rstrip().endswith(("{", "[")):
                around = around.rstrip("{[ \n\t")
            closed = _CLOSERS.match(text, end)
            end = closed.end() if closed else end
        else:
            around += text[index:end]
        calls, index = calls + read, end
    around = (around + text[index:]).strip()
    return Read(_EMPTY.sub("", around).strip(), tuple(calls), "json") if calls else Read(around)


def _calls_in(text: str) -> list[FunctionCall]:
    """Return the calls in a JSON text that is surely meant as such; if it cannot be read, one without a name."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        inner = _anywhere(text) if text.startswith("{{") else Read(text)
        if not inner.calls and text.startswith("{"):
            bare = _bare(text)  # several objects, one after another
            inner = Read("", tuple(bare)) if bare and bare[-1].name else inner
        return list(inner.calls) if inner.calls and not inner.content else [FunctionCall("", text[:MAX_SHOWN])]
    return _calls_of(document, True)


def _calls_of(document: Any, surely: bool) -> list[FunctionCall]:
    """Return the calls in a JSON value; what is surely meant as one and has no name is a call without a name."""
    calls = []
    for entry in document if isinstance(document, list) else [document]:
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        function = function if isinstance(function, dict) else entry
        rpc = isinstance(function, dict) and "jsonrpc" in function
        names = ("method",) if rpc else ("name", "_name")  # TGI's grammar has `_name`
        name = next((function[key] for key in names if key in function), None) if isinstance(function, dict) else None
        if not isinstance(name, str):
            calls += [FunctionCall("", "{}")] if surely else []
            continue
        # models that know no form of calls well leave out the level of the arguments
        flat = {key: value for key, value in function.items() if key not in (*names, "type", "id", "jsonrpc")}
        if surely or name == FINISH or not flat or not flat.keys().isdisjoint(_ARGUMENTS) or "_name" in function or rpc:
            arguments = [function[key] for key in _ARGUMENTS if key in function]
            if len(flat) == 1 and isinstance(inner := next(iter(flat.values())), dict) and flat.keys() <= _SHORTER:
                arguments = [inner]
            chosen = arguments[0] if arguments else flat
            calls.append(FunctionCall(name, read_arguments(chosen) if isinstance(chosen, str) else chosen))
    return calls
