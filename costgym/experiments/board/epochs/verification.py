"""Verify the board of an epoch: its chain of verdicts, and once the secret is published every episode, from nothing."""

from collections.abc import Iterable
from pathlib import Path

from costgym.experiments.board.epochs.chain import CHAIN, read_chain
from costgym.experiments.board.epochs.epoch import OUTCOMES, PUBLIC, RECORDS, SECRET, read_epoch, read_secret, table_in
from costgym.experiments.board.epochs.judging import episodes_of
from costgym.experiments.board.epochs.playing import Player
from costgym.experiments.board.epochs.ranking import board_document
from costgym.experiments.board.submissions.differences import compare_documents, unexpected_files
from costgym.experiments.board.tracks import track_files
from costgym.experiments.play.execution.engine import Engine, Local
from costgym.experiments.play.files import reading
from costgym.experiments.play.trajectories.verify import Verdict
from costgym.simulators.errors import CostGymError, DataError


def verify_epoch(board: Path, engine: Engine | None = None) -> Verdict:
    """Replay every episode of an epoch whose secret is published, and compare verdicts and table; before that, only the chain
    and the table can be checked, which is said as a problem. Raises DataError where the epoch cannot be read."""
    with reading(board):
        epoch = read_epoch(board)
        try:
            verdicts = read_chain(board, epoch)
        except DataError as error:
            return Verdict(board, 0, (str(error),))
        if not (board / SECRET).exists():
            problems = compare_documents(board / "leaderboard.json", board_document(epoch, verdicts))
            problems += unexpected_files(board, _files(board_document(epoch, verdicts), ()))
            later = f"{SECRET}: is not published before {epoch.end} is over; until then no episode can be replayed"
            return Verdict(board, 0, (*problems, *(() if problems else (later,))))
        try:
            player = Player(epoch, read_secret(board, epoch), table_in(board, epoch), engine or Local())
            whole = episodes_of(player, verdicts, board / RECORDS)
        except CostGymError as error:
            return Verdict(board, 0, (str(error),))
        document = board_document(epoch, verdicts, whole)
        problems = compare_documents(board / "leaderboard.json", document)
        problems += unexpected_files(board, _files(document, (f"{RECORDS}/{entry}/" for entry in whole)))
        return Verdict(board, sum(int(row["episodes"]) for rows in whole.values() for row in rows), tuple(problems))


def _files(document: dict[str, object], more: Iterable[str]) -> set[str]:
    return {PUBLIC, SECRET, OUTCOMES, CHAIN, "leaderboard.json", "leaderboard.csv", *track_files(document).values(), *more}
