"""Sessions in compiled code, one by one and in batches, are those of the event-driven world."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import costgym
from costgym.agents.base import SESSION
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.simulators.errors import CostGymError

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.envs.native import SessionVectorEnv, SessionVectorEnvV1
from costgym.envs.sessions.levels import MarketplaceSessionEnvV1
from tests.envs.vector.test_single import assert_same
from tests.helpers.lockstep import CompiledLevels, CompiledSessions, run_views, session_actions

pytestmark = pytest.mark.native

SMALL: dict[str, Any] = {"queries": 15, "tools": 9, "capabilities": 3, "providers": 2, "drift": 0.2, "price_drift": 0.2}
FORMS: tuple[dict[str, Any], ...] = (
    {},
    {**SMALL, "memory": "raw", "mask": "legal", "budget": {"price": 40}, "cost": "calls"},
    {**SMALL, "reward": "value-minus-price", "budget": {}, "max_steps": 25, "outage_every_s": 20.0, "cost": "seconds"},
    {**SMALL, "budget": {"calls": 12, "seconds": 90.0}, "ttl_s": 20.0, "repeat": 0.8, "cost": "tokens"},
    {**SMALL, "concurrent": True, "mask": "legal", "repeat": 0.8, "budget": {}},
    {**SMALL, "concurrent": True, "memory": "raw", "outage_every_s": 20.0, "budget": {"price": 40, "seconds": 60.0}},
)
ENFORCEMENTS = ("refuse", "terminate", "record")


SCALAR = {
    SessionVectorEnv: MarketplaceSessionEnv,
    CompiledSessions: MarketplaceSessionEnv,
    SessionVectorEnvV1: MarketplaceSessionEnvV1,
    CompiledLevels: MarketplaceSessionEnvV1,
}


# a kernel for two threads is another one, which takes as long to compile; those of the marketplace are always tested
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("native", list(SCALAR))
def test_every_byte_is_that_of_the_event_driven_world(native: Any, threads: int) -> None:
    for number, (form, enforcement) in enumerate(product(FORMS, ENFORCEMENTS)):
        mode = list(AutoresetMode)[number % 3]
        run_views(
            4, 80, number, mode, None, SCALAR[native], native, session_actions, threads, enforcement=enforcement, **form
        )  # fmt: skip


def test_a_single_one_returns_the_types_and_the_order_of_keys_too() -> None:
    envs = MarketplaceSessionEnv(**SMALL), MarketplaceSessionEnv(compiled=True, **SMALL)
    generator = np.random.default_rng(0)
    assert_same(*(env.reset(seed=3) for env in envs))
    for step in range(200):
        action = int(session_actions(generator, {}, envs[0].action_masks()[None])[0])
        results = [env.step(action) for env in envs]
        assert_same(*results, f"step {step}")
        if results[0][2]:
            options = {"task": 100_000 + step} if step % 2 else None
            assert_same(*(env.reset(options=options) for env in envs), f"reset {step}")


def test_a_reset_of_some_leaves_the_others_alone_and_takes_a_session_by_number() -> None:
    env = costgym.make_vec(SESSION, 3, autoreset_mode="Disabled", **SMALL)
    before, _ = env.reset(seed=1)
    mask = np.array([False, True, False])
    after, info = env.reset(options={"reset_mask": mask, "task": 100_301}, seed=[None, 5, None])
    alone = MarketplaceSessionEnv(**SMALL).reset(seed=5, options={"task": 100_301})[0]
    assert np.array_equal(after["tools"][0], before["tools"][0]) and np.array_equal(after["tools"][1], alone["tools"])
    assert info["_at_s"].tolist() == mask.tolist()


def test_what_sessions_have_not_is_refused_by_name() -> None:
    for settings, text in (({"all_tables": True}, "all_tables"), ({"device": "cuda"}, "device"), ({"compiled": 1}, "compiled")):
        with pytest.raises(CostGymError, match=text):
            costgym.make_vec(SESSION, 2, **settings)
