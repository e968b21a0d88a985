"""Logs of real tool calls: JSON lines, one call each, with the fields of docs/reference/logs.md.

    {"tool": "weather", "started": "2026-03-01T09:00:00Z", "latency_s": 0.41, "status": "ok", "price": 0.002}

Logs of other programs are recognised (`formats`), expressions say where another shape has its fields (`expressions`), and a
folder with StableToolBench's or ToolBench's answer trees is read too; those have statuses only.
"""

import ast
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from costgym.experiments.play.call_logs.expressions import Expression, parse_fields
from costgym.experiments.play.call_logs.formats import converted, read_documents, recognise
from costgym.simulators.errors import DataError
from costgym.simulators.status import Status

LABELS = {status.label: status for status in Status} | {"success": Status.OK, "error": Status.SERVER_ERROR}
HTTP = {
    204: Status.EMPTY, 400: Status.WRONG_ARGUMENTS, 401: Status.UNAUTHORIZED, 402: Status.UNAUTHORIZED,
    403: Status.UNAUTHORIZED, 404: Status.NOT_FOUND, 408: Status.TIMEOUT, 410: Status.NOT_FOUND,
    422: Status.WRONG_ARGUMENTS, 429: Status.RATE_LIMITED, 504: Status.TIMEOUT,
}  # fmt: skip
TREE_CODES = {
    0: Status.OK, 1: Status.UNKNOWN_TOOL, 2: Status.INVALID_ARGUMENTS, 5: Status.TIMEOUT, 6: Status.NOT_FOUND,
    7: Status.UNAUTHORIZED, 8: Status.UNAUTHORIZED, 9: Status.RATE_LIMITED, 10: Status.RATE_LIMITED,
    11: Status.SERVER_ERROR, 12: Status.SERVER_ERROR,
}  # fmt: skip
"""What an answer tree's `observation_code` means; 3 and 4 end the conversation. Source: ToolBench, answer generation."""

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


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A call of a log; a field is None if the log does not have it."""

    tool: str
    started_s: float  # when it began, seconds from any fixed time
    latency_s: float | None  # how long it took
    status: Status  # how it ended
    price: float | None = None
    tokens: tuple[int, int] | None = None  # input and output tokens
    cold: bool | None = None  # it began with a cold start
    episode: str | None = None
    about: tuple[tuple[str, str], ...] = ()  # capability, category and provider, where they are given


def read_log(path: Path, fields: Mapping[str, str] | None = None) -> list[LoggedCall]:
    """Read the calls of a log or of a folder of answer trees, in the order in which they began; expressions by field come
    before what the record says itself. Raises DataError where there are no calls, or with the line that is invalid."""
    expressions = parse_fields(fields or {})
    if path.is_dir():
        calls = list(_trees(path))
        if not calls:
            raise DataError(path, "holds no answer trees with calls; expected StableToolBench's answer/**/*.json")
        return calls
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(path, f"is not UTF-8 text ({error.reason})") from error
    records = read_documents(path, text) if text.strip() else []
    name = recognise(records)
    if name is not None and not expressions:
        calls = [_parse(record, path, place) for place, record in converted(name, records) if record is not None]
        if not calls:
            raise DataError(path, f"is a log of {name} and has no call of a tool")
    else:
        calls = [_parse(_mapped(record, expressions), path, place) for place, record in records]
    if not calls:
        raise DataError(path, "is empty; expected one JSON object a line: tool, started, latency_s, status, price")
    return sorted(calls, key=lambda call: call.started_s)


def _mapped(record: Any, expressions: Mapping[str, Expression]) -> Any:
    """A record with the fields that expressions give; True and False are statuses too."""
    if not expressions or not isinstance(record, dict):
        return record
    found = {name: expression(record) for name, expression in expressions.items()}
    if isinstance(found.get("status"), bool):
        found["status"] = "ok" if found["status"] else "error"
    return {**record, **found}


def _parse(record: Any, path: Path, place: str) -> LoggedCall:
    if not isinstance(record, dict):
        raise DataError(path, f"expected a JSON object, got {type(record).__name__}", place)
    for name in ("tool", "started", "latency_s", "status"):
        if record.get(name) is None:
            raise DataError(path, f"the field {name!r} is missing", place)
    tool = record["tool"]
    if not isinstance(tool, str) or not tool.strip():
        raise DataError(path, f"tool: expected a name, got {tool!r:.60}", place)
    tokens = None
    if record.get("input_tokens") is not None or record.get("output_tokens") is not None:
        counts = [_number(record, name, path, place) or 0.0 for name in ("input_tokens", "output_tokens")]
        tokens = (int(counts[0]), int(counts[1]))
    cold = record.get("cold")
    if cold is not None and not isinstance(cold, bool):
        raise DataError(path, f"cold: expected true or false, got {cold!r:.60}", place)
    episode = record.get("episode")
    return LoggedCall(
        tool=tool.strip(),
        started_s=_time(record["started"], path, place),
        latency_s=_number(record, "latency_s", path, place),
        status=_status(record["status"], path, place),
        price=_number(record, "price", path, place),
        tokens=tokens,
        cold=cold,
        episode=None if episode is None else str(episode),
        about=tuple((name, str(record[name])) for name in ("capability", "category", "provider") if record.get(name)),
    )


def _number(record: Mapping[str, Any], name: str, path: Path, place: str) -> float | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise DataError(path, f"{name}: expected a finite number of at least 0, got {value!r:.60}", place)
    return float(value)


def _time(value: Any, path: Path, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    raise DataError(path, f"started: expected ISO 8601 or seconds, got {value!r:.60}", place)


def _status(value: Any, path: Path, place: str) -> Status:
    if isinstance(value, dict) and "failure" in value:
        return failure_in_words(str(value["failure"]))
    if isinstance(value, str) and value.strip().lower() in LABELS:
        return LABELS[value.strip().lower()]
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value) if len(value) < 5 else value
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
        if value in HTTP:
            return HTTP[value]
        return Status.OK if 200 <= value < 400 else Status.SERVER_ERROR if value >= 500 else Status.WRONG_ARGUMENTS
    raise DataError(path, f"status: expected an HTTP status or one of {', '.join(LABELS)}; got {value!r:.60}", place)


# -- answer trees ---------------------------------------------------------------------------------------------------------


def _trees(folder: Path) -> Iterator[LoggedCall]:
    """Calls of the answer trees below a folder; a tree is an episode, and its calls' order stands for their times."""
    for path in sorted(folder.rglob("*.json")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            if "answer" in path.parts:
                raise DataError(path, f"cannot be read ({error})") from error
            continue
        if isinstance(document, dict) and isinstance(document.get("tree"), dict):
            episode = str(path.relative_to(folder))
            for number, (tool, status) in enumerate(_nodes(document["tree"].get("tree"), "")):
                yield LoggedCall(tool, float(number), None, status, episode=episode)


def _nodes(node: Any, tool: str) -> Iterator[tuple[str, Status]]:
    """A tree's calls, in the order of the search: a node that names the tool, then one with its input and the observation."""
    stack = [(node, tool)]
    while stack:
        node, tool = stack.pop()
        if not isinstance(node, dict):
            continue
        if node.get("node_type") == "Action":
            tool = str(node.get("description", ""))
        code = node.get("observation_code")
        if node.get("node_type") == "Action Input" and code in TREE_CODES and tool and tool != "Finish":
            yield tool, _observed(TREE_CODES[code], node.get("observation"))
        children = node.get("children")
        if isinstance(children, list):
            stack += [(child, tool) for child in reversed(children)]


def _observed(status: Status, observation: Any) -> Status:
    """The status of a call, from its content; the envelope may report an error as success and the reverse."""
    if status not in (Status.OK, Status.SERVER_ERROR):
        return status
    try:
        envelope = json.loads(observation) if isinstance(observation, str) else observation
    except (ValueError, RecursionError):
        return status  # cut off at 1,024 characters: content all the same
    if not isinstance(envelope, dict):
        return status
    error, response = str(envelope.get("error") or ""), envelope.get("response")
    if error and not error.startswith("Message error"):
        return failure_in_words(error)
    if response in ("", None, [], {}):
        return Status.EMPTY
    told = _bare_error(response)
    return Status.OK if told is None else failure_in_words(told)


def _bare_error(response: Any) -> str | None:
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


def failure_in_words(words: str) -> Status:
    """Classify an error message as a status; a server error where the words say nothing else."""
    return next((status for pattern, status in WORDS if re.search(pattern, words, re.IGNORECASE)), Status.SERVER_ERROR)


def callable_names(tools: Sequence[str]) -> dict[str, str]:
    """Unique names that are valid as function names for a model."""
    found: dict[str, str] = {}
    for tool in tools:
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", tool).strip("_")[:60] or "tool"
        names = itertools.chain((base,), (f"{base}_{number}" for number in itertools.count(2)))
        found[tool] = next(name for name in names if name not in found.values())
    return found
