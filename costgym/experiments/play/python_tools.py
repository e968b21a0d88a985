"""Tools as Python functions, for frameworks that read a tool's schema from its signature and docstring."""

import inspect
import keyword
import re
from collections.abc import Callable, Container, Mapping
from typing import Any, Literal

from costgym.agents.models.base import Function
from costgym.simulators.errors import ConfigError

_TYPES: dict[str, type] = {"integer": int, "number": float, "string": str, "boolean": bool, "array": list, "object": dict}
_SECTION = re.compile(r"\b(Args|Arguments|Returns|Raises):")


def python_tool(
    function: Function, call: Callable[..., str], note: str = "", reserved: Container[str] = ()
) -> Callable[..., str]:
    """Give a Python function the name, signature, annotations and docstring of a tool, and return it.

    Args:
        call: takes the tool's arguments by name. Positional parameters, such as `self`, stay in its signature.
        note: sentence after the tool's description, such as its price.
        reserved: names that neither the tool nor its arguments may have.

    Raises:
        ConfigError: a name of the tool or of an argument is reserved or not a valid name in Python.
    """
    properties: Mapping[str, Any] = function.parameters.get("properties", {})
    required = function.parameters.get("required", ())
    for name in (function.name, *properties):
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or name in reserved:
            raise ConfigError(f"tool {function.name}", f"{name!r} is not a valid name of a Python method or argument")
    signature = inspect.signature(call).parameters.values()
    parameters = [parameter for parameter in signature if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    described, annotations = [], {}
    for name, schema in sorted(properties.items(), key=lambda item: item[0] not in required):
        choices = schema.get("enum")
        form: Any = Literal[tuple(choices)] if choices else _TYPES.get(schema.get("type", "string"), str)
        default: Any = inspect.Parameter.empty
        if name not in required:
            form, default = form | None, None
        annotations[name] = form
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=form))
        described.append(f"    {name}: {_line(schema.get('description')) or name}")
    head = f"{_line(function.description) or function.name} {note}".rstrip()
    call.__doc__ = "\n".join([head, "", "Args:", *described]) if described else head
    call.__name__ = call.__qualname__ = function.name
    call.__annotations__ = {**annotations, "return": str}
    call.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return call


def _line(text: Any) -> str:
    """Return a description on one line, without text that would be parsed as a docstring section."""
    return _SECTION.sub(r"\1 -", " ".join(str(text or "").split()))
