"""What an agent sees of a session, as arrays of numbers."""

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.envs.features import session_columns as shown_as
from costgym.simulators.calls import Call
from costgym.simulators.sessions.draw import Session
from costgym.simulators.sessions.episode import SessionEpisode
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.status import Status

PAUSE_S = 1.0  # how long a pause lasts at most, simulated seconds
MEMORIES = ("counts", "raw")
PRICE_UNIT = 20.0  # a price of 1 in an observation: the dearest fee at its highest factor
STATIC = ("price", "latency_s", "success", "provider", "rate_limit", "quota_left", "serves")
FIXED = STATIC[1:5]  # these and the kinds stay throughout a session
COUNTED = ("calls", "mean_ok", "recent_ok", "failures_in_a_row", "since_s", "outage_ago_s")
LAST = ("last_ok", "last_failed")
LEARNT = ("mean_s", "timed_out", "not_connected", "shut")  # of version 1, with the memory ``counts``
RUNNING = ("in_flight", "for_this", "running_s")  # where calls run side by side
QUERY_MORE = ("age_s", "alive", "left")  # of version 1
RESOURCE_FEATURES = ("price_left", "seconds_left", "clock", "step", "value")
RESOURCES_MORE = (
    "credits", "no_price_limit", "time", "no_seconds_limit", "calls", "no_calls_limit", "facts",
    "last_s", "last_timeout", "last_not_connected", "last_outage", "last_limited",
)  # fmt: skip
"""Of version 1: what is left in absolute terms, and how the last action ended."""
_PRICE, _QUOTA, _SERVES = STATIC.index("price"), STATIC.index("quota_left"), STATIC.index("serves")


def tool_features(rules: SessionRules, memory: str, concurrent: bool = False) -> tuple[str, ...]:
    """Names of the columns of `tools`."""
    kinds = tuple(f"kind_{kind + 1}" for kind in range(rules.capabilities))
    counted, learnt = (COUNTED, LEARNT if rules.world else ()) if memory == "counts" else ((), ())
    return (*STATIC, *kinds, *counted, *LAST, *learnt, *(RUNNING if concurrent else ()))


def query_features(rules: SessionRules) -> tuple[str, ...]:
    """Names of the entries of `query`."""
    kinds = tuple(f"kind_{kind + 1}" for kind in range(rules.capabilities))
    return ("value", *kinds, "remembered", "age", "called", "queries_left", *(QUERY_MORE if rules.world else ()))


def column_names(rules: SessionRules, memory: str, concurrent: bool = False) -> dict[str, tuple[str, ...]]:
    """Names of the columns of the observation's arrays."""
    resources = (*RESOURCE_FEATURES, *(RESOURCES_MORE if rules.world else ()))
    return {"tools": tool_features(rules, memory, concurrent), "query": query_features(rules), "resources": resources}


def without_counts(rules: SessionRules, tools: NDArray[np.float32], reported: int) -> NDArray[np.float32]:
    """The rows of `tools` as the memory ``raw`` shows them, from those of ``counts``; `reported` is `info["tool"]`."""
    first = len(STATIC) + rules.capabilities
    raw = np.delete(tools, np.s_[first : first + len(COUNTED)], 1)
    ended = raw[reported, first : first + len(LAST)].copy()
    raw[:, first : first + len(LAST)] = 0.0
    if reported >= 0:
        raw[reported, first : first + len(LAST)] = ended
    return raw


def boxes(rules: SessionRules, memory: str, concurrent: bool) -> dict[str, gym.spaces.Box]:
    """The spaces of the observation; everything lies between 0 and 1."""
    rows, names = {"tools": (rules.tools,)}, column_names(rules, memory, concurrent)
    return {name: gym.spaces.Box(0.0, 1.0, (*rows.get(name, ()), len(columns)), np.float32) for name, columns in names.items()}


def opening(session: Session, memory: str, concurrent: bool) -> NDArray[np.float32]:
    """The rows of `tools` before the first call, with the memory ``counts`` or ``raw``; prices and `serves` follow by query."""
    rules, profiles, count = session.rules, session.profiles, len(session.offers)
    whole = np.zeros((rules.tools, len(tool_features(rules, memory, concurrent))), np.float32)
    tools = whole[:count]  # a world may have fewer tools than there are slots
    tools[:, 1] = [shown_as.log_share(seconds, shown_as.CALL) for seconds in profiles.advertised_latency_s.tolist()]
    tools[:, 2], tools[:, 3] = profiles.advertised_success, (session.provider + 1.0) / rules.providers
    tools[:, 4], tools[:, _QUOTA] = profiles.rate_limit / 10.0, 1.0
    tools[np.arange(count), len(STATIC) + session.offers] = 1.0
    if memory == "counts":
        first = len(STATIC) + rules.capabilities
        tools[:, first : first + len(COUNTED)] = (0.0, 0.5, 0.5, 0.0, 1.0, 1.0)
        if rules.world:
            tools[:, first + len(COUNTED) + len(LAST)] = tools[:, 1]
    return whole


class Features:
    """The arrays of a session that has begun, kept up to date call by call; `concurrent` where calls run side by side. The
    memory ``counts`` shows the agent's own counts and means for each slot, ``raw`` the last call's end alone."""

    def __init__(self, episode: SessionEpisode, memory: str, concurrent: bool = False) -> None:
        session, rules = episode.session, episode.session.rules
        self.memory, self.rules, self.concurrent = memory, rules, concurrent
        count = rules.tools
        self.tools = opening(session, memory, concurrent)
        self._first = len(STATIC) + rules.capabilities
        self._last = slice(last := self._first + (len(COUNTED) if memory == "counts" else 0), last + len(LAST))
        self._ended = np.zeros(count, np.int64)
        self._ok = np.zeros(count, np.int64)
        self._recent = np.full(count, 0.5)
        self._failures = np.zeros(count, np.int64)
        self._timeouts, self._refusals = np.zeros((2, count), np.int64)
        self._learnt = self._last.stop
        self._query_seen = 0
        self._called_s: dict[int, float] = {}
        self._outage_s: dict[int, float] = {}
        self.reported = -1  # the tool whose call ended or was refused last

    def copy(self) -> "Features":
        """An independent copy, for forks."""
        twin = object.__new__(Features)
        for name, value in self.__dict__.items():
            twin.__dict__[name] = value.copy() if isinstance(value, np.ndarray | dict) else value
        return twin

    def take(self, call: Call, episode: SessionEpisode) -> None:
        """Take in how a call ended or was refused."""
        slot, ok = call.slot, shown_as.looks_ok(call.status)
        if slot < 0:
            return
        if self.memory == "raw" and self.reported >= 0:
            self.tools[self.reported, self._last] = 0.0
        self.reported = slot
        self.tools[slot, self._last] = (1.0, 0.0) if ok else (0.0, 1.0)
        if not call.k:
            if self.rules.world and self.memory == "counts" and shown_as.limited(call.status):
                self.tools[slot, self._learnt + 3] = 1.0
            return
        self.admit(slot, episode)
        if self.memory == "raw":
            return
        self._ended[slot] += 1
        count = int(self._ended[slot])
        right = call.status is Status.OK
        self._ok[slot] += right
        self._recent[slot] = shown_as.recent_ok(self._recent[slot], right)
        self._failures[slot] = 0 if right else self._failures[slot] + 1
        self.tools[slot, self._first : self._first + 4] = shown_as.past(
            count, self._ok[slot], self._recent[slot], self._failures[slot]
        )
        if self.rules.world:
            self._timeouts[slot] += call.status is Status.TIMEOUT
            self._refusals[slot] += call.status is Status.CONNECTION_ERROR
            all_s = float(episode.session.profiles.advertised_latency_s[slot]) + episode.lasted_s[slot]
            self.tools[slot, self._learnt : self._learnt + 3] = shown_as.causes(
                count, self._ok[slot], self._timeouts[slot], self._refusals[slot], all_s
            )
        self._called_s[slot] = episode.now_s
        if call.status is Status.OUTAGE:
            self._outage_s[int(episode.session.provider[slot])] = episode.now_s

    def admit(self, slot: int, episode: SessionEpisode) -> None:
        """Take in that a call was admitted, which uses the tool's quota."""
        if quota := episode.candidates[slot].profile.quota:
            self.tools[slot, _QUOTA] = 1.0 - episode.admitted(slot) / quota

    def observe(self, episode: SessionEpisode, step: float, lasted_s: float, status: Status) -> dict[str, NDArray[np.float32]]:
        """The observation now, in new arrays, after an action that took so many seconds and ended so."""
        session, now = episode.session, episode.now_s
        count = len(session.offers)
        over = episode.query >= session.rules.queries
        query = min(episode.query, session.rules.queries - 1)
        tools, kind, version = self.tools, int(session.capability[query]), self.rules.world
        tools[:count, _PRICE] = session.profiles.fee * session.factors[query] / PRICE_UNIT
        tools[:count, _SERVES] = 0.0 if over else session.offers == kind
        if self.rules.world and self.memory == "counts" and episode.query != self._query_seen:
            tools[:, self._learnt + 3], self._query_seen = 0.0, episode.query
        for slot, when in self._called_s.items():
            tools[slot, self._first + 4] = shown_as.since(version, now - when)
        for provider, when in self._outage_s.items():
            tools[:count][session.provider == provider, self._first + 5] = shown_as.since(version, now - when)
        if self.concurrent:
            self._show_running(episode, query)
        price, limits, queries = episode.ledger.price, episode.rules, session.rules.queries
        resources = shown_as.resources(limits, price, now, step, episode.value, queries)
        if version:
            facts, calls = len(episode.memory) / queries, episode.ledger.calls
            resources += shown_as.absolute(limits, price, now, calls, facts, lasted_s) + shown_as.last_end(status)
        return {
            "tools": tools.copy(),
            "query": self._query(episode, over, query, kind),
            "resources": np.array(resources, np.float32),
        }

    def _show_running(self, episode: SessionEpisode, query: int) -> None:
        fact, tools = episode.session.fact, self.tools
        tools[:, -len(RUNNING) :] = 0.0
        running = episode.flying
        for call in reversed(running):  # the oldest last
            tools[call.slot, -3] = shown_as.one_more(float(tools[call.slot, -3]))
            if fact[call.version] == fact[query]:
                tools[call.slot, -2] = shown_as.one_more(float(tools[call.slot, -2]))
            tools[call.slot, -1] = shown_as.ago(episode.now_s - call.submitted_s)

    def _query(self, episode: SessionEpisode, over: bool, query: int, kind: int) -> NDArray[np.float32]:
        rules, session = self.rules, episode.session
        shown = np.zeros(len(query_features(rules)), np.float32)
        if over:
            return shown
        age = episode.remembered_s
        shown[0] = session.value[query] / shown_as.HIGHEST_VALUE
        shown[1 + kind] = 1.0
        figures: tuple[float, ...] = (
            0.0 if age is None else 1.0,
            0.0 if age is None else shown_as.age(age, rules.ttl_s),
            *shown_as.progress(episode.called, query, rules.queries),
        )
        if rules.world:
            checked_s = episode.now_s if age is None else episode.checked_s[int(session.fact[query])]
            figures += (0.0, 0.0) if age is None else shown_as.life(age, episode.now_s - checked_s, rules.ttl_s)
            figures += (shown_as.log_share(rules.queries - query, shown_as.QUERIES),)
        shown[1 + rules.capabilities :] = figures
        return shown
