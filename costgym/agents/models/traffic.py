"""The requests of this process to model servers: how many are in flight, and when a server asked all of them to wait."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

LONGEST_WAIT_S = 120.0  # longest wait that a server may ask for; the client does not ask one again that wants more


class Traffic:
    """Requests of all agents and threads of this process: those in flight, waits between tries included, and their peak."""

    def __init__(self) -> None:
        self.in_flight = self.peak = 0
        self._open = threading.Condition()
        self._closings: Counter[str] = Counter()

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request is under way."""
        with self._open:
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
        try:
            yield
        finally:
            with self._open:
                self.in_flight -= 1

    def wait(self, server: str) -> None:
        """Return when no answer of the server asks for a longer wait."""
        with self._open:
            self._open.wait_for(lambda: not self._closings[server])

    def close(self, server: str, seconds: float) -> None:
        """Let all further requests to a server wait."""
        if not 0 < seconds <= LONGEST_WAIT_S:
            return
        with self._open:
            self._closings[server] += 1
        timer = threading.Timer(seconds, self._reopen, (server,))
        timer.daemon = True
        timer.start()

    def _reopen(self, server: str) -> None:
        with self._open:
            self._closings[server] -= 1
            self._open.notify_all()


def asked_wait_s(headers: Mapping[str, str]) -> float:
    """The seconds that a busy server asks for; 0 where it asks for none, or names a date."""
    for name, unit_s in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            return float(headers[name]) * unit_s
        except (KeyError, ValueError):
            continue
    return 0.0


TRAFFIC = Traffic()  # the traffic of this process, which all its threads share
