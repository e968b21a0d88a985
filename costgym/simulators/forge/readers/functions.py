"""Read tools of language models: MCP's `tools/list`, function schemas of OpenAI's and Anthropic's APIs, and Python functions
with type hints."""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from costgym.simulators.errors import DataError
from costgym.simulators.forge.readers.documents import References, line, listing, mapping
from costgym.simulators.forge.readers.operations import LONGEST, Operation, Parameter, Skipped
from costgym.simulators.forge.readers.shapes import members, result_fields
from costgym.simulators.forge.words import lexicon, split

_SCHEMAS = ("inputSchema", "input_schema", "parameters", "args_schema")  # its input's: MCP, Anthropic, OpenAI, LangChain
_RESULTS = ("outputSchema", "output_schema", "response", "returns", "template_response")  # its output's: MCP, BFCL, ToolBench
_ACTING = lexicon("acting")  # first words of names of tools that change something, beside those of every kind of document
MOST_LISTS = 500  # lists of tools in one document
MAX_SOURCE = 2 * 2**20  # largest Python file, bytes
_PLAIN = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
_FORMATS = {"date": "date", "datetime": "date-time", "UUID": "uuid", "Path": "path"}
_ARGUMENT = re.compile(r"^\s*(\w+)(?:\s*\([^)]*\))?\s*:\s+(.+)$")


def acts(name: str) -> bool:
    """Return whether a tool changes something by the first word of its name."""
    return not _ACTING.isdisjoint(split(name)[:1])


def tools_of(document: Any) -> tuple[str, list[Any]] | None:
    """The kind of a list of tools, and the tools; None where a document is no such list."""
    listed = [tool for tools in _lists(document, 0) for tool in tools][: 10 * MOST_LISTS]
    if not any(_definition(tool) for tool in listed):
        return None
    return ("mcp" if any("inputSchema" in mapping(tool) for tool in listed) else "functions"), listed


def _lists(document: Any, level: int) -> Iterator[list[Any]]:
    """The lists of tools in a document: itself, those under `tools`, `functions` or `api_list`, or those of each of its parts
    (domains, servers)."""
    if isinstance(document, list):
        if level < 3 and document and all(isinstance(mapping(part).get("api_list"), list) for part in document):
            for part in document[:MOST_LISTS]:
                yield from _lists(part, level + 1)
        else:
            yield document
        return
    inner = mapping(mapping(document).get("result")) or mapping(document)
    for key in ("tools", "functions", "api_list"):
        if isinstance(inner.get(key), list):
            yield [_toolbench(part, inner) for part in inner[key]] if key == "api_list" else inner[key]
            return
    if _definition(document):
        yield [document]
    elif level < 3:
        for part in list(inner.values())[:MOST_LISTS]:
            if isinstance(part, dict | list):
                yield from (listed for listed in _lists(part, level + 1) if any(_definition(one) for one in listed))


def _toolbench(entry: Any, tool: Mapping[str, Any]) -> Any:
    """An API of ToolBench as a function: parameters in two lists, a template of the response."""
    spec = mapping(entry)
    name = spec.get("api_name") or spec.get("name")
    if not isinstance(name, str) or "required_parameters" not in spec:
        return entry
    properties: dict[str, Any] = {}
    for parameter in (*listing(spec.get("required_parameters")), *listing(spec.get("optional_parameters"))):
        label, kind = mapping(parameter).get("name"), mapping(parameter).get("type")
        if isinstance(label, str):
            schema = {
                "type": str(kind).lower() if isinstance(kind, str) else "string",
                "description": parameter.get("description"),
            }
            if parameter.get("default") not in (None, ""):
                schema["example"] = parameter["default"]
            properties[label] = schema
    required = [mapping(parameter).get("name") for parameter in listing(spec.get("required_parameters"))]
    return {
        "name": re.sub(r"[^A-Za-z0-9]+", "_", f"{name}").strip("_"),
        "description": spec.get("api_description") or spec.get("description") or tool.get("tool_description"),
        "parameters": {"type": "object", "properties": properties, "required": required},
        "response": _as_schema(spec.get("template_response"), 0),
        "annotations": {"readOnlyHint": True} if str(spec.get("method", "")).upper() == "GET" else {},
    }


def _as_schema(value: Any, level: int) -> dict[str, Any]:
    """The schema of an example; ToolBench's templates have the names of types in place of values."""
    if isinstance(value, dict) and level < 6:
        return {"type": "object", "properties": {str(key): _as_schema(item, level + 1) for key, item in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _as_schema(value[0], level + 1) if value else {}}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int | float):
        return {"type": "integer" if isinstance(value, int) else "number"}
    text = value if isinstance(value, str) else ""
    return {"type": text} if text in ("int", "float", "bool", "str") else {"type": "string", "example": text}


def operations(tools: list[Any], name: str) -> Iterator[Operation | Skipped]:
    """The tools of a list, and those that could not be read."""
    # servers put their own name before that of every tool: slack_list_channels
    heads = {str(_definition(tool).get("name", "")).partition("_")[0] for tool in tools}
    prefix = f"{heads.pop()}_" if len(tools) > 1 and len(heads) == 1 else ""
    for number, entry in enumerate(tools):
        spec = _definition(entry)
        label = line(spec.get("name"), 100)
        if not label:
            yield Skipped(f"{name}, tools.{number}", "expected a tool with a name and a schema of its input")
            continue
        schema: Mapping[str, Any] = next((spec[key] for key in _SCHEMAS if isinstance(spec.get(key), dict)), {})
        properties = mapping(schema.get("properties"))
        words = {key: line(mapping(item).get("description"), 200) for key, item in properties.items()}
        parameters = members(schema, References(schema, name), about=words)
        hints = mapping(spec.get("annotations"))
        reads, destructive, idempotent = (
            value if isinstance(value := hints.get(f"{hint}Hint"), bool) else None
            for hint in ("readOnly", "destructive", "idempotent")
        )
        plain_name = label.removeprefix(prefix).split("__")[-1]
        output = next((spec[key] for key in _RESULTS if isinstance(spec.get(key), dict) and spec[key]), None)
        shape = result_fields(output, References(output, name))
        description = line(spec.get("description"), LONGEST)
        summary = description.split(". ")[0][:160]
        yield Operation(
            label, acts(plain_name) if reads is None else not reads, "", summary, description, parameters, shape, (),
            plain_name, reads=reads, destructive=destructive, idempotent=idempotent,
        )  # fmt: skip


def _definition(entry: Any) -> Mapping[str, Any]:
    """A tool's definition, without the wrapping that some APIs have; empty where it is none."""
    spec = mapping(entry)
    if isinstance(spec.get("function"), dict):
        spec = spec["function"]
    return spec if isinstance(spec.get("name"), str) and any(isinstance(spec.get(key), dict) for key in _SCHEMAS) else {}


# -- Python ----------------------------------------------------------------------------------------------------------------


def python_operations(content: bytes, name: str) -> Iterator[Operation | Skipped]:
    """The public functions of a module whose arguments have type hints, from source text, which is parsed and never run; raises
    DataError where the file is too large, or is not Python."""
    if len(content) > MAX_SOURCE:
        raise DataError(name, f"expected at most {MAX_SOURCE // 2**20} MiB of Python")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
    except SyntaxError as error:
        raise DataError(name, f"is not valid Python: {error.msg}", f"line {error.lineno}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise DataError(name, f"is not valid Python: {error}") from None
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        bare = [argument.arg for argument in arguments if argument.annotation is None]
        if bare:
            yield Skipped(f"{name}, {node.name}", f"expected a type hint for {', '.join(bare)}")
            continue
        # defaults belong to the last positional arguments, and each keyword-only one has its own or None
        positional = reversed([*node.args.posonlyargs, *node.args.args])
        optional = {argument.arg for argument, _ in zip(positional, node.args.defaults, strict=False)}
        optional |= {
            a.arg for a, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default is not None
        }
        docstring = ast.get_docstring(node) or ""
        words = {match[1]: match[2] for text in docstring.split("\n") if (match := _ARGUMENT.match(text))}
        parameters = tuple(
            Parameter(a.arg, _schema(a.annotation, classes), a.arg not in optional, "body", line(words.get(a.arg), 200))
            for a in arguments
        )
        output = _schema(node.returns, classes)
        summary = line(docstring.split("\n\n")[0], 160)
        shape = result_fields(output, References(output, name))
        yield Operation(node.name, acts(node.name), "", summary, summary, parameters, shape)


def _schema(hint: ast.expr | None, classes: dict[str, ast.ClassDef], level: int = 0) -> dict[str, Any]:
    """A type hint as JSON schema; empty for hints that are not understood."""
    if hint is None or level > 6:
        return {}
    if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
        try:
            return _schema(ast.parse(hint.value, mode="eval").body, classes, level + 1)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}
    if isinstance(hint, ast.BinOp) and isinstance(hint.op, ast.BitOr):
        return _schema(hint.left, classes, level + 1) or _schema(hint.right, classes, level + 1)
    name = hint.id if isinstance(hint, ast.Name) else hint.attr if isinstance(hint, ast.Attribute) else ""
    if name in _FORMATS:
        return {"type": "string", "format": _FORMATS[name]}
    if name in _PLAIN:
        return {"type": _PLAIN[name]}
    if name in classes:  # a dataclass, a TypedDict or a model: its annotated fields
        members = [node for node in classes[name].body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
        properties = {member.target.id: _schema(member.annotation, classes, level + 1) for member in members[:60]}  # type: ignore[union-attr]
        return {"type": "object", "properties": properties, "required": list(properties)}
    if isinstance(hint, ast.Subscript):
        return _generic(hint, classes, level)
    return {}


def _generic(hint: ast.Subscript, classes: dict[str, ast.ClassDef], level: int) -> dict[str, Any]:
    outer = hint.value.id if isinstance(hint.value, ast.Name) else getattr(hint.value, "attr", "")
    parts = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
    if outer == "Literal":
        values = [part.value for part in parts if isinstance(part, ast.Constant)]
        return {"type": "string" if all(isinstance(v, str) for v in values) else "integer", "enum": values} if values else {}
    if outer in ("list", "List", "Sequence", "tuple", "set", "Iterable"):
        return {"type": "array", "items": _schema(parts[0], classes, level + 1)}
    if outer in ("Optional", "Annotated", "Required", "NotRequired", "Union"):
        return _schema(parts[0], classes, level + 1)
    return {"type": "object"} if outer in ("dict", "Dict", "Mapping") else {}
