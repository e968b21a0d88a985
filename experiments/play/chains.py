"""Listen to a language model and keep the conversation that an episode ended with."""

from collections.abc import Sequence
from typing import Any

from ...agents.llm.agent import LlmAgent
from ...agents.models.base import ACT, Function, FunctionCall, LanguageModel, Message, Reply
from ...agents.world_side import ModelHandle, model_of, wrap_model


class ChainWatcher:
    """A wrapper of a language model that records the calls on the chain that ends with the model's last reply; of a tree search
    these are the calls on the branch that ended it."""

    on_world_side = True  # it hears of every episode

    def __init__(self, model: LanguageModel) -> None:
        self._model, self._handles = wrap_model(model)
        self.calls: tuple[FunctionCall, ...] = ()

    @property
    def name(self) -> str:
        """Name of the model that is listened to."""
        return self._model.name

    @property
    def chain(self) -> tuple[str, ...]:
        """Names of the functions called on the chain, in order."""
        return tuple(str(call.name) for call in self.calls)

    def reset(self, seed: int) -> None:
        """Nothing to do: `begin` tells of an episode."""

    def begin(self, world: Any, seed: int) -> None:
        """A new episode, told to the model that is listened to."""
        self.calls = ()
        for handle in self._handles:
            handle.begin(world, seed)
        self._model.reset(seed)

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        """The model's reply; the calls before it and in it are kept."""
        answer = self._model.complete(messages, functions, purpose)
        if purpose == ACT:
            self.calls = tuple(call for message in (*messages, answer.message) for call in message.calls)
        return answer


def watch(agent: LlmAgent) -> ChainWatcher:
    """Put a watcher between an agent and its language model, whichever that is, and return it."""
    model = agent._model
    watcher = ChainWatcher(model_of(model) if isinstance(model, ModelHandle) else model)
    agent._model, agent.handles = wrap_model(watcher)
    return watcher
