"""The marketplace for TRL's own tool loop: a data set, environments whose methods are tools, and a reward function.

    world = TrlWorld("marketplace", tasks=200)
    GRPOTrainer(model, args=..., train_dataset=world.train_dataset, environment_factory=world.environment_factory,
                reward_funcs=world.reward_funcs)

Each task has its own environment class, built from the tools that the task offers, so a prompt shows exactly these tools.

Source: TRL 1.16, environments.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from costgym.agents.models.base import Function
from costgym.agents.prompts import INSTRUCTIONS
from costgym.experiments.play.python_tools import python_tool
from costgym.experiments.play.text_episode import Row, TextWorld
from costgym.simulators.errors import EpisodeOver
from costgym.simulators.scenario import Scenario

Begin = Callable[..., Any]  # begins the episode of a row's columns: a `ToolEpisode`, or the like on a server


class TaskEnvironment:
    """An episode as TRL uses it; each task has a subclass that adds the task's tools as methods. It is not a Gymnasium
    environment, because TRL treats every public method as a tool."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._episode: Any = None

    def reset(self, **row: Any) -> None:
        """Start the episode of a dataset row; the row's prompt already contains the query."""
        self._episode = self._begin(**row)

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        if self._episode is None:
            raise EpisodeOver("no episode has begun; reset first")
        return str(self._episode.ask(name, {key: value for key, value in arguments.items() if value is not None}))


def episode_return(
    environments: Sequence[TaskEnvironment], log_metric: Callable[..., None] | None = None, **_: Any
) -> list[float]:
    """Return the reward of each rollout: the episode's return, which is its Quality of Plan; 0 for one that was never reset.
    The transcript is not used, because a trainer may have truncated it."""
    episodes = [each._episode for each in environments]
    if log_metric is not None and episodes:
        log_metric("episode/success", sum(each is not None and each.passed for each in episodes) / len(episodes))
        log_metric("episode/price", sum(each.price for each in episodes if each is not None) / len(episodes))
        log_metric("episode/finished", sum(each is None or each.over for each in episodes) / len(episodes))
    return [0.0 if each is None else each.reward for each in episodes]


class TrlWorld(TextWorld):
    """A scenario as the three arguments of TRL's trainer: dataset, environment factory and reward functions; arguments as for
    `TextWorld`. Raises ConfigError if a number is out of range, or a tool's or argument's name is not a valid Python name."""

    reward_funcs: ClassVar[list[Callable[..., list[float]]]] = [episode_return]

    def __init__(self, scenario: str | Path | Scenario = "marketplace", documents: str = "full", **settings: Any) -> None:
        super().__init__(scenario, documents=documents, **settings)
        self.environment_factory: dict[str, Callable[[], TaskEnvironment]] = {}
        for task in self.tasks:
            episode = self.begin(task=task, seed=0)
            quotes = episode.env.quotes() if documents == "full" else {}  # short documents contain the price
            kind = environment_class(task, episode.functions, quotes, self.scenario.currency)
            self.environment_factory[task] = partial(kind, self.begin)

    def rows(self) -> list[Row]:
        """Return the dataset's rows with `prompt`, `environment`, `task` and `seed`, in the order of `TextWorld.rows`."""
        return [{"prompt": self.prompt(row["task"]), "environment": row["task"], **row} for row in super().rows()]

    def prompt(self, task: str) -> list[dict[str, str]]:
        """Return the messages that precede the model's first message."""
        return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": self.tasks[task]}]


def environment_class(
    task: str, functions: Sequence[Function], quotes: Mapping[str, float], currency: str
) -> type[TaskEnvironment]:
    """Make the environment class of a task, whose methods are the functions; `quotes` are prices that their documents lack."""

    def method(function: Function) -> Callable[..., str]:
        def call(self: TaskEnvironment, **arguments: Any) -> str:
            return self._call(function.name, arguments)

        note = f"One call costs {quotes[function.name]:g} {currency}." if function.name in quotes else ""
        return python_tool(function, call, note, ("reset", "get_reward", "self"))

    methods = {each.name: method(each) for each in functions}
    return type("Task_" + re.sub(r"\W", "_", task), (TaskEnvironment,), {**methods, "__doc__": f"Task {task}."})
