"""Compose scenarios of the kind `forged` from the typed graphs of APIs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..draws import stable_integer
from ..failures import KINDS
from ..marketplace.tasks import Luck
from .documents import line
from .graph import ArgumentDraft, CapabilityDraft, FactDraft, Graph, changes
from .operations import Operation
from .words import split, written

MIRRORS = 3
"""Most resellers of an operation; a generated marketplace has four providers of a capability, too."""
MAX_OPTIONAL = 6
"""Most optional parameters of a tool that are kept."""
RESELLERS = ("Northgate", "Relay Hub", "Quickline", "Harbour API", "Fairway", "Bluebridge", "Overland", "Tidewater")
"""Providers that resell operations of others in these worlds. They are invented, and marked as mirrors."""
STATUS_KINDS = {401: "unauthorized", 403: "unauthorized", 404: "not_found"}
"""Ways to fail by the HTTP statuses that documents declare. 429 gives a tool a rate limit, and 409 concerns writes only."""
ALWAYS = ("timeout", "connection_error", "empty", "irrelevant")
"""Ways to fail that no document declares, and every API has."""
_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def document_of(
    graphs: Sequence[Graph],
    name: str,
    seed: int,
    capabilities: int = 40,
    writes: int = 20,
    profiles: Sequence[Mapping[str, Any]] = (),
    failures: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """A scenario of one or several APIs as plain data; None where nothing can be asked of them.

    Args:
        graphs: The APIs, the main one first.
        name: The scenario's name.
        seed: The scenario's seed, which also chooses operations and resellers.
        capabilities: Most operations that tasks can use.
        writes: Most tools kept that write.
        profiles: Measured profiles of tools; each tool has that of its name, or one of them that its name chooses.
        failures: A measured failure model; None for the marketplace's, with the kinds that the documents declare.
    """
    luck = Luck("forge", name, seed=seed)
    drawn: list[tuple[int, CapabilityDraft]] = []
    for place, graph in enumerate(graphs):
        room = capabilities if len(graphs) == 1 else max(2, capabilities // (2 if place == 0 else 2 * (len(graphs) - 1)))
        drawn += [(place, draft) for draft in _chosen(graph, min(room, capabilities - len(drawn)), luck)]
    if not drawn:
        return None
    taken: set[str] = set()
    entities: dict[str, Any] = {}
    listed: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    for place, draft in drawn:
        graph = graphs[place]
        prefix = f"a{place}_" if len(graphs) > 1 else ""
        capability = _capability(draft, graph, prefix, entities, taken)
        listed.append(capability)
        tools += _tools(draft, graph, capability["name"], seed, taken)
    reads = [tool["statuses"] for tool in tools]
    for graph in graphs:
        kept = [each for each in graph.api.operations if changes(each)][: writes // len(graphs)]
        tools += [_tool(each, graph, _unique(each.name, taken), "", True, ()) for each in kept]
    if profiles:
        known = {str(each.get("name")): each for each in profiles}
        for tool in tools:
            chosen = known.get(tool["name"]) or profiles[stable_integer(0, "profile", tool["name"]) % len(profiles)]
            tool["profile"] = dict(chosen.get("profile", {}))
    titles = list(dict.fromkeys(graph.api.title for graph in graphs))
    document = {
        "name": name,
        "description": line(f"Forged from {', '.join(titles)}.", 200),
        "seed": seed,
        "source": {
            "kind": "forged",
            "documents": [
                {"name": line(g.api.name, 300), "title": g.api.title, "digest": g.api.digest, "kind": g.api.kind}
                for g in graphs
            ],
            "entities": entities,
            "capabilities": listed,
            "tools": [{key: value for key, value in tool.items() if value not in ((), [], "", {}, False)} for tool in tools],
        },
    }
    document["failures"] = dict(failures) if failures else {"usable": 0.615, "kinds": kinds_of(reads)}
    return document


def kinds_of(statuses: Sequence[Sequence[int]]) -> dict[str, float]:
    """Weights of the ways to fail: the marketplace's, of those that some tool declares and those that every API has."""
    declared = {code for codes in statuses for code in codes}
    names = {STATUS_KINDS[code] for code in declared if code in STATUS_KINDS} | set(ALWAYS)
    if any(code >= 500 for code in declared) or not declared:
        names.add("server_error")
    if not declared:  # documents that declare nothing have every kind
        names |= set(KINDS)
    return {kind: weight for kind, weight in KINDS.items() if kind in names}


def _chosen(graph: Graph, room: int, luck: Luck) -> list[CapabilityDraft]:
    """Choose operations, those first that feed each other: a pair that is linked, then what is linked to it."""
    drafts = {draft.operation.name: draft for draft in graph.capabilities}
    if len(drafts) <= room:
        return list(drafts.values())
    edges = luck.order(graph.edges())
    picked: dict[str, None] = {}
    for first, second, _ in edges:
        if len(picked) + 2 > room - room // 4:
            break
        picked |= {first: None, second: None}
    for name in luck.order(list(drafts)):
        if len(picked) >= room:
            break
        picked[name] = None
    return [draft for name, draft in drafts.items() if name in picked]


def _capability(draft: CapabilityDraft, graph: Graph, prefix: str, entities: dict[str, Any], taken: set[str]) -> dict[str, Any]:
    def key(entity: str) -> str:
        if entity in graph.entities:
            found = graph.entities[entity]
            made = {"noun": found.noun, "id": found.identity}
            if found.known is not None:
                made |= {"known_as": found.known_as, "known": found.known}
            entities.setdefault(prefix + entity, made)
        return prefix + entity

    label = _NAME.sub("_", draft.operation.name)[:60].strip("_") or "operation"
    name, lap = label, 1
    while f"capability {name}" in taken:
        lap += 1
        name = f"{label}_{lap}"
    taken.add(f"capability {name}")
    return {
        "name": name,
        "role": draft.role,
        "entity": key(draft.entity),
        "noun": draft.noun,
        "arguments": [_argument(each, key) for each in draft.arguments],
        "facts": [_fact(each, key) for each in draft.facts],
    }


def _argument(draft: ArgumentDraft, key: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": draft.parameter.name, "words": draft.words}
    made |= {"entity": key(draft.entity)} if draft.entity else {"value": draft.spec}
    if draft.parameter.schema.get("type") in ("integer", "number"):
        made["number"] = True
    return made


def _fact(draft: FactDraft, key: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"path": list(draft.field.path), "words": draft.words}
    return made | ({"entity": key(draft.gives)} if draft.gives else {"value": draft.spec})


def _tools(draft: CapabilityDraft, graph: Graph, capability: str, seed: int, taken: set[str]) -> list[dict[str, Any]]:
    """The document's own operation, and resellers of it at other prices."""
    operation = draft.operation
    found = [_tool(operation, graph, _unique(operation.name, taken), capability, False, draft.session)]
    luck = stable_integer(seed, "mirrors", graph.api.digest, operation.name)
    for turn in range(1 + luck % MIRRORS):
        reseller = RESELLERS[(luck // 8 + turn) % len(RESELLERS)]
        mirror = _tool(operation, graph, "", capability, False, draft.session)
        suffix = "_via_" + reseller.lower().replace(" ", "_")
        mirror["name"] = _unique(operation.name, taken, suffix)
        mirror["provider"] = reseller
        mirror["rival"] = "mirror"
        mirror["description"] += f" Offered through {reseller}."
        found.append(mirror)
    return found


def _tool(
    operation: Operation, graph: Graph, name: str, capability: str, writes: bool, session: Sequence[str]
) -> dict[str, Any]:
    told = operation.description if operation.description.startswith(operation.summary) else operation.summary
    told = told or operation.description or written(split(operation.name)).capitalize()
    properties: dict[str, Any] = {}
    required: list[str] = []
    optional = 0
    for parameter in operation.parameters:
        if parameter.name in session or parameter.place == "header" or parameter.name in properties:
            continue
        if not parameter.required:
            optional += 1
            if optional > MAX_OPTIONAL:
                continue
        schema = {key: value for key, value in parameter.schema.items() if key not in ("example", "pattern")}
        if parameter.description:
            schema["description"] = parameter.description
        properties[parameter.name] = schema
        if parameter.required:
            required.append(parameter.name)
    return {
        "name": name,
        "capability": capability,
        "description": told.rstrip(".") + ".",
        "category": graph.api.category,
        "provider": graph.api.provider,
        "title": line(operation.name, 100),
        "parameters": {"type": "object", "properties": properties, "required": required},
        "writes": writes,
        "statuses": [] if writes else list(operation.statuses),
        "rival": "",
        "profile": {},
    }


def _unique(name: str, taken: set[str], suffix: str = "") -> str:
    """A name that models can call and no other tool has."""
    plain = _NAME.sub("_", name).strip("_") or "tool"
    found, lap = plain[: 64 - len(suffix)] + suffix, 1
    while found in taken:
        lap += 1
        end = f"_{lap}{suffix}"
        found = plain[: 64 - len(end)] + end
    taken.add(found)
    return found


def tally(graphs: Sequence[Graph]) -> dict[str, Any]:
    """How many operations of some APIs can be used, and why the others cannot."""
    unused: Counter[str] = Counter()
    for graph in graphs:
        unused.update(graph.unused)
    return {
        "documents": len(graphs),
        "operations": sum(len(graph.api.operations) for graph in graphs),
        "used": sum(len(graph.capabilities) for graph in graphs),
        "unused": dict(sorted(unused.items(), key=lambda item: (-item[1], item[0]))),
    }
