"""Policies of Stable-Baselines3 built on `ToolNetwork`: masked actor-critic and masked action values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3 import DQN
from stable_baselines3.dqn.policies import DQNPolicy
from torch import Tensor

from costgym.agents.sessions.network import SessionNetwork
from costgym.agents.settings import NetworkSettings
from costgym.agents.tool_network import ToolNetwork, bounded, decisions, masked
from costgym.experiments.train.sb3.decisions import LEFT, MASK

Observation = dict[str, Tensor]


class ToolPolicy(MaskableActorCriticPolicy):  # type: ignore[misc]
    """Actor and critic that share one `ToolNetwork`."""

    network: torch.nn.Module

    def __init__(self, *args: Any, network: Any, **kwargs: Any) -> None:
        self._network_settings = network
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        self.network = ToolNetwork(self._network_settings, writes="effects" in self.observation_space.spaces)
        self.optimizer = self.optimizer_class(self.network.parameters(), lr=lr_schedule(1.0), **self.optimizer_kwargs)

    def forward(self, obs: Observation, deterministic: bool = False, action_masks: Any = None) -> tuple[Tensor, Tensor, Tensor]:
        logits, values = self._read(obs)
        distribution = self._distribution(logits, action_masks)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values.unsqueeze(-1), distribution.log_prob(actions)

    def evaluate_actions(self, obs: Observation, actions: Tensor, action_masks: Any = None) -> tuple[Tensor, Tensor, Tensor]:
        logits, values = self._read(obs)
        distribution = self._distribution(logits, action_masks)
        return values.unsqueeze(-1), distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: Observation, action_masks: Any = None) -> Any:
        return self._distribution(self._read(obs)[0], action_masks)

    def predict_values(self, obs: Observation) -> Tensor:
        return self._read(obs)[1].unsqueeze(-1)

    def _read(self, obs: Observation) -> tuple[Tensor, Tensor]:
        """The logits (N, actions) and the state values (N,)."""
        logits, values = self.network(obs)
        return bounded(decisions(logits)), values

    def _distribution(self, logits: Tensor, action_masks: Any) -> Any:
        distribution = self.action_dist.proba_distribution(action_logits=logits)
        if action_masks is not None:
            distribution.apply_masking(action_masks)
        return distribution


class SessionPolicy(ToolPolicy):
    """The same with the network of sessions on counted features; `network` are the sessions' rules. In version 0 it reads what
    is `left` of the budget too."""

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        self.network = SessionNetwork.of_rules(self._network_settings)
        self.optimizer = self.optimizer_class(self.network.parameters(), lr=lr_schedule(1.0), **self.optimizer_kwargs)

    def _read(self, obs: Observation) -> tuple[Tensor, Tensor]:
        every_action = torch.ones(len(obs["query"]), self.action_space.n, dtype=torch.bool)  # the masks are the distribution's
        logits, values = self.network(obs, obs.get(LEFT), every_action)
        return logits, values


class ToolValues(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Action values, each the state's value plus the action's advantage, as in dueling networks; actions that the observation's
    mask forbids have values far below all legal ones."""

    def __init__(self, settings: NetworkSettings, writes: bool) -> None:
        super().__init__()
        self.network = ToolNetwork(settings, writes)

    def forward(self, observation: Observation) -> Tensor:
        mask = observation[MASK] > 0.5
        apart, level = self.network(observation)
        return masked(level.unsqueeze(-1) + decisions(apart), mask)

    def set_training_mode(self, mode: bool) -> None:
        """Set training or evaluation mode; SB3 calls this method."""
        self.train(mode)


class ToolValuePolicy(DQNPolicy):  # type: ignore[misc]
    """Online and target networks of DQN."""

    def __init__(self, *args: Any, network: NetworkSettings, **kwargs: Any) -> None:
        self._network_settings = network
        super().__init__(*args, **kwargs)

    def make_q_net(self) -> ToolValues:
        values: ToolValues = ToolValues(self._network_settings, "effects" in self.observation_space.spaces).to(self.device)
        return values

    def _predict(self, obs: Observation, deterministic: bool = True) -> Tensor:
        values: Tensor = self.q_net(obs)
        return values.argmax(dim=1)


class MaskedDQN(DQN):  # type: ignore[misc]
    """DQN that also explores with legal actions only, independently in each environment. Its transitions contain legal actions
    only, and the target is the maximum over them, so illegal actions need no penalty."""

    exploration_rate: float

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        actions, state = self.policy.predict(observation, state, episode_start, True)
        if deterministic:
            return actions, state
        mask = np.atleast_2d(observation[MASK]) > 0.5
        # a legal action is drawn by its rank among the legal ones: the first place where the running count exceeds it
        draws = torch.rand(mask.shape[0], 2).numpy()
        explores = draws[:, 0] < self.exploration_rate
        ranks = np.floor(draws[:, 1] * mask.sum(1)).astype(np.int64)
        chosen = np.argmax(np.cumsum(mask, 1) > ranks[:, None], 1)
        return np.where(explores, chosen, np.atleast_1d(actions)).reshape(np.shape(actions)), state

    def _sample_action(self, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> tuple[Any, Any]:
        rate = self.exploration_rate
        if self.num_timesteps < learning_starts:
            self.exploration_rate = 1.0
        actions, _ = self.predict(self._last_obs)
        self.exploration_rate = rate
        return actions, actions


def network_of(model: Any) -> Any:
    """The network that a model trains: a `ToolNetwork`, or a `SessionNetwork`."""
    return model.q_net.network if hasattr(model, "q_net") else model.policy.network
