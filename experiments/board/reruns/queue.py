"""The queue of a leaderboard: each entry that waits in a folder is judged once, in the sandbox, on a secret of its own.

An entry is a folder as `costgym submit pack` writes it. Beside `NAME` stands its verdict, `NAME.verdict.json`, which holds the
digest of what was judged: an entry that changes waits again. The secret of an entry follows from the maintainer's own and from
that digest, so a queue that was killed plays the same worlds when it goes on, and nobody can ask for other luck. `begun.jsonl`
has the commitment of every attempt before its first episode.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from ....agents.custom import is_custom
from ....simulators.errors import ConfigError, CostGymError, DataError
from ...play.execution.engine import end_with
from ...play.files import (
    LineFile,
    json_text,
    keep_lines,
    make_folder,
    read_lines,
    remove,
    snapshot,
    sole_writer,
    write_atomically,
)
from ...play.metric_registry import plain
from ..board import SUBMISSIONS, PageMaker
from ..run_config import read_run_config
from ..submissions.manifest import CODE, Submission, read_manifest
from ..submissions.submission import add, differences
from .configuration import WORLDS
from .record import commitment_of_text, read_secret
from .rerun import rerun
from .sandbox import NONE, choose

WORK, BEGUN, VERDICT = ".queue", "begun.jsonl", ".verdict.json"
TRIES = 10
"""Times that an entry is begun. One that ends the queue each time is refused; one that did not is told from it nowhere else."""
MEMORY_BYTES, FILE_BYTES = 8 * 2**30, 4 * 2**30
"""Bounds on the process that judges an entry, and on each file it writes."""
LONGEST_WORDS = 2000


class Verdict(BaseModel):
    """The content of `NAME.verdict.json`.

    Attributes:
        entry: digest of the folder that was judged.
        accepted: its rows are on the leaderboard.
        said: why, in sentences.
        name: of the submission; "" where its manifest cannot be read.
        commitment: hash of the secret that it was run again on.
        judged: verdicts on folders of this name, this one included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["costgym.verdict/1"] = "costgym.verdict/1"
    entry: str
    accepted: bool
    said: list[str]
    name: str = ""
    commitment: str = ""
    judged: int = 1

    @property
    def words(self) -> str:
        """The verdict in a line."""
        return f"{'accepted' if self.accepted else 'refused'}: {'; '.join(self.said)}"


class _Outcome(NamedTuple):
    """The result of a judge's process: the sentences, and whether the entry may be added."""

    accepted: bool
    said: list[str]
    name: str = ""


def judge_queue(
    queue: Path,
    board: Path,
    secret: Path,
    most: int = 100,
    minutes: float = 120,
    sandbox: str = "auto",
    pages: PageMaker | None = None,
    say: Callable[[str], object] = lambda text: None,
    worlds: int = WORLDS,
) -> dict[str, Verdict]:
    """Judge the entries that wait in a folder; accepted ones are added to a leaderboard, with their reruns.

    May be killed at any moment and run again: an entry has one verdict, and the board and the verdicts end with the same bytes
    as those of a queue that was not killed, as far as the entries' agents repeat themselves.

    Args:
        queue: the folder of the entries.
        board: the leaderboard's run, which has ended.
        secret: file with the secret of the queue; ``-`` reads it from standard input. Change it whenever reruns are published.
        most: entries judged at most.
        minutes: after which an entry is refused.
        sandbox: of the agents, one of `sandbox.SANDBOXES`. Without one, entries with code of their own go on waiting.
        pages: renders the leaderboard's pages.
        say: called with a line about each entry.
        worlds: secret worlds that every row is played in, where worlds are generated.

    Returns:
        The new verdicts, by the entries' names.

    Raises:
        ConfigError: there is no such folder, the board has not ended, or another process judges the queue.
        DataError: the disk is full, or refuses a file.
    """
    if not queue.is_dir():
        raise ConfigError("--queue", f"{queue} is not a folder; expected one with an entry in each of its folders")
    root, kind = read_secret(secret), choose(sandbox)
    read_run_config(board)
    verdicts: dict[str, Verdict] = {}
    work = queue / WORK
    make_folder(work, "--queue")
    with sole_writer(work):
        for path in sorted(queue.iterdir()):
            if len(verdicts) == most:
                break
            if path.name.startswith(".") or not (path.is_dir() or path.is_symlink()):
                continue
            verdict = _judge(path, board, root, minutes, kind, pages, say, worlds)
            if verdict is not None:
                verdicts[path.name] = verdict
                say(f"{plain(path.name)}: {verdict.words}")
        else:
            for left in work.glob("*"):
                if left.is_dir():
                    remove(left)
    return verdicts


def _judge(
    path: Path,
    board: Path,
    root: str,
    minutes: float,
    sandbox: str,
    pages: PageMaker | None,
    say: Callable[[str], object],
    worlds: int,
) -> Verdict | None:
    """The verdict on an entry, once it is written; None for one that has its verdict, or goes on waiting."""
    title = os.fsencode(path.name)
    place = path.with_name((path.name if len(title) < 200 else hashlib.sha256(title).hexdigest()) + VERDICT)
    if place.is_dir():
        say(f"{plain(path.name)}: waits, because a folder stands where its verdict belongs")
        return None
    before = _read_verdict(place)
    try:
        digest = snapshot(path)
        problem = ""
    except DataError as error:
        digest, problem = "", str(error)
    if before is not None and before.entry == digest:
        return None
    work = path.parent / WORK / (digest or "unreadable")
    entry = work / "entry"
    secret = hmac.new(root.encode(), digest.encode(), hashlib.sha256).hexdigest()
    told = work / "outcome.json"
    kept = None if problem else _sealed(told, root, digest)
    if problem:
        outcome = _Outcome(False, [problem])
    elif kept is not None:  # the queue was killed before the entry had its verdict
        outcome = kept
    else:
        tries = _begin(path, digest, commitment_of_text(secret))
        if tries > TRIES:
            outcome = _Outcome(False, [f"was begun {TRIES} times and never ended"])
        else:
            remove(work)
            work.mkdir()
            if snapshot(path, entry) != digest:
                return None  # somebody writes there: it is looked at again in the next run
            manifest, _ = read_manifest(entry) if (entry / "manifest.json").is_file() else (None, [])
            if sandbox == NONE and manifest is not None and any(is_custom(file.agent) for file in manifest.files):
                say(f"{plain(path.name)}: waits for a machine with a sandbox, because its agents are code of its own")
                return None
            write_atomically(work / "secret", secret)
            mine = before is not None and before.accepted and manifest is not None and before.name == manifest.name
            outcome = _in_a_process(partial(_rerun, entry, board, work, sandbox, mine, worlds), minutes)
        make_folder(work)
        content = json.dumps(outcome._asdict())
        write_atomically(told, f"{_seal(content, root, digest)}\n{content}")
    if outcome.accepted:
        try:
            add(board, entry, rerun=work / "rerun", pages=pages)
        except (CostGymError, ValueError, TypeError, RecursionError) as error:
            outcome = _Outcome(False, [str(error)], outcome.name)
    judged = 1 if before is None else before.judged + 1
    said = [plain(each)[:LONGEST_WORDS] for each in outcome.said]
    commitment = "" if problem else commitment_of_text(secret)
    verdict = Verdict(
        entry=digest, accepted=outcome.accepted, said=said, name=outcome.name, commitment=commitment, judged=judged
    )
    write_atomically(place, json_text(verdict.model_dump()))
    remove(work)
    return verdict


def _seal(content: str, root: str, digest: str) -> str:
    return hmac.new(root.encode(), f"outcome {digest} {content}".encode(), hashlib.sha256).hexdigest()


def _sealed(path: Path, root: str, digest: str) -> _Outcome | None:
    """The outcome in a file of this queue; None for one that whoever hands entries in has put there."""
    try:
        seal, content = path.read_text(encoding="utf-8").split("\n", 1)
    except (OSError, ValueError):
        return None
    wanted = _seal(content, root, digest)
    return _Outcome(**json.loads(content)) if hmac.compare_digest(seal.encode(), wanted.encode()) else None


def _read_verdict(path: Path) -> Verdict | None:
    try:
        return Verdict.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _begin(path: Path, digest: str, commitment: str) -> int:
    """Write down that an entry is begun; returns how often it was, this time included."""
    journal = path.parent / BEGUN
    keep_lines(journal, 2**62)  # a line that was cut off by a kill
    line = json.dumps({"entry": path.name, "digest": digest, "commitment": commitment})
    store = LineFile(journal)
    store.append(line)
    store.close()
    return read_lines(journal).count(line)


def _rerun(entry: Path, board: Path, work: Path, sandbox: str, mine: bool, worlds: int) -> _Outcome:
    """Check an entry and run its agents again; everything that is wrong with it is said in words."""
    name = ""
    try:
        manifest, problems = read_manifest(entry)
        if manifest is None:
            return _Outcome(False, problems[:3])
        name = manifest.name
        problems = _misfits(manifest, board, mine)
        if problems:
            return _Outcome(False, problems, name)
        code = entry / CODE
        own = code if code.is_dir() else None
        rows = rerun(entry, work / "secret", work / "rerun", code=own, sandbox=sandbox, worlds=worlds)
        said = [f"{len(rows)} rows run again"]
        for row in rows:
            limits = ", ".join(f"{name} {value}" for name, value in {**row.settings, **row.budget}.items())
            said.append(f"{row.track} {row.agent} ({limits}): {row.said()}: {row.claim}")
        return _Outcome(True, said, name)
    except (CostGymError, OSError, MemoryError) as error:
        return _Outcome(
            False, [str(error).replace(f"{entry}/", "").replace(str(entry), "entry") or "needs too much memory"], name
        )
    except Exception as error:  # whatever a hostile entry finds, the queue goes on
        return _Outcome(False, [f"cannot be judged ({type(error).__name__}: {error})"], name)


def _misfits(manifest: Submission, board: Path, mine: bool) -> list[str]:
    """List why an entry cannot be on a leaderboard, as far as its manifest tells."""
    different = differences(read_run_config(board), manifest.run)
    if different:
        return [f"was not played as the leaderboard is; different: {', '.join(different)}"]
    # a contact is public and can be copied, so only the folder that brought an entry may replace it
    if (board / SUBMISSIONS / manifest.name).exists() and not mine:
        return [f"the leaderboard has an entry named {manifest.name!r}, which came from another folder; choose another name"]
    return []


def _in_a_process(work: Callable[[], _Outcome], minutes: float) -> _Outcome:
    """Do this in a process with bounds on memory, files and time."""
    context: Any = get_context("forkserver" if os.name == "posix" else "spawn")
    if os.name == "posix":
        context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(work, theirs), daemon=False)
    process.start()
    theirs.close()
    try:
        if not wait([ours], minutes * 60):
            return _Outcome(False, [f"was not judged within {minutes:g} minutes"])
        return _Outcome(*ours.recv())
    except EOFError:
        return _Outcome(False, ["the process that judged it ended without a word, as it does where memory runs out"])
    finally:
        process.kill()
        process.join()
        ours.close()


def _answer(work: Callable[[], _Outcome], pipe: Connection) -> None:
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=end_with, args=(parent.sentinel,), daemon=True).start()
    with suppress(ImportError):  # Windows has no such limits
        import resource

        for limit, most in ((resource.RLIMIT_DATA, MEMORY_BYTES), (resource.RLIMIT_FSIZE, FILE_BYTES)):
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    pipe.send(tuple(work()))
