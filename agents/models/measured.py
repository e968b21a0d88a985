"""A model whose thinking takes as long as it really took."""

import time
from collections.abc import Sequence

from .base import ACT, Function, LanguageModel, Message, Reply


class Measured:
    """Notes how long each reply of a real model took, wall seconds, retries and waits for a busy server included.

    The figure is part of the reply's usage, so it is recorded with the action that pays for it, and a replay reads it there. A
    world whose thinking is `measured` moves its clock by it. No clock is read anywhere else below `experiments`.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model, self.name = model, model.name

    def reset(self, seed: int) -> None:
        self.model.reset(seed)

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        """See `LanguageModel`."""
        begun_s = time.perf_counter()
        said = self.model.complete(messages, functions, purpose)
        seconds = round(time.perf_counter() - begun_s, 6)
        return said._replace(usage=said.usage._replace(seconds=seconds))
