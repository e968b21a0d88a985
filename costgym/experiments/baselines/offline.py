"""Methods that learn from recorded episodes alone, under the mask: cloning, conservative and implicit Q-learning."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from costgym.agents.base import Agent
from costgym.envs.wrappers import DictLayout
from costgym.experiments.baselines.methods import Act, BatchAgent, Unit, open_env
from costgym.experiments.baselines.recorded import NEVER, SessionScores, Transitions, behaviour, best, of_dataset
from costgym.simulators.draws import stable_generator

HIDDEN, BATCH, LEARNING_RATE = 128, 256, 1e-3
TARGET_RATE = 0.005  # share by which a target network moves with every update
EXPECTILE, SHARPNESS, MAX_WEIGHT = 0.7, 10.0, 100.0  # of values; inverse temperature of the policy; largest weight
CONSERVATISM = 1.0  # conservative Q-learning: weight of the regulariser, which is d3rlpy's default for discrete actions
SESSION_CONSERVATISM = 0.1  # of sessions, chosen on 100 sessions of valid: 0.325 of the value after 300 updates, 0.201 with 1


Update = Callable[[list[Tensor]], None]  # takes a batch: the arrays of `Transitions`, as tensors


def learn(unit: Unit, split: str, episodes: int, updates: int, dataset: str | None = None) -> tuple[int, float, Agent]:
    """Train an offline method from a named dataset, or else from so many episodes of the behaviour agents; returns the recorded
    decisions, seconds of processor time, and the policy."""
    data = of_dataset(dataset, unit.env) if dataset else behaviour(unit.env, unit.level, split, episodes)
    torch.set_num_threads(1)  # seconds of processor time are compared
    begin = time.process_time()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(unit.seed)
        chance = stable_generator(unit.seed, "offline", unit.method)
        learnt = _decision_transformer(data, chance, updates) if unit.method == "dt" else None
        act = learnt or _fitted(unit, data, chance, updates, split)
    return len(data.actions), time.process_time() - begin, BatchAgent(act, unit.env)


def _fitted(unit: Unit, data: Transitions, chance: np.random.Generator, updates: int, split: str) -> Act:
    """Train a policy that scores the actions of one observation at a time."""
    policy = _network(data, data.masks.shape[1])
    update = _UPDATES[unit.method](policy, data)
    for _ in range(updates):
        drawn = chance.integers(0, len(data.actions), BATCH)
        update([torch.from_numpy(np.ascontiguousarray(part[drawn])) for part in data.arrays])
    layout = DictLayout(open_env(unit.env, unit.level, split).observation_space)

    def act(observation: Any, info: Any, begins: NDArray[np.bool_]) -> NDArray[np.int64]:
        with torch.inference_mode():
            scores = policy(torch.from_numpy(layout.flat(observation))).numpy()
        return best(scores, observation, info["action_mask"], data.rules)

    return act


def _decision_transformer(data: Transitions, chance: np.random.Generator, updates: int) -> Act:
    from costgym.experiments.baselines.transformer import train

    return train(data, chance, updates)


def _network(data: Transitions, outputs: int) -> nn.Module:
    if data.rules is not None:
        return SessionScores(data.rules, value_only=outputs == 1)
    inputs = data.seen.shape[1]
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))


def _step(optimiser: Any, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def _log_policy(policy: nn.Module, seen: Tensor, masks: Tensor, actions: Tensor) -> Tensor:
    return _of(policy(seen).masked_fill(~masks, NEVER).log_softmax(-1), actions)


def _of(scores: Tensor, actions: Tensor) -> Tensor:
    """Return each row's score of its action."""
    return scores.gather(1, actions[:, None])[:, 0]


def _follow(target: nn.Module, network: nn.Module) -> None:
    with torch.no_grad():
        for averaged, moved in zip(target.parameters(), network.parameters(), strict=True):
            averaged.lerp_(moved, TARGET_RATE)


def _cloning(policy: nn.Module, data: Transitions) -> Update:
    optimiser = torch.optim.Adam(policy.parameters(), LEARNING_RATE)

    def update(batch: list[Tensor]) -> None:
        seen, masks, actions, *_ = batch
        _step(optimiser, -_log_policy(policy, seen, masks, actions).mean())

    return update


def _conservative_q(policy: nn.Module, data: Transitions, weight: float | None = None) -> Update:
    """Conservative Q-learning: the values of allowed actions are pressed down, and that of the recorded one is raised. The
    policy's scores are the values themselves. The next action is chosen by them and valued by the target network. Source:
    Kumar, Zhou, Tucker and Levine 2020, equation 4; van Hasselt, Guez and Silver 2016."""
    target = _network(data, data.masks.shape[1])
    target.load_state_dict(policy.state_dict())
    if weight is None:
        weight = CONSERVATISM if data.rules is None else SESSION_CONSERVATISM
    optimiser = torch.optim.Adam(policy.parameters(), LEARNING_RATE)

    def update(batch: list[Tensor]) -> None:
        seen, masks, actions, rewards, after, masks_after, ended = batch
        with torch.no_grad():
            next_actions = policy(after).masked_fill(~masks_after, NEVER).argmax(-1)
            following = rewards + (~ended) * _of(target(after), next_actions)
        values = policy(seen)
        chosen = _of(values, actions)
        gap = values.masked_fill(~masks, NEVER).logsumexp(-1) - chosen
        _step(optimiser, (0.5 * (chosen - following) ** 2 + weight * gap).mean())
        _follow(target, policy)

    return update


def _implicit_q(policy: nn.Module, data: Transitions) -> Update:
    """Implicit Q-learning: values are an expectile of the recorded actions' values, so no other action is ever asked for.
    Source: Kostrikov, Nair and Levine 2021, equations 5 to 7."""
    quality, target, value = (_network(data, outputs) for outputs in (data.masks.shape[1], data.masks.shape[1], 1))
    target.load_state_dict(quality.state_dict())
    of_policy = torch.optim.Adam(policy.parameters(), LEARNING_RATE)
    of_quality = torch.optim.Adam(quality.parameters(), LEARNING_RATE)
    of_value = torch.optim.Adam(value.parameters(), LEARNING_RATE)

    def update(batch: list[Tensor]) -> None:
        seen, masks, actions, rewards, after, _, ended = batch
        with torch.no_grad():
            aimed = _of(target(seen), actions)
            following = rewards + (~ended) * value(after)[:, 0]
        # an asymmetric squared loss: its minimiser is the expectile, above the mean of the recorded actions' values
        ahead = aimed - value(seen)[:, 0]
        _step(of_value, (torch.where(ahead > 0, EXPECTILE, 1 - EXPECTILE) * ahead**2).mean())
        _step(of_quality, ((_of(quality(seen), actions) - following) ** 2).mean())
        _follow(target, quality)
        with torch.no_grad():
            weights = (SHARPNESS * ahead).exp().clamp(max=MAX_WEIGHT)
        _step(of_policy, -(weights * _log_policy(policy, seen, masks, actions)).mean())

    return update


_UPDATES: dict[str, Callable[[nn.Module, Transitions], Update]] = {"bc": _cloning, "cql": _conservative_q, "iql": _implicit_q}
