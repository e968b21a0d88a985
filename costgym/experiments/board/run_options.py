"""The options of a leaderboard run: what they mean for the command line, for Python and for what a run plays."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, model_validator

from costgym.experiments.play.options import EXPERIENCE, PRICES, SCENARIO, Documents, Model, Seed, Split
from costgym.simulators.bounds import Count, Settings, option
from costgym.simulators.errors import check_known, require
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import Scenario

if TYPE_CHECKING:
    from costgym.experiments.board.suites import SuiteWorld

MAX_SEEDS = 1000  # episodes of one task


def _experience(value: Any) -> Any:
    from costgym.experiments.play.experience import ExperienceSettings

    return ExperienceSettings.parse(value) if isinstance(value, str) else value


class RunOptions(Settings):
    """What is run; an option that is None leaves the suite's own choice. Raises MissingExtra where the zoo lacks PyTorch."""

    heading: ClassVar[str] = "What is played"  # in the help of the command line
    suite: Annotated[str, option("What to run; `list` shows the suites.")] = "quick"
    scenario: Annotated[str | Path | Scenario | None, SCENARIO] = None
    data: Annotated[Path | str | None, option("Folder with the scenario's data; OpenCATP: a table of outcomes.", "DIR")] = None
    agents: Annotated[Sequence[str] | None, option("Agents that play; by default the suite's.", "A,B,...")] = None
    budgets: Annotated[
        str | Sequence[Budget] | None,
        option("Budgets: price=10,20,40 or price=20;seconds=60", "LIMITS", "--budgets", "--budget"),
    ] = None
    episodes: Annotated[
        Count | None, option("Episodes per agent and budget; by default the suite's, or one for each instance.")
    ] = None
    split: Split = "test"
    grading: Annotated[str, option("Grade that counts as a pass: strict (every fact) or judge, a seeded stand-in.")] = "strict"
    seed: Seed = 0
    model: Model = "simulated"
    search: Mapping[str, Any] | None = None  # fields of `SearchSettings` that differ from the agents' own
    btp: Mapping[str, Any] | None = None  # fields of `BtpSettings` that differ from the agents' own
    prices: Annotated[Path | str | None, PRICES] = None
    profile: Annotated[Path | str | None, option("Suite opencatp: prices of the tools; v100 by default.", "NAME|FILE")] = None
    vary: Mapping[str, Sequence[Any]] | None = None  # settings that vary within the run, such as `{"alpha": [0.3, 0.5]}`
    experience: Annotated[Any, BeforeValidator(_experience), EXPERIENCE] = None
    seeds: Annotated[
        int | None,
        option("Episodes of each task, for pass^k; by default the suite's. The number of tasks stays.", ge=1, le=MAX_SEEDS),
    ] = None
    documents: Documents = None
    play_zoo: Annotated[
        bool, option("Play the trained agents that ship (extra `train`) instead of replaying them.", "", "--play-zoo")
    ] = False
    alpha: Annotated[Sequence[float] | None, option("Suite opencatp: weights of the score; 0.5 by default.", "A,B,...")] = None
    world: Annotated[
        int | None, option("Version of the world; by default the suite's, which is 1 where there is one.", "0|1", ge=0, le=1)
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _varied(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if fields.get("alpha") is None:
            return fields
        return {**fields, "vary": {**(fields.get("vary") or {}), "alpha": list(fields["alpha"])}}

    @model_validator(mode="after")
    def _check(self) -> Self:
        from costgym.experiments.play.metrics import GRADINGS

        check_known("grading", self.grading, GRADINGS)
        if self.play_zoo:
            require("torch", "train")
        return self

    def refused_by(self, world: "SuiteWorld") -> str:
        """An option that the world has no use for; "" where there is none."""
        from costgym.envs.registration import class_of

        kind = class_of(world.env)
        wrong = {
            "--scenario": self.scenario is not None and kind.world_kind != "tools",
            "--seeds": self.seeds is not None and kind.world_kind != "tools",
            "--prices": self.prices is not None and kind.world_kind != "tools",
            "--profile": self.profile is not None and "profile" not in kind.world_class.arguments_of_world,
            "--grading": self.grading != "strict" and not kind.gradings,
            "--documents": self.documents is not None and not world.views_with("documents"),
            "--world": self.world is not None and self.world < world.first_world,
            **{f"--{name}": name not in world.vary for name in self.vary or {}},
        }
        return next((option for option, is_wrong in wrong.items() if is_wrong), "")

    @property
    def about_a_world(self) -> bool:
        """Some option replaces what a suite says of a world."""
        choices = (self.scenario, self.data, self.budgets, self.prices, self.profile, self.seeds, self.documents)
        return bool(self.vary) or any(value is not None for value in choices) or self.grading != "strict"
