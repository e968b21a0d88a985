"""Compose scenarios of the kind `forged` from the typed graphs of APIs."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.failures import KINDS
from costgym.simulators.forge.drafts import ArgumentDraft, CapabilityDraft, FactDraft, Graph
from costgym.simulators.forge.readers.documents import line
from costgym.simulators.forge.readers.operations import Operation
from costgym.simulators.forge.verbs import ACT, CHANGE, CREATE, REMOVE
from costgym.simulators.forge.words import split, written
from costgym.simulators.marketplace.tasks import Luck

MAX_OPTIONAL = 6  # most optional parameters of a tool
LONGEST_WHOLE = 1_900  # characters of the description of one's own tool
LONGEST_TOLD = 300  # characters of a tool's description, unless the world is one's own
USABLE = 0.615  # mean reliability of the tools where nothing was measured: that of the failure preset `rapidapi-2023`
MIRRORS = 3  # most resellers of an operation; a generated marketplace has four providers of a capability, too
RESELLERS = ("Northgate", "Relay Hub", "Quickline", "Harbour API", "Fairway", "Bluebridge", "Overland", "Tidewater")
"""Providers that resell operations of others in these worlds. They are invented, and marked as mirrors."""
STATUS_KINDS = {401: "unauthorized", 403: "unauthorized", 404: "not_found"}
"""Ways to fail by the HTTP statuses that documents declare. 429 gives a tool a rate limit, and 409 concerns writes only."""
# ways to fail that every API has, whether its document declares them or not
ALWAYS = ("server_error", "timeout", "connection_error", "empty", "irrelevant")
_KEYED = re.compile(r"(x-)?idempot|client.?token$|request.?id$", re.IGNORECASE)
_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def api_document(graph: Graph) -> dict[str, Any]:
    """All that tasks can use of one API as plain data: entities, capabilities, and the document's own tools."""
    tool_names, labels_taken = Names(), Names()
    entities: dict[str, Any] = {}
    capabilities: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    for draft in graph.capabilities:
        capability = _capability(draft, graph, entities, labels_taken)
        capabilities.append(capability)
        tool = _tool(draft.operation, graph, tool_names.free(draft.operation.name), capability["name"], draft.session)
        tools.append(tool | _write(draft))
    api = graph.api
    about = {"name": line(api.name, 300), "title": api.title, "digest": api.digest, "kind": api.kind}
    return {
        "document": about, "provider": api.provider, "category": api.category, "entities": entities,
        "capabilities": capabilities, "tools": tools,
    }  # fmt: skip


def world_document(
    apis: Sequence[Mapping[str, Any]],
    name: str,
    seed: int,
    capabilities: int = 40,
    profiles: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
    own: bool = False,
) -> dict[str, Any] | None:
    """A scenario of one or several APIs as `api_document` made them, the main one first, as plain data; None where nothing can
    be asked of them.

    Args:
        apis: What was read of the documents.
        name: The scenario's name.
        seed: Its seed.
        capabilities: Most operations that tasks use.
        profiles: Measured profiles; a tool has that of its name, or one of them that its name chooses.
        settings: Measured failures, prices and budget; None for the marketplace's failures, of the kinds that the documents
            declare.
        own: The tools are one's own: no resellers, whole descriptions, no irrelevant answers, and no price and no failure where
            none was measured.
    """
    luck = Luck("forge", name, seed=seed)
    entities: dict[str, Any] = {}
    listed: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    tool_names, labels_taken = Names(), Names()
    for index, api in enumerate(apis):
        share = capabilities if len(apis) == 1 else capabilities // (2 if index == 0 else 2 * (len(apis) - 1))
        chosen = _chosen(api["capabilities"], share, luck)
        prefix = f"a{index}_" if len(apis) > 1 else ""
        chosen, roles = _roles(chosen)
        labels = {part_of_api["name"]: labels_taken.free(part_of_api["name"]) for part_of_api in chosen}
        listed += [_renamed(part_of_api, labels, prefix) for part_of_api in chosen]
        used = {part_of_api["entity"] for part in chosen for part_of_api in _parts(part)}
        entities |= {prefix + key: part_of_api for key, part_of_api in api["entities"].items() if key in used}
        for tool in _offered(api["tools"], labels, roles, tool_names):
            mirrored = not own and "capability" in tool and tool.get("idempotent") != "always"
            tools += [tool, *(_mirrors(tool, seed, tool_names) if mirrored else ())]
    if not listed:
        return None
    for tool in tools:
        tool["description"] = tool["description"] if own else line(tool["description"], LONGEST_TOLD)
    _set_profiles(tools, profiles, own)
    documents = [dict(api["document"]) for api in apis]
    titles = list(dict.fromkeys(document["title"] for document in documents))
    kinds = kinds_of([tool.get("statuses", ()) for tool in tools])
    if own:
        kinds.pop("irrelevant", None)
    return {
        "name": name,
        "description": line(f"Forged from {', '.join(titles)}.", 200),
        "seed": seed,
        **(settings or {"failures": {"usable": USABLE, "kinds": kinds}}),
        "source": {
            "kind": "forged", "version": 1, "documents": documents, "entities": entities, "capabilities": listed,
            "tools": tools,
        },
    }  # fmt: skip


OWN_PROFILE = {"fee": 0.0, "reliability": 1.0, "slip": 0.0, "persistence": 0.0, "advertised_success": 1.0}
"""Profile of one's own tool that no log has measured."""


def _offered(
    tools: Iterable[dict[str, Any]], labels: Mapping[str, str], roles: Mapping[str, tuple[str, str]], names: "Names"
) -> Iterator[dict[str, Any]]:
    """The tools that serve a chosen capability, or a role beside one, such as to check its effects, under free names."""
    for tool in tools:
        label = tool["capability"]
        if label in roles:
            role, of = roles[label]
            rest = {key: value for key, value in tool.items() if key not in ("capability", "writes", "idempotent")}
            yield {**rest, "name": names.free(tool["name"]), role: labels[of]}
        elif label in labels:
            yield {**tool, "name": names.free(tool["name"]), "capability": labels[label]}


def _set_profiles(tools: Iterable[dict[str, Any]], profiles: Sequence[Mapping[str, Any]], own: bool) -> None:
    known = {str(entry.get("name")): dict(entry.get("profile", {})) for entry in profiles}
    others = list(known.values())
    for tool in tools:
        if own:
            tool["profile"] = known.get(tool["name"], OWN_PROFILE)
        elif others:
            tool["profile"] = known.get(tool["name"]) or others[stable_integer(0, "profile", tool["name"]) % len(others)]


def _roles(chosen: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], dict[str, tuple[str, str]]]:
    """Choose, for what writes, operations that tell of its effects and that take them back, where there are some to spare.
    Returns the other capabilities, and by name what those do and for which."""
    roles: dict[str, tuple[str, str]] = {}

    def free(role: str, entity: str) -> list[Mapping[str, Any]]:
        return [
            capability
            for capability in chosen
            if capability["role"] == role and capability["entity"] == entity and capability["name"] not in roles
        ]

    for write in chosen:
        entity = write["entity"]
        takes = {argument["name"] for argument in write["arguments"]}
        if write["role"] not in (CREATE, ACT) or not entity or write["name"] in roles:
            continue
        reads = free("list", entity) + free("record", entity)
        telling = [
            capability
            for capability in reads
            if capability["arguments"] and {argument["name"] for argument in capability["arguments"]} <= takes
        ]
        if telling and len(reads) > 1:
            roles[telling[0]["name"]] = "checks", write["name"]
        if write["role"] == CREATE:
            undo = [
                capability
                for capability in free(REMOVE, entity)
                if [a.get("entity") for a in capability["arguments"]] == [entity]
            ]
            if undo:
                roles[undo[0]["name"]] = "compensates", write["name"]
    return [capability for capability in chosen if capability["name"] not in roles and _useful(capability)], roles


def _useful(capability: Mapping[str, Any]) -> bool:
    """Return whether tasks can use a capability; a list that names nothing can only tell of effects."""
    return "verb" in capability or any(not fact.get("shown") for fact in capability["facts"])


def _parts(capability: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What refers to an entity in a capability."""
    parts = (capability, *capability["arguments"], *capability["facts"])
    return [part for part in parts if part.get("entity")]


def _renamed(capability: Mapping[str, Any], labels: Mapping[str, str], prefix: str) -> dict[str, Any]:
    made = {**capability, "name": labels[capability["name"]], "entity": prefix + capability["entity"]}
    for key in ("arguments", "facts"):
        made[key] = [{**part, "entity": prefix + part["entity"]} if part.get("entity") else part for part in capability[key]]
    return made


def kinds_of(statuses: Sequence[Sequence[int]]) -> dict[str, float]:
    """Weights of the ways to fail: the marketplace's, of those that some tool declares and those that every API has."""
    declared = {code for codes in statuses for code in codes}
    names = {STATUS_KINDS[code] for code in declared if code in STATUS_KINDS} | set(ALWAYS)
    if not declared:  # documents that declare nothing have every kind
        names |= set(KINDS)
    return {kind: weight for kind, weight in KINDS.items() if kind in names}


def _chosen(capabilities: Sequence[Mapping[str, Any]], room: int, luck: Luck) -> list[Mapping[str, Any]]:
    """Choose operations, those first that feed each other."""
    if len(capabilities) <= room:
        return list(capabilities)
    takes = [
        (capability["name"], a["entity"]) for capability in capabilities for a in capability["arguments"] if a.get("entity")
    ]
    gives: dict[str, list[str]] = {}
    for capability in capabilities:
        for fact in capability["facts"]:
            if fact.get("entity"):
                gives.setdefault(fact["entity"], []).append(capability["name"])
    pairs = [(first, second) for second, entity in takes for first in gives.get(entity, ())[:4] if first != second]
    picked: dict[str, None] = {}
    for first, second in luck.order(pairs[:2_000]):
        if len(picked) + 2 > room - room // 4:
            break
        picked |= {first: None, second: None}
    for capability in luck.order(list(capabilities)):
        if len(picked) >= room:
            break
        picked[capability["name"]] = None
    return [capability for capability in capabilities if capability["name"] in picked]


def _mirrors(tool: Mapping[str, Any], seed: int, names: "Names") -> list[dict[str, Any]]:
    """The same operation through resellers, at other prices."""
    luck = stable_integer(seed, "mirrors", tool["name"])
    mirrors = []
    for turn in range(1 + luck % MIRRORS):
        reseller = RESELLERS[(luck // 8 + turn) % len(RESELLERS)]
        name = names.free(tool["title"], "_via_" + reseller.lower().replace(" ", "_"))
        description = f"{tool['description']} Offered through {reseller}."
        mirrors.append({**tool, "name": name, "provider": reseller, "rival": "mirror", "description": description})
    return mirrors


def _capability(draft: CapabilityDraft, graph: Graph, entities: dict[str, Any], names: "Names") -> dict[str, Any]:
    for entity in (draft.entity, *(a.entity for a in draft.arguments), *(fact.gives for fact in draft.facts)):
        if entity in graph.entities:
            described = graph.entities[entity]
            made = {"noun": described.noun, "id": described.identity} | (
                {"key": described.key} if described.key != "id" else {}
            )
            if described.known is not None:
                made |= {"known_as": described.known_as, "known": described.known}
            entities[entity] = made
    return {
        "name": names.free(draft.operation.name),
        "role": draft.role,
        "entity": draft.entity,
        "noun": draft.noun,
        "arguments": [_argument(argument) for argument in draft.arguments],
        "facts": [_fact(part) for part in draft.facts] + _own_id(draft),
        **({"verb": draft.verb} if draft.writes else {}),
    }


def _own_id(draft: CapabilityDraft) -> list[dict[str, Any]]:
    """The id of a record whose document does not say that the record has it, so that its answer shows whose it is."""
    argument = next((argument for argument in draft.arguments if argument.entity == draft.entity), None)
    single = all(fact.field.listed == 0 for fact in draft.facts)
    if draft.role != "record" or argument is None or not single or any(fact.gives == draft.entity for fact in draft.facts):
        return []
    path = argument.parameter.name
    taken = any(fact.field.path[0] == path for fact in draft.facts)
    return [] if taken else [{"path": [path], "words": "ID", "entity": draft.entity, "shown": True}]


def _write(draft: CapabilityDraft) -> dict[str, Any]:
    """What a tool's calls do, of an operation that writes."""
    if not draft.writes:
        return {}
    operation = draft.operation
    again = operation.idempotent
    always = draft.role in (CHANGE, REMOVE) if again is None else again
    keyed = any(_KEYED.match(parameter.name) for parameter in operation.parameters)
    return {"writes": True, **({"idempotent": "always" if always else "key"} if always or keyed else {})}


def _argument(draft: ArgumentDraft) -> dict[str, Any]:
    form = {"entity": draft.entity} if draft.entity else {"value": draft.spec}
    number = {"number": True} if draft.parameter.schema.get("type") in ("integer", "number") else {}
    changes = {"changes": True} if draft.changes else {}
    name, *path = draft.within or (draft.parameter.name,)
    return {"name": name, "words": draft.words, **form, **number, **changes, **({"path": path} if path else {})}


def _fact(draft: FactDraft) -> dict[str, Any]:
    made: dict[str, Any] = {"path": list(draft.field.path), "words": draft.words}
    made |= {"entity": draft.gives} if draft.gives else {"value": draft.spec}
    return made | ({"shown": True} if draft.shown else {})


def _tool(operation: Operation, graph: Graph, name: str, capability: str, session: Sequence[str]) -> dict[str, Any]:
    summary, description = operation.summary.strip(), operation.description
    text = description if description.startswith(summary.rstrip(".…")) else f"{summary.rstrip('.')}. {description}".strip(" ")
    text = text.strip(". ") or written(split(operation.name)).capitalize()
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in operation.parameters:
        if parameter.name in session or parameter.location == "header" or parameter.name in properties:
            continue
        if _KEYED.match(parameter.name):
            continue
        if parameter.required:
            required.append(parameter.name)
        elif len(properties) - len(required) == MAX_OPTIONAL:
            continue
        schema = {key: value for key, value in parameter.schema.items() if key not in ("example", "pattern")}
        properties[parameter.name] = schema | ({"description": parameter.description} if parameter.description else {})
    made = {
        "name": name,
        "capability": capability,
        "description": line(text, LONGEST_WHOLE).rstrip(".") + ".",
        "category": graph.api.category,
        "provider": graph.api.provider,
        "title": line(operation.name, 100),
        "parameters": {"type": "object", "properties": properties, "required": required},
        "statuses": list(operation.statuses) if capability else [],
    }
    return {key: value for key, value in made.items() if value not in ("", [])}


class Names:
    """Names that no two tools, or no two capabilities, have. A name that comes often costs no more than one that comes once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._laps: dict[str, int] = {}

    def free(self, name: str, suffix: str = "") -> str:
        """A name of at most 64 letters, digits, dashes and underscores, with a number where it is taken."""
        plain = _NAME.sub("_", name[:200]).strip("_") or "tool"
        name, lap = plain[: 64 - len(suffix)] + suffix, self._laps.get(plain + suffix, 1)
        while name in self._taken:
            lap += 1
            end = f"_{lap}{suffix}"
            name = plain[: 64 - len(end)] + end
        self._taken.add(name)
        self._laps[plain + suffix] = lap
        return name
