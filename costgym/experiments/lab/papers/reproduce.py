"""Reproduce a paper's table: published results, our results of the same systems in this world, and the claims that hold.

Our results are measured with the simulated model, or with deciders without a model. They show whether a system's *effects*
follow, not how good a real model is.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costgym.agents.btp.access import Btp
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.access import EcoAct
from costgym.agents.llm.session import LlmAgent, LlmSession
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.registry import make_agent
from costgym.envs.base import base_env
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.lab.papers.catp.play import play_policies, tables_of
from costgym.experiments.lab.papers.catp.policies import STEPS, train_policies
from costgym.experiments.lab.papers.claims import Results, btp_effects, deer_effects, ecoact_effects, toolplanner_effects
from costgym.experiments.lab.papers.common import RESAMPLES, Job, Progress, Row, interval_ends, text_env
from costgym.experiments.lab.papers.curves import BUDGET, Point, curve_rows, play_curves
from costgym.experiments.lab.papers.decisions import decision_rows
from costgym.experiments.lab.papers.instructions import difference_rows, follow_all, instruction_rows, planners, tag_rows
from costgym.experiments.lab.papers.protocols import PUBLISHED, Protocol, protocols
from costgym.experiments.lab.papers.published import PUBLISHED as PUBLISHED_ROWS
from costgym.experiments.lab.papers.published import published
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import describe_experience, past_uses
from costgym.experiments.play.metrics import paired_difference
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.rollout import play
from costgym.experiments.train.run import check_steps
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.files import write_atomically
from costgym.simulators.scenario import Scenario, load_scenario
from costgym.simulators.world import Episode

_BASES = ("react", "dfsdt", "tot-dfs")
BTP_AGENTS = tuple(
    f"{base}{access}"
    for base in _BASES
    for access in ("", "+prompt", "+btp", "+summary", "+btp-no-summary", "+btp-no-blacklist", "+btp-no-caps")
)
"""The paper's rows, and those that tell the parts of BTP apart: its final summary alone, and BTP without each part."""
ECOACT_AGENTS = (
    "react", "react+ecoact", "react+ecoact-several", "react+ecoact-described", "dfsdt", "dfsdt+ecoact",
)  # fmt: skip
DIFFERENCES = (
    "judged_pass_rate_under_budget", "pass_rate_under_budget", "judged_pass_rate", "pass_rate", "average_cost",
    "budget_failure_rate",
)  # fmt: skip
COMPARED_BUDGETS = (10.0, 20.0, 40.0)  # at which BTP is compared with its plain baselines, pair by pair
MEASURED = 200  # most episodes on which registered tools and plans are measured, which no record of an episode holds
ECOACT_REPLIES = 24  # over which registrations are counted, as many as the paper's steps
UNITS_PER_CENT = 10_000
"""EcoAct's cost counts the model's tokens only, so prices are in units so small that tool fees of 1 to 10 are negligible."""
GPT_4O = {"input": 500.0 * UNITS_PER_CENT, "output": 1500.0 * UNITS_PER_CENT}
"""Units per million tokens. Source: EcoAct's published script (5 and 15 USD per million)."""
DEFAULT_EPISODES = {"btp": 1000, "ecoact": 1000, "deer": 0, "toolplanner": 400, "catp": 0}
"""Number of episodes per agent, each on a different task; 0 means all samples."""
NOTES = {
    "btp": "PBC, AC and RFBC count tool fees only, as in the paper. An effect without a grading does not depend on it.",
    "ecoact": "Cost counts the model's tokens only, at the paper's prices for gpt-4o.",
    "deer": (
        "The error rates of the simulated deciders are those of the paper's table, so their rows only check the scoring; "
        "deer-rule and zoo:deer, which is trained here, are measured."
    ),
    "toolplanner": "Match, Pass and Win are defined as in the paper; facts are also graded, by the judge and strictly. "
    "zoo:toolplanner is a small model trained here, in both stages.",
    "catp": (
        "CATP, IFT and RLTF are small policies trained here and measured on unseen tasks and samples; the prompted planners "
        "are the simulated model. Figures 6 and 7 are pictures without numbers, so only their claims are checked."
    ),
}


def reproduce(
    name: str,
    seed: int = 0,
    episodes: int | None = None,
    jobs: int = 1,
    data: str | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    steps: int | None = None,
) -> dict[str, list[Row]]:
    """Compute our rows for the table of "btp", "ecoact", "deer", "toolplanner" or "catp", under the paper's own protocol and
    then that of the common board; see `protocols`. The same seed gives the same rows, whatever the number of jobs (processes).

    `episodes` counts those per agent (and level, or scale), each on a different task; None for `DEFAULT_EPISODES`. `out` is the
    folder of the runs, which a later call continues; None for a temporary one. `data` is a ToolDEER folder, for "deer" only;
    `steps` are the optimiser steps of each trained policy, for "catp" only.

    Returns ``{"paper": rows, "ours": rows, "effects": rows}``, for "btp", "catp" and "toolplanner" also ``"differences"`` (an
    agent less another one, with paired intervals), for "btp" and "catp" ``"curves"``, for "btp" ``"experience"``. Rows have the
    format of leaderboard rows with their `protocol`; the paper's contain only the metrics that the paper reports. An effect has
    `protocol`, `claim`, `grading` (empty if the claim does not depend on it), `measured`, `follows`, `by_construction`,
    `source`."""
    check_known("paper", name, PUBLISHED_ROWS)
    check_steps("--episodes", episodes)
    if data is not None and name != "deer":
        raise ConfigError("--data", "only deer takes a data folder")
    if steps is not None and name != "catp":
        raise ConfigError("--steps", "only catp trains policies")
    check_steps("--steps", steps)
    count = DEFAULT_EPISODES[name] if episodes is None else episodes
    found: dict[str, list[Row]]
    if name == "deer":
        found = {"ours": [], "effects": []}
        for protocol in protocols(name)[: 1 if data else None]:
            rows = decision_rows(count or None, seed, data, dict(protocol.source) or None)
            for side, own in (("ours", rows), ("effects", deer_effects(rows))):
                found[side] += [{**row, "protocol": protocol.name} for row in own]
    else:
        with nullcontext(out) if out is not None else tempfile.TemporaryDirectory() as folder:
            if name == "catp":
                names = train_policies(Path(folder) / "policies", seed, jobs, steps or STEPS, progress)
                found = tables_of(play_policies(names, seed, count or None, jobs, Path(folder) / "boards", progress), seed)
            else:
                found = _played(name, Job(seed, count, jobs, Path(folder), progress))
    return {"paper": published(name), **found}


def enlarged(scenario: Scenario, tasks: int) -> Scenario:
    """Return the scenario with at least the given number of test tasks."""
    source = scenario.source
    if source.kind != "marketplace" or source.test >= tasks:
        return scenario
    return scenario.model_copy(update={"source": source.model_copy(update={"test": tasks})})


def _played(name: str, job: Job) -> dict[str, list[Row]]:
    """Play all protocols of a paper; each row says which it is of."""
    found: dict[str, list[Row]] = {}
    for protocol in protocols(name):
        rows = play_protocol(name, protocol, job._replace(out=job.out / protocol.name))
        for side, own in rows.items():
            found.setdefault(side, []).extend({**row, "protocol": protocol.name} for row in own)
    return found


def play_protocol(name: str, protocol: Protocol, job: Job, agents: Sequence[str] | None = None) -> dict[str, list[Row]]:
    """Play the systems of "btp", "ecoact" or "toolplanner" under one protocol, or a variation of it; return tables and checked
    claims as `reproduce` does. Chosen agents, plain ones first, are played without BTP's curves."""
    return {"btp": _btp, "ecoact": _ecoact, "toolplanner": _toolplanner}[name](protocol, job, agents)


def _btp(protocol: Protocol, job: Job, agents: Sequence[str] | None) -> dict[str, list[Row]]:
    """Reproduce BTP with the judge grading, which the paper uses, and with the strict grading for comparison."""
    seed = job.seed
    scenario = protocol.scenario(enlarged(load_scenario("marketplace"), job.episodes))
    text = past_uses(scenario, protocol.experience, Local(job.processes), job.progress)
    rows, results = _run(scenario, agents or BTP_AGENTS, "price=20", job._replace(out=job.out / "btp"), protocol)
    own = {agent: played for agent, played in results.items() if agent.removesuffix("+btp") in _BASES}
    experience = job.out / "experience.jsonl"
    write_atomically(experience, text)
    for row in rows:
        if row["agent"] in (f"{base}+btp" for base in _BASES):
            plan = planned_uses(scenario, row["agent"], job, protocol, str(experience))
            row |= {**plan, "ci95": {**row["ci95"], **plan["ci95"]}}
    if agents is not None:
        return {"ours": rows, "effects": btp_effects(results, rows, (), seed)}
    points = play_curves(scenario, protocol, own, experience, job)
    curves = curve_rows(points, seed)
    return {
        "ours": rows,
        "differences": _differences(points, seed),
        "curves": curves,
        "effects": btp_effects(results, rows, curves, seed),
        "experience": [dict(describe_experience(text))],
    }


def _differences(points: Mapping[Point, Sequence[EpisodeResult]], seed: int) -> list[Row]:
    """BTP less its plain form at several budgets."""
    at = {(point.agent, point.at): played for point, played in points.items() if point.curve == "R"}
    found = []
    for base in _BASES:
        for budget in COMPARED_BUDGETS:
            pairs = {
                metric: paired_difference(at[f"{base}+btp", budget], at[base, budget], metric, seed=seed, resamples=RESAMPLES)
                for metric in DIFFERENCES
            }
            figures = {metric: pair.difference for metric, pair in pairs.items()}
            ends = {metric: list(pair.ci95) for metric, pair in pairs.items()}
            found.append({"agent": f"{base}+btp less {base}", "R": budget, **figures, "ci95": ends})
    return found


def _ecoact(protocol: Protocol, job: Job, agents: Sequence[str] | None) -> dict[str, list[Row]]:
    rows: list[Row] = []
    curves: list[Row] = []
    scales: dict[str, Results] = {}
    # the default scenario with costs dominated by the model's tokens
    prices = {"tokens": GPT_4O, "max_price": 1e7, "currency": "1/10,000 cent", "name": "ecoact"}
    world = Scenario.model_validate({**load_scenario("marketplace").model_dump(), **prices})
    for number, scale in enumerate(protocol.candidates):
        scenario = enlarged(protocol.scenario(world, scale), job.episodes)
        place, budget = job.out / f"ecoact-{number}", f"price={1e9:.0f}"
        found, scales[scale] = _run(scenario, agents or ECOACT_AGENTS, budget, job._replace(out=place), protocol)
        plain_costs = {row["agent"]: row["average_cost"] for row in found}
        for row in found:
            base, _, access = row["agent"].partition("+")
            row["group"] = scale
            row["cost_change"] = row["average_cost"] / plain_costs[base] - 1.0 if plain_costs[base] else 0.0
            row["average_cost"] /= UNITS_PER_CENT
            if "average_cost" in row["ci95"]:
                row["ci95"]["average_cost"] = [end / UNITS_PER_CENT for end in row["ci95"]["average_cost"]]
            row["budget"] = {}
            if access:
                shares = registered_shares(scenario, row["agent"], job, protocol)
                row["registered_share"] = float(shares[:, -1].mean())
                row["ci95"] |= interval_ends(["registered_share"], shares[:, -1:], seed=job.seed)
                if number == len(protocol.candidates) - 1:
                    common = {"curve": "step", "agent": row["agent"], "model": row["model"], "episodes": len(shares)}
                    curves += [
                        {**common, "at": at, "registered_share": float(share), "ci95": {}}
                        for at, share in enumerate(shares[:, :-1].mean(axis=0), 1)
                    ]
        rows += found
    return {"ours": rows, "curves": curves, "effects": ecoact_effects(scales, rows, job.seed)}


def _toolplanner(protocol: Protocol, job: Job, agents: Sequence[str] | None) -> dict[str, list[Row]]:
    # three tenths of the tasks are of group G3
    world = protocol.scenario(enlarged(load_scenario("marketplace"), 4 * job.episodes))
    kept = follow_all(agents or planners(), world, protocol, job)
    ours = instruction_rows(kept, job.seed)
    if protocol.name == PUBLISHED:
        ours += tag_rows(kept, world, job.seed)
    differences = difference_rows(kept, job.seed)
    return {"ours": ours, "differences": differences, "effects": toolplanner_effects(differences, ours)}


def registered_shares(scenario: Scenario, agent: str, job: Job, protocol: Protocol) -> NDArray[np.float64]:
    """Measure the share of candidate tools registered after each reply, then at the end.  # (episodes, replies + 1)"""
    shares = []
    for session, _ in _sessions(scenario, agent, job, protocol):
        access = next(part for part in session.access if isinstance(part, EcoAct))
        at = np.array(list(access.registered.values()))
        counts = [*((at <= reply).sum() for reply in range(1, ECOACT_REPLIES + 1)), len(at)]
        shares.append([count / len(session.candidates) for count in counts])
    return np.array(shares)


def planned_uses(scenario: Scenario, agent: str, job: Job, protocol: Protocol, past: str) -> Row:
    """Measure what BTP's plan allows beside what is used: mean uses and price of either, with their intervals."""
    figures = []
    for session, episode in _sessions(scenario, agent, job, protocol, past):
        plan = next(part for part in session.access if isinstance(part, Btp)).plan
        quotes = session.quotes()
        price = sum(quotes[name] * uses for name, uses in plan.items() if uses)
        figures.append([sum(plan.values()), price, len(session.executed), episode.ledger.price])
    names, values = ("planned_uses", "planned_cost", "uses", "used_cost"), np.array(figures, np.float64)
    means = dict(zip(names, values.mean(axis=0).tolist(), strict=True))
    return {**means, "ci95": interval_ends(names, values, seed=job.seed)}


def _sessions(
    scenario: Scenario, name: str, job: Job, protocol: Protocol, past: str | None = None
) -> Iterator[tuple[LlmSession, Episode]]:
    """Play a leaderboard's first episodes; yield each one's session of the agent, and the episode."""
    env = text_env(scenario, budget={} if past is None else {"price": BUDGET})
    search, btp = SearchSettings.chosen(protocol.search, name.partition("+")[0]), BtpSettings(**protocol.btp)
    agent = make_agent(name, model=protocol.model, experience=past, search=search, btp=btp)
    assert isinstance(agent, LlmAgent)
    for index in range(min(job.episodes, MEASURED)):
        number, world_seed, _ = base_env(env).instance(index, job.seed)
        play(env, agent, number, world_seed)
        assert agent.session is not None
        yield agent.session, base_env(env).account()


def _run(scenario: Scenario, agents: Sequence[str], budgets: str, job: Job, protocol: Protocol) -> tuple[list[Row], Results]:
    """Run a leaderboard; return its rows in the order of the agents, and its episodes by agent."""
    config = make_run_config(
        "btp",
        scenario=scenario,
        agents=agents,
        budgets=budgets,
        episodes=job.episodes,
        grading=protocol.grading,
        seed=job.seed,
        search=protocol.search,
        btp=protocol.btp,
        experience=protocol.experience,
        model=protocol.model,
    )
    document = run_leaderboard(config, job.out, job.processes, job.progress).document
    results: dict[str, list[EpisodeResult]] = {agent: [] for agent in agents}
    for result in read_episodes(job.out):
        results[result.agent].append(result)
    return sorted((dict(row) for row in document["rows"]), key=lambda row: agents.index(row["agent"])), results
