"""Planning in a session with honest forks: which rule should play from here on?

    python examples/session_planning.py --episodes 100

`env.unwrapped.fork(seed=n)` keeps what has happened and draws everything that an agent cannot know again: what the tools are
really like, from the belief that adverts and calls so far allow, the queries to come, and all luck. So a rollout in such a fork
is a sample of what the agent may expect, and a search over forks knows no more than the agent.

Every `--every` queries the planner lets each of its rules play the rest of the session in the same few drawn futures, and
follows the one that earned most (policy switching: Chang, Givan and Chong, Parallel Rollout, 2004). The rules are the index of
`optimistic` with other degrees of optimism, which expect to buy other shares of the queries to come. Which one is right depends
on the catalogue that was drawn, and no rule knows that by itself.
"""

import argparse
import copy
import time
from typing import Any

import numpy as np

import costgym
from costgym.agents import make_agent
from costgym.agents.sessions.policies import IndexPolicy

SESSION = "costgym/MarketplaceSession-v0"
RULES = ((0.0, 0.7), (1.0, 0.5), (1.0, 0.7), (2.0, 1.0))
"""Optimism and share of each rule."""


class Rule(IndexPolicy):
    """An index with memory under a shadow price.

    Args:
        optimism: Standard deviations that are added to a tool's chance.
        share: How many queries it saves money for, beside what `paced` expects; less spends faster.
    """

    def __init__(self, optimism: float, share: float) -> None:
        super().__init__(f"optimism {optimism:g}, share {share:g}", memory=True, paced=True, optimism=optimism)
        self._share = share

    def _bought_share(self) -> float:
        return self._share * super()._bought_share()


class Planner:
    """Plays by the rule that earns most in forks of the session.

    Args:
        env: The session's environment, which it forks and does not look into.
        futures: Futures that are drawn for a decision.
        every: Queries between two decisions.
    """

    def __init__(self, env: Any, futures: int = 4, every: int = 20) -> None:
        self.env, self.futures, self.every = env, futures, every

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self.rules = [Rule(*figures) for figures in RULES]
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

    def expect(self, rule: Rule, observation: Any, info: dict[str, Any]) -> float:
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


def play(env: Any, agent: Any, number: int) -> float:
    """The share of a session's value that an agent earns."""
    observation, info = env.reset(seed=0, options={"task": number})
    agent.reset(env.seat(SESSION), observation, info, 0)
    finish(env, agent, observation, info)
    return float(env.account().value_share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", default="test")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--futures", type=int, default=4)
    parser.add_argument("--every", type=int, default=20)
    options = parser.parse_args()
    env: Any = costgym.make(SESSION, split=options.split, disable_env_checker=True).unwrapped
    planner, began = Planner(env, options.futures, options.every), time.process_time()
    numbers = env.numbers[: options.episodes]
    shares = {"planner": np.array([play(env, planner, number) for number in numbers])}
    print(f"planner: {time.process_time() - began:.0f} processor seconds")
    for name in ("paced", "optimistic"):
        shares[name] = np.array([play(env, make_agent(name, SESSION), number) for number in numbers])
        above = shares["planner"] - shares[name]
        half = 1.96 * above.std(ddof=1) / len(above) ** 0.5
        print(
            f"planner {shares['planner'].mean():.3f}  {name} {shares[name].mean():.3f}  above {above.mean():.3f} ± {half:.3f}"
        )


if __name__ == "__main__":
    main()
