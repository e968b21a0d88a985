"""Verification of an OpenCATP leaderboard: every plan is evaluated anew, and the rows are worked out from what comes of it.

What this proves: these plans come to these figures. What it cannot prove: that the named planner wrote them without knowing
their outcome, what its language model used, or why it gave no plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...simulators.errors import ConfigError, CostGymError, DataError
from ...simulators.opencatp.plan_space import PlanValues
from ...simulators.opencatp.scoring.evaluation import Evaluator, split_samples
from ...simulators.plan import Plan
from ...simulators.version import __version__
from ..files import iter_lines
from .plans import PlanResult, PlanRun, evaluated, line_of, row_of, situations
from .store.runs import PLANS
from .submissions.manifest import MOST_PROBLEMS


def is_plan_run(folder: Path) -> bool:
    """Whether a folder holds a leaderboard of the suite `opencatp`."""
    try:
        return bool(json.loads((folder / "run.json").read_text(encoding="utf-8"))["suite"] == "opencatp")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def check_plans(folder: Path, progress: Callable[[int], None] | None = None) -> tuple[int, tuple[str, ...]]:
    """How many plans agree with their record, and what does not, in words.

    Args:
        folder: of the run.
        progress: called with the number of plans looked at.

    Raises:
        ConfigError: the run has not ended.
        DataError: the run's manifest, its plans or its rows cannot be read.
    """
    plan = _manifest(folder / "run.json")
    if plan.version != __version__:
        return 0, (f"run.json, version: planned with costgym {plan.version}, this is {__version__}; verify with that version",)
    if not (folder / "leaderboard.json").is_file():
        raise ConfigError("--run", f"{folder} has not ended; run the leaderboard again to finish it")
    claimed = _claimed(folder / "leaderboard.json")
    models = {row["agent"]: row["model"] for row in claimed}  # which no evaluation can know
    lines, good = enumerate(iter_lines(folder / PLANS), 1), 0
    problems, rows = list[str](), list[dict[str, Any]]()
    for alpha in plan.alphas:
        evaluator = Evaluator(None, plan.profile, alpha)
        values = PlanValues(evaluator)
        for kind in plan.kinds:
            pairs = situations(kind, plan.split, split_samples(evaluator.scores.samples, plan.split), plan.episodes)
            for name in plan.agents:
                results = []
                for index, (task, sample) in enumerate(pairs):
                    number, line = next(lines, (0, ""))
                    if not line:
                        return good, (*problems, f"{PLANS}: ends before plan {index} of {name}, {kind} tasks, alpha {alpha:g}")
                    found = _again(line, folder / PLANS, number, task, sample, evaluator, values)
                    results.append(found)
                    wanted = line_of(name, kind, alpha, index, found)
                    if wanted != f"{line}\n":
                        problems += [f"{PLANS}, line {number}: {_difference(wanted, line)}"]
                    else:
                        good += 1
                    if progress is not None:
                        progress(number)
                rows.append(row_of(name, models.get(name, ""), kind, alpha, results, plan))
    strays = sum(1 for _ in lines)
    problems += [f"{PLANS}: {strays} lines more than the run has plans"] if strays else []
    problems += [] if problems else list(_check_rows(claimed, rows))
    return good, tuple(problems[:MOST_PROBLEMS])


def _manifest(path: Path) -> PlanRun:
    try:
        return PlanRun.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise DataError(path, f"is no manifest of an OpenCATP leaderboard ({error.errors()[0]['msg']})") from error


def _again(line: str, path: Path, number: int, task: Any, sample: int, evaluator: Evaluator, values: PlanValues) -> PlanResult:
    """What the recorded plan comes to; what evaluation cannot know is taken from the record."""
    try:
        record = json.loads(line)
        tokens, problem, written = record["tokens"], record["problem"], record["plan"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(path, f"is no plan's record ({error!r:.80})", f"line {number}") from error
    try:
        plan = None if written is None else Plan.from_list(written)
    except (CostGymError, ValueError, TypeError) as error:
        return evaluated(None, f"{error}", task, sample, evaluator, values, tokens)
    return evaluated(plan, problem, task, sample, evaluator, values, tokens)


def _difference(wanted: str, line: str) -> str:
    ours, theirs = json.loads(wanted), json.loads(line)
    for name in (*ours, *theirs):
        if ours.get(name) != theirs.get(name) or type(ours.get(name)) is not type(theirs.get(name)):
            return f"{name}: evaluation says {ours.get(name)!r:.120}, the record {theirs.get(name)!r:.120}"
    return "is not written as this costgym writes it"


def _claimed(path: Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
        if all(isinstance(row, dict) and {"agent", "model", "tasks", "alpha"} <= row.keys() for row in rows):
            return rows
        raise ValueError("a row without agent, model, tasks or alpha")
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(path, f"is not as an OpenCATP leaderboard writes it ({error!r:.80})") from error


def _check_rows(claimed: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Iterator[str]:
    key = ("agent", "tasks", "alpha")
    by_key = {tuple(row.get(name) for name in key): row for row in claimed}
    if len(by_key) != len(claimed) or len(claimed) != len(rows):
        yield f"leaderboard.json, rows: expected one for each of {len(rows)} entries, got {len(claimed)}"
        return
    for row in json.loads(json.dumps(rows)):
        place = tuple(row[name] for name in key)
        theirs = by_key.get(place, {})
        for name in sorted(row.keys() | theirs.keys()):
            if row.get(name) != theirs.get(name):
                said = f"evaluation says {row.get(name)!r:.120}, the row {theirs.get(name)!r:.120}"
                yield f"leaderboard.json, rows, {place[0]}, {place[1]} tasks, alpha {place[2]:g}: {name}: {said}"
                break
