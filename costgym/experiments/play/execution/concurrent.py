"""Play episodes side by side in threads of this process, so that their requests to a model are in flight together, on a
server or as a batch."""

import copy
import itertools
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from costgym.agents.models.batched import Batch, ManyAtOnce, Member
from costgym.agents.models.named import read_model_name
from costgym.experiments.play.execution.engine import TASKS_PER_WORKER, Engine, Item, Local, Shared, Task, Work, default_jobs

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
            copies: list[Shared] = []
            while (task := waiting.get()) is not None and not stopped.is_set():
                try:
                    if not copies:
                        with one_at_a_time:
                            copies.append(copy.deepcopy(shared))
                    done.put((task[0], list(work(copies[0], task[1]))))
                except BaseException as error:
                    done.put((task[0], error))

        early: dict[int, list[Item]] = {}
        taken = yielded = 0
        try:
            while True:
                for task in itertools.islice(supply, TASKS_PER_WORKER * self.size - (taken - yielded)):
                    waiting.put((taken, task))
                    taken += 1
                    if len(threads) < self.size:
                        threads.append(threading.Thread(target=play, name=f"episode {len(threads)}", daemon=True))
                        threads[-1].start()
                if yielded == taken:
                    return
                yield from _next(done, early, yielded)
                yielded += 1
        finally:
            stopped.set()
            for _ in threads:
                waiting.put(None)


def _next(done: "queue.SimpleQueue[tuple[int, Any]]", early: dict[int, list[Any]], index: int) -> list[Any]:
    """The items of the task at an index; those of others that come before it are kept in `early`."""
    while index not in early:
        number, items = done.get()
        if isinstance(items, BaseException):
            raise items
        early[number] = items
    return early.pop(index)


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


class Batched:
    """The engine of one language model on this machine, the very object that the agents hold. Every thread has its own copy of
    what the tasks share, in which a seat of the batch stands in the model's place. Which requests meet in a batch follows from
    the tasks alone. In a batch a model pads and adds up in another order, so single replies may differ from those that it gives
    alone."""

    episodes_per_task: ClassVar[int] = 1

    def __init__(self, model: ManyAtOnce, size: int) -> None:
        self.model, self.size = model, size

    def stream(self, work: Work[Shared, Task, Item], shared: Shared, tasks: Iterable[Task]) -> Iterator[Item]:
        supply = list(tasks)
        batch = Batch(self.model, min(self.size, len(supply)))
        copies = [copy.deepcopy(shared, {id(self.model): member}) for member in batch.members]
        done: queue.SimpleQueue[tuple[int, list[Item] | BaseException]] = queue.SimpleQueue()

        def play(seat: int, member: Member) -> None:
            # dealt out beforehand: who is quicker must not decide who meets in a batch
            for index in range(seat, len(supply), batch.size):
                if batch.closed:
                    break
                try:
                    done.put((index, list(work(copies[seat], supply[index]))))
                except BaseException as error:
                    done.put((index, error))
                    break
            member.leave()

        threads = [threading.Thread(target=play, args=pair, daemon=True) for pair in enumerate(batch.members)]
        for thread in threads:
            thread.start()
        try:
            early: dict[int, list[Item]] = {}
            for index in range(len(supply)):
                yield from _next(done, early, index)
        finally:
            batch.close()
            for thread in threads:
                thread.join()


def batch_of(engine: Any) -> ManyAtOnce | None:
    """The model of a batched engine, which agents hold instead of one of their own; None of other engines."""
    return engine.model if isinstance(engine, Batched) else None
