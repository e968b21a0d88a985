"""Work for the tests of engines, in a module that imports little, since every worker process imports it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from costgym.simulators.errors import DataError


def squares(shared: int, task: int) -> Iterator[int]:
    """As many items as the task says."""
    for number in range(task):
        yield shared + number * number


def die_once(shared: str, task: int) -> Iterator[int]:
    """The third task kills its worker, the first time that it is tried."""
    mark = Path(shared, "died")
    if task == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    yield task


def die(shared: None, task: int) -> Iterator[int]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield task


def refuse(shared: None, task: int) -> Iterator[int]:
    if task == 2:
        raise DataError("file", "is no record", "line 2")
    yield task


def work_for_ever(folder: str, task: int) -> Iterator[int]:
    Path(folder, str(os.getpid())).touch()
    while True:
        pass
    yield task
