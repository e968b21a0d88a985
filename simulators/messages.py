"""What an agent reads of a call: the answer, or the words in which the world tells that it went wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .draws import CONTENT
from .status import Status

if TYPE_CHECKING:
    from .calls import Call
    from .episode import Episode

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


def content(episode: Episode, call: Call) -> str:
    """What the agent reads of a call that has ended: the answer, or an error in words."""
    tool = episode.world.catalog[episode.candidates[call.slot].number] if call.slot >= 0 else None
    if call.status is Status.OK:
        if call.answer is None and tool is not None:
            need = episode.candidates[call.slot].need
            arguments = call.arguments or (episode.needs[need].arguments if need >= 0 else None) or {}
            call.answer = episode.world.answers.answer(tool, arguments, episode.task)
        return call.answer or "{}"
    if call.status is Status.IRRELEVANT and tool is not None:
        luck = episode._draws.at(call.k, call.slot)[CONTENT]
        return episode.world.answers.irrelevant(tool, call.arguments or {}, episode.task, luck)
    if call.status in (Status.EMPTY, Status.NO_DATA):
        return "{}"
    return error_text(call)
