"""Limits of clients, and the error for refused requests."""

from typing import Annotated

from pydantic import Field

from costgym.simulators.bounds import Settings, option
from costgym.simulators.errors import CostGymError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})  # host names under which only its own machine reaches a server


def sessions_of_a_client(host: str, sessions: int) -> int:
    """The default limit of one client address: a quarter of all sessions; 0 (none) if all clients have the same address."""
    return 0 if host in LOOPBACK else max(1, sessions // 4)


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Limits(Settings):
    """Limits of clients: the options of `costgym serve` about them, and what no option changes."""

    sessions: Annotated[int, option("Maximum number of open sessions.", gt=0)] = 256
    idle_s: Annotated[Seconds, option("Idle time after which a session is closed.", "SECONDS", "--idle")] = 600.0
    request_bytes: Annotated[int, option("Maximum size of a request.", "BYTES", "--max-request", gt=0)] = 256 * 1024
    rate: Annotated[Seconds, option("Requests per second of one session.")] = 2000.0
    openings: Seconds = 200.0  # new sessions per second, of all clients together
    timeout_s: Annotated[Seconds, option("Time for a client to send a request or read an answer.", "SECONDS", "--timeout")] = (
        10.0
    )
    client_sessions: Annotated[
        int | None,
        option(
            "Maximum number of open sessions of one client address, 0 for any number; by default a quarter of --sessions, "
            "or any number if only this machine is served.",
            ge=0,
        ),
    ] = None


class Refused(CostGymError):
    """The error of a refused request, with OpenEnv's `code` and the HTTP `status`."""

    def __init__(self, message: str, code: str = "VALIDATION_ERROR", status: int = 422, retry_after_s: float = 0.0) -> None:
        self.code, self.status, self.retry_after_s = code, status, retry_after_s
        super().__init__(message)


class Bucket:
    """A token bucket that allows a rate per second, and bursts of one second's requests; `now` is of any clock, in seconds."""

    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._level, self._at = rate, max(1.0, rate), now

    def take(self, now: float) -> float:
        """Count a request; return 0.0 if it is allowed, otherwise the seconds to wait."""
        level = min(max(1.0, self._rate), self._level + (now - self._at) * self._rate)
        allowed = level >= 1.0
        self._at, self._level = now, level - 1.0 if allowed else level
        return 0.0 if allowed else (1.0 - level) / self._rate
