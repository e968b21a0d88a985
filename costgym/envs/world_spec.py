"""A world as records name it: a JSON document, from which it is described, varied, told apart and built again."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from costgym.simulators.digests import SCHEMA, schema_of
from costgym.simulators.draws import stable_integer

Document = Mapping[str, Any]  # plain data, as JSON holds it
WORLD = "world"
"""The setting that varies the world of a run: 0 is the scenario's own, each other number another of the same kind."""


@dataclass(frozen=True)
class WorldSpec(ABC):
    """The world of an environment, which hands it out as `world_spec()`; its class is the environment's `world_class`.

    Attributes:
        document: all that defines the world, its name under `name`.
    """

    arguments_of_world: ClassVar[frozenset[str]]  # arguments that say which world it is; records hold the document instead
    document: Document

    @property
    def version(self) -> Any:
        """The version of the world, see `simulators.bounds.WORLDS`; what a file states is checked when it is built."""
        return self.document.get("world", 0)

    @property
    def stated_version(self) -> dict[str, Any]:
        """The version as summaries state it: not at all where it is 0."""
        return {"world": self.version} if self.version else {}

    @property
    def digest(self) -> str:
        """The digest under the present schema; raises CostGymError where the document describes no such world."""
        return self.digest_under(SCHEMA)

    @abstractmethod
    def digest_under(self, schema: int) -> str:
        """The digest under a schema of `simulators.digests`; empty for an unknown one."""

    def digest_like(self, recorded: str) -> str:
        """The digest under the schema of a recorded one, which that has to equal."""
        return self.digest_under(schema_of(recorded))

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """The description on leaderboards: `name`, `description`, `currency` and fields of the environment's own."""

    @abstractmethod
    def arguments(self, settings: Document, data: str | None = None) -> dict[str, Any]:
        """The arguments that rebuild a recorded environment, as JSON; `data` is the present path of its files."""

    def varied(self, settings: Document) -> tuple[Self, dict[str, Any]]:
        """The world under settings that vary within a run, and those of them that are arguments of the environment."""
        rest = {name: value for name, value in settings.items() if name != WORLD}
        return self.numbered(settings.get(WORLD) or 0), rest

    def numbered(self, number: int) -> Self:
        """A world of the same kind that nobody need have drawn before; 0 is this one, and so is any of recorded data."""
        return (self.another({}, stable_integer(self.seed, WORLD, number) >> 4) if number else None) or self

    @property
    def seed(self) -> int:
        """What the world is drawn by, where it is drawn."""
        return 0

    def another(self, settings: Document, seed: int) -> Self | None:
        """Another world of the same kind, drawn by `seed`; None for recorded data, which has no other."""
        del settings, seed
        return None
