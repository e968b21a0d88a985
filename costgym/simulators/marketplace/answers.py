"""The answers of generated tools: the same facts from every provider, in each tool's own shape of JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.marketplace.facts import Database, make_fact
from costgym.simulators.marketplace.vocabulary import Capability
from costgym.simulators.tasks import Need, Task
from costgym.simulators.tools import Tool

_encode = json.JSONEncoder(ensure_ascii=False).encode
MAX_TEXTS = 16_384  # answers that are remembered; they take a few hundred bytes each
_WRAPS = ((), ("data",), ("result",), ("response", "payload"), ("items", 0), ("data", "results", 0), ("body", "record"))
_VALUE_NAMES = ("", "value", "result_value", "output")
_EXTRAS = (
    ("confidence", "share"),
    ("last_updated", "moment"),
    ("samples", "count"),
    ("previous", ""),
    ("maintained_by", "person"),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one tool's answers."""

    path: tuple[str | int, ...]
    key: str  # name of the fact
    echo: bool  # the record repeats the arguments
    as_text: bool  # numbers are written as text
    extras: tuple[tuple[str, str], ...]  # fields beside the fact that nobody asked for
    envelope: bool  # a status stands beside the record
    camel: bool  # names are written in camelCase

    @classmethod
    def of(cls, seed: int, tool: str, capability: Capability) -> "Shape":
        """Draw the shape of a tool, by its name alone."""
        luck = stable_integer(seed, "shape", tool)
        parts = []
        for size in (len(_WRAPS), len(_VALUE_NAMES), 4, 4, len(_EXTRAS), 3, 2, 2):
            luck, part = divmod(luck, size)
            parts.append(part)
        wrap, value_name, echo, as_text, extra, count, envelope, camel = parts
        extras = tuple(_EXTRAS[(extra + i) % len(_EXTRAS)] for i in range(count))
        key = _VALUE_NAMES[value_name] or capability.field
        return cls(_WRAPS[wrap], key, echo > 0, as_text == 0, extras, bool(envelope), bool(camel))

    def name(self, field: str) -> str:
        """A field's name in this shape's spelling."""
        if not self.camel:
            return field
        head, *rest = field.split("_")
        return head + "".join(word.capitalize() for word in rest)

    def write(self, fact: str | int | float, arguments: Mapping[str, Any], luck: int) -> str:
        """The answer as JSON text."""
        record: dict[str, Any] = {self.name(k): v for k, v in arguments.items()} if self.echo else {}
        record[self.name(self.key)] = str(fact) if self.as_text else fact
        for index, (field, form) in enumerate(self.extras):
            # a second fact of the same kind, for another day, has to be told apart from the one asked for
            record[self.name(field)] = make_fact(form or "money", luck >> (7 * index + 5))
        document: Any = record
        for step in reversed(self.path):
            document = [document] if isinstance(step, int) else {self.name(step): document}
        if self.envelope:
            document = {"status": "ok", **document}
        return _encode(document)


class GeneratedAnswers:
    """The answers of a generated marketplace, which are pure functions of the tool and the arguments."""

    def __init__(self, database: Database, capabilities: Mapping[str, Capability]) -> None:
        self.database, self.capabilities = database, capabilities
        self._shapes: dict[str, Shape] = {}
        self._texts: dict[tuple[Any, ...], str] = {}

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        """The answer as JSON text, or None where an argument is missing or names nothing."""
        capability = self.capabilities[tool.capability]
        numbers = self.database.numbers(capability, arguments)
        if numbers is None:
            return None
        return self._write(tool, capability, numbers)

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        """An answer for other arguments of the same kind; it never holds a fact that the task needs."""
        capability = self.capabilities[tool.capability]
        record = self.database.numbers(capability, arguments)
        wanted = {need.fact for need in task.needs} | {need.alternative.fact for need in task.needs if need.alternative}
        step = 0
        while True:
            # steps of the golden ratio visit a kind's values evenly, so another value is found after few tries
            numbers = tuple(int((luck + 0.6180339887 * (i + step)) % 1.0 * k.size) for i, k in enumerate(capability.parameters))
            if numbers != record and str(self.database.fact(capability, numbers)) not in wanted:
                return self._write(tool, capability, numbers)
            step += 1

    def guess(
        self,
        tool: Tool,
        task: Task,
        tools: tuple[str, ...],
        fitting: Mapping[str, Any],
        uniform: Callable[[], float],
        valid: float,
    ) -> Need:
        """A need that a user may have had in mind: something that these tools of one capability answer, for values drawn.

        `fitting` are arguments that fit the tool's schema and name nothing; each name or code is with the chance `valid` of
        something that there is; dates, numbers and choices always are.
        """
        capability = self.capabilities[tool.capability]
        numbers = tuple(int(uniform() * kind.size) for kind in capability.parameters)
        values = self._values(capability, numbers)
        lacking = {kind.name for kind in capability.parameters if kind.entity and uniform() >= valid}
        filled = {name: fitting.get(name, value) if name in lacking else value for name, value in values.items()}
        phrases = {kind.name: kind.phrase(filled[kind.name]) for kind in capability.parameters}
        fact = str(self.database.fact(capability, numbers))
        return Need(fact, tools, filled, wish=capability.wish.format(**phrases), capability=capability.name)

    def _write(self, tool: Tool, capability: Capability, numbers: tuple[int, ...]) -> str:
        key = (tool.key, *numbers)
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) >= MAX_TEXTS:
                self._texts.clear()
            seed, shape = self.database.seed, self._shapes.get(tool.key)
            if shape is None:
                shape = self._shapes[tool.key] = Shape.of(seed, tool.key, capability)
            luck = stable_integer(seed, "extras", *key)
            text = shape.write(self.database.fact(capability, numbers), self._values(capability, numbers), luck)
            self._texts[key] = text
        return text

    def _values(self, capability: Capability, numbers: tuple[int, ...]) -> dict[str, str | int]:
        return {k.name: k.value(n, self.database.seed) for k, n in zip(capability.parameters, numbers, strict=True)}
