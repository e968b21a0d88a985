"""What clients may take, and how a request is turned down."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ...simulators.errors import ConfigError, CostGymError


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may take.

    Attributes:
        sessions: at once.
        idle_s: a session that nobody used for so long is closed, seconds.
        request_bytes: of one request or message.
        rate: requests a second of one session; a burst of as many is let through.
        openings: new sessions a second.
        read_s: time that a client has to send a request, seconds.
        write_s: time after which a client that does not read its answers is cut off, seconds.
    """

    sessions: int = 256
    idle_s: float = 600.0
    request_bytes: int = 256 * 1024
    rate: float = 2000.0
    openings: float = 200.0
    read_s: float = 10.0
    write_s: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise ConfigError(f"limit {field.name}", f"expected a positive finite number, got {value!r}")


class Refused(CostGymError):
    """A request that is turned down; `code` is OpenEnv's, `status` HTTP's."""

    def __init__(self, message: str, code: str = "VALIDATION_ERROR", status: int = 422, retry_after_s: float = 0.0) -> None:
        self.code, self.status, self.retry_after_s = code, status, retry_after_s
        super().__init__(message)


class Bucket:
    """Lets a rate through, and bursts of one second's worth.

    Args:
        rate: a second.
        now: seconds of any clock.
    """

    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._level, self._at = rate, max(1.0, rate), now

    def take(self, now: float) -> float:
        """0 if the request may pass, else the seconds to wait."""
        level = min(max(1.0, self._rate), self._level + (now - self._at) * self._rate)
        self._at = now
        if level < 1.0:
            self._level = level
            return (1.0 - level) / self._rate
        self._level = level - 1.0
        return 0.0
