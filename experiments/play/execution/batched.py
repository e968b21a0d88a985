"""Do tasks side by side in threads of this process, so that one local model replies to all of them in one batch."""

import copy
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from ....agents.models.batched import Batch, ManyAtOnce, Member
from .engine import Item, Shared, Task, Work


class Batched:
    """The engine of one language model on this machine, the very object that the agents hold. Every thread has its own copy of
    what the tasks share, in which a seat of the batch stands in the model's place.

    Which requests meet in a batch follows from the tasks alone. In a batch a model pads and adds up in another order, so single
    replies may differ from those that it gives alone.
    """

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
            for place in range(seat, len(supply), batch.size):
                if batch.closed:
                    break
                try:
                    done.put((place, list(work(copies[seat], supply[place]))))
                except BaseException as error:
                    done.put((place, error))
                    break
            member.leave()

        threads = [threading.Thread(target=play, args=pair, daemon=True) for pair in enumerate(batch.members)]
        for thread in threads:
            thread.start()
        try:
            early: dict[int, list[Item]] = {}
            for place in range(len(supply)):
                while place not in early:
                    found, items = done.get()
                    if isinstance(items, BaseException):
                        raise items
                    early[found] = items
                yield from early.pop(place)
        finally:
            batch.close()
            for thread in threads:
                thread.join()


def batch_of(engine: Any) -> ManyAtOnce | None:
    """The model of a batched engine, which agents hold instead of one of their own; None of other engines."""
    return engine.model if isinstance(engine, Batched) else None
