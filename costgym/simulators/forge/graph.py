"""The typed graph of an API: which operation reads which entity, takes which ids, and gives which.

The path `/orders/{order_id}/items` says that an order has items; `GET /orders` lists orders, whose `id` feeds `{order_id}`; the
`customer_id` of an order feeds `/customers/{customer_id}`. What the graph cannot type, no task uses, and the reason is counted.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from costgym.simulators.forge.phrases import NO_FIRST, NO_NOUN, field_words, is_past, phrase
from costgym.simulators.forge.queries import is_own_name
from costgym.simulators.forge.readers.operations import PLAIN, RESULT, Api, Field, Operation, Parameter
from costgym.simulators.forge.values import VALUE_FORMS, Spec, distinctive, draw, matches, spec_of
from costgym.simulators.forge.verbs import CHANGE, CREATE, KINDS, deed, writes
from costgym.simulators.forge.vocabulary import Vocabulary
from costgym.simulators.forge.words import is_english, is_plural, lexicon, mapped, singular, split

MAX_FACTS = 6  # that are asked of one operation
MAX_NOUN = 3  # words
MAX_CHOICE = 24  # characters of a choice that a question names
MAX_ARGUMENTS = 3  # that a question names
MAX_WORDS = 2  # of a fact that is asked for
MAX_NESTED = 3  # objects and lists around an argument
_PLAIN_PARTS = {"id", "name", "type", "code", "number", "key", "value", "title", "email", "slug", "uuid"}
MAX_SHOWN = 6  # facts that an answer shows and nobody asks for
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
_ABOUT = lexicon("about")  # nouns that say nothing: the details of an order are the order
_VAGUE = lexicon("vague")
# forms of values that things are called by
_NAMES = frozenset(("title", "person", "last", "company", "city", "country", "login", "handle", "phrase", "email", "slug"))
_PEOPLE = lexicon("people")
_FIRST_PLURALS = lexicon("first plurals")
_IDENTIFIER = re.compile("_|[a-z][A-Z]")
_IDS = ("id", "ids", "uuid", "guid", "arn", "sid")
_ID_FORMS = {
    "username": "handle", "login": "handle", "user": "handle", "name": "slug", "slug": "slug", "handle": "slug", "arn": "arn",
}  # fmt: skip
_KEYS = ("name", "slug", "username", "login", "handle", "symbol", "sku", "email")  # last words of ids that people say
_FIGURES = lexicon("amounts") | lexicon("numeric") | lexicon("counts")
_MACHINES, _MACHINE_VERBS = lexicon("of machines"), lexicon("machine verbs")
_UNWANTED, _SAID, _ING = lexicon("unwanted"), lexicon("said of a thing"), lexicon("nouns in ing")
_FREE, _CLASSES = lexicon("free text"), lexicon("classes")
_CHANGES_AT_END = {"add", "append", "remove", "delete", "insert", "replace", "clear"}  # archival_memory_add
_STATES = {"status", "state", "stage"}  # words for what a new thing gets by itself
_MONEY, _COUNTED = lexicon("amounts"), lexicon("counts")
_NAMELESS = lexicon("nameless")  # nouns that nobody would ask about by themselves
_JOINTS, _LISTING, _READING = lexicon("joints"), lexicon("listing"), lexicon("reading")
_OWNERS = {"repository", "user", "organization", "team"}  # that are in no repository
_VERBS = lexicon("verbs")  # words that are verbs where a noun is expected
_NO_START = _VERBS | NO_FIRST | lexicon("done by")  # no noun of an operation begins with one
_NO_END = _VERBS | NO_NOUN | lexicon("which") | {"count", "status", "result", "response"}  # nor ends in one
_ENDS_READING = frozenset(("get", "list", "search", "query", "lookup", "find", "fetch", "retrieve", "read"))
_BOTH = lexicon("verbs that are nouns")
"""Verbs that are nouns, too."""
_NUMBERED, _AUTHORED, _STATEFUL = lexicon("numbered"), lexicon("authored"), lexicon("stateful")
_BRANCHES, _SLUGGED, _HASHED = mapped("branches"), lexicon("named by slug"), lexicon("known by a hash")
_ONE_OF = re.compile(r"\bone of\b([^.]{0,200})", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[a-z]{3,}(-[a-z]+)*")  # an id that is a name, such as "davinci"
_PLACEHOLDERS = {"string", "example", "name", "null", "none", "value"}
_UNSAID = {"redirect", "callback", "webhook"}  # in names of arguments that nobody would say
_ALONE = lexicon("single of a kind")  # words for what there is one of, so that a question need not say which
_RANGE = lexicon("bounds")  # names of bounds: two of them have an order that arguments by themselves do not keep


@dataclass(frozen=True, slots=True)
class ArgumentDraft:
    """An argument that a call must have: the id of an entity, or a value of a form."""

    parameter: Parameter
    entity: str
    spec: Spec | None
    words: str
    changes: bool = False  # it is what a change gives a thing
    within: tuple[str, ...] = ()  # where it stands in the arguments, if it is part of an object or a list


@dataclass(slots=True)
class FactDraft:
    """A fact that a response holds: where, in which words, of which form, and the entity whose id it is."""

    field: Field
    words: str
    spec: Spec | None
    gives: str = ""
    shown: bool = False  # it is in the response, and nobody asks for it


@dataclass(slots=True)
class CapabilityDraft:
    """An operation that tasks can use."""

    operation: Operation
    role: str  # "record" for one record, "list" for a list of entities, or a kind of `verbs`
    entity: str  # that its record or its items are; "" for a record of no entity
    noun: str
    arguments: list[ArgumentDraft]  # that a call must have
    facts: list[FactDraft] = field(default_factory=list)
    session: list[str] = field(default_factory=list)  # parameters that the session gives
    verb: str = ""  # of an operation that writes

    @property
    def writes(self) -> bool:
        return bool(self.verb)


@dataclass(slots=True)
class EntityDraft:
    """A kind of thing that an API knows: its noun, the form of its ids, and what a person knows of it."""

    noun: str
    identity: Spec
    key: str = "id"  # the last word of the names of its ids: "id", or "name" where things are told apart by their names
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
    nouns: set[str] = field(init=False, repr=False)  # of its operations
    names: dict[str, list[str]] = field(init=False, repr=False)  # that are ids, by parameter

    def __post_init__(self) -> None:
        self.words = Vocabulary(self.api)
        self.nouns = {"_".join(_subject(operation, self.words)[0]) for operation in self.api.operations}
        self.names = _names_of_ids(self.api)

    def knows(self, entity: list[str]) -> bool:
        """Return whether some operation is about an entity."""
        key = "_".join(entity)
        return key in self.nouns or any(noun.endswith("_" + key) for noun in self.nouns)


def _names_of_ids(api: Api) -> dict[str, list[str]]:
    """The examples and choices of each parameter in a path that are plain names."""
    names: dict[str, dict[str, None]] = {}
    for parameter in (item for operation in api.operations for item in operation.parameters if item.place == "path"):
        listed = [item for match in _ONE_OF.findall(parameter.description) for item in re.findall(r"[`'\"]([^`'\"]+)", match)]
        plain = [str(item) for item in (parameter.schema.get("example", ""), *listed) if _PLAIN_NAME.fullmatch(str(item))]
        names.setdefault(parameter.name, {}).update(dict.fromkeys(item for item in plain if item not in _PLACEHOLDERS))
    return {name: list(values) for name, values in names.items() if values}


def graph_of(api: Api) -> Graph:
    """Type the operations of an API."""
    graph = Graph(api)
    drafts: list[CapabilityDraft] = []
    for operation in api.operations:
        draft = _capability(_described(operation, graph), graph)
        if isinstance(draft, str):
            graph.unused[draft] += 1
        else:
            drafts.append(draft)
    wanted = {a.entity for item in drafts for a in item.arguments if a.entity}
    for draft in drafts:
        if draft.role == CREATE:
            graph.entities.setdefault(draft.entity, EntityDraft(draft.noun, {"form": "code"}))
    for draft in drafts:
        _ask(draft, wanted, graph)
    makes = {draft.entity: {a.parameter.name for a in draft.arguments} for draft in drafts if draft.role == CREATE}
    for draft in drafts:
        # a record of what a list calls by one name has no other name
        known = graph.entities[draft.entity].known_as if draft.entity in graph.entities else ""
        noun = set(draft.noun.lower().split(" "))
        if known and draft.role == "record":
            draft.facts = [f for f in draft.facts if f.gives or f.words == known or not is_own_name(f.words, noun)]
        # a list that names nothing still shows whether something was made
        takes = {a.parameter.name for a in draft.arguments}
        tells = draft.role == "list" and bool(draft.facts and takes) and takes <= makes.get(draft.entity, set())
        if draft.writes or tells or any(not fact.shown for fact in draft.facts):
            graph.capabilities.append(draft)
        else:
            graph.unused["nothing in the response can be asked for"] += 1
    used = {a.entity for capability in graph.capabilities for a in capability.arguments} | {
        e.entity for e in graph.capabilities
    }
    used |= {fact.gives for capability in graph.capabilities for fact in capability.facts}
    graph.entities = {key: item for key, item in graph.entities.items() if key in used}
    return graph


# -- operations ------------------------------------------------------------------------------------------------------------


def _capability(operation: Operation, graph: Graph) -> CapabilityDraft | str:
    verb, kind = deed(operation) if writes(operation, graph.api.kind) else ("", "")
    if not verb and writes(operation, graph.api.kind):
        return "writes, and its name does not say what"
    if not verb and not operation.fields:
        return "response not described"
    if not is_english(f"{operation.summary} {operation.description[:200]}"):
        return "not in English"
    if not verb and _is_arithmetic(operation, graph):
        return "a user would not ask for it"
    session: list[str] = []
    subject, listed = _subject(operation, graph.words, verb)
    if not subject:
        return "no noun in its name"
    listed = listed and not operation.path.rstrip("/").endswith("}")  # one thing, whatever lists it holds
    typed = _arguments(operation, subject, kind, graph, session, listed)
    if isinstance(typed, str):
        return typed
    arguments = typed
    prefix = _list_prefix(operation, listed) if not verb else None
    role = kind or ("list" if prefix is not None else "record")
    key = "_".join(subject)
    last = arguments[-1].entity if arguments else ""
    if verb:
        key = _written(operation, arguments, kind, subject)
    else:
        ends_in_id = role == "record" and operation.path.rstrip("/").endswith("}")
        if last and (ends_in_id or subject[-1] in _ABOUT or (len(subject) == 1 and subject[0] in _VAGUE)):
            key, subject = last, last.split("_")
        if last and role == "record" and last == "_".join(subject[-last.count("_") - 1 :]):
            key = last  # the id of a job is that of the signing job
        if role == "record" and (last.startswith("_".join(subject) + "_") or last.endswith("_" + "_".join(subject))):
            key, subject = last, last.split("_")
    if len(subject) > 1 and subject[-1] in _ABOUT:
        subject = subject[:-1]
    noun = graph.words.written(subject)
    if (
        len(noun) > 40
        or len(subject) > MAX_NOUN
        or not graph.words.readable(subject)
        or (len(subject) == 1 and subject[0] in _VAGUE)
        or subject[0] in _NO_START or subject[-1] in _NO_END - (_BOTH if len(subject) > 1 else set()) or "id" in subject
        or (is_past(subject[-1]) and (subject[-1] not in _BOTH or len(subject) == 1))
        or (subject[0] in KINDS and subject[0] not in _BOTH) or subject[-1] in _CHANGES_AT_END
        or (subject[-1].endswith("ing") and subject[-1] not in _ING)
        or any(is_plural(word) and word not in _FIRST_PLURALS for word in subject[:-1])
    ):  # fmt: skip
        return "no noun in its name"
    if subject[-1] in (_UNWANTED if verb else _MACHINES) or subject[0] in _MACHINE_VERBS:
        return "a user would not ask for it"
    if verb:
        if not key:
            return "nothing says which one it changes"
        if kind == CHANGE and not any(a.changes for a in arguments):
            return "nothing says what it changes"
        if kind == CREATE and (not any(map(_is_content, arguments)) or any(a.entity == key for a in arguments)):
            return "nothing says what it makes"
        return CapabilityDraft(operation, role, key, noun, arguments, session=session, verb=verb)
    if role == "record" and any(a.spec is not None and a.spec["form"] == "topic" for a in arguments):
        return "a search for one record"
    if role == "record" and not arguments and not set(subject) & _ALONE:
        return "nothing says which one it reads"
    if role == "list" and any(a.entity == key for a in arguments):
        return "two arguments of one kind"
    return CapabilityDraft(operation, role, key, noun, arguments, session=session)


_TIMES = (
    Field(("created_at",), {"type": "string", "format": "date-time"}),
    Field(("updated_at",), {"type": "string", "format": "date-time"}),
)
_STATE = Field(("state",), {"type": "string", "enum": ["open", "closed", "pending", "archived"]})
_ID, _AUTHOR = Field(("id",), {"type": "string"}), Field(("author",), {"type": "string"})
_TITLED = (_ID, Field(("title",), {"type": "string"}), _STATE, _AUTHOR, *_TIMES)
_NAMED_BY_SLUG = (_ID, Field(("name",), {"type": "string", "format": "slug"}), _AUTHOR, *_TIMES)
_UNTITLED = (_ID, _AUTHOR, *_TIMES)
_PERSON = (
    _ID, Field(("name",), {"type": "string"}), Field(("email",), {"type": "string", "format": "email"}),
    Field(("company",), {"type": "string"}), Field(("location",), {"type": "string"}), _TIMES[0],
)  # fmt: skip
_USUAL = (  # what a record holds where no document and no log describes the result of a tool, by words of its noun
    (_PEOPLE | {"profile"}, _PERSON),
    (lexicon("untitled"), _UNTITLED),
    (_SLUGGED, _NAMED_BY_SLUG),
)


_UNDATED = {"member", "file", "category"}  # nobody asks when one was created
_LASTING = {"commit", "tag", "release", "payment", "refund", "message", "email"}  # nobody updates one


def _described(operation: Operation, graph: Graph) -> Operation:
    """An operation with the fields of its result; where its document does not describe it, with those of a usual record,
    unless its noun itself is a value, as a price is."""
    if [f.path for f in operation.fields] != [RESULT] or operation.fields[0].schema != {"type": "string"}:
        return operation
    verb = deed(operation)[0] if writes(operation, graph.api.kind) else ""
    subject, listed = _subject(operation, graph.words, verb)
    if not subject:
        return operation
    spec = spec_of("_".join(subject), {"type": "string"})
    if spec is not None and spec["form"] in VALUE_FORMS | {"weather", "person"}:
        return operation
    if subject[-1] in _FIGURES:
        return replace(operation, fields=(Field(RESULT, {"type": "number"}),))
    fields: tuple[Field, ...] = next((fields for words, fields in _USUAL if subject[-1] in words), _TITLED)
    unfit = {
        id(_TIMES[0]): subject[-1] in _UNDATED, id(_TIMES[1]): subject[-1] in _LASTING | _UNDATED,
        id(_AUTHOR): subject[-1] not in _AUTHORED, id(_STATE): subject[-1] not in _STATEFUL,
    }  # fmt: skip
    usual = tuple(item for item in fields if not unfit.get(id(item)))
    prefix = ("items", "[]") if listed and not verb else ()
    return replace(operation, fields=tuple(Field((*prefix, *item.path), item.schema) for item in usual))


def _written(operation: Operation, arguments: list[ArgumentDraft], kind: str, subject: list[str]) -> str:
    """The entity that an operation writes: a new one, or that whose id is among its arguments; "" where none is."""
    key = "_".join(subject)
    if kind == CREATE:
        return key
    entities = [a.entity for a in arguments if a.entity]
    if not operation.path:
        words = [w for w in split(operation.words) if w not in _JOINTS and w not in _READING]
        rest = set(words) - set(subject) - {singular(w) for w in subject}
        if any(w not in KINDS and singular(w) not in subject for w in rest):
            return ""  # its name says more than a query would
    return next((entity for entity in entities if entity == key or key.endswith("_" + entity)), "")


def _is_content(draft: ArgumentDraft) -> bool:
    """Return whether an argument says what a thing has, and not where it is."""
    return draft.spec is not None and draft.parameter.place in ("body", "query") and draft.words not in ("owner", "repository")


def _arguments(
    operation: Operation, subject: list[str], kind: str, graph: Graph, session: list[str], listed: bool
) -> list[ArgumentDraft] | str:
    """The arguments that a call must have; adds the names of those that a session gives to `session`. An operation that
    changes something also has the first of its optional ones that can be said, where it must have no value."""
    arguments: list[ArgumentDraft] = []
    before = _segments(operation.path)
    for parameter in operation.parameters:
        if not parameter.required:
            continue
        if parameter.place == "header" or _MACHINE.match(parameter.name):
            session.append(parameter.name)
            continue
        # Google's documents name the whole of a path `name` or `parent`, which the path writes out
        whole = before.get("*", "") if parameter.name in ("name", "parent", "resource") else ""
        bare = parameter.name in _IDENTIFIES and not before.get(parameter.name)
        prefix = before.get(f"^{parameter.name}", "") if bare else before.get(parameter.name, whole)
        draft = _argument(parameter, prefix, subject, graph, kind, listed)
        if "{owner}/{repo}" in operation.path and parameter.name in ("owner", "repo"):
            word, form = ("owner", "handle") if parameter.name == "owner" else ("repository", "slug")
            draft = ArgumentDraft(parameter, "", {"form": form}, word)
        if isinstance(draft, str) and parameter.place == "body" and parameter.schema.get("type") in ("array", "object"):
            parts = [(within, _argument(leaf, "", subject, graph, kind, listed)) for within, leaf in _leaves(parameter)]
            if not parts or sum("[]" in a.within for a in arguments) + ("[]" in parts[0][0]) > 1:
                return draft
            for within, part in parts:
                if isinstance(part, str):
                    return part
                arguments.append(replace(part, within=within))
            continue
        if isinstance(draft, str):
            return draft
        arguments.append(draft)
    stated = {a.words for a in arguments if not a.entity}
    inside = listed and not kind and subject[-1] not in _OWNERS and {"owner", "repo"} <= {p.name for p in operation.parameters}
    if inside or stated == {"owner"}:  # of a repository that may be left out
        others = (p for p in operation.parameters if p.name in ("owner", "repo", "repository"))
        drafts = (_argument(p, "", subject, graph, kind, listed) for p in others)
        arguments += [draft for draft in drafts if not isinstance(draft, str) and draft.words not in stated]
    if graph.api.kind in PLAIN and {a.words for a in arguments} & {"owner", "repository"} == {"owner"}:
        return "an argument of unknown form"
    ends = {name: index for index, name in enumerate(_PLACE.findall(operation.path))}
    arguments.sort(key=lambda a: ends.get(a.parameter.name, len(ends)) if a.parameter.place == "path" else len(ends))
    arguments = [replace(a, changes=kind == CHANGE and _is_content(a)) for a in arguments]
    if kind in (CREATE, CHANGE) and not any(_is_content(a) for a in arguments):
        optional = (
            draft
            for parameter in operation.parameters
            if not parameter.required and parameter.place in ("body", "query") and not _MACHINE.match(parameter.name)
            and parameter.name not in {a.parameter.name for a in arguments}
            and graph.words.split(parameter.name)[-1:] not in (["id"], ["uuid"], ["guid"])
            and not isinstance(draft := _argument(parameter, "", subject, graph, kind), str) and not draft.entity
            and draft.spec is not None and draft.words.lower().split(" ")[-1] in _SAID
            and draft.spec["form"] not in ("moment", "epoch", "decimal")
            and not (kind == CREATE and draft.words.lower().split(" ")[-1] in _STATES)
        )  # fmt: skip
        if kind == CREATE:
            arguments += _references(operation, subject, graph)
        found = [draft for draft, _ in zip(optional, range(1 if kind == CHANGE else 2), strict=False)]
        arguments += [replace(draft, changes=kind == CHANGE) for draft in found]
    where = {a.words for a in arguments if not a.entity} >= {"owner", "repository"}
    if len(arguments) - where > MAX_ARGUMENTS + bool(kind):
        return "too many required arguments"
    if len({a.entity for a in arguments if a.entity}) < sum(bool(a.entity) for a in arguments):
        return "two arguments of one kind"
    if min(len({a.words for a in arguments}), len({a.parameter.name for a in arguments})) < len(arguments):
        return "two arguments of one name"
    if {"owner", "repository"} <= {a.words for a in arguments if not a.entity}:
        # code hosts name a repository by its owner's login and its own name
        forms = {"owner": "handle", "repository": "slug"}
        arguments = [replace(a, spec={"form": forms[a.words]}) if a.words in forms else a for a in arguments]
    return arguments


def _references(operation: Operation, subject: list[str], graph: Graph) -> list[ArgumentDraft]:
    """The first optional argument that says what a new thing is for: the id of an entity that an operation reads."""
    for parameter in operation.parameters:
        refers = graph.words.split(parameter.name)[-1:] in (["id"], ["uuid"])
        if refers and parameter.place == "body" and not parameter.required:
            draft = _argument(parameter, "", subject, graph, CREATE)
            if not isinstance(draft, str) and draft.entity and draft.entity in graph.entities and draft.entity in graph.nouns:
                return [draft]
    return []


def _is_arithmetic(operation: Operation, graph: Graph) -> bool:
    """Return whether a function computes with numbers alone, which one would rather do than ask for."""
    required = [parameter for parameter in operation.parameters if parameter.required]
    schemas = [items if (items := parameter.schema.get("items")) else parameter.schema for parameter in required]
    numbers = all(schema.get("type") in ("integer", "number") for schema in schemas)
    return (
        graph.api.kind in PLAIN
        and bool(required)
        and numbers
        and not any(graph.words.split(parameter.name)[-1:] in (["id"], ["year"]) for parameter in required)
    )


def _leaves(parameter: Parameter, level: int = 0) -> list[tuple[tuple[str, ...], Parameter]]:
    """The required plain values within a parameter that is an object or a list of one item, with where they stand; none where
    it has none. A part that is called as every other is, such as `name`, has the name of the whole before it."""
    schema, name = parameter.schema, parameter.name
    if schema.get("type") not in ("array", "object"):
        return [((name,), parameter)]
    if level == MAX_NESTED:
        return []
    if schema["type"] == "array":
        one = "_".join([*split(name)[:-1], singular(split(name)[-1])]) if split(name) else name
        inner = _leaves(replace(parameter, name=one, schema=schema.get("items") or {}), level + 1)
        return [((name, "[]", *within[1:]), leaf) for within, leaf in inner]
    leaves = []
    for key in schema.get("required", ()):
        part = Parameter(key, schema["properties"][key], True, "body")
        for within, leaf in _leaves(part, level + 1):
            if set(split(leaf.name)) <= _PLAIN_PARTS:
                is_sum = leaf.name in ("value", "amount") and split(name)[-1:] and split(name)[-1] in _MONEY
                leaf = replace(leaf, name=name if is_sum else f"{name}_{leaf.name}")
            leaves.append(((name, *within), leaf))
    return leaves


def _segments(path: str) -> dict[str, str]:
    """For each parameter in a path, the fixed part right before it; under "*" that of the last one; and under "^" and a name
    the last fixed part before it."""
    segments: dict[str, str] = {}
    before = fixed = ""
    for segment in path.split("?")[0].split("#")[0].strip("/").split("/"):
        names = _PLACE.findall(segment)
        if names:
            segments |= dict.fromkeys((*names, "*"), "" if before == "{}" else before)
            segments |= {f"^{name}": fixed for name in names}
            before = "{}"
        elif not _VERSION.match(segment):
            before = fixed = segment
    return segments


def _subject(operation: Operation, known: Vocabulary, verb: str = "") -> tuple[list[str], bool]:
    """The words for what an operation reads or writes, in the singular, and whether its name says that there are several."""
    words: list[str] = []
    path = operation.path.split("?")[0]
    segments = [s for s in path.strip("/").split("/") if s and not _VERSION.match(s)] if "#" not in path else []
    if segments:
        fixed = [s.split(":")[0] for s in segments if "{" not in s]
        if verb and len(fixed) > 1 and split(fixed[-1]) == [verb]:
            fixed.pop()
        words = known.split(fixed[-1].rsplit(".", 1)[-1]) if fixed else []
        while len(words) > 1 and words[-1] in _ENDS_READING:
            words = words[:-1]
        if len(fixed) > 1 and words and (words[-1] == "me" or words[-1] in _ENDS_READING):
            words = known.split(fixed[-2].rsplit(".", 1)[-1])
        while words and words[0] in _READING and len(words) > 1:
            words = words[1:]
    if not words or words[-1] in _READING or len("".join(words)) < 3:
        words = known.split(re.split(r"[./:#]", operation.words)[-1])
        if words and words[0] in ("get", "post", "search") and "_" in operation.words and len(words) == 1:
            words = known.split(operation.words)
        while words and (words[0] in _READING or words[0].isdigit()):
            words = words[1:]
        while len(words) > 1 and (words[-1] in _ENDS_READING or words[-1] == verb):
            words = words[:-1]
        if len(words) > 1 and KINDS.get(words[0]) and (verb or words[0] not in _BOTH):
            words = words[1:]
        if words == ["me"]:
            words = ["profile"]
    joints = [index for index, word in enumerate(words) if word in _JOINTS]
    if joints:
        words = words[: joints[0]] or words[joints[-1] + 1 :]
    words = [word for word in words if not word.isdigit()][-4:]
    if not words or (words[0] == "engine" and "search" in split(operation.words)):
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


def _argument(
    parameter: Parameter, before: str, subject: list[str], graph: Graph, kind: str = "", listed: bool = False
) -> ArgumentDraft | str:
    name, schema = parameter.name, parameter.schema
    words = graph.words.split(name)
    joint = next((index for index, word in enumerate(words) if word in _JOINTS), len(words))
    words = words[:joint] or words  # team_id_or_slug is a team's id
    if not words or len(name) > 60:
        return "an argument without a name"
    spec = spec_of(name, schema)
    entity = _entity_of(words, graph.words.split(before), subject, spec, parameter.place)
    if kind in (CREATE, CHANGE) and parameter.place == "body" and words[-1] in _KEYS and words[:-1] in ([], subject):
        entity = []  # what a new thing is called, or is to be called
    entity = ["pull", "request"] if entity == ["pull"] else entity
    unknown = not graph.knows(entity) and words[-1] not in _IDS
    if entity and kind == CREATE and parameter.place == "body" and (subject[-len(entity) :] == entity or unknown):
        entity = []  # what the user says of it
    ends, begins = subject[-len(entity) :] == entity, [*entity, "request"] == subject
    if entity and not listed and len(subject) > len(entity) and kind != CREATE and (ends or begins):
        entity = subject[-3:]  # the alert number of a scanning alert is a scanning alert's, the pull number a pull request's
    if entity and (not graph.words.readable(entity) or {entity[0], entity[-1]} & _NAMELESS or is_past(entity[-1])):
        return "no noun in its name"
    if entity:
        identity = _identity(words, schema, spec, entity[-1], graph.names.get(name, []))
        if identity is None or not _accepted(identity, schema):
            return "an argument of unknown form"
        key = words[-1] if words[-1] in _KEYS else "id"
        known = graph.entities.setdefault("_".join(entity), EntityDraft(graph.words.written(entity), identity, key))
        if known.key != key or not _accepted(known.identity, schema):
            return "ids of two forms"
        return ArgumentDraft(parameter, "_".join(entity), None, graph.words.written(entity))
    if schema.get("default") is not None and spec is None:
        spec = {"form": "enum", "of": [schema["default"]]}
    if spec == {"form": "title"} and words == ["name"] and subject[-1] in _SLUGGED | _PEOPLE:
        spec = {"form": "slug" if subject[-1] in _SLUGGED else "person"}
    if spec is None and schema.get("type") == "string" and words[-1] in _FREE:
        spec = {"form": "phrase"}
    if spec is None and words[-1] in _CLASSES and "example" not in schema:
        return "an argument of unknown form"
    if spec is None and graph.api.kind in PLAIN and schema.get("type") == "string":
        spec = {"form": "slug"}
    if spec is None or schema.get("type") in ("array", "object"):
        if isinstance(schema.get("example"), str | int | float) and not isinstance(schema.get("example"), bool):
            spec = {"form": "enum", "of": [schema["example"]]}
        else:
            return "an argument of unknown form"
    if spec["form"] == "integer" and not {"minimum", "maximum"} & schema.keys() and words[-1] not in ("cents", *_MONEY):
        low, high = (
            (1_000.0, 9_999.0) if words[-1] in ("number", "code", "no") else (1.0, 9.0 if words[-1] in _COUNTED else 60.0)
        )
        spec = {"form": "integer", "low": low, "high": high}
    if not _accepted(spec, schema):
        return "an argument of unknown form"
    if not graph.words.readable(words) or words[-1] in NO_NOUN or is_past(words[-1]):
        return "an argument without a name"
    if words[-1] in _IDS:
        return "an argument of unknown form"
    if set(words) & _UNSAID:
        return "an argument that nobody would say"
    if {words[0], words[-1]} & _RANGE:
        return "an argument that bounds a range"
    choices = [str(each) for each in spec.get("of", ())]
    if spec["form"] == "boolean" or any(len(choice) > MAX_CHOICE or _IDENTIFIER.search(choice) for choice in choices):
        return "an argument whose choices nobody would say"
    if subject[-1] == "request":
        words = [each for word in words for each in _BRANCHES.get(word, word).split("_")]
    return ArgumentDraft(parameter, "", spec, graph.words.written(words))


def _entity_of(words: list[str], before: list[str], subject: list[str], spec: Spec | None, place: str) -> list[str]:
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
    fixed = [word for word in before if not word.isdigit()]
    if marked and base:
        base = [*base[:-1], singular(base[-1])]
        whole = [*fixed[:-1], singular(fixed[-1])] if fixed and place == "path" else []
        return (whole if whole[-len(base) :] == base else base)[-3:]
    if place == "path" and fixed:
        return [*fixed[:-1], singular(fixed[-1])][-3:]
    if marked:
        return subject[-3:]
    if place == "path" and len(words) <= 3:
        return base
    return []


def _identity(words: list[str], schema: Mapping[str, Any], spec: Spec | None, noun: str, names: list[str]) -> Spec | None:
    """The form of an entity's ids: those of what is numbered in life are numbers, whatever their type."""
    kind = schema.get("type")
    if kind in ("array", "object", "boolean"):
        return None
    if spec is not None and spec["form"] == "enum":
        return spec if len(spec["of"]) > 7 else None
    if kind in ("integer", "number"):
        least, most = schema.get("minimum"), schema.get("maximum")
        low, high = (1_000, 9_999) if words[-1] == "number" else (10_000, 9_999_999)
        low = max(low, int(least)) if isinstance(least, int | float) else low
        high = min(high, int(most)) if isinstance(most, int | float) else high
        return {"form": "integer", "low": float(low), "high": float(high)} if high - low > 1_000 else None
    if spec is not None and spec["form"] in ("uuid", "like", "arn", "email", "isbn", "url", "phone", "domain"):
        return spec
    if names:
        return {"form": "enum", "of": names} if len(names) > 2 else {"form": "slug"}
    if noun in _HASHED:
        return {"form": "hex"}
    if noun in _NUMBERED or words[-1] == "number":
        number: Spec = {"form": "integer", "low": 1_000.0, "high": 9_999.0 if noun in _NUMBERED else 999_999.0}
        return number if _accepted(number, schema) else {"form": "code"}
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
    prefix = _list_prefix(operation, True) or () if draft.role == "list" or draft.writes else ()
    here = [f for f in operation.fields if f.path[: len(prefix)] == prefix and f.listed == prefix.count("[]")]
    named = any(a.entity == draft.entity for a in draft.arguments)
    subject = draft.entity.split("_")
    facts: list[FactDraft] = []
    # what a question says already, it does not ask: the type of the policy of that type, the name of what its name names
    requested = [set(a.words.lower().split(" ")) for a in draft.arguments if not a.entity]
    key = graph.entities[draft.entity].key if draft.entity in graph.entities else "id"
    requested += [{key}] if named else []
    requested += [{"name"}] if any(a.words == draft.noun for a in draft.arguments) else []  # the tag "v2" is called so
    for leaf in here:
        words = field_words(leaf.path[len(prefix) :], subject, graph.words)
        plain = graph.words.split(leaf.name)
        gives = _reference(plain if words is None else words, subject, wanted | {draft.entity}, graph)
        if gives:
            noun = "ID" if gives == draft.entity else f"{graph.entities[gives].noun} ID"
            noun = noun if graph.entities[gives].key == "id" else f"{noun[:-2]}{graph.entities[gives].key}"
            shown = gives not in wanted or (gives == draft.entity and draft.role != "list")
            facts.append(FactDraft(leaf, noun, graph.entities[gives].identity, gives, shown))
            continue
        spec = spec_of(leaf.name, leaf.schema, draft.entity)
        phrased = phrase(words, spec) if words is not None and spec is not None and distinctive(spec) else None
        if (
            phrased is None
            or phrased == subject
            or len(phrased) > MAX_WORDS
            or phrased[-1] in _IDS
            or any(set(phrased) <= words_of_argument for words_of_argument in requested)
        ):
            if spec is not None and plain and graph.words.written(plain).isascii():
                facts.append(FactDraft(leaf, graph.words.written(plain)[:80], spec, shown=True))
            continue
        words_of_fact = graph.words.written(phrased)
        if phrased[-1] == "cents" and len(phrased) > 1:
            words_of_fact = graph.words.written(phrased[:-1])
        elif phrased == ["phone"]:
            words_of_fact = "phone number"
        elif phrased == ["symbol"] and spec == {"form": "ticker"} and "stock" not in subject:
            words_of_fact = "stock symbol"
        if words_of_fact != draft.noun:
            facts.append(FactDraft(leaf, words_of_fact, spec))
    if [f.path for f in here] == [RESULT] and not draft.writes:
        spec = spec_of(draft.noun.replace(" ", "_"), here[0].schema) or {"form": "title"}
        facts = [FactDraft(here[0], "name" if named else draft.noun, spec)] if distinctive(spec) else []
    if not draft.arguments and draft.role == "record":  # the name of something else, as of the account of my balance
        for fact in facts:
            fact.shown |= fact.words.split(" ")[-1] in ("name", "title", "type") and (
                " " in fact.words or subject == ["profile"]
            )
    facts = _distinct([fact for fact in facts if re.fullmatch("[A-Za-z0-9][A-Za-z0-9 -]*", fact.words)])
    if draft.writes:
        for fact in facts:
            fact.shown = True
    elif draft.role == "list":
        facts = _listed(draft, facts, graph)
    others = [fact for fact in facts if fact.shown]
    draft.facts = [fact for fact in facts if not fact.shown][:MAX_FACTS] + others[:MAX_SHOWN]


def _names(words: str, last: str, noun: set[str]) -> bool:
    """Return whether words that end so mean what a thing is called: its own name, or what people are called by."""
    if words.split(" ")[-1] != last:
        return False
    if last in ("name", "title", "label"):
        return is_own_name(words, noun) or (words == "last name" and bool(noun & _PEOPLE))
    return len(words.split(" ")) < 3


def _listed(draft: CapabilityDraft, facts: list[FactDraft], graph: Graph) -> list[FactDraft]:
    """The facts of a list's items; one of them is what a person knows the entity by, and the others are asked for."""
    plain = [fact for fact in facts if fact.spec is not None and not fact.gives and not fact.shown]
    noun = set(draft.noun.lower().split(" "))
    naming = ("name", "title", "label", "subject", "headline", "login", "email")
    named = next((f for word in naming for f in plain if f.spec["form"] in _NAMES and _names(f.words, word, noun)), None)  # type: ignore[index]
    named = named or next(
        (f for f in plain if f.spec is not None and f.spec["form"] in ("email", "phone", "domain", "address")), None
    )
    entity = graph.entities.setdefault(draft.entity, EntityDraft(draft.noun, {"form": "code"}))
    if entity.key in _KEYS:  # a person knows it by what its ids are
        named = next((f for f in facts if f.gives == draft.entity), None)
        if named is not None and entity.known in (None, entity.identity):
            entity.known, entity.known_as = entity.identity, named.words
            named.shown = True
            return facts
        return _unasked(facts)
    if named is None:
        return _unasked(facts)
    facts = [f for f in facts if f is named or f.gives or f.shown or not is_own_name(f.words, noun)]
    if entity.known is None:
        entity.known, entity.known_as = named.spec, named.words
    if entity.known_as != named.words or sum(not fact.shown for fact in facts) < 2:
        return _unasked(facts)
    named.shown = True
    return facts


def _unasked(facts: list[FactDraft]) -> list[FactDraft]:
    for fact in facts:
        fact.shown = True
    return facts


def _reference(words: list[str], subject: list[str], wanted: set[str], graph: Graph) -> str:
    """The entity whose id a field is; "" where it is none that an operation takes."""
    if not words:
        return ""
    mine = graph.entities.get("_".join(subject))
    key = "id" if mine is None else mine.key
    if mine is not None and "_".join(subject) in wanted:
        last = words[-1] in ("id", "uuid", "guid", "arn", "sid") if key == "id" else words[-1] == key
        if (last and subject[-len(words) + 1 :] == words[:-1] if len(words) > 1 else last) or words == subject:
            return "_".join(subject)
        if key == "id" and words[-1] == "number" and len(words) == 1 and mine.identity.get("high") == 9_999.0:
            return "_".join(subject)
    user = graph.entities.get("user")
    if words[-1] in ("username", "login") and user is not None and user.key == words[-1] and "user" in wanted:
        return "user"  # the owner's username is a user's
    if words[-1] in ("id", "uuid", "guid", "sid", "arn", "key", "slug", *_KEYS) and len(words) > 1:
        other = "_".join([*words[:-2], singular(words[-2])])
        if other in wanted and other in graph.entities and (graph.entities[other].key == "id") == (words[-1] not in _KEYS):
            return other
    return ""


def _distinct(facts: list[FactDraft]) -> list[FactDraft]:
    seen: dict[str, FactDraft] = {}
    for fact in sorted(facts, key=lambda f: (f.shown, not f.gives, len(f.field.path), len(f.words))):
        seen.setdefault(fact.words, fact)
    return list(seen.values())
