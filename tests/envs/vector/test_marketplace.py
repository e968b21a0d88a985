"""The native vector environment is Gymnasium's SyncVectorEnv over the scalar one, only faster."""

import subprocess
import sys
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import costgym
from costgym.agents.base import SESSION
from costgym.simulators.errors import ConfigError, EpisodeOver, UnknownName

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.envs.native import MarketplaceVectorEnv
from costgym.simulators.batch.rng import most_threads
from costgym.simulators.batch.state import LARGE, SMALL
from tests.helpers.lockstep import difference, run_views

SCENARIOS = ("marketplace", "storm", "faas", "marketplace-reliable", "marketplace-writes")
ENFORCEMENTS = ("refuse", "terminate", "record")
FORMS: tuple[dict[str, Any], ...] = ({}, {"concurrent": True})

pytestmark = pytest.mark.native


def small(**settings: Any) -> dict[str, Any]:
    source = {"kind": "marketplace", "tools": 40, "providers": 8, "categories": 3, "train": 6, "test": 3, "candidates": [3, 7]}
    return {"scenario": {"source": source, **settings}}


def env(count: int = 3, **settings: Any) -> MarketplaceVectorEnv:
    return MarketplaceVectorEnv(count, **{**small(), **settings})


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("form", FORMS, ids=["default", "concurrent"])
def test_native_and_scalar_environments_are_equal_to_the_last_bit(
    form: dict[str, Any], scenario: str, mode: AutoresetMode
) -> None:
    met = sum(
        (
            run_views(6, 50, number, mode, scenario=scenario, enforcement=enforcement, max_steps=14, budget=budget, **form)
            for number, enforcement in enumerate(ENFORCEMENTS)
            for budget in (None, {"seconds": 20.0, "calls": 12})
        ),
        start=run_views(6, 50, 9, mode, scenario=scenario, grading="judge", cost="calls", budget={}, **form),
    )
    assert met["0"] and met["14"] and met["terminated"] and met["truncated"] and met["success"], met


def test_tasks_with_fewer_candidates_and_narrow_views_are_equal_too() -> None:
    for mode, mask in product(AutoresetMode, ("useful", "legal")):
        form = {"mask": mask, "concurrent": mode is AutoresetMode.SAME_STEP}
        run_views(5, 120, 2, mode, **small(failures="storm"), cost="seconds", max_steps=20, **form)
        run_views(5, 120, 2, mode, **small(failures="storm"), max_tools=5, max_steps=20, **form)
        run_views(
            2, 60, 2, mode, **small(failures="storm"), max_tools=9, cost="tokens", budget={"tokens": 9}, split="test", **form
        )


def test_make_vec_takes_the_native_batch() -> None:
    made = costgym.make_vec("costgym/Marketplace-v0", 4)
    assert isinstance(made.unwrapped, MarketplaceVectorEnv)
    assert made.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert made.spec is not None and gym.envs.registration.EnvSpec.from_json(made.spec.to_json()).id == "costgym/Marketplace-v0"
    observation, info = made.reset(seed=1)
    assert made.observation_space.contains(observation)
    assert info["action_mask"].shape == (4, made.single_action_space.n)


@pytest.mark.parametrize("env_id", ["costgym/Marketplace-v0", "costgym/MarketplaceSession-v0"])
def test_attributes_are_read_set_and_called_by_name_as_those_of_gymnasiums_vectors(env_id: str) -> None:
    native, sync = (
        costgym.make_vec(env_id, 3, budget={"price": 9}, vectorization_mode=mode).unwrapped
        for mode in ("vector_entry_point", "sync")
    )
    for env in (native, sync):
        env.reset(seed=4)
        env.set_attr("tag", ["a", "b", "c"])
    for name in ("max_steps", "budget", "action_space", "tag"):
        assert native.get_attr(name) == sync.get_attr(name)
    assert native.call("tag") == ("a", "b", "c")
    for mine, theirs in zip(native.call("action_masks"), sync.call("action_masks"), strict=True):
        assert np.array_equal(mine, theirs)
    for name, values, problem in (("max_steps", 3, "this one is fixed"), ("tag", ["a"], "one value or 3, .* got 1")):
        with pytest.raises(ConfigError, match=problem):
            native.set_attr(name, values)
    for name in ("account", "episode", "task"):
        with pytest.raises(ConfigError, match="keeps no log"):
            native.call(name)


def test_gymnasiums_statistics_wrapper_takes_it() -> None:
    wrapped = gym.wrappers.vector.RecordEpisodeStatistics(env(4))
    wrapped.reset(seed=0)
    finish = np.full(4, wrapped.unwrapped.scalar.finish_action)
    *_, info = wrapped.step(finish)
    assert info["episode"]["l"].tolist() == [1, 1, 1, 1]


def test_without_copies_the_values_are_the_same() -> None:
    fresh, reused = env(8), env(8, copy=False)
    generator = np.random.default_rng(0)
    (first, _), (second, _) = fresh.reset(seed=3), reused.reset(seed=3)
    for _ in range(300):
        assert difference(first, second) is None
        actions = generator.integers(0, fresh.single_action_space.n, 8)
        (first, *rest), (second, *others) = fresh.step(actions), reused.step(actions)
        assert [difference(a, b) for a, b in zip(rest, others, strict=True)] == [None] * 4


def test_with_copies_nothing_is_shared_between_steps() -> None:
    native = env()
    native.reset(seed=0)
    before = native.step(np.zeros(3, np.int64))
    copies = {key: value.copy() for key, value in before[4].items()}
    after = native.step(np.full(3, native.scalar.finish_action))
    assert difference(before[4], copies) is None
    for one, other in [(before[0], after[0]), (before[4], after[4])]:
        assert not any(np.shares_memory(one[key], other[key]) for key in one)


def test_a_task_can_be_chosen_by_number_and_by_id_from_any_split() -> None:
    native = env()
    task = native.scalar.world.tasks[native.scalar.world.tasks.numbers("test")[1]]
    first, _ = native.reset(seed=4, options={"task": task.number})
    second, _ = native.reset(seed=4, options={"task": task.id})
    scalar = costgym.make("costgym/Marketplace-v0", **small()).reset(seed=4, options={"task": task.id})[0]
    assert difference(first, second) is None
    assert difference({key: value[0] for key, value in first.items()}, scalar) is None
    with pytest.raises(UnknownName, match="task"):
        native.reset(options={"task": "nothing"})


def test_seeds_may_be_a_list_and_none_goes_on_with_the_generator() -> None:
    one, two = env(2), env(2)
    one.reset(seed=[5, 9])
    two.reset(seed=[7, 9])
    (first, _), (second, _) = one.reset(seed=[1, None]), two.reset(seed=[1, None])
    assert difference(first, second) is None
    with pytest.raises(ConfigError, match="2 seeds"):
        one.reset(seed=[1])


@pytest.mark.parametrize("name", ["costgym/Marketplace-v0", SESSION, "costgym/MarketplaceSession-v1"])
def test_more_environments_than_memory_holds_are_refused_with_the_bytes_of_one(name: str) -> None:
    # more than a process can address, so that no system promises them
    with pytest.raises(ConfigError, match=r"^num_envs: .* [\d,]+ bytes of state and .* got 1,000,000,000,000; take fewer$"):
        costgym.make_vec(name, 10**12)


def test_wrong_use_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="num_envs"):
        env(0)
    with pytest.raises(ConfigError, match="autoreset_mode"):
        env(autoreset_mode="never")
    native = env(autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(EpisodeOver, match="reset"):
        native.step(np.zeros(3, np.int64))
    native.reset(seed=0)
    with pytest.raises(ConfigError, match="3 integers"):
        native.step([0, 0])
    for actions in ([0.5, 0.5, 0.5], [0, -1, 0], [0, 0, 99]):
        with pytest.raises(gym.error.InvalidAction, match="whole numbers from 0 to"):
            native.step(actions)
    native.step([native.scalar.finish_action, 0, 0])
    with pytest.raises(EpisodeOver, match=r"\[0\] have ended"):
        native.step(np.zeros(3, np.int64))
    for mask in (np.zeros(3, np.bool_), [True, False, False], np.ones(2, np.bool_)):
        with pytest.raises(ConfigError, match="reset_mask"):
            native.reset(options={"reset_mask": mask})
    native.reset(options={"reset_mask": np.array([True, False, False])})
    native.step(np.zeros(3, np.int64))


def test_importing_costgym_does_not_import_numba() -> None:
    script = "import sys, costgym; costgym.make; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_large_split_is_equal_too_and_its_tables_grow_as_tasks_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    made = costgym.make_vec("costgym/Marketplace-v0", 4, split="train-large")
    made.reset(seed=0)
    assert 0 < len(made.unwrapped.batch.numbers) <= 4  # type: ignore[attr-defined]
    for mode in AutoresetMode:
        run_views(4, 30, 5, mode, split="train-large", max_steps=5)
    monkeypatch.setattr("costgym.envs.vector.marketplace.EAGER", 0)
    for mode in AutoresetMode:
        run_views(4, 60, 2, mode, **small(failures="storm"), max_steps=9, concurrent=True)
        run_views(4, 60, 2, mode, scenario="storm", max_steps=9)


def test_several_scenarios_with_other_rules_are_no_native_batch() -> None:
    with pytest.raises(ConfigError, match="sync"):
        env(scenario=["marketplace", "storm"])
    native = env()
    with pytest.raises(ConfigError, match="one scenario"):
        native.reset(options={"scenario": "storm"})


@pytest.mark.skipif(most_threads() < 2, reason="needs two threads")
@pytest.mark.parametrize("form", FORMS, ids=["default", "concurrent"])
def test_the_number_of_threads_changes_nothing(form: dict[str, Any]) -> None:
    for count in (1, 2, 7):
        run_views(count, 40, 3, AutoresetMode.NEXT_STEP, **small(failures="storm"), max_steps=12, threads=2, **form)
        run_views(count, 40, 3, AutoresetMode.NEXT_STEP, scenario="marketplace-writes", max_steps=12, threads=2, **form)


@pytest.mark.parametrize("threads", [0, most_threads() + 1, True, 1.5])
def test_a_number_of_threads_that_the_machine_does_not_have_is_refused(threads: Any) -> None:
    with pytest.raises(ConfigError, match=f"threads: expected a whole number from 1 to {most_threads()}"):
        env(threads=threads)


def test_arrays_are_handed_out_again_only_when_nobody_holds_them_or_a_view_of_them() -> None:
    vector = env(4)
    first, _ = vector.reset(seed=1)
    view, copies = first["tools"][1:3], first["tools"].copy()
    del first
    seen = [vector.step(np.zeros(4, np.int64))[0]["needs"] for _ in range(6)]
    assert len({array.ctypes.data for array in seen}) == 6
    for _ in range(6):
        vector.step(np.zeros(4, np.int64))
    assert np.array_equal(view, copies[1:3])
    addresses = set()
    for _ in range(8):
        addresses.add(vector.step(np.zeros(4, np.int64))[0]["tools"].ctypes.data)
    assert len(addresses) <= 3


def test_a_step_that_is_a_call_and_its_answer_keeps_room_for_one_call() -> None:
    one, many = (MarketplaceVectorEnv(64, concurrent=flag) for flag in (False, True))
    assert one.batch.state.calls.shape[1] == 1
    assert one.nbytes <= 802 * 64 + 96  # and what does not grow with the number of environments
    while many.batch.state.calls.shape[1] <= many.scalar.max_steps:
        many.batch.make_room(many.batch.state.calls.shape[1])
    assert many.batch.state.calls.shape[1] == many.scalar.max_steps + 1
    # 24 bytes of each call say when it started and was loaded: one that is cut off while it loads costs nothing
    assert many.nbytes <= (2_300 + 24 * many.batch.state.calls.shape[1]) * 64


def test_calls_that_a_byte_cannot_count_have_larger_records() -> None:
    assert env(1, max_steps=255).batch.records == SMALL
    assert env(1, max_steps=300).batch.records == LARGE


@pytest.mark.slow  # larger records are other types, for which everything is compiled again; `test_compiled` interprets them
def test_calls_that_a_byte_cannot_count_are_counted() -> None:
    seen = []

    def first(generator: Any, observation: dict[str, Any], mask: Any) -> Any:
        seen.append(float(observation["tools"][:, 0, 11].max()))
        return np.zeros(len(mask), np.int64)

    run_views(2, 300, 3, AutoresetMode.NEXT_STEP, **small(), max_steps=300, budget={}, mask="legal", choose=first)
    assert max(seen) > 255 / 4


def test_long_chains_are_equal_too() -> None:
    source = {"kind": "marketplace", "train": 20, "test": 3, "needs": [4, 6], "chain_share": 1.0, "chain_length": [3, 4]}
    for number, form in enumerate(FORMS):
        for failures in ("reliable", "storm"):
            world = {"source": source, "failures": failures}
            met = run_views(4, 120, number, AutoresetMode.NEXT_STEP, scenario=world, budget={}, max_steps=20, **form)
            assert met["terminated"]
