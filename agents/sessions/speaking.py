"""A rule for sessions in words, which reads what a language model reads."""

from __future__ import annotations

import re
from typing import Any

from ...envs.actions import encode_action
from ...envs.seats import TextSeat
from ...envs.sessions.chat import NEXT, RECALL
from ..base import SESSION_CHAT, Agent

MOST_CALLS = 3
"""Calls for one query, after which `SpokenCheapest` leaves it."""


class SpokenCheapest(Agent):
    """Answers from memory, else by the cheapest tools that serve the query, one after another, three at most."""

    name = "cheapest"
    env_id = SESSION_CHAT

    def reset(self, seat: TextSeat, observation: str, info: dict[str, Any], seed: int) -> None:
        self._kinds = {tool.name: tool.category for tool in seat.tools}
        self._query, self._tried = -1, set[str]()

    def act(self, observation: str, info: dict[str, Any]) -> str:
        if info["query"] != self._query:
            self._query, self._tried = info["query"], set()
        asked = observation.splitlines()[-1]
        if "The fact is in memory" in asked:
            return encode_action(RECALL)
        kind = re.search(r"a fact of (kind \d+)", asked)
        left, quotes = info["budget_remaining_price"], info["quotes"]
        serve = [
            name
            for name, price in quotes.items()
            if kind and self._kinds[name] == kind[1] and name not in self._tried and price <= left
        ]
        if not serve or len(self._tried) == MOST_CALLS:
            return encode_action(NEXT)
        chosen = min(serve, key=quotes.__getitem__)
        self._tried.add(chosen)
        return encode_action(chosen)
