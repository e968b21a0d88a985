"""A language model that replies with given lines."""

from collections.abc import Iterable, Sequence
from typing import Any

from costgym.agents.models.base import ACT, VOTE, Function, FunctionCall, Message, Reply, reply

Line = str | tuple[str, Any] | FunctionCall | Message


class Scripted:
    """Replies with its lines in order, then with `after`.

    Args:
        lines: The replies: texts, calls ``("tool", {...})``, or whole messages.
        votes: Answers to votes, cyclic.
        after: The reply when the lines are used up; by default it gives up.
    """

    name = "scripted"

    def __init__(self, lines: Iterable[Line], votes: Sequence[str] = ("A",), after: Line | None = None) -> None:
        self._lines = list(lines)
        self._votes = list(votes)
        self._after = after if after is not None else ("finish", {"answer": "", "give_up": True})
        self._said = self._voted = 0
        self.heard: list[tuple[str, tuple[Message, ...], tuple[Function, ...]]] = []

    def reset(self, seed: int) -> None:
        self._said = self._voted = 0
        self.heard.clear()

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        self.heard.append((purpose, tuple(messages), tuple(functions)))
        line: Line
        if purpose == VOTE:
            line = self._votes[self._voted % len(self._votes)]
            self._voted += 1
        else:
            line = self._lines[self._said] if self._said < len(self._lines) else self._after
            self._said += 1
        if isinstance(line, Message):
            return reply(line.content, line.calls, messages, functions)
        if isinstance(line, str):
            return reply(line, (), messages, functions)
        return reply("", (FunctionCall(*line),), messages, functions)
