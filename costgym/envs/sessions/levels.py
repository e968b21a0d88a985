"""A session in numbers, with levels: `costgym/MarketplaceSession-v1`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from costgym.envs.base import takes
from costgym.envs.sessions.base import SPLITS_1, SessionSettings
from costgym.envs.sessions.session import MarketplaceSessionEnv, MarketplaceSessionSettings
from costgym.simulators.errors import check_known
from costgym.simulators.sessions.levels import LEVELS, rules_at
from costgym.simulators.sessions.rules import SessionRules


@dataclass(frozen=True, kw_only=True)
class SessionV1Settings(MarketplaceSessionSettings):
    """Arguments of `MarketplaceSessionEnvV1`, which describes them; None is the level's."""

    level: str = "medium"
    queries: int | None = None
    tools: int | None = None
    capabilities: int | None = None
    providers: int | None = None
    drift: float | None = None
    price_drift: float | None = None
    repeat: float | None = None
    ttl_s: float | None = None
    outage_every_s: float | None = None
    outage_lasts_s: float | None = None
    budget_share: float | None = None


class MarketplaceSessionEnvV1(MarketplaceSessionEnv):
    """Answer a session's queries with one budget, at one of four levels: find out which tools work, remember, and choose.

    ## Description

    The game of `MarketplaceSession-v0`, whose page says how it is played: actions, rewards and ends are the same. What is new:

    * The observation holds what the references read: money and time left in absolute terms, mean seconds and usual failure of
      each tool, the age and chance of life of what memory holds, how the last action ended. What is unlimited is a column of
      its own. The mask in `info` is int8, as Gymnasium's `action_space.sample(mask)` takes it.
    * `level` sets how long, wide, unsteady and poor a session is; each level has an id too, such as
      `costgym/MarketplaceSessionHard-v1`.
    * The split `"shifted"` has other drift, adverts and outages than `"train"`. Agents are told the rules of `"train"` there.
    * Sessions are drawn by counter, inside compiled code too: a native batch never waits for Python.

    | level | queries | tools | kinds | drift | budget share | outages |
    | --- | --- | --- | --- | --- | --- | --- |
    | `easy` | 30 | 8 | 2 | 0 | 0.5 | every 2,000 s for 20 s |
    | `medium` | 100 | 24 | 4 | 0.003 | 0.4 | every 400 s for 20 s |
    | `hard` | 300 | 40 | 5 | 0.01 | 0.3 | every 300 s for 40 s |
    | `extreme` | 1,000 | 63 | 6 | 0.02 | 0.25 | every 200 s for 60 s |

    The default limits are a share of what somebody spends on average who knows the states that the tools have at the start,
    where they stay.

    ## Observation space

    A dictionary of float32 arrays; everything lies between 0 and 1. The columns are given for the level ``medium``, which has
    four kinds, and `memory="counts"`; `memory="raw"` leaves out columns 11 to 16 and 19 to 22.

    ### `tools`: one row for each slot, (24, 23)

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
    | 15 | `since_s` | 0 to 1 | s / (s + 60) for the s seconds since its last call; 1 before the first. |
    | 16 | `outage_ago_s` | 0 to 1 | s / (s + 60) for the s seconds since its provider was last seen down; 1 if never. |
    | 17 | `last_ok` | 0 or 1 | Its last call looked as if it worked. |
    | 18 | `last_failed` | 0 or 1 | Its last call failed or was refused. |
    | 19 | `mean_s` | 0 to 1 | log(1 + mean seconds of its calls) / log(61); the advert counts as one call. |
    | 20 | `timed_out` | 0 to 1 | Share of its failures that were time-outs. |
    | 21 | `not_connected` | 0 to 1 | Share of its failures that were refused connections. |
    | 22 | `shut` | 0 or 1 | It refused a call for this query at its rate limit or quota. |

    With `concurrent=True` three more columns come last, as in version 0.

    ### `query`: the present query, (12,)

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
    | 9 | `age_s` | 0 to 1 | log(1 + age in seconds of the fact in memory) / log(10,001). |
    | 10 | `alive` | 0 to 1 | Chance that it is still right, by the time since it was last known to be. |
    | 11 | `left` | 0 to 1 | log(1 + queries that are not over) / log(10,001). |

    ### `resources`: the session as a whole, (17,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `price_left` | 0 to 1 | Share of the money that is left; 1 without a limit. |
    | 1 | `seconds_left` | 0 to 1 | Share of the time that is left, likewise. |
    | 2 | `clock` | 0 to 1 | log(1 + simulated seconds so far) / log(10,001). |
    | 3 | `step` | 0 to 1 | Steps taken, as a share of `max_steps`. |
    | 4 | `value` | 0 to 1 | Value of the queries that passed, divided by 20 `queries`. |
    | 5 | `credits` | 0 to 1 | log(1 + credits left) / log(100,001); 1 without a limit. |
    | 6 | `no_price_limit` | 0 or 1 | Money is unlimited. |
    | 7 | `time` | 0 to 1 | log(1 + seconds left) / log(1,000,001); 1 without a limit. |
    | 8 | `no_seconds_limit` | 0 or 1 | Time is unlimited. |
    | 9 | `calls` | 0 to 1 | log(1 + calls left) / log(100,001); 1 without a limit. |
    | 10 | `no_calls_limit` | 0 or 1 | Calls are unlimited. |
    | 11 | `facts` | 0 to 1 | Facts in memory, divided by `queries`. |
    | 12 | `last_s` | 0 to 1 | log(1 + seconds that the last action took) / log(61). |
    | 13 | `last_timeout` | 0 or 1 | It ended in a time-out. |
    | 14 | `last_not_connected` | 0 or 1 | It ended in a refused connection. |
    | 15 | `last_outage` | 0 or 1 | It met an outage. |
    | 16 | `last_limited` | 0 or 1 | It was refused at a rate limit or quota. |

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `level` | `"easy"`, `"medium"`, `"hard"` or `"extreme"`. Arguments of the rules that are given replace the level's. |

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `action_mask` | int8 array | What the argument `mask` lets through: 1 or 0 for each action, as `sample(mask)` takes it. |

    ## Version history

    * v1: levels, a split of shifted sessions, an observation that holds what references read, draws by counter, an int8 mask.
    * v0: first version; plays version 0 of the world, in which recordings up to 0.2 were made.
    """

    worlds = (1,)
    mask_type = np.int8
    splits = SPLITS_1

    @takes(SessionV1Settings)
    def __init__(self, settings: SessionV1Settings) -> None:
        check_known("level", settings.level, LEVELS)
        self.level = settings.level
        self._make(settings)
        if settings.split == "shifted":
            # agents are told the rules that they learnt by, so that references are as surprised as learners
            self.known_rules = SessionRules(**self._level_rules(settings, shifted=False))

    def _rules(self, settings: SessionSettings) -> dict[str, Any]:
        return self._level_rules(settings, settings.split == "shifted")

    def _level_rules(self, settings: SessionSettings, shifted: bool) -> dict[str, Any]:
        arguments = {name: value for name, value in super()._rules(settings).items() if value is not None}
        return {**rules_at(self.level, shifted), **arguments}

    def world_settings(self) -> dict[str, Any]:
        return {**super().world_settings(), "level": self.level}
