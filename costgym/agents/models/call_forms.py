"""Calls in the text of a reply, in the forms that open models write: tagged, marked, or bare JSON."""

import json
import re
from typing import Any, NamedTuple

from costgym.agents.models.base import FunctionCall
from costgym.envs.actions import FINISH

_ARGUMENTS = ("arguments", "parameters")
_TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_MARKED = re.compile(r"\[TOOL_CALLS\]\s*(.*)\Z", re.DOTALL)
_START = re.compile(r"\s*(?:```(?:json)?\s*)?(?:<\|python_tag\|>)?\s*(?=[\[{])")
_BETWEEN = re.compile(r"(?:[\s,;]|```(?:json)?)*")  # what stands between and behind bare calls
_CLOSERS = re.compile(r"(?:\s*[}\]])*")
_EMPTY = re.compile(r"```(?:json)?\s*```")
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
        lenient: A call may stand anywhere in the text, as a JSON object with a name and arguments; otherwise bare calls are all
            of the text, one or several. An object with a name and other fields than arguments is data, but for `finish`.

    >>> read_calls('I look. <tool_call>{"name": "map", "arguments": {"city": "Lille"}}</tool_call>')
    Read(content='I look.', calls=(FunctionCall(name='map', arguments={'city': 'Lille'}, id=''),), form='text')
    >>> read_calls('First: {"name": "map", "arguments": {}} and then we see.', lenient=True)
    Read(content='First:  and then we see.', calls=(FunctionCall(name='map', arguments={}, id=''),), form='json')
    >>> read_calls('{{"name": "map", "arguments": {"city": "Lille"}}}', lenient=True)
    Read(content='', calls=(FunctionCall(name='map', arguments={'city': 'Lille'}, id=''),), form='json')
    """
    text = _THOUGHT.sub("", text)
    tagged = _TAGGED.findall(text)
    if tagged:
        calls = [call for document in tagged for call in _calls_in(document)]
        return Read(_TAGGED.sub("", text).strip(), tuple(calls), "text")
    marked = _MARKED.search(text)
    if marked:
        return Read(text[: marked.start()].strip(), tuple(_calls_in(marked.group(1))), "text")
    bare = _bare(text)
    if bare:
        return Read("", tuple(bare), "json")
    return _anywhere(text) if lenient else Read(text.strip())


def _bare(text: str) -> list[FunctionCall]:
    """Return the calls of a text of JSON values and nothing else; one that is cut off after others is a call without a name."""
    calls: list[FunctionCall] = []
    start = _START.match(text)
    place = start.end() if start else len(text)
    while place < len(text):
        try:
            document, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return [*calls, FunctionCall("", text[place : place + 2000])] if calls and text[place] == "{" else []
        calls += _calls_of(document, False)
        behind = _BETWEEN.match(text, end)
        place = behind.end() if behind else end
    return calls


def _anywhere(text: str) -> Read:
    """The JSON objects in a text that are calls, and the text around them."""
    calls: list[FunctionCall] = []
    around, place = "", 0
    while (start := text.find("{", place)) >= 0:
        try:
            document, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            around, place = around + text[place : start + 1], start + 1
            continue
        found = _calls_of(document, False)
        if found:
            around += text[place:start]
            # models copy the doubled braces in which some chat templates show calls; the outer ones are not part of the text
            if around.rstrip().endswith(("{", "[")):
                around = around.rstrip("{[ \n\t")
            closed = _CLOSERS.match(text, end)
            end = closed.end() if closed else end
        else:
            around += text[place:end]
        calls, place = calls + found, end
    around = (around + text[place:]).strip()
    return Read(_EMPTY.sub("", around).strip(), tuple(calls), "json") if calls else Read(around)


def _calls_in(text: str) -> list[FunctionCall]:
    """Return the calls in a JSON text that is surely meant as such; if it cannot be read, one without a name."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        inner = _anywhere(text) if text.startswith("{{") else Read(text)
        return list(inner.calls) if inner.calls and not inner.content else [FunctionCall("", text[:2000])]
    return _calls_of(document, True)


def _calls_of(document: Any, surely: bool) -> list[FunctionCall]:
    """Return the calls in a JSON value; what is surely meant as one and has no name is a call without a name."""
    found = []
    for entry in document if isinstance(document, list) else [document]:
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        function = function if isinstance(function, dict) else entry
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str):
            found += [FunctionCall("", "{}")] if surely else []
            continue
        # models that know no form of calls well leave out the level of the arguments
        flat = {key: value for key, value in function.items() if key not in ("name", "type", "id")}
        if surely or name == FINISH or not flat or not flat.keys().isdisjoint(_ARGUMENTS):
            given = [function[key] for key in _ARGUMENTS if key in function]
            found.append(FunctionCall(name, given[0] if given else flat))
    return found
