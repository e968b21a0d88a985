"""Tasks of a scenario, with the reward of the episode that a rollout has played."""

from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf

from costgym.experiments.play.text_episode import ToolEpisode, task_rows
from costgym_tasks.tools import MarketplaceTools, Played


class MarketplaceData(vf.TaskData):
    """A task and its seed, as `ToolEpisode.of_row` takes them."""

    row: dict[str, Any]


class MarketplaceTaskConfig(vf.TaskConfig):
    """Placement of the tool server."""

    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class MarketplaceTask(vf.Task[MarketplaceData, Played, MarketplaceTaskConfig]):
    """One episode, which ends with `finish`, with the model's last reply or over its budget."""

    @classmethod
    def toolsets(cls, config: MarketplaceTaskConfig) -> list[vf.Toolset]:
        """The functions of the task, in a server for each rollout."""
        return [MarketplaceTools(config.tools)]

    @vf.stop
    async def over(self, trace: vf.Trace) -> bool:
        """Return whether the episode has ended."""
        return bool(trace.state.over)

    @vf.reward(weight=1.0)
    async def quality(self, trace: vf.Trace) -> float:
        """The Quality of Plan, of the recorded calls played again; a last reply without `finish` is the answer."""
        episode = ToolEpisode.of_row(self.data.row)
        for name, arguments in trace.state.calls:
            episode.call(name, arguments)
        episode.finish(trace.last_reply or "", give_up=not trace.last_reply)
        figures = episode.score()
        trace.record_metrics(figures)
        return figures["quality"]


class MarketplaceConfig(vf.TasksetConfig):
    """Arguments of the episodes, see `costgym.experiments.play.text_episode.ToolEpisode`."""

    scenario: str = "marketplace"
    split: Literal["train", "test"] = "train"
    budget: str | None = None
    documents: Literal["full", "short"] = "short"
    seed: int = 0
    num_tasks: int | None = None
    task: MarketplaceTaskConfig = MarketplaceTaskConfig()


class MarketplaceTaskset(vf.Taskset[MarketplaceTask, MarketplaceConfig]):
    """The tasks of a split of a scenario."""

    def load(self) -> Iterator[MarketplaceTask]:
        """Make the tasks in the scenario's order."""
        of = self.config
        shared = {name: getattr(of, name) for name in ("scenario", "split", "budget", "documents", "seed")}
        for task_row in task_rows(of.scenario, of.split, of.num_tasks):
            row = {**shared, "task": task_row["task"]}
            prompt = ToolEpisode.of_row(row).prompt()
            data = MarketplaceData(id=task_row["id"], prompt=prompt[1]["content"], system_prompt=prompt[0]["content"], row=row)
            yield MarketplaceTask(data, of.task)
