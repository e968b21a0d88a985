"""Run tasks in this process, in processes of this machine, or on a Ray cluster.

An engine maps a function over tasks and returns the results in the order of the tasks. The results do not depend on the engine,
on the number of workers, or on lost workers, whose tasks are repeated. The number of tasks in flight is bounded, and a task is
in flight until its results are taken, so neither a slow writer nor an endless supply of tasks fills memory.
"""

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import Any, ClassVar, Protocol, TypeVar

from costgym.simulators import user_code
from costgym.simulators.errors import ConfigError, InfrastructureError, check_known, check_positive

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Item = TypeVar("Item")
Work = Callable[[Shared, Task], Iterable[Item]]
"""A module-level function, which workers can import. It takes the shared argument and a task, and returns items."""

ENGINES = ("local", "ray")
TASKS_PER_WORKER = 4  # in flight: enough that none waits for the order of results, few enough to bound memory
LOSSES = 5  # greatest number of workers lost in a row without a completed task


class Engine(Protocol):
    """An executor of tasks of some episodes each: enough to outweigh its dispatch, few enough to share evenly."""

    episodes_per_task: ClassVar[int]

    def stream(self, work: Work[Shared, Task, Item], shared: Shared, tasks: Iterable[Task]) -> Iterator[Item]:
        """The items of every task, in order, as `work` makes them of what is shared, sent to every worker once, and of the task
        alone. Raises InfrastructureError if workers were lost repeatedly."""
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """The engine of this machine. One job runs in this process and returns items at once; several jobs are processes."""

    episodes_per_task: ClassVar[int] = 25
    jobs: int = 1

    def stream(self, work: Work[Shared, Task, Item], shared: Shared, tasks: Iterable[Task]) -> Iterator[Item]:
        supply = iter(tasks)
        # a single task is done here, since starting a process may take longer than the task
        first = list(itertools.islice(supply, 2))
        supply = itertools.chain(first, supply)
        if self.jobs == 1 or len(first) < 2:
            for task in supply:
                yield from work(shared, task)
        else:
            yield from self._processes(work, shared, supply)

    def _processes(self, work: Work[Shared, Task, Item], shared: Shared, tasks: Iterator[Task]) -> Iterator[Item]:
        under_way: deque[tuple[Task, Future[list[Item]]]] = deque()
        losses = 0
        pool = _pool(self.jobs, work, shared)
        try:
            while True:
                try:
                    for task in itertools.islice(tasks, TASKS_PER_WORKER * self.jobs - len(under_way)):
                        # entered as lost first: if the pool breaks in `submit`, the task is repeated like the others
                        under_way.append((task, _LOST))
                        under_way[-1] = (task, pool.submit(_do, task))
                    if not under_way:
                        return
                    items = under_way[0][1].result()
                except BrokenProcessPool as error:
                    losses += 1
                    if losses > LOSSES:
                        raise InfrastructureError(
                            f"{losses} worker processes were lost in a row; run the same command again to continue"
                        ) from error
                    pool.shutdown(wait=True)
                    pool = _pool(self.jobs, work, shared)
                    # what had ended before the pool broke is kept, and only the rest is done again
                    again = [(task, future if _done(future) else pool.submit(_do, task)) for task, future in under_way]
                    under_way = deque(again)
                    continue
                losses = 0
                under_way.popleft()
                yield from items
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_LOST: Future[Any] = Future()
_LOST.set_exception(BrokenProcessPool())


def _done(future: Future[Any]) -> bool:
    return future.done() and not isinstance(future.exception(), BrokenProcessPool)


def _pool(jobs: int, work: Work[Any, Any, Any], shared: Any) -> ProcessPoolExecutor:
    # spawned, not forked: a fork of a process with threads (progress bars, BLAS) may hang
    return ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(work, shared, dict(user_code.known))
    )


_work: list[tuple[Work[Any, Any, Any], Any]] = []  # in a worker process: what it does, and what its tasks share


def _begin(work: Work[Any, Any, Any], shared: Any, code: dict[str, bytes]) -> None:
    user_code.known.update(code)  # of scenarios, which the user has named in the process that asks
    _work[:] = [(work, shared)]
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=end_with, args=(parent.sentinel,), daemon=True).start()


def end_with(parent: int) -> None:
    """End this worker, in the middle of its task if need be, once the process that started it is gone, however it went."""
    wait([parent])
    os._exit(1)


def _do(task: Any) -> list[Any]:
    work, shared = _work[0]
    return list(work(shared, task))


@contextmanager
def open_engine(
    name: str = "local", jobs: int | None = None, address: str | None = None, environment: Iterable[str] = ()
) -> Generator[Engine, None, None]:
    """Open an engine by name for the duration of a `with` block; by default it has a worker for each processor. A Ray cluster
    has an address (`host:port`, "auto", "ray://...") or is started here, and its workers get the named environment variables.
    Raises ConfigError for options that do not fit, InfrastructureError if no cluster answers."""
    check_known("engine", name, ENGINES)
    if jobs is not None:
        check_positive("--jobs", jobs)
    if name == "local":
        if address is not None:
            raise ConfigError("--ray-address", "expected with --engine ray only")
        yield Local(jobs or default_jobs())
        return
    from costgym.experiments.play.execution.ray_cluster import Ray, connected

    variables = {variable: os.environ[variable] for variable in environment if variable in os.environ}
    with connected(address, jobs or default_jobs()) as ray:
        yield Ray(ray, None if address is None else jobs, variables)


def default_jobs() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
