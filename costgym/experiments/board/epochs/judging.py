"""Judge the entries of an epoch: each is played once on the epoch's secret, and its verdict appended to the chain.

The record of what was played stays with the judge until the secret is published. A process that is killed loses the entry that
it was playing, and nothing else.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costgym.agents.custom import is_custom
from costgym.agents.registry import is_trained
from costgym.experiments.board.board import PageMaker
from costgym.experiments.board.epochs.chain import CHAIN, REFERENCES, Chain, Verdict
from costgym.experiments.board.epochs.epoch import (
    PUBLIC,
    RECORDS,
    SECRET,
    Epoch,
    read_epoch,
    read_secret,
    today,
)
from costgym.experiments.board.epochs.identities import ENTRY as FOR_AN_ENTRY
from costgym.experiments.board.epochs.identities import MAX_SIGNATURE_BYTES, entry_text, public_key, sign, signer_of
from costgym.experiments.board.epochs.playing import Derived, Player
from costgym.experiments.board.epochs.ranking import board_document, condition_of, verdict_text
from costgym.experiments.board.reruns.sandbox import NONE, choose
from costgym.experiments.board.submissions.informed import Informed
from costgym.experiments.board.submissions.manifest import CODE, MANIFEST, SIGNATURE, Submission, read_manifest
from costgym.experiments.board.submissions.validation import is_privileged, validate
from costgym.experiments.play.execution.engine import Engine, Local
from costgym.experiments.play.metric_registry import plain
from costgym.simulators import same_world
from costgym.simulators.errors import ConfigError, CostGymError, DataError, InfrastructureError
from costgym.simulators.files import (
    change_together,
    finish_change,
    json_text,
    make_folder,
    remove,
    snapshot,
    sole_writer,
    write_atomically,
)

WORK = ".work"
LONGEST_REASON = 2000
PUBLISH_S = 30.0  # seconds between two boards while many entries are judged
_PLAYED_ALIKE = ("suite", "grading", "model", "search", "btp", "documents")
"""Fields of a run that an entry must have as its epoch has them: they would change what its agents do."""


def sign_entry(entry: Path, epoch: Path, key: Path) -> Path:
    """Sign an entry for an epoch with an `ssh` key; returns the signature's file. `epoch` is `epoch.json` or its folder."""
    terms = read_epoch(epoch if epoch.is_dir() else epoch.parent)
    path = entry / SIGNATURE
    path.unlink(missing_ok=True)
    write_atomically(path, sign(entry_text(snapshot(entry), terms.secret_sha256), key, FOR_AN_ENTRY))
    return path


def judge(
    entries: Sequence[Path],
    folder: Path,
    board: Path,
    key: Path | None = None,
    minutes: float = 120,
    sandbox: str = "auto",
    pages: PageMaker | None = None,
    say: Callable[[str], object] = lambda text: None,
    engine: Engine | None = None,
) -> list[Verdict]:
    """Play entries in the secret worlds of an epoch and put them on its board; returns the new verdicts.

    May be killed at any moment and run again: an entry has one verdict, and the board ends with the same bytes, as far as the
    entries' agents repeat themselves. Without a sandbox, entries with code of their own go on waiting.

    Args:
        entries: folders as `costgym submit pack` writes them, or folders of such folders.
        folder: the epoch's, with its secret.
        board: where verdicts, table and pages are published; created if it does not exist.
        key: the judge's `ssh` key, for an epoch whose verdicts are signed.
        minutes: for an entry, after which the rest of its own code's episodes count as failed.

    Raises:
        ConfigError: the epoch has not begun or is over, or the key is another one.
        DataError: the board holds other verdicts.
        InfrastructureError: the judge's own model is down; nothing is said about the entry that was played.
    """
    epoch = read_epoch(folder)
    if (board / SECRET).exists():
        raise ConfigError("--epoch", f"{epoch.name} is over, since its secret is published; begin another epoch")
    if today() < epoch.begin:
        raise ConfigError("--epoch", f"{epoch.name} begins on {epoch.begin}")
    if epoch.judge != ("" if key is None else public_key(key)):
        raise ConfigError("--key", f"expected the key whose public part is in {folder / PUBLIC}; without one there, none")
    make_folder(board)
    make_folder(folder / RECORDS)
    with ExitStack() as locks:
        for locked in (folder, board):
            locks.enter_context(sole_writer(locked))
        finish_change(board)
        player = Player(epoch, read_secret(folder, epoch), engine or Local(), choose(sandbox), minutes)
        court = Court(player, folder, board, Chain(board, epoch, key), pages, say)
        court.open()
        verdicts, published = [], time.monotonic()
        for path in _entries(entries):
            if verdict := court.judge(path):
                say(f"{plain(path.name)}: {verdict_text(epoch, verdict)}")
                verdicts.append(verdict)
                if time.monotonic() > published + PUBLISH_S:
                    court.publish()
                    published = time.monotonic()
        court.publish()
        remove(folder / WORK)
    return verdicts


def _entries(paths: Sequence[Path]) -> Iterator[Path]:
    """The entries among folders, and those inside of folders without a manifest, in the order of their names."""
    for path in paths:
        if path.is_symlink() or not path.is_dir():
            raise ConfigError("ENTRY", f"{path} is not a folder; expected one of `costgym submit pack`, or one of such folders")
        if (path / MANIFEST).exists():
            yield path
        else:
            yield from sorted(inside for inside in path.iterdir() if not inside.name.startswith("."))


@dataclass(slots=True)
class Court:
    """Plays the entries of an epoch one by one."""

    player: Player
    folder: Path
    board: Path
    chain: Chain
    pages: PageMaker | None
    say: Callable[[str], object]
    informed: Informed = field(default_factory=dict)

    @property
    def epoch(self) -> Epoch:
        return self.player.epoch

    def open(self) -> None:
        """Play the references, if that has not been done."""
        config = self.player.config(self.epoch.references)
        record = self.folder / RECORDS / REFERENCES
        if not self.chain.verdicts:
            derived = self._play(self.epoch.references, REFERENCES, None)
            self.chain.add(entry=REFERENCES, agents=self.epoch.references, rows=derived.public, record=snapshot(record))
        else:
            derived = self.player.derive(config, record)
        self.informed = derived.informed
        self.publish()

    def judge(self, path: Path) -> Verdict | None:
        """The verdict on an entry, once it is in the chain; None for one that has its verdict, or goes on waiting."""
        work = self.folder / WORK
        remove(work)
        entry = work / "entry"
        try:
            snapshot(path, entry)
            signature = _take_signature(entry)
            digest = snapshot(entry)
        except DataError as error:
            self.say(f"{plain(path.name)}: is no entry: {error}")
            return None
        if digest in {verdict.entry for verdict in self.chain.verdicts}:
            return None
        about: dict[str, Any] = {"entry": digest}
        try:
            manifest, problems = read_manifest(entry)
            if manifest is not None:
                about |= {"identity": manifest.name, "about": manifest.about()}
                problems = problems or self._identify(digest, signature, about) or _misfits(self.epoch, manifest)
            if manifest is None or problems:
                return self._refuse(about, problems)
            own_code = any(is_custom(file.agent) for file in manifest.files)
            if own_code and self.player.sandbox == NONE:
                self.say(f"{plain(path.name)}: waits for a machine with a sandbox, because its agents have their own code")
                return None
            claim = validate(entry, engine=self.player.engine, alarmed=False)
            if not claim.verified:
                return self._refuse(about, claim.problems)
            agents = _agents(manifest)
            derived = self._play(agents, digest, entry / CODE if (entry / CODE).is_dir() else None)
        except InfrastructureError:
            raise
        except (CostGymError, OSError, MemoryError) as error:
            return self._refuse(
                about, [str(error).replace(f"{entry}/", "").replace(str(entry), "entry") or "needs too much memory"]
            )
        except Exception as error:  # whatever a hostile entry breaks, the others are judged
            return self._refuse(about, [f"cannot be judged ({type(error).__name__}: {error})"])
        rows = _with_claims(derived.public, claim.rows, self.epoch)
        record = snapshot(self.folder / RECORDS / digest)
        return self.chain.add(**about, agents=agents, rows=rows, record=record)

    def publish(self) -> None:
        """Write the board's table and pages as they follow from the chain."""
        with change_together(self.board) as draft:
            (draft / PUBLIC).write_text(self.epoch.to_json(), encoding="utf-8")
            _write_board(draft, board_document(self.epoch, self.chain.verdicts), self.pages)

    def _play(self, agents: Mapping[str, Sequence[str]], name: str, code: Path | None) -> Derived:
        """Play some agents and keep their record."""
        config, record = self.player.config(agents), self.folder / WORK / "record"
        remove(record)
        self.player.play(config, record, code)
        derived = self.player.derive(config, record, self.informed)
        if derived.problems:
            raise DataError("record", "; ".join(derived.problems[:3]))
        destination = self.folder / RECORDS / name
        remove(destination)
        record.replace(destination)
        return derived

    def _identify(self, digest: str, signature: str, about: dict[str, Any]) -> list[str]:
        """Find out whose entry it is; returns why that cannot be said."""
        if not self.epoch.identities:
            return []
        signer = signer_of(entry_text(digest, self.epoch.secret_sha256), signature, self.epoch.identities)
        if signer is None:
            return [f"{SIGNATURE}: is not by a key that is registered for this epoch; `costgym submit sign` makes one"]
        about |= {"identity": signer.name, "key": signer.key}
        return []

    def _refuse(self, about: Mapping[str, Any], reasons: Sequence[str]) -> Verdict:
        shortened = tuple(reason[:LONGEST_REASON] for reason in reasons[:3])
        return self.chain.add(**about, accepted=False, reasons=shortened)


def _take_signature(entry: Path) -> str:
    """Take the signature out of the copy of an entry."""
    path = entry / SIGNATURE
    if not path.is_file():
        return ""
    with path.open("rb") as store:
        text = store.read(MAX_SIGNATURE_BYTES).decode("utf-8", "replace")
    path.unlink()
    return text


def _agents(manifest: Submission) -> dict[str, tuple[str, ...]]:
    """The agents that were handed in, by track."""
    tracks = dict.fromkeys(file.track for file in manifest.files)
    return {track: tuple(dict.fromkeys(file.agent for file in manifest.files if file.track == track)) for track in tracks}


def _misfits(epoch: Epoch, manifest: Submission) -> list[str]:
    """List why an entry cannot be played in an epoch, as far as its manifest tells."""
    run = manifest.run
    different = [] if same_world(run.version) else ["version"]
    different += [name for name in _PLAYED_ALIKE if getattr(run, name) != getattr(epoch.run, name)]
    if different:
        return [f"was not played like the epoch; different: {', '.join(different)}"]
    tracks = {track.name: {condition.key for condition in track.conditions} for track in epoch.run.tracks}
    for file in manifest.files:
        if file.track not in tracks:
            return [f"{MANIFEST}, files: the epoch {epoch.name} has no track {file.track}"]
        if manifest.row_of(file).condition.key not in tracks[file.track]:
            return [f"{MANIFEST}, files: {file.path}: is not a condition of the epoch {epoch.name}"]
        if is_privileged(manifest.row_of(file)):
            return [f"{MANIFEST}, files: {file.agent} reads the world: it is a bound and cannot be submitted"]
        if is_trained(file.agent) and not file.agent.startswith("zoo:"):
            return [f"{MANIFEST}, files: {file.agent}: its weights are not here; hand in own code that loads them"]
    return []


def _with_claims(
    rows: Sequence[Mapping[str, Any]], claimed: Sequence[Mapping[str, Any]], epoch: Epoch
) -> tuple[dict[str, Any], ...]:
    """Rows with what the entry claims of each; a claim is shown beside the figure, and that is all that it is for."""

    def key(row: Mapping[str, Any]) -> tuple[str, str]:
        return str(row["agent"]), condition_of(epoch, row)

    claims = {key(row): row.get(epoch.run.track(row["track"]).ranked_by) for row in claimed}
    return tuple({**row, "claimed": claims.get(key(row))} for row in rows)


def _write_board(draft: Path, document: Mapping[str, Any], pages: PageMaker | None) -> None:
    (draft / "leaderboard.json").write_text(json_text(document), encoding="utf-8")
    for name, text in ({} if pages is None else pages(document)).items():
        (draft / name).write_text(text, encoding="utf-8")


def reveal(folder: Path, board: Path, pages: PageMaker | None = None, engine: Engine | None = None) -> Epoch:
    """Publish the secret of an epoch on its board, with all that was played, so that anybody can replay it. Raises ConfigError
    before its last day is over."""
    epoch = read_epoch(folder)
    if today() <= epoch.end:
        raise ConfigError("--reveal", f"{epoch.name} ends on {epoch.end}; who knew its secret before would know its worlds")
    with sole_writer(folder), sole_writer(board):
        finish_change(board)
        chain = Chain(board, epoch)
        player = Player(epoch, read_secret(folder, epoch), engine or Local())
        by_episode = episodes_of(player, chain.verdicts, folder / RECORDS)
        with change_together(board) as draft:
            for verdict in chain.verdicts:
                if verdict.accepted:
                    shutil.copytree(folder / RECORDS / verdict.entry, draft / RECORDS / verdict.entry)
            shutil.copyfile(folder / SECRET, draft / SECRET)
            (draft / PUBLIC).write_text(epoch.to_json(), encoding="utf-8")
            _write_board(draft, board_document(epoch, chain.verdicts, by_episode), pages)
    return epoch


def episodes_of(player: Player, verdicts: Sequence[Verdict], records: Path) -> dict[str, tuple[dict[str, Any], ...]]:
    """Replay all that was played: the whole rows of every verdict, by its entry. Raises DataError, in words, where a record is
    not what a verdict was given on."""
    accepted = [verdict for verdict in verdicts if verdict.accepted]
    if not accepted:
        return {}
    references, *others = accepted
    first = _replayed(player, references, records, {})
    alone = player._replace(engine=Local())  # entries are shared between processes, not the episodes of each
    rows = player.engine.stream(_rows_of, (alone, records, first.informed), others)
    return {references.entry: first.rows, **{verdict.entry: of_one for verdict, of_one in zip(others, rows, strict=True)}}


def _rows_of(shared: tuple[Player, Path, Informed], verdict: Verdict) -> list[tuple[dict[str, Any], ...]]:
    player, records, informed = shared
    return [_replayed(player, verdict, records, informed).rows]


def _replayed(player: Player, verdict: Verdict, records: Path, informed: Informed) -> Derived:
    record = records / verdict.entry
    if snapshot(record) != verdict.record:
        raise DataError(record, f"is not the record of the verdict {verdict.number} in {CHAIN}")
    derived = player.derive(player.config(verdict.agents), record, informed)
    if derived.problems:
        raise DataError(record, "; ".join(derived.problems[:3]))
    recorded = [{name: value for name, value in row.items() if name != "claimed"} for row in verdict.rows]
    if recorded != list(derived.public):
        raise DataError(record, f"replay derives other rows than the verdict {verdict.number} in {CHAIN}")
    return derived
