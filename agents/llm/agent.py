"""A language-model agent: a model, a strategy and a list of tool accesses."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ...envs.actions import encode_action
from ...simulators.tools import Same
from ..base import TEXT, Agent
from ..models.base import Function, LanguageModel
from ..seat import TextSeat
from ..world_side import wrap_model
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
        self._model, self.handles = wrap_model(model)
        self._strategy, self._access = strategy, tuple(access)
        self.name = name or "+".join([strategy.name, *[part.suffix for part in access if part.suffix]])
        self.model = model.name
        self.session: LlmSession | None = None
        self._play: Play[None] | None = None
        self._begun = False

    def reset(self, seat: TextSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._model.reset(seed)
        functions = _functions(Same(seat.tools))
        self.session = LlmSession(
            seat, self._model, self._access, functions, str(observation), info, self._strategy.text_is_answer
        )
        self.replies = self.session.replies
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


# tools are the same objects in every episode, so all agents share what counting their tokens took
@lru_cache(maxsize=1024)
def _functions(tools: Same) -> tuple[Function, ...]:
    """Return the documents of the tools on offer."""
    return tuple([_function(Same(card)) for card in tools.value])


@lru_cache(maxsize=16_384)
def _function(card: Same) -> Function:
    return Function(card.value.name, card.value.description, card.value.parameters)
