"""Ask one local model for the replies of several episodes at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from .base import ACT, Function, LanguageModel, Message, Reply

Request = tuple[Sequence[Message], Sequence[Function]]


class ManyAtOnce(LanguageModel, Protocol):
    """A language model that replies to several requests in one batch."""

    def complete_many(self, requests: Sequence[Request]) -> list[Reply]: ...


class Batch:
    """The seats of some episodes at one model. A batch is asked for when every episode that is still played waits for a reply.

    Each episode is played in a thread of its own. Which requests meet in a batch follows from the episodes alone, not from
    the threads' speed, so the replies of a greedy model do not depend on it either.

    Args:
        model: replies to several requests at once.
        seats: number of episodes side by side.
    """

    def __init__(self, model: ManyAtOnce, seats: int) -> None:
        self._model = model
        self._turn = threading.Condition()
        self._playing = set(range(seats))
        self._asked: dict[int, Request] = {}
        self._replies: dict[int, Reply | BaseException] = {}
        self.closed = False
        self.size = seats
        self.members = [Member(self, model.name, number) for number in range(seats)]

    def ask(self, number: int, request: Request) -> Reply:
        """Wait for the reply to a request of one seat.

        Raises:
            InterruptedError: the batch was closed.
        """
        with self._turn:
            self._asked[number] = request
            self._ask_if_all_wait()
            self._turn.wait_for(lambda: self.closed or number in self._replies)
            if self.closed:
                raise InterruptedError("the batch was closed")
            found = self._replies.pop(number)
        if isinstance(found, BaseException):
            raise found
        return found

    def leave(self, number: int) -> None:
        """Say that a seat asks for nothing more, so that the others do not wait for it."""
        with self._turn:
            self._playing.discard(number)
            self._ask_if_all_wait()

    def close(self) -> None:
        """Reply to nobody any more: those who wait, or ask later, get an error."""
        with self._turn:
            self.closed = True
            self._turn.notify_all()

    def _ask_if_all_wait(self) -> None:
        if self.closed or not self._playing or self._asked.keys() != self._playing:
            return
        numbers = sorted(self._asked)
        try:
            replies: Sequence[Any] = self._model.complete_many([self._asked[number] for number in numbers])
        except BaseException as error:
            replies = [error] * len(numbers)
        self._replies = dict(zip(numbers, replies, strict=True))
        self._asked = {}
        self._turn.notify_all()


class Member:
    """A seat of a batch: a language model for one episode at a time.

    Args:
        batch: where it asks.
        name: of the model.
        number: of the seat.
    """

    def __init__(self, batch: Batch, name: str, number: int) -> None:
        self._batch, self._number, self.name = batch, number, name

    def reset(self, seed: int) -> None:
        """Do nothing: a batch has one chance for all its episodes, and greedy models have none."""

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        return self._batch.ask(self._number, (list(messages), list(functions)))

    def leave(self) -> None:
        """Say that nothing more is asked for."""
        self._batch.leave(self._number)
