"""Collect labelled results of calls, from new episodes or from recorded ones.

A result is labelled helpful if it answers a need of the task; the classifier predicts this label from the text.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ....agents.btp.usefulness import Observed
from ....simulators.errors import ConfigError
from ....simulators.scenario import Scenario
from ....simulators.status import Status
from ...play.experience import play_split


class Labelled(NamedTuple):
    """A call's result and its label."""

    tool: str
    observed: Observed  # input of a classifier
    helpful: bool  # whether the result answers a need of the task


def collect_labelled(scenario: Scenario, split: str, episodes: int, seed: int = 0, agent: Any = None) -> list[Labelled]:
    """Play episodes of a split without a budget, by default as ReAct on the simulated model, and label the result of every
    call; each pass over the tasks uses another seed."""
    played = play_split(scenario, split, range(episodes), seed, ("usefulness", split), agent)
    return [example for env in played for example in labelled_calls(env)]


def recorded_labelled(path: str | Path, data: str | None = None) -> dict[str, list[Labelled]]:
    """Label the calls of recorded text-view trajectories (see `costgym collect`) and return them by split."""
    from ...play.export.messages import need_text
    from ...play.trajectories.replay import replayed

    found: dict[str, list[Labelled]] = {}
    for played in replayed(path, data):
        need_text(played.header.env, "a usefulness classifier")
        found.setdefault(played.header.settings["split"], []).extend(labelled_calls(played.env.unwrapped))
    return found


def labelled_calls(env: Any) -> Iterator[Labelled]:
    """Yield the executed calls of a finished episode with their labels."""
    for call in env.episode.calls:
        if call.slot >= 0 and call.status.executed:
            document = document_of(env.world.catalog.get(call.tool))
            observed = Observed(env.episode.content(call), env.query, dict(call.arguments or {}), document)
            yield Labelled(call.tool, observed, call.status is Status.OK and call.need >= 0)


def document_of(tool: Any) -> str:
    """Return the part of a tool's documentation that classifiers read: its name and description."""
    return f"{tool.name.replace('_', ' ')}. {tool.description}"


def check_kinds(examples: Sequence[Labelled]) -> list[bool]:
    """Return the labels of examples; raises ConfigError unless both labels occur."""
    labels = [example.helpful for example in examples]
    if len(set(labels)) < 2:
        kind = "none" if not labels else "only helpful ones" if labels[0] else "only useless ones"
        raise ConfigError("examples", f"expected helpful and useless results, got {kind}; record more episodes")
    return labels
