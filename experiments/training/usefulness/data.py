"""Labelled results of calls, from episodes that are played here or from recorded ones.

A result is labelled helpful if it answers a need of the task, which the world knows and the classifier must guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ....agents.btp.usefulness import Observed
from ....simulators.errors import ConfigError
from ....simulators.scenario import Scenario
from ....simulators.status import Status
from ..data.experience import play_split


class Labelled(NamedTuple):
    """A call's result and whether it helped.

    Attributes:
        tool: its name.
        observed: what a classifier may read.
        helpful: it answers a need of the task.
    """

    tool: str
    observed: Observed
    helpful: bool


def collect_labelled(scenario: Scenario, split: str, episodes: int, seed: int = 0, agent: Any = None) -> list[Labelled]:
    """Play a split without a budget and label the result of every call.

    Args:
        scenario: the world.
        split: of the tasks.
        episodes: how many; tasks come in turns, each round in another world.
        seed: keys the world's chance and the agent's.
        agent: by default ReAct on the simulated model.
    """
    played = play_split(scenario, split, episodes, seed, ("usefulness", split), agent)
    return [example for env in played for example in labelled_calls(env)]


def recorded_labelled(path: str | Path, data: str | None = None) -> dict[str, list[Labelled]]:
    """Label the calls of recorded trajectories of the text view, by split; see `costgym collect`."""
    from ...trajectories.export.messages import need_text
    from ...trajectories.replay import replayed

    found: dict[str, list[Labelled]] = {}
    for played in replayed(path, data):
        need_text(played.header.env, "a usefulness classifier")
        found.setdefault(played.header.settings["split"], []).extend(labelled_calls(played.env.unwrapped))
    return found


def labelled_calls(env: Any) -> Iterator[Labelled]:
    """Label the executed calls of an episode that has ended."""
    for call in env.episode.calls:
        if call.slot >= 0 and call.status.executed:
            document = document_of(env.world.catalog.get(call.tool))
            observed = Observed(env.episode.content(call), env.query, dict(call.arguments or {}), document)
            yield Labelled(call.tool, observed, call.status is Status.OK and call.need >= 0)


def document_of(tool: Any) -> str:
    """What is read of a tool's documentation: its name and its description."""
    return f"{tool.name.replace('_', ' ')}. {tool.description}"


def check_kinds(examples: Sequence[Labelled]) -> list[bool]:
    """The labels of examples; raises ConfigError where they are all of one kind."""
    labels = [example.helpful for example in examples]
    if len(set(labels)) < 2:
        kind = "none at all" if not labels else "only helpful ones" if labels[0] else "only useless ones"
        raise ConfigError("examples", f"expected helpful and useless results, got {kind}; record more episodes")
    return labels
