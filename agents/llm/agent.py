"""A language-model agent: a model, a strategy and a list of tool accesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from ...envs.actions import encode_action
from ...simulators.world import World
from ..base import TEXT, Agent
from ..models.base import Function, LanguageModel
from .session import LlmSession
from .types import Outcome, Play, Strategy, ToolAccess


class LlmAgent(Agent):
    """Plays the text view by asking a language model.

    Args:
        model: Says what to do.
        strategy: Makes a search of what it says.
        access: Tool accesses; those that filter tools stand before those that present them.
        name: Its name in results; by default the strategy's name and the accesses' suffixes.

    >>> from costgym.agents.btp.access import Btp
    >>> agent = LlmAgent(Simulated(), ReAct(), access=[Btp(experience)])  # doctest: +SKIP
    """

    env_id = TEXT

    def __init__(
        self, model: LanguageModel, strategy: Strategy, access: Sequence[ToolAccess] = (), name: str | None = None
    ) -> None:
        self._model, self._strategy, self._access = model, strategy, tuple(access)
        self.name = name or "+".join([strategy.name, *[part.suffix for part in access if part.suffix]])
        self.model = model.name
        self.session: LlmSession | None = None
        self._play: Play[None] | None = None
        self._begun = False
        self._world: World | None = None
        self._functions: dict[int, Function] = {}

    def reset(self, env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], seed: int) -> None:
        self._model.reset(env, seed)
        functions = self._documentation(env.unwrapped)
        self.session = LlmSession(
            env, self._model, self._access, functions, str(observation), info, self._strategy.text_is_answer
        )
        self._play = self.session.run(self._strategy)
        self._begun = False

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        assert self._play is not None, "reset comes first"
        try:
            if self._begun:
                return self._play.send(Outcome(str(observation), info))
            self._begun = True
            return next(self._play)
        except StopIteration:
            return encode_action("finish", {"answer": "", "give_up": True})

    def _documentation(self, env: Any) -> list[Function]:
        """The candidates as functions, each counted once per world."""
        if env.world is not self._world:
            self._world, self._functions = env.world, {}
        known = self._functions
        found = []
        for slot in env.episode.candidates:
            function = known.get(slot.number)
            if function is None:
                function = known[slot.number] = Function.of(env.world.catalog[slot.number])
            found.append(function)
        return found
