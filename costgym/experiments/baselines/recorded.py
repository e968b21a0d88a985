"""The decisions of recorded episodes, as offline methods learn from them, and the network that reads sessions."""

from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from costgym.agents.base import SESSION_1
from costgym.agents.registry import make_agent
from costgym.agents.sessions.network import SessionNetwork
from costgym.envs.base import base_env
from costgym.envs.features.session_features import column_names
from costgym.envs.wrappers import DictLayout
from costgym.experiments.baselines.methods import OFFERS, open_env
from costgym.experiments.play.export.transitions import transitions as read_transitions
from costgym.experiments.play.named.build import load
from costgym.experiments.play.named.catalogue import recipe_of
from costgym.experiments.play.trajectories.record import played
from costgym.simulators.errors import ConfigError
from costgym.simulators.sessions.rules import SessionRules

BEHAVIOUR = ("greedy", "random")  # rules that play the recorded episodes in turn: one good, one broad
REWARD_UNIT = 20.0  # credits: the rewards of sessions are divided by it
NEVER = -1e8  # score of actions that the mask forbids


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
    read = Transitions(
        seen, masks, parts["actions"], parts["rewards"], after, masks_after, parts["terminals"] | parts["timeouts"]
    )
    return _of_sessions(read, env_id)


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


def best(scores: NDArray[Any], observation: Any, mask: NDArray[Any], rules: SessionRules | None) -> NDArray[np.int64]:
    """Return the allowed actions (N,) of the best scores (N, actions). In sessions no tool is called again that has refused a
    call for this query: a policy that always takes the best action would do so for ever."""
    allowed = mask.astype(np.bool_)
    if rules is not None:
        shut = column_names(rules, "counts")["tools"].index("shut")
        allowed[:, : rules.tools] &= observation["tools"][..., shut] < 0.5
    chosen: NDArray[np.int64] = np.where(allowed, scores, -np.inf).argmax(-1)
    return chosen
