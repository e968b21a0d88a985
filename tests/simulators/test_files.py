"""Files that cannot be written: the old one stays, no draft is left, and the message names the file."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.play.export import datasets
from costgym.simulators import files
from costgym.simulators.errors import ConfigError, CostGymError, DataError
from costgym.simulators.files import (
    LineFile,
    change_together,
    finished_file,
    finished_folder,
    make_folder,
    parse_yaml,
    read_lines,
    write_atomically,
    yaml_text,
)
from tests.helpers.full_disk import no_file_longer_than


def replace_file(folder: Path) -> None:
    write_atomically(folder / "board.json", "new")


def new_file(folder: Path) -> None:
    with finished_file(folder / "export.bin") as draft:
        draft.write_text("new")


def new_folder(folder: Path) -> None:
    with finished_folder(folder / "pack") as draft:
        (draft / "manifest.json").write_text("new")


def several(folder: Path) -> None:
    with change_together(folder) as draft:
        (draft / "board.json").write_text("new")
        (draft / "page.html").write_text("new")


WRITERS: dict[str, Callable[[Path], None]] = {
    "replace": replace_file, "file": new_file, "folder": new_folder, "change": several,
}  # fmt: skip
CALLS = (
    *((os, name) for name in ("fsync", "open", "replace", "mkdir")),
    *((Path, name) for name in ("open", "replace", "rename", "mkdir")),
)
FAULTS = (errno.ENOSPC, errno.EIO, errno.EROFS)


class Killed(BaseException):
    """The process ends here, as far as the files can tell."""


def state(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def faulty(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, nth: int, fault: Any) -> list[int]:
    """Let the nth call fail; returns a list that grows with every call."""
    real, calls = getattr(owner, name), list[int]()

    def wrapped(*args: Any, **settings: Any) -> Any:
        calls.append(1)
        if len(calls) == nth:
            raise fault
        return real(*args, **settings)

    monkeypatch.setattr(owner, name, wrapped)
    return calls


def trials(writer: str, folder: Path, fault: Any) -> int:
    """Play a writer with the fault at every call of every kind, each in a folder of its own; check what is left."""
    tried = 0
    for owner, name in CALLS:
        for nth in range(1, 40):
            path = folder / f"{owner.__name__}-{name}-{nth}"
            path.mkdir()
            (path / "board.json").write_text("old")
            (path / "page.html").write_text("old")
            with pytest.MonkeyPatch.context() as patch:
                calls = faulty(patch, owner, name, nth, fault)
                try:
                    WRITERS[writer](path)
                except CostGymError as error:
                    assert str(path) in str(error)
                except Killed:
                    pass
            if len(calls) < nth:
                break
            tried += 1
            if writer == "change":
                files.finish_change(path)  # what the next run does first
            left = {name: text for name, text in state(path).items() if not name.endswith(".tmp") and ".tmp/" not in name}
            old = {"board.json": "old", "page.html": "old"}
            new = {
                "replace": {**old, "board.json": "new"}, "file": {**old, "export.bin": "new"},
                "folder": {**old, "pack/manifest.json": "new"}, "change": {"board.json": "new", "page.html": "new"},
            }[writer]  # fmt: skip
            assert left in (old, new), (writer, name, nth, left)
            if not isinstance(fault, Killed):
                assert not list(path.rglob("*.tmp")), (writer, name, nth)
            WRITERS[writer](path) if writer in ("replace", "change") or left == old else None
            assert {name: text for name, text in state(path).items() if ".tmp" not in name} == new
    return tried


@pytest.mark.parametrize("fault", [*FAULTS, "kill"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_fault_at_any_call_leaves_the_old_or_the_new_and_the_next_run_repairs_it(
    writer: str, fault: Any, tmp_path: Path
) -> None:
    raised: BaseException = Killed() if fault == "kill" else OSError(fault, os.strerror(fault), "x")
    assert trials(writer, tmp_path, raised) >= 4


def test_a_file_is_synced_before_it_takes_its_place_and_its_folder_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    real = os.fsync

    def synced(handle: int) -> None:
        path = Path("/proc/self/fd", str(handle)).readlink()
        log.append("folder" if path == tmp_path else "draft")
        assert (tmp_path / "board.json").read_text() == ("new" if path == tmp_path else "old")
        real(handle)

    (tmp_path / "board.json").write_text("old")
    monkeypatch.setattr(os, "fsync", synced)
    replace_file(tmp_path)
    assert log == ["draft", "folder"]


@pytest.mark.parametrize(("writer", "name"), [("replace", "board.json"), ("file", "export.bin"), ("folder", "pack")])
def test_what_a_killed_process_left_goes_and_what_a_living_one_writes_stays(writer: str, name: str, tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for process in (dead.pid, os.getppid()):
        left = tmp_path / f".{name}.{process}.tmp"
        if writer == "folder":
            left.mkdir()
            left /= "part"
        left.write_text("half")
    WRITERS[writer](tmp_path)
    assert [path.name for path in tmp_path.glob(".*")] == [f".{name}.{os.getppid()}.tmp"]


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_a_place_without_a_name_is_refused(path: str) -> None:
    with pytest.raises(DataError, match="is not a file name"):
        write_atomically(Path(path), "text")


def test_half_a_character_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(DataError, match=r"U\+D800"):
        write_atomically(tmp_path / "a", "text \ud800")
    assert state(tmp_path) == {"a": "old"}


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # as /dev/null, which a file must not take the place of
    write_atomically(pipe, "new")
    assert (os.read(reader, 10), pipe.is_fifo(), [*tmp_path.iterdir()]) == (b"new", True, [pipe])
    os.close(reader)


def test_a_line_that_cannot_be_written_whole_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "lines")
    lines.append("one")
    with no_file_longer_than(10), pytest.raises(DataError, match="limit on the size of files"):
        lines.append("a second line")
    assert (tmp_path / "lines").read_text() == "one\n"
    lines.append("two")
    lines.append("three")
    lines.take_back()
    lines.append("four")
    lines.close()
    assert read_lines(tmp_path / "lines") == ["one", "two", "four"]


def test_the_folders_that_are_made_are_synced_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[Path]()
    monkeypatch.setattr(files.drafts, "sync_folder", synced.append)
    make_folder(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path / "a" / "b", tmp_path / "a", tmp_path]
    make_folder(tmp_path / "a" / "b" / "d")
    assert synced[3:] == [tmp_path / "a" / "b"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--found.*cannot be a folder"):
        make_folder(tmp_path / "file", "--found")


def test_a_file_that_cannot_be_synced_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "trajectories.jsonl").write_text("{}\n")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DataError, match=r"trajectories\.jsonl: cannot be written: Input/output error; check the disk"):
        files.sync(tmp_path / "trajectories.jsonl")


def test_a_reader_refuses_a_folder_that_is_written_to_and_keeps_writers_out_while_it_copies(tmp_path: Path) -> None:
    stack = ExitStack()
    with files.sole_writer(tmp_path), pytest.raises(ConfigError, match="another process writes to"):
        files.private_copy(tmp_path).__enter__()
    locked = files.plain.shared_lock(stack.enter_context(files.plain.Directory.opened(tmp_path)))
    with stack, locked, files.private_copy(tmp_path), pytest.raises(ConfigError, match="or reads it"):
        files.sole_writer(tmp_path).__enter__()
    with files.private_copy(tmp_path), files.sole_writer(tmp_path):
        pass


def test_a_private_copy_stays_as_it_was_and_its_errors_name_the_folder(tmp_path: Path) -> None:
    (tmp_path / "board.json").write_text("old")
    with pytest.raises(DataError) as raised, files.private_copy(tmp_path) as copy:
        (tmp_path / "board.json").write_text("new")
        assert state(copy) == {"board.json": "old"}
        raise DataError(copy / "board.json", f"is not like {copy}")
    assert str(raised.value) == f"{tmp_path}/board.json: is not like {tmp_path}"
    assert raised.value.path == f"{tmp_path}/board.json"
    assert not copy.exists()


def test_a_folder_that_no_room_is_left_to_copy_is_named(tmp_path: Path) -> None:
    (tmp_path / "board.json").write_text("x" * 2000)
    with no_file_longer_than(1000), pytest.raises(DataError, match=r"board\.json: cannot be copied: .* by TMPDIR"):
        files.private_copy(tmp_path).__enter__()
    assert state(tmp_path) == {"board.json": "x" * 2000}


@pytest.mark.parametrize("most", ["MAX_FILES", "MAX_BYTES", "MAX_DEPTH"])
def test_a_folder_that_is_too_large_is_not_copied(most: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("some text")
    with files.private_copy(tmp_path) as copy:
        assert state(copy) == {"a/b/c": "some text"}
    monkeypatch.setattr(files.plain, most, 1)
    with pytest.raises(DataError, match=r"more than 1 |larger than"):
        files.private_copy(tmp_path).__enter__()


def test_a_folder_with_too_many_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jsonl").touch()
    monkeypatch.setattr(files.plain, "MAX_OWN_NAMES", 2)
    with pytest.raises(DataError, match="holds more than 2 files; costgym writes only where"), files.sole_writer(tmp_path):
        pass
    monkeypatch.setattr(datasets, "MAX_OWN_NAMES", 2)
    with pytest.raises(DataError, match="holds more than 2 files"):
        datasets.list_datasets(tmp_path)


def test_a_reader_leaves_a_change_to_its_owner_who_finishes_it(tmp_path: Path) -> None:
    (tmp_path / "board.json").write_text("old")
    (tmp_path / files.NEXT).mkdir()
    (tmp_path / files.NEXT / "board.json").write_text("new")
    before = state(tmp_path)
    with pytest.raises(DataError, match="a change that was interrupted; its owner runs the command again"):
        files.private_copy(tmp_path).__enter__()
    assert state(tmp_path) == before
    files.finish_change(tmp_path)
    assert state(tmp_path) == {"board.json": "new"}


def test_reading_a_folder_writes_nothing_into_it(tmp_path: Path) -> None:
    with files.private_copy(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["hard link", "link"])
def test_lines_are_not_appended_to_a_file_that_stands_elsewhere_too(kind: str, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("one\nhalf")
    (os.link if kind == "hard link" else os.symlink)(tmp_path / "victim", tmp_path / "lines")
    for write in (LineFile, lambda path: files.keep_lines(path, 0)):
        with pytest.raises(DataError, match=f"is a {kind}"):
            write(tmp_path / "lines")
    assert (tmp_path / "victim").read_text() == "one\nhalf"


def test_yaml_is_read_back_as_it_was_written() -> None:
    texts = [
        "31324e0380782664",
        "12e4567",
        "yes",
        "1:30",
        "010",
        "1e3",
        "~",
        "null",
        "0o17",
        "2026-01-01",
        "=",
        "<<",
        "-",
        "# no",
    ]
    part = {"names": texts, "numbers": [1, 1.5, 1e20, True, None]}
    document = {"one": part, "other": part}
    assert parse_yaml(yaml_text(document), "text") == document
    assert "&" not in yaml_text(document)
