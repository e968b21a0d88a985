"""Draw the future of a session again, from what an agent may believe of it, and keep its past."""

from dataclasses import replace
from math import exp, log1p
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..draws import Draws, stable_generator, stable_integer
from ..failures import BurstTimes, Chain
from ..status import Status
from .beliefs import ToolBeliefs
from .draw import Floats, Session, prices, regimes
from .rules import VALUES

if TYPE_CHECKING:
    from .episode import SessionEpisode


def redraw_session(episode: "SessionEpisode", seed: int) -> None:
    """Let everything that an agent cannot know follow from another seed.

    Drawn again are the queries to come, the tools' reliabilities and regimes, from the belief that adverts and statuses so far
    allow, prices to come, which providers are down, how long the facts in memory live, and all luck. So a search over such
    forks knows what the agent knows, and the public rules.
    """
    episode.log.append(("redraw", redraw_session, seed))
    drawn = stable_integer(seed, "redraw", episode.seed, episode.number)
    session, now = episode.session, episode.query
    rules, size = session.rules, len(episode.candidates)
    uniform = stable_generator(drawn, "session").random
    episode._draws = draws = Draws(episode.world._source, drawn, episode.number, size + rules.providers)
    reliability, states = _believed(episode).draw_hidden(uniform(size))
    paths, factors = session.states.copy(), session.factors.copy()
    later = rules.queries - now
    if later > 0:
        paths[now:] = regimes(rules, reliability, uniform((later, size)), uniform((later, size)), states)
        factors[now:] = prices(uniform((later, size)) < rules.price_drift, uniform((later, size)), factors[now].copy())
    capability, fact, value = _queries(session, now, uniform((4, rules.queries)))
    episode.session = replace(
        session, capability=capability, fact=fact, value=value, states=paths, factors=factors,
        lives_s=_lives(episode, uniform(rules.queries)),
    )  # fmt: skip
    episode._chains = [
        Chain(draws, spec.index, old.chances, old.persistence, old.sticky, old.kinds, state, list(old.outcomes))
        for spec, old, state in zip(episode.candidates, episode._chains, states.tolist(), strict=True)
        if old is not None
    ]
    for provider, (outages, luck) in enumerate(zip(episode._outages, uniform((rules.providers, 2)).tolist(), strict=True)):
        down = luck[0] < _down(episode, provider)
        until = episode.now_s - rules.outage_lasts_s * log1p(-luck[1]) if down else episode.now_s
        span = [(episode.now_s, until)]
        episode._outages[provider] = BurstTimes(outages.model, draws, size + provider, span)


def _believed(episode: "SessionEpisode") -> ToolBeliefs:
    """Beliefs by the adverts and by how the calls so far have ended."""
    specs = episode.candidates
    adverts = np.array([spec.profile.advertised_success for spec in specs])
    beliefs = ToolBeliefs(episode.session.rules, adverts, np.array([spec.profile.advertised_latency_s for spec in specs]))
    ends = [*episode.began[1:], len(episode.calls)]
    for query, (begin, end) in enumerate(zip(episode.began, ends, strict=True)):
        if query:
            beliefs.next_query()
        for call in episode.calls[begin:end]:
            if call.k:
                beliefs.learn(call.slot, call.status)
    return beliefs


def _queries(session: Session, now: int, luck: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Kinds, facts and values of the queries, those after the present one drawn again."""
    rules = session.rules
    capability, fact, value = session.capability.copy(), session.fact.copy(), session.value.copy()
    for query in range(now + 1, rules.queries):
        capability[query] = int(luck[0, query] * session.kinds)
        value[query] = VALUES[0] + int(luck[1, query] * (VALUES[1] - VALUES[0] + 1))
        fact[query] = query
        if luck[2, query] < rules.repeat:
            fact[query] = fact[int(luck[3, query] * query)]
            capability[query] = capability[fact[query]]
    return capability, fact, value


def _lives(episode: "SessionEpisode", luck: Floats) -> Floats:
    """Lives of facts: those in memory live on without memory from when they were last known to be right."""
    lives: Floats = -episode.session.rules.ttl_s * np.log1p(-luck)
    for fact, (found_s, of) in episode.memory.items():
        lives[of] += episode.checked_s[fact] - found_s
    return lives


def _down(episode: "SessionEpisode", provider: int) -> float:
    """The chance that a provider is down now, given when it was last seen up or down; it was up at the start."""
    rules, session = episode.session.rules, episode.session
    seen_s, was_down = 0.0, 0.0
    for call in episode.calls:
        if call.k and int(session.provider[call.slot]) == provider and call.ready_s >= seen_s:
            seen_s, was_down = call.ready_s, float(call.status is Status.OUTAGE)
    falls, rises = 1.0 / rules.outage_every_s, 1.0 / rules.outage_lasts_s
    share = falls / (falls + rises)
    return share + (was_down - share) * exp(-(falls + rises) * (episode.now_s - seen_s))
