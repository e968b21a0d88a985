"""The queue of a leaderboard: each entry that waits in a folder is judged once, in the sandbox, on a secret of its own.

An entry is a folder as `costgym submit pack` writes it. Its verdict, `NAME.verdict.json`, stands in a folder of the maintainer,
outside of the entries, since whoever hands in entries could hand in a verdict too. It holds the digest of what was judged: an
entry that changes waits again. The secret of an entry follows from the maintainer's own and from that digest, so a queue that
was killed plays the same worlds when it goes on, and nobody can ask for other luck. `begun.jsonl`, beside the verdicts, has the
commitment of every attempt before its first episode. Nothing is written among the entries, and nothing there but them is read.
"""

import hashlib
import hmac
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from costgym.agents.custom import is_custom
from costgym.experiments.board.board import SUBMISSIONS, PageMaker
from costgym.experiments.board.reruns.comparison import RERUN
from costgym.experiments.board.reruns.configuration import WORLDS
from costgym.experiments.board.reruns.record import commitment_of_text, read_secret
from costgym.experiments.board.reruns.rerun import rerun
from costgym.experiments.board.reruns.sandbox import NONE, choose
from costgym.experiments.board.run_config import read_run_config
from costgym.experiments.board.submissions.manifest import CODE, MANIFEST, VERDICT, Submission, read_manifest
from costgym.experiments.board.submissions.submission import add, differences
from costgym.experiments.play.execution.engine import end_with
from costgym.experiments.play.metric_registry import plain
from costgym.simulators.errors import ConfigError, CostGymError, DataError
from costgym.simulators.files import (
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

WORK, BEGUN, VERDICTS = ".work", "begun.jsonl", ".verdicts"
ENTRY, SECRET = "entry", "secret"
TRIES = 10  # times that an entry is begun; one that ends the queue each time is refused
MEMORY_BYTES, FILE_BYTES = 8 * 2**30, 4 * 2**30  # bounds on the process that judges an entry, and on each file it writes
LONGEST_WORDS = 2000


class Verdict(BaseModel):
    """The content of `NAME.verdict.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["costgym.verdict/1"] = "costgym.verdict/1"
    entry: str  # digest of the folder that was judged
    accepted: bool  # its rows are on the leaderboard
    said: list[str]  # why, in sentences
    name: str = ""  # of the submission; "" where its manifest cannot be read
    commitment: str = ""  # hash of the secret that it was run again on
    judged: int = 1  # verdicts on folders of this name, this one included

    @property
    def words(self) -> str:
        """The verdict in a line."""
        return f"{'accepted' if self.accepted else 'refused'}: {'; '.join(self.said)}"


class _Outcome(NamedTuple):
    """The result of a judge's process: whether the entry may be added, the sentences, and the submission's name."""

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
    verdicts: Path | None = None,
) -> dict[str, Verdict]:
    """Judge up to `most` entries that wait in a folder, each on a secret of its own that follows from the given one; accepted
    ones are added to a leaderboard, with their reruns. Returns the new verdicts by the entries' names.

    May be killed at any moment and run again: an entry has one verdict, and the board and the verdicts end with the same bytes
    as those of a queue that was not killed, as far as the entries' agents repeat themselves. Verdicts lie where no entry can
    reach them, by default in `QUEUE.verdicts` beside the queue. Without a sandbox, entries with code of their own go on
    waiting. Raises ConfigError if a folder is unusable or another process judges the queue, DataError if the disk refuses a
    file.
    """
    if not queue.is_dir():
        raise ConfigError("--queue", f"{queue} is not a folder; expected one with an entry in each of its folders")
    entries = queue.resolve()
    folder = (entries.with_name(entries.name + VERDICTS) if verdicts is None else verdicts).resolve()
    if folder == entries or entries in folder.parents:
        raise ConfigError("--verdicts", f"{folder} is inside the queue, where others write; choose a folder outside {queue}")
    root, kind = read_secret(secret), choose(sandbox)
    read_run_config(board)
    given: dict[str, Verdict] = {}
    make_folder(folder / WORK, "--verdicts")
    judge = _Judge(folder, board, root, minutes, kind, pages, say, worlds)
    with sole_writer(folder):
        for path in sorted(entries.iterdir()):
            if len(given) == most:
                break
            if path.name.endswith(VERDICT) and path.is_file():
                say(f"{plain(path.name)}: is ignored, because it is among the entries; verdicts are in {folder}")
            if path.name.startswith(".") or not (path.is_dir() or path.is_symlink()):
                continue
            verdict = judge.verdict_on(path)
            if verdict is not None:
                given[path.name] = verdict
                say(f"{plain(path.name)}: {verdict.words}")
        else:
            remove(folder / WORK)
    return given


@dataclass(frozen=True, slots=True)
class _Judge:
    """Judges entries one by one; `folder` holds its verdicts, for the others see `judge_queue`."""

    folder: Path
    board: Path
    root: str
    minutes: float
    sandbox: str
    pages: PageMaker | None
    say: Callable[[str], object]
    worlds: int

    def verdict_on(self, path: Path) -> Verdict | None:
        """The verdict on an entry, once it is written; None for one that has its verdict, or goes on waiting."""
        title = os.fsencode(path.name)
        place = self.folder / ((path.name if len(title) < 200 else hashlib.sha256(title).hexdigest()) + VERDICT)
        before = _read_verdict(place)
        found: Verdict | None = None
        try:
            digest = snapshot(path)
        except DataError as error:
            digest, found = "", Verdict(entry="", accepted=False, said=[str(error)])
        if before is not None and before.entry == digest:
            return None
        work = self.folder / WORK / (digest or "unreadable")
        kept = work / f"found{VERDICT}"  # of a queue that was killed before the entry was added
        found = found or _read_verdict(kept) or self._judged(path, digest, work, before)
        if found is None:
            return None
        make_folder(work)
        write_atomically(kept, json_text(found.model_dump()))
        if found.accepted:
            try:
                add(self.board, work / ENTRY, rerun=work / RERUN, pages=self.pages)
            except (CostGymError, ValueError, TypeError, RecursionError) as error:
                found = found.model_copy(update={"accepted": False, "said": [str(error)]})
        said = [plain(each)[:LONGEST_WORDS] for each in found.said]
        found = found.model_copy(update={"said": said, "judged": 1 if before is None else before.judged + 1})
        write_atomically(place, json_text(found.model_dump()))
        remove(work)
        return found

    def _judged(self, path: Path, digest: str, work: Path, before: Verdict | None) -> Verdict | None:
        """Run a copy of an entry again; None for one that goes on waiting."""
        secret = hmac.new(self.root.encode(), digest.encode(), hashlib.sha256).hexdigest()
        about: dict[str, Any] = {"entry": digest, "commitment": commitment_of_text(secret)}
        remove(work)
        make_folder(work)
        if self._begin(path, digest, about["commitment"]) > TRIES:
            return Verdict(**about, accepted=False, said=[f"was begun {TRIES} times and never ended"])
        entry = work / ENTRY
        if snapshot(path, entry) != digest:
            return None  # somebody writes there: it is looked at again in the next run
        manifest, _ = read_manifest(entry) if (entry / MANIFEST).is_file() else (None, [])
        if self.sandbox == NONE and manifest is not None and any(is_custom(file.agent) for file in manifest.files):
            self.say(f"{plain(path.name)}: waits for a machine with a sandbox, because its agents have their own code")
            return None
        write_atomically(work / SECRET, secret)
        mine = before is not None and before.accepted and manifest is not None and before.name == manifest.name
        outcome = _in_a_process(partial(_rerun, self.board, work, self.sandbox, mine, self.worlds), self.minutes)
        return Verdict(**about, **outcome._asdict())

    def _begin(self, path: Path, digest: str, commitment: str) -> int:
        """Write down that an entry is begun; returns how often it was, this time included."""
        journal = self.folder / BEGUN
        keep_lines(journal, 2**62)  # a line that was cut off by a kill
        line = json.dumps({"entry": path.name, "digest": digest, "commitment": commitment})
        store = LineFile(journal)
        store.append(line)
        store.close()
        return read_lines(journal).count(line)


def _read_verdict(path: Path) -> Verdict | None:
    try:
        return Verdict.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _rerun(board: Path, work: Path, sandbox: str, mine: bool, worlds: int) -> _Outcome:
    """Check an entry and run its agents again; everything that is wrong with it is said in words."""
    name, entry = "", work / ENTRY
    try:
        manifest, problems = read_manifest(entry)
        if manifest is None:
            return _Outcome(False, problems[:3])
        name = manifest.name
        if problems := _misfits(manifest, board, mine):
            return _Outcome(False, problems, name)
        code = entry / CODE
        own = code if code.is_dir() else None
        rows = rerun(entry, work / SECRET, work / RERUN, code=own, sandbox=sandbox, worlds=worlds)
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
    if different := differences(read_run_config(board), manifest.run):
        return [f"was not played like the leaderboard; different: {', '.join(different)}"]
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
        return _Outcome(False, ["the process that judged it ended without a message, as happens when memory runs out"])
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
