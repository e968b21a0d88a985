"""A policy of sessions that `costgym train ppo` left in a folder, as an agent: ``sessions:RUN``."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from costgym.agents.base import SESSION, SESSIONS_1, Agent, view_of
from costgym.agents.checkpoints import load_weights, newest
from costgym.agents.settings import CONFIG, PolicyConfig, read_config
from costgym.envs.features.session_features import COUNTED, without_counts
from costgym.envs.sessions.session import SessionSeat
from costgym.simulators.errors import ConfigError, DataError, require

READ = ("query", "at_s", "status", "action_mask", "budget_remaining_price", "budget_remaining_seconds")
"""Keys of `info` that a learnt policy of version 0 reads."""


class SessionConfig(PolicyConfig):
    """The `config.json` of a learnt policy of sessions; "sessions" is the trainer of version 0.2."""

    other_envs = SESSIONS_1
    trainer: Literal["ppo", "sessions"] = "ppo"
    env: str = SESSION
    settings: dict[str, Any] = Field(description="Settings of the algorithm.")
    env_settings: dict[str, Any] = Field(default={}, description="Settings of the environment.")
    lagrangian: list[dict[str, Any]] | None = Field(default=None, description="The constraints on mean costs; null for none.")
    network: dict[str, Any] = Field(default={}, description="Shape of the network, and the meaning of its inputs.")


class SessionAgent(Agent):
    """Takes the best allowed action of the network in folder `path`; raises DataError if there is no such checkpoint. A tool
    that has refused a call is not called again for the same query: version 1 shows it, and `network.Watching` keeps it in
    version 0. A recurrent policy does not look at the counts, where observations have them."""

    env_id = SESSION

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self._torch = require("torch", "train")
        self.name = name or f"sessions:{path}"
        from costgym.agents.sessions.network import SessionNetwork

        config = read_config(path, SessionConfig)
        memory = "counts" if COUNTED[0] in config.network.get("tools", ()) else "raw"
        kinds, most, world = (_count(config.network, name, usual) for name, usual in (("kinds", 4), ("most", 6), ("world", 0)))
        self._network = SessionNetwork(memory, kinds, most, world=min(world, 1)).eval().requires_grad_(False)
        self._trained_in = config.env
        if config.network != self._network.describe():
            raise DataError(Path(path) / CONFIG, "the policy's network or inputs differ from this version's")
        load_weights(newest(Path(path)), self._network.state_dict())

    def reset(self, seat: SessionSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        from costgym.agents.sessions.network import Watching

        if view_of(seat.env_id) != SESSION or seat.rules.world != self._network.world:
            raise ConfigError(f"agent {self.name}", f"expected {self._trained_in}, which it was trained in, got {seat.env_id}")
        kinds, most, tools, memory = self._network.kinds, self._network.most, seat.rules.tools, self._network.memory
        if memory not in ("raw", seat.memory) or seat.rules.capabilities != kinds or not most <= tools <= kinds * most:
            raise ConfigError(
                f"agent {self.name}",
                f'expected memory="{memory}", {kinds} capabilities and {most} to {kinds * most} tools, as in training '
                f'in {self._trained_in}, got memory="{seat.memory}", {seat.rules.capabilities} capabilities and {tools} tools',
            )
        if seat.wait_action is not None:
            raise ConfigError(f"agent {self.name}", "expected calls one at a time, as in training, got concurrent=True")
        self._watching = None if self._network.world else Watching(self._network, 1, tools)
        self._hidden = seat.rules if memory != seat.memory else None  # the rules, where the network must not see the counts

    def act(self, observation: dict[str, Any], info: dict[str, Any]) -> int:
        torch = self._torch
        if self._hidden is not None:
            observation = {**observation, "tools": without_counts(self._hidden, observation["tools"], int(info["tool"]))}
        with torch.inference_mode():
            seen = {name: torch.from_numpy(np.array(part))[None] for name, part in observation.items()}
            if self._watching is None:
                mask = torch.from_numpy(np.array(info["action_mask"], np.bool_))[None]
                return int(self._network(seen, None, mask)[0].argmax(-1))
            left, mask = self._watching.see(seen, {name: np.array(info[name])[None] for name in READ})
            action = self._network(seen, left, mask, self._watching.memory)[0].argmax(-1)
            self._watching.did(action)
            return int(action)


def _count(network: dict[str, Any], name: str, usual: int) -> int:
    """A count that describes a network, or the usual one where it cannot be one: the description is then another."""
    value = network.get(name, usual)
    return value if isinstance(value, int) and 0 <= value < 100 else usual
