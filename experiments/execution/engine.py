"""Where work runs: in this process, in processes of this machine, or on a Ray cluster.

An engine maps a function over tasks and hands out what comes of them in the order of the tasks, whoever did them and when. So
what its caller writes does not depend on the engine, on the number of workers, or on workers that were lost on the way: their
tasks are done again. Only so many tasks are under way at a time, and a task counts as under way until its items are taken, so
neither a slow writer nor an endless supply of tasks fills memory.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from ...simulators.errors import ConfigError, InfrastructureError, UnknownName

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Item = TypeVar("Item")
Work = Callable[[Shared, Task], Iterable[Item]]
"""A function of a module, so that workers can find it: what all tasks share and one task in, items out."""

ENGINES = ("local", "ray")
TASKS_PER_WORKER = 4
"""Under way at a time: enough that a worker never waits for the order of results, few enough to bound memory."""
LOSSES = 5
"""Workers that may be lost in a row without one task done."""


class Engine(Protocol):
    """Does tasks; see the module."""

    def stream(self, work: Work[Shared, Task, Item], shared: Shared, tasks: Iterable[Task]) -> Iterator[Item]:
        """The items of every task, in order.

        Args:
            work: does one task; must depend on its arguments alone.
            shared: its first argument, sent to every worker once.
            tasks: its second argument, one after another; taken as workers become free.

        Raises:
            InfrastructureError: workers were lost again and again; nothing is said about the tasks.
        """
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """This machine. One job works in this process and hands out every item as soon as it is there; more are processes.

    Attributes:
        jobs: how many.
    """

    jobs: int = 1

    def stream(self, work: Work[Shared, Task, Item], shared: Shared, tasks: Iterable[Task]) -> Iterator[Item]:
        supply = iter(tasks)
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
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(work, shared))


_work: list[tuple[Work[Any, Any, Any], Any]] = []
"""In a worker process: what it does, and what its tasks share."""


def _begin(work: Work[Any, Any, Any], shared: Any) -> None:
    _work[:] = [(work, shared)]


def _do(task: Any) -> list[Any]:
    work, shared = _work[0]
    return list(work(shared, task))


@contextmanager
def open_engine(
    name: str = "local", jobs: int | None = None, address: str | None = None, environment: Iterable[str] = ()
) -> Generator[Engine, None, None]:
    """An engine by name, for as long as the block runs.

    Args:
        name: "local" or "ray".
        jobs: workers; by default one for each processor. On a cluster: tasks under way at most; by default it follows the
            cluster's size.
        address: of a Ray cluster that runs (`host:port`, "auto", "ray://..."); without one, Ray is started on this machine
            and stopped afterwards.
        environment: names of environment variables that workers on other machines shall have too, as far as they are set here:
            those that a run's model reads, for example. Processes of this machine have them all.

    Raises:
        UnknownName: there is no such engine.
        ConfigError: a number of jobs that makes no sense, or an address without Ray.
        MissingExtra: Ray is not installed.
        InfrastructureError: no cluster answers there.
    """
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise ConfigError("--jobs", f"expected a positive whole number, got {jobs!r}")
    if name == "local":
        if address is not None:
            raise ConfigError("--ray-address", "expected with --engine ray only")
        yield Local(jobs or default_jobs())
        return
    from .ray_cluster import Ray, connected

    given = {variable: os.environ[variable] for variable in environment if variable in os.environ}
    with connected(address, jobs or default_jobs()) as ray:
        yield Ray(ray, None if address is None else jobs, given)


def default_jobs() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
