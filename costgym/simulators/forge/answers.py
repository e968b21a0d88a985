"""What forged tools answer: records of entities that belong to the user of a task, as pure functions of the arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.forge.values import draw, put_value
from costgym.simulators.tasks import Task, normalise
from costgym.simulators.tools import WRITE, Tool
from costgym.simulators.world.writes import about

if TYPE_CHECKING:
    from costgym.simulators.forge.source import ForgedCapability, ForgedFact, ForgedSource, ValueForm

SHOWN = 5  # entities that a list shows; the first is the one that the user means


class ForgedAnswers:
    """The answers of a forged world by the world's seed. Each task has a user with entities of their own."""

    def __init__(self, source: ForgedSource, seed: int) -> None:
        self._entities, self._seed = source.entities, seed
        self._later = source.version > 0  # a list that is searched finds what is called so, and answers repeat ids
        self.writes = source.version > 0  # worlds of a folder have one observation, whether each of them writes or not
        self._capabilities = {capability.name: capability for capability in source.capabilities}

    def _draw(self, form: ValueForm, *names: object) -> str | int | float | bool:
        return draw(form.spec(), self._seed, *names)

    def identity(self, task: str, entity: str, number: int) -> str | int | float | bool:
        """The id of an entity of a task's user."""
        form = self._entities[entity].id
        if form.form == "enum" and self._later:  # the first ones differ
            first = form.of.index(self._draw(form, task, entity, "id", 0))
            return form.of[(first + number) % len(form.of)]
        return self._draw(form, task, entity, "id", number)

    def known(self, task: str, entity: str, number: int) -> str:
        """What the user knows an entity by."""
        form = self._entities[entity].known
        assert form is not None
        return str(self._draw(form, task, entity, "known", number))

    def value(
        self, task: str, capability: ForgedCapability, fact: ForgedFact, number: int, key: tuple[Any, ...]
    ) -> str | int | float | bool:
        """A value in the record of an entity by its number (0 is the one that the user means); the record depends on a key too,
        the plain values among the arguments."""
        own_entity = capability.entity
        if fact.entity:
            of_it = fact.entity == own_entity
            other = number if of_it or number == 0 else 1 + stable_integer(self._seed, task, fact.entity, number) % (SHOWN - 1)
            return self.identity(task, fact.entity, other)
        assert fact.value is not None
        entity = self._entities.get(own_entity)
        if entity is not None and entity.known_as and entity.known_as == fact.words and not key:
            return self.known(task, own_entity, number)
        return self._draw(fact.value, task, own_entity or capability.name, fact.words, number, *key)

    def created(self, task: str, capability: ForgedCapability, arguments: Mapping[str, Any]) -> int:
        """The number of the entity that a call of a tool which makes one makes: none that the user has."""
        spoken = [normalise(argument.of(arguments)) for argument in capability.arguments]
        return 100 + stable_integer(self._seed, task, capability.name, *spoken) % 900

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        """The answer as JSON text, or None where an argument is missing or names nothing that the user has."""
        if tool.effect is not None and tool.effect.role != WRITE:
            return self._wanted_effect(tool.effect.of, arguments, task)
        capability = self._capabilities[tool.capability]
        number, own_number, key = 0, 0, []
        for argument in capability.arguments:
            argument_value = argument.of(arguments)
            if argument_value is None:
                return None
            if not argument.entity:
                if capability.role == "list" and argument.value is not None and argument.value.form == "topic" and self._later:
                    if not set(normalise(argument_value).split()) & set(
                        normalise(self.known(task.id, capability.entity, 0)).split()
                    ):
                        return None  # nothing that the user has is called so
                    continue
                key.append(normalise(argument_value))
                continue
            other = self._number(task.id, argument.entity, argument_value)
            if other is None:
                return None
            if argument.entity == capability.entity and capability.role not in ("list", "create"):
                own_number = other
            else:
                number = number * 2 * SHOWN + other
        if capability.writes:
            return self._written(task.id, capability, arguments, own_number)
        if capability.role == "record":
            return self._encode(task.id, capability, [own_number + 2 * SHOWN * number], tuple(key), arguments)
        # other parents have other children
        turn = stable_integer(self._seed, task.id, capability.name) % SHOWN
        shown = [(turn + index) % SHOWN + (SHOWN if number else 0) for index in range(SHOWN)]
        return self._encode(task.id, capability, shown, tuple(key), arguments)

    def _written(self, task: str, capability: ForgedCapability, arguments: Mapping[str, Any], own_number: int) -> str:
        """The record that a write leaves, with its id."""
        number = self.created(task, capability, arguments) if capability.role == "create" else own_number
        text = self._encode(task, capability, [number], (), arguments)
        if any(fact.entity == capability.entity for fact in capability.facts) or capability.entity not in self._entities:
            return text
        record = json.loads(text)
        if not isinstance(record, dict):
            return text
        name = next((a.name for a in capability.arguments if a.entity == capability.entity), "id")
        while name in record:
            name = f"{capability.entity}_{name}"
        return json.dumps({name: self.identity(task, capability.entity, number), **record}, ensure_ascii=False)

    def _wanted_effect(self, of: str, arguments: Mapping[str, Any], task: Task) -> str | None:
        """What a check, or what takes an effect back, answers of effects that the task wants."""
        wanted = (need for need in task.needs if need.state and need.capability == of and about(need, arguments))
        return next((json.dumps({of: need.fact}, ensure_ascii=False) for need in wanted), None)

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        """A record of the same kind that is none of the user's; it never holds a fact that the task needs."""
        capability = self._capabilities.get(tool.capability)
        if capability is None or tool.effect is not None:
            return json.dumps({"status": "ok"})
        wanted = [normalise(need.fact) for need in task.needs]
        for step in range(50):
            text = self._encode(task.id, capability, [1_000 + int(luck * 1e6) + step], ("other",), {})
            if not any(fact in normalise(text) for fact in wanted):
                return text
        return json.dumps({"status": "ok"})

    def _number(self, task: str, entity: str, argument_value: Any) -> int | None:
        text = normalise(argument_value)
        return next((n for n in range(2 * SHOWN) if normalise(self.identity(task, entity, n)) == text), None)

    def _encode(
        self, task: str, capability: ForgedCapability, numbers: list[int], key: tuple[Any, ...], arguments: Mapping[str, Any]
    ) -> str:
        stated = [(argument, argument.of(arguments)) for argument in capability.arguments]
        stated_values = {argument.words: value for argument, value in stated if value is not None and not argument.entity}
        ids = {
            argument.entity: value for argument, value in stated if value is not None and argument.entity != capability.entity
        }
        ids = ids if self._later else {}
        root: dict[str, Any] = {}
        for index, number in enumerate(numbers):
            for fact in capability.facts:
                value = (
                    stated_values[fact.words]
                    if fact.shown and fact.words in stated_values
                    else ids.get(fact.entity)
                    if fact.entity
                    else None
                )
                value = self.value(task, capability, fact, number, key) if value is None else value
                put_value(root, ("", *fact.path), index, value)
        return json.dumps(root.get("", {}), ensure_ascii=False)
