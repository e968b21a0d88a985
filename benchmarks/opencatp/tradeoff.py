"""Measure the trade-off between score and price, oracles and planners from OpenCATP's outcome table.

    python benchmarks/opencatp/tradeoff.py [--table FILE] [--profile NAME|FILE] [--out FOLDER] [--rollouts N] [--json FILE]

Prints, and with `--json` writes: what the informed optimum contains and leaves out by size level; how often one plan is best
within a kind of task; all planners on the test split; what concurrency saves; what dropping super-resolution is worth on large
images; how many random walks through the planning language end in valid plans. Nothing here is set by hand: the plans are those
of the exact oracles.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from costgym.agents.opencatp.rules import RESTORER_OF, chain_plan, suggested
from costgym.envs.tpl import KINDS, TplState
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.leaderboard import run
from costgym.simulators.opencatp import SIGNATURES, Evaluator, OpenCATPTask, OutcomeTable, all_tasks, split_samples, tasks
from costgym.simulators.opencatp.plan_space import PlanValues
from costgym.simulators.opencatp.tools import IMAGE_TOOLS, LEVELS
from costgym.simulators.plan import Plan

SUPER_RESOLUTION = "image_super_resolution"
PROMPTED = ("zero-shot", "few-shot", "hugginggpt", "hydra")


def informed_plans(values: PlanValues, complete: bool) -> dict[tuple[OpenCATPTask, int], Plan]:
    """The best fixed plan on the train samples for every task and size level; `complete`: that leaves no output out."""
    train = split_samples(values.evaluator.scores.samples, "train")
    return {
        (task, level): values.expected_optimum(task, level, train, complete) for task in all_tasks() for level in range(LEVELS)
    }


def restorers(plan: Plan) -> frozenset[str]:
    """The restorers in a plan."""
    return frozenset(plan.nodes) & frozenset(IMAGE_TOOLS)


def contents(plans: dict[tuple[OpenCATPTask, int], Plan]) -> dict[str, Any]:
    """Shares of cells whose optimum restores, and that leave out what the description suggests, by size level."""
    by_level = []
    for level in range(LEVELS):
        cells = [(task, plan) for (task, at), plan in plans.items() if at == level]
        missing = [{RESTORER_OF[name] for name in task.degradations} - restorers(plan) for task, plan in cells]
        by_level.append(
            {
                "level": level,
                "cells": len(cells),
                "restores": sum(bool(restorers(plan)) for _, plan in cells),
                "restores_without_image_tasks": sum(bool(restorers(plan)) for task, plan in cells if not task.wanted_images),
                "cells_without_image_tasks": sum(not task.wanted_images for task, _ in cells),
                "leaves_out": sum(bool(tools) for tools in missing),
                "used": dict(sorted(Counter(tool for _, plan in cells for tool in restorers(plan)).items())),
            }
        )
    small, large = by_level[:2], by_level[2:]
    return {
        "restores_at_levels_0_and_1": sum(row["restores"] for row in small) / sum(row["cells"] for row in small),
        "leaves_out_at_levels_2_and_3": sum(row["leaves_out"] for row in large) / sum(row["cells"] for row in large),
        "by_level": by_level,
    }


def kinds_of(task: OpenCATPTask) -> tuple[str, str]:
    """The kind of a task as the tasks have it, and by what it wants."""
    return task.kind, " and ".join(sorted(want.name for want in task.wants))


def most_frequent(plans: dict[tuple[OpenCATPTask, int], Plan]) -> dict[str, Any]:
    """Return how often the most frequent best plan is best, by kind of task; once as whole plans, once as restorers
    alone."""
    whole: dict[str, Counter[str]] = {}
    chains: dict[str, Counter[str]] = {}
    for (task, _), plan in plans.items():
        steps = [f"{step.tool} after {' and '.join(step.deps)}" for step in plan.steps if step.tool in IMAGE_TOOLS]
        for name in kinds_of(task):
            whole.setdefault(name, Counter())[json.dumps(plan.to_list())] += 1
            chains.setdefault(name, Counter())["; ".join(steps) or "no restorer"] += 1
    return {
        name: {
            "cells": counts.total(),
            "plan": counts.most_common(1)[0][0],
            "best_in": counts.most_common(1)[0][1] / counts.total(),
            "restorers": chains[name].most_common(1)[0][0],
            "restorers_best_in": chains[name].most_common(1)[0][1] / counts.total(),
        }
        for name, counts in whole.items()
    }


def super_resolution(values: PlanValues) -> list[dict[str, Any]]:
    """Mean quality on the test samples of all suggested restorers, and of the same without super-resolution.

    Over the tasks on low-resolution images that have another restorer to answer with, or want texts alone.
    """
    evaluator = values.evaluator
    test = split_samples(evaluator.scores.samples, "test")
    cells = []
    for task in all_tasks():
        chain = suggested(task)
        rest = tuple(tool for tool in chain if tool != SUPER_RESOLUTION)
        if SUPER_RESOLUTION in chain and (rest or not task.wanted_images):
            cells.append((task, chain_plan(task, chain), chain_plan(task, rest)))
    rows = []
    for level in range(LEVELS):
        pairs = [
            (evaluator.evaluate(full, task, sample, level), evaluator.evaluate(less, task, sample, level))
            for task, full, less in cells
            for sample in test
        ]
        count = len(pairs)
        rows.append(
            {
                "level": level,
                "pairs": count,
                "quality_with": sum(a.quality for a, _ in pairs) / count,
                "quality_without": sum(b.quality for _, b in pairs) / count,
                "score_with": sum(a.score for a, _ in pairs) / count,
                "score_without": sum(b.score for _, b in pairs) / count,
                "better_without": sum(b.quality > a.quality for a, b in pairs) / count,
            }
        )
    return rows


def concurrency(values: PlanValues) -> dict[str, Any]:
    """Time of the clairvoyant's complete plans for non-sequential test tasks, with branches at once and one by one."""
    evaluator = values.evaluator
    together = one_by_one = 0.0
    count = faster = 0
    for task in tasks("nonsequential", "test"):
        for sample in split_samples(evaluator.scores.samples, "test"):
            level = (sample + task.task_id) % LEVELS
            plan = values.clairvoyant(task, sample, level, complete=True)
            seconds = evaluator.profile.plan_seconds(plan, level)
            in_turn = sum(evaluator.profile.seconds(tool, level) for tool in plan.nodes)
            together, one_by_one = together + seconds, one_by_one + in_turn
            count, faster = count + 1, faster + (seconds < in_turn * (1 - 1e-9))
    return {
        "plans": count,
        "seconds": together / count,
        "one_by_one_seconds": one_by_one / count,
        "saved": 1.0 - together / one_by_one,
        "faster": faster / count,
    }


def walks(count: int) -> dict[str, int]:
    """Count the masked random walks per kind that end in a plan that its tools can run."""
    valid = {}
    for kind in KINDS:
        draw = random.Random(f"walks {kind}")
        valid[kind] = 0
        for _ in range(count):
            state = TplState(kind)
            while not state.done:
                state.push(draw.choice(state.actions()))
            state.plan().check_types(SIGNATURES)
            valid[kind] += 1
    return valid


def planners(profile: str, out: Path) -> list[dict[str, Any]]:
    """All planners on the whole test split."""
    return list(run(make_run_config("opencatp", profile=profile), out).document["rows"])


def ordered(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Return whether clairvoyant >= informed >= every prompted planner, on mean quality, by kind of task."""
    found = {}
    for kind in ("sequential", "nonsequential"):
        mean = {row["agent"]: row["quality_of_plan"] for row in rows if row["tasks"] == kind}
        found[kind] = mean["oracle"] >= mean["oracle-informed"] >= max(mean[name] for name in PROMPTED)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=None, help="default: the shipped one (the planners' run always)")
    parser.add_argument("--profile", default="v100")
    parser.add_argument("--out", type=Path, default=None, help="folder of the planners' run; default: a temporary one")
    parser.add_argument("--rollouts", type=int, default=10_000, help="random walks per kind")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    values = PlanValues(Evaluator(OutcomeTable.load(arguments.table), arguments.profile))
    report: dict[str, Any] = {"profile": arguments.profile}
    for title, complete in (("of all plans", False), ("of plans that leave no output out", True)):
        plans = informed_plans(values, complete)
        show = contents(plans)
        print(f"informed optimum {title}: restores in {show['restores_at_levels_0_and_1']:.1%} of the cells of levels 0 and 1,")
        print(f"leaves out a suggested restorer in {show['leaves_out_at_levels_2_and_3']:.1%} of those of levels 2 and 3")
        for row in show["by_level"]:
            print(f"  level {row['level']}: restores in {row['restores']} of {row['cells']}, ", end="")
            print(
                f"tasks without an image {row['restores_without_image_tasks']} of {row['cells_without_image_tasks']}; ", end=""
            )
            print(f"leaves out in {row['leaves_out']}; {row['used']}")
        frequent = most_frequent(plans)
        for name, row in frequent.items():
            print(f"{name}: one plan is best in {row['best_in']:.1%} of {row['cells']} cells, {row['plan']}; ", end="")
            print(f"one set of restorers in {row['restorers_best_in']:.1%}, {row['restorers']}")
        report["complete" if complete else "all"] = {"contents": show, "most_frequent": frequent}
    report["super_resolution"] = super_resolution(values)
    for row in report["super_resolution"]:
        print(
            f"level {row['level']}: with super-resolution quality {row['quality_with']:+.4f}, score {row['score_with']:.4f}; ",
            end="",
        )
        print(f"without {row['quality_without']:+.4f}, {row['score_without']:.4f}; better without {row['better_without']:.1%}")
    report["concurrency"] = concurrency(values)
    saved = report["concurrency"]
    print(
        f"oracle's non-sequential plans: {saved['seconds']:.3f} s at once, {saved['one_by_one_seconds']:.3f} s one by one ",
        end="",
    )
    print(f"({saved['saved']:.1%} saved; {saved['faster']:.1%} of {saved['plans']} plans are faster)")
    report["walks"] = walks(arguments.rollouts)
    print(f"valid of {arguments.rollouts:,} random walks: {report['walks']}")
    with tempfile.TemporaryDirectory() as scratch:
        report["rows"] = planners(arguments.profile, arguments.out or Path(scratch) / "run")
    for row in report["rows"]:
        print(f"{row['tasks']:14} {row['agent']:16} QoP {row['quality_of_plan']:+.4f}  score {row['score']:.4f}  ", end="")
        print(f"price {row['average_cost']:.4f}  {row['average_seconds']:.3f} s  valid {row['plan_validity']:.1%}")
    report["ordered"] = ordered(report["rows"])
    print(f"clairvoyant >= informed >= every prompted planner: {report['ordered']}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
