"""The marketplace as numbers: `costgym/Marketplace-v0`."""

from __future__ import annotations

from math import log1p
from struct import Struct
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ..simulators.status import LOOKS_OK, Status
from ..simulators.world import Call, Candidate, Episode, WorldEvent
from .tool_world import ToolEnv

MAX_NEEDS = 6
TOOL_FEATURES = (
    "on_offer", "price", "latency_s", "success", "popularity",
    "need_1", "need_2", "need_3", "need_4", "need_5", "need_6",
    "calls", "in_flight", "last_ok", "last_failed", "banned",
)  # fmt: skip
"""Columns of `observation["tools"]`, described in `MarketplaceEnv`."""
NEED_FEATURES = ("wanted", "known", "ready")
"""Columns of `observation["needs"]`, described in `MarketplaceEnv`."""
RESOURCE_FEATURES = (
    "clock", "in_flight", "step",
    "price_left", "seconds_left", "tokens_left", "calls_left", "price_spent",
)  # fmt: skip
"""Entries of `observation["resources"]`, described in `MarketplaceEnv`."""
_CALLS, _IN_FLIGHT, _OK, _FAILED, _BANNED = range(11, 16)
_write_resources = Struct(f"{len(RESOURCE_FEATURES)}f").pack_into

Observation = dict[str, NDArray[np.float32]]


class MarketplaceEnv(ToolEnv[Observation, "int | np.integer[Any]"]):
    """Choose which tool to call next, from arrays of numbers.

    ## Description

    An episode is one task: a user's query that needs one to six facts, and candidate tools that can supply them. Each
    candidate advertises a price, a latency and a success rate; how reliable it really is must be found out. A call starts a
    tool and takes no simulated time, `wait` moves the clock to the next call that ends. An agent can therefore run tools side
    by side, or one after the other by waiting after each call. Calls queue for slots, start cold, run into rate limits and
    fail as real APIs do, and a call that failed is charged as well. `finish` answers the query with every fact known by then.

    The environment fills in a call's arguments. Where a fact is an argument of another call, call for that fact first: a call
    made too early runs, is charged, and returns an error or nothing.

    ## Action space

    | action | name | effect |
    | --- | --- | --- |
    | 0 to `max_tools` - 1 | call | Start a call of that candidate. Takes no simulated time. |
    | `max_tools` | wait | Go to the next call that ends, or to the next visible event of the world. |
    | `max_tools` + 1 | finish | Answer with the facts known so far. Ends the episode. |

    `info["action_mask"]` is true where an action does something: for candidates that are not banned (and, under
    `enforcement="refuse"`, affordable), for `wait` while there is something to wait for, and always for `finish`. A call
    outside the mask is refused, which takes a moment (`gateway_s`, 0.05 s by default) and costs nothing; `wait` outside the
    mask does nothing. No action raises an error.

    ## Observation space

    A dictionary of float32 arrays.

    ### `tools`: one row for each candidate, (`max_tools`, 16)

    Candidates stand in the task's own order; rows without a candidate are zero.

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `on_offer` | 0 or 1 | The row holds a candidate. |
    | 1 | `price` | ≥ 0 | Advertised price of a call, in units of `max_price` / 10 (10 credits in the default scenario). |
    | 2 | `latency_s` | ≥ 0 | log(1 + advertised latency in seconds). |
    | 3 | `success` | 0 to 1 | Advertised success rate. |
    | 4 | `popularity` | 0 to 1 | Advertised popularity. |
    | 5 | `need_1` | 0 or 1 | The tool can supply the first fact. |
    | 6 | `need_2` | 0 or 1 | The tool can supply the second fact. |
    | 7 | `need_3` | 0 or 1 | The tool can supply the third fact. |
    | 8 | `need_4` | 0 or 1 | The tool can supply the fourth fact. |
    | 9 | `need_5` | 0 or 1 | The tool can supply the fifth fact. |
    | 10 | `need_6` | 0 or 1 | The tool can supply the sixth fact. |
    | 11 | `calls` | ≥ 0 | Calls of this tool so far, divided by 4. |
    | 12 | `in_flight` | ≥ 0 | Calls of this tool whose end `wait` has not reported yet. |
    | 13 | `last_ok` | 0 or 1 | The last reported call returned an answer, right or wrong. |
    | 14 | `last_failed` | 0 or 1 | The last reported call failed, returned nothing, or was refused. |
    | 15 | `banned` | 0 or 1 | The tool was reported as not available at present. |

    ### `needs`: one row for each fact, (6, 3)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `wanted` | 0 or 1 | The task needs this fact; 0 in rows that are not used. |
    | 1 | `known` | 0 or 1 | A call has returned it, and the user has not asked for something else since. |
    | 2 | `ready` | 0 or 1 | Every fact that its calls need as an argument is known. |

    ### `resources`: the episode as a whole, (8,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `clock` | ≥ 0 | log(1 + simulated seconds so far). |
    | 1 | `in_flight` | ≥ 0 | Calls that run or queue, divided by 4. |
    | 2 | `step` | 0 to 1 | Steps taken, as a share of `max_steps`. |
    | 3 | `price_left` | ≤ 1 | Share of the price limit that is left; 1 without a limit, negative once overspent. |
    | 4 | `seconds_left` | ≤ 1 | Share of the seconds left, likewise. |
    | 5 | `tokens_left` | ≤ 1 | Share of the tokens left, likewise. |
    | 6 | `calls_left` | ≤ 1 | Share of the executed calls left, likewise. |
    | 7 | `price_spent` | ≥ 0 | Money spent, in units of `max_price` / 10. |

    ## Rewards

    Each step brings -(1 - alpha) × (money charged in this step) / `max_price`; the last step of a successful episode adds
    alpha. The undiscounted return is therefore the Quality of Plan, alpha × success - (1 - alpha) × price / `max_price`.
    Success means that every fact was known at `finish` (with `grading="judge"`: that the simulated judge accepts the answer)
    and that no limit was passed. In the default scenario alpha is 0.5 and `max_price` is 100.

    A call is charged when it ends, so its price arrives with the `wait` that passes its end. Calls that still run at the end
    of the episode are cut off: a flat fee is charged in full, pay-per-use for the time that passed.

    ## Starting state

    The clock stands at 0 and nothing is spent. The task is drawn uniformly from the split; `reset(options={"task": task})`
    names it instead, by number or id. All chance of an episode follows from the seed and the task: `reset(seed=7)` gives the
    same episode every time, and what one tool does never depends on what else was called.

    ## Episode end

    * Termination: the agent finishes, or a limit of the budget is passed. `enforcement="refuse"` also turns down calls that
      the budget cannot pay; under `enforcement="record"` the episode goes on past a limit, but is no success.
    * Truncation: `max_steps` steps were taken.

    A step after the end changes nothing and is rewarded with 0.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `status` | int | How the call that was reported or refused last ended, as in `Status`; 0 is a success. |
    | `action_mask` | bool array | Which actions do something, (`max_tools` + 2,). |

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `max_tools` | Rows of `tools`. `None` takes the largest number of candidates that any task of the scenario has. |

    ## Version history

    * v0: first version.
    """

    def __init__(self, max_tools: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        largest = self.world.tasks.most_candidates if max_tools is None else max_tools
        self.max_tools = largest
        self.wait_action, self.finish_action = largest, largest + 1
        shapes = {
            "tools": (largest, len(TOOL_FEATURES)),
            "needs": (MAX_NEEDS, len(NEED_FEATURES)),
            "resources": (len(RESOURCE_FEATURES),),
        }
        boxes: dict[str, gym.spaces.Space[Any]] = {
            name: gym.spaces.Box(-1e9, 1e9, shape, np.float32) for name, shape in shapes.items()
        }
        self.observation_space: gym.spaces.Space[Observation] = gym.spaces.Dict(boxes)  # type: ignore[assignment]
        self.action_space = gym.spaces.Discrete(largest + 2)
        self._templates: dict[int, tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]] = {}
        self._scale = 10.0 / self.world.max_price
        self._shares = [0.0 if limit is None else 1.0 / limit for limit in self._limits]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        episode = self._begin(seed, options)
        tools, needs, mask = self.template(episode.number)
        self._tools, self._needs, self._mask = tools.copy(), needs.copy(), mask.copy()
        self._resources = np.empty(len(RESOURCE_FEATURES), np.float32)
        self._callable = min(len(episode.candidates), self.max_tools)
        self._received = [0] * self._callable
        self._known = list(episode.known)
        self._last_status = Status.OK
        return self._observe(episode), self._full_info(episode)

    def template(self, number: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
        """A task's arrays at the start, made once: tools (max_tools, 16), needs (6, 3), action mask (max_tools + 2,)."""
        found = self._templates.get(number)
        if found is None:
            slots = self.world.candidates(number)[: self.max_tools]
            tools = np.zeros((self.max_tools, len(TOOL_FEATURES)), np.float32)
            for slot in slots:
                tools[slot.index] = self._tool_row(slot)
            needs = np.zeros((MAX_NEEDS, len(NEED_FEATURES)), np.float32)
            for index, need in enumerate(self.world.episode(number).needs[:MAX_NEEDS]):
                needs[index] = (1.0, 0.0, 0.0 if need.after else 1.0)
            mask = np.zeros(self.max_tools + 2, np.bool_)
            mask[: len(slots)] = True
            mask[self.finish_action] = True
            found = self._templates[number] = (tools, needs, mask)
        return found

    def _tool_row(self, slot: Candidate) -> list[float]:
        serves = [1.0 if slot.need == index else 0.0 for index in range(MAX_NEEDS)]
        latency = log1p(slot.advertised_latency_s)
        return [1.0, slot.quote * self._scale, latency, slot.advertised_success, slot.popularity / 10.0, *serves, 0, 0, 0, 0, 0]

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        episode = self.episode or self._playing()
        over = episode.over
        if over:
            return self._observe(episode), 0.0, True, False, self._full_info(episode)
        self._steps += 1
        action = int(action)
        if action == self.finish_action:
            episode.finish()
        elif action == self.wait_action:
            self._receive(episode, episode.wait())
        elif 0 <= action < self._callable:
            call = episode.submit(action)
            tools = self._tools
            if call.finished_s >= 0:
                self._last_status = call.status
                tools[action, _OK], tools[action, _FAILED] = 0.0, 1.0
            else:
                count = episode.counts[action]
                tools[action, _CALLS] = 0.25 * count
                tools[action, _IN_FLIGHT] = count - self._received[action]
        else:
            self._last_status = episode.submit(-1, None, Status.UNKNOWN_TOOL).status
        reward, over, truncated = self._outcome(episode)
        return self._observe(episode), reward, over, truncated, self._full_info(episode)

    def _receive(self, episode: Episode, news: Call | WorldEvent | None) -> None:
        if news is None:
            return
        if isinstance(news, WorldEvent):
            self._take_notice(episode, news)
        else:
            slot, status, tools = news.slot, news.status, self._tools
            self._last_status = status
            self._received[slot] += 1
            tools[slot, _IN_FLIGHT] = episode.counts[slot] - self._received[slot]
            looks_ok = status in LOOKS_OK and status is not Status.EMPTY
            tools[slot, _OK], tools[slot, _FAILED] = (1.0, 0.0) if looks_ok else (0.0, 1.0)
        if episode.known != self._known:
            self._known = list(episode.known)
            for index, need in enumerate(episode.needs[:MAX_NEEDS]):
                self._needs[index, 1] = episode.known[index]
                self._needs[index, 2] = all(episode.known[before] for before in need.after)

    def _take_notice(self, episode: Episode, notice: WorldEvent) -> None:
        for slot in notice.slots:
            if slot >= self.max_tools:
                continue
            if notice.kind == "price_change":
                self._tools[slot, 1] = episode.quote(slot) * self._scale
            else:
                self._tools[slot, _BANNED] = slot in episode.banned

    def _observe(self, episode: Episode) -> Observation:
        ledger, now = episode.ledger, episode.clock._now
        price, seconds, tokens, calls = self._shares
        spent = ledger.price
        resources = self._resources
        _write_resources(
            resources.data,
            0,
            log1p(now),
            episode.in_flight * 0.25,
            self._steps / self.max_steps,
            1.0 - spent * price,
            1.0 - now * seconds,
            1.0 - ledger.tokens * tokens,
            1.0 - ledger.calls * calls,
            spent * self._scale,
        )
        return {"tools": self._tools.copy(), "needs": self._needs.copy(), "resources": resources.copy()}

    def _full_info(self, episode: Episode) -> dict[str, Any]:
        info = self._info()
        info["status"] = self._last_status._value_  # the property costs a call
        info["action_mask"] = self._possible(episode)
        return info

    def action_text(self, action: int | np.integer[Any]) -> str:
        if action in (self.wait_action, self.finish_action):
            return "wait" if action == self.wait_action else "finish"
        tools = self._playing().candidates
        return f"call {tools[int(action)].name if 0 <= action < len(tools) else 'an unknown tool'}"

    def action_masks(self) -> NDArray[np.bool_]:
        """The present action mask, (max_tools + 2,) bool. `finish` is always allowed."""
        return self._possible(self._playing())

    def _possible(self, episode: Episode) -> NDArray[np.bool_]:
        mask = self._mask.copy()
        if episode.in_flight or episode._done:
            mask[self.wait_action] = True
        if episode.banned:
            mask[[slot for slot in episode.banned if slot < self.max_tools]] = False
        if episode.enforcement == "refuse":
            for slot in range(self._callable):
                mask[slot] &= episode.affordable(slot)
        return mask
