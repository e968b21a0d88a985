"""Read documents of plain data, YAML and JSON, within bounds on their size and depth."""

import json
from pathlib import Path
from typing import Any

import yaml

from costgym.simulators.errors import DataError
from costgym.simulators.files.plain import read_text

MAX_YAML_NODES, MAX_YAML_DEPTH = 1_000_000, 100  # of a document, with every alias written out


def json_text(document: object) -> str:
    """A document as every JSON file of a run or a submission holds it; their digests and comparisons rest on these bytes."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_json(path: Path) -> Any:
    """Read a JSON document that the caller checks; raises DataError where there is none."""
    try:
        return json.loads(read_text(path, follow=False))
    except (ValueError, RecursionError) as error:
        raise DataError(path, f"is not valid JSON ({error})") from error


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
        if self._depth > MAX_YAML_DEPTH:
            raise _refused(f"expected at most {MAX_YAML_DEPTH} levels of nested lists and mappings", self.peek_event())
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
        if self._sizes[id(node)] > MAX_YAML_NODES:
            raise _refused(f"its aliases expand to more than {MAX_YAML_NODES:,} parts", node)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in seen:
                    raise _refused(f"the key {key.value[:80]!r} is given twice", key)
                seen.add((key.tag, key.value))
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_BoundedLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _refused(problem: str, at: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, at.start_mark)


def parse_yaml(text: str, name: object) -> Any:
    """Parse plain data; raises DataError with the line where it is not valid, gives a key twice, or is too deep or large."""
    try:
        return _BoundedLoader(text).get_single_data()
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:  # a tag such as !!int, too
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or ""
        problem = f"is not valid YAML: {reason:.160}" if reason else "is not valid YAML"
        raise DataError(name, problem, f"line {mark.line + 1}" if mark else "") from error


def read_yaml(path: Path) -> Any:
    """Read a YAML file of plain data; raises DataError where it cannot be read, and as `parse_yaml` does."""
    return parse_yaml(read_text(path), path)
