"""The text that an agent reads of a call."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from costgym.simulators.calls import Call, Candidate
from costgym.simulators.failures.silent import spoilt
from costgym.simulators.status import SILENT, Status
from costgym.simulators.tasks import Need, Task

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


@lru_cache(maxsize=4096)
def _error_text(status: Status, reason: str, retry_after_s: float) -> str:
    """A failed call as a JSON object: the error's type, a message, and for a rate limit the seconds to wait."""
    body: dict[str, object] = {"error": status.label, "message": reason or _TEXTS[status]}
    if status is Status.RATE_LIMITED:
        body["retry_after_s"] = round(retry_after_s, 3)
    return json.dumps(body)


def content(world: Any, task: Task, needs: Sequence[Need], call: Call, spec: Candidate | None, luck: float) -> str:
    """The text that the agent reads of a call that has ended: the tool's answer, or an error in words.

    Args:
        world: Knows what the tools answer.
        task, needs: The task, and what the user wants by now.
        call, spec: The call, and its candidate; None for a tool that is not on offer.
        luck: The call's uniform for what is in an answer.
    """
    tool = None if spec is None else world.catalog[spec.number]
    if call.status is Status.OK or call.status in SILENT:
        if call.answer is None and tool is not None:
            arguments = call.arguments or (needs[call.aim].arguments if call.aim >= 0 else None) or {}
            call.answer = world.answers.answer(tool, arguments, task)
        if call.answer and call.status in SILENT:
            return spoilt(call.answer, call.status, task, luck)
        return call.answer or "{}"
    if call.status is Status.IRRELEVANT and tool is not None:
        return str(world.answers.irrelevant(tool, call.arguments or {}, task, luck))
    if call.status in (Status.EMPTY, Status.NO_DATA):
        return "{}"
    return _error_text(call.status, call.reason, call.retry_after_s)
