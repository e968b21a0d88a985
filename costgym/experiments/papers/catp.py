"""CATP-LLM: does a planner that is trained on costs make better plans for their price than prompted ones?

The policies that the tables compare are trained here, small: CATP under both protocols, without each of its parts, with three
weights of the score and in three widths, and the baselines IFT and RLTF. They and the prompted planners then plan unseen tasks
on unseen samples, in leaderboard runs of the suite `opencatp`; what does not depend on the protocol is played once.

The paper averages over groups of tasks, not over tasks: an average is the mean of the groups' means, however many tasks each
has. Plans that are not valid are left out of its means: with 70.2 % valid plans it has a score of 0.634, which would be 0.903
of the valid ones alone if the others counted as 0, far above every other row. So it is under the published protocol here;
under the board's an invalid plan has a quality of -0.5, and a score and price of 0.

Source: CATP-LLM (arXiv 2411.16313), Section 5, Tables 2 to 4, Figures 6 and 7.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.agents.catp.settings import CatpSettings
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.pages.charts import Panel, Series, panels
from costgym.experiments.papers.claims import (
    NONE,
    QUALITY_ALIKE,
    QUALITY_MARGIN,
    Results,
    effect,
    interval_ends,
    levels_of,
    printed,
    two_sided,
)
from costgym.experiments.papers.paper import BOARD, PUBLISHED, Job, Paper, Progress, Protocol, Row, Tables
from costgym.experiments.papers.pictures import curve
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.train.run import require_modules
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.opencatp.tasks import OpenCATPTask, task
from costgym.simulators.threads import torch_threads

# -- protocol ----------------------------------------------------------------------------------------------------------------

PROTOCOLS = (
    Protocol(
        PUBLISHED,
        "a policy for each kind of tasks, trained by the preset of the paper's text: Eq. 4's cumulative charge, the "
        "largest return of the data as the target, no discount; plans that are not valid are left out of the means",
    ),
    Protocol(
        BOARD,
        "one policy for both kinds of tasks, trained by the default settings of `costgym train catp`; a plan that is not "
        "valid has a Quality of Plan of -0.5",
    ),
)
ALPHA, ALPHAS = 0.5, (0.3, 0.5, 0.7)  # weights of the score in the Quality of Plan
KINDS = ("sequential", "nonsequential")

# -- agents ------------------------------------------------------------------------------------------------------------------

PROMPTED = ("zero-shot", "few-shot", "hugginggpt", "hydra")
METHODS = ("ift", "rltf")
BOUNDS = ("oracle-informed", "oracle")
BASES = (*PROMPTED, *METHODS)  # agents that CATP is compared with, plan by plan
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "catp-no-context": {"context": False},
    "catp-no-feedback": {"intermediate_feedback": False},
    "catp-no-mask": {"mask": False},
}
"""Source: CATP-LLM, Table 4."""
TEXT: Mapping[str, Any] = CatpSettings.preset("paper")
"""Settings of the published protocol: the paper's text."""
CHANGES: Mapping[str, Mapping[str, Any]] = {f"catp+{name}": {name: value} for name, value in TEXT.items()}
"""The settings of the published protocol, one at a time."""
# a quarter and twice the default's weights, about
SIZES: Mapping[str, Mapping[str, Any]] = {"catp-small": {"hidden_size": 32}, "catp-large": {"hidden_size": 96}}
STEPS = 800  # optimiser steps of a policy that learns from both kinds of tasks


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy to train.

    Every policy has as many optimiser steps as every other: joint ones learn from both kinds of tasks, those of the published
    protocol from one kind each, with half the steps.
    """

    agent: str  # its name in the tables
    protocol: str  # that it belongs to; "" for all
    tasks: str = "all"  # that it learns from and is measured on: "sequential", "nonsequential" or "all"
    alpha: float = ALPHA  # weight of the score in the Quality of Plan
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)  # fields of `CatpSettings` unlike the default

    @property
    def folder(self) -> str:
        """Name of the folder of its training run."""
        return "-".join(part for part in (self.protocol, self.agent, self.tasks, f"{self.alpha:g}") if part)

    @property
    def method(self) -> str:
        return self.agent if self.agent in METHODS else "catp"


def policies() -> tuple[Policy, ...]:
    """All policies of the reproduction; those that learn from the same plans are neighbours, unless the longest came last."""
    other_alphas = [alpha for alpha in ALPHAS if alpha != ALPHA]
    published: Mapping[str, Mapping[str, Any]] = {"catp": {}, **ABLATIONS}
    trained = [Policy("catp", BOARD), *(Policy(method, "") for method in METHODS)]
    trained += [Policy(agent, BOARD, settings=change) for agent, change in SIZES.items()]
    trained += [Policy("catp", BOARD, "all", alpha) for alpha in other_alphas]
    for kind in KINDS:
        trained += [Policy(agent, PUBLISHED, kind, ALPHA, {**TEXT, **change}) for agent, change in published.items()]
        trained += [Policy("catp", PUBLISHED, kind, alpha, TEXT) for alpha in other_alphas]
    trained += [Policy(agent, BOARD, settings=change) for agent, change in {**ABLATIONS, **CHANGES}.items()]
    return tuple(trained)


def train_policies(
    out: Path, seed: int, jobs: int, steps: int = STEPS, progress: Progress | None = None, **usual: Any
) -> dict[Policy, str]:
    """Train all policies in so many processes, or go on with those that are in the folder; return the agent's name of each. A
    policy takes so many optimiser steps, and half of them where it learns from one kind of tasks; `usual` are the fields of
    `CatpSettings` that all share, and further arguments of `train_catp`."""
    require_modules("torch", "transformers", "safetensors")
    to_train = policies()
    for done, _ in enumerate(Local(jobs).stream(_train, (str(out), seed, steps, usual), to_train), 1):
        if progress is not None:
            progress(done, len(to_train))
    return {policy: f"{policy.method}:{out / policy.folder}" for policy in to_train}


def _train(shared: tuple[str, int, int, dict[str, Any]], policy: Policy) -> Iterator[bool]:
    """Train one policy on one thread, so that its weights do not depend on the machine's number of processors."""
    from costgym.experiments.train.catp.train import train_catp, train_ift, train_rltf

    out, seed, steps, usual = shared
    trainer = {"catp": train_catp, "ift": train_ift, "rltf": train_rltf}[policy.method]
    steps = steps if policy.tasks == "all" else max(1, steps // 2)
    of_method = {"supervised_steps": steps // 2} if policy.method == "rltf" else {}
    with torch_threads(1):
        result = trainer(
            Path(out) / policy.folder,
            policy.tasks,
            steps,
            seed,
            evaluator=Evaluator(None, "v100", policy.alpha),
            device="cpu",
            save_every=50,
            **{**of_method, **usual, **policy.settings},
        )
    yield result.finished


# -- play --------------------------------------------------------------------------------------------------------------------

Played = dict[tuple[str, str, float], Results]  # episodes by agent, by protocol, kind of tasks and weight of the score


class Board(NamedTuple):
    """Agents that play the same plans."""

    folder: str
    tasks: str  # their kind
    alpha: float  # weight of the score
    agents: dict[str, str]  # what each agent of the tables is called in the registry


def reproduce(job: Job) -> Tables:
    """Train the policies, play them and the prompted planners, and form the tables of both protocols."""
    names = train_policies(job.out / "policies", job.seed, job.processes, job.steps or STEPS, job.progress)
    return tables_of(play_policies(names, job), job.seed)


def play_policies(names: Mapping[Policy, str], job: Job) -> Played:
    """Play prompted planners, bounds and the named policies; return their episodes under both protocols. The job's episodes are
    plans per agent, kind of tasks and weight of the score; 0 for every test task on every test sample."""
    boards: dict[str, Board] = {}
    parts: dict[tuple[str, str, float], tuple[str, str]] = {}
    for kind in KINDS:
        for alpha in ALPHAS:
            shared = {name: name for name in (*PROMPTED, *BOUNDS)}
            shared |= {policy.agent: name for policy, name in names.items() if not policy.protocol and policy.alpha == alpha}
            common = Board(f"shared-{kind}-{alpha:g}", kind, alpha, shared)
            boards[common.folder] = common
            for protocol in PROTOCOLS:
                agents = {
                    policy.agent: name
                    for policy, name in names.items()
                    if (policy.protocol, policy.alpha) == (protocol.name, alpha) and policy.tasks in (kind, "all")
                }
                folder = f"{protocol.name}-{kind}-{alpha:g}"
                boards[folder] = Board(folder, kind, alpha, agents)
                parts[protocol.name, kind, alpha] = common.folder, folder
    out = job.out / "boards"
    # a process plays whole boards, one after the other: what plans are worth on a sample is worked out once in each
    work = Local(job.processes).stream(_play, (job.seed, job.episodes or None, str(out), job.world), list(boards.values()))
    for done, _ in enumerate(work, 1):
        if job.progress is not None:
            job.progress(done, len(boards))
    return {
        key: {agent: played for folder in folders for agent, played in _read(boards[folder], out).items()}
        for key, folders in parts.items()
    }


def _play(shared: tuple[int, int | None, str, int], board: Board) -> Iterator[None]:
    """Run a leaderboard of the suite `opencatp`, or go on with it."""
    seed, episodes, out, world = shared
    vary = {"alpha": (board.alpha,), "tasks": (board.tasks,)}
    agents = list(board.agents.values())
    run_leaderboard(
        make_run_config("opencatp", agents=agents, episodes=episodes, seed=seed, vary=vary, world=world),
        Path(out) / board.folder,
    )
    yield None


def _read(board: Board, out: Path) -> dict[str, list[EpisodeResult]]:
    """Return the episodes of a board by the agents' names in the tables."""
    table_names = {name: agent for agent, name in board.agents.items()}
    episodes: dict[str, list[EpisodeResult]] = {agent: [] for agent in board.agents}
    for result in read_episodes(out / board.folder):
        agent = table_names[result.agent]
        episodes[agent].append(replace(result, agent=agent))
    return episodes


# -- table -------------------------------------------------------------------------------------------------------------------

AVERAGE = "average"
METRICS: Mapping[str, Callable[[EpisodeResult], float]] = {
    "quality_of_plan": lambda result: result.quality,
    "score": lambda result: float(result.figures["score"]),
    "average_cost": lambda result: result.price,
    "average_seconds": lambda result: result.seconds,
}
COLUMNS = (
    ("quality_of_plan", "QoP", "signed"),
    ("score", "score", "signed"),
    ("average_cost", "price, USD", "signed"),
    ("average_seconds", "seconds", "signed"),
    ("plan_validity", "valid %", "rate"),
)


def tables_of(played: Played, seed: int = 0) -> Tables:
    """Form rows, differences, curves and effects of episodes."""
    tables: Tables = {"ours": [], "differences": [], "curves": [], "effects": []}
    for protocol in PROTOCOLS:
        differences: list[Row] = []
        rows: list[Row] = []
        for (name, kind, alpha), results in played.items():
            if name == protocol.name:
                common: dict[str, Any] = {"tasks": kind, "alpha": alpha}
                rows += plan_rows(results, protocol.name, seed, average_only=alpha != ALPHA, **common)
                for ours, base in _pairs(results):
                    differences.append(difference_row(results, ours, base, protocol.name, seed, **common))
        tables["ours"] += rows
        tables["differences"] += differences
        tables["curves"] += _curves(rows)
        tables["effects"] += [{**row, "protocol": protocol.name} for row in check_claims(rows, differences)]
    return tables


def _pairs(results: Results) -> Sequence[tuple[str, str]]:
    """Agents that are compared plan by plan: CATP with every baseline, changed CATP with CATP, and the order of baselines."""
    changed = [name for name in results if name.startswith("catp") and name != "catp"]
    pairs = [("catp", base) for base in BASES] + [(name, "catp") for name in changed]
    pairs += [("few-shot", "zero-shot"), ("hugginggpt", "zero-shot"), ("hydra", "few-shot"), ("hydra", "hugginggpt")]
    pairs += [("rltf", "ift"), ("zero-shot", "rltf")]
    return [pair for pair in pairs if pair[0] in results and pair[1] in results]


def plan_rows(results: Results, protocol: str, seed: int = 0, average_only: bool = False, **common: Any) -> list[Row]:
    """Return the rows of some agents over the same episodes, one for each group of tasks (unless `average_only`) and one for
    their average; the protocol decides whether invalid plans are left out, and `common` are further entries of every row."""
    rows = []
    for agent, played in results.items():
        groups = dict.fromkeys(_group(result) for result in played)
        for group in (*([] if average_only else groups), AVERAGE):
            counted = [result for result in played if group in (AVERAGE, _group(result))]
            rows.append({"agent": agent, "group": group, **_figures(counted, protocol, seed), **common, "protocol": protocol})
    return rows


def difference_row(results: Results, ours: str, base: str, protocol: str, seed: int = 0, **common: Any) -> Row:
    """Return an agent's averages less those of another over the same episodes, with paired intervals; none without an episode
    that counts for both (the paper leaves out invalid plans)."""
    left, right = ({result.episode: result for result in results[name]} for name in (ours, base))
    episodes = [
        episode
        for episode in sorted(left.keys() & right.keys())
        if protocol != PUBLISHED or (_valid(left[episode]) and _valid(right[episode]))
    ]
    weights = _weights([left[episode] for episode in episodes])
    figures: dict[str, float] = {}
    ends: dict[str, list[float]] = {}
    for name, value in METRICS.items() if episodes else ():
        columns = np.array([[value(left[episode]), value(right[episode])] for episode in episodes])
        means = weights @ columns / weights.sum()
        figures[name] = float(means[0] - means[1])
        below = np.repeat(weights[:, None], 2, axis=1)
        ends |= interval_ends([name], columns * below, below, episodes, seed, difference=True)
    model = results[ours][0].model
    return {"agent": f"{ours} less {base}", "model": model, **figures, **common, "protocol": protocol, "ci95": ends}


def _figures(played: Sequence[EpisodeResult], protocol: str, seed: int) -> Row:
    valid = np.array([_valid(result) for result in played], np.float64)
    weights = _weights(played)
    # the paper's means leave invalid plans out: their weight is 0 in every column but the share of valid plans
    counted = weights * valid if protocol == PUBLISHED else weights
    columns = np.array([[*(value(result) for value in METRICS.values()), _valid(result)] for result in played], np.float64)
    below = np.stack([*([counted] * len(METRICS)), weights], axis=1)
    names = (*METRICS, "plan_validity")
    sums = below.sum(axis=0)
    figures = {
        name: float((columns[:, column] * below[:, column]).sum() / sums[column])
        for column, name in enumerate(names)
        if sums[column] > 0
    }
    ends = interval_ends(names, columns * below, below, [result.episode for result in played], seed)
    ends = {name: pair for name, pair in ends.items() if name in figures}
    return {"model": played[0].model, "episodes": len(played), **figures, "ci95": ends}


def _weights(played: Sequence[EpisodeResult]) -> NDArray[np.float64]:
    """Weight of each episode, so that every group of tasks weighs the same.  # (episodes,)"""
    groups = [_group(result) for result in played]
    return np.array([1.0 / groups.count(group) for group in groups])


def _group(result: EpisodeResult) -> str:
    return group_of(task(int(result.task.split("-")[1])))  # "sequential-24-sample-60"


def group_of(planned: OpenCATPTask) -> str:
    """Return the group of a task in the paper's tables, by what it wants of an image: "image", "text" or "image and text"."""
    kinds = {"image" if want.is_image else "text" for want in planned.wants}
    return " and ".join(sorted(kinds))


def _valid(result: EpisodeResult) -> bool:
    return bool(result.figures["plan_valid"])


def _curves(rows: Sequence[Row]) -> list[Row]:
    """Return the averages over the weight of the score (Figure 6) and over the policy's width (Figure 7)."""
    averages = [row for row in rows if row["group"] == AVERAGE]
    over_alpha = (*PROMPTED, "catp", "oracle-informed")
    curves = [{**row, "curve": "alpha", "at": row["alpha"]} for row in averages if row["agent"] in over_alpha]
    widths = {"catp": 64.0, **{name: float(change["hidden_size"]) for name, change in SIZES.items()}}
    for row in averages:
        if row["alpha"] == ALPHA and row["agent"] in widths and row["protocol"] == BOARD:
            curves.append({**row, "curve": "width", "at": widths[row["agent"]]})
    return curves


def draw_curves(rows: Sequence[Row]) -> str:
    """Plot Figures 6 and 7 with our figures as an SVG: the Quality of Plan of each agent over the weight of the score and over
    the policy's width, one picture for each curve and kind of tasks."""
    agents = list(dict.fromkeys(str(row["agent"]) for row in rows if row["curve"] == "alpha"))
    grid = []
    for name, label in (("alpha", "weight of the score, alpha"), ("width", "width of the policy")):
        shown = [row for row in rows if row["curve"] == name]
        if shown:
            grid.append([Panel(f"Quality of Plan, {kind}", label, _qualities(shown, kind, agents)) for kind in KINDS])
    return panels(grid)


def _qualities(rows: Sequence[Row], kind: str, agents: Sequence[str]) -> list[Series]:
    if rows[0]["curve"] == "width":
        return [curve("catp", [row for row in rows if row["tasks"] == kind], "quality_of_plan", agents.index("catp"))]
    points = {agent: [row for row in rows if (row["tasks"], row["agent"]) == (kind, agent)] for agent in agents}
    return [curve(agent, points[agent], "quality_of_plan", colour, agent != "catp") for colour, agent in enumerate(agents)]


# -- claims ------------------------------------------------------------------------------------------------------------------

TABLES = {"sequential": "Table 2", "nonsequential": "Table 3"}
ORDER = {
    "sequential": ("ift", "rltf", "zero-shot", "few-shot", "hugginggpt", "hydra", "catp"),
    "nonsequential": ("ift", "rltf", "zero-shot", "hugginggpt", "few-shot", "hydra", "catp"),
}
"""The planners by the published Quality of Plan with GPT-4 and Llama2-7B, lowest first."""
PROMPTED_ORDER = (("few-shot", "zero-shot"), ("hugginggpt", "zero-shot"), ("hydra", "few-shot"), ("hydra", "hugginggpt"))
PLAN_RATES = "the simulated model's rates `examples_help`, `steps_help` and `choice_slips` decide it"
MASKED = "the masks admit valid plans only"
ALL = 1.0 - 1e-9  # a share of everything, as far as a weighted sum has it


def check_claims(rows: Sequence[Row], differences: Sequence[Row]) -> list[Row]:
    """Check the claims under one protocol, with the rows of `difference_row`; CATP's are checked for every weight."""
    compared = _Compared(
        {(row["tasks"], row["alpha"], row["agent"]): row for row in rows if row["group"] == AVERAGE},
        {(row["tasks"], row["alpha"], row["agent"]): row for row in differences},
    )
    effects = [row for kind in KINDS for row in _check_qualities(compared, kind)]
    for base in ("zero-shot", "hydra"):
        row = compared.differences["nonsequential", ALPHA, f"catp less {base}"]
        follows = _ends(row, "average_seconds")[1] < 0
        claim = f"nonsequential: plans of CATP run faster than those of {base}"
        effects.append(effect(claim, _in_words(row, "average_seconds", " s"), follows, source="Table 3"))
    return effects + _check_ablations(compared) + _check_sizes(compared)


class _Compared(NamedTuple):
    """Averages and differences of averages, by kind of tasks, weight of the score and agent."""

    averages: Mapping[tuple[str, float, str], Row]
    differences: Mapping[tuple[str, float, str], Row]

    def check(self, claim: str, kind: str, ours: str, base: str, source: str, by: str = "", sign: int = 1) -> Row:
        """Check the claim that the quality of the first is above (sign 1) or below (-1) that of the second."""
        row = self.differences[kind, ALPHA, f"{ours} less {base}"]
        low, high = _ends(row)
        first, second = (f"{name}, GPT-4" if name in PROMPTED else name for name in (ours, base))
        paper = printed("catp", first, second, "quality_of_plan", 1.0, tasks=kind, group=AVERAGE)
        levels = levels_of(self.averages[kind, ALPHA, base], self.averages[kind, ALPHA, ours], "quality_of_plan", 1.0)
        points, follows = (row.get("quality_of_plan", NONE), low, high), (low > 0 if sign > 0 else high < 0)
        words = _in_words(row)
        return effect(f"{kind}: {claim}", words, follows, "", source, by, points, paper, levels, QUALITY_MARGIN)


def _check_qualities(compared: _Compared, kind: str) -> list[Row]:
    """Check the order of the planners by their Quality of Plan."""
    effects = []
    for base in ORDER[kind][:-1][::-1]:
        claim = f"the Quality of Plan of CATP is above that of {base}"
        effects.append(compared.check(claim, kind, "catp", base, TABLES[kind]))
    # of the trained baselines the order is measured; of the prompted ones the simulated model decides it
    for above, below in (("rltf", "ift"), ("zero-shot", "rltf")):
        effects.append(compared.check(f"{above} is above {below}", kind, above, below, TABLES[kind]))
    for above, below in PROMPTED_ORDER:
        effects.append(compared.check(f"{above} is above {below}", kind, above, below, TABLES[kind], PLAN_RATES))
    for alpha in (other for other in ALPHAS if other != ALPHA):
        best = max(PROMPTED, key=lambda name: compared.averages[kind, alpha, name].get("quality_of_plan", -1.0))
        row = compared.differences[kind, alpha, f"catp less {best}"]
        claim = f"{kind}, alpha {alpha:g}: CATP is above every prompted planner"
        effects.append(effect(claim, f"above {best} by {_in_words(row)}", _ends(row)[0] > 0, source="Figure 6"))
    return effects


def _check_ablations(compared: _Compared) -> list[Row]:
    """Check what each part of CATP is worth."""
    effects = [
        compared.check(f"without {what} the Quality of Plan falls", "sequential", f"catp-no-{name}", "catp", "Table 4", sign=-1)
        for name, what in (("context", "context augmentation"), ("feedback", "intermediate feedback"), ("mask", "masking"))
    ]
    row = compared.differences["sequential", ALPHA, "catp-no-feedback less catp"]
    follows = _ends(row, "average_cost")[0] > 0
    claim = "sequential: without intermediate feedback plans cost more"
    effects.append(effect(claim, _in_words(row, "average_cost", " USD"), follows, source="Table 4"))
    valid = compared.averages["sequential", ALPHA, "catp-no-mask"]["plan_validity"]
    claim = "sequential: without masking some plans are not valid"
    effects.append(effect(claim, f"{100 * valid:.1f} % valid", valid < ALL, source="Table 4"))
    masked = min(compared.averages[kind, ALPHA, "catp"]["plan_validity"] for kind in KINDS)
    claim = "with masking every plan is valid"
    effects.append(effect(claim, f"{100 * masked:.1f} % valid", masked >= ALL, source="Table 4", by=MASKED))
    return effects


def _check_sizes(compared: _Compared) -> list[Row]:
    """Check what a smaller policy loses; nothing where none was played."""
    small = compared.differences.get(("sequential", ALPHA, "catp-small less catp"))
    if small is None:
        return []
    claim = f"sequential: a smaller policy is comparable (within {QUALITY_ALIKE:g}, either way)"
    follows = two_sided(*_ends(small), margin=QUALITY_ALIKE) == "same"
    worse = compared.check("a smaller policy is worse", "nonsequential", "catp-small", "catp", "Figure 7", sign=-1)
    return [effect(claim, _in_words(small), follows, source="Figure 7"), worse]


def _ends(row: Row, metric: str = "quality_of_plan") -> tuple[float, float]:
    """Return the interval; without an episode to compare, one for which no claim holds."""
    low, high = row["ci95"].get(metric, (NONE, NONE))
    return low, high


def _in_words(row: Row, metric: str = "quality_of_plan", unit: str = "") -> str:
    if metric not in row:
        return "no episode with a valid plan of both"
    low, high = _ends(row, metric)
    return f"{row[metric]:+.3f}{unit} [{low:+.3f}, {high:+.3f}]"


PAPER = Paper(
    "catp",
    "CATP-LLM",
    PROTOCOLS,
    0,
    reproduce,
    "CATP, IFT and RLTF are small policies trained here and measured on unseen tasks and samples; the prompted planners "
    "are the simulated model. Figures 6 and 7 are pictures without numbers, so only their claims are checked.",
    COLUMNS,
    headings={"differences": "Plan by plan", "curves": "Over the weight of the score, and over the policy's width"},
    draw=draw_curves,
)
