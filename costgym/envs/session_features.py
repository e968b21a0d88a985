"""What an agent sees of a session, as arrays of numbers."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.simulators.calls import Call
from costgym.simulators.draws import log
from costgym.simulators.sessions.draw import Session
from costgym.simulators.sessions.episode import SessionEpisode
from costgym.simulators.sessions.rules import VALUES, SessionRules
from costgym.simulators.status import LOOKS_OK, Status

PAUSE_S = 1.0  # how long a pause lasts at most, simulated seconds
MEMORIES = ("counts", "raw")
PRICE_UNIT = 20.0  # a price of 1 in an observation: the dearest fee at its highest factor
STATIC = ("price", "latency_s", "success", "provider", "rate_limit", "quota_left", "serves")
COUNTED = ("calls", "mean_ok", "recent_ok", "failures_in_a_row", "since_s", "outage_ago_s")
LAST = ("last_ok", "last_failed")
RUNNING = ("in_flight", "for_this", "running_s")  # where calls run side by side
RESOURCE_FEATURES = ("price_left", "seconds_left", "clock", "step", "value")
_LOOKS_OK = LOOKS_OK - {Status.EMPTY}
_PRICE, _QUOTA, _SERVES = STATIC.index("price"), STATIC.index("quota_left"), STATIC.index("serves")
RECENT = 0.7  # weight of the past in `recent_ok`


def tool_features(rules: SessionRules, memory: str, concurrent: bool = False) -> tuple[str, ...]:
    """Names of the columns of `tools`."""
    kinds = tuple(f"kind_{kind + 1}" for kind in range(rules.capabilities))
    return (*STATIC, *kinds, *(COUNTED if memory == "counts" else ()), *LAST, *(RUNNING if concurrent else ()))


def query_features(rules: SessionRules) -> tuple[str, ...]:
    """Names of the entries of `query`."""
    kinds = tuple(f"kind_{kind + 1}" for kind in range(rules.capabilities))
    return ("value", *kinds, "remembered", "age", "called", "queries_left")


def column_names(rules: SessionRules, memory: str, concurrent: bool = False) -> dict[str, tuple[str, ...]]:
    """Names of the columns of the observation's arrays."""
    tools = tool_features(rules, memory, concurrent)
    return {"tools": tools, "query": query_features(rules), "resources": RESOURCE_FEATURES}


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


def _ago(seconds: float) -> float:
    return min(1.0, log(1.0 + max(seconds, 0.0)) / 7.0)


def _log_share(seconds: float, most: float) -> float:
    return min(1.0, log(1.0 + seconds) / log(1.0 + most))


def opening(session: Session, memory: str, concurrent: bool) -> NDArray[np.float32]:
    """The rows of `tools` before the first call, with the memory ``counts`` or ``raw``; prices and `serves` follow by query."""
    rules, profiles, count = session.rules, session.profiles, len(session.offers)
    whole = np.zeros((rules.tools, len(tool_features(rules, memory, concurrent))), np.float32)
    tools = whole[:count]  # a world may have fewer tools than there are slots
    tools[:, 1] = [_log_share(seconds, 60.0) for seconds in profiles.advertised_latency_s.tolist()]
    tools[:, 2], tools[:, 3] = profiles.advertised_success, (session.provider + 1.0) / rules.providers
    tools[:, 4], tools[:, _QUOTA] = profiles.rate_limit / 10.0, 1.0
    tools[np.arange(count), len(STATIC) + session.offers] = 1.0
    if memory == "counts":
        first = len(STATIC) + rules.capabilities
        tools[:, first : first + len(COUNTED)] = (0.0, 0.5, 0.5, 0.0, 1.0, 1.0)
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
        slot, ok = call.slot, call.status in _LOOKS_OK
        if slot < 0:
            return
        if self.memory == "raw" and self.reported >= 0:
            self.tools[self.reported, self._last] = 0.0
        self.reported = slot
        self.tools[slot, self._last] = (1.0, 0.0) if ok else (0.0, 1.0)
        if not call.k:
            return
        self.admit(slot, episode)
        if self.memory == "raw":
            return
        self._ended[slot] += 1
        count = int(self._ended[slot])
        right = call.status is Status.OK
        self._ok[slot] += right
        self._recent[slot] = RECENT * self._recent[slot] + (1.0 - RECENT) * right
        self._failures[slot] = 0 if right else self._failures[slot] + 1
        self.tools[slot, self._first : self._first + 4] = (
            min(1.0, log(1.0 + count) / 5.0),
            (self._ok[slot] + 1.0) / (count + 2.0),
            self._recent[slot],
            min(1.0, self._failures[slot] / 5.0),
        )
        self._called_s[slot] = episode.now_s
        if call.status is Status.OUTAGE:
            self._outage_s[int(episode.session.provider[slot])] = episode.now_s

    def admit(self, slot: int, episode: SessionEpisode) -> None:
        """Take in that a call was admitted, which uses the tool's quota."""
        if quota := episode.candidates[slot].profile.quota:
            self.tools[slot, _QUOTA] = 1.0 - episode.admitted(slot) / quota

    def observe(self, episode: SessionEpisode, step: float) -> dict[str, NDArray[np.float32]]:
        """The observation now, in new arrays."""
        session, now = episode.session, episode.now_s
        count = len(session.offers)
        over = episode.query >= session.rules.queries
        query = min(episode.query, session.rules.queries - 1)
        tools, kind = self.tools, int(session.capability[query])
        tools[:count, _PRICE] = session.profiles.fee * session.factors[query] / PRICE_UNIT
        tools[:count, _SERVES] = 0.0 if over else session.offers == kind
        for slot, when in self._called_s.items():
            tools[slot, self._first + 4] = _ago(now - when)
        for provider, when in self._outage_s.items():
            tools[:count][session.provider == provider, self._first + 5] = _ago(now - when)
        if self.concurrent:
            self._show_running(episode, query)
        return {"tools": tools.copy(), "query": self._query(episode, over, query, kind), "resources": _left(episode, step)}

    def _show_running(self, episode: SessionEpisode, query: int) -> None:
        fact, tools = episode.session.fact, self.tools
        tools[:, -len(RUNNING) :] = 0.0
        running = episode.flying
        for call in reversed(running):  # the oldest last
            tools[call.slot, -3] = min(1.0, float(tools[call.slot, -3]) + 0.25)
            if fact[call.version] == fact[query]:
                tools[call.slot, -2] = min(1.0, float(tools[call.slot, -2]) + 0.25)
            tools[call.slot, -1] = _ago(episode.now_s - call.submitted_s)

    def _query(self, episode: SessionEpisode, over: bool, query: int, kind: int) -> NDArray[np.float32]:
        rules, session = self.rules, episode.session
        shown = np.zeros(len(query_features(rules)), np.float32)
        if over:
            return shown
        age = episode.remembered_s
        shown[0] = session.value[query] / VALUES[1]
        shown[1 + kind] = 1.0
        shown[1 + rules.capabilities :] = (
            0.0 if age is None else 1.0,
            0.0 if age is None else min(1.0, age / rules.ttl_s / 4.0),
            min(1.0, episode.called / 10.0),
            1.0 - query / rules.queries,
        )
        return shown


def _left(episode: SessionEpisode, step: float) -> NDArray[np.float32]:
    budget, ledger, now = episode.budget, episode.ledger, episode.now_s
    price = 1.0 if budget.price is None else max(0.0, 1.0 - ledger.price / budget.price)
    seconds = 1.0 if budget.seconds is None else max(0.0, 1.0 - now / budget.seconds)
    most = VALUES[1] * episode.session.rules.queries
    figures: tuple[Any, ...] = (price, seconds, _log_share(now, 10_000.0), min(1.0, step), episode.value / most)
    return np.array(figures, np.float32)
