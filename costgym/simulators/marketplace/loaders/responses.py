"""Answers of loaded tools: their example response, or its types filled in, with the wanted fact put into it.

Which arguments are right is unknown in these data sets, so any that fit the schema are answered. The fact is one per (tool,
task); everything else follows from the tool and the arguments.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.marketplace.facts import make_fact
from costgym.simulators.marketplace.loaders.documents import ApiDocument
from costgym.simulators.marketplace.loaders.reading import clean
from costgym.simulators.tasks import Need, Task, normalise
from costgym.simulators.tools import Tool

MOST_LEAVES, MOST_MEMBERS, DEEPEST = 20, 2, 8
_ERROR_WORD = re.compile(
    "code|details?|error(code|s|message)?|info|messages?|msg|ok|path|reason|status(code)?|success|timestamp|type"
)
# identifiers, links and status words, which hold a fact where nothing else does
_LAST = re.compile(r"status|message|error|success|code|url|link|href|image|icon|html|^id$|_id$|type|lang|version", re.I)
_LIST_OF = re.compile(r"list of (\w+) with length \d+")
_SCALARS = {"str", "int", "float", "bool", "NoneType"}
Path = tuple[str | int, ...]


def is_error_shape(response: Any) -> bool:
    """Return whether the response reports an error and nothing else, as a quarter of the published templates do."""
    if not isinstance(response, dict) or not response:
        return True
    return all(
        (_ERROR_WORD.fullmatch(re.sub("[^a-z]", "", key.lower())) or key.isdigit()) and not isinstance(value, dict | list)
        for key, value in response.items()
    )


@dataclass(frozen=True, slots=True)
class Mould:
    """The shape of a response, with types or values as leaves, and the path of the fact in it."""

    shape: Any  # objects, lists and leaves; a leaf is ("str" | "int" | "float" | "bool" | "none" | "keep", value)
    fact_path: Path
    form: str  # the fact's format, see `facts.make_fact`

    @classmethod
    def of(cls, document: ApiDocument) -> "Mould":
        """Make the mould of an API from its example, or invent one where that is missing, cut off or a bare error."""
        response: Any = document.response
        if isinstance(response, str):
            try:
                response = json.loads(response)
            except (ValueError, RecursionError):
                response = None
        if isinstance(response, list) and response:
            response = {"results": response}
        # a list, so that all levels of the recursion count down the same number
        left = [MOST_LEAVES]
        shape = None if is_error_shape(response) else _shape(response, document.typed, left, 0)
        if not isinstance(shape, dict):
            shape = {
                "query": {"": ("echo", None)},
                "result": {"title": ("str", None), "value": ("float", None), "updated": ("str", None)},
            }
        leaves = list(_leaves(shape, (), ""))
        if not leaves:
            shape = {"result": ("str", None), **shape}
            leaves = [(("result",), "str", "result")]
        location, kind, key = next((leaf for leaf in leaves if not _LAST.search(leaf[2])), leaves[0])
        return cls(shape, location, {"int": "count", "float": "money"}.get(kind) or _text_form(key))

    def fill(self, arguments: Mapping[str, Any], luck: Callable[[], int], fact: str | int | float) -> str:
        """The answer to these arguments as JSON text, with the fact at its path."""
        plain = {clean(name).lower(): value for name, value in arguments.items() if _plain(value)}
        echoes = {name: clean(value) if isinstance(value, str) else value for name, value in plain.items()}
        document = _fill(self.shape, "", echoes, luck)
        target = document
        for step in self.fact_path[:-1]:
            target = target[step]
        target[self.fact_path[-1]] = fact
        return json.dumps(document, ensure_ascii=False)


def _next(state: int) -> int:
    return (state * 6364136223846793005 + 1442695040888963407) % 2**64  # Knuth's linear congruential step


def _key(arguments: Mapping[str, Any]) -> str:
    return json.dumps(sorted((str(n), normalise(v)) for n, v in arguments.items() if _plain(v)))


def _plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= 100
    return isinstance(value, bool) or (isinstance(value, int | float) and -1e15 < value < 1e15)


def _shape(response: Any, typed: bool, left: list[int], depth: int) -> Any:
    """The shape of a response, or None where nothing is left of it. `left` counts down the leaves."""
    if depth > DEEPEST:
        return None
    if isinstance(response, dict):
        members = {}
        for key, value in response.items():
            if key != "_list_length" and left[0] > 0:
                member = _shape(value, typed, left, depth + 1)
                if member is not None:
                    members[clean(key[:80])] = member
        return members or None
    if isinstance(response, list):
        shapes = [_shape(value, typed, left, depth + 1) for value in response[:MOST_MEMBERS] if left[0] > 0]
        known_shapes = [shape for shape in shapes if shape is not None]
        return known_shapes or None
    left[0] -= 1
    if not typed:
        kind = "bool" if isinstance(response, bool) else type(response).__name__
        if kind == "str":
            return ("str", clean(response[:160])) if response.strip() else ("none", None)
        return (kind, response) if kind in _SCALARS and _plain(response) else ("none", None)
    if isinstance(response, str):
        several = _LIST_OF.match(response)
        if several:
            return [(several[1] if several[1] in _SCALARS else "str", None)]
        if response in _SCALARS - {"NoneType"}:
            return (response, None)
        if response == "empty list":
            return ("empty", None)
    return ("none", None)


def _leaves(shape: Any, path: Path, key: str) -> Iterator[tuple[Path, str, str]]:
    """Leaves that can hold a fact: their paths, types and names."""
    if isinstance(shape, dict):
        for name, member in shape.items():
            yield from _leaves(member, (*path, name), name)
    elif isinstance(shape, list):
        for index, member in enumerate(shape):
            yield from _leaves(member, (*path, index), key)
    elif shape[0] in ("str", "int", "float") and "" not in path:
        yield path, shape[0], key


def _fill(shape: Any, key: str, echoes: Mapping[str, Any], luck: Callable[[], int]) -> Any:
    if isinstance(shape, dict):
        if "" in shape and shape[""] == ("echo", None):
            return dict(echoes)
        return {name: _fill(member, name, echoes, luck) for name, member in shape.items()}
    if isinstance(shape, list):
        return [_fill(member, key, echoes, luck) for member in shape]
    kind, value = shape
    if value is not None:
        return value
    if key.lower() in echoes and kind in ("str", "int", "float"):
        return echoes[key.lower()]
    match kind:
        case "str":
            return _text(key, luck())
        case "int":
            return luck() % 5_000
        case "float":
            return make_fact("decimal", luck())
        case "bool":
            return luck() % 4 > 0
        case "empty":
            return []
    return None


def _text_form(key: str) -> str:
    low = key.lower()
    if re.search("date|time|day|updated|created", low):
        return "day"
    if re.search("author|artist|player|person|first_?name|last_?name|owner|user", low):
        return "person"
    if re.search("price|amount|rate|score|value|total|volume|temp", low):
        return "money"
    if "address" in low or "street" in low:
        return "address"
    return "title" if re.search("title|name|headline", low) else "phrase"


def _text(key: str, luck: int) -> str:
    low = key.lower()
    if re.search("url|link|href|image|icon|picture|avatar", low):
        return f"https://api.example/{luck % 16**8:08x}"
    if re.search("status|success|result$|message", low):
        return "ok"
    if re.search("^id$|_id$|id$|uuid|key|token|hash", low):
        return f"{luck % 16**10:010x}"
    if "mail" in low:
        return f"user{luck % 10_000}@mail.example"
    return str(make_fact(_text_form(key), luck))


class LoadedAnswers:
    """The answers of tools that were read from a folder."""

    def __init__(self, seed: int, moulds: Mapping[str, Mould]) -> None:
        self.seed, self.moulds = seed, moulds

    def facts(self, tool: str, task: str) -> Iterator[str]:
        """The facts that a tool may hold for a task, as texts, without end."""
        form = self.moulds[tool].form
        return (str(make_fact(form, stable_integer(self.seed, "fact", tool, task, attempt))) for attempt in count())

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        """The answer to these arguments as JSON text. It holds the need's fact where the task needs this tool."""
        wanted = next((need.fact for need in task.needs if tool.name in need.tools), None)
        return self._write(tool, arguments, wanted, ("answer", tool.name, _key(arguments)))

    def guess(
        self,
        tool: Tool,
        task: Task,
        tools: tuple[str, ...],
        fitting: Mapping[str, Any],
        uniform: Callable[[], float],
        valid: float,
    ) -> Need:
        """Return the need that the tool serves in a task, or what it answers to fitting arguments; see `GeneratedAnswers`."""
        for need in task.needs:
            if tool.name in need.tools:
                return need
        luck = _next(stable_integer(self.seed, "answer", tool.name, _key(fitting)))
        fact = str(make_fact(self.moulds[tool.name].form, luck >> 16))
        wish = f"{tool.title} of {tool.provider}"
        return Need(fact, (tool.name,), dict(fitting), wish=wish, capability=tool.capability, fact_type="words")

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        """An answer of the same shape about something else; it never holds a fact that the task needs."""
        facts, form = {need.fact for need in task.needs}, self.moulds[tool.name].form
        others = (str(make_fact(form, stable_integer(self.seed, "irrelevant", tool.name, luck, step))) for step in count())
        return self._write(tool, {}, next(other for other in others if other not in facts), ("irrelevant", tool.name, luck))

    def _write(self, tool: Tool, arguments: Mapping[str, Any], fact: str | None, names: tuple[object, ...]) -> str:
        mould = self.moulds[tool.name]
        state = stable_integer(self.seed, *names)

        def luck() -> int:
            nonlocal state
            state = _next(state)
            return state >> 16

        if fact is None:
            value: str | int | float = make_fact(mould.form, luck())
        else:
            value = int(fact) if mould.form == "count" else float(fact) if mould.form == "money" else fact
        return mould.fill(arguments, luck, value)
