"""The part of numeric observations and masks that only worlds with writes have."""

from collections.abc import Sequence
from math import log1p

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.simulators.calls import Candidate
from costgym.simulators.tools import CHECK, UNDO, WRITE
from costgym.simulators.world.episode import Episode

ROLE_FEATURES = ("writes", "checks", "undoes", "idempotent", "settles_s")  # columns of `observation["roles"]`
WRITES, CHECKS, UNDOES, IDEMPOTENT, _ = range(len(ROLE_FEATURES))
EFFECT_FEATURES = ("wanted", "told", "perhaps")
"""Columns of `observation["effects"]`: the need wants an effect; effects that the agent was told of, divided by 4, at most 1;
a call has ended ambiguously since the last check."""
_, TOLD, PERHAPS = range(len(EFFECT_FEATURES))
TWICE = 0.5  # value of `told` from which an effect was told of twice


def writing_boxes(max_tools: int, needs: int) -> dict[str, gym.spaces.Box]:
    """The spaces of `roles` and `effects`."""
    shapes = {"roles": (max_tools, len(ROLE_FEATURES)), "effects": (needs, len(EFFECT_FEATURES))}
    return {name: gym.spaces.Box(0.0, 1.0, shape, np.float32) for name, shape in shapes.items()}


def roles_of(slots: Sequence[Candidate], max_tools: int) -> NDArray[np.float32]:
    """What the tools of each row do to the world, (max_tools, 5)."""
    roles = np.zeros((max_tools, len(ROLE_FEATURES)), np.float32)
    for row, slot in enumerate(slots):
        if (effect := slot.effect) is not None:
            later = min(1.0, 0.1 * log1p(effect.settles_s))
            roles[row] = (effect.role == WRITE, effect.role == CHECK, effect.role == UNDO, effect.idempotent, later)
    return roles


def effects_of(episode: Episode, needs: int) -> NDArray[np.float32]:
    """What the agent was told of the effects on each need, (needs, 3)."""
    effects = np.zeros((needs, len(EFFECT_FEATURES)), np.float32)
    for need, record in episode.store.records.items() if episode.store is not None else ():
        if isinstance(need, int) and need < needs:
            effects[need] = (1.0, min(1.0, 0.25 * record.seen), record.perhaps)
    return effects


def useful_rows(episode: Episode, slots: Sequence[int]) -> list[int]:
    """Rows of checks that can tell something new, and of undoes for what was seen twice."""
    if episode.store is None:
        return []
    records, useful = episode.store.records, []
    for row, slot in enumerate(slots):
        spec = episode.candidates[slot]
        if spec.role in (CHECK, UNDO):
            met = [records[need] for need in spec.needs]
            if any(record.perhaps if spec.role == CHECK else record.seen > 1 for record in met):
                useful.append(row)
    return useful
