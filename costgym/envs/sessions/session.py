"""A session in numbers: `costgym/MarketplaceSession-v0`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.envs.base import checked_action, takes
from costgym.envs.features.session_features import MEMORIES, Features, boxes, column_names
from costgym.envs.numeric import NumericEnv
from costgym.envs.seats import Seat
from costgym.envs.sessions.base import CANCEL, OTHERS, SessionBase, SessionSettings
from costgym.simulators.calls import Call
from costgym.simulators.errors import check_known
from costgym.simulators.sessions.episode import SessionEpisode
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.status import Status

if TYPE_CHECKING:
    from costgym.envs.vector.single import CompiledEpisode

MASKS = ("useful", "legal")
Observation = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSeat(Seat):
    """A seat in a session. The last three actions are None unless calls run side by side."""

    rules: SessionRules  # how sessions are drawn, which is public; what was drawn is not here
    memory: str  # what observations show of the agent's own calls
    recall_action: int  # answer from memory
    next_action: int  # go to the next query
    wait_action: int | None = None  # wait for the next call's end
    pause_action: int | None = None  # the same, for a second at most
    cancel_action: int | None = None  # cut off a call of the first tool; the next action does so for the second, and so on


Number = int | np.integer[Any]


@dataclass(frozen=True, kw_only=True)
class MarketplaceSessionSettings(SessionSettings):
    """Arguments of `MarketplaceSessionEnv`, which describes them."""

    memory: str = "counts"
    mask: str = "useful"
    compiled: bool = False


class MarketplaceSessionEnv(NumericEnv[Observation, Number], SessionBase[Observation, Number]):
    """Answer a hundred queries with one budget: find out which tools work, remember, and choose what is worth its price.

    ## Description

    An episode is a session of `queries` over one small catalogue, with one budget of money and time and a clock that runs
    through. Every query needs one fact of some kind and has a value. Several tools offer each kind; each advertises a price, a
    latency and a success rate. How reliable a tool really is must be found out, and drifts: between two queries a tool enters a
    new regime (mostly working, half, mostly failing) with chance `drift`, and its price changes with chance `price_drift`,
    whatever was called. Tools of one provider share its outages. The budget covers about 40 % of what it would take to answer
    everything, so queries must be chosen.

    With chance `repeat` a query asks for a fact that an earlier one asked for. A fact that was found is remembered and can be
    given again for nothing; but facts die after a while, `ttl_s` on average, and a dead one loses the query and is forgotten.

    Another catalogue is drawn for every session; within a session the tools keep their slots. With `scenario` the tools are
    those of its world, or of a folder's worlds in turn: kinds and rivals are drawn from what the world can read, and prices,
    latencies, cold starts, limits, reliabilities and adverts are the world's. How tools drift, fail and go down with their
    provider, what facts are worth and how long they live stay the session's. Slots without a tool are zero, and masked.

    ## Action space

    | action | name | effect |
    | --- | --- | --- |
    | 0 to `tools` - 1 | call | Call the tool in that slot and wait. A right answer passes the query, and the next comes. |
    | `tools` | recall | Answer from memory, for nothing and in no time, and go to the next query. |
    | `tools` + 1 | next | Leave the query, and go to the next one. |

    `info["action_mask"]` is true for the tools that serve the present query and whose price the budget covers, for `recall`
    where the fact is in memory, and always for `next`. `mask="legal"` lets calls of other tools through, which bring nothing
    here. An action that the mask forbids is refused: it takes a moment (`gateway_s`, 0.05 s), costs nothing, ends nothing, and
    `info["status"]` says why. An action outside the space raises `gymnasium.error.InvalidAction`.

    With `concurrent=True` a call only starts the tool and takes no simulated time, and there are more actions. So a second tool
    can be called while the first still runs, at once or when it has taken long, and whichever answers first passes the query.
    A call runs on when its query is over: its price is due when it ends, and what it brings is remembered.

    | action | name | effect |
    | --- | --- | --- |
    | `tools` + 2 | wait | Go to the end of the next call; masked while there is none to come. |
    | `tools` + 3 | pause | The same, but for a second at most. |
    | `tools` + 4 to 2 `tools` + 3 | cancel | Cut off the oldest call of a tool that is in flight; takes no time. |

    A cancelled call bills what it has used: nothing while it loads, its price once it runs.

    ## Observation space

    A dictionary of float32 arrays; everything lies between 0 and 1. The columns are given for four kinds, the default, and
    `memory="counts"`; `memory="raw"` leaves out columns 11 to 16, and 11 and 12 are then those of the last call alone.

    ### `tools`: one row for each slot, (24, 19)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `price` | 0 to 1 | Price of a call now, in units of 20 credits. |
    | 1 | `latency_s` | 0 to 1 | log(1 + advertised latency in seconds) / log(61). |
    | 2 | `success` | 0 to 1 | Advertised success rate. |
    | 3 | `provider` | 0 to 1 | Its provider's number, from 1, divided by `providers`. |
    | 4 | `rate_limit` | 0 to 1 | Calls admitted a minute, divided by 10; 0 for any number. |
    | 5 | `quota_left` | 0 to 1 | Share of its quota for the session that is left; 1 without a quota. |
    | 6 | `serves` | 0 or 1 | The tool serves the present query. |
    | 7 | `kind_1` | 0 or 1 | The tool answers queries of the first kind. |
    | 8 | `kind_2` | 0 or 1 | The tool answers queries of the second kind. |
    | 9 | `kind_3` | 0 or 1 | The tool answers queries of the third kind. |
    | 10 | `kind_4` | 0 or 1 | The tool answers queries of the fourth kind. |
    | 11 | `calls` | 0 to 1 | log(1 + its calls in this session) / 5. |
    | 12 | `mean_ok` | 0 to 1 | (calls that worked + 1) / (calls + 2). |
    | 13 | `recent_ok` | 0 to 1 | The same with weights that fall by 0.7 from call to call; 0.5 at the start. |
    | 14 | `failures_in_a_row` | 0 to 1 | Its failures since it worked last, divided by 5. |
    | 15 | `since_s` | 0 to 1 | log(1 + seconds since its last call) / 7; 1 before the first. |
    | 16 | `outage_ago_s` | 0 to 1 | log(1 + seconds since its provider was last seen down) / 7; 1 if never. |
    | 17 | `last_ok` | 0 or 1 | Its last call looked as if it worked. |
    | 18 | `last_failed` | 0 or 1 | Its last call failed or was refused. |

    With `concurrent=True` three more columns come last: `in_flight`, the tool's calls that load or run, divided by 4, at most
    1; `for_this`, those of them that can pass the present query, likewise; and `running_s`, log(1 + seconds since the oldest of
    them was made) / 7, at most 1.

    ### `query`: the present query, (9,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `value` | 0 to 1 | What it is worth, divided by 20. |
    | 1 | `kind_1` | 0 or 1 | It is of the first kind. |
    | 2 | `kind_2` | 0 or 1 | It is of the second kind. |
    | 3 | `kind_3` | 0 or 1 | It is of the third kind. |
    | 4 | `kind_4` | 0 or 1 | It is of the fourth kind. |
    | 5 | `remembered` | 0 or 1 | Its fact is in memory. |
    | 6 | `age` | 0 to 1 | Age of that fact, in units of 4 `ttl_s`. |
    | 7 | `called` | 0 to 1 | Calls made for this query, divided by 10. |
    | 8 | `queries_left` | 0 to 1 | Share of the queries that are not over. |

    ### `resources`: the session as a whole, (5,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `price_left` | 0 to 1 | Share of the money that is left; 1 without a limit. |
    | 1 | `seconds_left` | 0 to 1 | Share of the time that is left, likewise. |
    | 2 | `clock` | 0 to 1 | log(1 + simulated seconds so far) / log(10,001). |
    | 3 | `step` | 0 to 1 | Steps taken, as a share of `max_steps`. |
    | 4 | `value` | 0 to 1 | Value of the queries that passed, divided by 20 `queries`. |

    ## Rewards

    A query that passes brings its value, 2 to 20 credits. With `reward="value"` (the default) cost is apart, in
    `info["cost"]`, as constrained learners want it; `reward="value-minus-price"` subtracts the money charged in each step.

    ## Starting state

    The clock stands at 0, nothing is spent, and the first query has come. The session is drawn from the split;
    `reset(options={"task": number})` names it. The catalogue, the queries and the drift follow from the number; the luck of
    calls, outages and facts from the number and the seed.

    ## Episode end

    * Termination: the last query is over, or the limit on seconds is passed. Under `enforcement="refuse"` (the default) no call
      is made that the rest of the money does not cover.
    * Truncation: `max_steps` steps were taken. `env.spec.max_episode_steps` is the same number.

    A step after the end changes nothing and is rewarded with 0.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `tool` | int | Slot of the tool whose call ended or was refused last; -1 before the first. |
    | `action_mask` | bool array | Which actions the argument `mask` lets through, one entry for each. |

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `memory` | `"counts"` shows the agent's own counts and means for each slot, `"raw"` the last call's end alone. |
    | `mask` | `"useful"` masks calls that cannot serve the present query, `"legal"` does not. |
    | `compiled` | Play in compiled code (extra `train`): the same to the last bit, and faster, but without a log. |

    ## Version history

    * v0: first version.
    """

    episode_state = ("_episode", "_features")

    @takes(MarketplaceSessionSettings)
    def __init__(self, settings: MarketplaceSessionSettings) -> None:
        self._make(settings)

    def _make(self, settings: MarketplaceSessionSettings) -> None:
        memory, concurrent = settings.memory, settings.concurrent
        self.memory, self.mask = memory, settings.mask
        check_known("memory", memory, MEMORIES)
        check_known("mask", settings.mask, MASKS)
        self._configure(settings)
        self.column_names = column_names(self.rules, memory, concurrent)
        self.recall_action, self.next_action = self.rules.tools, self.rules.tools + 1
        self.wait_action, self.pause_action, self.cancel_action = (
            (self.next_action + more if concurrent else None) for more in (1, 2, 3)
        )
        self._actions = 2 * self.rules.tools + 4 if concurrent else self.rules.tools + 2
        self.action_space = gym.spaces.Discrete(self._actions)
        self.observation_space: gym.spaces.Space[Observation] = gym.spaces.Dict(boxes(self.rules, memory, concurrent))  # type: ignore[assignment, arg-type]
        self._choose_engine(settings.compiled)

    # -- the episode ---------------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        begun = self._choose_session(seed, options)
        if self._compiled is not None:
            return self._compiled.begin(*begun)
        episode = self._open(*begun)
        self._features, self._status, self._lasted_s = Features(episode, self.memory, self.concurrent), Status.OK, 0.0
        return self._observe(episode), self._info(episode)

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        number = checked_action(action, self._actions)
        if self._compiled is not None:
            return self._compiled.play(number)
        episode = self._playing()
        if episode.over:
            return self._observe(episode), 0.0, True, False, self._info(episode)
        self._steps += 1
        value, price, now_s = episode.value, episode.ledger.price, episode.now_s
        if number < self.rules.tools:
            self._call(episode, number)
        else:
            what = OTHERS[min(number - self.rules.tools, len(OTHERS) - 1)]
            call = self._do(episode, what, number - (self.cancel_action or number))
            if call is not None:
                self._take(episode, call, reported=what != CANCEL)
        reward, self._lasted_s = self._reward(episode, value, price), episode.now_s - now_s
        truncated = not episode.over and self._steps >= self.max_steps
        return self._observe(episode), reward, episode.over, truncated, self._info(episode)

    def _call(self, episode: SessionEpisode, slot: int) -> None:
        if slot >= len(episode.candidates):
            self._status = episode.submit(-1, None, Status.UNKNOWN_TOOL).status
            return
        if self.mask == "useful" and int(episode.session.offers[slot]) != episode.capability:
            call = episode.submit(slot, None, Status.FORBIDDEN)
        else:
            call = episode.submit(slot) if self.concurrent else episode.call(slot)
        if self.concurrent and call.k:
            self._features.admit(slot, episode)
        else:
            self._take(episode, call)

    def _take(self, episode: SessionEpisode, call: Call, reported: bool = True) -> None:
        """Take in how a call ended or was refused; of one that is cut off nothing is learnt."""
        self._status = call.status
        if reported:
            self._features.take(call, episode)

    def _observe(self, episode: SessionEpisode) -> Observation:
        return self._features.observe(episode, self._steps / self.max_steps, self._lasted_s, self._status)

    def _info(self, episode: SessionEpisode) -> dict[str, Any]:
        info = self._session_info(episode, status=int(self._status))
        return {
            **info,
            "tool": self._features.reported,
            "action_mask": self._possible(episode).astype(self.mask_type, copy=False),
        }

    def action_masks(self) -> NDArray[np.bool_]:
        """The present action mask, (actions,) bool: what the argument `mask` lets through. `next` always is."""
        return self._possible(self._playing()) if self._compiled is None else self._compiled.action_masks()

    def _compiled_episode(self) -> "CompiledEpisode":
        from costgym.envs.vector.single import CompiledEpisode, SingleSession

        return CompiledEpisode(self, SingleSession)

    def _possible(self, episode: SessionEpisode) -> NDArray[np.bool_]:
        mask = np.zeros(self._actions, np.bool_)
        mask[self.next_action] = True
        if episode.over:
            return mask
        offers = episode.session.offers
        tools = offers == episode.capability if self.mask == "useful" else offers >= 0
        if episode.enforcement == "refuse":
            tools = tools & np.array([episode.affordable(slot) for slot in range(len(offers))])
        mask[: len(offers)] = tools
        mask[self.recall_action] = episode.remembered_s is not None
        if self.concurrent:
            mask[self.wait_action] = episode.can_wait
            mask[self.pause_action] = True
            for slot, busy in enumerate(episode.running, self._actions - self.rules.tools):
                mask[slot] = busy > 0
        return mask

    def world_settings(self) -> dict[str, Any]:
        return {**super().world_settings(), "memory": self.memory, "mask": self.mask}

    def seat(self, env_id: str, examples: int = 0) -> SessionSeat:
        return SessionSeat(
            **self.seat_parts(env_id),
            max_price=self._playing().world.max_price,
            # of a world, the document and the seed hold what agents may not know
            rules=self.known_rules.model_copy(update={"scenario": None, "world_seed": 0}),
            memory=self.memory,
            recall_action=self.recall_action,
            next_action=self.next_action,
            wait_action=self.wait_action,
            pause_action=self.pause_action,
            cancel_action=self.cancel_action,
        )

    def action_text(self, action: int | np.integer[Any]) -> str:
        if self.cancel_action is not None and action >= self.cancel_action:
            return f"cancel {self._tool_name(int(action) - self.cancel_action)}"
        if action >= self.recall_action:
            return ("answer from memory", "next query", "wait", "pause")[int(action) - self.rules.tools]
        return f"call {self._tool_name(int(action))}"

    def _tool_name(self, slot: int) -> str:
        offers = self._playing().candidates
        return offers[slot].name if slot < len(offers) else "an unknown tool"
