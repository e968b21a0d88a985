"""A planner over honest forks of a session: it plays by the rule that earns most in futures that it draws.

`env.unwrapped.fork(seed=n)` keeps what has happened and draws again everything that an agent cannot know: what the tools are
really like, from the belief that adverts and calls so far allow, the queries to come, and all luck. So a rollout in such a fork
is a sample of what the agent may expect, and a search over forks knows no more than the agent. Forks are drawn by the
environment's own rules, so on the split `shifted` a planner knows more than other agents are told.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costgym.agents.base import SESSION_1, Agent
from costgym.agents.sessions.policies import TUNED, IndexPolicy

RULES: tuple[Mapping[str, float], ...] = (TUNED, {**TUNED, "optimism": 0.3}, {**TUNED, "optimism": 2.0})
"""Constants of the rules, variants of `tuned`: on 40 sessions of `train` they earned most among three such sets."""


class Planner(Agent):
    """Follows the rule that earned most in forks of the session, and chooses again every few queries.

    Every rule plays the rest of the session in the same futures. Which one is right depends on the catalogue that was drawn,
    and no rule knows that by itself.

    Source: policy switching (Chang, Givan and Chong, Parallel Rollout, 2004).

    Args:
        env: The session's environment, which it forks and does not look into.
        rules: Constants of `IndexPolicy`, one mapping for each rule; the first is followed unless another one earns more.
        futures: Futures that are drawn for a decision.
        every: Queries between two decisions.
    """

    def __init__(self, env: Any, rules: Sequence[Mapping[str, float]] = RULES, futures: int = 8, every: int = 20) -> None:
        self.name, self.env_id = "planner", SESSION_1
        self.env, self.constants, self.futures, self.every = env, rules, futures, every

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self.rules = [IndexPolicy("rule", memory=True, paced=True, **constants) for constants in self.constants]  # type: ignore[arg-type]
        for rule in self.rules:
            rule.reset(seat, observation, info, seed)
        self.best, self.due, self.seed = self.rules[0], 0, seed

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        if info["query"] >= self.due:
            self.due = info["query"] + self.every
            earned = [self.expect(rule, observation, info) for rule in self.rules]
            self.best = self.rules[int(np.argmax(earned))]
        # all learn from how the call ends, whichever of them made it
        actions = [(rule.act(observation, info), rule) for rule in self.rules]
        chosen = next(action for action, rule in actions if rule is self.best)
        for rule in self.rules:
            rule.called(chosen)
        return chosen

    def expect(self, rule: IndexPolicy, observation: Any, info: dict[str, Any]) -> float:
        """The value that a rule earns by the end, on average over the drawn futures; every rule meets the same ones."""
        forks = [self.env.fork(seed=self.seed + n) for n in range(self.futures)]
        return sum(finish(fork, copy.deepcopy(rule), observation, info) for fork in forks) / self.futures


def finish(env: Any, agent: Any, observation: Any, info: dict[str, Any]) -> float:
    """Let an agent play on to the end; returns the value of all queries that passed."""
    over = False
    while not over:
        observation, _, terminated, truncated, info = env.step(agent.act(observation, info))
        over = terminated or truncated
    return float(info["value"])
