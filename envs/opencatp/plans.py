"""OpenCATP as a planning language: the plan is written token by token, then executed and scored.

The outcome of every tool chain was executed beforehand and is looked up, so that a step takes microseconds and needs no torch.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from ...simulators.errors import InvalidPlan, UnknownName
from ...simulators.opencatp.episode_view import PlanView, plan_calls, plan_ledger, plan_task, refused_call
from ...simulators.opencatp.tools import SOD, SOP, TOOLS
from ...simulators.plan import TASK_INPUT, Plan
from ...simulators.quality import INVALID_PLAN_REWARD, cumulative_reward
from ...simulators.status import Status
from ..tpl import (
    ACTION_NAMES,
    ACTION_TOKENS,
    END,
    END_DEPENDENCIES,
    FIRST_TOOL,
    INPUT,
    MAX_TOKENS,
    N_ACTIONS,
    TplState,
    kind_of,
)
from .base import REWARDS, TASK_FEATURES, Observation, OpenCATPBase

TOOL_FEATURES = ("price", "log_seconds", "takes_text", "gives_text", "used", "needed", "current", "named")
"""Columns of `observation["tools"]`: price at the sample's size level in units of max_price, log(1 + seconds) there, the kinds,
then whether it is in the plan, another tool depends on it, its dependencies are being named, it was named as one."""
PROGRESS_FEATURES = (
    "price", "log_seconds", "tokens", "tools", "naming_dependencies", "input_named",
    "price_left", "seconds_left", "tokens_left", "calls_left",
)  # fmt: skip
"""Entries of `observation["progress"]`: price so far in units of max_price, log(1 + seconds of the longest path so far), share
of the tokens and of the tools used, what is being chosen, and the share left of each limit (1 where unlimited)."""
_NUMBER = {SOP: 1, SOD: 2} | {token: 3 + action for action, token in enumerate(ACTION_TOKENS)}


class OpenCATPEnv(OpenCATPBase[Observation, "int | np.integer[Any]"]):
    """`costgym/OpenCATP-v0`: a priced plan, written in TPL.

    Observation: a flat Dict: `tokens` (max_tokens,) int32, the sequence so far (0 nothing yet, 1 SOP, 2 SOD, 3 + action);
    `task` (12,), `level` (4,), `tools` (10, 8), `progress` (10,) float32.
    Actions: Discrete(23), numbered as `envs.tpl.ACTION_NAMES` and standing for the official tokens `envs.tpl.ACTION_TOKENS`:
    0 EOP, 1 EOD, 2..11 a tool, 12 the task's input as dependency, 13..22 a tool's output as one. SOD follows a tool by itself.
    A choice outside the mask makes the plan invalid: the episode ends with the published penalty of -0.5 and no score.
    Reward, "incremental": -(1 - alpha) * added price / max_price with each tool, alpha * score with EOP, so the return is the
    Quality of Plan. "cumulative", as published: the price of all tools so far is charged again at every token.
    Costs: price of the plan's tools, seconds of its longest path, tokens written (SOP excepted), tools called.

    Args:
        reward: ``incremental`` or ``cumulative``.
        max_tokens: Length of the whole token sequence at most.
        others: see `OpenCATPBase`.

    Source: CATP-LLM, sections 4.2 and 4.3.
    """

    def __init__(
        self,
        tasks: str = "sequential",
        split: str = "train",
        alpha: float = 0.5,
        reward: str = "incremental",
        profile: Any = "v100",
        max_tokens: int = MAX_TOKENS,
        **settings: Any,
    ) -> None:
        super().__init__(tasks, split, alpha, profile, **settings)
        if reward not in REWARDS:
            raise UnknownName("reward", reward, REWARDS)
        self.reward, self.max_tokens = reward, max_tokens
        self._states = {kind: TplState(kind, max_tokens) for kind in {kind_of(task): None for task in self.tasks}}
        self.observation_space: gym.spaces.Space[Observation] = gym.spaces.Dict(  # type: ignore[assignment]
            {
                "tokens": gym.spaces.Box(0, 2 + N_ACTIONS, (max_tokens,), np.int32),
                "task": gym.spaces.Box(0.0, 1.0, (len(TASK_FEATURES),), np.float32),
                "level": gym.spaces.Box(0.0, 1.0, (4,), np.float32),
                "tools": gym.spaces.Box(-1e9, 1e9, (len(TOOLS), len(TOOL_FEATURES)), np.float32),
                "progress": gym.spaces.Box(-1e9, 1e9, (len(PROGRESS_FEATURES),), np.float32),
            }
        )
        self.action_space = gym.spaces.Discrete(N_ACTIONS)
        self._templates: dict[int, npt.NDArray[np.float32]] = {}
        self._loss = (1.0 - self.alpha) / self.max_price

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        task = self._begin(seed, options)
        kind = kind_of(task)
        if kind not in self._states:
            self._states[kind] = TplState(kind, self.max_tokens)
        self._state = self._states[kind]
        self._state.reset()
        self._tokens = np.zeros(self.max_tokens, np.int32)
        self._tokens[0] = _NUMBER[SOP]
        self._tools = self._template().copy()
        self._task_features = self._task_rows[task.task_id] if task.task_id in self._task_rows else self._new_task_row()
        self._price, self._seconds, self._calls = 0.0, 0.0, 0
        self._ends: dict[int, float] = {}
        self._refused: int | None = None
        self._tool_start = 0.0
        self._current = -1
        self._input_named = False
        return self._observe(), self._info()

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        task = self.task
        if self._over:
            return self._observe(), 0.0, True, False, self._info()
        action, state = int(action), self._state
        if not 0 <= action < N_ACTIONS or not state.legal >> action & 1:
            self._over, self._refused = True, action
            self._return += INVALID_PLAN_REWARD
            return self._observe(), INVALID_PLAN_REWARD, True, False, self._info()
        at = len(state.tokens)
        written = state.push(action)
        for token in state.tokens[at:]:
            self._tokens[at] = _NUMBER[token]
            at += 1
        added = self._apply(action)
        kept = self._check_budget(self._used())
        gained = 0.0
        if action == END:
            self._over = self._valid = True
            if kept:
                self._score = self.evaluator.score(state.plan(), task, self.sample)
                gained = self.alpha * self._score
        self._over = self._over or not kept
        incremental = gained - self._loss * added
        self._return += incremental
        reward = incremental
        if self.reward == "cumulative":
            charged = cumulative_reward(0.0, self._price, False, self.alpha, max_price=self.max_price)
            reward = written * charged + gained
        return self._observe(), reward, self._over, False, self._info()

    def _apply(self, action: int) -> float:
        """Takes a choice into the features; returns the price it added.

        A tool's end on the clock is its latest dependency's end plus its own time; seconds so far are the latest end.
        """
        if action == END:
            return 0.0
        tools = self._tools
        if action == END_DEPENDENCIES:
            tools[self._current, 6] = 0.0
            tools[:, 7] = 0.0
            self._input_named = False
            self._current = -1
            return 0.0
        if action < INPUT:
            number = action - FIRST_TOOL
            self._current, self._tool_start = number, 0.0
            tools[number, 4] = tools[number, 6] = 1.0
            price = self.profile.price(TOOLS[number], self.size_level)
            self._price += price
            self._calls += 1
        else:
            price = 0.0
            number = action - INPUT - 1
            if number < 0:
                self._input_named = True
            else:
                tools[number, 5] = tools[number, 7] = 1.0
                self._tool_start = max(self._tool_start, self._ends[number])
        self._ends[self._current] = self._tool_start + self.profile.seconds(TOOLS[self._current], self.size_level)
        self._seconds = max(self._seconds, self._ends[self._current])
        return price

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """True where a token may follow, (23,); after the end only EOP, which does nothing."""
        if self._over:
            mask = np.zeros(N_ACTIONS, np.bool_)
            mask[END] = True
            return mask
        return self.state.mask()

    def plan(self) -> Plan | None:
        """The plan so far, as far as its tools are complete; None where none is."""
        try:
            return self.state.plan()
        except InvalidPlan:
            return None

    @property
    def state(self) -> TplState:
        """The sequence being written: its official tokens, and which may follow."""
        self._playing()
        return self._state

    def _used(self) -> tuple[float, float, int, int]:
        return self._price, self._seconds, len(self._state.tokens) - 1, self._calls

    def _info(self) -> dict[str, Any]:
        info = self._figures(self._used())
        info["action_mask"] = self.action_masks()
        return info

    def action_text(self, action: int | np.integer[Any]) -> str:
        return ACTION_NAMES[action] if 0 <= action < N_ACTIONS else f"action {action}"

    def world_settings(self) -> dict[str, Any]:
        return {**super().world_settings(), "reward": self.reward, "max_tokens": self.max_tokens}

    def account(self) -> PlanView:
        """The plan as it runs, each tool from the end of what it depends on. Without a valid one all was cut off."""
        task, level = self.task, self.size_level
        status = Status.OK if self._valid or not self._over else Status.CANCELLED
        calls = plan_calls(self._named().items(), self.profile, level, status)
        if self._refused is not None:
            calls.append(refused_call(0.0, f"{self.action_text(self._refused)} may not follow there"))
        price, seconds, tokens, _ = self._used()
        return PlanView(
            task=plan_task(task, self.sample, level),
            number=task.task_id,
            seed=self._episode_seed(),
            budget=self.budget,
            calls=tuple(calls),
            ledger=plan_ledger(calls, price, tokens),
            now_s=float(seconds),
            exceeded=self._exceeded,
            grade=self._grade(),
            over=self._over,
        )

    def _named(self) -> dict[str, list[str]]:
        """The tools so far, each with what was named as its dependencies."""
        named: dict[str, list[str]] = {}
        for action in (self._tokens[self._tokens > _NUMBER[SOD]] - 3).tolist():
            if action >= INPUT:
                named[next(reversed(named))].append(TASK_INPUT if action == INPUT else TOOLS[action - INPUT - 1])
            elif action >= FIRST_TOOL:
                named[TOOLS[action - FIRST_TOOL]] = []
        return named

    def _template(self) -> npt.NDArray[np.float32]:
        found = self._templates.get(self.size_level)
        if found is None:
            found = np.zeros((len(TOOLS), len(TOOL_FEATURES)), np.float32)
            found[:, :4] = self._tool_costs()
            self._templates[self.size_level] = found
        return found

    def _observe(self) -> Observation:
        used = self._used()
        progress = np.array(
            [
                self._price / self.max_price,
                math.log1p(self._seconds),
                used[2] / self.max_tokens,
                self._calls / len(TOOLS),
                self._current >= 0,
                self._input_named,
                *self._shares_left(used),
            ],
            dtype=np.float32,
        )
        return {
            "tokens": self._tokens.copy(),
            "task": self._task_features.copy(),
            "level": self._level_row(),
            "tools": self._tools.copy(),
            "progress": progress,
        }
