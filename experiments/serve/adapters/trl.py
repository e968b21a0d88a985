"""Adapt the marketplace's text view to TRL: a dataset, environments whose methods are tools, and a reward function.

`TrlWorld` provides the arguments of TRL's trainer:

    world = TrlWorld("marketplace", tasks=200)
    GRPOTrainer(model, args=..., train_dataset=world.train_dataset, environment_factory=world.environment_factory,
                reward_funcs=world.reward_funcs)

Every task has its own environment class, built from the tools that the task offers, so a prompt shows exactly these tools. A
dataset row holds a task and a seed; all completions of a group are reset with the same row and therefore see the same world.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ....agents.prompts import INSTRUCTIONS
from ....envs.actions import FINISH, encode_action
from ....envs.chat import MarketplaceChatEnv
from ....simulators.draws import stable_integer
from ....simulators.errors import BudgetExceeded, ConfigError, EpisodeOver, require
from ....simulators.scenario import Scenario, load_scenario
from ....simulators.status import LOOKS_OK, Status
from ....simulators.tools import ToolText

Row = dict[str, Any]
_TYPES: dict[str, type] = {"integer": int, "number": float, "string": str, "boolean": bool, "array": list, "object": dict}
_SECTION = re.compile(r"\b(Args|Arguments|Returns|Raises):")
_RESERVED = ("reset", "get_reward", FINISH)


class ToolFailure(Exception):
    """A failed tool call; its message is the tool's response, which trainers show to the model."""


class TaskEnvironment:
    """An episode as TRL uses it; each task has a subclass that adds the task's tools as methods.

    It is not a Gymnasium environment, because TRL treats every public method as a tool.
    """

    _settings: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self._env = MarketplaceChatEnv(**self._settings)
        self._return = 0.0
        self._over = True

    def reset(self, **row: Any) -> None:
        """Start the episode of a dataset row, given its `task` and `seed`; the row's prompt already contains the query."""
        if "task" not in row or "seed" not in row:
            raise ConfigError("dataset row", f"expected the columns task and seed, got {', '.join(sorted(row)) or 'none'}")
        self._env.reset(seed=int(row["seed"]), options={"task": row["task"]})
        self._return, self._over = 0.0, False

    def finish(self, answer: str, give_up: bool | None = None) -> str:
        """End the task. Give the complete answer to the user, or set give_up if the task cannot be solved.

        Args:
            answer: The final answer, with every fact the user asked for.
            give_up: True to give up instead.
        """
        self._step(FINISH, {"answer": answer, "give_up": give_up is True})
        return "The task has ended."

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        observation, info = self._step(name, {key: value for key, value in arguments.items() if value is not None})
        episode = self._env.episode
        assert episode is not None
        if self._over and episode.exceeded is not None:
            limit = episode.budget.as_dict()[episode.exceeded]
            raise BudgetExceeded(episode.exceeded, limit - episode.remaining()[episode.exceeded], limit)
        if Status(info["status"]) not in LOOKS_OK:
            raise ToolFailure(observation)
        return observation

    def _step(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        if self._over:
            raise EpisodeOver("the task has ended; nothing more can be called")
        observation, reward, terminated, truncated, info = self._env.step(encode_action(name, arguments))
        self._return += float(reward)
        self._over = terminated or truncated
        return observation, info


def episode_return(
    environments: Sequence[TaskEnvironment], log_metric: Callable[..., None] | None = None, **_: Any
) -> list[float]:
    """Return the reward of each rollout: the episode's return (its Quality of Plan), computed from the environment's state.

    The transcript is not used, because a trainer may have truncated it.
    """
    if log_metric is not None and environments:
        count = len(environments)
        log_metric("episode/success", sum(each._env.succeeded for each in environments) / count)
        log_metric("episode/price", sum(each._env._playing().ledger.price for each in environments) / count)
        log_metric("episode/finished", sum(each._over for each in environments) / count)
    return [each._return for each in environments]


class TrlWorld:
    """A scenario as the three arguments of TRL's trainer: dataset, environment factory and reward functions.

    Args:
        scenario: name, YAML file or `Scenario`.
        split: split of the tasks.
        tasks: number of tasks from the start of the split; None for all.
        most_needs: maximum number of facts that a task may ask for; other tasks are excluded.
        rounds: number of rows per task, each with its own seed.
        budget: resource limits; None for the scenario's.
        seed: base seed from which the rows' seeds are drawn.
        max_steps: number of calls after which an episode is truncated.
        documents: `full` or `short` documents of the tools; short ones are those of `costgym train sft`.

    Raises:
        ConfigError: a number is out of range, or the name of a tool or argument is not a valid Python name.
    """

    def __init__(
        self,
        scenario: str | Path | Scenario = "marketplace",
        split: str = "train",
        tasks: int | None = None,
        most_needs: int | None = None,
        rounds: int = 4,
        budget: Mapping[str, float] | None = None,
        seed: int = 0,
        max_steps: int = 32,
        documents: str = "full",
    ) -> None:
        for name, value in (("tasks", tasks), ("most_needs", most_needs), ("rounds", rounds)):
            if value is None and name != "rounds":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(name, f"expected a positive whole number, got {value!r}")
        self.scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
        self.rounds, self.seed, self.documents = rounds, seed, documents
        self._settings: dict[str, Any] = {
            "scenario": self.scenario,
            "split": split,
            "budget": None if budget is None else dict(budget),
            "max_steps": max_steps,
            "documents": documents,
        }
        env = MarketplaceChatEnv(**self._settings)
        self._classes: dict[str, type[TaskEnvironment]] = {}
        self._queries: dict[str, str] = {}
        currency = self.scenario.currency
        numbers = [n for n in env.numbers if most_needs is None or len(env.world.tasks[n].needs) <= most_needs]
        if not numbers:
            raise ConfigError("most_needs", f"no task of the split {split} asks for at most {most_needs} facts")
        for number in numbers[:tasks]:
            env.reset(seed=0, options={"task": number})
            quotes = env.quotes()
            tools = env.seat("").tools
            told = quotes if documents == "full" else {}  # short documents hold the price
            methods = {tool.name: tool_method(tool, told.get(tool.name), currency) for tool in tools}
            task = env.task.id
            space = {**methods, "_settings": self._settings, "__doc__": f"Task {task}."}
            self._classes[task] = type("Task_" + re.sub(r"\W", "_", task), (TaskEnvironment,), space)
            self._queries[task] = env.query

    @property
    def environment_factory(self) -> dict[str, type[TaskEnvironment]]:
        """The environment class of each task, by task id."""
        return dict(self._classes)

    @property
    def train_dataset(self) -> Any:
        """The dataset's rows with `prompt`, `environment`, `task` and `seed`, as a `datasets.Dataset`.

        Raises:
            MissingExtra: datasets is not installed.
        """
        return require("datasets", "train").Dataset.from_list(self.rows())

    @property
    def reward_funcs(self) -> list[Callable[..., list[float]]]:
        return [episode_return]

    def rows(self) -> list[Row]:
        """Return the dataset's rows: every task once, then every task again with the next seed, and so on."""
        return [
            {
                "prompt": self.prompt(task),
                "environment": task,
                "task": task,
                "seed": stable_integer(self.seed, "grpo", task, turn) % 2**31,
            }
            for turn in range(self.rounds)
            for task in self._classes
        ]

    def prompt(self, task: str) -> list[dict[str, str]]:
        """Return the messages that precede the model's first message."""
        return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": self._queries[task]}]


def tools_of(environment: TaskEnvironment) -> list[Callable[..., str]]:
    """Return the methods that TRL treats as tools, in TRL's order."""
    members = inspect.getmembers(type(environment), predicate=inspect.isfunction)
    return [getattr(environment, name) for name, _ in members if not name.startswith("_") and name != "reset"]


def tool_method(tool: ToolText, quote: float | None, currency: str) -> Callable[..., str]:
    """Convert a tool to a method whose signature, annotations and docstring give the tool's schema, and the price if any."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    for name in (tool.name, *properties):
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or name in (*_RESERVED, "self"):
            raise ConfigError(f"tool {tool.name}", f"{name!r} is not a valid name of a Python method or argument")

    def call(self: TaskEnvironment, **arguments: Any) -> str:
        return self._call(tool.name, arguments)

    described, annotations, parameters = [], {}, [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, schema in sorted(properties.items(), key=lambda each: each[0] not in required):
        choices = schema.get("enum")
        form: Any = Literal[tuple(choices)] if choices else _TYPES.get(schema.get("type", "string"), str)
        default: Any = inspect.Parameter.empty
        if name not in required:
            form, default = form | None, None
        annotations[name] = form
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=form))
        described.append(f"    {name}: {_line(schema.get('description')) or name}")
    head = _line(tool.description) or tool.name
    if quote is not None:
        head = f"{head} One call costs {quote:g} {currency}."
    call.__doc__ = "\n".join([head, "", "Args:", *described]) if described else head
    call.__name__ = call.__qualname__ = tool.name
    call.__annotations__ = {**annotations, "return": str}
    call.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return call


def _line(text: Any) -> str:
    """Return a description on one line, without text that would be parsed as a docstring section."""
    return _SECTION.sub(r"\1 -", " ".join(str(text or "").split()))
