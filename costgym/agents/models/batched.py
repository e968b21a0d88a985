"""Ask one local model for the replies of several episodes at once."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from costgym.agents.models.base import ACT, Function, LanguageModel, Message, Reply


class Conversations(Protocol):
    """Conversations with one model at the same time, one a seat."""

    def begin(self, seat: int, messages: Sequence[Message], functions: Sequence[Function]) -> None:
        """Take a request; its reply comes from `step`."""
        ...

    def step(self) -> Mapping[int, Reply]:
        """Go on with every reply under way, and return those that are complete, by seat."""
        ...


class ManyAtOnce(LanguageModel, Protocol):
    """A language model that has several conversations at once."""

    def side_by_side(self, seats: int) -> Conversations: ...


Request = tuple[Sequence[Message], Sequence[Function]]


class Batch:
    """The seats of some episodes at one model.

    Each episode is played in a thread of its own. The model says the next token of every reply under way when every other
    episode that is still played has asked for one. So which replies are under way together follows from the episodes alone, not
    from the threads' speed, and the replies of a greedy model do not depend on it either.
    """

    def __init__(self, model: ManyAtOnce, seats: int) -> None:
        self._model, self._talks = model, model.side_by_side(seats)
        self._turn = threading.Condition()
        # one thread for the model: in each that computes, CUDA's and OpenMP's libraries keep workspaces of their own
        self._worker = ThreadPoolExecutor(1)
        self._playing = set(range(seats))
        self._waiting: dict[int, Request] = {}
        self._under_way: set[int] = set()
        self._replies: dict[int, Reply | BaseException] = {}
        self.closed, self.size = False, seats
        self.members = [Member(self, model.name, number) for number in range(seats)]

    def ask(self, number: int, request: Request) -> Reply:
        """Wait for the reply to a request of one seat; raises InterruptedError where the batch was closed."""
        with self._turn:
            self._waiting[number] = request
            self._go_on()
            self._turn.wait_for(lambda: self.closed or number in self._replies)
            if self.closed:
                raise InterruptedError("the batch was closed")
            reply = self._replies.pop(number)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def leave(self, number: int) -> None:
        """Say that a seat asks for nothing more, so that the others do not wait for it."""
        with self._turn:
            self._playing.discard(number)
            self._go_on()

    def close(self) -> None:
        """Stop replying: requests that wait or come later raise an error."""
        with self._turn:
            self.closed = True
            self._turn.notify_all()
        self._worker.shutdown()

    def _go_on(self) -> None:
        """If every seat waits, let the model speak until one of them has its reply."""
        if self.closed or not self._playing or self._waiting.keys() | self._under_way != self._playing:
            return
        try:
            replies = self._worker.submit(self._speak).result()
            self._replies |= replies
            self._under_way -= replies.keys()
        # whatever fails here fails for every seat that waits: each of them raises it in its own thread
        except BaseException as error:
            self._replies |= dict.fromkeys(self._under_way | self._waiting.keys(), error)
            self._waiting, self._under_way = {}, set()
            self._talks = self._model.side_by_side(self.size)
        self._turn.notify_all()

    def _speak(self) -> Mapping[int, Reply]:
        """Take what was asked, and return the first replies."""
        for number in sorted(self._waiting):
            self._talks.begin(number, *self._waiting[number])
        self._under_way |= self._waiting.keys()
        self._waiting = {}
        while not (replies := self._talks.step()):
            pass
        return replies


class Member:
    """A seat of a batch: a language model for one episode at a time."""

    def __init__(self, batch: Batch, name: str, number: int) -> None:
        self._batch, self._number, self.name = batch, number, name

    def reset(self, seed: int) -> None:
        """Do nothing: a batch has one chance for all its episodes, and greedy models have none."""

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        return self._batch.ask(self._number, (list(messages), list(functions)))

    def leave(self) -> None:
        self._batch.leave(self._number)
