"""Models that stand on the world's side: simulated ones, which know what the task needs and err on purpose.

An agent holds a port. It can ask through it and gets a reply, as it would from a server; the model itself, with its reading of
the task, is kept here and told of each episode by whoever plays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ..envs.base import BaseEnv
from .models.base import ACT, Function, LanguageModel, Message, Reply

_MODELS: WeakKeyDictionary[Port, Any] = WeakKeyDictionary()


class Port:
    """An agent's end of a model on the world's side.

    Args:
        model: with `begin(world, seed)`, and whatever the port asks of it.

    Attributes:
        name: of the model.
    """

    def __init__(self, model: Any) -> None:
        self.name: str = model.name
        _MODELS[self] = model

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (behind(self),)

    def begin(self, world: BaseEnv[Any, Any], seed: int) -> None:
        """A new episode, told to the model by whoever plays it; of no use to an agent, which has no world."""
        behind(self).begin(world, seed)


def behind(port: Port) -> Any:
    """The model behind a port; for the world's side."""
    return _MODELS[port]


def replace(port: Port, model: Any) -> None:
    """Put another model behind a port: where an agent lives in a process of its own, one that asks over the pipe."""
    _MODELS[port] = model


class ModelPort(Port):
    """The port of a language model."""

    def reset(self, seed: int) -> None:
        """Nothing to do: the model is told of episodes on the world's side."""

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        """The model's reply."""
        found: Reply = behind(self).complete(messages, functions, purpose)
        return found


def ported(model: Any) -> tuple[LanguageModel, tuple[Port, ...]]:
    """A language model as an agent may hold it, and the ports that this takes: one for a model that reads the task."""
    if not getattr(model, "on_world_side", False):
        return model, ()
    port = ModelPort(model)
    return port, (port,)
