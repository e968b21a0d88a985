"""Who may reach a server, limits of clients, and the error for refused requests."""

import hmac
import ipaddress
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from costgym.simulators.bounds import Settings, option
from costgym.simulators.errors import ConfigError, CostGymError
from costgym.simulators.files import cannot_write, read_text

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})  # host names under which only its own machine reaches a server
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 1000


def is_loopback(host: str) -> bool:
    """Whether only its own machine reaches a server that listens on this address."""
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """Who is answered: requests to one of these host names (None: any) that bear the token, where there is one."""

    hosts: frozenset[str] | None = LOOPBACK
    token: str | None = None

    def admits(self, authorization: str) -> bool:
        """Whether a request's `Authorization` bears the token; the time that this takes tells nothing about it."""
        if self.token is None:
            return True
        return hmac.compare_digest(authorization.encode("utf-8", "replace"), f"Bearer {self.token}".encode())


class AccessOptions(Settings):
    """The options of a server about who may reach it."""

    token: Annotated[
        Path | None,
        option("File with the token that every request must bear; a missing one is made with a new token.", "FILE"),
    ] = None
    allow_host: Annotated[
        tuple[str, ...], option("Host names under which clients and pages may address the server.", "NAME[,NAME ...]")
    ] = ()

    def access(self, host: str) -> Access:
        """Who may reach a server that listens on this address. Raises ConfigError where other machines reach it and neither
        option says who may, or the token is too short."""
        names = frozenset(name.strip().lower() for name in self.allow_host)
        if not is_loopback(host):
            if self.token is None and not names:
                raise ConfigError(
                    "--host",
                    f"every machine that reaches {host} could use this server; give --token FILE (clients send "
                    "`Authorization: Bearer TOKEN`), or --allow-host NAME with the names under which it may be addressed",
                )
            return Access(names or None, None if self.token is None else _token(self.token))
        return Access(LOOPBACK | names | {host.lower()}, None if self.token is None else _token(self.token))


def _token(path: Path) -> str:
    """The token in a file, which is made where it is missing, for its owner alone."""
    if not path.exists():
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as store:
                store.write(secrets.token_urlsafe(32) + "\n")
        except OSError as error:
            raise cannot_write(path, error) from error
    token = read_text(path, LONGEST_TOKEN).strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("--token", f"{path} holds no token of at least {SHORTEST_TOKEN} letters, digits and signs in a line")
    return token


def sessions_of_a_client(host: str, sessions: int) -> int:
    """The default limit of one client address: a quarter of all sessions; 0 (none) if all clients have the same address."""
    return 0 if is_loopback(host) else max(1, sessions // 4)


def connections_of_all(sessions: int) -> int:
    """The connections that a server of so many sessions holds at once; further ones are answered with status 503."""
    return 4 * sessions + 64


def connections_of_a_client(host: str, sessions: int) -> int:
    """The default limit of one client address: a quarter of all connections, three quarters if only this machine is served."""
    return connections_of_all(sessions) * (3 if is_loopback(host) else 1) // 4


def network_of(address: str) -> str:
    """What counts as one client address: of IPv6 the network, since whoever has one address has all of its 64 bits."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return address if known.version == 4 else str(ipaddress.ip_network(f"{known}/64", strict=False))


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
    client_connections: Annotated[
        int | None,
        option(
            "Maximum number of open connections of one client address; by default a quarter of all that the server holds "
            "(4 for each of --sessions, and 64), or three quarters if only this machine is served.",
            gt=0,
        ),
    ] = None

    def of_host(self, host: str) -> "Limits":
        """The limits with the defaults of a server that listens on this address."""
        sessions, connections = self.client_sessions, self.client_connections
        return self.model_copy(
            update={
                "client_sessions": sessions_of_a_client(host, self.sessions) if sessions is None else sessions,
                "client_connections": connections_of_a_client(host, self.sessions) if connections is None else connections,
            }
        )


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
