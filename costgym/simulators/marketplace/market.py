"""A marketplace, which a generator or a loader makes and a world is built from."""

from dataclasses import dataclass

from pydantic import Field

from costgym.simulators.bounds import StrictModel, WorldVersion, is_zero
from costgym.simulators.tasks import Answers, TaskSet
from costgym.simulators.tools import Catalog


@dataclass(frozen=True, slots=True)
class Marketplace:
    """Tools, tasks about them, and what the tools answer."""

    catalog: Catalog
    tasks: TaskSet
    answers: Answers


class Source(StrictModel):
    """Where a scenario's tools and tasks come from; `world` is the version of the world, see `bounds.WORLDS`."""

    world: WorldVersion = Field(default=0, exclude_if=is_zero)
