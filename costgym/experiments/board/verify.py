"""Verification by replay of whatever was recorded: trajectory files, collections, leaderboard runs and submissions."""

from pathlib import Path

from costgym.experiments.board.epochs.chain import CHAIN
from costgym.experiments.board.epochs.verification import verify_epoch
from costgym.experiments.board.submissions.submission import validate, validate_run
from costgym.experiments.play.execution.engine import Engine
from costgym.experiments.play.trajectories.verify import BROKEN, Verdict, verify_file
from costgym.simulators.errors import DataError


def verify(path: str | Path, data: str | None = None, engine: Engine | None = None) -> Verdict:
    """Replay every episode of a trajectory file, or of the folder of a collection, an ended run, a submission or an epoch's
    board, and compare every figure; raises DataError where nothing is recorded, or what describes it cannot be read."""
    file = Path(path)
    if (file / CHAIN).is_file():
        return verify_epoch(file, engine)
    for name, check in (("run.json", validate_run), ("manifest.json", validate)):
        if (file / name).is_file():
            try:
                whole = check(file, data, engine=engine)
            except BROKEN as error:
                raise DataError(file, f"is not what a leaderboard run writes ({type(error).__name__}: {error})") from error
            return Verdict(file, whole.episodes, whole.problems)
    return verify_file(file, data, engine=engine)
