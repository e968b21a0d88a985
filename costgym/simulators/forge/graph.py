"""The typed graph of an API: which operation reads which entity, takes which ids, and gives which.

The path `/orders/{order_id}/items` says that an order has items; `GET /orders` lists orders, whose `id` feeds `{order_id}`; the
`customer_id` of an order feeds `/customers/{customer_id}`. What the graph cannot type, no task uses, and the reason is counted.
"""

import re
from collections import Counter
from dataclasses import replace

from costgym.simulators.forge.arguments import arguments_of
from costgym.simulators.forge.drafts import (
    IDS,
    KEYS,
    ArgumentDraft,
    CapabilityDraft,
    EntityDraft,
    FactDraft,
    Graph,
    is_content,
    subject_of,
)
from costgym.simulators.forge.phrases import NO_FIRST, NO_NOUN, field_words, is_past, phrase
from costgym.simulators.forge.queries import is_own_name
from costgym.simulators.forge.readers.operations import PLAIN, RESULT, Api, Field, Operation
from costgym.simulators.forge.values import VALUE_FORMS, distinctive, spec_of
from costgym.simulators.forge.verbs import CHANGE, CREATE, KINDS, deed, writes
from costgym.simulators.forge.words import is_english, is_plural, lexicon, singular, split

MAX_FACTS = 6  # that are asked of one operation
MAX_NOUN = 3  # words
MAX_WORDS = 2  # of a fact that is asked for
MAX_SHOWN = 6  # facts that an answer shows and nobody asks for
_ABOUT = lexicon("about")  # nouns that say nothing: the details of an order are the order
_VAGUE = lexicon("vague")
# forms of values that things are called by
_NAMES = frozenset(("title", "person", "last", "company", "city", "country", "login", "handle", "phrase", "email", "slug"))
_PEOPLE = lexicon("people")
_FIRST_PLURALS = lexicon("first plurals")
_UNWANTED, _ING = lexicon("unwanted"), lexicon("nouns in ing")
_AUTHORED, _STATEFUL, _SLUGGED = lexicon("authored"), lexicon("stateful"), lexicon("named by slug")
_JOINTS, _READING, _BOTH = lexicon("joints"), lexicon("reading"), lexicon("verbs that are nouns")
_FIGURES = lexicon("amounts") | lexicon("numeric") | lexicon("counts")
_MACHINES, _MACHINE_VERBS = lexicon("of machines"), lexicon("machine verbs")
_CHANGES_AT_END = {"add", "append", "remove", "delete", "insert", "replace", "clear"}  # archival_memory_add
_VERBS = lexicon("verbs")  # words that are verbs where a noun is expected
_NO_START = _VERBS | NO_FIRST | lexicon("done by")  # no noun of an operation begins with one
_NO_END = _VERBS | NO_NOUN | lexicon("which") | {"count", "status", "result", "response"}  # nor ends in one
_ALONE = lexicon("single of a kind")  # words for what there is one of, so that a question need not say which


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
    subject, listed = subject_of(operation, graph.words, verb)
    if not subject:
        return "no noun in its name"
    listed = listed and not operation.path.rstrip("/").endswith("}")  # one thing, whatever lists it holds
    typed = arguments_of(operation, subject, kind, graph, session, listed)
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
    if len(noun) > 40 or not _names_a_thing(subject, graph):
        return "no noun in its name"
    if subject[-1] in (_UNWANTED if verb else _MACHINES) or subject[0] in _MACHINE_VERBS:
        return "a user would not ask for it"
    if verb:
        if not key:
            return "nothing says which one it changes"
        if kind == CHANGE and not any(a.changes for a in arguments):
            return "nothing says what it changes"
        if kind == CREATE and (not any(map(is_content, arguments)) or any(a.entity == key for a in arguments)):
            return "nothing says what it makes"
        return CapabilityDraft(operation, role, key, noun, arguments, session=session, verb=verb)
    if role == "record" and any(a.spec is not None and a.spec["form"] == "topic" for a in arguments):
        return "a search for one record"
    if role == "record" and not arguments and not set(subject) & _ALONE:
        return "nothing says which one it reads"
    if role == "list" and any(a.entity == key for a in arguments):
        return "two arguments of one kind"
    return CapabilityDraft(operation, role, key, noun, arguments, session=session)


def _names_a_thing(subject: list[str], graph: Graph) -> bool:
    return not (
        len(subject) > MAX_NOUN
        or not graph.words.readable(subject)
        or (len(subject) == 1 and subject[0] in _VAGUE)
        or subject[0] in _NO_START or subject[-1] in _NO_END - (_BOTH if len(subject) > 1 else set()) or "id" in subject
        or (is_past(subject[-1]) and (subject[-1] not in _BOTH or len(subject) == 1))
        or (subject[0] in KINDS and subject[0] not in _BOTH) or subject[-1] in _CHANGES_AT_END
        or (subject[-1].endswith("ing") and subject[-1] not in _ING)
        or any(is_plural(word) and word not in _FIRST_PLURALS for word in subject[:-1])
    )  # fmt: skip


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
    subject, listed = subject_of(operation, graph.words, verb)
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
            or phrased[-1] in IDS
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
    if entity.key in KEYS:  # a person knows it by what its ids are
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
    if words[-1] in ("id", "uuid", "guid", "sid", "arn", "key", "slug", *KEYS) and len(words) > 1:
        other = "_".join([*words[:-2], singular(words[-2])])
        if other in wanted and other in graph.entities and (graph.entities[other].key == "id") == (words[-1] not in KEYS):
            return other
    return ""


def _distinct(facts: list[FactDraft]) -> list[FactDraft]:
    seen: dict[str, FactDraft] = {}
    for fact in sorted(facts, key=lambda f: (f.shown, not f.gives, len(f.field.path), len(f.words))):
        seen.setdefault(fact.words, fact)
    return list(seen.values())
