"""The plans of an OpenCATP leaderboard as episodes that the site's viewer shows: each as it would run, evaluated anew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ....envs.rendering.chart import plan_verdict
from ....simulators.errors import CostGymError, DataError
from ....simulators.ledger import Budget
from ....simulators.opencatp.episode_view import PlanView, plan_calls, plan_ledger, plan_task, refused_call
from ....simulators.opencatp.scoring.evaluation import Evaluator
from ....simulators.opencatp.tasks import task as find_task
from ....simulators.plan import Plan
from ....simulators.quality import INVALID_PLAN_REWARD
from ....simulators.tasks import Grade
from ...files import iter_lines
from .data import account_detail, plan_step

EDITED = "Evaluation does not agree with this record: it was edited, or another version made it."


def plan_details(
    path: Path, row: Mapping[str, Any], manifest: Mapping[str, Any], most: int | None = None
) -> Iterator[dict[str, Any]]:
    """The plans of an entry in detail, in the form of `site_data.details`.

    Where evaluation does not agree with the record, the detail says so.

    Args:
        path: the run's `plans.jsonl`.
        row, manifest: the entry's row, and the content of `run.json`.
        most: only so many, the first.

    Raises:
        DataError: the file cannot be read, or there is no such profile or outcome table.
    """
    evaluator = Evaluator(None, manifest.get("profile", "v100"), row["alpha"])
    seed = int(manifest.get("seed") or 0)
    yield from islice((_detail(record, evaluator, seed) for record in _records(path, row)), most)


def _records(path: Path, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    wanted = [row[name] for name in ("agent", "tasks", "alpha")]
    for number, line in enumerate(iter_lines(path), 1):
        try:
            record = json.loads(line)
            if [record[name] for name in ("agent", "tasks", "alpha")] == wanted:
                yield record
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(path, f"is no plan's record ({error})", f"line {number}") from error


def _detail(record: Mapping[str, Any], evaluator: Evaluator, seed: int) -> dict[str, Any]:
    task, sample, level = find_task(record["task"]), record["sample"], record["level"]
    calls, score, price, seconds, quality = [refused_call(0.0, record["problem"])], 0.0, 0.0, 0.0, INVALID_PLAN_REWARD
    said = "no plan"
    note = ""
    if record["plan"] is not None:
        try:
            plan = Plan.from_list(record["plan"])
            score, price, seconds, quality = evaluator.evaluate(plan, task, sample, level)
            calls = plan_calls([(step.tool, step.deps) for step in plan.steps], evaluator.profile, level)
            said = "\n".join(f"{step.tool} after {', '.join(step.deps)}" for step in plan.steps)
        except CostGymError as error:
            note = f"It cannot be evaluated: {error}"
    if not note and [score, price, seconds, quality] != [record[name] for name in ("score", "price", "seconds", "quality")]:
        note = EDITED
    episode = PlanView(
        task=plan_task(task, sample, level),
        number=task.task_id,
        seed=seed,
        budget=Budget(),
        calls=tuple(calls),
        ledger=plan_ledger(calls, price),
        now_s=seconds,
        exceeded=None,
        grade=Grade(score, score >= 0.5, score >= 0.5),
        over=True,
    )
    ledger = episode.ledger
    heard = record["problem"] or f"Quality of Plan {quality:.3f}; the best plan for this sample: {record['best']:.3f}"
    return {
        "episode": record["episode"],
        "task": f"{record['tasks']} {record['task']}, sample {sample}",
        "seed": seed,
        "truncated": False,
        "final": {
            "strict": score >= 0.5,
            "judged": score >= 0.5,
            "share": score,
            "exceeded": None,
            "price": price,
            "seconds": seconds,
            "tokens": record["tokens"],
            "calls": ledger.calls,
            "attempts": ledger.attempts,
        },
        **account_detail(episode),
        "replayed": not note,
        "note": note,
        "steps": [[0.0, "", "", []], plan_step(said, episode, heard)],
        "verdict": plan_verdict(episode, quality),
    }
