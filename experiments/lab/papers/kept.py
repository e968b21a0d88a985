"""Play pieces of work and keep each in a file, so that a run that was stopped goes on from the pieces it has."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ....simulators.version import __version__
from ...board.board import check_owner
from ...play.execution.engine import Local, Work
from ...play.files import make_folder, read_lines, sole_writer, write_atomically


def play_kept(
    folder: Path,
    manifest: Mapping[str, Any],
    work: Work[Any, Any, str],
    shared: Any,
    pieces: Mapping[str, Any],
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[str]]:
    """Play the pieces that a folder does not have yet, and return the lines of all.

    Args:
        folder: of the run; created if it does not exist.
        manifest: everything on which the lines depend, besides the piece.
        work: module-level function that plays one piece and returns its lines.
        shared: first argument of `work`.
        pieces: second arguments of `work`, by the names of their files.
        jobs: number of processes; the lines do not depend on it.

    Raises:
        ConfigError: the folder belongs to another run, or another process writes to it.
    """
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
