"""Forks that share the future, and forks that draw it again."""

import numpy as np
import pytest

import costgym
from costgym.simulators.failures import PRESETS
from tests.helpers.worlds import small_world, state, tool

TOOLS = tuple(tool(f"t{number}", reliability=0.5, latency_spread=0.5, advertised_success=0.8) for number in range(3))


def episode(seed: int = 0):
    return small_world(*TOOLS, failures=PRESETS["storm"]).episode(0, seed)


def futures(start, count: int = 4) -> list[str]:
    return [start.call(slot).status.label for slot in range(3) for _ in range(count)]


def test_a_redrawn_fork_keeps_the_past_and_draws_another_future() -> None:
    start = episode()
    for slot in (0, 1, 0):
        start.call(slot)
    before = state(start)
    different = set()
    for seed in range(30):
        fork = start.fork()
        fork.redraw(seed)
        assert {**state(fork), "log": before["log"]} == before
        different.add(tuple(futures(fork)))
    assert len(different) > 20
    assert state(start) == before
    shared = [tuple(futures(start.fork())) for _ in range(3)]
    assert len(set(shared)) == 1


def test_the_same_seed_draws_the_same_future_and_a_fork_of_the_fork_has_it_too() -> None:
    start = episode(3)
    start.call(0)
    first, second = start.fork(), start.fork()
    first.redraw(7)
    second.redraw(7)
    first.call(1)
    second.call(1)
    again = first.fork()
    assert futures(first) == futures(second) == futures(again)


def test_redrawn_futures_follow_the_belief_and_not_the_hidden_reliability() -> None:
    """Two worlds that advertise the same and differ in truth: what forks bring is the same on average."""
    shares = []
    for truth in (0.0, 1.0):
        hidden = tool("hidden", reliability=truth, advertised_success=0.8)
        start = small_world(hidden, failures=PRESETS["rapidapi-2023"]).episode(0, 1)
        pairs = []
        for seed in range(400):
            fork = start.fork()
            fork.redraw(seed)
            pairs.append(fork.call(0).status.label == "ok")
        shares.append(np.mean(pairs))
    assert shares[0] == pytest.approx(shares[1], abs=0.08)
    assert 0.2 < shares[0] < 0.9


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_every_environment_forks_with_a_seed(env_id: str) -> None:
    env = costgym.make(env_id, disable_env_checker=True).unwrapped
    env.reset(seed=0)
    twin, same = env.fork(seed=5), env.fork(seed=5)  # type: ignore[attr-defined]
    assert twin is not env
    assert twin.np_random.random() == same.np_random.random() != env.fork().np_random.random()  # type: ignore[attr-defined]
