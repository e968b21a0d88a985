"""Models that stand on the world's side: simulated ones, which know what the task needs and err on purpose.

An agent holds a handle. It can ask through it and gets a reply, as it would from a server. The model itself, with its reading
of the task, stays here; whoever plays an episode tells it when one begins.
"""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from costgym.agents.models.base import ACT, Function, LanguageModel, Message, Reply
from costgym.envs.base import BaseEnv

_MODELS: "WeakKeyDictionary[ModelHandle, Any]" = WeakKeyDictionary()


class ModelHandle:
    """The handle through which an agent asks a model on the world's side.

    Args:
        model: with `begin(world, seed)`, and whatever the handle asks of it.

    Attributes:
        name: of the model.
    """

    def __init__(self, model: Any) -> None:
        self.name: str = model.name
        _MODELS[self] = model

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (model_of(self),)

    def begin(self, world: BaseEnv[Any, Any], seed: int) -> None:
        """Tell the model that an episode begins. The code that plays episodes calls this; an agent has no world to pass."""
        model = model_of(self)
        if hasattr(model, "begin"):
            model.begin(world, seed)
        else:  # a real model, which knows nothing of the world
            model.reset(seed)


def model_of(handle: ModelHandle) -> Any:
    """Return the model behind a handle; for the world's side."""
    return _MODELS[handle]


def replace(handle: ModelHandle, model: Any) -> None:
    """Replace the model behind a handle; in an agent's own process, the new one asks over the pipe."""
    _MODELS[handle] = model


class LanguageModelHandle(ModelHandle):
    """The handle of a language model."""

    def reset(self, seed: int) -> None:
        """Nothing to do: the model is told of episodes on the world's side."""

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        reply: Reply = model_of(self).complete(messages, functions, purpose)
        return reply


def wrap_model(model: Any) -> tuple[LanguageModel, tuple[ModelHandle, ...]]:
    """Return a language model that an agent may hold, and its handles: one for a model that reads the task, else none."""
    if not getattr(model, "on_world_side", False):
        return model, ()
    handle = LanguageModelHandle(model)
    return handle, (handle,)
