"""The parts of an API's graph: entities, operations with their arguments and facts, and what each operation is about."""

import re
from collections import Counter
from dataclasses import dataclass, field

from costgym.simulators.forge.readers.operations import Api, Field, Operation, Parameter
from costgym.simulators.forge.values import Spec
from costgym.simulators.forge.verbs import KINDS
from costgym.simulators.forge.vocabulary import Vocabulary
from costgym.simulators.forge.words import is_plural, lexicon, singular, split

VERSION = re.compile(
    r"^(v?\d+([._]\d+)*|v\d+\w*|api|rest|services?|public|latest|beta|\{version\}|\{api.?version\})$", re.IGNORECASE
)
IDS = ("id", "ids", "uuid", "guid", "arn", "sid")
KEYS = ("name", "slug", "username", "login", "handle", "symbol", "sku", "email")  # last words of ids that people say
_JOINTS, _LISTING, _READING = lexicon("joints"), lexicon("listing"), lexicon("reading")
_ENDS_READING = frozenset(("get", "list", "search", "query", "lookup", "find", "fetch", "retrieve", "read"))
_BOTH = lexicon("verbs that are nouns")
"""Verbs that are nouns, too."""
_ONE_OF = re.compile(r"\bone of\b([^.]{0,200})", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[a-z]{3,}(-[a-z]+)*")  # an id that is a name, such as "davinci"
_PLACEHOLDERS = {"string", "example", "name", "null", "none", "value"}


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
        self.nouns = {"_".join(subject_of(operation, self.words)[0]) for operation in self.api.operations}
        self.names = _names_of_ids(self.api)

    def knows(self, entity: list[str]) -> bool:
        """Return whether some operation is about an entity."""
        key = "_".join(entity)
        return key in self.nouns or any(noun.endswith("_" + key) for noun in self.nouns)


def _names_of_ids(api: Api) -> dict[str, list[str]]:
    """The examples and choices of each parameter in a path that are plain names."""
    names: dict[str, dict[str, None]] = {}
    for parameter in (item for operation in api.operations for item in operation.parameters if item.location == "path"):
        listed = [item for match in _ONE_OF.findall(parameter.description) for item in re.findall(r"[`'\"]([^`'\"]+)", match)]
        plain = [str(item) for item in (parameter.schema.get("example", ""), *listed) if _PLAIN_NAME.fullmatch(str(item))]
        names.setdefault(parameter.name, {}).update(dict.fromkeys(item for item in plain if item not in _PLACEHOLDERS))
    return {name: list(values) for name, values in names.items() if values}


def is_content(draft: ArgumentDraft) -> bool:
    """Return whether an argument says what a thing has, and not where it is."""
    free = draft.parameter.location in ("body", "query") and draft.words not in ("owner", "repository")
    return free and draft.spec is not None


def subject_of(operation: Operation, known: Vocabulary, verb: str = "") -> tuple[list[str], bool]:
    """The words for what an operation reads or writes, in the singular, and whether its name says that there are several."""
    words: list[str] = []
    path = operation.path.split("?")[0]
    segments = [s for s in path.strip("/").split("/") if s and not VERSION.match(s)] if "#" not in path else []
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
