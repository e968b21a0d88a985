"""The typed graph of an API: which operation reads which entity, takes which ids, and gives which.

The path `/orders/{order_id}/items` says that an order has items; `GET /orders` lists orders, whose `id` feeds `{order_id}`; the
`customer_id` of an order feeds `/customers/{customer_id}`. What the graph cannot type, no task uses, and the reason is counted.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from costgym.simulators.forge.phrases import NO_FIRST, NO_NOUN, field_words, is_past, phrase
from costgym.simulators.forge.queries import is_own_name
from costgym.simulators.forge.readers.operations import PLAIN, RESULT, Api, Field, Operation, Parameter
from costgym.simulators.forge.values import VALUE_FORMS, Spec, distinctive, draw, matches, spec_of
from costgym.simulators.forge.vocabulary import Vocabulary
from costgym.simulators.forge.words import is_english, is_plural, lexicon, singular, split

MAX_FACTS = 6  # that are asked of one operation
MAX_NOUN = 3  # words
MAX_CHOICE = 24  # characters of a choice that a question names
MAX_ARGUMENTS = 3  # that a question names
_IDENTIFIES = lexicon("identifies")
_VERSION = re.compile(
    r"^(v?\d+([._]\d+)*|v\d+\w*|api|rest|services?|public|latest|beta|\{version\}|\{api.?version\})$", re.IGNORECASE
)
_PLACE = re.compile(r"\{([^{}]+)\}")
_MACHINE = re.compile(
    r"^(x-.*|\$.*|.*api.?-?version|accept.*|authorization|content.?type|user.?agent|.*api.?_?key|app.?_?(id|key)|.*access.?token|auth"
    r"|oauth.?token|.*token|client.?_?(id|secret)|.*signature|sign|nonce|callback|format|output|alt|fields|expand|include|select|"
    r"filters?|page.*|per.?_?page|limit|offset|cursor|sort.*|order.?by|max.?results|marker|subscription.?_?id|tenant.*"
    r"|aws.?account.?id|account.?sid|prettyprint|quotauser|userip|version|scope|action|if-.*|idempotency.*|locale|session.*"
    r"|environment.?id|realm|workspace.?_?id|api|method|start|count|skip|top|max|ver|apikey|hl|media.?type.*|.*extension|cache.*|debug|dry.?run)$",
    re.IGNORECASE,
)
"""Names of parameters that only a machine knows: the session gives them, or they stay at their defaults."""
_WRITING = re.compile(
    r"^(create|add|update|set|delete|remove|put|post|patch|cancel|modify|insert|upload|disable|enable|start|stop|send|attach|detach"
    r"|associate|disassociate|register|deregister|reset|revoke|copy|restore|import|authorize|accept|reject|apply|change|run|tag"
    r"|untag|reboot|terminate|activate|deactivate|replace|publish|execute|submit|invoke|generate|purchase|assign|release|logout)"
    r"(e?s|d|ed)?$"
)
_ABOUT = lexicon("about")  # nouns that say nothing: the details of an order are the order
_VAGUE = lexicon("vague")
# forms of values that things are called by
_NAMES = frozenset(("title", "person", "last", "company", "city", "country", "login", "phrase", "email", "slug"))
_PEOPLE = lexicon("people")
_FIRST_PLURALS = lexicon("first plurals")
_IDENTIFIER = re.compile("_|[a-z][A-Z]")
_IDS = ("id", "ids", "uuid", "guid", "arn", "sid")
_ID_FORMS = {
    "username": "login", "login": "login", "user": "login", "name": "slug", "slug": "slug", "handle": "slug", "arn": "arn",
}  # fmt: skip
_NAMELESS = lexicon("nameless")  # nouns that nobody would ask about by themselves
_JOINTS, _LISTING, _READING = lexicon("joints"), lexicon("listing"), lexicon("reading")
_VERBS = lexicon("verbs")  # words that are verbs where a noun is expected
_NO_START = _VERBS | NO_FIRST | lexicon("done by")  # no noun of an operation begins with one
_NO_END = _VERBS | NO_NOUN | lexicon("which") | {"count", "status", "result", "response"}  # nor ends in one
_ALONE = lexicon("single of a kind")  # words for what there is one of, so that a question need not say which
_RANGE = lexicon("bounds")  # names of bounds: two of them have an order that arguments by themselves do not keep


@dataclass(frozen=True, slots=True)
class ArgumentDraft:
    """An argument that a call must have: the id of an entity, or a value of a form."""

    parameter: Parameter
    entity: str
    spec: Spec | None
    words: str


@dataclass(frozen=True, slots=True)
class FactDraft:
    """A fact that a response holds: where, in which words, of which form, and the entity whose id it is."""

    field: Field
    words: str
    spec: Spec | None
    gives: str = ""


@dataclass(slots=True)
class CapabilityDraft:
    """A read operation that tasks can use."""

    operation: Operation
    role: str  # "record" for one record, "list" for a list of entities
    entity: str  # that its record or its items are; "" for a record of no entity
    noun: str
    arguments: list[ArgumentDraft]  # that a call must have
    facts: list[FactDraft] = field(default_factory=list)
    session: list[str] = field(default_factory=list)  # parameters that the session gives


@dataclass(slots=True)
class EntityDraft:
    """A kind of thing that an API knows: its noun, the form of its ids, and what a person knows of it."""

    noun: str
    identity: Spec
    known: Spec | None = None
    known_as: str = ""


@dataclass(slots=True)
class Graph:
    """What tasks can be made of one API: entities, usable operations, and why the others are not."""

    api: Api
    entities: dict[str, EntityDraft] = field(default_factory=dict)
    capabilities: list[CapabilityDraft] = field(default_factory=list)
    unused: Counter[str] = field(default_factory=Counter)
    words: Vocabulary = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.words = Vocabulary(self.api)


def graph_of(api: Api) -> Graph:
    """Type the operations of an API."""
    graph = Graph(api)
    drafts: list[CapabilityDraft] = []
    for operation in api.operations:
        found = _capability(operation, graph)
        if isinstance(found, str):
            graph.unused[found] += 1
        else:
            drafts.append(found)
    wanted = {a.entity for each in drafts for a in each.arguments if a.entity}
    for draft in drafts:
        _ask(draft, wanted, graph)
    for draft in drafts:
        # a record of what a list calls by one name has no other name
        known = graph.entities[draft.entity].known_as if draft.entity in graph.entities else ""
        noun = set(draft.noun.lower().split(" "))
        if known and draft.role == "record":
            draft.facts = [f for f in draft.facts if f.gives or f.words == known or not is_own_name(f.words, noun)]
        if draft.facts:
            graph.capabilities.append(draft)
        else:
            graph.unused["nothing in the response can be asked for"] += 1
    used = {a.entity for each in graph.capabilities for a in each.arguments} | {e.entity for e in graph.capabilities}
    used |= {fact.gives for each in graph.capabilities for fact in each.facts}
    graph.entities = {key: each for key, each in graph.entities.items() if key in used}
    return graph


# -- operations ------------------------------------------------------------------------------------------------------------


def changes(operation: Operation) -> bool:
    """Return whether an operation writes, by its method or, where that says that it reads, by its name."""
    name = operation.words
    words = split(name.rsplit(".", 1)[-1].rsplit("_", 1)[-1])[:1] + split(name)[:1]
    return operation.writes or any(_WRITING.match(word) for word in words)


def _capability(operation: Operation, graph: Graph) -> CapabilityDraft | str:
    if changes(operation):
        return "writes"
    if not operation.fields:
        return "response not described"
    if not is_english(f"{operation.summary} {operation.description[:200]}"):
        return "not in English"
    arguments: list[ArgumentDraft] = []
    session: list[str] = []
    before = _segments(operation.path)
    own, listed = _subject(operation, graph.words)
    if not own:
        return "no noun in its name"
    for parameter in operation.parameters:
        if not parameter.required:
            continue
        if parameter.place == "header" or _MACHINE.match(parameter.name):
            session.append(parameter.name)
            continue
        # Google's documents name the whole of a path `name` or `parent`, which the path writes out
        whole = before.get("*", "") if parameter.name in ("name", "parent", "resource") else ""
        draft = _argument(parameter, before.get(parameter.name, whole), own, graph)
        if isinstance(draft, str):
            return draft
        arguments.append(draft)
    if len(arguments) > MAX_ARGUMENTS:
        return "too many required arguments"
    if len({a.entity for a in arguments if a.entity}) < sum(bool(a.entity) for a in arguments):
        return "two arguments of one kind"
    prefix = _list_prefix(operation, listed)
    role = "list" if prefix is not None else "record"
    key = "_".join(own)
    last = arguments[-1].entity if arguments else ""
    ends_in_id = role == "record" and operation.path.rstrip("/").endswith("}")
    if last and (ends_in_id or own[-1] in _ABOUT or (len(own) == 1 and own[0] in _VAGUE)):
        key, own = last, last.split("_")
    if last and role == "record" and last == "_".join(own[-last.count("_") - 1 :]):
        key = last  # the id of a job is that of the signing job
    if len(own) > 1 and own[-1] in _ABOUT:
        own = own[:-1]
    noun = graph.words.written(own)
    if (
        len(noun) > 40 or len(own) > MAX_NOUN or not graph.words.readable(own) or (len(own) == 1 and own[0] in _VAGUE)
        or own[0] in _NO_START or own[-1] in _NO_END or is_past(own[-1]) or "id" in own
        or any(is_plural(word) and word not in _FIRST_PLURALS for word in own[:-1])
    ):  # fmt: skip
        return "no noun in its name"
    if role == "record" and any(a.spec is not None and a.spec["form"] == "topic" for a in arguments):
        return "a search for one record"
    if role == "record" and not arguments and not set(own) & _ALONE:
        return "nothing says which one it reads"
    if role == "list" and any(a.entity == key for a in arguments):
        return "two arguments of one kind"
    return CapabilityDraft(operation, role, key, noun, arguments, session=session)


def _segments(path: str) -> dict[str, str]:
    """For each parameter in a path, the fixed part before it; and under "*" that of the last one."""
    found: dict[str, str] = {}
    before = ""
    for segment in path.split("?")[0].split("#")[0].strip("/").split("/"):
        names = _PLACE.findall(segment)
        if names:
            found |= dict.fromkeys((*names, "*"), "" if before == "{}" else before)
            before = "{}"
        elif not _VERSION.match(segment):
            before = segment
    return found


def _subject(operation: Operation, known: Vocabulary) -> tuple[list[str], bool]:
    """The words for what an operation reads, in the singular, and whether its name says that there are several."""
    words: list[str] = []
    path = operation.path.split("?")[0]
    segments = [s for s in path.strip("/").split("/") if s and not _VERSION.match(s)] if "#" not in path else []
    if segments:
        fixed = [s.split(":")[0] for s in segments if "{" not in s]
        words = known.split(fixed[-1].rsplit(".", 1)[-1]) if fixed else []
        while words and words[0] in _READING and len(words) > 1:
            words = words[1:]
    if not words or words[-1] in _READING or len("".join(words)) < 3:
        words = known.split(re.split(r"[./:#]", operation.words)[-1])
        if words and words[0] in ("get", "post", "search") and "_" in operation.words and len(words) == 1:
            words = known.split(operation.words)
        while words and (words[0] in _READING or words[0].isdigit()):
            words = words[1:]
    joints = [place for place, word in enumerate(words) if word in _JOINTS]
    if joints:
        words = words[: joints[0]] or words[joints[-1] + 1 :]
    words = [word for word in words if not word.isdigit()][-4:]
    if not words:
        return [], False
    several = is_plural(words[-1]) or bool(set(split(operation.words)) & _LISTING)
    return [*words[:-1], singular(words[-1])], several


def _list_prefix(operation: Operation, listed: bool) -> tuple[str, ...] | None:
    """The path of the list that an operation returns; None where it returns one record."""
    single = [
        f for f in operation.fields if not f.listed and not set(split(f.name)) & {"total", "count", "page", "next", "size"}
    ]
    several = [f for f in operation.fields if f.listed]
    if not several or (single and not listed):
        return None
    if not listed and any(len(f.path) == 1 or f.path[0] != "[]" for f in several):
        return None
    prefixes = Counter(f.path[: f.path.index("[]") + 1] for f in several)
    return max(prefixes, key=lambda prefix: (prefixes[prefix], -len(prefix)))


def _argument(parameter: Parameter, before: str, own: list[str], graph: Graph) -> ArgumentDraft | str:
    name, schema = parameter.name, parameter.schema
    words = graph.words.split(name)
    joint = next((place for place, word in enumerate(words) if word in _JOINTS), len(words))
    words = words[:joint] or words  # team_id_or_slug is a team's id
    if not words or len(name) > 60:
        return "an argument without a name"
    spec = spec_of(name, schema)
    entity = _entity_of(words, graph.words.split(before), own, spec, parameter.place)
    if entity and (not graph.words.readable(entity) or {entity[0], entity[-1]} & _NAMELESS or is_past(entity[-1])):
        return "no noun in its name"
    if entity:
        identity = _identity(words, schema, spec)
        if identity is None or not _accepted(identity, schema):
            return "an argument of unknown form"
        known = graph.entities.setdefault("_".join(entity), EntityDraft(graph.words.written(entity), identity))
        if not _accepted(known.identity, schema):
            return "ids of two forms"
        return ArgumentDraft(parameter, "_".join(entity), None, graph.words.written(entity))
    if schema.get("default") is not None and spec is None:
        spec = {"form": "enum", "of": [schema["default"]]}
    if spec is None and graph.api.kind in PLAIN and schema.get("type") == "string":
        spec = {"form": "slug"}
    if spec is None or schema.get("type") in ("array", "object"):
        if isinstance(schema.get("example"), str | int | float) and not isinstance(schema.get("example"), bool):
            spec = {"form": "enum", "of": [schema["example"]]}
        else:
            return "an argument of unknown form"
    if not _accepted(spec, schema):
        return "an argument of unknown form"
    if not graph.words.readable(words) or words[-1] in NO_NOUN or is_past(words[-1]):
        return "an argument without a name"
    if {words[0], words[-1]} & _RANGE:
        return "an argument that bounds a range"
    choices = [str(each) for each in spec.get("of", ())]
    if spec["form"] == "boolean" or any(len(each) > MAX_CHOICE or _IDENTIFIER.search(each) for each in choices):
        return "an argument whose choices nobody would say"
    return ArgumentDraft(parameter, "", spec, graph.words.written(words))


def _entity_of(words: list[str], before: list[str], own: list[str], spec: Spec | None, place: str) -> list[str]:
    """The entity whose id an argument is; empty where it is a plain value."""
    form = "" if spec is None else spec["form"]
    marked = words[-1] in _IDENTIFIES and not (words[-1] == "code" and form in VALUE_FORMS)
    if words in (["username"], ["user"], ["login"]):
        return ["user"]
    base = [*words[:-1], singular(words[-1])] if not marked else words[:-1]
    if marked and form in VALUE_FORMS and words[-1] not in ("id", "name", "number"):
        return []
    if form in VALUE_FORMS and not marked and not (place == "path" and words[-1] in ("location", "place")):
        return []
    if marked and base:
        return [*base[:-1], singular(base[-1])][-3:]
    fixed = [word for word in before if not word.isdigit()]
    if place == "path" and fixed:
        return [*fixed[:-1], singular(fixed[-1])][-3:]
    if marked:
        return own[-3:]
    if place == "path" and len(words) <= 3:
        return base
    return []


def _identity(words: list[str], schema: Mapping[str, Any], spec: Spec | None) -> Spec | None:
    """The form of an entity's ids."""
    kind = schema.get("type")
    if kind in ("array", "object", "boolean"):
        return None
    if spec is not None and spec["form"] == "enum":
        return spec if len(spec["of"]) > 7 else None
    if kind in ("integer", "number"):
        least, most = schema.get("minimum"), schema.get("maximum")
        low = max(10_000, int(least)) if isinstance(least, int | float) else 10_000
        high = min(9_999_999, int(most)) if isinstance(most, int | float) else 9_999_999
        return {"form": "integer", "low": float(low), "high": float(high)} if high - low > 1_000 else None
    if spec is not None and spec["form"] in ("uuid", "like", "arn", "email", "isbn", "url", "phone", "domain"):
        return spec
    return {"form": _ID_FORMS.get(words[-1], "code")}


def _accepted(spec: Spec, schema: Mapping[str, Any]) -> bool:
    """Return whether a parameter takes values of a form; some of them are tried against its pattern."""
    values = [draw(spec, 0, "try", number) for number in range(3)]
    wrong = {"integer": str | float, "number": str}.get(schema.get("type", ""), ())
    return all(not isinstance(value, wrong) and matches(schema.get("pattern"), str(value)) for value in values)


# -- facts -----------------------------------------------------------------------------------------------------------------


def _ask(draft: CapabilityDraft, wanted: set[str], graph: Graph) -> None:
    """Choose the facts that can be asked of an operation, and for a list what its entities are known by."""
    operation = draft.operation
    prefix = _list_prefix(operation, True) or () if draft.role == "list" else ()
    here = [f for f in operation.fields if f.path[: len(prefix)] == prefix and f.listed == prefix.count("[]")]
    named = any(a.entity == draft.entity for a in draft.arguments)
    own = draft.entity.split("_")
    facts: list[FactDraft] = []
    # what a question says already, it does not ask: the type of the policy of that type, the name of what its name names
    asked = [set(a.words.lower().split(" ")) for a in draft.arguments if not a.entity]
    asked += [
        {"name"} for a in draft.arguments if a.entity == draft.entity and graph.entities[a.entity].identity["form"] == "slug"
    ]
    for each in here:
        words = field_words(each.path[len(prefix) :], own, graph.words)
        if words is None or graph.words.written(words) == draft.noun:
            continue
        gives = _reference(words, own, wanted, draft.entity in wanted)
        if gives:
            noun = "ID" if gives == draft.entity else f"{graph.entities[gives].noun} ID"
            facts.append(FactDraft(each, noun, graph.entities[gives].identity, gives))
            continue
        spec = spec_of(each.name, each.schema, draft.entity)
        told = phrase(words, spec) if spec is not None and distinctive(spec) else None
        if told is None or told == own or told[-1] in _IDS or any(set(told) <= each for each in asked):
            continue
        facts.append(FactDraft(each, graph.words.written(told), spec))
    if [f.path for f in here] == [RESULT]:
        spec = spec_of(draft.noun.replace(" ", "_"), here[0].schema) or {"form": "title"}
        facts = [FactDraft(here[0], "name" if named else draft.noun, spec)] if distinctive(spec) else []
    facts = _distinct(facts)
    if draft.role == "list":
        facts = _listed(draft, facts, graph)
    if draft.entity in wanted and draft.role == "record" and named:
        facts = [fact for fact in facts if fact.gives != draft.entity]
    draft.facts = facts[:MAX_FACTS]


def _names(words: str, last: str, noun: set[str]) -> bool:
    """Return whether words that end so mean what a thing is called: its own name, or what people are called by."""
    if words.split(" ")[-1] != last:
        return False
    if last in ("name", "title", "label"):
        return is_own_name(words, noun) or (words == "last name" and bool(noun & _PEOPLE))
    return len(words.split(" ")) < 3


def _listed(draft: CapabilityDraft, facts: list[FactDraft], graph: Graph) -> list[FactDraft]:
    """The facts of a list's items; one of them is what a person knows the entity by, and the others are asked for."""
    plain = [fact for fact in facts if fact.spec is not None and not fact.gives]
    noun = set(draft.noun.lower().split(" "))
    naming = ("name", "title", "label", "subject", "headline", "login", "email")
    named = next((f for word in naming for f in plain if f.spec["form"] in _NAMES and _names(f.words, word, noun)), None)  # type: ignore[index]
    named = named or next(
        (f for f in plain if f.spec is not None and f.spec["form"] in ("email", "phone", "domain", "address")), None
    )
    if named is None:
        return []
    facts = [f for f in facts if f is named or f.gives or not is_own_name(f.words, noun)]
    entity = graph.entities.setdefault(draft.entity, EntityDraft(draft.noun, {"form": "code"}))
    if entity.known is None:
        entity.known, entity.known_as = named.spec, named.words
    if entity.known_as != named.words or len(facts) < 2:
        return []
    return [*[fact for fact in facts if fact is not named][: MAX_FACTS - 1], named]


def _reference(words: list[str], own: list[str], wanted: set[str], self_wanted: bool) -> str:
    """The entity whose id a field is; "" where it is none that an operation takes."""
    if self_wanted and (words in (["id"], ["uuid"], ["guid"], ["arn"], ["sid"]) or words == own):
        return "_".join(own)
    if words[-1] in ("id", "uuid", "guid", "sid", "arn", "key", "slug") and len(words) > 1:
        key = "_".join([*words[:-2], singular(words[-2])])
        return key if key in wanted else ""
    return ""


def _distinct(facts: list[FactDraft]) -> list[FactDraft]:
    seen: dict[str, FactDraft] = {}
    for fact in sorted(facts, key=lambda f: (not f.gives, len(f.field.path), len(f.words))):
        seen.setdefault(fact.words, fact)
    return list(seen.values())
