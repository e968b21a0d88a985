"""Tokens are counted where the model answers: on the judge's side of the pipe."""

import json
from typing import Any

from ....agents.models.base import Reply
from ....envs.actions import FINISH, MAX_TOKENS_REPORTED, read_usage
from ....simulators.calls import Usage


class Meter:
    """The tokens that an agent's models used in an episode, less those that its actions have paid for.

    An action that reports less than was used is charged for what was used; what it reports above that counts for later ones.

    Attributes:
        requests: replies of the models so far.
    """

    def __init__(self) -> None:
        self.requests = self._read = self._written = 0

    def add(self, reply: Reply) -> None:
        """Count a reply."""
        self.requests += 1
        self._read += reply.usage.input_tokens
        self._written += reply.usage.output_tokens

    def charge(self, action: Any) -> Any:
        """An agent's action with the tokens that it has to pay for; one that owes nothing stays as it is."""
        if not self.requests or not isinstance(action, str):
            return action
        try:
            document = {"name": FINISH} if action.strip() == FINISH else json.loads(action)
        except (ValueError, RecursionError):
            return action  # it calls nothing and answers nothing, and the next action owes the tokens
        if not isinstance(document, dict):
            return action
        said = read_usage(document.get("usage"))
        usage = said or Usage(0, 0)
        owed = (min(MAX_TOKENS_REPORTED, max(0, each)) for each in (self._read, self._written))
        read, written = (max(pair) for pair in zip(owed, (usage.input_tokens, usage.output_tokens), strict=True))
        self._read -= read
        self._written -= written
        if said is not None and (read, written) == (said.input_tokens, said.output_tokens):
            return action
        paid = usage._replace(input_tokens=read, output_tokens=written)
        return json.dumps({**document, "usage": paid.document()})
