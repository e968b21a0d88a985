"""The desk of an episode: where the requests of its command wait for the one who plays, in the order of their arrival."""

import queue
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from costgym.agents.models.base import Function, Reply
from costgym.experiments.serve.dialects.base import Ask
from costgym.experiments.serve.limits import Refused

MAX_WAITING = 64  # requests of an episode at once


@dataclass(slots=True, eq=False)
class ModelRequest:
    """The command asks the model; answered with a `Reply`."""

    ask: Ask
    answer: "Future[Reply]" = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class ToolRequest:
    """The command calls a tool; answered with a `ToolAnswer`."""

    name: str
    arguments: Mapping[str, Any]
    answer: "Future[ToolAnswer]" = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class Exit:
    """The command has ended by itself."""

    status: int


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a call brought."""

    text: str
    failed: bool = False
    figures: Mapping[str, Any] = field(default_factory=dict)  # what was spent and is left


class EpisodeEnded(Exception):
    """The episode is over, so nothing is asked and nothing is called any more."""


class Desk:
    """The requests of one episode."""

    def __init__(self) -> None:
        self.functions: list[Function] = []  # that may be called now
        self.prices: Mapping[str, float] = {}  # of a call of each tool now, in the scenario's currency
        self.ended = ""  # why the episode is over; empty while it goes on
        self._requests: queue.Queue[ModelRequest | ToolRequest | Exit] = queue.Queue()
        self._open: set[Future[Any]] = set()
        self._lock = threading.Lock()

    def put(self, request: ModelRequest | ToolRequest) -> "Future[Any]":
        """Lay down a request; raises Refused where too many wait, and EpisodeEnded where the episode is over."""
        with self._lock:
            if self.ended:
                raise EpisodeEnded(self.ended)
            if len(self._open) >= MAX_WAITING:
                raise Refused(f"at most {MAX_WAITING} requests of an episode may wait at once", "RATE_LIMITED", 429, 1.0)
            self._open.add(request.answer)
        request.answer.add_done_callback(self._forget)
        self._requests.put(request)
        return request.answer

    def exited(self, status: int) -> None:
        """Note that the command has ended; requests that came before it are answered before."""
        self._requests.put(Exit(status))

    def take(self, deadline: float) -> ModelRequest | ToolRequest | Exit | None:
        """The next request; None where none comes before the deadline of the monotonic clock."""
        try:
            return self._requests.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None

    def end(self, why: str) -> None:
        """End the episode: whoever waits is told so."""
        with self._lock:
            self.ended = self.ended or why
            waiting = list(self._open)
        for answer in waiting:
            if not answer.done():
                answer.set_exception(EpisodeEnded(self.ended))

    def _forget(self, answer: "Future[Any]") -> None:
        with self._lock:
            self._open.discard(answer)
