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

    The default limits are a share of what is spent, on average, by somebody who knows the states that the tools have at the start,
    where they stay.

    ## Observation space

    Float32 arrays between 0 and 1. Columns as in version 0, but that `since_s` and `outage_ago_s` show seconds s as s / (s + 60).
    After them come, in `tools` (with `memory="counts"`, before the columns of calls in flight):

    | name | range | meaning |
    | --- | --- | --- |
    | `mean_s` | 0 to 1 | log(1 + mean seconds of its calls) / log(61); the advert counts as one call. |
    | `timed_out` | 0 to 1 | Share of its failures that were time-outs. |
    | `not_connected` | 0 to 1 | Share of its failures that were refused connections. |
    | `shut` | 0 or 1 | It refused a call for this query at its rate limit or quota. |

    In `query`:

    | name | range | meaning |
    | --- | --- | --- |
    | `age_s` | 0 to 1 | log(1 + age in seconds of the fact in memory) / log(10,001). |
    | `alive` | 0 to 1 | Chance that it is still right, by the time since it was last known to be. |
    | `left` | 0 to 1 | log(1 + queries that are not over) / log(10,001). |

    In `resources`:

    | name | range | meaning |
    | --- | --- | --- |
    | `credits` | 0 to 1 | log(1 + credits left) / log(100,001); 1 without a limit. |
    | `no_price_limit` | 0 or 1 | Money is unlimited. |
    | `time` | 0 to 1 | log(1 + seconds left) / log(1,000,001); 1 without a limit. |
    | `no_seconds_limit` | 0 or 1 | Time is unlimited. |
    | `calls` | 0 to 1 | log(1 + calls left) / log(100,001); 1 without a limit. |
    | `no_calls_limit` | 0 or 1 | Calls are unlimited. |
    | `facts` | 0 to 1 | Facts in memory, divided by `queries`. |
    | `last_s` | 0 to 1 | log(1 + seconds that the last action took) / log(61). |
    | `last_timeout` | 0 or 1 | It ended in a time-out. |
    | `last_not_connected` | 0 or 1 | It ended in a refused connection. |
    | `last_outage` | 0 or 1 | It met an outage. |
    | `last_limited` | 0 or 1 | It was refused at a rate limit or quota. |

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `level` | `"easy"`, `"medium"`, `"hard"` or `"extreme"`. Arguments of the rules that are given replace the level's. |

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
