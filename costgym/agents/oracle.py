"""Policies that know what no agent can: the episode's luck, or the tools' true reliabilities. Bounds, not competitors."""

from typing import Any, TypeVar

from costgym.agents.base import DECISION, NUMERIC, Agent
from costgym.agents.seat import Seat, WorldSeat
from costgym.envs.decision import ANSWER, DecisionAwareEnv
from costgym.envs.marketplace import MarketplaceEnv
from costgym.simulators.errors import ConfigError
from costgym.simulators.oracle.expected_optimum import ExpectedOptimumPolicy
from costgym.simulators.oracle.optimum import WAIT, optimum

Env = TypeVar("Env")


def env_of(seat: Seat, agent: str, kind: type[Env], env_id: str) -> Env:
    """The environment that a bound reads; raises ConfigError in one of another kind, or without a bound's seat."""
    env = seat.env if isinstance(seat, WorldSeat) else None
    if not isinstance(env, kind):
        raise ConfigError(f"agent {agent}", f"expected an environment {env_id}, got {type(env).__name__}")
    return env


class OracleAgent(Agent):
    """Plays the optimum of the episode: it knows how every call will end."""

    name = "oracle"
    privileged = True

    def reset(self, seat: WorldSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        view = env_of(seat, self.name, MarketplaceEnv, NUMERIC)
        episode = view.account()
        self.optimum = optimum(
            view.world, episode.number, episode.seed, episode.budget, view.grading, episode.enforcement, patient=False,
            concurrent=view.concurrent,
        )  # fmt: skip
        wait, self._finish = view.wait_action, view.finish_action
        planned = [int(action) for action in self.optimum.actions if view.concurrent or action != WAIT]
        actions = [view.action_of(step) if step != WAIT or wait is None else wait for step in planned]
        self._actions = iter([*(actions if len(actions) < view.max_steps else []), self._finish])

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        return next(self._actions, self._finish)


class ExpectedOptimumAgent(Agent):
    """Knows how reliable, slow and limited every tool is, not the episode's luck: what perfect experience would be worth.

    See `simulators.oracle.expected_optimum`, for `multiplier` too.
    """

    name = "oracle-informed"
    privileged = True

    def __init__(self, multiplier: float = 0.0) -> None:
        self.multiplier = multiplier

    def reset(self, seat: WorldSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._view = env_of(seat, self.name, MarketplaceEnv, NUMERIC)
        self._episode = self._view.account()
        self._policy: ExpectedOptimumPolicy = ExpectedOptimumPolicy(self._view.world, self._episode.number, self.multiplier)

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        episode, view = self._episode, self._view
        wait = view.wait_action
        if wait is not None and (episode.in_flight or (episode.unread and info["action_mask"][wait])):
            return wait
        self._policy.learn(episode)
        chosen = self._policy.choose(episode)
        return view.finish_action if chosen is None else view.action_of(chosen)


class RightDecisionsAgent(Agent):
    """Plays the optimum of DEER's decisions: the right ones, or an answer at once where those cost more than they bring."""

    name = "oracle"
    env_id = DECISION
    privileged = True

    def reset(self, seat: WorldSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        env = env_of(seat, self.name, DecisionAwareEnv, DECISION)
        self._actions = iter(env.right_actions() if env.optimum().feasible else (ANSWER,))

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        return next(self._actions, ANSWER)
