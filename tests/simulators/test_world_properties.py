"""What holds for every world and every sequence of actions."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.calls import Usage, WorldEvent
from costgym.simulators.failures import Bursts, FailureModel
from costgym.simulators.ledger import Budget
from costgym.simulators.pricing import FaasPricing
from costgym.simulators.pricing.prompt_cache import ModelPrices
from costgym.simulators.status import Status
from costgym.simulators.world import World
from costgym.simulators.world.episode import Episode
from tests.helpers.worlds import small_world, state, tool

TOOLS = 5
STORMY = FailureModel(usable=0.5, bursts=Bursts(every_s=6.0, lasts_s=2.0))
EVENTS = (
    WorldEvent(0.0, "price_change", (1,), 0.5),
    WorldEvent(2.0, "price_change", (0, 2), 2.0),
    WorldEvent(3.0, "ban", (1,)),
    WorldEvent(4.0, "preference_change", need=1),
    WorldEvent(9.0, "unban", (1,)),
)


def busy_world(faas: bool, gpu: bool) -> World:
    """Every rule at once."""
    return small_world(
        tool("a", 0, fee=2.0, latency_s=0.7, latency_spread=0.6, reliability=0.6, concurrency=1, cold_start_s=0.3),
        tool("b", 0, fee=1.0, latency_s=1.3, latency_spread=0.2, reliability=0.9, rate_limit=2, window_s=5.0),
        tool("c", 1, fee=3.0, latency_s=2.0, reliability=0.8, quota=3, gpu_cons_mb=400.0, concurrency=1),
        tool("d", 1, fee=4.0, latency_s=0.4, latency_spread=1.5, timeout_s=1.0, gpu_cons_mb=700.0),
        tool("e", -1, fee=1.0, latency_s=0.5, gpu_inst_mb=300.0, cold_start_s=1.0),
        after={1: (0,)},
        changeable=[1],
        events=EVENTS,
        copies=3,
        failures=STORMY,
        faas=FaasPricing.opencatp() if faas else None,
        tokens=ModelPrices(input=1.0, output=2.0),
        gpu_capacity_mb=1000.0 if gpu else None,
    )


WORLDS = {(faas, gpu): busy_world(faas, gpu) for faas in (False, True) for gpu in (False, True)}

ACTIONS = st.one_of(
    st.tuples(st.just("submit"), st.integers(-1, TOOLS)),
    st.tuples(st.just("submit"), st.integers(0, TOOLS - 1)),
    st.tuples(st.just("call"), st.integers(0, TOOLS - 1)),
    st.tuples(st.just("wrong"), st.integers(0, TOOLS - 1)),
    st.tuples(st.just("refuse"), st.integers(0, TOOLS - 1)),
    st.tuples(st.just("settle"), st.integers(0, 9)),
    st.tuples(st.just("advance"), st.sampled_from([0.0, 0.1, 1.0, 3.0])),
    st.tuples(st.just("think"), st.integers(0, 60)),
    st.tuples(st.just("wait"), st.just(0)),
    st.tuples(st.just("notices"), st.just(0)),
    st.tuples(st.just("finish"), st.just(0)),
)
SEQUENCES = st.lists(ACTIONS, max_size=25)
SETTINGS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(sorted(WORLDS)),
        "number": st.integers(0, 2),
        "seed": st.integers(0, 10**9),
        "budget": st.sampled_from(
            [{}, {"price": 9}, {"seconds": 5}, {"calls": 4}, {"tokens": 300}, {"price": 20, "seconds": 12}]
        ),
        "enforcement": st.sampled_from(["refuse", "terminate", "record"]),
    }
)


def act(episode: Episode, action: tuple[str, float]) -> None:
    name, value = action
    if episode.over:
        return
    if name == "submit":
        episode.submit(value)
    elif name == "call":
        episode.call(value)
    elif name == "wrong":
        episode.submit(value, {"city": "nowhere"})
    elif name == "refuse":
        episode.submit(value, None, Status.FORBIDDEN, "not planned")
    elif name == "settle":
        if value < len(episode.calls):
            episode.settle(episode.calls[value])
    elif name == "advance":
        episode.advance(value)
    elif name == "think":
        episode.think(Usage(10, value))
    elif name == "wait":
        episode.wait()
    elif name == "notices":
        episode.notices()
    else:
        episode.finish()


def begin(setting) -> Episode:
    budget = Budget(**setting["budget"])
    return WORLDS[setting["kind"]].episode(setting["number"], setting["seed"], budget, setting["enforcement"])


@given(setting=SETTINGS, actions=SEQUENCES)
def test_the_ledger_adds_up_and_time_never_runs_back(setting, actions):
    episode = begin(setting)
    times = [0.0]
    for action in actions:
        act(episode, action)
        times.append(episode.now_s)
    ledger = episode.ledger
    assert all(a <= b for a, b in pairwise(times))
    assert all(a.at_s <= b.at_s for a, b in pairwise(ledger))
    assert ledger.price == pytest.approx(sum(charge.price for charge in ledger), rel=1e-12)
    assert ledger.tokens == sum(charge.tokens for charge in ledger)
    assert ledger.calls == sum(charge.calls for charge in ledger) <= ledger.attempts == len(episode.calls)
    assert all(charge.price >= 0 for charge in ledger)
    ended = [call for call in episode.calls if call.finished_s >= 0]
    assert all(call.submitted_s <= call.finished_s <= episode.now_s for call in ended)
    executed = [call for call in ended if 0 <= call.started_s <= call.ready_s <= call.finished_s]
    assert len(executed) == ledger.calls
    charged = sum(charge.price for charge in ledger if charge.calls)
    assert sum(call.price for call in executed) == pytest.approx(charged, rel=1e-12)
    assert len(episode.calls) - len(ended) == episode.in_flight
    if episode.over:
        assert episode.in_flight == 0 and episode.grade is not None


@given(setting=SETTINGS, before=SEQUENCES, after=SEQUENCES)
def test_a_fork_equals_its_original_and_has_the_same_future(setting, before, after):
    episode = begin(setting)
    for action in before:
        act(episode, action)
    fork = episode.fork()
    assert state(fork) == state(episode)
    for action in after:
        act(episode, action)
        act(fork, action)
    assert state(fork) == state(episode)


@given(setting=SETTINGS, actions=SEQUENCES)
def test_no_budget_of_calls_is_overdrawn_in_strict_mode_and_none_of_price_where_prices_stay(setting, actions):
    tools = (tool("a", fee=2.0), tool("b", concurrency=1), tool("c", 1), tool("d", 1), tool("e", -1, fee=3.0))
    world = small_world(*tools)
    episode = world.episode(0, setting["seed"], Budget(price=9.0, calls=6), "refuse")
    for action in actions:
        if action[0] != "think":
            act(episode, action)
        assert episode.ledger.price <= 9.0 and episode.ledger.calls <= 6
    assert episode.exceeded is None


@given(setting=SETTINGS, actions=SEQUENCES, order=st.randoms(use_true_random=False))
def test_the_kth_call_of_a_tool_has_the_same_luck_whatever_was_called_in_between(setting, actions, order):
    tools = [tool(name, -1, reliability=0.5, latency_spread=1.0) for name in "abcde"]
    world = small_world(*tools, failures=FailureModel(usable=0.5))
    calls = [(slot, k) for slot in range(TOOLS) for k in range(3)]
    straight, mixed = world.episode(0, setting["seed"]), world.episode(0, setting["seed"])
    for slot, _ in calls:
        straight.call(slot)
    order.shuffle(calls)
    for slot, _ in calls:
        mixed.call(slot)

    def luck(episode):
        return sorted((call.slot, call.k, call.status, round(call.finished_s - call.started_s, 9)) for call in episode.calls)

    assert luck(straight) == luck(mixed)
