"""Recorded entries that come with the package: agents that need more than this machine may have, such as torch.

An entry is a folder in `recorded/` beside this module, as `costgym submit pack` writes it. Where a run plays the same worlds
under the same conditions, it is replayed here and its rows are shown as those of a submission. Where the agent itself can be
played, name it with `--agents` instead.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ...execution.engine import Engine
from ..run_config import RunConfig
from .manifest import read_manifest
from .submission import add, differences

RECORDED = Path(str(files(__package__ or "costgym.experiments.leaderboard.submissions"))) / "recorded"


def shipped_entries(config: RunConfig, folder: Path = RECORDED) -> list[Path]:
    """The recorded entries that were played as a run is.

    Args:
        config: of the run.
        folder: where entries lie.
    """
    found = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        manifest, problems = read_manifest(entry) if (entry / "manifest.json").is_file() else (None, [])
        if manifest is not None and not problems and not differences(config, manifest.run):
            found.append(entry)
    return found


def add_shipped(board: Path, config: RunConfig, engine: Engine | None = None, folder: Path = RECORDED) -> list[str]:
    """Replay the recorded entries that fit a run that has ended, and show them with it; returns the agents' names.

    Args:
        board: the run's folder.
        config: of the run.
        engine: where episodes are replayed; by default here.
        folder: where entries lie.
    """
    return [str(row["agent"]) for entry in shipped_entries(config, folder) for row in add(board, entry, None, None, engine)]
