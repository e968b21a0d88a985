"""CATP-LLM beside its ablations, the trained baselines and the prompted ones, on unseen tasks and samples.

    python benchmarks/learning/catp.py                                  # trains and measures everything
    python benchmarks/learning/catp.py --only catp,baselines --steps 2000 --minutes 20
    python benchmarks/learning/catp.py --only catp,no-feedback,no-mask --steps 400 --seeds 0,1,2   # and the mean over seeds
    python benchmarks/learning/catp.py --pools seq_plan_pool.json       # learns from recorded plans instead

Runs are kept under --out and gone on with when the script is called again. `share` is the mean Quality of Plan over that of the
informed optimum (the best fixed plan per task and size level on the train samples, out of the space of sensible plans).
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from costgym.agents.catp import CatpPlanner
from costgym.agents.opencatp.base import Planner, Situation, actions_of
from costgym.agents.registry import make_planner
from costgym.envs.tpl import END, TplState, kind_of
from costgym.experiments.train.catp.measure import Figures, PlanOf, measure
from costgym.experiments.train.catp.train import train_catp, train_ift, train_rltf
from costgym.experiments.train.run import Callback, TrainingResult, TrainingStep
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import require
from costgym.simulators.opencatp import OpenCATPTask, load_pool, task, tasks
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, shipped_outcomes
from costgym.simulators.plan import Plan

KINDS = ("sequential", "nonsequential")
TRAINED: dict[str, tuple[Callable[..., TrainingResult], dict[str, Any]]] = {
    "catp": (train_catp, {}),
    "no-context": (train_catp, {"context": False}),
    "no-context-not-told": (train_catp, {"context": False, "size_words": False}),
    "no-feedback": (train_catp, {"intermediate_feedback": False}),
    "no-mask": (train_catp, {"mask": False}),
    "ift": (train_ift, {}),
    "rltf": (train_rltf, {}),
}
BASELINES = ("zero-shot", "few-shot", "hugginggpt", "hydra", "random", "greedy")
OPTIMA = ("oracle-informed", "oracle")


def plans_of(planner: Planner, evaluator: Evaluator, seed: int = 0) -> PlanOf:
    """Convert a planner to a function that returns None for plans forbidden by the planning language's masks."""

    def plan_of(task: OpenCATPTask, sample: int, level: int) -> Plan | None:
        chance = stable_integer(seed, "measure", task.task_id, sample)
        plan = planner.propose(Situation(task, sample, level, evaluator, chance, complete=True)).plan
        if plan is None:
            return None
        state = TplState(kind_of(task))
        for choice in actions_of(plan, kind_of(task)):
            if not state.legal >> choice & 1:
                return None
            state.push(choice)
            if choice == END:
                return state.plan()
        return None

    return plan_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/catp"), help="folder of the runs")
    parser.add_argument("--steps", type=int, default=None, help="optimiser steps of each run; default: each method's own")
    parser.add_argument("--minutes", type=float, default=20.0, help="most minutes of training for each run")
    parser.add_argument("--seeds", default="0", help="one run of each method per seed, with commas between")
    parser.add_argument("--tasks", default="all", help="sequential, nonsequential or all")
    parser.add_argument("--only", default="", help=f"some of {', '.join([*TRAINED, 'baselines'])}, with commas between")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=JSON", help="another setting of the trained policies"
    )
    parser.add_argument("--outcomes", default=None, help="an outcome table; default: the shipped one")
    parser.add_argument("--pools", type=Path, nargs="*", default=[], help="plan pools to learn from, one run each")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=None, help="also write the rows to a file")
    args = parser.parse_args()
    require("torch", "train").set_num_threads(args.threads)
    settings = {name: json.loads(value) for name, value in (each.split("=", 1) for each in args.set)}
    if args.steps is not None:
        settings["steps"] = args.steps
    rows = []
    for seed in [int(seed) for seed in args.seeds.split(",")]:
        args.seed = seed
        rows += _pools(args, settings) if args.pools else _table(args, settings)
    if not args.pools and "," in args.seeds:
        _means(rows)
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


def _table(args: argparse.Namespace, settings: dict[str, Any]) -> list[dict[str, Any]]:
    evaluator = Evaluator(shipped_outcomes(args.outcomes))
    chosen = [name for name in args.only.split(",") if name] or [*TRAINED, "baselines"]
    informed: dict[str, float] = {}
    rows: list[dict[str, Any]] = []

    def show(name: str, planner: Any) -> None:
        for kind in KINDS if args.tasks == "all" else (args.tasks,):
            measured = measure(plans_of(planner, evaluator, args.seed), tasks(kind, "test"), "test", evaluator)
            if name == "oracle-informed":
                informed[kind] = measured.quality
            rows.append({"policy": name, "tasks": kind, "seed": args.seed, **_columns(measured, informed[kind])})
            _print(rows[-1])

    print(f"{'policy':18} {'tasks':14} {'QoP':>7} {'share':>7} {'score':>7} {'price':>7} {'s':>7} {'valid':>6}", flush=True)
    for name in OPTIMA:
        show(name, make_planner(name))
    if "baselines" in chosen:
        for name in BASELINES:
            show(name, make_planner(name))
    for name, (train, own) in TRAINED.items():
        if name in chosen:
            run = args.out / f"{name}-{args.tasks}-{args.seed}"
            options = {"evaluator": evaluator, "tasks": args.tasks, "check_every": 500, **settings, **own}
            print(_train(train, run, args, **options)[0], flush=True)
            show(name, CatpPlanner(run))
    return rows


def _means(rows: list[dict[str, Any]]) -> None:
    """Return what each policy reaches over all seeds; `both` weighs the two kinds of tasks alike."""
    print("\nmean over seeds")
    for name in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == name]
        for kind in (*dict.fromkeys(row["tasks"] for row in own), "both"):
            some = [row for row in own if kind in (row["tasks"], "both")]
            figures = {
                key: sum(row[key] for row in some) / len(some) for key in some[0] if key not in ("policy", "tasks", "seed")
            }
            _print({"policy": name, "tasks": kind, **figures})


def _columns(found: Figures, informed: float) -> dict[str, float]:
    return {
        "quality": found.quality,
        "share": found.quality / informed,
        "score": found.score,
        "price_usd": found.price_usd,
        "seconds": found.seconds,
        "valid": found.valid,
    }


def _print(row: dict[str, Any]) -> None:
    print(
        f"{row['policy']:18} {row['tasks']:14} {row['quality']:7.4f} {row['share']:7.1%} {row['score']:7.4f} "
        f"{row['price_usd']:7.4f} {row['seconds']:7.2f} {row['valid']:6.1%}",
        flush=True,
    )


class _Until(Callback):
    """Stops a run that takes too long."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes

    def on_step(self, step: TrainingStep) -> bool:
        return time.monotonic() > self._end


def _train(
    train: Callable[..., TrainingResult], run: Path, args: argparse.Namespace, **settings: Any
) -> tuple[str, dict[str, float]]:
    """Trains a run; what it took, and its metrics."""
    began, cpu = time.monotonic(), time.process_time()
    result = train(run, seed=args.seed, callback=_Until(args.minutes), **settings)
    minutes, cpu_minutes = (time.monotonic() - began) / 60, (time.process_time() - cpu) / 60
    figures = ", ".join(f"{name} {value:.4f}" for name, value in result.metrics.items()) or "stopped"
    return f"# {run}: {result.steps} steps, {minutes:.1f} min ({cpu_minutes:.1f} of the CPU), {figures}", result.metrics


def _pools(args: argparse.Namespace, settings: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    # recorded plans bring their own scores; of the evaluator only the prices are asked
    evaluator = Evaluator(shipped_outcomes(args.outcomes))
    for path in args.pools:
        kind = task(load_pool(path)[0].task_id).kind
        window = 10 if kind == "sequential" else 12
        options = {"pool": [path], "tasks": kind, "evaluator": evaluator, "window": window, "steps": 1000, **settings}
        told, found = _train(train_catp, args.out / f"pool-{path.stem}-{args.seed}", args, **options)
        print(told, flush=True)
        if not found:
            continue
        rows.append({"pool": path.name, **found})
        print(f"  choices right: {found['choice_accuracy']:.1%} (drawing among the legal ones: {found['choice_chance']:.1%})")
        print(f"  return of recorded plans: mean {found['pool_mean']:.4f}, best per task and sample {found['pool_best']:.4f}")
        print(f"  of the recorded plan it finds most likely: {found['chosen']:.4f} over {found['pairs']:.0f} tasks and samples")
        written = found.get("written", float("nan"))
        print(f"  of the plans it writes: {written:.4f} over the {found['covered']:.1%} that were recorded there")
    return rows


if __name__ == "__main__":
    main()
