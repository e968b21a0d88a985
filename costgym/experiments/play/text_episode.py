"""An episode of the text view played by function calls, as evaluators and trainers of language models want it."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from costgym.agents.base import SESSION_CHAT, Agent
from costgym.agents.models.base import FINISH, Function, FunctionCall
from costgym.agents.prompts import INSTRUCTIONS, NEWS, NUDGE
from costgym.envs.actions import FINISH as FINISH_NAME
from costgym.envs.actions import RESERVED, count_tokens, encode_action
from costgym.envs.base import base_env
from costgym.envs.registration import in_version, make
from costgym.envs.sessions.base import CANCEL
from costgym.experiments.play.episodes import AgentInfo, play, result_of
from costgym.simulators.calls import Usage
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import BudgetExceeded, ConfigError, EpisodeOver, require
from costgym.simulators.files import write_atomically
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import Scenario, load_scenario, worlds_of

Row = dict[str, Any]
ENV_ID = "costgym/MarketplaceChat-v0"
HOW_TO_CALL = (
    'Call a function by writing <tool_call>{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}</tool_call> and nothing else.'
)
ROW_SETTINGS = (
    "scenario", "session", "budget", "split", "documents", "grading", "enforcement", "level", "max_observation", "max_steps",
)  # fmt: skip
"""Columns of a data set's row, besides `task` and `seed`, that are arguments of the episode."""


class ToolFailure(Exception):
    """A failed tool call; its message is the tool's response, which frameworks show to the model."""


class Answer(NamedTuple):
    """The response to a function call."""

    text: str
    failed: bool  # whether the caller sees that the call failed


class ToolEpisode:
    """An episode of `costgym/MarketplaceChat-v0`, or of `MarketplaceSessionChat-v0`, played by function calls.

    An adapter for a framework translates between the framework's types and this class:

    >>> episode = ToolEpisode(task=0, seed=7, budget="price=20")
    >>> prompt, tools = episode.prompt(), [function.document() for function in episode.functions]
    >>> answer = episode.call(episode.functions[0].name, {})  # a call of the model
    >>> episode.finish("I do not know.")
    >>> episode.over, episode.passed, episode.reward == episode.score()["quality"]
    (True, False, True)

    Args:
        seed: keys the world's chance; the same task and seed give the same luck to everybody.
        scenario: name, YAML file or `Scenario`.
        budget: limits, as `"price=20"` or by resource; None for the scenario's.
        session: rules of a session, such as ``{"queries": 20}``, whose number is `task`; None for a task of a scenario.

    Attributes:
        over: the episode has ended.
        reward: the undiscounted return so far: the Quality of Plan.
    """

    def __init__(
        self,
        task: int | str,
        seed: int = 0,
        scenario: str | Path | Scenario = "marketplace",
        budget: str | Mapping[str, float] | None = None,
        session: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        limits = None if budget is None else Budget.one(budget).as_dict()
        world_settings = {"scenario": _read_scenario(scenario)} if session is None else dict(session)
        self._env_id = SESSION_CHAT if session is not None else in_version(ENV_ID, world_settings["scenario"].world)
        world: Any = base_env(make(self._env_id, disable_env_checker=True, budget=limits, **world_settings, **settings))
        self.env = world
        self.reward, self.over, self._handed_out = 0.0, False, 0.0
        self.env.reset(seed=seed, options={"task": task})
        self.functions = [Function(**document["function"]) for document in self.env.documentation()] + [FINISH]
        self._documents = sum(function.tokens for function in self.functions)
        self._read = count_tokens(INSTRUCTIONS) + count_tokens(self.query)

    @classmethod
    def of_row(cls, row: Mapping[str, Any], **defaults: Any) -> "ToolEpisode":
        """Begin the episode that a row of a data set names.

        Args:
            row: columns `task`, `seed` (0 by default) and any of `ROW_SETTINGS`; other columns and None are ignored.
            defaults: arguments for which the row has no column.

        Raises:
            ConfigError: the row names no task.
        """
        if "task" not in row:
            raise ConfigError("dataset row", f"expected the columns task and seed, got {', '.join(sorted(row)) or 'none'}")
        settings = {name: row[name] for name in ROW_SETTINGS if row.get(name) is not None}
        return cls(row["task"], int(row.get("seed") or 0), **{**defaults, **settings})

    @property
    def query(self) -> str:
        """The user's request."""
        return str(self.env.query)

    @property
    def passed(self) -> bool:
        """Return whether the answer was accepted within the budget."""
        return bool(self.env.succeeded)

    @property
    def price(self) -> float:
        """Price of the calls and tokens so far, in the scenario's currency."""
        return float(self.env.account().ledger.price)

    @property
    def exceeded(self) -> str | None:
        """The resource whose limit ended the episode, or None."""
        exceeded: str | None = self.env.account().exceeded
        return exceeded

    def prompt(self) -> list[dict[str, str]]:
        """The messages before the model's first one, for models that receive the functions separately."""
        return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": self.query}]

    def call(self, name: str, arguments: Any, usage: Usage | None = None) -> Answer:
        """Call a function, `finish` included.

        Args:
            arguments: an object, or JSON text that holds one.
            usage: tokens that the model reports for this turn; by default they are counted, one for each four characters.

        Raises:
            EpisodeOver: the episode has ended.
        """
        return self.turn([FunctionCall(name, arguments)], usage)[0]

    def ask(self, name: str, arguments: Any) -> str:
        """Call a function and return its text, for frameworks in which a tool that fails raises an error.

        Raises:
            ToolFailure: the call failed.
            BudgetExceeded: the call ended the episode over a limit of its budget.
            EpisodeOver: the episode has ended.
        """
        answer, account = self.call(name, arguments), self.env.account()
        if account.exceeded is not None:
            limit = account.budget.as_dict()[account.exceeded]
            raise BudgetExceeded(account.exceeded, limit - account.remaining()[account.exceeded], limit)
        if answer.failed:
            raise ToolFailure(answer.text)
        return answer.text

    def turn(self, calls: Sequence[FunctionCall], usage: Usage | None = None) -> list[Answer]:
        """Make the calls of one reply, in parallel if there are several; arguments and errors as for `call`."""
        if self.over:
            raise EpisodeOver("the episode has ended; nothing more can be called")
        ending = next((call for call in calls if call.name == FINISH_NAME), None)
        if ending is not None:
            self._step(encode_action(FINISH_NAME, ending.read() or {}, self._usage(calls, usage)))
            return [Answer("The task has ended.", False)] * len(calls)
        names = [function.name for function in self.functions]
        requests = [{"name": tool_name(call.name, names), "arguments": call.arguments} for call in calls]
        action: dict[str, Any] = requests[0] if len(requests) == 1 else {"calls": requests}
        info = self._step(json.dumps({**action, "usage": self._usage(calls, usage)._asdict()}, default=str))
        results = self.env.visible_info(info)["results"]
        answers = [
            Answer(result["text"], result["status"] != "ok" and (result["status"], call.name) != ("cancelled", CANCEL))
            for result, call in zip(results, calls, strict=False)
        ]
        if info["news"] and answers:
            answers[-1] = Answer(f"{answers[-1].text}\n{NEWS}{'; '.join(info['news'])}", answers[-1].failed)
        answers += [Answer("The episode has ended.", True)] * (len(calls) - len(answers))
        self._read += sum(count_tokens(answer.text) for answer in answers)
        return answers

    def say(self, text: str, calls: Sequence[FunctionCall] = ()) -> list[dict[str, Any]]:
        """Play a reply of a model and return the messages that respond to it. A reply without a call costs its tokens and is
        answered with a reminder; it is not taken for the final answer."""
        if calls:
            answers = self.turn(calls)
            return [
                {"role": "tool", "name": call.name, "content": answer.text} for call, answer in zip(calls, answers, strict=True)
            ]
        self._step(encode_action("think", usage=self._usage((), None, text)))
        return [{"role": "user", "content": NUDGE}]

    def play(self, agent: Agent) -> None:
        """Play the episode from its beginning with an agent of the text view; nothing was called before."""
        episode = self.env.account()
        play(self.env, agent, int(episode.number), int(episode.seed))
        self.over = True

    def finish(self, answer: str, give_up: bool = False) -> None:
        """Submit the answer; an episode that has ended is left unchanged."""
        if not self.over:
            self.call(FINISH_NAME, {"answer": answer, "give_up": give_up})

    def _usage(self, calls: Sequence[FunctionCall], usage: Usage | None, text: str = "") -> Usage:
        spoken = count_tokens(text + "".join(f"{call.name}{call.arguments}" for call in calls))
        counted = Usage(self._documents + self._read, spoken) if usage is None else usage
        self._read += spoken
        return counted

    def _step(self, action: str) -> dict[str, Any]:
        _, reward, terminated, truncated, info = self.env.step(action)
        self.reward += float(reward)
        self.over = terminated or truncated
        return dict(info)

    def score(self, player: str = "client", model: str = "client") -> dict[str, float]:
        """The figures of the episode, which is given up first if it has not ended; a `success` is within the budget. The names
        `player` and `model` stand in the record that the figures are taken from."""
        self.env.give_up()
        self.over = True
        result = result_of(self.env, AgentInfo(player, model), self._env_id, 0)
        optimum = {} if result.optimum_price is None else {"optimum_price": result.optimum_price}
        return {
            "success": float(self.env.succeeded),
            "share_of_facts": result.share,
            "price": result.price,
            "seconds": result.seconds,
            "tokens": float(result.tokens),
            "calls": float(result.calls),
            "within_budget": float(result.within_budget),
            "agent_errors": float(result.errors["agent"]),
            "quality": result.quality,
            **optimum,
        }

    def step_reward(self) -> float:
        """Return the reward since the last time this was called, for trainers that reward each step."""
        earned, self._handed_out = self.reward - self._handed_out, self.reward
        return earned


class TextWorld:
    """The tasks of a scenario, each to be played under several seeds; the base of the worlds that trainers take.

    Args:
        scenario: name, YAML file or `Scenario`.
        tasks: number of tasks from the start of the split; None for all.
        most_needs: maximum number of facts that a task may ask for; other tasks are excluded.
        rounds: number of rows per task, each with its own seed.
        budget: resource limits; None for the scenario's.
        max_steps: number of calls after which an episode is truncated.
        documents: `full` or `short` documents of the tools; short ones are those of `costgym train sft`.
        settings: further arguments of `ToolEpisode`, such as `grading`.

    Attributes:
        tasks: query of each task, by id.
    """

    def __init__(
        self,
        scenario: str | Path | Scenario = "marketplace",
        split: str = "train",
        tasks: int | None = None,
        most_needs: int | None = None,
        rounds: int = 4,
        budget: str | Mapping[str, float] | None = None,
        seed: int = 0,
        max_steps: int = 32,
        documents: str = "short",
        **settings: Any,
    ) -> None:
        for name, value in (("tasks", tasks), ("most_needs", most_needs), ("rounds", rounds)):
            if (value is not None or name == "rounds") and (type(value) is not int or value < 1):
                raise ConfigError(name, f"expected a positive whole number, got {value!r}")
        self.scenario = _read_scenario(scenario)
        self.split, self.rounds, self.seed, self.documents = split, rounds, seed, documents
        self.budget = None if budget is None else Budget.one(budget).as_dict()
        self.columns: Row = {"split": split, "documents": documents, "max_steps": max_steps, **settings}  # of every row
        self._source = scenario
        rows = [row for row in task_rows(self.scenario, split) if most_needs is None or row["needs"] <= most_needs]
        if not rows:
            raise ConfigError("most_needs", f"no task of the split {split} asks for at most {most_needs} facts")
        self.numbers: dict[str, int] = {row["id"]: row["task"] for row in rows[:tasks]}
        self.tasks: dict[str, str] = {row["id"]: row["query"] for row in rows[:tasks]}

    def rows(self) -> list[Row]:
        """Return the rows, with `task` and `seed`: every task once, then every task again with the next seed, and so on. All
        completions of a group have the same row and therefore see the same world."""
        return [
            {"task": task, "seed": stable_integer(self.seed, "grpo", task, turn) % 2**31}
            for turn in range(self.rounds)
            for task in self.tasks
        ]

    @property
    def train_dataset(self) -> Any:
        """The rows as a `datasets.Dataset`."""
        return require("datasets", "train").Dataset.from_list(self.rows())

    def write(self, path: str | Path, columns: Callable[[ToolEpisode], Row]) -> Path:
        """Write the rows to a file, with all that `ToolEpisode.of_row` takes: Parquet if its name ends in `.parquet`, else JSON
        lines. `columns` makes a framework's own columns, such as the prompt, from the episode of a row as it begins.

        Raises:
            ConfigError: the scenario has neither a name nor a file.
        """
        if isinstance(self._source, Scenario):
            raise ConfigError("scenario", "expected a name or a YAML file, which the rows can hold; got a Scenario")
        shared = {"scenario": str(self._source), **self.columns} | ({} if self.budget is None else {"budget": self.budget})
        rows = [{**shared, **row, **columns(self.begin(**row))} for row in self.rows()]
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".parquet":
            require("datasets", "train").Dataset.from_list(rows).to_parquet(str(target))
        else:
            write_atomically(target, "".join(f"{json.dumps(row)}\n" for row in rows))
        return target

    def begin(self, **row: Any) -> ToolEpisode:
        """Begin the episode of a row, as `ToolEpisode.of_row` does."""
        return ToolEpisode.of_row(row, scenario=self.scenario, budget=self.budget, **self.columns)


def tool_name(name: object, names: Sequence[str] = ()) -> str:
    """The name under which a model's call is played: waiting and thinking are no functions unless the episode has its `own`."""
    return f"{name}?" if name in RESERVED and name not in names else str(name)


def text_prompt(episode: ToolEpisode) -> list[dict[str, str]]:
    """The messages before the model's first one, for models that read the functions as text: one per line, with its price."""
    lines = [function_line(function) for function in episode.functions]
    about = "\n".join([INSTRUCTIONS, "", "Functions:", *lines, "", HOW_TO_CALL])
    return [{"role": "system", "content": about}, {"role": "user", "content": episode.query}]


def function_line(function: Function) -> str:
    """A function on one line: name, required arguments and description.

    >>> function_line(FINISH).partition(".")[0]
    'finish(answer: string): End the task'
    """
    properties = function.parameters.get("properties", {})
    arguments = [f"{name}: {properties[name].get('type', 'any')}" for name in function.parameters.get("required", ())]
    return f"{function.name}({', '.join(arguments)}): {' '.join(function.description.split())}"


def task_rows(scenario: str | Path | Scenario = "marketplace", split: str = "test", tasks: int | None = None) -> list[Row]:
    """The first tasks of a split (None: all) as rows with `task` (number), `id`, `query` and `needs` (number of facts asked
    for). Raises ConfigError for a folder of worlds, of which each seed plays another."""
    world = _read_scenario(scenario)
    if worlds_of(world) is not None:
        raise ConfigError("scenario", "rows of tasks come from one world; name one from the folder, such as FOLDER/0")
    env: Any = base_env(make(in_version(ENV_ID, world.world), disable_env_checker=True, scenario=world, split=split))
    named = ((int(number), env.world.tasks[number]) for number in list(env.numbers)[:tasks])
    return [{"task": number, "id": task.id, "query": task.query, "needs": len(task.needs)} for number, task in named]


def _read_scenario(scenario: str | Path | Scenario) -> Scenario:
    return scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
