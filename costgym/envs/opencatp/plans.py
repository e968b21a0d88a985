"""OpenCATP as a planning language: `costgym/OpenCATP-v0`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from costgym.envs.base import checked_action, takes
from costgym.envs.opencatp.base import OpenCATPSettings
from costgym.envs.opencatp.numeric import LEVEL_FEATURES, TASK_FEATURES, Observation, OpenCATPNumeric
from costgym.envs.tpl import (
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
from costgym.simulators.draws import log
from costgym.simulators.errors import InvalidPlan, check_known
from costgym.simulators.opencatp.tools import SOD, SOP, TOOLS
from costgym.simulators.opencatp.world import PlanEpisode, PlayedPlan
from costgym.simulators.plan import TASK_INPUT, Plan, PlanStep, longest_path
from costgym.simulators.quality import INVALID_PLAN_REWARD, cumulative_reward
from costgym.simulators.status import Status

REWARDS = ("incremental", "cumulative")
TOOL_FEATURES = ("price", "log_seconds", "takes_text", "gives_text", "used", "needed", "current", "named")
"""Columns of `observation["tools"]`, described in `OpenCATPEnv`."""
PROGRESS_FEATURES = (
    "price", "log_seconds", "tokens", "tools", "naming_dependencies", "input_named",
    "price_left", "seconds_left", "tokens_left", "calls_left",
)  # fmt: skip
"""Entries of `observation["progress"]`, described in `OpenCATPEnv`."""
_NUMBER = {SOP: 1, SOD: 2} | {token: 3 + action for action, token in enumerate(ACTION_TOKENS)}


@dataclass(frozen=True, kw_only=True)
class PlanSettings(OpenCATPSettings):
    """Arguments of `OpenCATPEnv`, which describes them."""

    reward: str = "incremental"
    max_tokens: int = MAX_TOKENS


class OpenCATPEnv(OpenCATPNumeric):
    """Write a plan of vision tools token by token, and pay for the tools in it.

    ## Description

    A task gives a degraded image and wants one or several outputs: the restored image, or a caption, a class or the names of
    the objects in it, in English or German. Ten tools restore images, read them and work on texts. The agent writes a plan in
    TPL, the tool planning language: each tool is followed by its dependencies, which are the task's input or the outputs of
    other tools in the plan. The finished plan is executed: independent tools run side by side, each tool costs money by time
    and memory, and the outputs are scored. The outcome of every chain of tools was computed beforehand, so a step is a look-up.

    ## Action space

    | action | name | effect |
    | --- | --- | --- |
    | 0 | `EOP` | End the plan and have it executed. Ends the episode. |
    | 1 | `EOD` | End the dependencies of the current tool. |
    | 2 to 11 | a tool | Add the tool; its dependencies follow. The token `SOD` between them is written by itself. |
    | 12 | `after input_of_query` | The current tool depends on the task's input. |
    | 13 to 22 | `after` a tool | The current tool depends on that tool's output. |

    `info["action_mask"]` allows the tokens after which a valid plan can still be finished within `max_tokens`, so no allowed
    choice leads into a dead end. A token that the mask forbids is refused: nothing is written, it costs nothing, takes the
    world's `gateway_s` (none here), ends nothing, and `info["status"]` says so. The step counts. An action outside the space
    raises `gymnasium.error.InvalidAction`.

    ## Observation space

    A dictionary of arrays.

    ### `tokens`: the plan so far, (`max_tokens`,), int32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | all | code | 0 to 25 | 0: not written yet; 1: `SOP`, the start; 2: `SOD`; 3 + action: any other token. |

    ### `task`: what is asked, (12,), float32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `low_resolution` | 0 or 1 | The image has a low resolution. |
    | 1 | `noise` | 0 or 1 | The image is noisy. |
    | 2 | `blur` | 0 or 1 | The image is blurred. |
    | 3 | `grey` | 0 or 1 | The image has lost its colour. |
    | 4 | `image` | 0 or 1 | The restored image is wanted. |
    | 5 | `caption` | 0 or 1 | A caption is wanted, in English. |
    | 6 | `caption_de` | 0 or 1 | A caption is wanted, in German. |
    | 7 | `label` | 0 or 1 | The image's class is wanted, in English. |
    | 8 | `label_de` | 0 or 1 | The image's class is wanted, in German. |
    | 9 | `object` | 0 or 1 | The names of the objects are wanted, in English. |
    | 10 | `object_de` | 0 or 1 | The names of the objects are wanted, in German. |
    | 11 | `sequential` | 0 or 1 | One output is wanted, not several. |

    ### `level`: the image's size, (4,), float32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 to 3 | size level | 0 or 1 | 1 at the size level of the image, 0 elsewhere. |

    ### `tools`: one row for each tool, (10, 8), float32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `price` | ≥ 0 | Price of a run at this size level, in units of `max_price` (0.567 USD). |
    | 1 | `log_seconds` | ≥ 0 | log(1 + seconds of a run at this size level). |
    | 2 | `takes_text` | 0 or 1 | The tool reads text, not an image. |
    | 3 | `gives_text` | 0 or 1 | The tool makes text, not an image. |
    | 4 | `used` | 0 or 1 | The tool is in the plan. |
    | 5 | `needed` | 0 or 1 | Another tool depends on it. |
    | 6 | `current` | 0 or 1 | Its dependencies are being named now. |
    | 7 | `named` | 0 or 1 | It was named as a dependency of the current tool. |

    ### `progress`: the plan as a whole, (10,), float32

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `price` | ≥ 0 | Price of the tools so far, in units of `max_price`. |
    | 1 | `log_seconds` | ≥ 0 | log(1 + seconds of the longest path so far). |
    | 2 | `tokens` | 0 to 1 | Tokens written, as a share of `max_tokens`. |
    | 3 | `tools` | 0 to 1 | Tools used, as a share of the ten. |
    | 4 | `naming_dependencies` | 0 or 1 | Dependencies are being named. |
    | 5 | `input_named` | 0 or 1 | The task's input was named as a dependency of the current tool. |
    | 6 | `price_left` | ≤ 1 | Share of the price limit that is left; 1 without a limit, negative once overspent. |
    | 7 | `seconds_left` | ≤ 1 | Share of the seconds left, likewise. |
    | 8 | `tokens_left` | ≤ 1 | Share of the tokens left, likewise. |
    | 9 | `calls_left` | ≤ 1 | Share of the tools left, likewise. |

    The space holds the true ends of what is open here: they follow from the profile and the limits, since a tool runs once.

    ## Rewards

    With `reward="incremental"` each tool brings -(1 - alpha) × (its price) / `max_price` and `EOP` brings alpha × score, so
    the undiscounted return is the Quality of Plan. With `reward="cumulative"`, as published, the price of all tools so far is
    charged again at every token. A plan that is not finished is invalid and brings -0.5 in place of a score.

    ## Starting state

    Nothing is written but `SOP`. The task and the sample are drawn uniformly from the split; `reset(options={...})` names
    them instead: `task` (a number in the old numbering), `sample` and `level`. There is no other chance: the same plan always
    costs and scores the same.

    ## Episode end

    * Termination: `EOP`, or a plan that passes a limit of the budget, which leaves it without a score.
    * Truncation: `max_tokens` steps were taken, which only refused tokens can use up: a plan has at most as many tokens.

    A step after the end changes nothing and is rewarded with 0.

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `reward` | `"incremental"` or `"cumulative"`; see Rewards. |
    | `max_tokens` | The greatest length of the whole sequence, `SOP`, `SOD` and `EOP` included. |

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `action_mask` | bool array | Which actions are allowed, one entry for each. |
    | `status` | int | Whether the token was written (0) or refused, as in `Status`. |

    ## Version history

    * v0: first version.

    ## References

    * CATP-LLM (arXiv 2411.16313), sections 4.2 and 4.3.
    """

    episode_state = ("_state", "_tokens", "_tools", "_written")
    column_names: Mapping[str, Sequence[str]] = {
        "task": TASK_FEATURES, "level": LEVEL_FEATURES, "tools": TOOL_FEATURES, "progress": PROGRESS_FEATURES
    }  # fmt: skip

    @takes(PlanSettings)
    def __init__(self, settings: PlanSettings) -> None:
        self._configure(settings)
        check_known("reward", settings.reward, REWARDS)
        self.reward, self.max_tokens = settings.reward, settings.max_tokens
        max_tokens = settings.max_tokens
        self._states = {kind: TplState(kind, max_tokens) for kind in {kind_of(task): None for task in self.tasks}}
        spaces = self._boxes("progress", tokens=max_tokens)
        spaces["tokens"] = gym.spaces.Box(0, 2 + N_ACTIONS, (max_tokens,), np.int32)
        self.observation_space: gym.spaces.Space[Observation] = gym.spaces.Dict(spaces)  # type: ignore[assignment]
        self.action_space = gym.spaces.Discrete(N_ACTIONS)
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
        self._price, self._seconds = 0.0, 0.0
        self._written: dict[str, tuple[str, ...]] = {}  # the tools so far, each with its dependencies
        self._durations = {tool: self.profile.seconds(tool, self.size_level) for tool in TOOLS}
        self._forbidden = 0
        self._current = -1
        self._input_named = False
        return self._observe(), self._info()

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._playing()
        action = checked_action(action, N_ACTIONS)
        if self._over:
            return self._observe(), 0.0, True, False, self._info()
        state = self._state
        self._steps += 1
        self._status = Status.OK if state.legal >> action & 1 else Status.FORBIDDEN
        if self._status is Status.FORBIDDEN:
            self._forbidden += 1
            return self._unfinished(0.0)
        at = len(state.tokens)
        written = state.push(action)
        for token in state.tokens[at:]:
            self._tokens[at] = _NUMBER[token]
            at += 1
        added = self._apply(action)
        within = self._check_budget()
        gained = 0.0
        if action == END:
            self._over = self._valid = True
            if within:
                self._score = self.evaluator.score(state.plan(), self.task, self.sample)
                gained = self.alpha * self._score
        self._over = self._over or not within
        incremental = gained - self._loss * added
        self._return += incremental
        reward = incremental
        if self.reward == "cumulative":
            charged = cumulative_reward(0.0, self._price, False, self.alpha, max_price=self.max_price)
            reward = written * charged + gained
        if not self._over:
            return self._unfinished(reward)
        return self._observe(), reward, True, False, self._info()

    def _unfinished(self, reward: float) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """What a step returns after which the plan goes on; one that is not finished in `max_tokens` steps is invalid."""
        truncated = self._steps >= self.max_tokens
        if truncated:
            self._over = True
            self._return += INVALID_PLAN_REWARD
            reward += INVALID_PLAN_REWARD
        return self._observe(), reward, False, truncated, self._info()

    def _apply(self, action: int) -> float:
        """Update the features after an action; return the price it added, USD."""
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
            self._current = number = action - FIRST_TOOL
            self._written[TOOLS[number]] = ()
            tools[number, 4] = tools[number, 6] = 1.0
            price = self.profile.price(TOOLS[number], self.size_level)
            self._price += price
        else:
            price = 0.0
            number = action - INPUT - 1
            if number < 0:
                self._input_named = True
            else:
                tools[number, 5] = tools[number, 7] = 1.0
            self._written[TOOLS[self._current]] += (TASK_INPUT if number < 0 else TOOLS[number],)
        self._seconds = longest_path(self._written.items(), self._durations)
        return price

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The present action mask, (23,) bool. After the end only EOP is allowed, which does nothing."""
        if self._over:
            mask = np.zeros(N_ACTIONS, np.bool_)
            mask[END] = True
            return mask
        return self.state.mask()

    def plan(self) -> Plan | None:
        """The plan of the tools whose dependencies are complete, or None."""
        try:
            return self.state.plan()
        except InvalidPlan:
            return None

    @property
    def state(self) -> TplState:
        """The state of the sequence: its official tokens and the choices that may follow."""
        self._playing()
        return self._state

    def _used(self) -> tuple[float, float, int, int]:
        return self._price, self._seconds, len(self._state.tokens) - 1, len(self._written)

    def action_text(self, action: int | np.integer[Any]) -> str:
        return ACTION_NAMES[action] if 0 <= action < N_ACTIONS else f"action {action}"

    def fork(self, seed: int | None = None) -> Self:
        twin = super().fork(seed)
        twin._states = {}  # one writer each; the next reset makes its own
        return twin

    @property
    def step_limit(self) -> int:
        return self.max_tokens  # a step writes a token, or is refused

    def world_settings(self) -> dict[str, Any]:
        return {**super().world_settings(), "reward": self.reward, "max_tokens": self.max_tokens}

    def account(self) -> PlanEpisode:
        """The episode of the plan so far: each tool starts at the end of its dependencies, and an invalid plan is cancelled."""
        steps = [PlanStep(tool, after) for tool, after in self._written.items()]
        price, _, tokens, _ = self._used()
        late = self._over and self._steps >= self.max_tokens and not self._valid and self._exceeded is None
        refusal = f"the plan was not finished within {self.max_tokens} steps" if late else None
        return self._played(PlayedPlan(steps, tokens, refusal, self._valid or not self._over, self._forbidden), price)

    def _observe(self) -> Observation:
        used = self._used()
        progress = np.array(
            [
                self._price / self.max_price,
                log(1.0 + self._seconds),
                used[2] / self.max_tokens,
                used[3] / len(TOOLS),
                self._current >= 0,
                self._input_named,
                *self._shares_left(used),
            ],
            dtype=np.float32,
        )
        return {"tokens": self._tokens.copy(), **self._features(), "progress": progress}


class OpenCATPEnvV1(OpenCATPEnv):
    """Write a plan of vision tools token by token, and pay for the tools in it, in the world of version 1.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `action_mask` | int8 array | Which actions are allowed, 1 or 0 for each, as `sample(mask)` takes them. |
    | `failure_reason` | str | Why the episode was no success, such as `over the budget: price 0.745 of 0.3`; else empty. |

    ## Version history

    * v1: plays version 1 of the world; `info["action_mask"]` is int8.
    * v0: first version; plays version 0 of the world, in which recordings up to 0.2 were made.
    """

    worlds = (1,)
    mask_type = np.int8
