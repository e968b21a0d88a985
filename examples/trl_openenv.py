"""GRPO with TRL on a server of `costgym serve`, through OpenEnv's client.

The server may run anywhere: in the container of `openenv/Dockerfile`, or beside this process.

    world = RemoteWorld("http://127.0.0.1:8000", tasks=8)
    GRPOTrainer(model, args=..., train_dataset=world.train_dataset, environment_factory=world.environment_factory,
                reward_funcs=world.reward_funcs)

Source: TRL 1.16, environments; OpenEnv 0.10, generic client.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from openenv import GenericEnvClient

from costgym.agents.models.base import FINISH, Function
from costgym.experiments.play.text_episode import ToolFailure
from costgym.experiments.serve.adapters.trl import TaskEnvironment, TrlWorld, environment_class
from costgym.simulators.errors import ConfigError, EpisodeOver
from costgym.simulators.status import LOOKS_OK, Status


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
    client = GenericEnvClient(base_url=url).sync()
    client.connect()
    return client
