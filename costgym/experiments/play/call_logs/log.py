"""Logs of real tool calls: JSON lines or CSV, one call each, with the fields of docs/reference/logs.md.

    {"tool": "weather", "started": "2026-03-01T09:00:00Z", "latency_s": 0.41, "status": "ok", "price": 0.002}

Records of other programs are recognised (`dialects`), recorded conversations are read (`conversations`), expressions say where
another shape has its fields (`expressions`), and a folder with StableToolBench's or ToolBench's answer trees is read too.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costgym.experiments.play.call_logs.conversations import (
    NOT_ANSWERED,
    conversation_of,
    grouped,
    read_conversation,
    text_of,
)
from costgym.experiments.play.call_logs.dialects import Draft, dialect_of, distinct, draft_of
from costgym.experiments.play.call_logs.expressions import Expression, number, parse_fields
from costgym.experiments.play.call_logs.records import Record, first
from costgym.experiments.play.call_logs.selection import SHOWN, Selection, records_of
from costgym.experiments.play.call_logs.statuses import LABELS, status_of
from costgym.experiments.play.call_logs.trees import read_trees
from costgym.simulators.errors import DataError
from costgym.simulators.status import Status

CALL_LOG = "costgym.calls/1"  # what a run's first record in a log of `experiments.serve.proxy` says
BETWEEN_RUNS_S = 86_400.0  # time between two runs of a log, longer than any window of a rate limit
OWN = ("tool", "started", "latency_s", "status")  # what a record of our own format must have
_ASKED = (
    "attributes.gen_ai.input.messages", "attributes.gen_ai.prompt.0.content", "attributes.input.value",
    "attributes.ai.prompt.messages", "attributes.ai.prompt", "attributes.traceloop.entity.input",
    "attributes.mlflow.spanInputs", "meta.input", "inputs", "input", "messages",
)  # fmt: skip
"""Where spans and runs that are no calls of tools keep what a user asked."""
_ANSWERED = (
    "attributes.gen_ai.output.messages", "attributes.gen_ai.completion.0.content", "attributes.output.value",
    "attributes.ai.response.text", "attributes.traceloop.entity.output", "attributes.mlflow.spanOutputs", "meta.output",
    "outputs", "output",
)  # fmt: skip
"""Where they keep what the agent answered."""
_EPISODES = (
    "attributes.gen_ai.conversation.id", "attributes.session.id", "context.trace_id", "sessionId", "session_id", "traceId",
    "trace_id", "root_span_id",
)  # fmt: skip


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
    arguments: Any = field(default=None, compare=False)
    result: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Log:
    """What was read of a log.

    Attributes:
        calls: Its calls of tools, in the order in which they began.
        queries: What the user of an episode asked first, by episode, where the log says so.
        answers: What the agent of an episode answered last, likewise.
        records: What was left out, and what could not be read (see `Selection.report`).
        trees: The log is a folder of answer trees, which have statuses only.
    """

    calls: Sequence[LoggedCall]
    queries: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[str, Any] = field(default_factory=lambda: Selection(Path()).report())
    trees: bool = False


def read_log(path: Path, fields: Mapping[str, str] | None = None, where: Mapping[str, str] | None = None) -> Log:
    """Read a log, or a folder of answer trees.

    Args:
        path: The file or folder; or "agentpile:" and a data set or file that agentpile reads.
        fields: Expressions by field, which come before what the record says itself.
        where: Values by field that a record must have to be read; a name that ends in "!" refuses the value.

    Raises:
        DataError: There are no calls, or more than a tenth of the records cannot be read; names the first with the reason.
    """
    expressions = parse_fields(fields or {})
    if path.is_dir():
        calls = [
            LoggedCall(tool, float(number), None, status, episode=episode) for episode, number, tool, status in read_trees(path)
        ]
        if not calls:
            raise DataError(path, "holds no answer trees with calls; expected StableToolBench's answer/**/*.json")
        return Log(calls, trees=True)
    reader = _Reader(path, expressions, where or {})
    reader.read(records_of(path))
    return reader.log()


class _Reader:
    """Reads the records of one file."""

    def __init__(self, path: Path, expressions: Mapping[str, Expression], where: Mapping[str, str]) -> None:
        self._path, self._expressions, self._selection = path, expressions, Selection(path, where)
        self._drafts: list[Draft] = []
        self._parents: dict[str, Any] = {}
        self._questions: dict[str, tuple[float, str]] = {}
        self._answered: dict[str, str] = {}
        self._dialects: Counter[str] = Counter()
        self._left_out, self._problems = self._selection.left_out, self._selection.problems

    def read(self, records: Sequence[Record]) -> None:
        if any(isinstance(record.value, dict) and record.value.get("format") == CALL_LOG for record in records[:50]):
            self._selection.records += len(records)
            return self._read_runs(records)
        for record in self._selection.chosen(grouped(records)):
            self._read(record)
        return None

    def _read(self, record: Record) -> None:
        value, messages = record.value, conversation_of(record.value)
        dialect = dialect_of(value) if isinstance(value, dict) else None
        if messages is None and not isinstance(value, dict):
            self._problems.append((record.location, f"expected a JSON object, got {type(value).__name__}"))
        elif "tool" in self._expressions or (dialect is None and messages is None) or _is_own(value):
            self._read_own(value, record)
        elif dialect is not None:
            self._dialects[dialect.name] += 1
            self._note(value)
            draft = draft_of(dialect, value, record.location)
            if isinstance(draft, str):
                self._left_out[draft] += 1
            else:
                draft.fields |= self._mapped(value)
                self._drafts.append(draft)
        elif messages is not None:
            self._dialects["conversations"] += 1
            drafts, question, answered, unanswered = read_conversation(value, messages, record.location)
            self._drafts += drafts
            self._left_out[NOT_ANSWERED] += unanswered
            if question and drafts:
                self._questions.setdefault(str(drafts[0].fields["episode"]), (0.0, question))
            if answered and drafts:
                self._answered.setdefault(str(drafts[0].fields["episode"]), answered)

    def _read_own(self, value: Any, record: Record) -> None:
        fields = {**value, **self._mapped(value)} if isinstance(value, dict) else {}
        if "tool" in self._expressions and fields.get("tool") is None:
            self._left_out["records for which --map tool gives no name"] += 1
            return
        self._drafts.append(Draft(record.location, fields, lenient=record.textual, about=value))

    def _mapped(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that expressions give; true and false are statuses too."""
        fields = {name: expression(record) for name, expression in self._expressions.items()}
        if isinstance(fields.get("status"), bool):
            fields["status"] = "ok" if fields["status"] else "error"
        return fields

    def _note(self, record: Mapping[str, Any]) -> None:
        """Note the parent of a span, and what a user asked."""
        span = first(record, ("context.span_id", "span_id", "id"))
        if span is not None:
            self._parents[str(span)] = first(
                record, ("parent_id", "parentObservationId", "parent_observation_id", "parent_run_id", "parent_span_id")
            )
        episode = first(record, _EPISODES)
        if episode is None:
            return
        began = number(first(record, ("start_time", "startTime", "started_at"))) or 0.0
        if (before := self._questions.get(str(episode))) is None or began < before[0]:
            text = text_of(first(record, _ASKED))
            if text:
                self._questions[str(episode)] = (began, text)
                if answered := text_of(first(record, _ANSWERED)):
                    self._answered[str(episode)] = answered

    def _read_runs(self, records: Sequence[Record]) -> None:
        """The calls of runs of our own proxy, whose clocks all begin at 0, one run after the other."""
        ends: dict[str, float] = {}
        for record in records:
            if record.problem:
                self._problems.append((record.location, record.problem))
            elif isinstance(record.value, dict) and "tool" in record.value:
                run, value = str(record.value.get("run")), record.value
                end = (number(value.get("started")) or 0.0) + (number(value.get("latency_s")) or 0.0)
                ends[run] = max(ends.get(run, 0.0), end)
        begins, clock = {}, 0.0
        for run, end in ends.items():
            begins[run] = clock
            clock += end + BETWEEN_RUNS_S
        for record in records:
            if isinstance(record.value, dict) and "tool" in record.value:
                run, started = str(record.value.get("run")), number(record.value.get("started"))
                started = None if started is None else begins[run] + started
                fields = {**record.value, "started": started, "episode": run}
                self._drafts.append(Draft(record.location, fields, about=record.value))

    def log(self) -> Log:
        """What was read; raises DataError where it is nothing, or too much could not be read."""
        drafts, left_out = distinct(self._drafts, self._parents)
        self._left_out.update(left_out)
        calls = []
        for draft in drafts:
            try:
                calls.append(_call(draft))
            except ValueError as error:
                self._problems.append((draft.location, str(error)))
        self._selection.check(len(calls))
        if not calls:
            raise DataError(self._path, self._nothing())
        timed = any(call.latency_s is not None for call in calls)
        if timed and any(call.latency_s is None for call in calls):
            self._left_out["calls without times"] += sum(call.latency_s is None for call in calls)
            calls = [call for call in calls if call.latency_s is not None]
        episodes = {call.episode for call in calls}
        return Log(
            sorted(calls, key=lambda call: call.started_s),
            {episode: text for episode, (_, text) in self._questions.items() if episode in episodes},
            {episode: text for episode, text in self._answered.items() if episode in episodes},
            self._selection.report(),
        )

    def _nothing(self) -> str:
        """Why a log has no calls."""
        if not self._selection.records:
            return "is empty; expected one JSON object a line: tool, started, latency_s, status, price"
        if self._dialects:
            name = self._dialects.most_common(1)[0][0]
            reasons = "; ".join(f"{count} {reason}" for reason, count in self._left_out.items() if count)
            return f"is a log of {name} and has no call of a tool" + (f" ({reasons})" if reasons else "")
        return "has no call of a tool; --map FIELD=EXPRESSION says where its fields are"


def _is_own(record: Any) -> bool:
    return isinstance(record, dict) and {"tool", "latency_s"} <= record.keys()


def _call(draft: Draft) -> LoggedCall:
    """The call that a draft describes; raises ValueError with what is wrong."""
    fields = draft.fields
    for name in OWN:
        if fields.get(name) is None and not (name == "latency_s" and draft.lenient and "latency_s" in fields):
            known = ", ".join(sorted(str(key)[:40] for key in draft.about)[: 3 * SHOWN])
            raise ValueError(f"the field {name!r} is missing; the record has {known}; --map {name}=EXPRESSION says where it is")
    tool = fields["tool"]
    if not isinstance(tool, str) or not tool.strip():
        raise ValueError(f"tool: expected a name, got {tool!r:.60}")
    tokens = None
    if fields.get("input_tokens") is not None or fields.get("output_tokens") is not None:
        counts = [_number(draft, name) or 0.0 for name in ("input_tokens", "output_tokens")]
        tokens = (int(counts[0]), int(counts[1]))
    cold = fields.get("cold")
    if draft.lenient and isinstance(cold, str):
        cold = {"true": True, "false": False}.get(cold.lower(), cold)
    if cold is not None and not isinstance(cold, bool):
        raise ValueError(f"cold: expected true or false, got {cold!r:.60}")
    status = status_of(fields["status"])
    if status is None:
        raise ValueError(f"status: expected an HTTP status or one of {', '.join(LABELS)}; got {fields['status']!r:.60}")
    episode = fields.get("episode")
    return LoggedCall(
        tool=tool.strip(),
        started_s=_time(fields["started"], draft.lenient),
        latency_s=_number(draft, "latency_s"),
        status=status,
        price=_number(draft, "price"),
        tokens=tokens,
        cold=cold,
        episode=None if episode is None else str(episode),
        about=tuple((name, str(fields[name])) for name in ("capability", "category", "provider") if fields.get(name)),
        arguments=fields.get("arguments"),
        result=fields.get("result"),
    )


def _number(draft: Draft, name: str) -> float | None:
    value = draft.fields.get(name)
    if value is None:
        return None
    plain = number(value) if draft.lenient or not isinstance(value, str) else None
    if plain is None or not math.isfinite(plain) or plain < 0:
        raise ValueError(f"{name}: expected a finite number of at least 0, got {value!r:.60}")
    return plain


def _time(value: Any, lenient: bool) -> float:
    plain = number(value)
    is_text = isinstance(value, str) and not lenient and _is_number(value)
    if plain is None or not math.isfinite(plain) or is_text:
        raise ValueError(f"started: expected ISO 8601 or seconds, got {value!r:.60}")
    return plain


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def callable_names(tools: Sequence[str]) -> dict[str, str]:
    """Unique names that are valid as function names for a model."""
    names: dict[str, str] = {}
    for tool in tools:
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", tool).strip("_")[:60] or "tool"
        free = itertools.chain((base,), (f"{base}_{number}" for number in itertools.count(2)))
        names[tool] = next(name for name in free if name not in names.values())
    return names
