"""GRPO with TRL: the marketplace as a data set, environments whose methods are tools, and a reward function.

    world = TrlWorld("marketplace", tasks=200)
    GRPOTrainer(model, args=..., train_dataset=world.train_dataset, environment_factory=world.environment_factory,
                reward_funcs=world.reward_funcs)

Each task has its own environment class, built from the tools that the task offers, so a prompt shows exactly these tools.
`RemoteWorld("http://127.0.0.1:8000", tasks=8)` is the same on a server of `costgym serve`, through OpenEnv's client.

Source: TRL 1.16, environments; OpenEnv 0.10, generic client.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from costgym.agents.models.base import FINISH, Function
from costgym.agents.prompts import INSTRUCTIONS
from costgym.experiments.play.python_tools import python_tool
from costgym.experiments.play.text_episode import Row, TextWorld, ToolFailure
from costgym.simulators.errors import ConfigError, EpisodeOver
from costgym.simulators.scenario import Scenario
from costgym.simulators.status import LOOKS_OK, Status

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
    episodes = [environment._episode for environment in environments]
    if log_metric is not None and episodes:
        log_metric("episode/success", sum(episode is not None and episode.passed for episode in episodes) / len(episodes))
        log_metric("episode/price", sum(episode.price for episode in episodes if episode is not None) / len(episodes))
        log_metric("episode/finished", sum(episode is None or episode.over for episode in episodes) / len(episodes))
    return [0.0 if episode is None else episode.reward for episode in episodes]


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

    methods = {function.name: method(function) for function in functions}
    return type("Task_" + re.sub(r"\W", "_", task), (TaskEnvironment,), {**methods, "__doc__": f"Task {task}."})


class RemoteEpisode:
    """An episode on a server; attributes as those of `ToolEpisode`."""

    def __init__(self, client: Any, task: str, seed: int, **_: Any) -> None:
        self._client = client
        self.over, self.passed, self.price, self.reward = False, False, 0.0, 0.0
        self.opening = client.reset(seed=seed, task=task).observation

    def ask(self, name: str, arguments: Any) -> str:
        """Call a function; raises as `ToolEpisode.ask` does, but for a spent budget, which the text tells."""
        if self.over:
            raise EpisodeOver("the episode has ended; nothing more can be called")
        result = self._client.step({"name": name, "arguments": arguments})
        info, text = dict(result.metadata or {}), str(result.observation.get("text", ""))
        self.reward += float(result.reward or 0.0)
        self.over, self.passed = bool(result.done), bool(info.get("is_success"))
        self.price += float(info.get("cost_price") or 0.0)
        if Status(info.get("status", 0)) not in LOOKS_OK:
            raise ToolFailure(text)
        return (text or "The task has ended.") if self.over else text


class RemoteWorld(TrlWorld):
    """A server's tasks as the three arguments of TRL's trainer.

    Args:
        url: address of the server.
        tasks: number of tasks from the start of the server's split.
        rounds: number of rows per task, each with its own seed.
        seed: base seed from which the rows' seeds are drawn.
        currency: name of the currency in the tools' descriptions.

    Raises:
        ConfigError: the server's environment is not the text view.
    """

    def __init__(self, url: str, tasks: int = 8, rounds: int = 4, seed: int = 0, currency: str = "credits") -> None:
        self.rounds, self.seed, self.tasks, self.environment_factory = rounds, seed, {}, {}
        client = _connect(url)
        try:
            for index in range(tasks):
                client.reset(seed=0, index=index)
                task = str(client.state()["task"])
                opening = RemoteEpisode(client, task, 0).opening
                if "functions" not in opening:
                    raise ConfigError("url", "the server does not play the text view; serve costgym/MarketplaceChat-v0")
                functions = [Function(**document["function"]) for document in opening["functions"]]
                self.tasks[task] = opening["text"]
                kind = environment_class(task, [*functions, FINISH], opening["prices"], currency)
                self.environment_factory[task] = partial(_environment, kind, url)
        finally:
            client.close()


def _environment(kind: type[TaskEnvironment], url: str) -> TaskEnvironment:
    """An environment with a connection of its own."""
    return kind(partial(RemoteEpisode, _connect(url)))


def _connect(url: str) -> Any:
    """OpenEnv's client of a server, connected."""
    from openenv import GenericEnvClient

    client = GenericEnvClient(base_url=url).sync()
    client.connect()
    return client
