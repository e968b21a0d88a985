"""Small hand-made worlds, and the story that an episode tells.

>>> world = small_world(tool("map", fee=3.0), tool("forecast", need=1, latency_s=2.0))
>>> episode = world.episode(0)
>>> episode.call(0).status.label, episode.call(1).finished_s
('ok', 3.0)
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import PrivateAttr

from costgym.simulators.calls import WorldEvent
from costgym.simulators.failures import PRESETS, FailureModel
from costgym.simulators.scenario import Scenario
from costgym.simulators.tasks import Answers, Need, Task, TaskSet, arguments_match
from costgym.simulators.tools import Catalog, Tool, ToolProfile
from costgym.simulators.world import World
from costgym.simulators.world.episode import Episode

RELIABLE = PRESETS["reliable"]
BROKEN = FailureModel(slip=0.0, sticky=1.0, kinds={"server_error": 1.0}, persistence=0.0)
"""A tool of reliability 1 always works, one of reliability 0 always answers 500."""


@dataclass(frozen=True)
class Spec:
    """A tool of a small world: its name, the need it serves (-1: none) and its profile."""

    name: str
    need: int
    profile: ToolProfile


def tool(name: str, need: int = 0, **profile: Any) -> Spec:
    """A tool that costs 1, takes 1 s and never fails, but for what `profile` says."""
    latency = profile.pop("latency_s", 1.0)
    levels = tuple(latency) if isinstance(latency, Sequence) else (float(latency),)
    return Spec(name, need, ToolProfile(latency_s=levels, **profile))


class FactAnswers(Answers):
    """Every tool that serves a need answers its fact when it gets the right arguments, and nothing otherwise."""

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        for need in task.needs:
            for wanted in (need, need.alternative):
                if wanted is not None and tool.name in wanted.tools and arguments_match(arguments, wanted.arguments):
                    return json.dumps({"value": wanted.fact})
        return None

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        return json.dumps({"value": "something else"})


def small_world(
    *tools: Spec,
    after: Mapping[int, tuple[int, ...]] | None = None,
    changeable: Iterable[int] = (),
    events: Sequence[WorldEvent] = (),
    copies: int = 1,
    solvable: bool = True,
    **settings: Any,
) -> World:
    """A world whose tasks all offer these tools, in this order.

    Args:
        tools: see `tool`; at least one.
        after: for a need the needs whose answers it needs first.
        changeable: needs that turn into an alternative on a preference change.
        events: scheduled events of every task.
        copies: how many such tasks there are; they differ in their luck. All are in `train` and in `test`.
        solvable: what the tasks say of themselves.
        settings: of `World`; no tool fails unless `failures` says so.
    """
    catalog = Catalog(
        Tool(spec.name, f"Answers need {spec.need}.", "Things", "Maker", capability=f"need {spec.need}", profile=spec.profile)
        for spec in tools
    )
    count = max((spec.need for spec in tools), default=-1) + 1
    needs = []
    for index in range(max(1, count)):
        names = tuple(spec.name for spec in tools if spec.need == index)
        other = Need(f"other-{index}", names, {"city": f"d{index}"}, (), f"other {index}") if index in changeable else None
        before = (after or {}).get(index, ())
        needs.append(Need(f"fact-{index}", names, {"city": f"c{index}"}, before, f"wish {index}", f"need {index}", other))
    tasks = [
        Task(f"t{n}", n, "find the facts", tuple(needs), tuple(spec.name for spec in tools), solvable=solvable)
        for n in range(copies)
    ]
    task_set = TaskSet(tasks, {"train": range(copies), "test": range(copies)})
    settings.setdefault("failures", RELIABLE)
    return World(catalog, task_set, FactAnswers(), events=(lambda task, slots: events) if events else None, **settings)


class _HandMade(Scenario):
    """A scenario that is a world already."""

    _world: World = PrivateAttr()

    def build(self) -> World:
        return self._world


def scenario_of(world: World) -> Scenario:
    """A hand-made world as a scenario, for environments: ``MarketplaceEnv(scenario=scenario_of(world), budget={})``."""
    scenario = _HandMade(name="hand-made", alpha=world.alpha, max_price=world.max_price)
    scenario._world = world
    return scenario


def story(episode: Episode) -> list[tuple[float, str, str]]:
    """What happened in an episode: (seconds, tool, what), by time. `cold` and `run` are starts, the rest are ends."""
    log = []
    for order, call in enumerate(episode.calls):
        if call.cold:
            log.append((call.started_s, order, call.tool, "cold"))
        if call.started_s >= 0:
            log.append((call.ready_s, order, call.tool, "run"))
        if call.finished_s >= 0:
            log.append((call.finished_s, order, call.tool, call.status.label))
    log.sort(key=lambda entry: (entry[0], entry[1]))
    return [(round(at_s, 9), name, what) for at_s, _, name, what in log]


def state(episode: Episode) -> dict[str, Any]:
    """All that can be seen of an episode, for comparison."""
    return {
        "now_s": episode.now_s,
        "calls": [tuple(getattr(call, name) for name in call.__slots__ if name != "timer") for call in episode.calls],
        "charges": list(episode.ledger),
        "attempts": episode.ledger.attempts,
        "known": list(episode.known),
        "needs": list(episode.needs),
        "counts": list(episode.counts),
        "in_flight": episode.in_flight,
        "banned": sorted(episode.banned),
        "factors": episode.factors,
        "over": episode.over,
        "exceeded": episode.exceeded,
        "grade": episode.grade,
        "log": list(episode.log),
        "pending": list(episode.unread),
        "flying": [tuple(getattr(call, name) for name in call.__slots__ if name != "timer") for call in episode.flying],
    }


def play(*tools: Any, budget: Any = None, enforcement: Any = "terminate", seed: int = 0, **settings: Any) -> Episode:
    """Begin the only task of a small world of these tools."""
    return small_world(*tools, **settings).episode(0, seed, budget, enforcement)
