"""Read documents of plain data, YAML and JSON, within bounds on their size, depth and numbers.

YAML is that of the core schema of version 1.2: `yes` and `off` are texts and `1:30` is one, as in JSON and in OpenAPI.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from costgym.simulators.errors import DataError
from costgym.simulators.files.plain import MAX_DOCUMENT_BYTES, read_text

MAX_NODES, MAX_DEPTH = 1_000_000, 100  # of a YAML document, with every alias written out; the depth is that of JSON too
MAX_DIGITS = 308  # of a whole number: any longer one is beyond what a float holds


def json_text(document: object) -> str:
    """A document as every JSON file of a run or a submission holds it; their digests and comparisons rest on these bytes."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _whole(text: str) -> int:
    """A whole number in JSON or YAML."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"expected a number of at most {MAX_DIGITS} digits, got {len(text):,}")
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object and reject duplicate names, because JSON parsers differ in which value they keep."""
    document = dict(members)
    if len(document) < len(members):
        raise ValueError("an object has a duplicate name")
    return document


_ONCE = json.JSONDecoder(parse_int=_whole, object_pairs_hook=_object)
_ANY = json.JSONDecoder(parse_int=_whole)


def decode_json(text: str, once: bool = False) -> Any:
    """Decode JSON; raises ValueError where it is none, nests too deep or holds a number that no float holds, and, with `once`,
    where a name stands twice in one object."""
    try:
        document = (_ONCE if once else _ANY).decode(text)
    except RecursionError:
        raise ValueError(f"expected at most {MAX_DEPTH} levels of nested lists and objects") from None
    level = [document]
    for _ in range(MAX_DEPTH + 1):
        parts = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = [part for inner in parts for part in inner if isinstance(part, dict | list)]
        if not level:
            return document
    raise ValueError(f"expected at most {MAX_DEPTH} levels of nested lists and objects")


def parse_json(text: str, name: object, location: str = "") -> Any:
    """Parse a JSON document, for the caller to check; raises DataError, with the line where that is known."""
    try:
        return decode_json(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}"
        raise DataError(name, f"is not valid JSON ({error.msg})", location or at) from None
    except ValueError as error:
        raise DataError(name, f"is not valid JSON ({error})", location) from None


def read_json(path: Path, most: int = MAX_DOCUMENT_BYTES, follow: bool = False) -> Any:
    """Read a JSON document that the caller checks; raises DataError where there is none, or as `read_text` does."""
    return parse_json(read_text(path, most, follow), path)


# libyaml splits the text into tokens; nodes are composed here, so that a document is refused before it grows or nests too deep
_PARSERS: Any = (yaml.composer.Composer, yaml.CSafeLoader) if yaml.__with_libyaml__ else (yaml.SafeLoader,)


class _BoundedLoader(*_PARSERS):  # type: ignore[misc]
    """Reads plain data; times stay text, as in JSON.

    It refuses keys that are given twice, parts too deep in each other, and aliases that make a document endless or far larger
    than its text.
    """

    def __init__(self, text: str) -> None:
        _PARSERS[-1].__init__(self, text)
        self.anchors: dict[Any, yaml.Node] = {}
        self._sizes: dict[int, int] = {}  # nodes below each node that is complete, itself included, aliases written out
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _refused(f"expected at most {MAX_DEPTH} levels of nested lists and mappings", self.peek_event())
        if len(self._sizes) > MAX_NODES:
            raise _refused(f"expected at most {MAX_NODES:,} parts", self.peek_event())
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return node
        if is_alias and id(node) not in self._sizes:  # what it stands for is still open
            raise _refused("a part contains itself", node)
        if not is_alias:
            below: list[yaml.Node] = []
            if isinstance(node, yaml.MappingNode):
                below = [part for pair in node.value for part in pair]
            elif isinstance(node, yaml.SequenceNode):
                below = node.value
            self._sizes[id(node)] = 1 + sum(self._sizes[id(part)] for part in below)
        if self._sizes[id(node)] > MAX_NODES:
            raise _refused(f"its aliases expand to more than {MAX_NODES:,} parts", node)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in seen:
                    raise _refused(f"the key {key.value[:80]!r} is given twice", key)
                seen.add((key.tag, key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_whole(self, node: yaml.ScalarNode) -> int:
        text = str(self.construct_scalar(node))
        sign, digits = text[:1] if text[:1] in ("+", "-") else "", text.lstrip("+-")
        try:
            return -_whole(digits) if sign == "-" else _whole(digits)
        except ValueError as error:
            raise _refused(str(error), node) from None

    def construct_float(self, node: yaml.ScalarNode) -> float:
        text = str(self.construct_scalar(node)).lower()
        try:
            return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            raise _refused(f"expected a number, got {text!r:.80}", node) from None


_BoundedLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", "true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?(?:\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN",
        list("-+0123456789."),
    ),
    ("merge", "<<", ["<"]),
):
    _BoundedLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)
_BoundedLoader.add_constructor("tag:yaml.org,2002:int", _BoundedLoader.construct_whole)
_BoundedLoader.add_constructor("tag:yaml.org,2002:float", _BoundedLoader.construct_float)


class _Dumper(yaml.SafeDumper):
    """Quotes texts that YAML 1.1 or 1.2 takes for something else, such as the digest 12e4567; writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _first_letter, _resolvers in _BoundedLoader.yaml_implicit_resolvers.items():
    for _tag, _regexp in _resolvers:
        _Dumper.add_implicit_resolver(_tag, _regexp, [_first_letter])


def yaml_text(document: object, flow: bool | None = False) -> str:
    """Plain data as YAML that `parse_yaml` reads back; with `flow` None, the innermost lists and mappings take one line."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=flow, width=120)
    return text


def _refused(problem: str, at: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, at.start_mark)


def parse_yaml(text: str, name: object) -> Any:
    """Parse plain data; raises DataError with the line where it is not valid, gives a key twice, or is too deep or large."""
    try:
        return _BoundedLoader(text).get_single_data()
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:  # a tag, such as !!set
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or ""
        problem = f"is not valid YAML: {reason:.160}" if reason else "is not valid YAML"
        raise DataError(name, problem, f"line {mark.line + 1}" if mark else "") from error


def read_yaml(path: Path) -> Any:
    """Read a YAML file of plain data; raises DataError where it cannot be read, and as `parse_yaml` does."""
    return parse_yaml(read_text(path), path)
