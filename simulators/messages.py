"""The words in which the world tells an agent that a call went wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .status import Status

if TYPE_CHECKING:
    from .calls import Call

_TEXTS = {
    Status.UNKNOWN_TOOL: "there is no function of this name",
    Status.MALFORMED: "the action could not be read",
    Status.INVALID_ARGUMENTS: "the arguments do not fit the function's schema",
    Status.NOT_REGISTERED: "the function is not registered; register it first",
    Status.FORBIDDEN: "the plan does not allow another call of this function",
    Status.BANNED: "the function is not available at present",
    Status.OVER_BUDGET: "the remaining budget does not cover this call",
    Status.WRONG_ARGUMENTS: "the upstream service rejects these arguments",
    Status.RATE_LIMITED: "too many requests",
    Status.QUOTA_EXCEEDED: "the quota of this function is used up",
    Status.SERVER_ERROR: "500 internal server error",
    Status.NOT_FOUND: "404 the endpoint does not exist",
    Status.UNAUTHORIZED: "401 this key is not subscribed to the service",
    Status.CONNECTION_ERROR: "could not connect to the host",
    Status.TIMEOUT: "504 the request timed out",
    Status.OUTAGE: "503 the platform is temporarily unavailable",
    Status.CANCELLED: "the episode ended before the call did",
    Status.INFRASTRUCTURE: "the back-end of the simulation failed",
}


def error_text(call: Call) -> str:
    """A JSON object with the error's type and words, and when to come back where that is known."""
    body: dict[str, object] = {"error": call.status.label, "message": call.reason or _TEXTS[call.status]}
    if call.status is Status.RATE_LIMITED:
        body["retry_after_s"] = round(call.retry_after_s, 3)
    return json.dumps(body)
