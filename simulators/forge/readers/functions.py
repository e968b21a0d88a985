"""Read tools of language models: MCP's `tools/list`, and function schemas of OpenAI's and Anthropic's APIs."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..lexicon import lexicon
from ..words import split
from .documents import line, mapping
from .operations import Operation, Parameter, Skipped
from .references import References
from .shapes import plain, result_fields

_SCHEMAS = ("inputSchema", "input_schema", "parameters")
"""Where a tool's definition has the schema of its input: MCP, Anthropic, OpenAI."""
_ACTING = lexicon("acting")
"""First words of the names of tools that change something, beside those that every kind of document has."""


def acts(name: str) -> bool:
    """Return whether a tool changes something by the first word of its name."""
    return not _ACTING.isdisjoint(split(name)[:1])


def tools_of(document: Any) -> tuple[str, list[Any]] | None:
    """The kind of a list of tools, and the tools; None where a document is no such list."""
    if isinstance(document, dict):
        inner = document.get("result", document)
        inner = inner if isinstance(inner, dict) else {}
        for key in ("tools", "functions"):
            if isinstance(inner.get(key), list):
                return tools_of(inner[key])
        return tools_of([document]) if _definition(document) else None
    if not isinstance(document, list) or not any(_definition(each) for each in document):
        return None
    kind = "mcp" if any("inputSchema" in mapping(each) for each in document) else "functions"
    return kind, document


def operations(tools: list[Any], name: str) -> Iterator[Operation | Skipped]:
    """The tools of a list, and those that could not be read."""
    # servers put their own name before that of every tool: slack_list_channels
    heads = {str(_definition(given).get("name", "")).partition("_")[0] for given in tools}
    prefix = f"{heads.pop()}_" if len(tools) > 1 and len(heads) == 1 else ""
    for number, given in enumerate(tools):
        spec = _definition(given)
        label = line(spec.get("name"), 100)
        if not label:
            yield Skipped(f"{name}, tools.{number}", "expected a tool with a name and a schema of its input")
            continue
        schema: Mapping[str, Any] = next((spec[key] for key in _SCHEMAS if isinstance(spec.get(key), dict)), {})
        references = References(schema, name)
        body = plain(schema, references)
        required = set(body.get("required", ()))
        told = mapping(schema.get("properties"))
        parameters = tuple(
            Parameter(each, made, each in required, "body", line(mapping(told.get(each)).get("description"), 200))
            for each, made in mapping(body.get("properties")).items()
            if each
        )
        hints = mapping(spec.get("annotations"))
        reads = hints.get("readOnlyHint")
        own = label.removeprefix(prefix).split("__")[-1]
        writes = not reads if isinstance(reads, bool) else acts(own)
        output = spec.get("outputSchema")
        shape = result_fields(output, References(output, name))
        description = line(spec.get("description"))
        summary = description.split(". ")[0][:160]
        yield Operation(label, writes, "", summary, description, parameters, shape, (), own)


def _definition(given: Any) -> Mapping[str, Any]:
    """A tool's definition, without the wrapping that some APIs have; empty where it is none."""
    spec = mapping(given)
    if isinstance(spec.get("function"), dict):
        spec = spec["function"]
    return spec if isinstance(spec.get("name"), str) and any(isinstance(spec.get(key), dict) for key in _SCHEMAS) else {}
