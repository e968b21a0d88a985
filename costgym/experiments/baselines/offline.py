"""Methods that learn from recorded episodes alone, under the mask: cloning, conservative and implicit Q-learning."""

import time
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from costgym.agents.base import SESSION_1, Agent
from costgym.agents.registry import make_agent
from costgym.agents.sessions.network import SessionNetwork
from costgym.envs.base import base_env
from costgym.envs.features.session_features import column_names
from costgym.envs.wrappers import DictLayout
from costgym.experiments.baselines.methods import OFFERS, Act, BatchAgent, Unit, open_env
from costgym.experiments.play.export.transitions import transitions as read_transitions
from costgym.experiments.play.named.build import load
from costgym.experiments.play.named.catalogue import recipe_of
from costgym.experiments.play.trajectories.record import played
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError
from costgym.simulators.sessions.rules import SessionRules

BEHAVIOUR = ("greedy", "random")  # rules that play the recorded episodes in turn: one good, one broad
HIDDEN, BATCH, LEARNING_RATE = 128, 256, 1e-3
TARGET_RATE = 0.005  # share by which a target network moves with every update
EXPECTILE, SHARPNESS, MAX_WEIGHT = 0.7, 10.0, 100.0  # of values; inverse temperature of the policy; largest weight
CONSERVATISM = 1.0  # conservative Q-learning: weight of the regulariser, which is d3rlpy's default for discrete actions
SESSION_CONSERVATISM = 0.1  # of sessions, chosen on 100 sessions of valid: 0.325 of the value after 300 updates, 0.201 with 1
REWARD_UNIT = 20.0  # credits: the rewards of sessions are divided by it
_NEVER = -1e8  # score of actions that the mask forbids


Update = Callable[[list[Tensor]], None]  # takes a batch: the arrays of `Transitions`, as tensors


class Transitions(NamedTuple):
    """Decisions of recorded episodes."""

    seen: NDArray[np.float32]  # (n, features) flat observations
    masks: NDArray[np.bool_]  # (n, actions) what was allowed
    actions: NDArray[np.int64]  # (n,) what was chosen
    rewards: NDArray[np.float32]  # (n,) of the decision
    after: NDArray[np.float32]  # (n, features) the observations that followed
    masks_after: NDArray[np.bool_]  # (n, actions) what was allowed then
    ended: NDArray[np.bool_]  # (n,) the episode was over then
    rules: SessionRules | None = None  # of the sessions, in version 1

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays, without the rules."""
        return self[:7]


def check_dataset(name: str, env_id: str) -> None:
    """Raise UnknownName if there is no such named dataset, ConfigError if it was recorded in another environment, DataError if
    it was not built."""
    recorded_in = recipe_of(name).family.env_id
    if recorded_in != env_id:
        raise ConfigError("--dataset", f"expected a dataset of {env_id}, got {name} of {recorded_in}; add --envs {recorded_in}")
    load(name)


@lru_cache(maxsize=1)
def of_dataset(name: str, env_id: str) -> Transitions:
    """Read the decisions of a named dataset, which holds flat or structured observations."""
    check_dataset(name, env_id)
    parts = read_transitions(load(name))
    masks, masks_after = (parts[key].astype(np.bool_) for key in ("action_masks", "next_action_masks"))
    seen, after = parts["observations"], parts["next_observations"]
    found = Transitions(
        seen, masks, parts["actions"], parts["rewards"], after, masks_after, parts["terminals"] | parts["timeouts"]
    )
    return _of_sessions(found, env_id)


def _of_sessions(data: Transitions, env_id: str) -> Transitions:
    """The same with rewards in units of `REWARD_UNIT`, and the rules, in sessions of version 1."""
    if env_id != SESSION_1:
        return data
    world: Any = base_env(open_env(env_id, "", "train"))
    return data._replace(rewards=(data.rewards / REWARD_UNIT).astype(np.float32), rules=world.rules)


class SessionScores(nn.Module):  # type: ignore[misc, unused-ignore]
    """The network of sessions over flat observations (B, features): scores of the actions (B, actions), each the state's value
    plus the action's advantage, or the value alone (B, 1)."""

    def __init__(self, rules: SessionRules, value_only: bool = False) -> None:
        super().__init__()
        self.network, self._value_only = SessionNetwork.of_rules(rules), value_only
        names = column_names(rules, "counts")
        self._widths = [len(names["query"]), len(names["resources"]), rules.tools * len(names["tools"])]
        self._tools, self.actions = rules.tools, rules.tools + 2

    def observation(self, seen: Tensor) -> dict[str, Tensor]:
        """The arrays of flat observations, which stand in the order of their names."""
        query, resources, tools = seen.split(self._widths, -1)
        return {"query": query, "resources": resources, "tools": tools.unflatten(-1, (self._tools, -1))}

    def forward(self, seen: Tensor) -> Tensor:
        h, rows, context, queries = self.network.read(self.observation(seen), None)
        value = self.network.value(context) * queries[:, None]
        if self._value_only:
            return value
        advantages = self.network.score(h, rows, context, self.actions)
        return value + advantages - advantages.mean(-1, keepdim=True)


@lru_cache(maxsize=2)
def behaviour(env_id: str, level: str, split: str, episodes: int) -> Transitions:
    """Record episodes of the behaviour agents on a split; the same ones for every training seed."""
    env = open_env(env_id, level, split)
    world: Any = base_env(env)
    layout = DictLayout(env.observation_space)
    agents = [make_agent(OFFERS[env_id].rules[name], env_id) for name in BEHAVIOUR]
    transitions: list[list[list[Any]]] = [[] for _ in agents]
    for index in range(episodes):
        turn, which = divmod(index, len(agents))
        number, seed = world.instance(turn, 0)[:2]
        before: tuple[Any, ...] = ()
        for step in played(env, agents[which], number, seed):
            now = layout.flat(step.observation), world.action_masks().copy()
            if before:
                transitions[which].append([*before, step.action, step.reward, *now, False])
            before = now
        transitions[which][-1][-1] = True
    parts: Any = [np.array(column) for column in zip(*chain(*transitions), strict=True)]
    return _of_sessions(Transitions(*parts), env_id)


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


def best(scores: NDArray[Any], observation: Any, mask: NDArray[Any], rules: SessionRules | None) -> NDArray[np.int64]:
    """Return the allowed actions (N,) of the best scores (N, actions). In sessions no tool is called again that has refused a
    call for this query: a policy that always takes the best action would do so for ever."""
    allowed = mask.astype(np.bool_)
    if rules is not None:
        shut = column_names(rules, "counts")["tools"].index("shut")
        allowed[:, : rules.tools] &= observation["tools"][..., shut] < 0.5
    chosen: NDArray[np.int64] = np.where(allowed, scores, -np.inf).argmax(-1)
    return chosen


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
    return _of(policy(seen).masked_fill(~masks, _NEVER).log_softmax(-1), actions)


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
            next_actions = policy(after).masked_fill(~masks_after, _NEVER).argmax(-1)
            following = rewards + (~ended) * _of(target(after), next_actions)
        values = policy(seen)
        chosen = _of(values, actions)
        gap = values.masked_fill(~masks, _NEVER).logsumexp(-1) - chosen
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
