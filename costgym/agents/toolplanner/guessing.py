"""A reader's guess at what an instruction leaves out.

A coarse instruction names categories, providers or APIs, or only the user's situation. A reader of it knows what stands there:
where the topic of a wish or the name of an API stands, the kind of fact; else that it is one of those which a named provider or
category offers, or which belong to the situation. The rest is drawn: a tool uniformly among those on offer, and values for
the arguments. So the same words beside the same tools are understood in the same way by every agent, and never as
what the task holds beyond them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from costgym.agents.models.reading import plausible
from costgym.simulators.marketplace.english import english
from costgym.simulators.marketplace.instructions import topic
from costgym.simulators.marketplace.tasks import Luck
from costgym.simulators.marketplace.vocabulary import vocabulary
from costgym.simulators.tasks import Need, Task, normalise
from costgym.simulators.tools import Catalog, Tool

VALID = 0.78
"""Chance that a guessed name or code is of something that there is, as the default in a tool's documentation is.

Of the 832 required parameters in the documents beside 196 of StableToolBench's solvable queries, 653 have a default value."""
_TOOLS: WeakKeyDictionary[Catalog, dict[str, list[Tool]]] = WeakKeyDictionary()


def understood(view: Any, everywhere: bool = False) -> Task:
    """The task as a reader of the query understands it: with the needs that the query states, and guesses.

    Where the query is the task's own or states all wishes, this is the task itself. Who does not know the catalogue
    `everywhere` makes do with the tools on offer, whatever the query names.
    """
    task: Task = view.task
    query: str = getattr(view, "query", task.query)  # numbers show the needs themselves, and no words
    guess = getattr(view.world.answers, "guess", None)
    if guess is None or query == task.query or all(need.wish and need.wish in query for need in task.needs):
        return task
    catalog = view.world.catalog
    luck = Luck("understood", task.number, query, seed=0)
    needs: dict[str, Need] = {}
    taken: set[str] = set()
    for need, name in zip(task.needs, task.named or [need.tools[0] for need in task.needs], strict=True):
        clue, fits = _clue(need, catalog.get(name), query)
        if clue in needs:
            continue
        known = list(catalog) if everywhere else [catalog.get(candidate) for candidate in task.candidates]
        fresh = [tool for tool in known if tool.capability not in taken] or known
        options = [tool for tool in fresh if fits(tool)] or fresh
        tool = options[luck.below(len(options))]
        taken.add(tool.capability)
        serving = tuple(other.name for other in _tools(catalog)[tool.capability])
        needs[clue] = guess(tool, task, serving, plausible(tool, None, luck.uniform()), luck.uniform, VALID)
    return replace(task, needs=tuple(needs.values()))


def _clue(need: Need, tool: Tool, query: str) -> tuple[str, Callable[[Tool], bool]]:
    """Return what a query says of a need, and which tools it leaves open."""
    text = normalise(query.replace("_", " "))

    def stands(name: str) -> bool:
        return bool(name) and normalise(name.replace("_", " ")) in text

    if topic(need) in query or stands(tool.title):
        return need.capability, lambda other: other.capability == need.capability
    if stands(tool.provider):
        return tool.provider, lambda other: other.provider == tool.provider
    known = english() if tool.origin else vocabulary()
    openers = [opener for category in known.categories if category.name == tool.category for opener in category.openers]
    if stands(f"{tool.category} ") or any(opener in query for opener in openers):
        return tool.category, lambda other: other.category == tool.category
    return "", lambda other: True


def _tools(catalog: Catalog) -> dict[str, list[Tool]]:
    if catalog not in _TOOLS:
        _TOOLS[catalog] = {}
        for tool in catalog:
            _TOOLS[catalog].setdefault(tool.capability, []).append(tool)
    return _TOOLS[catalog]
