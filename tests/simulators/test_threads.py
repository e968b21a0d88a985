"""Threads that play episodes of one world side by side: each episode is the one played alone."""

import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.simulators import draws
from costgym.simulators.scenario import load_scenario
from costgym.simulators.world import World

THREADS = 6


@pytest.fixture(autouse=True)
def threads_that_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(play: Callable[[int], Any], episodes: int) -> list[list[Any]]:
    """All episodes in every thread; each thread begins with another one."""
    start = Barrier(THREADS)

    def work(thread: int) -> list[Any]:
        start.wait(30)
        first = thread * episodes // THREADS
        results = {number % episodes: play(number % episodes) for number in range(first, first + episodes)}
        return [results[number] for number in range(episodes)]

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(THREADS)))


def played(world: World, number: int) -> tuple[Any, ...]:
    episode = world.episode(number % len(world.tasks), 1000 + number)
    generator = np.random.default_rng(number)
    for slot in generator.integers(len(episode.candidates), size=12).tolist():
        episode.call(slot)
        if episode.over:
            break
    else:
        episode.finish()
    return [(call.slot, call.status, call.finished_s, call.price) for call in episode.calls], episode.grade


def test_six_threads_on_one_world_play_the_episodes_that_one_plays() -> None:
    world = load_scenario("storm").build()
    alone = [played(world, number) for number in range(150)]
    assert in_threads(lambda number: played(world, number), 150) == [alone] * THREADS


@pytest.mark.parametrize("env_id", ["costgym/Marketplace-v0", "costgym/MarketplaceChat-v0", "costgym/DecisionAware-v0"])
def test_environments_in_threads_share_nothing_that_changes(env_id: str) -> None:
    def steps(number: int) -> str:
        env = costgym.make(env_id)
        env.action_space.seed(number)
        log: list[Any] = [env.reset(seed=number)]
        for turn in range(12):
            action = (
                f'{{"name": "wait", "arguments": {{"seconds": {turn}}}}}' if "Chat" in env_id else env.action_space.sample()
            )
            log.append(env.step(action))
            if log[-1][2] or log[-1][3]:
                break
        return repr(log)

    alone = [steps(number) for number in range(8)]
    assert in_threads(steps, 8) == [alone] * THREADS


def change_threads(frame: Any, event: str, _: Any) -> None:
    """Let another thread run before each call of the generator: after the jump, and before the draw."""
    if event == "c_call" and frame.f_globals["__name__"] == draws.__name__:
        time.sleep(2e-4)


@pytest.mark.parametrize("env_id", ["costgym/Marketplace-v0", "costgym/MarketplaceChat-v0", "costgym/DecisionAware-v0"])
def test_a_thread_that_is_interrupted_in_a_draw_draws_what_it_draws_alone(env_id: str) -> None:
    local = threading.local()

    def calls(number: int) -> list[Any]:
        if not hasattr(local, "env"):
            local.env = costgym.make(env_id, disable_env_checker=True).unwrapped
        env = local.env
        env.reset(seed=number)
        for slot in range(len(env.episode.candidates)):
            if not env.episode.over:
                env.episode.call(slot)
        return [(call.slot, call.status, call.finished_s, call.price) for call in env.episode.calls]

    alone = [calls(number) for number in range(20)]
    threading.setprofile(change_threads)
    try:
        assert in_threads(calls, 20) == [alone] * THREADS
    finally:
        threading.setprofile(None)


def test_a_world_can_be_pickled_and_the_copy_plays_the_same_episodes() -> None:
    world = load_scenario("marketplace").build()
    copy = pickle.loads(pickle.dumps(world))
    assert played(copy, 3) == played(world, 3)
