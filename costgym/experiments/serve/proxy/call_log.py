"""The log of real calls: JSON lines, flushed one by one, that `costgym calibrate` and `costgym proxy report` read.

A run begins with a line that holds its settings (`format`), has a line for each call (`tool`) and each visible event of the
world (`event`), and ends with `end`. A line with `success` says, at any time, whether the run did what it was for.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from costgym.experiments.play.call_logs.log import CALL_LOG
from costgym.experiments.play.statistics import all_of_k, wilson
from costgym.simulators.errors import ConfigError, CostGymError, DataError, check_known
from costgym.simulators.files import decode_json, has_tail, iter_lines, keep_lines
from costgym.simulators.ledger import Budget
from costgym.simulators.status import Status


class CallLog:
    """Appends the records of one run to a file, which may hold other runs; each is in the file when `write` returns."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and has_tail(path):
                keep_lines(path, 2**62)  # the last line is incomplete, because the machine stopped
            self._file = path.open("ab", buffering=0)  # a line is one write, so runs may share a file
        except OSError as error:
            raise DataError(path, f"cannot be written: {error.strerror}") from error

    def write(self, record: Mapping[str, Any]) -> None:
        rest = memoryview(json.dumps({"run": self.run, **record}, default=str).encode() + b"\n")
        before = written = 0
        try:
            before = os.fstat(self._file.fileno()).st_size
            while rest:  # a write may be partial
                taken = self._file.write(rest)
                written, rest = written + taken, rest[taken:]
        except OSError as error:
            with suppress(OSError):  # remove the partial line, unless another run has written after it
                if written and os.fstat(self._file.fileno()).st_size == before + written:
                    os.ftruncate(self._file.fileno(), before)
            raise DataError(self.path, f"cannot be written: {error.strerror}") from error

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class Run:
    """A run of a log."""

    name: str
    settings: Mapping[str, Any]
    calls: list[Mapping[str, Any]] = field(default_factory=list)  # the records of its calls, in their order
    success: bool | None = None  # whether it succeeded; None without a verdict
    reason: str | None = None  # why it ended; None for a run that goes on, or whose proxy was killed

    @property
    def price(self) -> float:
        """Total price of its calls."""
        return sum(float(call.get("price") or 0.0) for call in self.calls)


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read the runs of some logs, in the order in which they began. An incomplete last line is skipped.

    Raises:
        DataError: A file cannot be read or holds something else; names the line.
    """
    listed: list[Run] = []
    for path in paths:
        runs: dict[str, Run] = {}
        for number, record in _records(path):
            name = record.get("run")
            if not isinstance(name, str):
                raise DataError(path, "the field 'run' is missing; expected a log of `costgym proxy`", f"line {number}")
            _expect_kinds(record, path, number)
            if record.get("format") == CALL_LOG:
                runs[name] = Run(name, record)
                listed.append(runs[name])
            elif name not in runs:
                raise DataError(path, f"the run {name!r:.60} has no beginning", f"line {number}")
            elif "tool" in record:
                runs[name].calls.append(record)
            elif isinstance(record.get("success"), bool):
                runs[name].success = record["success"]
            elif "end" in record:
                runs[name].reason = str(record["end"])
    return listed


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(iter_lines(path), 1):
        try:
            record = decode_json(line)
        except ValueError as error:
            raise DataError(path, f"is not valid JSON ({error})", f"line {number}") from None
        if not isinstance(record, dict):
            raise DataError(path, f"expected a JSON object, got {type(record).__name__}", f"line {number}")
        yield number, record


def _amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _is_budget(value: object) -> bool:
    try:
        return isinstance(value, dict) and Budget.from_mapping(value) is not None
    except (CostGymError, TypeError, ValueError, OverflowError):
        return False


_TEXTS = ("tool", "status", "imposed", "scenario", "task", "end")
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("price", "faults"), ("a number of at least 0", _amount)),
    **dict.fromkeys(_TEXTS, ("a text", lambda value: isinstance(value, str))),
    "budget": ('an object of limits, as {"price": 20}', _is_budget),
}
"""What a report reads of a log's lines, where it is there, and what it may be."""


def _expect_kinds(record: Mapping[str, Any], path: Path, number: int) -> None:
    for name, (kind, fits) in _KINDS.items():
        if record.get(name) is not None and not fits(record[name]):
            raise DataError(path, f"{name}: expected {kind}, got {record[name]!r:.60}", f"line {number}")


def give_verdict(path: str | Path, run: str, success: bool) -> None:
    """Write to a log whether a run succeeded. The last verdict counts.

    Raises:
        DataError: The log cannot be read or written.
        UnknownName: There is no such run.
    """
    path = Path(path)
    names = [logged.name for logged in read_runs([path])]
    if not names:
        raise ConfigError("run", f"{path} holds no runs")
    check_known("run", run, names)
    log = CallLog(path, run)
    log.write({"success": success})
    log.close()


def wall_time() -> str:
    """The time of day, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def reliability(runs: Sequence[Run]) -> dict[str, Any]:
    """Sum up the runs of some logs.

    Args:
        runs: From `call_log.read_runs`. Runs of one task under the same conditions count as repetitions of each other.

    Returns:
        Plain data: `surface`, with a row for each scenario, factor on failures and budget, and `tools`, with a row for each
        tool under each. Shares have intervals at 95 %: Wilson's, whose k-th power is R's where there is one task; with more
        tasks, R's is Wilson's over tasks.
    """
    groups: dict[tuple[str, float, str], list[Run]] = {}
    for run in runs:
        groups.setdefault(_condition(run), []).append(run)
    ordered = sorted(groups.items())
    return {
        "runs": len(runs),
        "without_verdict": [run.name for run in runs if run.success is None],
        "unfinished": [run.name for run in runs if run.reason is None],
        "surface": [_row(condition, members) for condition, members in ordered],
        "tools": [row for condition, members in ordered for row in _tools(condition, members)],
    }


def _condition(run: Run) -> tuple[str, float, str]:
    scenario, faults = run.settings.get("scenario"), run.settings.get("faults")
    factor = float(faults) if faults is not None else 1.0 if scenario is not None else 0.0
    return str(scenario or "as it is"), factor, str(Budget.from_mapping(run.settings.get("budget") or {}))


def _named(condition: tuple[str, float, str]) -> dict[str, Any]:
    return {"scenario": condition[0], "faults": condition[1], "budget": condition[2]}


def _row(condition: tuple[str, float, str], runs: Sequence[Run]) -> dict[str, Any]:
    calls = [call for run in runs for call in run.calls]
    judged = [run for run in runs if run.success is not None]
    passed = sum(bool(run.success) for run in judged)
    spent = sum(run.price for run in judged)
    faulty = sum(_imposed(call) for call in calls)
    return {
        **_named(condition),
        "runs": len(runs),
        "judged": len(judged),
        "calls": len(calls),
        "fault_rate": _share(faulty, len(calls)),
        "success": _share(passed, len(judged)),
        "price_per_run": spent / len(judged) if judged else None,
        "price_per_success": spent / passed if passed else None,
        "calls_per_run": len(calls) / len(runs),
        "tasks": len({run.settings.get("task") for run in judged}),
        "reliability": _surface(judged),
    }


def _surface(judged: Sequence[Run]) -> list[dict[str, Any]]:
    """R(k) for each k up to the number of runs that every task has."""
    tasks: dict[Any, list[bool]] = {}
    for run in judged:
        tasks.setdefault(run.settings.get("task"), []).append(bool(run.success))
    points = []
    for k in range(1, min(map(len, tasks.values()), default=0) + 1):
        value = sum(all_of_k(sum(passes), len(passes), k) for passes in tasks.values()) / len(tasks)
        if len(tasks) == 1:
            (passes,) = tasks.values()
            low, high = (end**k for end in wilson(sum(passes) / len(passes), len(passes)))
        else:
            low, high = wilson(value, len(tasks))
        points.append({"k": k, "value": value, "ci95": [low, high]})
    return points


def _tools(condition: tuple[str, float, str], runs: Sequence[Run]) -> list[dict[str, Any]]:
    calls: dict[str, list[Any]] = {}
    for run in runs:
        for call in run.calls:
            calls.setdefault(str(call["tool"]), []).append(call)
    return [
        {
            **_named(condition),
            "tool": tool,
            "calls": len(calls_of_tool),
            "ok": _share(sum(call.get("status") == "ok" for call in calls_of_tool), len(calls_of_tool)),
            "statuses": dict(sorted(Counter(str(call.get("status")) for call in calls_of_tool).items())),
            "price": sum(float(call.get("price") or 0.0) for call in calls_of_tool),
        }
        for tool, calls_of_tool in sorted(calls.items())
    ]


def _imposed(call: Any) -> bool:
    """Whether the scenario, and not the tool, made a call fail; a budget that is used up does not count."""
    imposed = call.get("imposed")
    return imposed is not None and imposed not in (Status.OK.label, Status.OVER_BUDGET.label, Status.CANCELLED.label)


def _share(count: int, total: int) -> dict[str, Any] | None:
    if not total:
        return None
    return {"value": count / total, "ci95": list(wilson(count / total, total))}
