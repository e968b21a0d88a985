"""Change several files of a folder of one's own together, all or none, as its only writer."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from costgym.simulators.errors import DataError
from costgym.simulators.files.drafts import cannot_write, remove, sync_tree
from costgym.simulators.files.plain import NEXT, Directory, expect_plain, locked


@contextmanager
def change_together(folder: Path) -> Iterator[Path]:
    """A draft folder whose files, and the parts of whose folders, replace those of the same place in `folder`, all or none:
    renaming it to `.next` decides, and `finish_change` moves what a killed process has not."""
    finish_change(folder)
    draft = folder / f"{NEXT}.{os.getpid()}.tmp"
    for left in folder.glob(f"{NEXT}.*.tmp"):
        remove(left)
    try:
        draft.mkdir()
        yield draft
        sync_tree(draft)
        draft.rename(folder / NEXT)
    except OSError as error:
        raise cannot_write(folder, error) from error
    finally:
        with suppress(OSError):
            remove(draft)
    finish_change(folder)


def finish_change(folder: Path) -> None:
    """Put the files of a decided change of one's own in their places; does nothing where there is none."""
    with Directory.opened(folder) as directory:
        if directory.stat(NEXT) is None:
            return
        try:
            with directory.folder(NEXT) as decided:
                # documents come last: who finds a new table finds its pages
                for entry in sorted(decided.entries(), key=lambda entry: (entry.name.endswith(".json"), entry.name)):
                    if entry.is_dir(follow_symlinks=False):
                        with decided.folder(entry.name) as source, directory.folder(entry.name, make=True) as target:
                            for part in source.entries():
                                source.move(part.name, target)
                            target.sync()
                    else:
                        decided.move(entry.name, directory)
            directory.sync()
            directory.remove(NEXT)
        except OSError as error:
            problem = f"a change that was begun cannot be finished: {error.strerror or error}"
            raise DataError(folder, f"{problem}; run the same command again, which finishes it first") from error


@contextmanager
def sole_writer(folder: Path, alone: bool = True) -> Iterator[None]:
    """Lock a folder until this process ends, even by a crash. Raises ConfigError if another one reads or writes there, and
    DataError where it holds links or special files, unless other programs write there too (`alone` is False)."""
    with Directory.opened(folder) as directory, locked(directory, os.O_RDWR | os.O_CREAT, shared=False):
        if alone:
            expect_plain(directory)
        yield
