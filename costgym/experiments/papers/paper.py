"""What describes a paper's reproduction: its protocols, how much is played, and how its tables are shown."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from costgym.experiments.play.experience import ExperienceSettings
from costgym.simulators.errors import check_known
from costgym.simulators.marketplace.sources import MarketplaceSource
from costgym.simulators.scenario import Scenario, parse_scenario

Row = dict[str, Any]
Tables = dict[str, list[Row]]  # rows by table: "ours", "effects", and where there are any "differences" and "curves"
Progress = Callable[[int, int], None]
Column = tuple[str, str, str]  # metric, heading, and kind of figure as `metric_registry.written` takes it

PUBLISHED, BOARD = "published", "board"
CHATGPT = "simulated:thought=0.13"
"""Models with function calling seldom write a thought beside a call, and depths that count nodes depend on it.

In ten published solution trees of ChatGPT (ToolBench, StableToolBench), 6 of 45 calls on the first path have a thought; in the
nine of ToolBench, 65 of 67 calls that were asked for as another step than before.
"""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The settings under which a paper's systems are played: as the paper published them, or those of the common board.

    A protocol states everything in which the two differ, so that a table can be read beside the paper's. Nothing in a protocol
    is fitted to the effects.
    """

    name: str  # "published" or "board"; "near" for DEER, which is on no board of papers
    summary: str  # what is particular to it, in words
    # tools on offer in a task by group of rows; None for as many as the world has
    candidates: Mapping[str, int | tuple[int, int] | None] = field(default_factory=lambda: {"": None})
    search: Mapping[str, Any] = field(default_factory=dict)  # as `SearchSettings.chosen` reads it
    btp: Mapping[str, Any] = field(default_factory=dict)  # fields of `BtpSettings`
    experience: ExperienceSettings | None = None  # what BTP plans from; None for a paper without past uses
    grading: str = "judge"  # of the paper's own table
    # further fields of the world's source, such as `needs` (for DEER, of `DecisionSettings`); `candidates` that are retrieved
    # are as many as the group has at most
    source: Mapping[str, Any] = field(default_factory=dict)
    failures: str = ""  # how tools fail, by the name of a preset; "" for the world's own
    judge: Mapping[str, float] = field(default_factory=dict)  # fields of the judge that differ from the world's
    model: str = "simulated"  # its name, with rates of its own where the paper's setting gives them
    whose: str = ""  # where a variation of the published protocol comes from: "paper" or "ours"

    def scenario(self, base: Scenario, group: str = "") -> Scenario:
        """Return the base world with as many candidates as a group of rows has."""
        count = self.candidates[group]
        changes = {**({} if count is None else {"candidates": count}), **self.source}
        retrieved = changes.get("candidates")
        if isinstance(retrieved, Mapping) and count is not None:
            changes["candidates"] = {**retrieved, "k": count if isinstance(count, int) else count[1]}
        if not isinstance(base.source, MarketplaceSource) or not (changes or self.failures or self.judge):
            return base
        document = base.model_dump(mode="json")
        document["source"].update(changes)
        document["judge"] = {**document["judge"], **self.judge}
        return parse_scenario({**document, **({"failures": self.failures} if self.failures else {})})


class Job(NamedTuple):
    """How much is played for a paper, and where."""

    seed: int
    episodes: int  # per agent, and level or scale; 0 for all samples
    processes: int  # rows do not depend on their number
    out: Path  # folder of the runs, which a later call continues
    progress: Progress | None = None
    data: str | None = None  # a ToolDEER folder, for DEER
    # optimiser steps of each trained policy, for CATP-LLM, and DEER with a folder; None for the usual number
    steps: int | None = None
    world: int = 0  # version of the world, where the paper's environment has it
    models: tuple[str, ...] | None = None  # to train on the folder, or runs of ours; None for the usual ones


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper whose table `costgym reproduce` computes."""

    name: str
    title: str
    protocols: tuple[Protocol, ...]  # the published one first
    episodes: int  # usual number per agent, each on a different task; 0 for all samples
    reproduce: Callable[[Job], Tables]
    note: str  # how its figures are counted
    columns: Sequence[Column]  # of the paper's table and of ours
    other_columns: Mapping[str, Sequence[Column]] = field(
        default_factory=dict
    )  # of other tables that have columns of their own
    headings: Mapping[str, str] = field(default_factory=dict)  # titles of the further tables on the page
    draw: Callable[[Sequence[Row]], str] | None = None  # its curves as an SVG
    trained: str = ""  # an agent that is left out where the extra `train` is not installed


PUBLISHED_ROWS: Tables = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
"""The papers' results in the format of leaderboard rows: the metrics that a paper reports, and its table as the `source`.
Shares are from 0 to 1."""


def published(name: str) -> list[Row]:
    """Return copies of a paper's published rows."""
    check_known("paper", name, PUBLISHED_ROWS)
    return [{**row, "ci95": {}} for row in PUBLISHED_ROWS[name]]
