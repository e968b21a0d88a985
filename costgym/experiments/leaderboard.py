"""The leaderboard: agents under budgets over the same tasks, ranked, resumable and verifiable, with its pages.

`board` writes data alone; here the pages are added, which are made from `leaderboard.json` and never read.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from costgym.experiments.board.board import NO_PLAYERS, Leaderboard, PageMaker, Players, Progress, Run, summarise_run
from costgym.experiments.board.judged import JudgeOptions
from costgym.experiments.board.merge import merge as join
from costgym.experiments.board.run_config import RunConfig, make_run_config, read_run_config
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.board.store.runs import read_run
from costgym.experiments.board.submissions import submission
from costgym.experiments.board.tracks import track_of
from costgym.experiments.pages.episodes import DETAILED, FOLDER, write_episodes
from costgym.experiments.pages.leaderboard_page import pages_of
from costgym.experiments.play.costs.spending import Spending
from costgym.experiments.play.execution.concurrent import CONCURRENCY, engine_for, for_replays
from costgym.experiments.play.execution.engine import Engine
from costgym.simulators.errors import check_positive
from costgym.simulators.files import (
    finished_folder,
    json_text,
    private_copy,
    sole_writer,
    write_atomically,
)

__all__ = [
    "JudgeOptions",
    "Leaderboard",
    "RunConfig",
    "add",
    "first_track",
    "make_run_config",
    "merge",
    "regenerate_pages",
    "run",
    "show_episodes",
]


def run(
    config: RunConfig,
    out: str | Path,
    jobs: int = 1,
    progress: Progress | None = None,
    engine: Engine | None = None,
    spending: Spending | None = None,
    concurrency: int = CONCURRENCY,
    judge: JudgeOptions | None = None,
    recorded: bool = False,
    players: Players = NO_PLAYERS,
) -> Leaderboard:
    """Run a leaderboard, or continue one that was interrupted.

    Args:
        config: configuration of the run.
        out: folder of the run, created if it does not exist.
        jobs: number of processes; the result does not depend on it.
        progress: called with the numbers of finished and of all episodes.
        engine: engine that plays the episodes, instead of `jobs` processes; the result does not depend on it.
        spending: counts what a real model costs, and stops at its limit.
        concurrency: requests of the whole run to a model server at once; threads of this process play such a run, not `jobs`.
            Its replies are kept in the folder until it has ended, so that none is asked for twice after a kill.
        judge: asks a model for verdicts on the answers once all are played; those that the folder holds count without it.
        players: makers of agents that the registry cannot make, by their names in the run.
        recorded: show the recorded entries that ship too, as far as they fit; see `board.submissions.submission`.

    Raises:
        ConfigError: the folder belongs to another run, or another process writes to it; or a limit cannot be kept to.
        InfrastructureError: workers were lost repeatedly; run again to continue.
        SpendLimitReached: the limit was reached; run again with a higher one to continue.
    """
    check_positive("--jobs", jobs)
    engine = engine or engine_for(config.model, jobs, concurrency)
    board = Run(config, Path(out), players)
    make_pages = _page_maker(board.folder)
    pages = None if recorded else make_pages
    board.claim()
    with sole_writer(board.folder):
        board.begin()
        board.play(engine, progress, spending)
        document = board.publish(None if judge else pages)
        if judge is not None:
            board.judge(judge, progress, spending)
            document = board.publish(pages)
    if not recorded:
        return Leaderboard(board.folder, document)
    submission.add_shipped(board.folder, for_replays(engine), pages=make_pages)
    return Leaderboard.load(out)


def _page_maker(folder: Path) -> PageMaker:
    """What makes the pages of a run's folder: with links to its episodes, where these have pages."""
    return partial(pages_of, episodes=(folder / FOLDER / "index.html").is_file())


def show_episodes(
    folder: str | Path, most: int | None = DETAILED, data: str | None = None, progress: Progress | None = None
) -> Path:
    """Write the pages of a finished run's episodes into its folder and link them from the leaderboard's pages; of every row
    `most` episodes, by default all if None, can be looked into. Returns the page that lists them."""
    run_folder = Path(folder)
    with sole_writer(run_folder):
        listed = write_episodes(read_run(run_folder), run_folder, data, most, progress)
    regenerate_pages(run_folder)
    return listed


def merge(
    folders: Sequence[str | Path], out: str | Path, most: int | None = DETAILED, progress: Progress | None = None
) -> Leaderboard:
    """Join leaderboards of the same tasks, worlds and seeds into a board of its own in an empty folder, with its pages.

    Raises:
        ConfigError: there are fewer than two, they were played differently, or `out` holds files.
    """
    target = Path(out)
    with ExitStack() as copies, finished_folder(target) as draft:
        run = join([read_run(copies.enter_context(private_copy(Path(folder)))) for folder in folders])
        write_episodes(run, draft, None, most, progress)
        write_atomically(draft / "leaderboard.json", json_text(run.document))
        for name, text in _page_maker(draft)(run.document).items():
            write_atomically(draft / name, text)
    return Leaderboard(target, dict(run.document))


def first_track(folder: str | Path) -> dict[str, Any] | None:
    """The first track of a run that still plays the others, as a leaderboard of its own; None until all are played."""
    alone = read_run_config(Path(folder)).only_first
    name = alone.tracks[0].name
    episodes = [result for result in read_episodes(Path(folder)) if track_of(result.env, result.settings) == name]
    return summarise_run(alone, episodes) if len(episodes) == alone.episodes else None


def add(
    leaderboard: str | Path,
    entry: str | Path,
    data: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
) -> list[dict[str, Any]]:
    """Verify a submission by replay and add its entries to a leaderboard; see `board.submissions.submission.add`."""
    return submission.add(leaderboard, entry, data, progress, engine, _page_maker(Path(leaderboard)))


def regenerate_pages(folder: str | Path) -> list[str]:
    """Write the pages of a verified leaderboard that are missing or differ from its data; returns the names of their files."""
    run_folder = Path(folder)
    with sole_writer(run_folder):
        document = json.loads((run_folder / "leaderboard.json").read_text(encoding="utf-8"))
        changed = {
            name: text
            for name, text in _page_maker(run_folder)(document).items()
            if not (run_folder / name).is_file() or (run_folder / name).read_bytes() != text.encode()
        }
        for name, text in changed.items():
            write_atomically(run_folder / name, text)
    return list(changed)
