"""A policy of sessions that was learnt by `benchmarks/learning/sessions.py`, as an agent: ``sessions:RUN``."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from ...envs.sessions.session import SessionSeat
from ...simulators.errors import ConfigError, DataError, require
from ..base import SESSION, Agent
from ..checkpoints import load_weights, newest
from ..settings import CONFIG, PolicyConfig, read_config


class SessionConfig(PolicyConfig):
    """The `config.json` of a learnt policy of sessions."""

    trainer: Literal["sessions"] = "sessions"
    env: str = SESSION
    settings: dict[str, Any] = Field(description="Settings of the algorithm.")
    network: dict[str, Any] = Field(description="Shape of the network, and the meaning of its inputs.")


class SessionAgent(Agent):
    """Takes the best allowed action of the network in folder `path`; raises DataError where there is no such checkpoint."""

    env_id = SESSION

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self._torch = require("torch", "train")
        self.name = name or f"sessions:{path}"
        from .network import SessionNetwork, left_of

        config = read_config(path, SessionConfig)
        self._network, self._left_of = SessionNetwork().eval().requires_grad_(False), left_of
        if config.network != self._network.describe():
            raise DataError(Path(path) / CONFIG, "the policy has another network than this version, or reads other inputs")
        load_weights(newest(Path(path)), self._network.state_dict())

    def reset(self, seat: SessionSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        kinds, most, tools = self._network.kinds, self._network.most, seat.rules.tools
        if seat.memory != "counts" or seat.rules.capabilities != kinds or not most <= tools <= kinds * most:
            raise ConfigError(
                f"agent {self.name}",
                f'expected memory="counts", {kinds} capabilities and {most} to {kinds * most} tools, as in training, got '
                f'memory="{seat.memory}", {seat.rules.capabilities} capabilities and {tools} tools',
            )
        if seat.wait_action is not None:
            raise ConfigError(f"agent {self.name}", "expected calls one at a time, as in training, got concurrent=True")

    def act(self, observation: dict[str, Any], info: dict[str, Any]) -> int:
        torch = self._torch
        with torch.inference_mode():
            seen = {name: torch.from_numpy(np.array(part))[None] for name, part in observation.items()}
            mask = torch.from_numpy(np.array(info["action_mask"]))[None]
            return int(self._network(seen, self._left_of(info)[None], mask)[0].argmax())
