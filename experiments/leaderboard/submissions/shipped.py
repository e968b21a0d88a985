"""Recorded entries that come with the package: agents that need more than this machine may have, such as torch.

An entry is a folder in `recorded/` beside this module, as `costgym submit pack` writes it; `benchmarks/zoo.py record` makes it.
Where a run plays the same worlds under the same conditions and leaves out agents of an entry, their episodes are replayed here,
and their rows are shown as those of a submission. Where the agents can be played, they are played instead.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ...execution.engine import Engine
from ..run_config import RunConfig
from .manifest import read_manifest
from .submission import add, differences

RECORDED = Path(str(files(__package__ or "costgym.experiments.leaderboard.submissions"))) / "recorded"
ENTRY = "recorded"
"""Name of the entry of the zoo, which its rows show: ``zoo:ppo (recorded)``."""


def shipped_entries(config: RunConfig, folder: Path = RECORDED) -> list[Path]:
    """The recorded entries that were played as a run is, of agents that the run did not play itself.

    Args:
        config: of the run.
        folder: where entries lie.
    """
    found = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        manifest, problems = read_manifest(entry) if (entry / "manifest.json").is_file() else (None, [])
        if manifest is None or problems or differences(config, manifest.run):
            continue
        if not {file.agent for file in manifest.files} & set(config.agents):
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
