"""The options of a leaderboard run: what they mean for the command line, for Python and for what a run plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ...envs.registration import class_of
from ...simulators.errors import ConfigError, UnknownName, require
from ...simulators.ledger import Budget
from ...simulators.scenario import Scenario
from ..play.experience import ExperienceSettings
from ..play.metrics import GRADINGS
from ..play.options import About
from .suites import SuiteWorld

MAX_SEEDS = 1000
"""Episodes of one task."""


@dataclass(frozen=True)
class RunOptions:
    """What is run; an option that is None leaves the suite's own choice.

    Raises:
        UnknownName: The grading is unknown.
        ConfigError: A number is out of range.
        MissingExtra: The zoo is to be played, and PyTorch is not installed.
    """

    suite: Annotated[str, About("What to run; `list` says which there are.")] = "quick"
    scenario: Annotated[
        str | Path | Scenario | None, About("A scenario of `costgym scenarios`, or a YAML file.", "NAME|FILE")
    ] = None
    data: Annotated[Path | str | None, About("Folder of the scenario's data; for OpenCATP, a table of outcomes.", "DIR")] = None
    agents: Annotated[Sequence[str] | None, About("By default the suite's.", "A,B,...")] = None
    budgets: Annotated[
        str | Sequence[Budget] | None, About("price=10,20,40 or price=20;seconds=60", "LIMITS", ("--budgets", "--budget"))
    ] = None
    episodes: Annotated[int | None, About("Per agent and budget; by default the suite's, or all instances.")] = None
    split: Annotated[str, About("train or test.")] = "test"
    grading: Annotated[str, About("Grade that counts as a pass: strict (every fact) or judge.")] = "strict"
    seed: Annotated[int, About("Seed; equal seeds give equal bytes.")] = 0
    model: Annotated[
        str,
        About("Language model of agents: simulated, openai:NAME, local:FOLDER[,adapter=DIR], or FILE.yaml:NAME."),
    ] = "simulated"
    search: Mapping[str, Any] | None = None
    """Fields of `SearchSettings` that differ from the agents' own."""
    btp: Mapping[str, Any] | None = None
    """Fields of `BtpSettings` that differ from the agents' own."""
    prices: Annotated[Path | str | None, About("Prices of a real model's tokens: a dated YAML table.", "FILE")] = None
    profile: Annotated[Path | str | None, About("Suite opencatp: prices of the tools; v100 by default.", "NAME|FILE")] = None
    vary: Mapping[str, Sequence[Any]] | None = None
    """Settings that vary within the run, with their values, such as ``{"alpha": [0.3, 0.5]}``."""
    experience: Annotated[
        ExperienceSettings | None,
        About("What BTP plans from, such as dfsdt:5: past uses a tool.", "EXPLORER:USES"),
    ] = None
    seeds: Annotated[
        int | None,
        About("Episodes of each task, for pass^k; by default the suite's. As many tasks are played as by the suite."),
    ] = None
    documents: Annotated[str | None, About("Text view: full documents of the tools (the default), or short ones.")] = None
    play_zoo: Annotated[bool, About("Play the trained agents that ship (extra `train`) instead of replaying them.")] = False

    def __post_init__(self) -> None:
        if self.grading not in GRADINGS:
            raise UnknownName("grading", self.grading, GRADINGS)
        whole = {"--seed": (self.seed, 0, 2**62 - 1, "from 0 to 2**62")}
        if self.seeds is not None:
            whole["--seeds"] = (self.seeds, 1, MAX_SEEDS, f"from 1 to {MAX_SEEDS}")
        for option, (value, low, high, said) in whole.items():
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(option, f"expected a whole number {said}, got {value!r}")
        count = self.episodes
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise ConfigError("--episodes", f"expected a positive whole number, got {count!r}")
        if self.play_zoo:
            require("torch", "train")

    def refused_by(self, world: SuiteWorld) -> str:
        """An option that the world has no use for; "" where there is none."""
        kind = class_of(world.env)
        wrong = {
            "--scenario": self.scenario is not None and "scenario" not in kind.WORLD_ARGUMENTS,
            "--seeds": self.seeds is not None and "scenario" not in kind.WORLD_ARGUMENTS,
            "--prices": self.prices is not None and "scenario" not in kind.WORLD_ARGUMENTS,
            "--profile": self.profile is not None and "profile" not in kind.WORLD_ARGUMENTS,
            "--grading": self.grading != GRADINGS[0] and not kind.gradings,
            "--documents": self.documents is not None and not world.views_with("documents"),
            **{f"--{name}": name not in world.vary for name in self.vary or {}},
        }
        return next((option for option, is_wrong in wrong.items() if is_wrong), "")

    @property
    def about_a_world(self) -> bool:
        """Some option replaces what a suite says of a world."""
        given = (self.scenario, self.data, self.budgets, self.prices, self.profile, self.seeds, self.documents)
        return bool(self.vary) or any(value is not None for value in given) or self.grading != GRADINGS[0]
