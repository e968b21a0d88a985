"""Recorded entries that come with the package, of agents that need an extra such as torch, or minutes.

An entry is a folder in `recorded/`, as `costgym submit pack` writes it (`benchmarks/zoo.py record`, docs/smallmodel.md). Where
a run plays the same worlds under the same conditions, and none of an entry's agents itself, its episodes are replayed here, and
their rows are shown as those of a submission.
"""

import warnings
from importlib.resources import files
from pathlib import Path

from ....simulators.errors import ConfigError, DataError
from ...play.execution.engine import Engine
from ..board import PageMaker
from ..run_config import RunConfig
from .manifest import read_manifest
from .submission import add, differences

RECORDED = Path(str(files(__package__ or "costgym.experiments.board.submissions"))) / "recorded"


def shipped_entries(config: RunConfig, folder: Path = RECORDED) -> list[Path]:
    """The recorded entries that were played as a run is, of agents that the run did not play itself."""
    found = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        manifest, problems = read_manifest(entry) if (entry / "manifest.json").is_file() else (None, [])
        if manifest is None or problems or differences(config, manifest.run):
            continue
        # with a real model, an agent is another one than that of the same name with the run's model
        played = set(config.agents) if manifest.run.model in ("simulated", config.model) else set()
        if not {file.agent for file in manifest.files} & played:
            found.append(entry)
    return found


def add_shipped(
    board: Path, config: RunConfig, engine: Engine | None = None, folder: Path = RECORDED, pages: PageMaker | None = None
) -> list[str]:
    """Replay the recorded entries that fit a run that has ended, and show them with it; returns the agents' names. An entry
    that replay refuses, since the world has changed after it was recorded, is left out with a warning."""
    found = []
    for entry in shipped_entries(config, folder):
        try:
            found += [str(row["agent"]) for row in add(board, entry, engine=engine, pages=pages)]
        except (ConfigError, DataError) as error:
            warnings.warn(f"the recorded entry {entry.name!r} is not shown because it cannot be added: {error}", stacklevel=2)
    return found
