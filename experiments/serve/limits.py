"""Limits of clients, and the error for refused requests."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ...simulators.errors import ConfigError, CostGymError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Host names under which only its own machine reaches a server."""


def sessions_of_a_client(host: str, sessions: int) -> int:
    """The default limit of one client address: a quarter of all sessions; 0 (none) if all clients have the same address.

    Args:
        host: where the server listens.
        sessions: greatest number of open sessions.
    """
    return 0 if host in LOOPBACK else max(1, sessions // 4)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of clients.

    Attributes:
        sessions: greatest number of open sessions.
        idle_s: time without use after which a session is closed, seconds.
        request_bytes: largest size of a request or message, bytes.
        rate: requests per second of one session, with bursts of the same number.
        openings: new sessions per second.
        read_s: time that a client has to send a request, seconds.
        write_s: time that a client has to read an answer, seconds.
        client_sessions: greatest number of open sessions of one client address; 0 for no limit of its own.
    """

    sessions: int = 256
    idle_s: float = 600.0
    request_bytes: int = 256 * 1024
    rate: float = 2000.0
    openings: float = 200.0
    read_s: float = 10.0
    write_s: float = 10.0
    client_sessions: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "client_sessions" and type(value) is int and value == 0:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise ConfigError(f"limit {field.name}", f"expected a positive finite number, got {value!r}")


class Refused(CostGymError):
    """The error of a refused request, with OpenEnv's `code` and the HTTP `status`."""

    def __init__(self, message: str, code: str = "VALIDATION_ERROR", status: int = 422, retry_after_s: float = 0.0) -> None:
        self.code, self.status, self.retry_after_s = code, status, retry_after_s
        super().__init__(message)


class Bucket:
    """A token bucket that allows a rate, and bursts of one second's requests.

    Args:
        rate: requests per second.
        now: present time of any clock, seconds.
    """

    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._level, self._at = rate, max(1.0, rate), now

    def take(self, now: float) -> float:
        """Count a request; return 0.0 if it is allowed, otherwise the seconds to wait."""
        level = min(max(1.0, self._rate), self._level + (now - self._at) * self._rate)
        self._at = now
        if level < 1.0:
            self._level = level
            return (1.0 - level) / self._rate
        self._level = level - 1.0
        return 0.0
