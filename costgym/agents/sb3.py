"""Policies learnt by reinforcement learning, as agents: ``sb3:RUN`` plays what `costgym train ppo` or `dqn` left in a folder.

Stable-Baselines3 itself is not needed to play: the network is rebuilt from its description and its weights. SB3's own zip
files hold pickled objects, which run code when they are opened; they are not read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from costgym.agents.base import NUMERIC, Agent
from costgym.agents.checkpoints import POLICY, newest, read_tensors
from costgym.agents.classic import _KNOWN, _NEED, _READY, _ROUNDING, _WANTED
from costgym.agents.seat import NumericSeat, Seat, expect_seat
from costgym.agents.settings import CONFIG, NetworkSettings, PolicyConfig, read_config
from costgym.envs.features.templates import MAX_NEEDS
from costgym.envs.features.writing import CHECKS, PERHAPS, TOLD, TWICE, UNDOES
from costgym.simulators.errors import ConfigError, DataError, require
from costgym.simulators.status import LIMITS


class Sb3Config(PolicyConfig):
    """The `config.json` of a run of `costgym train ppo` or `dqn`."""

    trainer: Literal["ppo", "dqn"]
    env: str = NUMERIC
    settings: dict[str, Any] = Field(description="Settings of the algorithm.")
    env_settings: dict[str, Any] = Field(description="Settings of the environment: split, budget, enforcement and so on.")
    lagrangian: list[dict[str, Any]] | dict[str, Any] | None = Field(
        description="The constraints on mean costs, one or several; null for none."
    )
    network: dict[str, Any] = Field(default={}, description="Shape of the network, and the meaning of its inputs.")


def needed(observation: Mapping[str, NDArray[np.float32]]) -> NDArray[np.bool_]:
    """Mark the tools (T,) that serve a need whose fact is missing and can be had now, the checks of effects that are perhaps
    there, and the undoes of those seen twice. Other calls only cost, so no good policy is lost.
    """
    needs, serves = observation["needs"], observation["tools"][:, _NEED : _NEED + MAX_NEEDS] > 0
    missing = (needs[:, _WANTED] > 0) & (needs[:, _KNOWN] == 0) & (needs[:, _READY] > 0)
    useful: NDArray[np.bool_] = (serves & missing).any(-1)
    if "roles" in observation:
        effects, roles = observation["effects"], observation["roles"] > 0
        useful = np.where(roles[:, CHECKS], (serves & (effects[:, PERHAPS] > 0)).any(-1), useful)
        useful = np.where(roles[:, UNDOES], (serves & (effects[:, TOLD] >= TWICE)).any(-1), useful)
    return useful


class Sb3Agent(Agent):
    """A learnt policy. It takes the best action that the mask allows, and waits for a call's answer before the next call.

    As in training, it calls no tool whose quoted price is beyond what is left of the budget, whatever the environment enforces,
    and none again that has refused a call at its rate limit or quota. Raises DataError where there is no checkpoint of this
    environment, version and network.
    """

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        torch = require("torch", "train")
        self.config = read_config(path, Sb3Config)
        self.name = name or f"sb3:{path}"
        from costgym.agents.tool_network import decisions

        self._torch, self._decisions = torch, decisions
        self._needed_only = self.config.settings.get("needed_only") is True
        self._network = load_network(Path(path), self.config).eval().requires_grad_(False)

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._view = view = expect_seat(seat, NumericSeat, self)
        if self._network.writes and "effects" not in observation:
            raise ConfigError(f"agent {self.name}", "expected a world with writes, like the one it was trained in")
        self._shut, self._called = np.zeros(view.max_tools, np.bool_), -1
        if len(info["action_mask"]) != view.finish_action + 1:
            raise ConfigError(f"agent {self.name}", "expected the environment's own action mask in info")

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        view, mask = self._view, info["action_mask"].copy()
        if view.wait_action is not None:
            if mask[view.wait_action]:
                return view.wait_action
            mask = np.delete(mask, view.wait_action)
        if self._called >= 0 and info["status"] in LIMITS:
            self._shut[self._called] = True
        prices, calls = view.prices(observation["tools"]), mask[:-1]
        calls &= ~self._shut
        calls &= prices <= info["budget_remaining_price"] + _ROUNDING * prices
        calls &= info["budget_remaining_calls"] >= 1
        if self._needed_only:
            calls &= needed(observation)
        torch = self._torch
        with torch.inference_mode():
            batch = {name: torch.from_numpy(np.array(part))[None] for name, part in observation.items()}
            logits = self._decisions(self._network(batch)[0])[0].numpy()
        chosen = int(np.argmax(np.where(mask, logits, -np.inf)))
        self._called = chosen if chosen < view.max_tools else -1
        return chosen if chosen < view.max_tools else view.finish_action


def load_network(run: Path, config: Sb3Config) -> Any:
    """The `ToolNetwork` of a run's newest checkpoint; raises DataError where it is missing or of another shape."""
    torch = require("torch", "train")
    require("safetensors", "train")
    from costgym.agents.tool_network import ToolNetwork

    weights_file = newest(run) / POLICY
    described = config.network
    shape: dict[str, Any] = {name: described.get(name) for name in NetworkSettings.model_fields}
    try:
        settings = NetworkSettings(**shape)
    except ConfigError as error:
        raise DataError(run / CONFIG, error.problem, f"network.{error.location}") from None
    # shape first, memory later: a config may claim any size
    with torch.device("meta"):
        network = ToolNetwork(settings, writes="effects" in described)
    differing = sorted(name for name, value in network.describe().items() if described.get(name) != value)
    if differing:
        raise DataError(
            run / CONFIG, f"the policy's observations differ from this version's: {', '.join(differing)}", "network"
        )
    weights = read_tensors(weights_file)
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if wanted != shapes or not all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
        raise DataError(weights_file, f"the weights do not fit the network that {CONFIG} describes")
    network.load_state_dict(weights, assign=True)
    return network.requires_grad_(True)
