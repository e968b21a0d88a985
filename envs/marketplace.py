"""The marketplace as numbers: which tool to call next, when to wait, when to finish.

Calls are asynchronous: a call action starts the call and takes no time, `wait` goes to the next completion or visible event.
So an agent may run tools side by side, or one after the other by waiting after each call.
"""

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
"""Columns of `observation["tools"]`. Price in units of the scenario's max_price / 10, latency as log(1 + seconds), success and
popularity as advertised (0 to 1), need_j is 1 where the tool serves the j-th need; the rest counts what was done so far
(calls / 4)."""
NEED_FEATURES = ("wanted", "known", "ready")
"""Columns of `observation["needs"]`: the task has such a need; its fact is known; the facts it depends on are known."""
RESOURCE_FEATURES = (
    "clock", "in_flight", "step",
    "price_left", "seconds_left", "tokens_left", "calls_left", "price_spent",
)  # fmt: skip
"""Entries of `observation["resources"]`: log(1 + seconds) so far, calls in flight / 4, steps / max_steps, the share of each
limit that is left (1 where unlimited, negative when overspent), price spent in units of max_price / 10."""
_CALLS, _IN_FLIGHT, _OK, _FAILED, _BANNED = range(11, 16)
_write_resources = Struct(f"{len(RESOURCE_FEATURES)}f").pack_into

Observation = dict[str, NDArray[np.float32]]


class MarketplaceEnv(ToolEnv[Observation, "int | np.integer[Any]"]):
    """`costgym/Marketplace-v0`: the numeric view.

    Observation: a flat Dict of float32 arrays: `tools` (max_tools, 16), `needs` (6, 3), `resources` (8,).
    Actions: Discrete(max_tools + 2): call candidate i, `wait` (max_tools), `finish` (max_tools + 1). An action outside the mask
    is a refused call or a no-op, never an exception.
    Reward: alpha * success - (1 - alpha) * price / max_price, each part when it happens, so the return is the Quality of Plan.

    Args:
        max_tools: candidate slots; None takes the largest number that a task of the scenario has, in any split.
        others: see `ToolEnv`.
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
        """What a task looks like at the start: tools (max_tools, 16), needs (6, 3), action mask (max_tools + 2,); made once."""
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
        """True where an action does something: shape (max_tools + 2,). `finish` is always allowed."""
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
