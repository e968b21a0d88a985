"""Play episodes side by side in threads of this process, so that their requests to a model server are in flight together."""

import copy
import itertools
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from ....agents.models.named import read_model_name
from .batched import Batched
from .engine import TASKS_PER_WORKER, Engine, Item, Local, Shared, Task, Work, default_jobs

CONCURRENCY = 8  # requests in flight at once, where no number is given


class Concurrent:
    """The engine of a model behind a server. An episode asks for one reply at a time, so the number of threads is the limit of
    requests of the whole run. Every thread has its own copy of what the tasks share; results come in the order of the tasks."""

    episodes_per_task: ClassVar[int] = 1

    def __init__(self, size: int) -> None:
        self.size = size

    def stream(self, work: Work[Shared, Task, Item], shared: Shared, tasks: Iterable[Task]) -> Iterator[Item]:
        """As `Engine.stream`; where a task raises, the others that are under way end in the background."""
        supply = iter(tasks)
        waiting: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, list[Item] | BaseException]] = queue.SimpleQueue()
        threads: list[threading.Thread] = []
        stopped, one_at_a_time = threading.Event(), threading.Lock()

        def play() -> None:
            own: list[Shared] = []
            while (task := waiting.get()) is not None and not stopped.is_set():
                try:
                    if not own:
                        with one_at_a_time:
                            own.append(copy.deepcopy(shared))
                    done.put((task[0], list(work(own[0], task[1]))))
                except BaseException as error:
                    done.put((task[0], error))

        early: dict[int, list[Item]] = {}
        taken = given = 0
        try:
            while True:
                for task in itertools.islice(supply, TASKS_PER_WORKER * self.size - (taken - given)):
                    waiting.put((taken, task))
                    taken += 1
                    if len(threads) < self.size:
                        threads.append(threading.Thread(target=play, name=f"episode {len(threads)}", daemon=True))
                        threads[-1].start()
                if given == taken:
                    return
                while given not in early:
                    place, items = done.get()
                    if isinstance(items, BaseException):
                        raise items
                    early[place] = items
                yield from early.pop(given)
                given += 1
        finally:
            stopped.set()
            for _ in threads:
                waiting.put(None)


def for_replays(engine: Engine) -> Engine:
    """The engine for work that waits for no request, such as replays: processes in place of threads."""
    return Local(default_jobs()) if isinstance(engine, Concurrent | Batched) else engine


def engine_for(model: str, jobs: int, concurrency: int = CONCURRENCY) -> Engine:
    """The engine of this machine for agents with a model: threads for one behind a server, processes for others."""
    return Concurrent(concurrency) if on_a_server(model) else Local(jobs)


def on_a_server(model: str) -> bool:
    """Whether a model of this name is asked over the network."""
    name = read_model_name(model)
    return name is not None and name.kind == "openai"
