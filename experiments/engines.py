"""Where work runs: in this process, in processes of this machine, or on a Ray cluster.

An engine maps a function over tasks and hands out what comes of them in the order of the tasks, whoever did them and when. So
what its caller writes does not depend on the engine, on the number of workers, or on workers that were lost on the way: their
tasks are done again. Only so many tasks are under way at a time, and a task counts as under way until its items are taken, so
neither a slow writer nor an endless supply of tasks fills memory.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from ..simulators.errors import ConfigError, InfrastructureError, UnknownName, require

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Item = TypeVar("Item")
Work = Callable[[Shared, Task], Iterable[Item]]
"""A function of a module, so that workers can find it: what all tasks share and one task in, items out."""

ENGINES = ("local", "ray")
TASKS_PER_WORKER = 4
"""Under way at a time: enough that a worker never waits for the order of results, few enough to bound memory."""
LOSSES = 5
"""Workers that may be lost in a row without one task done, and times that Ray does a task again."""


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


class Ray:
    """A Ray cluster, one processor a task. Nodes may come and go: tasks of a lost worker or node are done elsewhere.

    Args:
        ray: the connected module.
        jobs: tasks under way at most; None for four times the cluster's processors, as many as it has at the time.
    """

    def __init__(self, ray: Any, jobs: int | None = None) -> None:
        self._ray, self._jobs = ray, jobs
        self._counted_s, self._most = float("-inf"), 1

    def stream(self, work: Work[Shared, Task, Item], shared: Shared, tasks: Iterable[Task]) -> Iterator[Item]:
        ray, supply = self._ray, iter(tasks)
        failures = ray.exceptions
        under_way: deque[Any] = deque()
        try:
            remote = ray.remote(num_cpus=1, max_retries=LOSSES, retry_exceptions=False)(_do_apart)
            # the driver's own node holds what is shared, so it outlives every other
            place = ray.put((work, shared))
            while True:
                for task in itertools.islice(supply, max(0, self._window() - len(under_way))):
                    under_way.append(remote.remote(place, task))
                if not under_way:
                    return
                items = ray.get(under_way[0])
                under_way.popleft()
                yield from items
        except failures.RayTaskError as error:
            raise error.cause from error
        except failures.RayError as error:
            raise InfrastructureError(f"Ray lost what it ran ({error}); run the same command again to continue") from error
        finally:
            for reference in under_way:
                ray.cancel(reference, force=False)

    def _window(self) -> int:
        if self._jobs is not None:
            return self._jobs
        now = time.monotonic()
        if now - self._counted_s > 1.0:
            self._counted_s = now
            self._most = TASKS_PER_WORKER * max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return self._most


def _do_apart(place: tuple[Work[Any, Any, Any], Any], task: Any) -> list[Any]:
    work, shared = place
    return list(work(shared, task))


@contextmanager
def open_engine(name: str = "local", jobs: int | None = None, address: str | None = None) -> Generator[Engine, None, None]:
    """An engine by name, for as long as the block runs.

    Args:
        name: "local" or "ray".
        jobs: workers; by default one for each processor. On a cluster: tasks under way at most; by default it follows the
            cluster's size.
        address: of a Ray cluster that runs (`host:port`, "auto", "ray://..."); without one, Ray is started on this machine
            and stopped afterwards.

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
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports to its makers unless told not to
    ray = require("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        here = {"num_cpus": jobs or default_jobs(), "include_dashboard": False}
        try:
            ray.init(**quiet, **({"address": "local", **here} if address is None else {"address": address}))
        except Exception as error:  # Ray raises plain ones too
            raise InfrastructureError(f"no Ray cluster answers at {address or 'this machine'}: {error}") from error
    try:
        yield Ray(ray, None if address is None else jobs)
    finally:
        if ours:
            ray.shutdown()


def default_jobs() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
