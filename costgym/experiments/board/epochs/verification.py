"""Verify the board of an epoch: its chain of verdicts, and once the secret is published every episode, from nothing."""

from collections.abc import Iterable
from pathlib import Path

from costgym.experiments.board.epochs.chain import CHAIN, read_chain
from costgym.experiments.board.epochs.epoch import PUBLIC, RECORDS, SECRET, read_epoch, read_secret
from costgym.experiments.board.epochs.judging import episodes_of
from costgym.experiments.board.epochs.playing import Player
from costgym.experiments.board.epochs.ranking import board_document
from costgym.experiments.board.rows import track_files
from costgym.experiments.board.submissions.differences import compare_documents, unexpected_files
from costgym.experiments.play.execution.engine import Engine, Local
from costgym.experiments.play.trajectories.verify import Verdict
from costgym.simulators.errors import CostGymError, DataError
from costgym.simulators.files import private_copy


def verify_epoch(board: Path, engine: Engine | None = None) -> Verdict:
    """Replay every episode of an epoch whose secret is published, and compare verdicts and table; before that, only the chain
    and the table can be checked, which is said as a problem. Raises DataError where the epoch cannot be read."""
    with private_copy(board) as copy:
        epoch = read_epoch(copy)
        try:
            verdicts = read_chain(copy, epoch)
        except DataError as error:
            return Verdict(board, 0, (str(error).replace(str(copy), str(board)),))
        if not (copy / SECRET).exists():
            problems = compare_documents(copy / "leaderboard.json", board_document(epoch, verdicts))
            problems += unexpected_files(copy, _files(board_document(epoch, verdicts), ()))
            later = f"{SECRET}: is not published before {epoch.end} is over; until then no episode can be replayed"
            return Verdict(board, 0, (*problems, *(() if problems else (later,))))
        try:
            player = Player(epoch, read_secret(copy, epoch), engine or Local())
            whole = episodes_of(player, verdicts, copy / RECORDS)
        except CostGymError as error:
            return Verdict(board, 0, (str(error).replace(str(copy), str(board)),))
        document = board_document(epoch, verdicts, whole)
        problems = compare_documents(copy / "leaderboard.json", document)
        problems += unexpected_files(copy, _files(document, (f"{RECORDS}/{entry}/" for entry in whole)))
        return Verdict(board, sum(int(row["episodes"]) for rows in whole.values() for row in rows), tuple(problems))


def _files(document: dict[str, object], more: Iterable[str]) -> set[str]:
    return {PUBLIC, SECRET, CHAIN, "leaderboard.json", "leaderboard.csv", *track_files(document).values(), *more}
