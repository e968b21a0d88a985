"""The OpenCATP leaderboard: planners over the test tasks and samples, by kind of task and weight of the score.

Columns are those of CATP-LLM's Tables 2 and 3: task score, price, execution time, Quality of Plan, share of valid plans.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from ...agents.opencatp import make_planner
from ...agents.opencatp.base import ENV_ID, Situation
from ...simulators.draws import stable_integer
from ...simulators.errors import ConfigError, InvalidPlan, UnknownName
from ...simulators.opencatp.levels import LEVELS
from ...simulators.opencatp.plan_space import PlanValues
from ...simulators.opencatp.scoring.evaluation import Evaluator, sample_level, split_samples
from ...simulators.opencatp.tasks import OpenCATPTask, tasks
from ...simulators.plan import Plan
from ...simulators.quality import INVALID_PLAN_REWARD, check_alpha
from ...simulators.version import __version__
from ..files import sole_writer, write_atomically
from ..statistics import intervals
from .board import FORMAT, check_owner
from .submissions.manifest import weights_of

KINDS = ("sequential", "nonsequential")
AGENTS = (
    "oracle", "oracle-informed", "greedy", "hydra", "hugginggpt", "few-shot", "zero-shot", "fixed-all", "fixed-none", "random",
)  # fmt: skip
SUCCESS_SCORE = 0.5
RESAMPLES = 2000
METRICS = (
    "score",
    "average_cost",
    "average_seconds",
    "quality_of_plan",
    "plan_validity",
    "pass_rate",
    "regret",
    "average_tokens",
)

Progress = Callable[[int, int], None]


class PlanRun(BaseModel):
    """All that determines the bytes of an OpenCATP leaderboard."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: str = FORMAT
    version: str = __version__
    suite: str = "opencatp"
    agents: tuple[str, ...]
    alphas: tuple[float, ...]
    kinds: tuple[str, ...] = KINDS
    split: str = "test"
    profile: str = "v100"
    episodes: int | None = None
    seed: int = 0
    model: str = "simulated"
    weights: dict[str, str] = {}  # pydantic copies it


@dataclass(frozen=True, slots=True)
class PlanBoard:
    """A finished run: its folder and the content of `leaderboard.json`."""

    folder: Path
    document: dict[str, Any]

    @property
    def page(self) -> Path:
        return self.folder / "index.html"


@dataclass(frozen=True, slots=True)
class PlanResult:
    """One planner on one sample.

    Attributes:
        task, sample, level: what was asked.
        plan: as a flat list; None where it was none.
        problem: why it was none.
        score, price, seconds, quality: what it came to. A plan that is none scores 0, costs nothing, and has the published
            penalty as its quality.
        one_by_one_s: its time without concurrency.
        best: quality of the best plan for this sample.
        tokens: of the language model.
    """

    task: int
    sample: int
    level: int
    plan: list[Any] | None
    problem: str
    score: float
    price: float
    seconds: float
    quality: float
    one_by_one_s: float
    best: float
    tokens: int


def plan_run(
    agents: Sequence[str] | None = None,
    alphas: Sequence[float] = (0.5,),
    split: str = "test",
    profile: str = "v100",
    episodes: int | None = None,
    seed: int = 0,
    model: str = "simulated",
) -> PlanRun:
    """What to run, checked before anything runs.

    Raises:
        UnknownName: an agent or split that there is not.
        ConfigError: an alpha outside (0, 1), or another number that makes no sense.
    """
    names = tuple(agents or AGENTS)
    for name in names:
        make_planner(name, model)
    for alpha in alphas:
        check_alpha(alpha, "--alpha")
    if len(set(alphas)) < len(alphas) or len(set(names)) < len(names):
        raise ConfigError("--agents, --alpha", "expected every value once")
    if split not in ("train", "test"):
        raise UnknownName("split", split, ("train", "test"))
    if episodes is not None and episodes < 1:
        raise ConfigError("--episodes", f"expected a positive whole number, got {episodes!r}")
    return PlanRun(
        agents=names,
        alphas=tuple(alphas),
        split=split,
        profile=profile,
        episodes=episodes,
        seed=seed,
        model=model,
        weights=weights_of(names),
    )


def situations(kind: str, split: str, samples: range, episodes: int | None) -> list[tuple[OpenCATPTask, int]]:
    """Tasks and samples of a row, the same for every planner: all of them, or the first so many, tasks in turn."""
    pairs = [(task, sample) for sample in samples for task in tasks(kind, split)]
    return pairs if episodes is None else pairs[:episodes]


def play_planner(
    name: str, evaluator: Evaluator, values: PlanValues, pairs: Sequence[tuple[OpenCATPTask, int]], seed: int, model: str
) -> list[PlanResult]:
    """Every situation planned and looked up."""
    planner = make_planner(name, model)
    results = []
    for task, sample in pairs:
        level = sample_level(task, sample)
        chance = stable_integer(seed, "plan", task.task_id, sample) >> 1
        proposal = planner.propose(Situation(task, sample, level, evaluator, chance))
        tokens = proposal.usage.input_tokens + proposal.usage.output_tokens
        results.append(evaluated(proposal.plan, proposal.problem, task, sample, evaluator, values, tokens))
    return results


def evaluated(
    plan: Plan | None, problem: str, task: OpenCATPTask, sample: int, evaluator: Evaluator, values: PlanValues, tokens: int
) -> PlanResult:
    """What a plan comes to on a sample; `problem` says why there is none."""
    level = sample_level(task, sample)
    best = float(values.qualities(task, level)[sample].max())
    if plan is not None:
        try:
            outcome = evaluator.evaluate(plan, task, sample, level)
        except InvalidPlan as error:
            plan, problem = None, str(error)
    if plan is None:
        return PlanResult(task.task_id, sample, level, None, problem, 0.0, 0.0, 0.0, INVALID_PLAN_REWARD, 0.0, best, tokens)
    one_by_one = sum(evaluator.profile.seconds(tool, level) for tool in plan.nodes)
    figures = (outcome.score, outcome.price, outcome.seconds, outcome.quality, one_by_one, best)
    return PlanResult(task.task_id, sample, level, plan.to_list(), "", *figures, tokens)


def run(plan: PlanRun, out: str | Path, progress: Progress | None = None) -> PlanBoard:
    """Run an OpenCATP leaderboard. It takes seconds, so a run that was killed begins anew and ends with the same bytes.

    Raises:
        ConfigError: the folder belongs to another run.
        DataError: there is no outcome table or profile.
    """
    folder = Path(out)
    manifest = json.dumps(plan.model_dump(mode="json"), indent=1) + "\n"
    total = len(plan.alphas) * len(plan.kinds) * len(plan.agents)
    done = 0
    evaluators = [Evaluator(None, plan.profile, alpha) for alpha in plan.alphas]
    models = {name: make_planner(name, plan.model).model for name in plan.agents}
    folder.mkdir(parents=True, exist_ok=True)
    check_owner(manifest, folder)
    rows, lines = [], []
    with sole_writer(folder):
        write_atomically(folder / "run.json", manifest)
        for evaluator in evaluators:
            values = PlanValues(evaluator)
            for kind in plan.kinds:
                samples = split_samples(evaluator.scores.samples, plan.split)
                pairs = situations(kind, plan.split, samples, plan.episodes)
                for name in plan.agents:
                    results = play_planner(name, evaluator, values, pairs, plan.seed, plan.model)
                    rows.append(row_of(name, models[name], kind, evaluator.alpha, results, plan))
                    lines += [line_of(name, kind, evaluator.alpha, index, result) for index, result in enumerate(results)]
                    done += 1
                    if progress is not None:
                        progress(done, total)
        document: dict[str, Any] = {
            "format": FORMAT,
            "suite": plan.suite,
            "seed": plan.seed,
            "version": plan.version,
            "scenario": {
                "name": "opencatp",
                "description": "Vision tools were really executed beforehand; plans are looked up and priced by the profile.",
                "currency": "USD",
                "profile": plan.profile,
                "split": plan.split,
            },
            "rows": sorted(
                rows, key=lambda row: (row["alpha"], KINDS.index(row["tasks"]), -row["quality_of_plan"], row["agent"])
            ),
        }
        write_atomically(folder / "plans.jsonl", "".join(lines))
        write_atomically(folder / "leaderboard.json", json.dumps(document, indent=1) + "\n")
        from ..reports.learning_curves import curves_section
        from ..reports.opencatp_page import render

        write_atomically(folder / "index.html", render(document, curves_section(document["rows"])))
    return PlanBoard(folder, document)


def row_of(name: str, model: str, kind: str, alpha: float, results: Sequence[PlanResult], plan: PlanRun) -> dict[str, Any]:
    """A leaderboard row from its plans; `model` is the language model behind the planner, if any."""
    table = np.array(
        [
            (r.score, r.price, r.seconds, r.quality, r.plan is not None, r.score >= SUCCESS_SCORE, r.best - r.quality, r.tokens)
            for r in results
        ],
        dtype=np.float64,
    )
    # sums in a fixed order, whatever the number of threads
    figures = {metric: round(float(sum(table[:, m].tolist()) / len(results)), 12) for m, metric in enumerate(METRICS)}
    lows, highs = intervals(table, np.ones_like(table), range(len(results)), plan.seed, RESAMPLES)
    by_level = []
    for level in range(LEVELS):
        own = [r for r in results if r.level == level]
        by_level.append(
            {
                "level": level,
                "episodes": len(own),
                **{
                    key: round(sum(getattr(r, key) for r in own) / len(own), 12) if own else None
                    for key in ("score", "price", "seconds", "quality")
                },
            }
        )
    return {
        "agent": name,
        "model": model,
        "env": ENV_ID,
        "tasks": kind,
        "alpha": alpha,
        "budget": {},
        "episodes": len(results),
        "grading": "strict",
        **figures,
        "pass_rate_under_budget": figures["pass_rate"],
        "judged_pass_rate": figures["pass_rate"],
        "judged_pass_rate_under_budget": figures["pass_rate"],
        "budget_failure_rate": 0.0,
        "tool_error_rate": 0.0,
        "average_seconds_one_by_one": round(sum(r.one_by_one_s for r in results) / len(results), 12),
        "by_level": by_level,
        "ci95": {m: [round(float(lo), 12), round(float(hi), 12)] for m, lo, hi in zip(METRICS, lows, highs, strict=True)},
    }


def line_of(name: str, kind: str, alpha: float, index: int, result: PlanResult) -> str:
    """A plan's line in `plans.jsonl`."""
    record = {"agent": name, "tasks": kind, "alpha": alpha, "episode": index}
    record |= {key: getattr(result, key) for key in PlanResult.__slots__}
    return json.dumps(record, separators=(",", ":")) + "\n"


def print_plans(document: dict[str, Any], console: Any) -> None:
    """The rows as the paper's tables have them, one table a kind of task."""
    from rich import box
    from rich.table import Table

    for alpha in sorted({row["alpha"] for row in document["rows"]}):
        for kind in KINDS:
            rows = [row for row in document["rows"] if row["tasks"] == kind and row["alpha"] == alpha]
            if not rows:
                continue
            title = f"opencatp, {kind} tasks, alpha {alpha:g}, {rows[0]['episodes']} plans a row, seed {document['seed']}"
            table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
            for head, justify in (
                ("agent", "left"),
                *((h, "right") for h in ("QoP", "score", "price", "time s", "valid %", "regret")),
            ):
                table.add_column(head, justify=justify)  # type: ignore[arg-type]
            for row in rows:
                mark = " †" if row["model"] == "simulated" else ""
                table.add_row(
                    row["agent"] + mark,
                    f"{row['quality_of_plan']:.3f}",
                    f"{row['score']:.3f}",
                    f"{row['average_cost']:.4f}",
                    f"{row['average_seconds']:.2f}",
                    f"{100 * row['plan_validity']:.1f}",
                    f"{row['regret']:.3f}",
                )
            console.print(table)
    console.print("† a simulated language model: its figures say nothing of a real one", style="dim")
