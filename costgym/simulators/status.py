"""The ways in which a call can end, and whose error each is."""

from enum import IntEnum


class Origin(IntEnum):
    """The party at fault in an error: nobody, the agent, the tool or the infrastructure. Reports keep them apart."""

    NONE = 0
    AGENT = 1
    TOOL = 2
    INFRASTRUCTURE = 3


class Status(IntEnum):
    """The way a call ended. The values are stable, because recorded trajectories and observation arrays hold them."""

    OK = 0
    # the agent's: refused at the gateway, never executed, never billed
    UNKNOWN_TOOL = 10
    MALFORMED = 11
    INVALID_ARGUMENTS = 12
    NOT_REGISTERED = 13
    FORBIDDEN = 14
    BANNED = 15
    OVER_BUDGET = 16
    # the agent's: executed and billed, but the arguments fit the schema and are wrong
    WRONG_ARGUMENTS = 17
    NO_DATA = 18
    # the tool's: refused at the gateway
    RATE_LIMITED = 30
    QUOTA_EXCEEDED = 31
    # the tool's: executed and billed
    SERVER_ERROR = 32
    NOT_FOUND = 33
    UNAUTHORIZED = 34
    CONNECTION_ERROR = 35
    TIMEOUT = 36
    OUTAGE = 37
    EMPTY = 38
    IRRELEVANT = 39
    CANCELLED = 40
    # the tool's, and silent: it looks like an answer
    PARTIAL = 41
    CORRUPT = 42
    DRIFTED = 43
    # the infrastructure's: the episode is void
    INFRASTRUCTURE = 60

    def __init__(self, value: int) -> None:
        self.label = self.name.lower()  # the name that observations and reports write, for example ``rate_limited``
        if self.name in ("OK", "CANCELLED"):
            self.origin = Origin.NONE
        elif value < 30:
            self.origin = Origin.AGENT
        else:
            self.origin = Origin.TOOL if value < 60 else Origin.INFRASTRUCTURE
        #: the call ran and was billed; it was not refused at the gateway
        self.executed = self.name in ("OK", "WRONG_ARGUMENTS", "NO_DATA") or 32 <= value <= 43


LIMITS = (Status.RATE_LIMITED, Status.QUOTA_EXCEEDED)
"""Refusals at a tool's own limits, which cost nothing: asking again soon brings nothing either."""

SILENT = (Status.PARTIAL, Status.CORRUPT, Status.DRIFTED)
"""Faults inside an answer: it is cut off, a value in it is wrong, or its fields have changed."""

LOOKS_OK = frozenset({Status.OK, Status.EMPTY, Status.IRRELEVANT, Status.NO_DATA, *SILENT})
"""Statuses that correspond to HTTP 200: the agent sees content and no error."""

AMBIGUOUS = frozenset({Status.TIMEOUT, Status.CONNECTION_ERROR, Status.SERVER_ERROR, Status.EMPTY, Status.IRRELEVANT, *SILENT})
"""Ends after which a call that writes may have taken effect or not: the request went out and no proper answer came back."""
