"""Play CATP-LLM's tables: the trained policies and the prompted planners on unseen tasks and unseen samples.

The episodes are those of leaderboard runs of the suite `opencatp`: test tasks, each on the samples that no policy saw in
training. What does not depend on the protocol, such as the prompted planners, is played once.

Source: CATP-LLM (arXiv 2411.16313), Section 5 and Tables 2 to 4, Figures 6 and 7.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.lab.papers.catp.policies import ALPHA, ALPHAS, KINDS, METHODS, SIZES, Policy
from costgym.experiments.lab.papers.catp.rows import Results, difference_row, plan_rows
from costgym.experiments.lab.papers.claims import PROMPTED, catp_effects
from costgym.experiments.lab.papers.common import Progress, Row
from costgym.experiments.lab.papers.protocols import BOARD, PROTOCOLS
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.results import EpisodeResult

BOUNDS = ("oracle-informed", "oracle")
BASES = (*PROMPTED, *METHODS)  # agents that CATP is compared with, plan by plan
Played = dict[tuple[str, str, float], Results]  # episodes by agent, by protocol, kind of tasks and weight of the score


class Board(NamedTuple):
    """Agents that play the same plans."""

    folder: str
    tasks: str  # their kind
    alpha: float  # weight of the score
    agents: dict[str, str]  # what each agent of the tables is called in the registry


def play_policies(
    names: dict[Policy, str], seed: int, episodes: int | None, jobs: int, out: Path, progress: Progress | None = None
) -> Played:
    """Play prompted planners, bounds and policies; return their episodes under both protocols. `episodes` counts the plans per
    agent, kind of tasks and weight of the score; None for every test task on every test sample."""
    boards: dict[str, Board] = {}
    parts: dict[tuple[str, str, float], tuple[str, str]] = {}
    for kind in KINDS:
        for alpha in ALPHAS:
            shared = {name: name for name in (*PROMPTED, *BOUNDS)}
            shared |= {policy.agent: name for policy, name in names.items() if not policy.protocol and policy.alpha == alpha}
            common = Board(f"shared-{kind}-{alpha:g}", kind, alpha, shared)
            boards[common.folder] = common
            for protocol in PROTOCOLS["catp"]:
                own = {
                    policy.agent: name
                    for policy, name in names.items()
                    if (policy.protocol, policy.alpha) == (protocol.name, alpha) and policy.tasks in (kind, "all")
                }
                place = f"{protocol.name}-{kind}-{alpha:g}"
                boards[place] = Board(place, kind, alpha, own)
                parts[protocol.name, kind, alpha] = common.folder, place
    # a process plays whole boards, one after the other: what plans are worth on a sample is worked out once in each
    for done, _ in enumerate(Local(jobs).stream(_play, (seed, episodes, str(out)), list(boards.values())), 1):
        if progress is not None:
            progress(done, len(boards))
    return {
        key: {agent: played for place in places for agent, played in _read(boards[place], out).items()}
        for key, places in parts.items()
    }


def tables_of(played: Played, seed: int = 0) -> dict[str, list[Row]]:
    """Rows, differences, curves and effects of episodes."""
    found: dict[str, list[Row]] = {"ours": [], "differences": [], "curves": [], "effects": []}
    for protocol in PROTOCOLS["catp"]:
        own = {(kind, alpha): results for (name, kind, alpha), results in played.items() if name == protocol.name}
        compared: list[Row] = []
        rows: list[Row] = []
        for (kind, alpha), results in own.items():
            common: dict[str, Any] = {"tasks": kind, "alpha": alpha}
            rows += plan_rows(results, protocol.name, seed, average_only=alpha != ALPHA, **common)
            for ours, base in _pairs(results):
                compared.append(difference_row(results, ours, base, protocol.name, seed, **common))
        found["ours"] += rows
        found["differences"] += compared
        found["curves"] += _curves(rows)
        effects = catp_effects(rows, compared)
        found["effects"] += [{**row, "protocol": protocol.name} for row in effects]
    return found


def _pairs(results: Results) -> Sequence[tuple[str, str]]:
    """Agents that are compared plan by plan: CATP with every baseline, changed CATP with CATP, and the order of baselines."""
    changed = [name for name in results if name.startswith("catp") and name != "catp"]
    wanted = [("catp", base) for base in BASES] + [(name, "catp") for name in changed]
    wanted += [("few-shot", "zero-shot"), ("hugginggpt", "zero-shot"), ("hydra", "few-shot"), ("hydra", "hugginggpt")]
    wanted += [("rltf", "ift"), ("zero-shot", "rltf")]
    return [pair for pair in wanted if pair[0] in results and pair[1] in results]


def _curves(rows: Sequence[Row]) -> list[Row]:
    """Return the averages over the weight of the score (Figure 6) and over the policy's width (Figure 7)."""
    averages = [row for row in rows if row["group"] == "average"]
    found = [
        {**row, "curve": "alpha", "at": row["alpha"]}
        for row in averages
        if row["agent"] in (*PROMPTED, "catp", "oracle-informed")
    ]
    widths = {"catp": 64.0, **{name: float(change["hidden_size"]) for name, change in SIZES.items()}}
    for row in averages:
        if row["alpha"] == ALPHA and row["agent"] in widths and row["protocol"] == BOARD:
            found.append({**row, "curve": "width", "at": widths[row["agent"]]})
    return found


def _play(shared: tuple[int, int | None, str], board: Board) -> Iterator[None]:
    """Run a leaderboard of the suite `opencatp`, or go on with it."""
    seed, episodes, out = shared
    vary = {"alpha": (board.alpha,), "tasks": (board.tasks,)}
    agents = list(board.agents.values())
    run_leaderboard(
        make_run_config("opencatp", agents=agents, episodes=episodes, seed=seed, vary=vary), Path(out) / board.folder
    )
    yield None


def _read(board: Board, out: Path) -> dict[str, list[EpisodeResult]]:
    """Return the episodes of a board by the agents' names in the tables."""
    shown = {name: agent for agent, name in board.agents.items()}
    found: dict[str, list[EpisodeResult]] = {agent: [] for agent in board.agents}
    for result in read_episodes(out / board.folder):
        found[shown[result.agent]].append(replace(result, agent=shown[result.agent]))
    return found
