"""The status of a logged call: from a label or an HTTP status, from the words of an error, or from what a tool answered."""

import ast
import json
import re
from typing import Any

from costgym.simulators.status import Status

LABELS = {status.label: status for status in Status} | {"success": Status.OK, "error": Status.SERVER_ERROR}
HTTP = {
    204: Status.EMPTY, 400: Status.WRONG_ARGUMENTS, 401: Status.UNAUTHORIZED, 402: Status.UNAUTHORIZED,
    403: Status.UNAUTHORIZED, 404: Status.NOT_FOUND, 408: Status.TIMEOUT, 410: Status.NOT_FOUND,
    422: Status.WRONG_ARGUMENTS, 429: Status.RATE_LIMITED, 504: Status.TIMEOUT,
}  # fmt: skip
LONGEST_ANSWER = 20_000
ERROR_KEYS = frozenset(
    {
        "message", "messages", "msg", "error", "errors", "status", "statuscode", "status_code", "code", "success",
        "detail", "title", "type", "traceid", "info", "path", "timestamp",
    }
)  # fmt: skip
"""An answer with no other keys is an error in the shape of content; a quarter of StableToolBench's examples are."""
WORDS = (
    (r"\b50[0-3]\b|internal server", Status.SERVER_ERROR),
    (r"does ?n.t exist|not exist|not found|\b404\b|no longer|deprecated|removed", Status.NOT_FOUND),
    (r"subscri|unauthori[sz]|forbidden|api.?key|token|credential|\b40[13]\b|blocked", Status.UNAUTHORIZED),
    (r"time(d)? ?out|\b(408|504)\b", Status.TIMEOUT),
    (r"too many|rate limit|quota|\b429\b", Status.RATE_LIMITED),
    (r"connect|unreachable|resolve", Status.CONNECTION_ERROR),
    (r"parameter|argument|missing|required|invalid|\b(400|422)\b", Status.WRONG_ARGUMENTS),
)
_BEGINS_WITH_ERROR = re.compile(r"\s*(<tool_use_error>|error\b|exception\b|traceback \(most recent|\w+error:)", re.IGNORECASE)


def status_of(value: Any) -> Status | None:
    """The status that a label, an HTTP status or the words of a failure mean; None for anything else."""
    if isinstance(value, dict) and "failure" in value:
        return failure_in_words(str(value["failure"]))
    if isinstance(value, str) and value.strip().lower() in LABELS:
        return LABELS[value.strip().lower()]
    if isinstance(value, str) and len(value) < 5 and value.strip().isascii() and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
        if value in HTTP:
            return HTTP[value]
        return Status.OK if 200 <= value < 400 else Status.SERVER_ERROR if value >= 500 else Status.WRONG_ARGUMENTS
    return None


def failure_in_words(words: str) -> Status:
    """Classify an error message as a status; a server error where the words say nothing else."""
    return next((status for pattern, status in WORDS if re.search(pattern, words, re.IGNORECASE)), Status.SERVER_ERROR)


def observed(content: Any, failed: bool = False) -> Status:
    """The status of a call whose log holds only what the tool answered."""
    if isinstance(content, list):  # blocks of content
        texts = [str(block.get("text", "")) for block in content if isinstance(block, dict)]
        content = "\n".join(texts) if texts else content
    if failed:
        return failure_in_words(str(content)[:LONGEST_ANSWER])
    if content is None or content == "" or content == {}:
        return Status.EMPTY
    if isinstance(content, str):
        if _BEGINS_WITH_ERROR.match(content):
            return failure_in_words(content[:LONGEST_ANSWER])
        try:
            content = json.loads(content) if len(content) <= LONGEST_ANSWER else content
        except (ValueError, RecursionError):
            return Status.OK
    if isinstance(content, dict) and {str(key).lower() for key in content} <= ERROR_KEYS:
        error = content.get("error") or content.get("errors")
        return failure_in_words(" ".join(map(str, content.values()))) if error else Status.OK
    return Status.OK


def bare_error(response: Any) -> str | None:
    """The message of an answer that consists of an error only; None for other content."""
    if isinstance(response, str):
        if response.lstrip('" ').lower().startswith("<html"):
            return response
        try:  # ToolBench wrote answers down as Python shows them
            response = ast.literal_eval(response) if len(response) <= LONGEST_ANSWER else None
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    if not isinstance(response, dict) or not response or not {str(key).lower() for key in response} <= ERROR_KEYS:
        return None
    words = " ".join(map(str, response.values()))
    return words if re.search(r"[A-Za-z]{3}", words) else None
