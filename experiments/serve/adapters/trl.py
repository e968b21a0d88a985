"""The marketplace for TRL's own tool loop: a data set, environments whose methods are tools, and a reward function.

    world = TrlWorld("marketplace", tasks=200)
    GRPOTrainer(model, args=..., train_dataset=world.train_dataset, environment_factory=world.environment_factory,
                reward_funcs=world.reward_funcs)

Each task has its own environment class, built from the tools that the task offers, so a prompt shows exactly these tools.

Source: TRL 1.16, environments.
"""

import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from ....agents.models.base import Function
from ....agents.prompts import INSTRUCTIONS
from ....envs.actions import FINISH
from ....simulators.errors import ConfigError, EpisodeOver
from ....simulators.scenario import Scenario
from ...play.text_episode import Row, TextWorld

_TYPES: dict[str, type] = {"integer": int, "number": float, "string": str, "boolean": bool, "array": list, "object": dict}
_SECTION = re.compile(r"\b(Args|Arguments|Returns|Raises):")
_RESERVED = ("reset", "get_reward", FINISH, "self")


Begin = Callable[[str, int], Any]  # begins the episode of a task and a seed: a `ToolEpisode`, or the like on a server


class TaskEnvironment:
    """An episode as TRL uses it; each task has a subclass that adds the task's tools as methods. It is not a Gymnasium
    environment, because TRL treats every public method as a tool."""

    _connect: Callable[[], Begin]

    def __init__(self) -> None:
        self._begin = type(self)._connect()
        self._episode: Any = None

    def reset(self, **row: Any) -> None:
        """Start the episode of a dataset row, given its `task` and `seed`; the row's prompt already contains the query."""
        if "task" not in row or "seed" not in row:
            raise ConfigError("dataset row", f"expected the columns task and seed, got {', '.join(sorted(row)) or 'none'}")
        self._episode = self._begin(row["task"], int(row["seed"]))

    def finish(self, answer: str, give_up: bool | None = None) -> str:
        """End the task. Give the complete answer to the user, or set give_up if the task cannot be solved.

        Args:
            answer: The final answer, with every fact the user asked for.
            give_up: True to give up instead.
        """
        return self._call(FINISH, {"answer": answer, "give_up": give_up is True})

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
        self.environment_factory: dict[str, type[TaskEnvironment]] = {}
        for task in self.tasks:
            episode = self.begin(task, 0)
            quotes = episode.env.quotes() if documents == "full" else {}  # short documents contain the price
            self._add(task, episode.functions[:-1], quotes, self.scenario.currency, lambda: self.begin)

    def _add(
        self, task: str, functions: Sequence[Function], quotes: Mapping[str, float], currency: str, connect: Callable[[], Begin]
    ) -> None:
        """Make the environment class of a task; `connect` is called once for each environment."""
        methods = {each.name: tool_method(each, quotes.get(each.name), currency) for each in functions}
        space = {**methods, "_connect": staticmethod(connect), "__doc__": f"Task {task}."}
        self.environment_factory[task] = type("Task_" + re.sub(r"\W", "_", task), (TaskEnvironment,), space)

    def rows(self) -> list[Row]:
        """Return the dataset's rows with `prompt`, `environment`, `task` and `seed`, in the order of `TextWorld.rows`."""
        return [{"prompt": self.prompt(row["task"]), "environment": row["task"], **row} for row in super().rows()]

    def prompt(self, task: str) -> list[dict[str, str]]:
        """Return the messages that precede the model's first message."""
        return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": self.tasks[task]}]


def tools_of(environment: TaskEnvironment) -> list[Callable[..., str]]:
    """Return the methods that TRL treats as tools, in TRL's order."""
    members = inspect.getmembers(type(environment), predicate=inspect.isfunction)
    return [getattr(environment, name) for name, _ in members if not name.startswith("_") and name != "reset"]


def tool_method(tool: Function, quote: float | None, currency: str) -> Callable[..., str]:
    """Convert a tool to a method whose signature, annotations and docstring give the tool's schema, and the price if any."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    for name in (tool.name, *properties):
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or name in _RESERVED:
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
