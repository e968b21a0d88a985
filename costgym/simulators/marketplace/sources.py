"""Where a scenario's tools and tasks come from: a generator, or a folder of published data."""

from typing import Annotated, Literal

from pydantic import Field

from costgym.simulators.bounds import is_none, within
from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import FailureModel
from costgym.simulators.marketplace.market import Marketplace, Source
from costgym.simulators.retrieval import Retrieval

LISTED = 16  # tools that a task lists where a number is not given
Candidates = Annotated[int, within("source.candidates")]


class MarketplaceSource(Source):
    """A generated marketplace.

    Attributes:
        tools, providers, categories: How many of each it has.
        train, test: Number of tasks in each split.
        candidates: Number of tools on offer in a task; two numbers give a range; or how they are retrieved.
        needs: Number of facts that a task needs, 1 to 6; two numbers give a range. None: as in StableToolBench, mostly 2 or 3.
        chain_share: Share of the tasks in which one call's answer is another's argument; None for 0.35.
        chain_length: Calls that follow from one another in such a task, 2 to 4; two numbers give a range. None for 2.
        misnamed: Share of the tools whose name promises what their documentation denies; None for none.
        serving: Share of the tools on offer that serve a need, one for each need at least, beside the most similar of those
            that do not; None for up to three quarters. Of five tools that ToolBench's retriever finds, 0.49 serve
            (ToolPlanner, Table 27).
    """

    kind: Literal["marketplace"] = "marketplace"
    tools: int = within("source.tools", default=1432)
    providers: int = within("source.providers", default=240)
    categories: int = Field(default=36, ge=1, le=36)
    train: int = within("source.tasks", default=400)
    test: int = within("source.tasks", default=400)
    candidates: Candidates | tuple[Candidates, Candidates] | Retrieval = 16
    needs: int | tuple[int, int] | None = Field(default=None, exclude_if=is_none)
    chain_share: Annotated[float, within("source.chain_share")] | None = Field(default=None, exclude_if=is_none)
    chain_length: int | tuple[int, int] | None = Field(default=None, exclude_if=is_none)
    misnamed: Annotated[float, within("source.misnamed")] | None = Field(default=None, exclude_if=is_none)
    serving: Annotated[float, within("source.serving")] | None = Field(default=None, exclude_if=is_none)

    def market(self, seed: int, failures: FailureModel) -> Marketplace:
        """The tools, tasks and answers of this source."""
        from costgym.simulators.marketplace.generator import generate_marketplace
        from costgym.simulators.marketplace.tasks import TaskRules

        chosen = {name: getattr(self, name) for name in ("needs", "chain_share", "chain_length", "serving")}
        return generate_marketplace(
            seed,
            tools=self.tools,
            providers=self.providers,
            categories=self.categories,
            tasks={"train": self.train, "test": self.test},
            candidates=LISTED if isinstance(self.candidates, Retrieval) else self.candidates,
            failures=failures,
            rules=TaskRules(**{name: value for name, value in chosen.items() if value is not None}),
            misnamed=self.misnamed or 0.0,
            world=self.world,
        )


class FolderSource(Source):
    """Tools and tasks that are read from a folder of published data."""

    kind: str
    data: str | None = None  # the folder; the command line's `--data` fills it


class ToolBenchSource(FolderSource):
    """Real queries from a ToolBench or StableToolBench folder."""

    kind: Literal["toolbench"] = "toolbench"
    subsets: tuple[str, ...] | None = None  # names of query files, such as G1_instruction; None for all that are there
    tools: str | None = None  # folder with tool documents, where it is not inside `data`
    anytool_filter: str | None = None  # AnyTool's list of unsolvable ids (a JSON file); its ids are left out
    # how tools on offer are retrieved; None for the APIs that a query lists
    candidates: Retrieval | None = Field(default=None, exclude_if=is_none)

    def market(self, seed: int, failures: FailureModel) -> Marketplace:
        """The tools, tasks and answers of this source."""
        from costgym.simulators.marketplace.loaders.toolbench import load_toolbench

        left_out = self.anytool_filter
        return load_toolbench(
            self.data or "", seed=seed, subsets=self.subsets, tools=self.tools, anytool_unsolvable=left_out, failures=failures
        )


class MGToolBenchSource(FolderSource):
    """MGToolBench's tasks with their queries at all five instruction levels."""

    kind: Literal["mgtoolbench"] = "mgtoolbench"
    tools: str | None = None  # folder with tool documents, where there is one
    # how tools on offer are retrieved; None for the APIs that a task lists
    candidates: Retrieval | None = Field(default=None, exclude_if=is_none)

    def market(self, seed: int, failures: FailureModel) -> Marketplace:
        """The tools, tasks and answers of this source."""
        from costgym.simulators.marketplace.loaders.toolbench import load_mgtoolbench

        return load_mgtoolbench(self.data or "", seed=seed, tools=self.tools, failures=failures)


class AnyToolSource(FolderSource):
    """AnyToolBench's queries, which name no candidates: a task offers its own APIs and others, of its categories first."""

    kind: Literal["anytool"] = "anytool"
    tools: str | None = None  # folder with tool documents, where it is not inside `data`; their APIs are candidates too
    unsolvable: str | None = None  # AnyTool's list of unsolvable ids (a JSON file); its ids are left out
    candidates: Candidates | Retrieval = 16  # tools on offer in a task, at least its own; or how they are retrieved

    def market(self, seed: int, failures: FailureModel) -> Marketplace:
        """The tools, tasks and answers of this source."""
        from costgym.simulators.marketplace.loaders.toolbench import load_anytool

        return load_anytool(
            self.data or "",
            seed=seed,
            tools=self.tools,
            unsolvable=self.unsolvable,
            candidates=LISTED if isinstance(self.candidates, Retrieval) else self.candidates,
            failures=failures,
        )


class ToolDeerSource(FolderSource):
    """DEER's own samples: whether a query needs a tool, and whether one of the candidates fits."""

    kind: Literal["tooldeer"] = "tooldeer"


class WorldsSource(FolderSource):
    """The worlds of a folder that `costgym forge` wrote, of which every episode plays one; see `scenario.worlds_of`."""

    kind: Literal["worlds"] = "worlds"

    def market(self, seed: int, failures: FailureModel) -> Marketplace:
        """Refuse to be one world."""
        del seed, failures
        raise ConfigError("scenario", f"expected one world, got the folder {self.data}; name a world, such as {self.data}/0")


FOLDERS = {
    "toolbench": "ToolBench or StableToolBench",
    "mgtoolbench": "MGToolBench",
    "anytool": "AnyTool",
    "tooldeer": "ToolDEER",
    "worlds": "`costgym forge`",
}  # kinds of source that read a folder, and whose
