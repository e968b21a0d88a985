"""Read ToolDEER: tools with example queries, and conversations that decide whether to search and whether to call.

Signatures and calls are parsed, never run: only plain literals are taken as values.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from costgym.simulators.marketplace.catalogue import stable_fee
from costgym.simulators.marketplace.loaders.reading import JsonRecord, describe, parse_json, read_records
from costgym.simulators.tools import Catalog, Tool, ToolProfile

Kind = Literal["NoSearch", "NoCall", "Call"]
LONGEST = 20_000
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
_POOL = re.compile(r"usage of each API is as follows:\s*(.*?)\s*#(CallAPI|NoCallAPI)#\s*(.*)", re.S)


@dataclass(frozen=True, slots=True)
class DecisionSample:
    """A query and the right decisions about it."""

    query: str
    kind: Kind  # answer directly (NoSearch), search and find nothing that fits (NoCall), or search and call (Call)
    candidates: tuple[Tool, ...] = ()  # the tools that the search brings; none where there is none
    gold: str = ""  # name of the tool to call, or ""
    call: str = ""
    arguments: Mapping[str, Any] | None = None  # the call's arguments, as far as they are plain values


def parse_signature(signature: str) -> tuple[str, dict[str, Any]]:
    """Function name and JSON schema of a signature such as ``f(a: str, b: int = 5)``; no parameters if it cannot be parsed."""
    name = signature.split("(", 1)[0].strip()
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    try:
        tree = ast.parse(f"def {signature[:LONGEST].strip()}: pass") if len(signature) <= LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return name, schema
    function = tree.body[0] if tree and tree.body else None
    if not isinstance(function, ast.FunctionDef):
        return name, schema
    arguments = function.args.args + function.args.kwonlyargs
    # Python keeps defaults of the last arguments only: those before them have none
    first = len(function.args.args) - len(function.args.defaults)
    defaults: list[ast.expr | None] = [None] * first + list(function.args.defaults) + list(function.args.kw_defaults)
    for argument, default in zip(arguments, defaults, strict=True):
        known, value = _literal(default)
        kind = _type(argument.annotation)
        member: dict[str, Any] = {"type": [kind, "null"] if known and value is None else kind}
        if known and value is not None:
            member["default"] = value
        schema["properties"][argument.arg] = member
        if default is None:
            schema["required"].append(argument.arg)
    return function.name, schema


def _type(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Subscript):
        outer = annotation.value.id if isinstance(annotation.value, ast.Name) else ""
        if outer == "Optional":
            return _type(annotation.slice)
        return _TYPES.get(outer.lower(), "string")
    return _TYPES.get(annotation.id.lower(), "string") if isinstance(annotation, ast.Name) else "string"


def _literal(node: ast.expr | None) -> tuple[bool, Any]:
    try:
        return (True, ast.literal_eval(node)) if node is not None else (False, None)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False, None


def parse_call(call: str) -> tuple[str, dict[str, Any]]:
    """Function name and arguments of a call such as ``f(a='x')``; positional arguments are named by their place."""
    name = call.split("(", 1)[0].strip()
    try:
        tree = ast.parse(call[:LONGEST].strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return name, {}
    if not isinstance(tree, ast.Call):
        return name, {}
    values = {str(position): node for position, node in enumerate(tree.args)} | {k.arg: k.value for k in tree.keywords if k.arg}
    parsed = {key: _literal(node) for key, node in values.items()}
    return name, {key: value for key, (known, value) in parsed.items() if known}


def read_tools(path: Path | str) -> Catalog:
    """Read ``tool.json``; `title` is the function's name, often not the tool's. Raises DataError for what is malformed."""
    path = Path(path)
    tools: dict[str, Tool] = {}
    for record in read_records(path):
        name = record.text("api_name")
        if name in tools:
            raise record.error(f"the tool {name!r} appears twice")
        human, model = (record.text(f"description_for_{who}", required=False) for who in ("human", "model"))
        tools[name] = _tool(name, human or model, record.text("api_function"))
    return Catalog(tools.values(), str(path))


class RecordedQuery(NamedTuple):
    """A query that was written for a tool, with the arguments of its call as far as they are plain values."""

    tool: str
    query: str
    arguments: dict[str, Any]


def read_queries(path: Path | str) -> list[RecordedQuery]:
    """Read the queries of ``tool.json`` with their calls; raises DataError for what is malformed."""
    return [
        RecordedQuery(record.text("api_name"), example.text("query"), parse_call(example.text("call"))[1])
        for record in read_records(Path(path))
        for example in record.objects("example")
    ]


def _tool(name: str, description: str, signature: str) -> Tool:
    title, parameters = parse_signature(signature)
    profile = ToolProfile(fee=float(stable_fee(name)))
    return Tool(name, description, "Plugins", name, title or name, parameters, profile, capability=name)


def read_conversations(path: Path | str) -> list[DecisionSample]:
    """Read ``train.json``, ``valid.json`` or ``test.json``; raises DataError, which names the record at fault."""
    path = Path(path)
    samples = []
    for record in read_records(path):
        turns = record.objects("conversations")
        if len(turns) != 2 or [turn.text("from") for turn in turns] != ["human", "gpt"]:
            raise record.error("expected one turn of 'human' and one of 'gpt'", "conversations")
        samples.append(_sample(turns[0].text("value"), turns[1].text("value"), record))
    return samples


def _sample(query: str, chain: str, record: JsonRecord) -> DecisionSample:
    if "#SearchAPI#" not in chain:
        return DecisionSample(query, "NoSearch")
    match = _POOL.search(chain)
    if match is None:
        raise record.error("a search without #CallAPI# or #NoCallAPI# after it", "conversations[1]")
    candidates = []
    for line in match[1].splitlines():
        document = _document(line)
        if document is None:
            raise record.error(f"an API of the pool cannot be read: {line[:60]!r}", "conversations[1]")
        candidates.append(_tool(*document))
    if match[2] == "NoCallAPI":
        return DecisionSample(query, "NoCall", tuple(candidates))
    call = match[3].split("#APIResponse#", 1)[0].strip()
    name, arguments = parse_call(call)
    gold = next((tool.name for tool in candidates if name in (tool.title, tool.name)), name)
    return DecisionSample(query, "Call", tuple(candidates), gold, call, arguments)


def _document(line: str) -> list[str] | None:
    try:
        value = ast.literal_eval(line.strip()) if len(line) <= LONGEST else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    parts = [value.get(key) for key in ("api_name", "description", "api_function")] if isinstance(value, dict) else [None]
    return list(map(str, parts)) if all(isinstance(part, str) for part in parts) else None


def read_unseen(path: Path | str) -> list[DecisionSample]:
    """Read ``tool_bench.json`` or ``tool_corpus.json``, about other data sets' tools; DataError names the record."""
    path = Path(path)
    samples = []
    for record in read_records(path):
        candidates = tuple(_unseen_tool(api) for api in record.objects("api_list"))
        labels, fits = record.value.get("api_label"), record.value.get("is_call")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise record.error(f"expected a list of names, got {describe(labels)}", "api_label")
        if not isinstance(fits, bool):
            raise record.error(f"expected true or false, got {describe(fits)}", "is_call")
        gold = next((tool.name for tool in candidates if tool.name in labels), "")
        if fits and not gold:
            raise record.error("no API of the list is among its labels", "api_label")
        query = record.text("query")
        samples.append(DecisionSample(query, "Call", candidates, gold) if fits else DecisionSample(query, "NoCall", candidates))
    return samples


def _unseen_tool(api: JsonRecord) -> Tool:
    raw = api.value.get("parameters")
    if isinstance(raw, str):
        raw = parse_json(api.path, raw, f"{api.location}, parameters") if raw.strip() else []
    properties: dict[str, Any] = {}
    for index, member in enumerate(raw if isinstance(raw, list) else []):
        parameter = JsonRecord(member, api.path, f"{api.location}, parameters[{index}]")
        kind = parameter.text("type", required=False).strip().lower()
        kind = kind if kind in ("number", "integer", "boolean", "array", "object") else "string"
        properties[parameter.text("name")] = {"type": kind, "description": parameter.text("description", required=False)}
    if isinstance(raw, dict):
        properties = {str(name): member if isinstance(member, dict) else {} for name, member in raw.items()}
    name = api.text("name")
    parameters = {"type": "object", "properties": properties, "required": []}
    profile = ToolProfile(fee=float(stable_fee(name)))
    return Tool(name, api.text("description", required=False), "Unseen", name, name, parameters, profile, capability=name)
