"""How sessions are drawn and played, and the bound that no policy passes."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.errors import ConfigError
from costgym.simulators.ledger import Budget
from costgym.simulators.sessions.draw import Session, draw_session
from costgym.simulators.sessions.episode import SessionEpisode, session_world
from costgym.simulators.sessions.informed import limits, odds, spending, value_bound
from costgym.simulators.sessions.rules import FAILURES, SessionRules
from costgym.simulators.sessions.tighter_bound import tighter_bound
from costgym.simulators.status import Status
from tests.helpers.worlds import state

RULES = SessionRules(queries=30, tools=8, capabilities=2, providers=3)
SURE = FAILURES.model_copy(
    update={"usable": 1.0, "dead_share": 0.0, "perfect_share": 1.0, "slip": 0.0, "rate_limited_share": 0.0}
)


def begun(rules: SessionRules = RULES, number: int = 0, seed: int = 0, budget: Budget | None = None) -> SessionEpisode:
    return session_world(rules, number).episode(number, seed, budget)


def serving(episode: SessionEpisode) -> int:
    """The first tool that serves the present query."""
    return int(np.flatnonzero(episode.session.offers == episode.capability)[0])


# -- drawing -------------------------------------------------------------------------------------------------------------------


def test_a_session_follows_from_its_rules_and_number_alone() -> None:
    first = draw_session(RULES, 5)
    again = draw_session(SessionRules.model_validate_json(RULES.model_dump_json()), 5)
    assert first.tools == again.tools and np.array_equal(first.states, again.states)
    assert draw_session(RULES, 6).tools != first.tools
    wilder = draw_session(RULES.model_copy(update={"drift": 0.5}), 5)
    assert wilder.tools == first.tools and np.array_equal(wilder.value, first.value)
    assert not np.array_equal(wilder.states, first.states)


def test_a_fact_that_comes_again_is_of_the_same_kind() -> None:
    session = draw_session(SessionRules(repeat=0.5), 1)
    repeats = np.flatnonzero(session.fact != np.arange(100))
    assert 30 < len(repeats) < 70
    assert (session.capability[repeats] == session.capability[session.fact[repeats]]).all()
    assert (session.fact <= np.arange(100)).all() and (session.fact[session.fact] == session.fact).all()
    assert session.value.min() >= 2 and session.value.max() <= 20


def test_tools_keep_their_regime_without_drift_and_lose_it_with_it() -> None:
    still = draw_session(SessionRules(drift=0.0, price_drift=0.0), 2)
    assert (still.states == still.states[0]).all() and (still.factors == 1.0).all()
    moves = [(np.diff(draw_session(SessionRules(drift=0.05), n).states, axis=0) != 0).mean() for n in range(30)]
    assert 0.0 < np.mean(moves) < 0.05


def test_rules_that_do_not_fit_together_are_named() -> None:
    with pytest.raises(ConfigError, match="at least one for each of 4 capabilities, got 3"):
        SessionRules(tools=3)
    with pytest.raises(ConfigError, match="neither bursts nor persistence"):
        SessionRules(failures={"persistence": 0.3})
    with pytest.raises(ConfigError, match="queries"):
        SessionRules(queries=0)


# -- playing -------------------------------------------------------------------------------------------------------------------


def test_a_right_answer_passes_the_query_and_is_remembered() -> None:
    rules = SessionRules(queries=3, tools=4, failures=SURE, repeat=0.0, outage_every_s=1e9, ttl_s=1e9)
    episode = begun(rules, budget=Budget(price=1000.0))
    values = episode.session.value
    call = episode.call(serving(episode))
    assert call.status is Status.OK and (episode.query, episode.value) == (1, values[0])
    assert episode.memory == {0: (call.finished_s, 0)}
    episode.skip()
    assert (episode.query, episode.value, episode.passed) == (2, values[0], [True, False])
    episode.call(serving(episode))
    assert episode.over and episode.value_share == (values[0] + values[2]) / values.sum()
    assert episode.grade is not None and episode.grade.share == episode.value_share


def test_a_tool_of_another_kind_brings_nothing() -> None:
    rules = SessionRules(queries=3, tools=4, capabilities=2, failures=SURE, outage_every_s=1e9)
    episode = begun(rules, budget=Budget(price=1000.0))
    other = int(np.flatnonzero(episode.session.offers != episode.capability)[0])
    assert episode.call(other).status is Status.OK
    assert (episode.query, episode.value, episode.memory) == (0, 0.0, {})


@pytest.mark.parametrize(("ttl_s", "right"), [(1e9, True), (1e-9, False)])
def test_an_answer_from_memory_is_free_and_right_as_long_as_the_fact_lives(ttl_s: float, right: bool) -> None:
    rules = SessionRules(queries=6, tools=4, failures=SURE, repeat=1.0, outage_every_s=1e9, ttl_s=ttl_s)
    episode = begun(rules, budget=Budget(price=1000.0))
    episode.call(serving(episode))
    episode.advance(1.0)
    before, price, value = episode.now_s, episode.ledger.price, episode.value
    assert episode.remembered_s == 1.0
    assert episode.recall() is right
    assert (episode.now_s, episode.ledger.price) == (before, price)
    assert episode.value == value + (episode.session.value[1] if right else 0.0)


def test_the_tools_of_a_provider_are_down_together() -> None:
    rules = SessionRules(tools=12, capabilities=1, providers=2, failures=SURE, outage_every_s=30.0, outage_lasts_s=30.0)
    episode = begun(rules, budget=Budget(price=1e6))
    providers = episode.session.provider
    seen: set[tuple[int, bool]] = set()
    for step in range(60):
        if episode.over:
            break
        slot = step % 12
        ready = episode.now_s
        call = episode.call(slot)
        down = episode._outages[int(providers[slot])].cover(call.ready_s)
        assert (call.status is Status.OUTAGE) == down or call.status is Status.TIMEOUT
        assert call.ready_s >= ready
        seen.add((int(providers[slot]), down))
    assert len(seen) == 4


def test_regimes_and_luck_do_not_depend_on_what_was_called() -> None:
    first, second = begun(), begun()
    for _ in range(5):
        first.call(serving(first)) if not first.over else None
    while first.query < 10 and not first.over:
        first.skip()
    while second.query < 10:
        second.skip()
    assert [tool.chain for tool in first.tools] == [tool.chain for tool in second.tools]  # type: ignore[union-attr]
    assert first.factors == second.factors


@given(st.integers(0, 50), st.lists(st.integers(0, 11), max_size=60))
def test_a_fork_goes_on_like_the_original_and_money_is_never_overspent(number: int, choices: list[int]) -> None:
    episode = begun(number=number)
    for choice in choices:
        if episode.over:
            break
        if choice < 8:
            episode.call(choice)
        elif choice == 8 and episode.remembered_s is not None:
            episode.recall()
        else:
            episode.skip()
    fork = episode.fork()
    assert state(fork) == state(episode)
    assert (fork.query, fork.value, fork.memory, fork.passed) == (episode.query, episode.value, episode.memory, episode.passed)
    assert episode.ledger.price <= (episode.budget.price or 0.0)


# -- bounds --------------------------------------------------------------------------------------------------------------------


def test_limits_are_a_share_of_what_the_informed_spend() -> None:
    session = draw_session(SessionRules(), 3)
    price, seconds = spending(session)
    assert limits(session) == (round(0.4 * price, 2), round(max(30.0, 0.4 * seconds), 1))
    whole = draw_session(SessionRules(budget_share=1.0), 3)
    assert limits(whole)[0] == round(spending(whole)[0], 2)


def exact(session: Session, money: int) -> float:
    """The most value that a policy has on average which knows every regime: dynamic programming over queries, money, memory.

    Time has no limit here, facts live for ever and there are no outages.
    """
    figures = odds(session)
    tools = range(len(session.tools))

    @cache
    def best(query: int, left: int, known: frozenset[int]) -> float:
        if query == session.rules.queries:
            return 0.0
        fact, value = int(session.fact[query]), float(session.value[query])
        rest = best(query + 1, left, known)
        if fact in known:
            rest = max(rest, value + best(query + 1, left, known))
        for tool in tools:
            chance, price = float(figures.chance[query, tool]), int(figures.price[query, tool])
            if chance > 0.0 and 0 < price <= left:
                passed = value + best(query + 1, left - price, known | {fact})
                rest = max(rest, chance * passed + (1.0 - chance) * best(query, left - price, known))
        return rest

    return best(0, money, frozenset())


@pytest.mark.parametrize("number", range(25))
def test_no_policy_passes_the_bound_of_small_sessions_solved_exactly(number: int) -> None:
    rules = SessionRules(queries=5, tools=4, capabilities=2, repeat=0.4, drift=0.3, price_drift=0.0)
    session = draw_session(rules, number)
    for money in (3, 8, 15, 30):
        bound, value = value_bound(session, float(money), float("inf")), exact(session, money)
        tight = tighter_bound(session, float(money), float("inf"), [Status.SERVER_ERROR] * rules.tools)
        assert value <= tight + 1e-9 and tight <= bound
        assert bound <= session.value.sum() + 1e-9


def test_the_bound_is_all_that_is_worth_it_without_limits_and_nothing_without_money() -> None:
    session = draw_session(SessionRules(), 4)
    assert value_bound(session, float("inf"), float("inf")) <= session.value.sum()
    assert value_bound(session, 0.0, float("inf")) == pytest.approx(0.0, abs=1.0)
    few, more = value_bound(session, 20.0, float("inf")), value_bound(session, 60.0, float("inf"))
    assert 0.0 < few < more < session.value.sum()
    assert value_bound(session, 60.0, 30.0) <= more + 1e-6


# -- forks ---------------------------------------------------------------------------------------------------------------------


def redrawn(episode: SessionEpisode, seed: int) -> SessionEpisode:
    fork = episode.fork()
    fork.redraw(seed)
    return fork


def test_a_redrawn_session_keeps_its_past_and_draws_its_future_again() -> None:
    episode = begun()
    for _ in range(4):
        episode.call(serving(episode))
    episode.skip()
    before, now = state(episode), episode.query
    futures = set()
    for seed in range(10):
        fork = redrawn(episode, seed)
        assert {**state(fork), "log": before["log"]} == before
        assert np.array_equal(fork.session.value[: now + 1], episode.session.value[: now + 1])
        assert np.array_equal(fork.session.factors[: now + 1], episode.session.factors[: now + 1])
        assert (fork.session.fact <= np.arange(30)).all()
        futures.add((*fork.session.value[now + 1 :].tolist(), *fork.session.states[-1].tolist()))
        again = fork.fork()
        assert state(again) == state(fork) and np.array_equal(again.session.states, fork.session.states)
        for twin in (fork, again):
            while not twin.over:
                twin.call(serving(twin)) if twin.affordable(serving(twin)) else twin.skip()
        assert state(again) == state(fork)
    assert len(futures) == 10


def test_a_redrawn_session_follows_the_belief_and_not_what_is_hidden() -> None:
    """A tool that failed often is drawn as one that mostly fails, and one that worked as one that mostly works."""
    rules = SessionRules(queries=30, tools=4, capabilities=1, providers=1, drift=0.0, outage_every_s=1e9)
    for number in range(6):
        episode = begun(rules, number, budget=Budget(price=1e6))
        calls = [episode.call(0).status for _ in range(6)]
        worked = sum(status is Status.OK for status in calls)
        states = [int(redrawn(episode, seed).session.states[episode.query, 0]) for seed in range(60)]
        if worked >= 5:
            assert np.mean(np.array(states) == 0) > 0.6
        if worked == 0:
            assert np.mean(np.array(states) == 2) > 0.6


@pytest.mark.parametrize("skipped", [0, 5])
def test_a_redrawn_session_tells_nothing_that_is_hidden(skipped: int) -> None:
    """Two sessions that look the same and differ in everything hidden are drawn again alike, another way for each seed."""
    first, second = begun(), begun()
    session, true = second.session, second.session.profiles
    other = draw_session(RULES, 1)
    now = slice(0, skipped + 1)
    shown = {name: getattr(other, name).copy() for name in ("capability", "fact", "value", "factors")}
    for name, column in shown.items():
        column[now] = getattr(session, name)[now]
    hidden = {
        name: getattr(other.profiles, name)
        for name in ("latency_s", "latency_spread", "cold_start_s", "keep_alive_s", "quota", "reliability")
    }
    second.session = replace(session, **shown, states=other.states, lives_s=other.lives_s, profiles=true._replace(**hidden))
    second.candidates = tuple(
        replace(spec, latency_s=theirs.latency_s, factors=theirs.factors, profile=replace(theirs.profile, fee=spec.fee))
        for spec, theirs in zip(first.candidates, begun(RULES, 1).candidates, strict=True)
    )
    futures = set()
    for seed in (3, 4):
        for episode in (first, second):
            while episode.query < skipped:
                episode.skip()
            episode.redraw(seed)
        one, two = first.session, second.session
        later = slice(skipped, None)
        for name in ("capability", "fact", "value", "factors", "states", "lives_s"):
            assert np.array_equal(getattr(one, name)[later], getattr(two, name)[later]), name
        for name in hidden:
            assert np.array_equal(getattr(one.profiles, name), getattr(two.profiles, name)), name
        assert [(spec.latency_s, spec.profile.quota) for spec in first.candidates] == [
            (spec.latency_s, spec.profile.quota) for spec in second.candidates
        ]
        futures.add((*one.profiles.latency_s.tolist(), *one.states[-1].tolist()))
    assert len(futures) == 2


def test_a_redrawn_duration_follows_what_was_seen_of_the_tool() -> None:
    rules = SessionRules(queries=40, tools=4, capabilities=1, providers=1, drift=0.0, failures=SURE)
    narrow, wide = [], []
    for number in range(12):
        episode = begun(rules, number, budget=Budget(price=1e6))
        for _ in range(25):
            episode.call(0)
        drawn = [float(redrawn(episode, seed).session.profiles.latency_spread[0]) for seed in range(20)]
        (narrow if episode.session.profiles.latency_spread[0] < 0.4 else wide).append(np.mean(drawn))
    assert max(narrow) < min(wide)
