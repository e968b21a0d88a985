"""No play beats the optimum: every short sequence of actions is tried in tiny random worlds."""

from itertools import product
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.oracle.optimum import optimum
from costgym.simulators.quality import quality_of_plan
from costgym.simulators.scenario import Scenario, parse_scenario
from costgym.simulators.world import World

LONGEST = 4  # calls of a sequence that is tried
WAITS = (3, 11)  # seconds of the waits that are tried


def tiny(random: Random) -> Scenario:
    """One or two needs, two tools, and any of the rules that stand between a call and what it is for."""

    def profile() -> dict[str, Any]:
        found: dict[str, Any] = {
            "fee": random.choice((1.0, 2.0, 3.5)), "reliability": random.choice((0.0, 0.3, 0.6, 1.0)),
            "latency_s": [random.choice((0.5, 2.0, 6.0))], "latency_spread": random.choice((0.0, 0.8)),
        }  # fmt: skip
        for name, values in (
            ("timeout_s", (1.0, 5.0)), ("quota", (1, 2)), ("rate_limit", (1,)), ("window_s", (2.0, 10.0)),
            ("concurrency", (1,)), ("cold_start_s", (0.5,)),
        ):  # fmt: skip
            if random.random() < (0.6 if name == "timeout_s" else 0.3):
                found[name] = random.choice(values)
        return found

    writes, needs = random.random() < 0.6, []
    tools: list[dict[str, Any]] = [{"name": f"t{i}", "capability": "booking", "profile": profile()} for i in range(2)]
    for tool in tools if writes else ():
        tool |= {"writes": True, "idempotent": random.random() < 0.4, "happens": random.choice((0.0, 0.5, 1.0))}
        tool["settles_s"] = random.choice((0.0, 4.0))
    if writes and random.random() < 0.5:
        tools[1] = {"name": "check", "capability": "status", "checks": "booking", "profile": profile()}
    needs.append({"capability": "booking", "arguments": {"flight": "SK-1"}, "fact": "BK-48213"})
    if writes:
        needs[0] |= {"asked": random.random() < 0.4, "amount": 10}
    events = []
    if random.random() < 0.4:
        kind = random.choice(("price_change", "ban"))
        events = [{"at_s": random.choice((0.0, 1.0, 4.0)), "kind": kind, "tools": ["t0"]}]
        events += [{"at_s": 5.0, "kind": "unban"}] if kind == "ban" else []
        if kind == "price_change":
            events[0]["factor"] = random.choice((0.5, 2.0))
    # a failure that is certain to have no effect has one all the same where the call is so slow that it times out
    kinds = random.choice(
        ({"unauthorized": 1.0}, {"timeout": 0.4, "server_error": 0.2, "unauthorized": 0.2, "connection_error": 0.2})
    )
    failures: dict[str, Any] = {
        "slip": random.choice((0.0, 0.1)),
        "persistence": 0.3,
        "sticky": random.choice((0.3, 0.9)),
        "kinds": kinds,
    }
    if random.random() < 0.3:
        failures["bursts"] = {"every_s": 4.0, "lasts_s": 2.0}
    return parse_scenario(
        {
            "name": "tiny", "source": {"kind": "own", "tools": tools, "tasks": [{"query": "Book it.", "needs": needs}]},
            "failures": failures, "events": events, "pricing": random.choice(("flat", "flat", "faas")),
            "bill_failures": random.random() < 0.7, "bill_cold_start": random.random() < 0.5,
            "budget": random.choice(({}, {"price": 6.0}, {"seconds": 12.0}, {"calls": 3})),
            "enforcement": random.choice(("refuse", "terminate", "record")),
            **({"slots": 1} if random.random() < 0.2 else {}),
        }
    )  # fmt: skip


def best_quality(scenario: Scenario, world: World, seed: int) -> float:
    """The highest quality of a play that passes within the budget, or 0 for doing nothing."""
    best, tools = 0.0, range(len(world.candidates(0)))
    actions = [*tools, *(-seconds for seconds in WAITS)]
    for length in range(1, LONGEST + 1):
        for play, together in product(product(actions, repeat=length), (False, True)):
            episode = world.episode(0, seed, scenario.limits(), scenario.enforcement)
            for action in play:
                if not episode.over:
                    if action < 0:
                        episode.advance(-action)
                    elif together:
                        episode.submit(action)
                    else:
                        episode.call(action)
            while episode.in_flight and not episode.over:
                episode.wait()
            if not episode.over and episode.finish().strict and episode.success:
                best = max(best, quality_of_plan(1.0, episode.ledger.price, world.alpha, world.max_price))
    return best


@given(number=st.integers(0, 2**32))
def test_no_play_beats_the_optimum(number: int) -> None:
    scenario = tiny(Random(number))
    world = scenario.build()
    found = optimum(world, 0, number, scenario.limits(), enforcement=scenario.enforcement)
    assert best_quality(scenario, world, number) <= found.quality + 1e-9
    assert found.achieved <= found.quality + 1e-9
    if found.exact and found.feasible:
        episode = world.episode(0, number, scenario.limits(), scenario.enforcement)
        for action in found.actions:
            if action >= 0:
                episode.submit(int(action))
            elif action == -1:
                episode.wait()
            else:
                episode.advance(-1 - action)
        while episode.in_flight and not episode.over:
            episode.wait()
        assert episode.finish().strict and episode.success and abs(episode.ledger.price - found.price) < 1e-9
