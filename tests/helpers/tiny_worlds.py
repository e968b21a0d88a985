"""Tiny random worlds and sessions, and every short play of them: what beats the optimum that is claimed."""

import json
from itertools import product
from random import Random
from typing import Any

import numpy as np

from costgym.simulators.forge.compose import api_document, world_document
from costgym.simulators.forge.graph import graph_of
from costgym.simulators.forge.readers.reading import read_document
from costgym.simulators.ledger import Budget
from costgym.simulators.oracle.optimum import WAIT, Optimum, optimum
from costgym.simulators.quality import quality_of_plan
from costgym.simulators.scenario import Scenario, load_scenario, parse_scenario
from costgym.simulators.sessions.episode import SessionEpisode, session_world
from costgym.simulators.sessions.informed import value_bound
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.status import Status
from costgym.simulators.world import World
from costgym.simulators.world.episode import Episode

LONGEST = 4  # actions of a play
WAITS = (3, 11)  # seconds of the waits that are tried
SLACK = 1e-9


def tiny(random: Random) -> dict[str, Any]:
    """The document of a world of one or two needs and two or three tools, with any of the rules that stand between a call and
    what it is for."""

    writes = random.random() < 0.6
    tools: list[dict[str, Any]] = [{"name": f"t{i}", "capability": "booking", "profile": profile(random)} for i in range(2)]
    for tool in tools if writes else ():
        tool |= {"writes": True, "idempotent": random.random() < 0.4, "happens": random.choice((0.0, 0.5, 1.0))}
        tool["settles_s"] = random.choice((0.0, 4.0))
    if writes and random.random() < 0.5:
        tools[1] = {"name": "check", "capability": "status", "checks": "booking", "profile": profile(random)}
    needs: list[dict[str, Any]] = [{"capability": "booking", "arguments": {"flight": "SK-1"}, "fact": "BK-48213"}]
    if writes:
        needs[0] |= {"asked": random.random() < 0.4, "amount": 10}
    if random.random() < 0.3:
        tools.append({"name": "fare", "capability": "fare", "profile": profile(random)})
        key = {"booking": "{0}"} if random.random() < 0.4 else {"flight": "SK-1"}
        needs.append({"capability": "fare", "arguments": key, "fact": "214 EUR"})
    events: list[dict[str, Any]] = []
    if random.random() < 0.4:
        kind = random.choice(("price_change", "ban"))
        events = [{"at_s": random.choice((0.0, 1.0, 4.0)), "kind": kind, "tools": ["t0"]}]
        events += [{"at_s": 5.0, "kind": "unban"}] if kind == "ban" else []
        if kind == "price_change":
            events[0]["factor"] = random.choice((0.5, 2.0))
    source = {"kind": "own", "tools": tools, "tasks": [{"query": "Book it.", "needs": needs}]}
    return {"name": "tiny", "source": source, "events": events, **rules(random)}


def profile(random: Random) -> dict[str, Any]:
    """A profile of a tool with any of the rules."""
    drawn: dict[str, Any] = {
        "fee": random.choice((1.0, 2.0, 3.5)), "reliability": random.choice((0.0, 0.3, 0.6, 1.0)),
        "latency_s": [random.choice((0.5, 2.0, 6.0))], "latency_spread": random.choice((0.0, 0.8)),
    }  # fmt: skip
    for name, values in (
        ("timeout_s", (1.0, 5.0)), ("quota", (1, 2)), ("rate_limit", (1,)), ("window_s", (2.0, 10.0)),
        ("concurrency", (1,)), ("cold_start_s", (0.5,)),
    ):  # fmt: skip
        if random.random() < (0.6 if name == "timeout_s" else 0.3):
            drawn[name] = random.choice(values)
    return drawn


def rules(random: Random) -> dict[str, Any]:
    """Failures, bills, budget and their like of a scenario."""
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
    return {
        "failures": failures, "pricing": random.choice(("flat", "flat", "faas")),
        "bill_failures": random.random() < 0.7, "bill_cold_start": random.random() < 0.5,
        "budget": random.choice(({}, {"price": 6.0}, {"seconds": 12.0}, {"calls": 3})),
        "enforcement": random.choice(("refuse", "terminate", "record")),
        **({"slots": 1} if random.random() < 0.2 else {}),
    }  # fmt: skip


_ID = {"type": "string"}
_REFUND = {"id": _ID, "order_id": _ID, "amount_cents": {"type": "integer"}}
_ORDER = {"id": _ID, "tracking_number": _ID, "city": {"type": "string"}}


def _function(name: str, response: dict[str, Any], *required: str, reads: bool) -> dict[str, Any]:
    properties = {name: {"type": "integer"} if name == "amount_cents" else _ID for name in required}
    return {
        "name": name, "description": f"{name}.", "annotations": {"readOnlyHint": reads},
        "inputSchema": {"type": "object", "properties": properties, "required": list(required)},
        "outputSchema": {"type": "object", "properties": response},
    }  # fmt: skip


_SHOPS = (
    [_function("cancel_order", {}, "order_id", reads=False)],
    [_function("create_refund", _REFUND, "order_id", "amount_cents", reads=False)],
    [
        _function("create_refund", _REFUND, "order_id", "amount_cents", reads=False),
        _function("delete_refund", {}, "refund_id", reads=False),
        _function("get_refund", _REFUND, "refund_id", reads=True),
        _function("find_refund", _REFUND, "order_id", reads=True),
    ],
    [_function("cancel_order", {}, "order_id", reads=False), _function("get_order", _ORDER, "order_id", reads=True)],
)
"""Documents of a shop whose tools write: alone, with what tells of a refund and takes it back, and beside what reads."""


def tiny_forged(random: Random) -> tuple[dict[str, Any], int]:
    """The document of a tiny forged world whose tools write, with any of the rules, and a task of it that wants an effect."""
    shop = random.choice(_SHOPS)
    graph = graph_of(read_document("shop.json", json.dumps({"tools": shop}).encode()))  # type: ignore[arg-type]
    made = world_document([api_document(graph)], "tiny-forged", random.randrange(2**20), own=True)
    assert made is not None
    tools = made["source"]["tools"]
    if random.random() < 0.4:
        tools = [{**tool, "idempotent": "key"} if tool.get("writes") else tool for tool in tools]
    made["source"] |= {"tools": [{**tool, "profile": profile(random)} for tool in tools], "candidates": 4, "needs": (1, 2)}
    made |= {**rules(random), "name": "tiny-forged"}
    world = parse_scenario(made).build()
    wanted = [n for n in world.tasks.numbers("test")[:40] if any(need.state for need in world.tasks[n].needs)]
    return made, min(wanted, key=lambda number: len(world.tasks[number].needs))


def features(document: dict[str, Any]) -> set[str]:
    """The rules that a tiny world has."""
    tools = document["source"]["tools"]
    profiles = {name for tool in tools for name in tool["profile"]}
    held = {
        "writes": any(tool.get("writes") for tool in tools),
        "settling": any(tool.get("settles_s") for tool in tools),
        "keys": any(tool.get("idempotent") for tool in tools),
        "checks": any(tool.get("checks") for tool in tools),
        "two needs": len(document["source"]["tasks"][0]["needs"]) > 1,
        "slots": "slots" in document,
        "outages": "bursts" in document["failures"],
        "price changes": any(event["kind"] == "price_change" for event in document["events"]),
        "bans": any(event["kind"] == "ban" for event in document["events"]),
        f"budget of {next(iter(document['budget']), 'nothing')}": True,
        f"budget: {document['enforcement']}": True,
        f"pricing: {document['pricing']}": True,
    }
    limits = {"timeout_s": "time-outs", "quota": "quotas", "rate_limit": "rate limits", "cold_start_s": "cold starts"}
    return {name for name, there in held.items() if there} | {words for name, words in limits.items() if name in profiles}


def tiny_one_world(kind: str) -> dict[str, Any]:
    """The document of a one world with queries of one kind and as few tools on offer as it can have."""
    whole = load_scenario("one-world")
    seen = kind in ("vision", "both")
    fields = {"kinds": {kind: 1.0}, "vision_tools": seen, "candidates": 11 if seen else 3, "train": 2, "test": 40}
    return whole.model_copy(update={"source": whole.source.model_copy(update=fields)}).model_dump(mode="json")


def plays_that_beat(scenario: Scenario, world: World, task: int, seed: int, quality: float) -> tuple[float, int]:
    """The highest quality above a claimed one of a play that passes within the budget, or that one; and the plays tried.

    A play is a sequence of calls and waits, one after the other or side by side. One that has paid more than what it could
    win is not followed.
    """
    best, tried = max(0.0, quality), 0
    actions = [*range(len(world.candidates(task))), *(-seconds for seconds in WAITS)]

    def follow(before: Episode, together: bool, left: int) -> None:
        nonlocal best, tried
        for action in actions:
            episode = before.fork()
            if action < 0:
                episode.advance(-action)
            elif together:
                episode.submit(action)
            else:
                episode.call(action)
            tried += 1
            if worth(episode) <= best + SLACK:
                continue
            if left > 1 and not episode.over:
                follow(episode.fork(), together, left - 1)
            close(episode)
            if episode.grade is not None and episode.grade.strict and episode.success:
                best = max(best, worth(episode))

    def worth(episode: Episode) -> float:
        return float(quality_of_plan(1.0, episode.ledger.price, world.alpha, world.max_price))

    for together in (False, True):
        follow(world.episode(task, seed, scenario.limits(), scenario.enforcement), together, LONGEST)
    return best, tried


def close(episode: Episode) -> None:
    """Wait for what is in flight, and finish."""
    while episode.in_flight and not episode.over:
        episode.wait()
    if not episode.over:
        episode.finish()


def wrong_with(document: dict[str, Any], seed: int, task: int = 0) -> tuple[str, int]:
    """What is wrong with the optimum of an episode in a tiny world, in words, or nothing; and the plays that were tried."""
    scenario = parse_scenario(document)
    world = scenario.build()
    claimed = optimum(world, task, seed, scenario.limits(), enforcement=scenario.enforcement)
    best, tried = plays_that_beat(scenario, world, task, seed, claimed.quality)
    if best > claimed.quality + SLACK:
        return f"a play reaches {best:.6f}, the optimum {claimed.quality:.6f}", tried
    if claimed.achieved > claimed.quality + SLACK:
        return f"its plan reaches {claimed.achieved:.6f}, the optimum {claimed.quality:.6f}", tried
    if claimed.exact and claimed.feasible:
        episode = world.episode(task, seed, scenario.limits(), scenario.enforcement)
        _play(episode, claimed)
        if not (episode.success and abs(episode.ledger.price - claimed.price) < SLACK):
            return "its plan is not what it promises", tried
    return "", tried


def _play(episode: Episode, plan: Optimum) -> None:
    for action in plan.actions:
        if action >= 0:
            episode.submit(int(action))
        elif action == WAIT:
            episode.wait()
        else:
            episode.advance(-1 - action)
    close(episode)


# -- sessions --------------------------------------------------------------------------------------------------------------

QUERIES, AT_MOST = 3, 2  # queries of a session, and calls for each
CHOSEN_ON, TRIED_ON, CHOSEN = 8, 60, 3  # seeds that policies are chosen on, others that they are tried on, and how many are
Policy = tuple[int | None, ...]  # the tool that is called for each query, or none


def tiny_session(random: Random) -> tuple[SessionRules, Budget | None]:
    """A session of three queries over three tools, and its limits; None for those that it computes."""
    rules = SessionRules(
        queries=QUERIES,
        tools=3,
        capabilities=random.choice((1, 1, 2)),
        providers=random.choice((1, 3)),
        drift=random.choice((0.0, 0.3)),
        price_drift=random.choice((0.0, 0.5)),
        repeat=random.choice((0.0, 0.6)),
        ttl_s=random.choice((2.0, 1000.0)),
        outage_every_s=random.choice((10.0, 1000.0)),
        outage_lasts_s=random.choice((2.0, 10.0)),
        budget_share=random.choice((0.3, 1.0)),
    )
    return rules, random.choice((None, Budget(), Budget(price=random.choice((6.0, 12.0))), Budget(seconds=6.0)))


def errors_above_the_bound(rules: SessionRules, number: int, budget: Budget | None, enforcement: Any) -> float:
    """By how many standard errors the mean value of the best policies is above the bound that no policy exceeds on average.

    A policy calls one tool for each query, or none, and answers from memory what it can. All are tried, and the best played
    again under other seeds, so that their luck is not what chose them.
    """
    world = session_world(rules, number)
    limits = world.episode(number, 0, budget, enforcement).budget
    price, seconds = (float("inf") if limit is None else float(limit) for limit in (limits.price, limits.seconds))
    assert world.session is not None
    bound = value_bound(world.session, price, seconds)

    def values(policy: Policy, seeds: range) -> list[float]:
        return [_value(world.episode(number, seed, budget, enforcement), policy) for seed in seeds]

    policies: list[Policy] = list(product((None, 0, 1, 2), repeat=QUERIES))
    policies.sort(key=lambda policy: -sum(values(policy, range(CHOSEN_ON))))
    above = []
    for policy in policies[:CHOSEN]:
        reached = np.array(values(policy, range(CHOSEN_ON, CHOSEN_ON + TRIED_ON)))
        error = max(float(reached.std(ddof=1)) / TRIED_ON**0.5, 1e-9)
        above.append((float(reached.mean()) - bound) / error)
    return max(above)


def _value(episode: SessionEpisode, policy: Policy) -> float:
    while not episode.over:
        query, slot = episode.query, policy[episode.query]
        if episode.remembered_s is not None and episode.recall():
            continue
        for _ in range(0 if slot is None else AT_MOST):
            if episode.over or episode.query > query or episode.call(slot).status is Status.OVER_BUDGET:
                break
        if not episode.over and episode.query == query:
            episode.skip()
    return episode.value
