"""Calls in the text of a reply, in the forms that open models write: tagged, marked, or bare JSON."""

import json
import re
from typing import Any, NamedTuple

from .base import FunctionCall

_TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_MARKED = re.compile(r"\[TOOL_CALLS\]\s*(.*)\Z", re.DOTALL)
_FENCE = re.compile(r"\A\s*(?:```(?:json)?\s*)?(?:<\|python_tag\|>)?\s*([\[{].*[\]}])\s*(?:```)?\s*\Z", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_DECODER = json.JSONDecoder()


class Read(NamedTuple):
    """A reply's text without its calls, the calls, and their form (`agents.models.base.FORMS`)."""

    content: str
    calls: tuple[FunctionCall, ...] = ()
    form: str = ""


def read_calls(text: str, lenient: bool = False) -> Read:
    """Return the text and calls of a reply, in the forms that open models write: tagged, marked, or bare JSON.

    Args:
        lenient: A call may stand anywhere in the text, as a JSON object with a name and arguments.

    >>> read_calls('I look. <tool_call>{"name": "map", "arguments": {"city": "Lille"}}</tool_call>')
    Read(content='I look.', calls=(FunctionCall(name='map', arguments={'city': 'Lille'}, id=''),), form='text')
    >>> read_calls('First: {"name": "map", "arguments": {}} and then we see.', lenient=True)
    Read(content='First:  and then we see.', calls=(FunctionCall(name='map', arguments={}, id=''),), form='json')
    """
    text = _THOUGHT.sub("", text)
    tagged = _TAGGED.findall(text)
    if tagged:
        calls = [call for document in tagged for call in _calls_in(document, True)]
        return Read(_TAGGED.sub("", text).strip(), tuple(calls), "text")
    marked = _MARKED.search(text)
    if marked:
        return Read(text[: marked.start()].strip(), tuple(_calls_in(marked.group(1), True)), "text")
    bare = _FENCE.match(text)
    calls = _calls_in(bare.group(1), False) if bare else []
    if calls and not (lenient and '"arguments"' not in text and '"parameters"' not in text):
        return Read("", tuple(calls), "json")
    return _anywhere(text) if lenient else Read(text.strip())


def _anywhere(text: str) -> Read:
    """The JSON objects in a text that have a name and arguments, and the text around them."""
    calls: list[FunctionCall] = []
    around, place = "", 0
    while (start := text.find("{", place)) >= 0:
        try:
            document, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            around, place = around + text[place : start + 1], start + 1
            continue
        found = _calls_in(text[start:end], False) if _has_arguments(document) else []
        around += text[place : start if found else end]
        calls, place = calls + found, end
    return Read((around + text[place:]).strip(), tuple(calls), "json" if calls else "")


def _has_arguments(document: Any) -> bool:
    function = document.get("function", document) if isinstance(document, dict) else None
    return isinstance(function, dict | str) and any(
        isinstance(each, dict) and ("arguments" in each or "parameters" in each) for each in (function, document)
    )


def _calls_in(text: str, surely: bool) -> list[FunctionCall]:
    """Return the calls in a JSON text; where it surely is meant as one but cannot be read, a call without a name."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return [FunctionCall("", text[:2000])] if surely else []
    found = []
    for entry in document if isinstance(document, list) else [document]:
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        function = function if isinstance(function, dict) else entry
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            arguments = function.get("arguments", function.get("parameters", {}))
            found.append(FunctionCall(function["name"], arguments))
        elif surely:
            found.append(FunctionCall("", "{}"))
    return found
