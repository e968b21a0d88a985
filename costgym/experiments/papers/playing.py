"""Play what several papers share: leaderboard runs, the text environment, and files of episodes that a later call continues."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from costgym.agents.base import TEXT
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.session import LlmAgent, LlmSession
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.registry import make_agent
from costgym.envs.base import base_env
from costgym.envs.registration import in_version, make
from costgym.envs.tool_world import Named, named_scenario
from costgym.experiments.board.board import check_owner
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.board.suites import STEP_LIMIT
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.papers.claims import Results
from costgym.experiments.papers.paper import Job, Progress, Protocol, Row, Tables
from costgym.experiments.play.episodes import play
from costgym.experiments.play.execution.engine import Local, Work
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators import __version__
from costgym.simulators.files import make_folder, read_lines, sole_writer, write_atomically
from costgym.simulators.scenario import Scenario, TokenPrices, load_scenario
from costgym.simulators.world import Episode

BUDGET = 20.0  # BTP's R
MEASURED = 200  # most episodes on which registered tools and plans are measured, which no record of an episode holds


def play_protocols(protocols: Sequence[Protocol], play_one: Callable[[Protocol, Job], Tables], job: Job) -> Tables:
    """Play all protocols of a paper, each in a folder of its own; every row names its protocol."""
    tables: Tables = {}
    for protocol in protocols:
        for table, rows in play_one(protocol, job._replace(out=job.out / protocol.name)).items():
            tables.setdefault(table, []).extend({**row, "protocol": protocol.name} for row in rows)
    return tables


def market(world: int) -> Scenario:
    """The default scenario in a version of the world; tokens are free, as in the papers, unless a paper says otherwise."""
    scenario = load_scenario("marketplace").in_world(world)
    return scenario.model_copy(update={"tokens": TokenPrices(input=0.0, output=0.0)}) if world else scenario


def enlarged(scenario: Scenario, tasks: int) -> Scenario:
    """Return the scenario with at least the given number of test tasks."""
    source = scenario.source
    if source.kind != "marketplace" or source.test >= tasks:
        return scenario
    return scenario.model_copy(update={"source": source.model_copy(update={"test": tasks})})


def text_env(scenario: Named, **settings: Any) -> Any:
    """Create the text view of a paper's table: test tasks, limits that are only recorded, and the judge's grading."""
    scenario = named_scenario(scenario, None)
    usual = {"split": "test", "budget": {}, "enforcement": "record", "grading": "judge", "max_steps": STEP_LIMIT}
    return make(in_version(TEXT, scenario.world), scenario=scenario, disable_env_checker=True, **{**usual, **settings})


def play_board(
    scenario: Scenario, agents: Sequence[str], budgets: str, job: Job, protocol: Protocol
) -> tuple[list[Row], Results]:
    """Run a leaderboard; return its rows in the order of the agents, and its episodes by agent."""
    config = make_run_config(
        "btp",
        scenario=scenario,
        world=scenario.world,
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


def play_sessions(
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


def play_pieces(
    folder: Path,
    manifest: Mapping[str, Any],
    work: Work[Any, Any, str],
    shared: Any,
    pieces: Mapping[str, Any],
    jobs: int = 1,
    progress: Progress | None = None,
) -> dict[str, list[str]]:
    """Play the pieces that a folder does not have yet, each by the module-level `work(shared, piece)`, and return the lines of
    all by the names of their files; they do not depend on the number of jobs, and on nothing but the manifest and the piece.
    Raises ConfigError where the folder belongs to another run, or another process writes to it."""
    make_folder(folder)
    text = json.dumps({"version": __version__, **manifest}, indent=1, ensure_ascii=False) + "\n"
    check_owner(text, folder)
    with sole_writer(folder):
        write_atomically(folder / "run.json", text)
        paths = {name: folder / f"{_as_file(name)}.jsonl" for name in pieces}
        lines_by_name = {name: read_lines(path) for name, path in paths.items() if path.is_file()}
        if progress is not None:
            progress(len(lines_by_name), len(pieces))
        missing = [(name, piece) for name, piece in pieces.items() if name not in lines_by_name]
        for name, lines in Local(jobs).stream(_play_whole, (work, shared), missing):
            write_atomically(paths[name], "".join(f"{line}\n" for line in lines))
            lines_by_name[name] = lines
            if progress is not None:
                progress(len(lines_by_name), len(pieces))
    return lines_by_name


def _as_file(name: str) -> str:
    """Return a piece's name as that of a file; the agent in it may be named by the path of its run."""
    return name.replace(":", "-").replace("/", "%2F").replace("\\", "%5C")


def _play_whole(shared: tuple[Work[Any, Any, str], Any], piece: tuple[str, Any]) -> Iterator[tuple[str, list[str]]]:
    work, common = shared
    name, content = piece
    yield name, list(work(common, content))
