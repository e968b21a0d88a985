"""BTP as a function of the budget R, of the threshold tau and of past uses: rows of three figures, and a plot of them.

Agents without BTP do not observe the budget and are not stopped by it, so their episodes at R = 20 also give the results at
every other R. Agents with BTP play new episodes at every point.

Source: BTP (arXiv 2402.15960), Sections 3.4 and 3.5, Figures 2 and 3. The curve over past uses is ours.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from costgym.agents.base import TEXT
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.registry import make_agent
from costgym.experiments.lab.papers.catp.policies import KINDS
from costgym.experiments.lab.papers.common import Job, Row, play_kept, text_env
from costgym.experiments.lab.papers.protocols import Protocol
from costgym.experiments.pages.charts import Panel, Series, panels
from costgym.experiments.play.experience import first_uses
from costgym.experiments.play.metrics import summarise
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.rollout import play_many
from costgym.simulators.files import write_atomically
from costgym.simulators.scenario import Scenario

BUDGETS = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0)
THRESHOLDS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
USES = (0.0, 1.0, 3.0, 10.0, 20.0)  # past uses a tool, besides those of the protocol
BUDGET, THRESHOLD = 20.0, 0.15  # each is fixed while the other one varies
FIGURES = (
    "judged_pass_rate_under_budget",
    "pass_rate_under_budget",
    "average_cost",
    "judged_pass_rate",
    "pass_rate",
    "budget_failure_rate",
)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a curve."""

    agent: str
    curve: str  # "R", "tau" or "uses"
    at: float  # position on the curve
    experience: str  # file of past uses that the agent plans from


Played = dict[Point, list[EpisodeResult]]


def play_curves(
    scenario: Scenario, protocol: Protocol, results: Mapping[str, Sequence[EpisodeResult]], experience: Path, job: Job
) -> Played:
    """Play every point that follows from no other and is not in the folder `curves` beside the experience; return the episodes
    of all. `results` are the job's episodes at R = 20 of the plain agents and of those with BTP. `experience` is the file of
    past tool uses for BTP; the first of them are written beside it."""
    # Plain agents neither see the budget nor stop at it: their episodes at one R are regraded at every other R, not played.
    bases = [name for name in results if "+" not in name]
    whole = str(experience)
    most = 0.0 if protocol.experience is None else protocol.experience.uses
    tools = len(scenario.build().catalog)
    cut = {most: whole}
    for at in USES:
        if at < most:
            path = experience.with_name(f"{experience.stem}-{at:g}{experience.suffix}")
            write_atomically(path, first_uses(experience.read_text(encoding="utf-8"), at * tools))
            cut[at] = str(path)
    found: Played = {}
    for agent in bases:
        for budget in BUDGETS:
            found[Point(agent, "R", budget, whole)] = [_within(result, budget) for result in results[agent]]
        for at in cut:
            found[Point(agent, "uses", at, whole)] = list(results[agent])
    points: list[Point] = []
    for agent in (f"{base}+btp" for base in bases):
        here = list(results[agent])
        found[Point(agent, "R", BUDGET, whole)] = found[Point(agent, "tau", THRESHOLD, whole)] = here
        found[Point(agent, "uses", most, whole)] = here
        points += [Point(agent, "R", budget, whole) for budget in BUDGETS if budget != BUDGET]
        points += [Point(agent, "tau", at, whole) for at in THRESHOLDS if at != THRESHOLD]
        points += [Point(agent, "uses", at, path) for at, path in cut.items() if at != most]
    past = hashlib.blake2b(experience.read_bytes(), digest_size=16).hexdigest()
    manifest = {
        "scenario": scenario.digest, "search": protocol.search, "btp": protocol.btp, "model": protocol.model,
        "experience": past, "episodes": job.episodes, "seed": job.seed,
    }  # fmt: skip
    shared = scenario.model_dump_json(), protocol, job.episodes, job.seed
    pieces = {f"{point.agent}-{point.curve}-{point.at:g}": point for point in points}
    kept = play_kept(experience.parent / "curves", manifest, play_point, shared, pieces, job.processes, job.progress)
    found |= {point: [EpisodeResult.from_json(line) for line in kept[name]] for name, point in pieces.items()}
    wanted = {"R": set(BUDGETS), "tau": set(THRESHOLDS), "uses": set(cut)}
    return {point: played for point, played in found.items() if point.at in wanted[point.curve]}


def curve_rows(played: Mapping[Point, Sequence[EpisodeResult]], seed: int) -> list[Row]:
    """Return one row per agent and point: `curve` ("R", "tau" or "uses"), `at`, and the metrics with their intervals."""
    order = list(dict.fromkeys(point.agent for point in played))
    points = sorted(played, key=lambda point: (point.curve, order.index(point.agent), point.at))
    return [_row(point, played[point], seed) for point in points]


def _within(result: EpisodeResult, budget: float) -> EpisodeResult:
    return replace(result, budget={"price": budget}, exceeded="price" if result.price > budget else None)


def _row(point: Point, results: Sequence[EpisodeResult], seed: int) -> Row:
    row = summarise(results, "judge", seed=seed)
    ends = {name: row["ci95"][name] for name in FIGURES if name in row["ci95"]}
    figures = {name: row[name] for name in FIGURES}
    return {
        "curve": point.curve, "at": point.at, "agent": point.agent, "model": row["model"], "budget": row["budget"],
        "episodes": row["episodes"], "grading": "judge", **figures, "ci95": ends,
    }  # fmt: skip


def play_point(shared: tuple[str, Protocol, int, int], point: Point) -> Iterator[str]:
    """Play the episodes of a point, in the scenario (JSON text), protocol, number and seed that all share; yield JSON text."""
    document, protocol, episodes, seed = shared
    settings = BtpSettings(**protocol.btp)
    if point.curve == "tau":
        settings = replace(settings, threshold=point.at)
    search = SearchSettings.chosen(protocol.search, point.agent.partition("+")[0])
    agent = make_agent(point.agent, model=protocol.model, experience=point.experience, btp=settings, search=search)
    env = text_env(Scenario.model_validate_json(document), budget={"price": point.at if point.curve == "R" else BUDGET})
    for result, _ in play_many(env, agent, TEXT, range(episodes), seed):
        yield result.to_json()


# -- the plot ----------------------------------------------------------------------------------------------------------------


def curves_svg(rows: Sequence[Row]) -> str:
    """Plot PBC and average cost over R, tau and past uses a tool as an SVG; solid lines with BTP, dashed lines without."""
    bases = list(dict.fromkeys(str(row["agent"]).partition("+")[0] for row in rows))
    grid = []
    figures = (
        ("judged_pass_rate_under_budget", "PBC, judge, %", 100.0),
        ("pass_rate_under_budget", "PBC, strict, %", 100.0),
        ("average_cost", "average cost", 1.0),
    )
    for metric, title, scale in figures:
        line = []
        for curve, label in (("R", "budget R"), ("tau", "threshold τ"), ("uses", "past uses a tool")):
            shown = [row for row in rows if row["curve"] == curve]
            if metric == "average_cost":
                shown = [row for row in shown if row["agent"].endswith("+btp")]
            line.append(Panel(title, label, _series(shown, metric, scale, bases)))
        grid.append(line)
    return panels(grid)


def _series(rows: Sequence[Row], metric: str, scale: float, bases: Sequence[str]) -> list[Series]:
    own = {agent: [row for row in rows if row["agent"] == agent] for agent in dict.fromkeys(str(row["agent"]) for row in rows)}
    return [
        _line(agent, points, metric, bases.index(agent.partition("+")[0]), not agent.endswith("+btp"), scale)
        for agent, points in own.items()
    ]


def steps_svg(rows: Sequence[Row]) -> str:
    """Plot the share of registered tools over the replies as an SVG, beside the 30 % of EcoAct's Figure 4."""
    agents = dict.fromkeys(str(row["agent"]) for row in rows)
    lines = [
        _line(agent, [row for row in rows if row["agent"] == agent], "registered_share", place, scale=100.0)
        for place, agent in enumerate(agents)
    ]
    ends = [rows[0]["at"], rows[-1]["at"]]
    lines.append(Series("the paper, at the end", ends, [30.0, 30.0], len(agents), dashed=True))
    return panels([[Panel("registered tools, % of those on offer, above 20", "replies", lines)]])


def plans_svg(rows: Sequence[Row]) -> str:
    """Plot CATP-LLM's Figures 6 and 7 with our figures as an SVG: the Quality of Plan of each agent over the weight of the
    score and over the policy's width, one picture for each curve and kind of tasks."""
    agents = list(dict.fromkeys(str(row["agent"]) for row in rows if row["curve"] == "alpha"))
    grid = []
    for curve, label in (("alpha", "weight of the score, alpha"), ("width", "width of the policy")):
        own = [row for row in rows if row["curve"] == curve]
        if own:
            grid.append([Panel(f"Quality of Plan, {kind}", label, _plans(own, kind, agents)) for kind in KINDS])
    return panels(grid)


def _plans(rows: Sequence[Row], kind: str, agents: Sequence[str]) -> list[Series]:
    if rows[0]["curve"] == "width":
        return [_line("catp", [row for row in rows if row["tasks"] == kind], "quality_of_plan", agents.index("catp"))]
    own = {agent: [row for row in rows if (row["tasks"], row["agent"]) == (kind, agent)] for agent in agents}
    return [_line(agent, own[agent], "quality_of_plan", place, agent != "catp") for place, agent in enumerate(agents)]


def _line(name: str, rows: Sequence[Row], metric: str, colour: int, dashed: bool = False, scale: float = 1.0) -> Series:
    points = sorted((row["at"], row[metric] * scale) for row in rows)
    return Series(name, [at for at, _ in points], [value for _, value in points], colour, dashed=dashed)
