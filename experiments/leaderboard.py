"""The leaderboard: agents under budgets over the same tasks, ranked, resumable and verifiable, with its pages.

`board` writes data alone; here the pages are added, which are made from `leaderboard.json` and never read.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .board import board
from .board.board import Leaderboard, Progress
from .board.judged import JudgeOptions
from .board.run_config import RunConfig, make_run_config
from .board.run_log import read_episodes
from .board.submissions import submission
from .board.tracks import track_of
from .pages.leaderboard_page import pages_of
from .play.execution.concurrent import CONCURRENCY, engine_for, for_replays
from .play.execution.engine import Engine
from .play.files import sole_writer, write_atomically
from .play.spending import Spending

__all__ = [
    "JudgeOptions",
    "Leaderboard",
    "RunConfig",
    "add",
    "first_track",
    "make_run_config",
    "regenerate_pages",
    "run",
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
) -> Leaderboard:
    """Run a leaderboard, or continue one that was interrupted; see `board.board.run`.

    Args:
        recorded: show the recorded entries that ship too, as far as they fit; see `board.submissions.submission`.
    """
    pages = None if recorded else pages_of
    ended = board.run(config, out, jobs, progress, engine, spending, pages, concurrency, judge)
    if not recorded:
        return ended
    submission.add_shipped(ended.folder, config, for_replays(engine or engine_for(config.model, jobs)), pages=pages_of)
    return Leaderboard.load(out)


def first_track(config: RunConfig, folder: str | Path) -> dict[str, Any] | None:
    """The first track of a run that still plays the others, as a leaderboard of its own; None until all are played."""
    alone = config.model_copy(update={"tracks": config.tracks[:1]})
    episodes = [each for each in read_episodes(Path(folder)) if track_of(each.env, each.settings) == config.tracks[0].name]
    return board.summarise_run(alone, episodes) if len(episodes) == alone.episodes else None


def add(
    leaderboard: str | Path,
    entry: str | Path,
    data: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
    rerun: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Verify a submission by replay and add its entries to a leaderboard; see `board.submissions.submission.add`."""
    return submission.add(leaderboard, entry, data, progress, engine, rerun, pages_of)


def regenerate_pages(folder: str | Path) -> list[str]:
    """Write the pages of a verified leaderboard that are missing or differ from its data; returns the names of their files."""
    place = Path(folder)
    with sole_writer(place):
        document = json.loads((place / "leaderboard.json").read_text(encoding="utf-8"))
        changed = {
            name: text
            for name, text in pages_of(document).items()
            if not (place / name).is_file() or (place / name).read_bytes() != text.encode()
        }
        for name, text in changed.items():
            write_atomically(place / name, text)
    return list(changed)
