"""Draw the future of a session again, from what an agent may believe of it, and keep its past."""

from copy import copy
from dataclasses import replace
from functools import lru_cache
from math import exp, log1p
from typing import Any

import numpy as np

from costgym.simulators.calls import QUANTILES, Call, Candidate, latency_factors
from costgym.simulators.draws import KIND, Draws, stable_generator, stable_integer
from costgym.simulators.failures import BurstTimes
from costgym.simulators.rules import layout
from costgym.simulators.rules.calls import runs_for
from costgym.simulators.rules.failures import ALIVE, pick, start_next, way_to_fail
from costgym.simulators.sessions.beliefs import RATIOS, ToolBeliefs
from costgym.simulators.sessions.draw import Floats, Profiles, draw_profiles, draw_queries, prices, regimes
from costgym.simulators.sessions.plan import SPREADS
from costgym.simulators.sessions.rules import rules_of
from costgym.simulators.status import Status

_NO_DURATION = (Status.TIMEOUT, Status.CONNECTION_ERROR, Status.CANCELLED)  # say nothing about how long a tool's calls run
_TRIES = 100


def redraw_session(episode: Any, seed: int) -> None:
    """Let everything that an agent cannot know follow from another seed.

    Drawn again are the queries to come, the tools' reliabilities and regimes, from the belief that adverts and statuses so far
    allow, their durations, by the adverts and the durations so far, the cold starts and quotas of tools that were never called,
    prices to come, which providers are down, how long the facts in memory live, how calls in flight end, and all luck. So a
    search over such forks knows what the agent knows, and the public rules.
    """
    drawn = stable_integer(seed, "redraw", episode.seed, episode.number)
    session, now = episode.session, episode.query
    rules, size = session.rules, len(episode.candidates)
    uniform = stable_generator(drawn, "session").random
    episode._draws = draws = Draws(episode.world._source, drawn, episode.number, size + rules.providers)
    reliability, states = _believed(episode).draw_hidden(uniform(size))
    profiles = _profiles(episode, uniform((12, size)), uniform(size))._replace(reliability=reliability)
    paths, factors = session.states.copy(), session.factors.copy()
    later = rules.queries - now
    if later > 0:
        paths[now:] = regimes(rules, reliability, uniform((later, size)), uniform((later, size)), states)
        factors[now:] = prices(uniform((later, size)) < rules.price_drift, uniform((later, size)), factors[now].copy())
    capability, fact, value = draw_queries(rules, session.kinds, uniform((4, rules.queries)), session, now + 1)
    drawn_session = replace(
        session, capability=capability, fact=fact, value=value, profiles=profiles, states=paths, factors=factors,
        lives_s=_lives(episode, uniform(rules.queries)),
    )  # fmt: skip
    episode.see(drawn_session)
    episode.candidates = _candidates(episode, profiles)
    for spec, state in zip(episode.candidates, states.tolist(), strict=True):
        tool = layout.tool(episode, 0, spec.index)
        tool.chain, tool.usual = ALIVE + state, pick(episode, episode, draws.at(0, spec.index)[KIND])
    for provider, (outages, luck) in enumerate(zip(episode._outages, uniform((rules.providers, 2)).tolist(), strict=True)):
        down = luck[0] < _down(episode, provider)
        until = episode.now_s - rules.outage_lasts_s * log1p(-luck[1]) if down else episode.now_s
        span = [(episode.now_s, until)]
        episode._outages[provider] = BurstTimes(outages.model, draws, size + provider, span)
    episode.clock.clear()  # a session has no other events
    for call in episode.flying:
        layout.schedule(episode, 0, call, _remaining_s(episode, call, uniform))


def _remaining_s(episode: Any, call: Call, uniform: Any) -> float:
    """Draw how a call in flight ends, given that it has not yet; returns the seconds until then."""
    spec, tool = episode.candidates[call.slot], copy(layout.tool(episode, 0, call.slot))
    for _ in range(_TRIES):
        works, kind, step = uniform(3).tolist()
        start_next(spec, tool, works)
        status = Status.OK if tool.works else way_to_fail(episode, episode.rules, episode, tool, kind)
        duration, call.status = runs_for(spec, spec.latency_s * spec.factors[int(step * QUANTILES)], status)
        call.need = call.aim if call.status is Status.OK else -1
        if call.ready_s + duration > episode.now_s:
            return float(call.ready_s + duration - episode.now_s)
    call.status, call.need = Status.TIMEOUT, -1  # nothing else lasts as long
    return float(max(0.0, call.ready_s + spec.timeout_s - episode.now_s))


def _believed(episode: Any) -> ToolBeliefs:
    """Beliefs by the adverts and by how the calls so far have ended."""
    profiles, calls = episode.session.profiles, episode.calls
    ends = [*episode.began[1:], len(calls)]
    history = tuple(
        tuple((call.slot, call.status) for call in calls[begin:end] if call.k and call.finished_s >= 0.0)
        for begin, end in zip(episode.began, ends, strict=True)
    )
    adverts = profiles.advertised_success.tobytes(), profiles.advertised_latency_s.tobytes()
    return _beliefs_after(episode.session.rules.document, *adverts, history)


# a search forks many times at one moment, and beliefs take most of a fork's time
@lru_cache(maxsize=4)
def _beliefs_after(
    document: str, adverts: bytes, latencies_s: bytes, history: tuple[tuple[tuple[int, Status], ...], ...]
) -> ToolBeliefs:
    beliefs = ToolBeliefs(rules_of(document), np.frombuffer(adverts), np.frombuffer(latencies_s))
    for query, calls in enumerate(history):
        if query:
            beliefs.next_query()
        for slot, status in calls:
            beliefs.learn(slot, status)
    return beliefs


def _profiles(episode: Any, luck: Floats, duration_luck: Floats) -> Profiles:
    """Profiles that agree with the adverts and with what was seen of each tool: (12, I) uniforms `luck` draw tools from the
    rules, and (I,) uniforms `duration_luck` their durations from the belief."""
    old: Profiles = episode.session.profiles
    drawn = draw_profiles(episode.session.rules.document, luck)
    called = np.array(episode.counts) > 0
    # (R S,) how an advertised latency may stand to the median, and how far durations may spread
    ratios, spreads = (grid.ravel() for grid in np.meshgrid(RATIOS, SPREADS, indexing="ij"))
    chances = np.zeros((len(called), len(ratios)))  # logarithms, not normalised
    for call in episode.calls:
        if call.k and call.finished_s >= 0.0 and call.status not in _NO_DURATION:
            off = np.log((call.finished_s - call.ready_s) * ratios / old.advertised_latency_s[call.slot])
            chances[call.slot] -= np.log(spreads) + 0.5 * (off / spreads) ** 2
    edges = np.cumsum(np.exp(chances - chances.max(axis=1, keepdims=True)), axis=1)
    cell = np.minimum((duration_luck[:, None] * edges[:, -1:] >= edges).sum(axis=1), len(ratios) - 1)
    unchanged = {
        name: np.where(called, getattr(old, name), getattr(drawn, name)) for name in ("cold_start_s", "keep_alive_s", "quota")
    }
    return old._replace(latency_s=old.advertised_latency_s / ratios[cell], latency_spread=spreads[cell], **unchanged)


def _candidates(episode: Any, profiles: Profiles) -> tuple[Candidate, ...]:
    """The tools on offer with these profiles."""
    names = ("latency_spread", "reliability", "cold_start_s", "keep_alive_s", "quota")
    hidden = zip(profiles.latency_s.tolist(), *(getattr(profiles, name).tolist() for name in names), strict=True)
    return tuple(
        replace(
            spec, latency_s=latency_s, factors=latency_factors(figures[0]),
            profile=replace(spec.profile, latency_s=(latency_s,), **dict(zip(names, figures, strict=True))),
        )
        for spec, (latency_s, *figures) in zip(episode.candidates, hidden, strict=True)
    )  # fmt: skip


def _lives(episode: Any, luck: Floats) -> Floats:
    """Lives of facts: those in memory live on without memory from when they were last known to be right."""
    lives: Floats = -episode.session.rules.ttl_s * np.log1p(-luck)
    for fact, (found_s, of) in episode.memory.items():
        lives[of] += episode.checked_s[fact] - found_s
    return lives


def _down(episode: Any, provider: int) -> float:
    """The chance that a provider is down now, given when it was last seen up or down; it was up at the start."""
    rules, session = episode.session.rules, episode.session
    seen_s, was_down = 0.0, 0.0
    for call in episode.calls:
        if call.finished_s >= 0.0 and call.k and int(session.provider[call.slot]) == provider and call.ready_s >= seen_s:
            seen_s, was_down = call.ready_s, float(call.status is Status.OUTAGE)
    falls, rises = 1.0 / rules.outage_every_s, 1.0 / rules.outage_lasts_s
    share: float = falls / (falls + rises)
    since_s: float = episode.now_s - seen_s
    chance: float = share + (was_down - share) * exp(-(falls + rises) * since_s)
    return chance
