"""The native vector environments, by which `make_vec` makes N environments in numbers."""

from typing import Any

from costgym.envs.marketplace import MarketplaceEnv
from costgym.envs.sessions.levels import MarketplaceSessionEnvV1
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.envs.vector.marketplace import NativeVectorEnv
from costgym.envs.vector.sessions import NativeSessions


class MarketplaceVectorEnv(NativeVectorEnv):
    """N environments `costgym/Marketplace-v0`, played in compiled code.

    Environment i equals the scalar one reset with ``seed + i``; later resets draw from its own generator. `info` holds an array
    of N for each key of the scalar environment and, as in Gymnasium's vector environments, a mask ``_key``.

    Args:
        num_envs: number of environments N.
        autoreset_mode: what follows the end of an episode. `NEXT_STEP`: the next step resets it, whatever its action.
            `SAME_STEP`: it is reset at once; `info["final_obs"]` and `info["final_info"]` hold its last observation and `info`.
            `DISABLED`: the caller resets it with ``options={"reset_mask": mask}``.
        copy: return new arrays at every step. Without it, a step overwrites the observations of the step before, which is
            faster.
        threads: number of threads that play a step. The results do not depend on it.
        max_episode_steps: number of steps after which an episode is truncated, as by Gymnasium's wrapper `TimeLimit` around the
            scalar environment; unlike `max_steps`, observations tell nothing of it. None or -1: no such limit.
        all_tables: make the tables of all tasks at the start, also of a large split, so that kernels draw the tasks.
        factored: return `tools` in two parts: `tools_fixed`, columns that stay throughout an episode and are written when one
            begins, and `tools_changing`. `columns` tells where each part's columns stand in `tools`.
        settings: keyword arguments of the scalar environment.

    Attributes:
        scalar: the scalar environment, which gives the spaces and the settings.

    Raises:
        MissingExtra: Numba is not installed.
        ConfigError: an argument is out of range, or several scenarios have different rules; the message names it.
    """

    make_scalar: Any = MarketplaceEnv


class SessionVectorEnv(NativeSessions):
    """N environments `costgym/MarketplaceSession-v0`, played in compiled code.

    It equals Gymnasium's ``SyncVectorEnv`` over the scalar ones bit for bit, as `MarketplaceVectorEnv` does, whose arguments it
    takes. Every episode draws a session of its own when it begins, in Python, which takes about 0.7 ms.
    """

    make_scalar: Any = MarketplaceSessionEnv


class SessionVectorEnvV1(NativeSessions):
    """N environments `costgym/MarketplaceSession-v1`, played in compiled code, which draws the sessions too."""

    make_scalar: Any = MarketplaceSessionEnvV1
