"""What the papers' tables share: what is played and where, the environment of text agents, and intervals of figures."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import TEXT
from costgym.envs.registration import make
from costgym.experiments.board.board import check_owner
from costgym.experiments.board.suites import STEP_LIMIT
from costgym.experiments.play.execution.engine import Local, Work
from costgym.experiments.play.statistics import intervals
from costgym.simulators import __version__
from costgym.simulators.files import make_folder, read_lines, sole_writer, write_atomically
from costgym.simulators.scenario import Scenario

Row = dict[str, Any]
Progress = Callable[[int, int], None]
RESAMPLES = 2000


class Job(NamedTuple):
    """How much is played for a table, and where."""

    seed: int
    episodes: int  # per agent, and level or scale
    processes: int  # rows do not depend on their number
    out: Path  # folder of the runs, which a later call continues
    progress: Progress | None = None


def text_env(scenario: Scenario, **settings: Any) -> Any:
    """Create the text view of a paper's table: test tasks, limits that are only recorded, and the judge's grading."""
    usual = {"split": "test", "budget": {}, "enforcement": "record", "grading": "judge", "max_steps": STEP_LIMIT}
    return make(TEXT, scenario=scenario, disable_env_checker=True, **{**usual, **settings})


def interval_ends(
    names: Collection[str],
    above: NDArray[np.float64],
    below: NDArray[np.float64] | None = None,
    episodes: Sequence[int] | None = None,
    seed: int = 0,
    *,
    difference: bool = False,
) -> dict[str, list[float]]:
    """The 95 % intervals of figures by name, by bootstrap over episodes (their numbers, or from 0), from the numerators `above`
    and denominators `below` of each, (episodes, figures); None for means. With `difference`, `above` has two columns, and the
    one figure is the first less the second."""
    below = np.ones_like(above) if below is None else below
    episodes = range(len(above)) if episodes is None else episodes
    lows, highs = intervals(above, below, episodes, seed, RESAMPLES, difference=difference)
    return {name: [float(low), float(high)] for name, low, high in zip(names, lows, highs, strict=True)}


def play_kept(
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
        paths = {name: folder / f"{name.replace(':', '-')}.jsonl" for name in pieces}
        found = {name: read_lines(path) for name, path in paths.items() if path.is_file()}
        if progress is not None:
            progress(len(found), len(pieces))
        left = [(name, piece) for name, piece in pieces.items() if name not in found]
        for name, lines in Local(jobs).stream(_whole, (work, shared), left):
            write_atomically(paths[name], "".join(f"{line}\n" for line in lines))
            found[name] = lines
            if progress is not None:
                progress(len(found), len(pieces))
    return found


def _whole(shared: tuple[Work[Any, Any, str], Any], piece: tuple[str, Any]) -> Iterator[tuple[str, list[str]]]:
    work, given = shared
    yield piece[0], list(work(given, piece[1]))
