"""The record of one tool in an `Episode`, with the fields that `batch.state` gives it in an array."""


class ToolState:
    """What an episode remembers of a tool.

    Attributes:
        count, started, busy: Its calls that were admitted, that have started, and that load or run.
        held: Its slots that a process of the world has taken.
        chain, works, usual: Its hidden state, whether the last call found it working, and how it mostly fails.
        window, admitted: The number of calls in its rate limit's window, and the times of those, oldest first.
        idle: Since when each idle instance is idle, in the order in which they became idle.
    """

    __slots__ = ("admitted", "busy", "chain", "count", "held", "idle", "started", "usual", "window", "works")

    def __init__(self, rate_limit: int) -> None:
        self.count = self.started = self.busy = self.held = self.window = self.chain = 0
        self.usual = 0
        self.works = False
        self.admitted = [0.0] * rate_limit
        self.idle: list[float] = []
