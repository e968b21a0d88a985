"""The marketplace as numbers: `costgym/Marketplace-v0`."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log1p
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.envs.base import checked_action, takes
from costgym.envs.features.templates import (
    MAX_NEEDS,
    NEED_FEATURES,
    RESOURCE_FEATURES,
    TOOL_FEATURES,
    Phase,
    PhaseKey,
    Template,
)
from costgym.envs.features.writing import EFFECT_FEATURES, ROLE_FEATURES, effects_of, roles_of, useful_rows, writing_boxes
from costgym.envs.numeric import NumericEnv
from costgym.envs.seats import NumericSeat
from costgym.envs.tool_world import ToolEnv, ToolSettings, ToolWorld
from costgym.envs.world_spec import Document
from costgym.simulators.draws import log
from costgym.simulators.errors import ConfigError, check_known, check_positive
from costgym.simulators.forge.folder import WorldFolder
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import Scenario
from costgym.simulators.status import LOOKS_OK, Status
from costgym.simulators.tasks import needed
from costgym.simulators.tools import READ, WRITE
from costgym.simulators.world import Call, Candidate, Episode, WorldEvent

if TYPE_CHECKING:
    from costgym.envs.rendering.choice import Choice
    from costgym.envs.vector.single import CompiledEpisode

MASKS = ("useful", "legal")
KEPT_TEMPLATES = 2_048
HIGHEST = 10.0
"""Largest value of a price, a latency or a clock in an observation; a call that costs ten units costs `max_price`."""
_PRICE = TOOL_FEATURES.index("price")
_CALLS, _IN_FLIGHT, _OK, _FAILED, _BANNED = range(11, 16)
_NO_NEED, _UNSEEN_NEED = MAX_NEEDS + 1, MAX_NEEDS
_LOOKS_OK = LOOKS_OK - {Status.EMPTY}

Observation = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class MarketplaceSettings(ToolSettings):
    """Arguments of `MarketplaceEnv`, which describes them."""

    max_tools: int | None = None
    concurrent: bool = False
    mask: str | None = None
    compiled: bool = False


class MarketplaceWorld(ToolWorld):
    """A scenario, whose records without a form were made when there was only one."""

    def arguments(self, settings: Document, data: str | None = None) -> dict[str, Any]:
        form = {} if "mask" in settings else {"concurrent": True}
        return super().arguments({**form, **settings}, data)


class MarketplaceEnv(NumericEnv[Observation, "int | np.integer[Any]"], ToolEnv[Observation, "int | np.integer[Any]"]):
    """Choose which tool to call next, from arrays of numbers.

    ## Description

    An episode is one task: a user's query that needs one to six facts, and candidate tools that can supply them. Each
    candidate advertises a price, a latency and a success rate; how reliable it really is must be found out. Each step is one
    decision: call a tool and wait for its answer, or finish. Calls start cold, run into rate limits and fail as real APIs do,
    and a call that failed is charged as well. `finish` answers the query with every fact known by then.

    The environment fills in a call's arguments. Where a fact is an argument of another call, call for that fact first: a call
    made too early runs, is charged, and returns an error or nothing.

    With `concurrent=True` a call only starts the tool and takes no simulated time; one more action, `wait`, moves the clock to
    the next call that ends. An agent can then run tools side by side, and calls queue for slots.

    ## Action space

    | action | name | effect |
    | --- | --- | --- |
    | 0 to `max_tools` - 1 | call | Call the candidate of that row, and wait for its answer. |
    | `max_tools` | finish | Answer with the facts known so far. Ends the episode. |

    `info["action_mask"]` is true for the calls that can bring a fact which is missing and whose arguments are known, and always
    for `finish`. Calls of banned tools and, under `enforcement="refuse"`, of tools that the budget cannot pay are masked too.
    `mask="legal"` also lets calls through that can bring nothing. An action that the mask forbids is refused: it takes a moment
    (`gateway_s`, 0.05 s by default), costs nothing, ends nothing, and `info["status"]` says why. An action outside the space
    raises `gymnasium.error.InvalidAction`.

    With `concurrent=True` action `max_tools` is `wait` (go to the next call that ends, or to the next visible event of the
    world), `finish` is action `max_tools` + 1, and `wait` is masked while there is nothing to wait for.

    ## Observation space

    A dictionary of float32 arrays.

    ### `tools`: one row for each candidate, (`max_tools`, 16)

    Candidates stand in a canonical order: those that serve the first fact, then the second and so on, each group by its
    advertised price at the start; candidates that serve none come last. Rows without a candidate are zero.

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `on_offer` | 0 or 1 | The row holds a candidate. |
    | 1 | `price` | 0 to 10 | Advertised price of a call, in units of `max_price` / 10 (10 credits in the default scenario). |
    | 2 | `latency_s` | 0 to 10 | log(1 + advertised latency in seconds). |
    | 3 | `success` | 0 to 1 | Advertised success rate. |
    | 4 | `popularity` | 0 to 1 | Advertised popularity. |
    | 5 | `need_1` | 0 or 1 | The tool can supply the first fact. |
    | 6 | `need_2` | 0 or 1 | The tool can supply the second fact. |
    | 7 | `need_3` | 0 or 1 | The tool can supply the third fact. |
    | 8 | `need_4` | 0 or 1 | The tool can supply the fourth fact. |
    | 9 | `need_5` | 0 or 1 | The tool can supply the fifth fact. |
    | 10 | `need_6` | 0 or 1 | The tool can supply the sixth fact. |
    | 11 | `calls` | ≥ 0 | Calls of this tool so far, divided by 4; at most `max_steps` / 4. |
    | 12 | `in_flight` | ≥ 0 | Calls of this tool whose end was not reported yet; 0 unless calls run side by side. |
    | 13 | `last_ok` | 0 or 1 | The last reported call returned an answer, right or wrong. |
    | 14 | `last_failed` | 0 or 1 | The last reported call failed, returned nothing, or was refused. |
    | 15 | `banned` | 0 or 1 | The tool was reported as not available at present. |

    ### `needs`: one row for each fact, (6, 3)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `wanted` | 0 or 1 | The task needs this fact; 0 in rows that are not used. |
    | 1 | `known` | 0 or 1 | A call has returned it, and the user has not asked for something else since. |
    | 2 | `ready` | 0 or 1 | Every fact that its calls need as an argument is known. |

    In a world with writes there are two more arrays. `roles`, (`max_tools`, 5): the tool of a row writes, checks, undoes, and
    takes an idempotency key; and log(1 + seconds until others see its effects) / 10, at most 1. `effects`, (6, 3): the need
    wants an effect; how many the agent was told of, divided by 4, at most 1; and a call has ended ambiguously since the last
    check. A need whose effect was told of counts as known. Checks are let through by the mask after an ambiguous end, undoes
    where an effect was seen twice. A repeat of a call with a key uses the same key.

    ### `resources`: the episode as a whole, (8,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `clock` | 0 to 10 | log(1 + simulated seconds so far). |
    | 1 | `in_flight` | ≥ 0 | Calls that run or queue, divided by 4; 0 unless calls run side by side. |
    | 2 | `step` | 0 to 1 | Steps taken, as a share of `max_steps`. |
    | 3 | `price_left` | -1 to 1 | Share of the price limit that is left; 1 without a limit, negative once overspent. |
    | 4 | `seconds_left` | -1 to 1 | Share of the seconds left, likewise. |
    | 5 | `tokens_left` | -1 to 1 | Share of the tokens left, likewise. |
    | 6 | `calls_left` | -1 to 1 | Share of the executed calls left, likewise. |
    | 7 | `price_spent` | 0 to 10 | Money spent, in units of `max_price` / 10. |

    What lies beyond a range is shown as its end: a price of 10 units costs more than an episode can earn. With
    `concurrent=True` nothing is cut off, and candidates stand in the task's own order. The space is open there (infinite) for
    prices, seconds and the shares left: how often calls are retried and repeated, and how far a shock raises prices and
    latencies, has no end that holds in every scenario.

    ## Rewards

    Each step brings -(1 - alpha) × (money charged in this step) / `max_price`; the last step of a successful episode adds
    alpha. The undiscounted return is therefore the Quality of Plan, alpha × success - (1 - alpha) × price / `max_price`.
    Success means that every fact was known at `finish` (with `grading="judge"`: that the simulated judge accepts the answer)
    and that no limit was passed. In the default scenario alpha is 0.5 and `max_price` is 100.

    A call is charged when it ends, so its price belongs to the step that called it. With `concurrent=True` it arrives with the
    `wait` that passes its end, and calls that still run at the end of the episode are cut off: a flat fee is charged in full,
    pay-per-use for the time that passed.

    ## Starting state

    The clock stands at 0 and nothing is spent. The task is drawn uniformly from the split; `reset(options={"task": task})`
    names it instead, by number or id. All chance of an episode follows from the seed and the task: `reset(seed=7)` gives the
    same episode every time, and what one tool does never depends on what else was called.

    ## Episode end

    * Termination: the agent finishes, or a limit of the budget is passed. `enforcement="refuse"` (the default) also turns down
      calls that the budget cannot pay; under `enforcement="record"` the episode goes on past a limit, but is no success.
    * Truncation: `max_steps` steps were taken. `env.spec.max_episode_steps` is the same number.

    A step after the end changes nothing and is rewarded with 0.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `status` | int | How the call that was reported or refused last ended, as in `Status`; 0 is a success. |
    | `action_mask` | bool array | Which actions the argument `mask` lets through, one entry for each. |

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `max_tools` | Rows of `tools`. `None` takes the largest number of candidates that any task of the scenario has. |
    | `concurrent` | A call starts a tool, and `wait` goes to the next end; else a step is a call and its answer. |
    | `mask` | `"useful"` masks calls that can bring no missing fact, `"legal"` does not: the default if `concurrent`. |
    | `enforcement` | As below. `None` takes `"refuse"`, or the scenario's choice if `concurrent`. |
    | `compiled` | Play in compiled code (extra `train`): the same to the last bit, and faster, but without a log. |

    ## Version history

    * v0: first version.
    """

    worlds = (0, 1)  # numbers are the same in both
    world_class = MarketplaceWorld
    episode_state: tuple[str, ...] = ("_episode", "_tools", "_needs", "_received")
    column_names: Mapping[str, Sequence[str]] = {
        "tools": TOOL_FEATURES, "needs": NEED_FEATURES, "resources": RESOURCE_FEATURES,
        "roles": ROLE_FEATURES, "effects": EFFECT_FEATURES,
    }  # fmt: skip

    @takes(MarketplaceSettings)
    def __init__(self, settings: MarketplaceSettings) -> None:
        self.concurrent = concurrent = settings.concurrent
        if not isinstance(concurrent, bool):
            raise ConfigError("concurrent", f"expected true or false, got {concurrent!r}")
        check_positive("max_tools", settings.max_tools, or_none=True)
        if settings.mask is not None:
            check_known("mask", settings.mask, MASKS)
        self._configure(settings if concurrent or settings.enforcement else replace(settings, enforcement="refuse"))
        self.mask = settings.mask or ("legal" if concurrent else "useful")
        self.max_tools = largest = self._most_candidates() if settings.max_tools is None else settings.max_tools
        self.wait_action = largest if concurrent else None
        self.finish_action = largest + 1 if concurrent else largest
        boxes = _boxes(largest, self.max_steps, concurrent)
        # of a folder one world tells: all are of one version
        one_or_all = self.scenarios[:1] if isinstance(self.scenarios, WorldFolder) else self.scenarios
        self._writes = any(scenario.build().writes for scenario in one_or_all)
        if self._writes:
            boxes |= writing_boxes(largest, MAX_NEEDS)
        self._ends = boxes["tools"].low, boxes["tools"].high
        self.observation_space: gym.spaces.Space[Observation] = gym.spaces.Dict(boxes)  # type: ignore[assignment, arg-type]
        self.action_space = gym.spaces.Discrete(self.finish_action + 1)
        self._highest, self._least = (inf, -inf) if concurrent else (HIGHEST, -1.0)
        self._set_limits(self.budget)
        self._choose_engine(settings.compiled)

    def _enter(self, scenario: Scenario) -> None:
        super()._enter(scenario)
        self._templates: OrderedDict[int, Template] = OrderedDict()
        self._scale = 10.0 / self.world.max_price

    def _set_limits(self, budget: Budget) -> None:
        super()._set_limits(budget)
        self._shares = [0.0 if limit is None else 1.0 / limit for limit in self._limits]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        begun = self._choose(seed, options)
        return self._open(*begun) if self._compiled is None else self._compiled.begin(*begun)

    def _compiled_episode(self) -> "CompiledEpisode":
        from costgym.envs.vector.single import CompiledEpisode, SingleBatch

        return CompiledEpisode(self, SingleBatch)

    def _open(self, number: int, seed: int) -> tuple[Observation, dict[str, Any]]:
        episode = self._start(number, seed)
        self._template = template = self.template(episode.number)
        self._tools = template.tools.copy()
        self._slots, self._rows = template.slots, template.rows
        self._callable = len(self._slots)
        self._received = [0] * self._callable
        self._known = episode.known[:]
        self._needs, self._mask = template.phases.get(None) or self._phase(episode, None)
        self._last_status = Status.OK
        if not self.concurrent:
            self._settle(episode)
        return self._observe(episode), self._full_info(episode)

    def template(self, number: int) -> Template:
        """The arrays and the order of a task's candidates at the start, made once."""
        template = self._templates.get(number)
        if template is None:
            slots = list(self.world.candidates(number)[: self.max_tools])
            wanted = needed(self.world.tasks[number].needs)
            # an order that says nothing but the advertised: a policy may learn by places, and identities stay hidden
            if not self.concurrent:  # tools that serve no need come last
                slots.sort(key=lambda slot: (slot.need < 0, slot.need, slot.quote, slot.index))
            # made once a task and copied at a reset: most tasks of a split are met many times in a training
            tools = np.zeros((self.max_tools, len(TOOL_FEATURES)), np.float32)
            serves = np.full(self.max_tools, 1 << _NO_NEED, np.uint8)
            for row, slot in enumerate(slots):
                tools[row] = self._tool_row(slot)
                brings = slot.role in (READ, WRITE)  # checks and undoes are let through where they can tell or change something
                if useful := {min(need, _UNSEEN_NEED) for need in slot.needs if wanted[need] and brings}:
                    serves[row] = sum(1 << need for need in useful)
            np.clip(tools, *self._ends, out=tools)
            needs = np.zeros((MAX_NEEDS, len(NEED_FEATURES)), np.float32)
            for index, need in enumerate(self.world.episode(number).needs[:MAX_NEEDS]):
                needs[index] = (float(wanted[index]), float(need.given), float(not need.after))
            mask = np.zeros(self.finish_action + 1, np.bool_)
            mask[: len(slots)] = True
            mask[self.finish_action] = True
            order = tuple(slot.index for slot in slots)
            rows = tuple(order.index(slot) for slot in range(len(order)))
            dearest, roles = max((slot.quote for slot in slots), default=0.0), roles_of(slots, self.max_tools)
            template = Template(tools, needs, mask, order, rows, dearest, roles, serves, phases={})
            self._templates[number] = template
            if len(self._templates) > KEPT_TEMPLATES:
                self._templates.popitem(last=False)
        return template

    def _tool_row(self, slot: Candidate) -> list[float]:
        serves = [1.0 if index in slot.needs else 0.0 for index in range(MAX_NEEDS)]
        profile = slot.profile
        advertised = log1p(profile.advertised_latency_s), profile.advertised_success, profile.popularity / 10.0
        return [1.0, slot.quote * self._scale, *advertised, *serves, 0, 0, 0, 0, 0]

    def _phase(self, episode: Episode, key: PhaseKey | None) -> Phase:
        """The phase that the known facts make, computed once for a task."""
        template = self._template
        phase = template.phases.get(key)
        if phase is None:
            needs, mask = template.needs.copy(), template.mask.copy()
            for index, need in enumerate(episode.needs[:MAX_NEEDS]):
                needs[index, 1] = episode.known[index]
                needs[index, 2] = all(episode.known[before] for before in need.after)
            if self.mask == "useful":  # calls that can bring a fact which is missing and can be had now
                # bits of the needs that a row serves, so that one comparison masks all rows
                wanting = (needs[:, 0] > 0) & (needs[:, 1] == 0) & (needs[:, 2] > 0)
                bits = np.uint8(np.packbits(wanting, bitorder="little")[0] | 1 << _UNSEEN_NEED)
                mask[: self.max_tools] &= (template.serves & bits) != 0
            phase = template.phases[key] = Phase(needs, mask)
        return phase

    def candidate(self, row: int) -> Candidate:
        """The candidate that a row of `tools`, or a call's action, stands for."""
        return self._playing().candidates[self._slots[row]]

    def action_of(self, candidate: int) -> int:
        """The action that calls a candidate, by its index in the task."""
        self._playing()
        return self._rows[candidate]

    def choice(self) -> "Choice | None":
        from costgym.envs.rendering.choice import facts_choice

        return facts_choice(self._playing(), lambda slot: self._rows[slot] if slot < len(self._rows) else None)

    def seat(self, env_id: str, examples: int = 0) -> NumericSeat:
        return NumericSeat(
            **self.seat_parts(env_id),
            max_price=self.world.max_price,
            max_tools=self.max_tools,
            wait_action=self.wait_action,
            finish_action=self.finish_action,
        )

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if type(action) is not int or not 0 <= action <= self.finish_action:  # the usual action saves a call
            action = checked_action(action, self.finish_action + 1)
        if self._compiled is not None:
            return self._compiled.play(action)
        episode = self._episode if self._episode is not None else self._playing()
        if episode.over:
            return self._observe(episode), 0.0, True, False, self._full_info(episode)
        self._steps += 1
        if action == self.finish_action:
            episode.finish()
        elif action == self.wait_action:
            if episode.can_wait:
                self._receive(episode, episode.wait())
            else:
                self._last_status = episode.submit(-1, None, Status.FORBIDDEN).status
        elif action < self._callable:
            self._call(episode, action)
        else:
            self._last_status = episode.submit(-1, None, Status.UNKNOWN_TOOL).status
        if not self.concurrent:
            self._settle(episode)
        reward, over, truncated = self._outcome(episode)
        return self._observe(episode), reward, over, truncated, self._full_info(episode)

    def _call(self, episode: Episode, row: int) -> None:
        slot = self._slots[row]
        # a call that can bring nothing is the mask's to refuse; bans and limits are the gateway's
        call = episode.submit(slot, None, None if self._useful(episode)[row] else Status.FORBIDDEN)
        if call.k:
            self._tools[row, _CALLS:_OK] = 0.25 * call.k, call.k - self._received[slot]
        else:
            self._last_status = call.status
            # a refusal at the gateway is the last that was heard of the tool, though no call ran
            self._tools[row, _OK:_BANNED] = 0.0, 1.0

    def _settle(self, episode: Episode) -> None:
        """Wait until nothing is on its way and every event so far was seen."""
        while episode.can_wait and not episode.over:
            self._receive(episode, episode.wait())

    def _receive(self, episode: Episode, news: Call | WorldEvent | None) -> None:
        if news is None:
            return
        if isinstance(news, WorldEvent):
            self._take_notice(episode, news)
        else:
            slot, status, received = news.slot, news.status, self._received
            self._last_status = status
            received[slot] = count = received[slot] + 1
            ok, failed = (1.0, 0.0) if status in _LOOKS_OK else (0.0, 1.0)
            self._tools[self._rows[slot], _IN_FLIGHT:_BANNED] = episode.admitted(slot) - count, ok, failed
        if episode.known != self._known:
            self._known = episode.known[:]
            self._needs, self._mask = self._phase(episode, (tuple(self._known), tuple(episode.versions)))

    def _take_notice(self, episode: Episode, notice: WorldEvent) -> None:
        for slot in notice.slots:
            if slot >= self.max_tools:
                continue
            row = self._rows[slot]
            if notice.kind == "price_change":
                self._tools[row, _PRICE] = min(episode.quote(slot) * self._scale, self._highest)
            else:
                self._tools[row, _BANNED] = slot in episode.banned

    def _observe(self, episode: Episode) -> Observation:
        ledger, now = episode.ledger, episode.now_s
        price, seconds, tokens, calls = self._shares
        highest, least = self._highest, self._least
        spent = ledger.price
        resources = (
            min(log(1.0 + now), highest),
            episode.in_flight * 0.25,
            self._steps / self.max_steps,
            max(1.0 - spent * price, least),
            max(1.0 - now * seconds, least),
            max(1.0 - ledger.tokens * tokens, least),
            max(1.0 - ledger.calls * calls, least),
            min(spent * self._scale, highest),
        )
        observation = {"tools": self._tools.copy(), "needs": self._needs.copy(), "resources": np.array(resources, np.float32)}
        if self._writes:
            observation["roles"] = self._template.roles.copy()
            observation["effects"] = effects_of(episode, MAX_NEEDS)
        return observation

    def _full_info(self, episode: Episode) -> dict[str, Any]:
        info = self._info()
        info["status"] = int(self._last_status)
        info["action_mask"] = self._possible(episode)
        return info

    def action_text(self, action: int | np.integer[Any]) -> str:
        if action in (self.wait_action, self.finish_action):
            return "wait" if action == self.wait_action else "finish"
        self._playing()
        known = 0 <= action < self._callable
        return f"call {self.candidate(int(action)).name if known else 'an unknown tool'}"

    def _useful(self, episode: Episode) -> NDArray[np.bool_]:
        """The mask of the phase; with writes, checks and undoes of what was told of are useful too. Not to be changed."""
        if not self._writes or self.mask != "useful":
            return self._mask
        mask = self._mask.copy()
        mask[useful_rows(episode, self._slots)] = True
        return mask

    def action_masks(self) -> NDArray[np.bool_]:
        """The present action mask, (actions,) bool: what the argument `mask` lets through. `finish` always is."""
        return self._possible(self._playing()) if self._compiled is None else self._compiled.action_masks()

    def _possible(self, episode: Episode) -> NDArray[np.bool_]:
        # what follows from the known facts is kept by phase; only prices, bans and `wait` change from step to step
        mask = self._useful(episode).copy()
        if episode.enforcement == "refuse":
            spent, limit = episode.spent_and_limit()
            # most budgets pay for every call until late in an episode, and then no single price is looked at
            if spent + self._template.dearest * max(episode.factors, default=1.0) > limit:
                for row in mask[: self._callable].nonzero()[0].tolist():
                    mask[row] = spent + episode.quote(self._slots[row]) <= limit
        if episode.banned:
            mask[[self._rows[slot] for slot in episode.banned if slot < self.max_tools]] = False
        if self.wait_action is not None and episode.can_wait:
            mask[self.wait_action] = True
        return mask

    def world_settings(self) -> dict[str, Any]:
        return {**super().world_settings(), "concurrent": self.concurrent, "mask": self.mask}


def _boxes(max_tools: int, max_steps: int, concurrent: bool) -> dict[str, gym.spaces.Box]:
    """The spaces of `tools`, `needs` and `resources`; nothing is cut off where calls run side by side."""
    highest, least = (inf, -inf) if concurrent else (HIGHEST, -1.0)
    high = dict.fromkeys(("price", "latency_s", "clock", "price_spent"), highest) | {"calls": 0.25 * max_steps}
    parts = {"tools": ((max_tools,), float(max_steps)), "needs": ((MAX_NEEDS,), 0.0), "resources": ((), high["calls"])}
    boxes: dict[str, gym.spaces.Box] = {}
    for part, (rows, running) in parts.items():
        names = MarketplaceEnv.column_names[part]
        ends = {**high, "in_flight": running if concurrent else 1.0}
        low = [least if name.endswith("_left") else 0.0 for name in names]
        top = [ends.get(name, 1.0) for name in names]
        low_end, high_end = (np.full((*rows, len(names)), end, np.float32) for end in (low, top))
        boxes[part] = gym.spaces.Box(low_end, high_end, dtype=np.float32)
    return boxes
