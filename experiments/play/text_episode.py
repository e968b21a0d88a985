"""An episode of the text view played by function calls, as evaluators and trainers of language models want it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...agents.base import Agent
from ...agents.models.base import FINISH, Function, FunctionCall
from ...agents.prompts import INSTRUCTIONS, NEWS, NUDGE
from ...envs.actions import FINISH as FINISH_NAME
from ...envs.actions import RESERVED, count_tokens, encode_action
from ...envs.base import base_env
from ...envs.registration import make
from ...simulators.calls import Usage
from ...simulators.errors import EpisodeOver
from ...simulators.ledger import Budget
from ...simulators.scenario import Scenario, load_scenario
from .rollout import AgentInfo, play, result_of

ENV_ID = "costgym/MarketplaceChat-v0"
HOW_TO_CALL = (
    'Call a function by writing <tool_call>{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}</tool_call> and nothing else.'
)


class Answer(NamedTuple):
    """What a call brought.

    Attributes:
        text: the tool's result, or an error in words.
        failed: whether the caller sees that the call failed.
    """

    text: str
    failed: bool


class ToolEpisode:
    """An episode of `costgym/MarketplaceChat-v0`, played by function calls.

    Args:
        task: the task's number or id.
        seed: keys the world's chance; the same task and seed give the same luck to everybody.
        scenario: name, YAML file or `Scenario`.
        budget: limits, as `"price=20"` or by resource; None for the scenario's.
        settings: further arguments of the environment.
    """

    def __init__(
        self,
        task: int | str,
        seed: int = 0,
        scenario: str | Path | Scenario = "marketplace",
        budget: str | Mapping[str, float] | None = None,
        **settings: Any,
    ) -> None:
        limits = None if budget is None else Budget.one(budget).as_dict()
        env = make(ENV_ID, disable_env_checker=True, scenario=_read_scenario(scenario), budget=limits, **settings)
        world: Any = base_env(env)
        self.env = world
        self._return, self._over = 0.0, False
        self.env.reset(seed=seed, options={"task": task})
        self.functions = [Function(**document["function"]) for document in self.env.documentation()] + [FINISH]
        self._documents = sum(function.tokens for function in self.functions)
        self._read = count_tokens(INSTRUCTIONS) + count_tokens(self.query)

    @property
    def query(self) -> str:
        """What the user asks."""
        return str(self.env.query)

    @property
    def over(self) -> bool:
        """Return whether the episode has ended."""
        return self._over

    @property
    def exceeded(self) -> str | None:
        """The resource whose limit ended the episode, or None."""
        found: str | None = self.env.account().exceeded
        return found

    def prompt(self) -> list[dict[str, str]]:
        """The messages before the model's first one, for models that are given the functions apart."""
        return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": self.query}]

    def call(self, name: str, arguments: Any, usage: Usage | None = None) -> Answer:
        """Call a function, `finish` included.

        Args:
            name: its name.
            arguments: an object, or JSON text that holds one.
            usage: tokens that the model reports for this turn; by default they are counted, one for each four characters.

        Raises:
            EpisodeOver: the episode has ended.
        """
        return self.turn([FunctionCall(name, arguments)], usage)[0]

    def turn(self, calls: Sequence[FunctionCall], usage: Usage | None = None) -> list[Answer]:
        """Make the calls of one reply, side by side where there are several; arguments and errors as in `call`."""
        if self._over:
            raise EpisodeOver("the episode has ended; nothing more can be called")
        ending = next((call for call in calls if call.name == FINISH_NAME), None)
        if ending is not None:
            self._step(encode_action(FINISH_NAME, ending.read() or {}, self._usage(calls, usage)))
            return [Answer("The task has ended.", False)] * len(calls)
        # waiting and thinking are no functions here, and no tool has these names
        asked = [
            {"name": f"{each.name}?" if each.name in RESERVED else str(each.name), "arguments": each.arguments}
            for each in calls
        ]
        action: dict[str, Any] = asked[0] if len(asked) == 1 else {"calls": asked}
        info = self._step(json.dumps({**action, "usage": self._usage(calls, usage)._asdict()}, default=str))
        told = self.env.visible_info(info)["results"]
        answers = [Answer(each["text"], each["status"] != "ok") for each in told]
        if info["news"] and answers:
            answers[-1] = Answer(f"{answers[-1].text}\n{NEWS}{'; '.join(info['news'])}", answers[-1].failed)
        answers += [Answer("The episode has ended.", True)] * (len(calls) - len(answers))
        self._read += sum(count_tokens(answer.text) for answer in answers)
        return answers

    def say(self, text: str, calls: Sequence[FunctionCall] = ()) -> list[dict[str, Any]]:
        """Play a whole reply of a model and return the messages that answer it; a reply without a call is not the answer.

        Args:
            text: what it says besides its calls.
            calls: its calls.
        """
        if calls:
            answers = self.turn(calls)
            return [
                {"role": "tool", "name": call.name, "content": answer.text} for call, answer in zip(calls, answers, strict=True)
            ]
        self._step(encode_action("think", usage=self._usage((), None, text)))
        return [{"role": "user", "content": NUDGE}]

    def play(self, agent: Agent) -> None:
        """Play the episode from its beginning with an agent of costgym.

        Args:
            agent: of the text view; nothing was called before.
        """
        episode = self.env.account()
        play(self.env, agent, int(episode.number), int(episode.seed))
        self._over = True

    def finish(self, answer: str, give_up: bool = False) -> None:
        """Hand in the answer; an episode that has ended stays as it is."""
        if not self._over:
            self.call(FINISH_NAME, {"answer": answer, "give_up": give_up})

    def _usage(self, calls: Sequence[FunctionCall], usage: Usage | None, text: str = "") -> Usage:
        spoken = count_tokens(text + "".join(f"{call.name}{call.arguments}" for call in calls))
        found = Usage(self._documents + self._read, spoken) if usage is None else usage
        self._read += spoken
        return found

    def _step(self, action: str) -> dict[str, Any]:
        _, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        self._over = terminated or truncated
        return dict(info)

    def score(self, player: str = "client", model: str = "client") -> dict[str, float]:
        """The figures of the episode: `success` counts only within the budget. One that has not ended is given up first.

        Args:
            player, model: names in the record that the figures are taken from.
        """
        self.env.give_up()
        self._over = True
        result = result_of(self.env, AgentInfo(player, model), ENV_ID, 0)
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

    @property
    def reward(self) -> float:
        """The undiscounted return so far: the Quality of Plan."""
        return self._return


def text_prompt(episode: ToolEpisode) -> list[dict[str, str]]:
    """The messages before the model's first one, for models that read the functions as text: one a line, with its price."""
    lines = [function_line(function) for function in episode.functions]
    about = "\n".join([INSTRUCTIONS, "", "Functions:", *lines, "", HOW_TO_CALL])
    return [{"role": "system", "content": about}, {"role": "user", "content": episode.query}]


def function_line(function: Function) -> str:
    """A function on one line: its name, its required arguments and what it does.

    >>> function_line(FINISH).partition(".")[0]
    'finish(answer: string): End the task'
    """
    properties = function.parameters.get("properties", {})
    arguments = [f"{name}: {properties[name].get('type', 'any')}" for name in function.parameters.get("required", ())]
    return f"{function.name}({', '.join(arguments)}): {' '.join(function.description.split())}"


def task_rows(
    scenario: str | Path | Scenario = "marketplace", split: str = "test", tasks: int | None = None
) -> list[dict[str, Any]]:
    """The tasks of a split as rows with `task` (number), `id`, `query` and `needs` (number of facts asked for).

    Args:
        scenario: as for `ToolEpisode`.
        split: of the tasks.
        tasks: number of tasks from the start of the split; None for all.
    """
    env: Any = base_env(make(ENV_ID, disable_env_checker=True, scenario=_read_scenario(scenario), split=split))
    rows = []
    for number in list(env.numbers)[:tasks]:
        task = env.world.tasks[number]
        rows.append({"task": int(number), "id": task.id, "query": task.query, "needs": len(task.needs)})
    return rows


def _read_scenario(scenario: str | Path | Scenario) -> Scenario:
    return scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
