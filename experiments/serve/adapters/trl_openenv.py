"""GRPO with TRL on a server of `costgym serve`, through OpenEnv's client.

The server may run anywhere: in the container of `openenv/Dockerfile`, or beside this process. A task's tools are methods of its
environment, so TRL shows a model exactly the tools that the server offers:

    world = RemoteWorld("http://127.0.0.1:8000", tasks=8)
    GRPOTrainer(model, args=..., train_dataset=world.train_dataset, environment_factory=world.environment_factory,
                reward_funcs=world.reward_funcs)

Source: TRL 1.16, environments; OpenEnv 0.10, generic client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from openenv import GenericEnvClient

from ....agents.prompts import INSTRUCTIONS
from ....simulators.draws import stable_integer
from ....simulators.errors import ConfigError, EpisodeOver, require
from ....simulators.status import LOOKS_OK, Status
from ....simulators.tools import ToolCard
from .trl import Row, TaskEnvironment, ToolFailure, tool_method


class RemoteEnvironment(TaskEnvironment):
    """An episode on a server; each task has a subclass that adds the task's tools as methods."""

    _url = ""

    def __init__(self) -> None:
        self._client = _connect(self._url)
        self._return, self._over, self._passed, self._price = 0.0, True, False, 0.0

    def reset(self, **row: Any) -> None:
        """Start the episode of a dataset row, given its `task` and `seed`; the row's prompt already contains the query."""
        self._client.reset(seed=int(row["seed"]), task=row["task"])
        self._return, self._over, self._passed, self._price = 0.0, False, False, 0.0

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        text, info = self._step(name, {key: value for key, value in arguments.items() if value is not None})
        if Status(info.get("status", 0)) not in LOOKS_OK:
            raise ToolFailure(text)
        return text

    def _step(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        if self._over:
            raise EpisodeOver("the task has ended; nothing more can be called")
        result = self._client.step({"name": name, "arguments": dict(arguments)})
        info = dict(result.metadata or {})
        self._return += float(result.reward or 0.0)
        self._over, self._passed = bool(result.done), bool(info.get("is_success"))
        self._price += float(info.get("cost_price") or 0.0)
        return str(result.observation.get("text", "")), info


def remote_return(
    environments: list[RemoteEnvironment], log_metric: Callable[..., None] | None = None, **_: Any
) -> list[float]:
    """Return the reward of each rollout: the sum of what the server gave, which is the Quality of Plan."""
    if log_metric is not None and environments:
        count = len(environments)
        log_metric("episode/success", sum(each._passed for each in environments) / count)
        log_metric("episode/price", sum(each._price for each in environments) / count)
        log_metric("episode/finished", sum(each._over for each in environments) / count)
    return [each._return for each in environments]


class RemoteWorld:
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
        self.rounds, self.seed = rounds, seed
        self._classes: dict[str, type[RemoteEnvironment]] = {}
        self._prompts: dict[str, list[dict[str, str]]] = {}
        client = _connect(url)
        try:
            for index in range(tasks):
                client.reset(seed=0, index=index)
                name = str(client.state()["task"])
                opening = client.reset(seed=0, task=name).observation
                if "functions" not in opening:
                    raise ConfigError("url", "the server plays no text view; serve costgym/MarketplaceChat-v0")
                methods = {}
                for document in opening["functions"]:
                    about = document["function"]
                    card = ToolCard(about["name"], about["description"], "", "", "", about["parameters"])
                    methods[card.name] = tool_method(card, opening["prices"][card.name], currency)
                space = {**methods, "_url": url, "__doc__": f"Task {name}."}
                self._classes[name] = type("Remote_" + re.sub(r"\W", "_", name), (RemoteEnvironment,), space)
                asked = {"role": "user", "content": opening["text"]}
                self._prompts[name] = [{"role": "system", "content": INSTRUCTIONS}, asked]
        finally:
            client.close()

    @property
    def environment_factory(self) -> dict[str, type[RemoteEnvironment]]:
        """The environment class of each task, by task id."""
        return dict(self._classes)

    @property
    def train_dataset(self) -> Any:
        """The dataset's rows as a `datasets.Dataset`."""
        return require("datasets", "train").Dataset.from_list(self.rows())

    @property
    def reward_funcs(self) -> list[Callable[..., list[float]]]:
        return [remote_return]

    def rows(self) -> list[Row]:
        """Return the dataset's rows: every task once, then every task again with the next seed, and so on."""
        return [
            {
                "prompt": self._prompts[name],
                "environment": name,
                "task": name,
                "seed": stable_integer(self.seed, "grpo", name, turn) % 2**31,
            }
            for turn in range(self.rounds)
            for name in self._classes
        ]


def _connect(url: str) -> Any:
    """OpenEnv's client of a server, connected."""
    client = GenericEnvClient(base_url=url).sync()
    client.connect()
    return client
