"""Documents of APIs, read from a query's `api_list` and a tool folder, and the tools made from them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from costgym.simulators.errors import DataError
from costgym.simulators.failures import FailureModel
from costgym.simulators.marketplace.catalogue import draw_profile
from costgym.simulators.marketplace.loaders.reading import JsonRecord, need_folder, read_json, read_text
from costgym.simulators.tools import Tool

Key = tuple[str, str, str]  # category, tool and API in the data set's spelling (the category in its folder's)
_TYPES = {name: name for name in ("number", "integer", "boolean", "array", "object")} | {"int": "integer"}


@dataclass(frozen=True, slots=True)
class Score:
    """A tool's telemetry from RapidAPI: share of successful calls 0 to 1, latency in seconds, popularity 0 to 10."""

    success: float | None = None
    latency_s: float | None = None
    popularity: float | None = None


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """The documentation of an API."""

    key: Key  # category, tool, API
    description: str  # of the API, in the provider's words
    parameters: Mapping[str, Any]  # JSON schema of the arguments
    tool_description: str = ""
    response: Any = None
    typed: bool = False  # `response` holds type names rather than values
    score: Score | None = None


@dataclass(frozen=True, slots=True)
class ToolDocument:
    """A tool's file in a tool folder: its APIs and telemetry."""

    category: str
    name: str
    description: str
    score: Score | None
    apis: tuple[ApiDocument, ...]


def read_api(
    record: JsonRecord, key: Key, description: str, tool_description: str = "", score: Score | None = None
) -> ApiDocument:
    """Read the document of an API from its record; raises DataError, which names the member at fault."""
    example, types = record.value.get("test_endpoint"), record.value.get("template_response")
    if types is None:
        types = record.value.get("schema") or None
    return ApiDocument(key, description, read_parameters(record), tool_description, example or types, not example, score)


def read_parameters(record: JsonRecord) -> dict[str, Any]:
    """Read an API's parameters as a JSON schema. NUMBER becomes any number; the original client allows whole ones only."""
    properties: dict[str, Any] = {}
    required = []
    for key in ("required_parameters", "optional_parameters"):
        for parameter in record.objects(key, required=False):
            name = parameter.text("name")
            kind = _TYPES.get(parameter.text("type", required=False).strip().lower(), "string")
            schema: dict[str, Any] = {"type": kind, "description": parameter.text("description", required=False)}
            example = _as_type(parameter.value.get("default"), kind)
            if example is not None:
                schema |= {"default": example} if key == "optional_parameters" else {"examples": [example]}
            properties.setdefault(name, schema)
            if key == "required_parameters" and name not in required:
                required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _as_type(value: Any, kind: str) -> Any:
    """Convert a default to its declared type; None where it is empty or does not fit."""
    if value is None or value == "" or not isinstance(value, str | int | float):
        return None
    if kind == "string":
        return str(value)[:500]
    if kind == "boolean":
        return {"true": True, "false": False}.get(str(value).strip().lower())
    if kind in ("number", "integer") and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        if abs(number) < 1e15:
            return int(number) if number.is_integer() else number if kind == "number" else None
    return None


def read_score(record: JsonRecord) -> Score | None:
    """Read a tool's `score`, or None where it is absent or null. A latency of 0 counts as unknown."""
    if record.value.get("score") is None:
        return None
    score = JsonRecord(record.value["score"], record.path, f"{record.location}, score" if record.location else "score")
    success, latency, popularity = (score.number(k) for k in ("avgSuccessRate", "avgLatency", "popularityScore"))
    return Score(
        success=None if success is None else min(1.0, max(0.0, success / 100.0)),
        latency_s=latency / 1000.0 if latency and latency > 0 else None,
        popularity=None if popularity is None else min(10.0, max(0.0, popularity)),
    )


def read_tool_document(path: Path, category: str) -> ToolDocument:
    """Read a tool's file; raises DataError where it cannot be read, or lacks `tool_name` or `api_list`."""
    record = JsonRecord(read_json(path), path, "")
    name = record.text("tool_name")
    score, description = read_score(record), record.text("tool_description", required=False)
    apis = []
    for number, api in enumerate(record.objects("api_list"), 1):
        api.location = f"api {number}"
        key = (category, name, api.text("name"))
        apis.append(read_api(api, key, api.text("description", required=False), description, score))
    return ToolDocument(category, name, description, score, tuple(apis))


def read_tool_folder(folder: Path) -> list[ToolDocument]:
    """Read all ``<category>/<tool>.json`` by path, no `api.py`; raises DataError where nothing is there or readable."""
    documents = [
        read_tool_document(path, path.parent.name) for path in sorted(need_folder(folder, "tool documents").glob("*/*.json"))
    ]
    if not documents:
        raise DataError(folder, "holds no tool documents; expected <category>/<tool>.json")
    return documents


class Library:
    """Documents beside the queries: a tool folder and a folder of example responses, read when a query needs them."""

    def __init__(self, tools: Path | None, responses: Path | None) -> None:
        self._tools = _index(tools)
        self._responses = _index(responses)
        self._read: dict[tuple[str, str], dict[str, ApiDocument]] = {}

    def complete(self, document: ApiDocument) -> ApiDocument:
        """Complete a document from the folders, with telemetry, descriptions and an example of an answer."""
        known = self._apis(document.key[0], document.key[1])
        # the tool's own description and telemetry serve where this API has no entry
        served = known.get(standardize(document.key[2])) or known.get("")
        if served is None:
            return document
        same = standardize(served.key[2]) == standardize(document.key[2])
        answered = served if same and document.response is None and served.response is not None else document
        return replace(
            document,
            description=document.description.strip() or (served.description if same else ""),
            tool_description=document.tool_description or served.tool_description,
            score=document.score or served.score,
            response=answered.response,
            typed=answered.typed,
        )

    def _apis(self, category: str, tool: str) -> dict[str, ApiDocument]:
        key = (category, standardize(tool))
        if key not in self._read:
            apis: dict[str, ApiDocument] = {}
            if key in self._tools:
                read = read_tool_document(self._tools[key], category)
                apis = {standardize(api.key[2]): api for api in read.apis}
                apis.setdefault("", ApiDocument((category, tool, ""), "", {}, read.description, score=read.score))
            for name, schema in self._schemas(key):
                document = apis.get(name) or ApiDocument((category, tool, name), "", {}, response=None)
                if document.response is None:
                    apis[name] = replace(document, response=schema, typed=True)
            self._read[key] = apis
        return self._read[key]

    def _schemas(self, key: tuple[str, str]) -> list[tuple[str, Any]]:
        path = self._responses.get(key)
        if path is None or not read_text(path).strip():  # the data set has empty files among its examples
            return []
        apis = JsonRecord(read_json(path), path, "").objects("api_list", required=False)
        return [(standardize(api.text("name")), api.value.get("schema")) for api in apis]


def _index(folder: Path | None) -> dict[tuple[str, str], Path]:
    # looked up by listing, never by a path made of a record's words
    return {} if folder is None else {(path.parent.name, path.stem): path for path in sorted(folder.glob("*/*.json"))}


def make_tool(document: ApiDocument, name: str, seed: int, failures: FailureModel) -> Tool:
    """Make the tool of a document. Figures that telemetry does not give are drawn by the function's name."""
    category, tool, api = document.key
    score = document.score or Score()
    text = document.description.strip() or f"{api} of {tool}."
    if document.tool_description.strip():
        text += f" ({tool}: {' '.join(document.tool_description.split())[:200]})"
    return Tool(
        name=name,
        description=text[:1024],
        category=category,
        provider=tool,
        title=api,
        parameters=document.parameters or {"type": "object", "properties": {}, "required": []},
        profile=draw_profile(
            seed, name, failures, latency_s=score.latency_s, success=score.success, popularity=score.popularity
        ),
        capability=f"{standardize_category(category)}/{standardize(tool)}/{standardize(api)}",
    )


_FOREIGN = re.compile("[^一-龥^a-zA-Z0-9_]")
_RESERVED = frozenset({"from", "class", "return", "false", "true", "id", "and"})
LONGEST = 64


@lru_cache(maxsize=65536)
def standardize(name: str) -> str:
    """A name in lower case with single underscores. A leading digit gets ``get_``; the caret stays, as in the original."""
    plain = re.sub("_+", "_", _FOREIGN.sub("_", name)).lower().strip("_")
    return f"get_{plain}" if plain[:1].isdigit() else plain


def change_name(name: str) -> str:
    """Change a name that is a reserved word."""
    return f"is_{name}" if name in _RESERVED else name


def standardize_category(category: str) -> str:
    """The name of a category's folder."""
    return re.sub("[ ,/]", "_", category).replace("__", "_")


def function_name(api: str, tool: str) -> str:
    """The function's name, where no other function has the same. Source: ToolBench's published naming rules."""
    return f"{change_name(standardize(api))}_for_{standardize(tool)}"[-LONGEST:]


def unique_names(keys: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    """Function names of (category, tool, api) keys. Of keys that collide, the first in sorted order keeps the plain name."""
    names: dict[tuple[str, str, str], str] = {}
    taken: set[str] = set()
    for key in sorted(keys):
        plain = name = function_name(key[2], key[1])
        lap = 1
        while name in taken:
            lap += 1
            suffix = f"_{lap}"
            name = plain[-(LONGEST - len(suffix)) :] + suffix
        taken.add(name)
        names[key] = name
    return names
