"""The arguments of an operation: which id of which entity each takes, or which value, and which of them a question names."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from costgym.simulators.forge.drafts import (
    IDS,
    KEYS,
    VERSION,
    ArgumentDraft,
    EntityDraft,
    Graph,
    is_content,
)
from costgym.simulators.forge.phrases import NO_NOUN, is_past
from costgym.simulators.forge.readers.operations import PLAIN, Operation, Parameter
from costgym.simulators.forge.values import VALUE_FORMS, Spec, draw, matches, spec_of
from costgym.simulators.forge.verbs import CHANGE, CREATE
from costgym.simulators.forge.words import lexicon, mapped, singular, split

MAX_CHOICE = 24  # characters of a choice that a question names
MAX_ARGUMENTS = 3  # that a question names
MAX_NESTED = 3  # objects and lists around an argument
_PLAIN_PARTS = {"id", "name", "type", "code", "number", "key", "value", "title", "email", "slug", "uuid"}
_IDENTIFIES = lexicon("identifies")
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
_IDENTIFIER = re.compile("_|[a-z][A-Z]")
_ID_FORMS = {
    "username": "handle", "login": "handle", "user": "handle", "name": "slug", "slug": "slug", "handle": "slug", "arn": "arn",
}  # fmt: skip
_SAID = lexicon("said of a thing")
_FREE, _CLASSES = lexicon("free text"), lexicon("classes")
_STATES = {"status", "state", "stage"}  # words for what a new thing gets by itself
_MONEY, _COUNTED = lexicon("amounts"), lexicon("counts")
_NAMELESS = lexicon("nameless")  # nouns that nobody would ask about by themselves
_OWNERS = {"repository", "user", "organization", "team"}  # that are in no repository
_NUMBERED = lexicon("numbered")
_BRANCHES, _SLUGGED, _HASHED = mapped("branches"), lexicon("named by slug"), lexicon("known by a hash")
_PEOPLE, _JOINTS = lexicon("people"), lexicon("joints")
_UNSAID = {"redirect", "callback", "webhook"}  # in names of arguments that nobody would say
_RANGE = lexicon("bounds")  # names of bounds: two of them have an order that arguments by themselves do not keep


def arguments_of(
    operation: Operation, subject: list[str], kind: str, graph: Graph, session: list[str], listed: bool
) -> list[ArgumentDraft] | str:
    """The arguments that a call must have; adds the names of those that a session gives to `session`. An operation that
    changes something also has the first of its optional ones that can be said, where it must have no value."""
    arguments: list[ArgumentDraft] = []
    before = _segments(operation.path)
    for parameter in operation.parameters:
        if not parameter.required:
            continue
        if parameter.location == "header" or _MACHINE.match(parameter.name):
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
        if isinstance(draft, str) and parameter.location == "body" and parameter.schema.get("type") in ("array", "object"):
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
    arguments.sort(key=lambda a: ends.get(a.parameter.name, len(ends)) if a.parameter.location == "path" else len(ends))
    arguments = [replace(a, changes=kind == CHANGE and is_content(a)) for a in arguments]
    if kind in (CREATE, CHANGE) and not any(is_content(a) for a in arguments):
        _add_optional(arguments, operation, subject, kind, graph)
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


def _add_optional(arguments: list[ArgumentDraft], operation: Operation, subject: list[str], kind: str, graph: Graph) -> None:
    """Add the first optional arguments that can be said, and for a new thing what it refers to, to the required ones."""
    # lazy: reading an argument adds its entity to the graph, so reading stops with the last one that is needed
    optional = (
        draft
        for parameter in operation.parameters
        if not parameter.required and parameter.location in ("body", "query") and not _MACHINE.match(parameter.name)
        and parameter.name not in {a.parameter.name for a in arguments}
        and graph.words.split(parameter.name)[-1:] not in (["id"], ["uuid"], ["guid"])
        and not isinstance(draft := _argument(parameter, "", subject, graph, kind), str) and not draft.entity
        and draft.spec is not None and draft.words.lower().split(" ")[-1] in _SAID
        and draft.spec["form"] not in ("moment", "epoch", "decimal")
        and not (kind == CREATE and draft.words.lower().split(" ")[-1] in _STATES)
    )  # fmt: skip
    if kind == CREATE:
        arguments += _references(operation, subject, graph)
    chosen = [draft for draft, _ in zip(optional, range(1 if kind == CHANGE else 2), strict=False)]
    arguments += [replace(draft, changes=kind == CHANGE) for draft in chosen]


def _references(operation: Operation, subject: list[str], graph: Graph) -> list[ArgumentDraft]:
    """The first optional argument that says what a new thing is for: the id of an entity that an operation reads."""
    for parameter in operation.parameters:
        refers = graph.words.split(parameter.name)[-1:] in (["id"], ["uuid"])
        if refers and parameter.location == "body" and not parameter.required:
            draft = _argument(parameter, "", subject, graph, CREATE)
            if not isinstance(draft, str) and draft.entity and draft.entity in graph.entities and draft.entity in graph.nouns:
                return [draft]
    return []


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
        elif not VERSION.match(segment):
            before = fixed = segment
    return segments


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
    entity = _entity_of(words, graph.words.split(before), subject, spec, parameter.location)
    if kind in (CREATE, CHANGE) and parameter.location == "body" and words[-1] in KEYS and words[:-1] in ([], subject):
        entity = []  # what a new thing is called, or is to be called
    entity = ["pull", "request"] if entity == ["pull"] else entity
    unknown = not graph.knows(entity) and words[-1] not in IDS
    if entity and kind == CREATE and parameter.location == "body" and (subject[-len(entity) :] == entity or unknown):
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
        key = words[-1] if words[-1] in KEYS else "id"
        known = graph.entities.setdefault("_".join(entity), EntityDraft(graph.words.written(entity), identity, key))
        if known.key != key or not _accepted(known.identity, schema):
            return "ids of two forms"
        return ArgumentDraft(parameter, "_".join(entity), None, graph.words.written(entity))
    spec = _spec_for_words(spec, words, subject, schema, graph)
    if spec is None or not _accepted(spec, schema):
        return "an argument of unknown form"
    if not graph.words.readable(words) or words[-1] in NO_NOUN or is_past(words[-1]):
        return "an argument without a name"
    if words[-1] in IDS:
        return "an argument of unknown form"
    if set(words) & _UNSAID:
        return "an argument that nobody would say"
    if {words[0], words[-1]} & _RANGE:
        return "an argument that bounds a range"
    choices = [str(choice) for choice in spec.get("of", ())]
    if spec["form"] == "boolean" or any(len(choice) > MAX_CHOICE or _IDENTIFIER.search(choice) for choice in choices):
        return "an argument whose choices nobody would say"
    if subject[-1] == "request":
        words = [part for word in words for part in _BRANCHES.get(word, word).split("_")]
    return ArgumentDraft(parameter, "", spec, graph.words.written(words))


def _spec_for_words(
    spec: Spec | None, words: list[str], subject: list[str], schema: Mapping[str, Any], graph: Graph
) -> Spec | None:
    """The form of a plain value, which its name and its subject may narrow; None where nothing says what it is."""
    if schema.get("default") is not None and spec is None:
        spec = {"form": "enum", "of": [schema["default"]]}
    if spec == {"form": "title"} and words == ["name"] and subject[-1] in _SLUGGED | _PEOPLE:
        spec = {"form": "slug" if subject[-1] in _SLUGGED else "person"}
    if spec is None and schema.get("type") == "string" and words[-1] in _FREE:
        spec = {"form": "phrase"}
    if spec is None and words[-1] in _CLASSES and "example" not in schema:
        return None
    if spec is None and graph.api.kind in PLAIN and schema.get("type") == "string":
        spec = {"form": "slug"}
    if spec is None or schema.get("type") in ("array", "object"):
        if isinstance(schema.get("example"), str | int | float) and not isinstance(schema.get("example"), bool):
            spec = {"form": "enum", "of": [schema["example"]]}
        else:
            return None
    if spec["form"] == "integer" and not {"minimum", "maximum"} & schema.keys() and words[-1] not in ("cents", *_MONEY):
        low, high = (
            (1_000.0, 9_999.0) if words[-1] in ("number", "code", "no") else (1.0, 9.0 if words[-1] in _COUNTED else 60.0)
        )
        spec = {"form": "integer", "low": low, "high": high}
    return spec


def _entity_of(words: list[str], before: list[str], subject: list[str], spec: Spec | None, location: str) -> list[str]:
    """The entity whose id an argument is; empty where it is a plain value."""
    form = "" if spec is None else spec["form"]
    marked = words[-1] in _IDENTIFIES and not (words[-1] == "code" and form in VALUE_FORMS)
    if words in (["username"], ["user"], ["login"]):
        return ["user"]
    base = [*words[:-1], singular(words[-1])] if not marked else words[:-1]
    if marked and form in VALUE_FORMS and words[-1] not in ("id", "name", "number"):
        return []
    if form in VALUE_FORMS and not marked and not (location == "path" and words[-1] in ("location", "place")):
        return []
    fixed = [word for word in before if not word.isdigit()]
    if marked and base:
        base = [*base[:-1], singular(base[-1])]
        whole = [*fixed[:-1], singular(fixed[-1])] if fixed and location == "path" else []
        return (whole if whole[-len(base) :] == base else base)[-3:]
    if location == "path" and fixed:
        return [*fixed[:-1], singular(fixed[-1])][-3:]
    if marked:
        return subject[-3:]
    if location == "path" and len(words) <= 3:
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
