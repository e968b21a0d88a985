"""Constrained reinforcement learning: as many passes as possible while an episode costs at most so much on average.

    python examples/lagrangian.py --minutes 5 --limit 7

The environment reports what each step cost as `info["cost"]`. The learner is that of `ppo_marketplace.py`; here its reward
loses `multiplier * cost`, and the multiplier follows by dual ascent: it rises while episodes cost more than the limit on
average and falls, never below 0, while they cost less. `costgym train ppo --cost-limit 7` does the same with Stable-Baselines3.

Measured on 2026-11-22 with `--updates 120`, 141 seconds of processor time, 400 episodes, 95 % intervals:

    lagrangian  return 0.317 [0.296, 0.339]   passed 0.700 [0.655, 0.745]   mean cost 6.52 [6.03, 7.04], limit 7
    greedy      return 0.303 [0.280, 0.327]   passed 0.723 [0.680, 0.765]   mean cost 11.56 [10.95, 12.15]
"""

from dataclasses import dataclass

import torch
from ppo_marketplace import Args, Learnt, measure, parse, train

from costgym.agents import make_agent


@dataclass
class ConstrainedArgs(Args):
    """Settings; each is a command line flag."""

    limit: float = 7.0  # mean price of an episode
    rate: float = 5e-4  # of the dual ascent
    gain: float = 2e-3  # of the proportional term that damps its swings
    entropy: float = 0.01  # giving up has to be explored until the multiplier has settled
    final_lr_fraction: float = 0.3  # and the policy has to be able to follow it to the end
    margin: float = 0.1  # aim at this share below the limit, for the worlds that were not seen


class Multiplier:
    """The price of a unit of cost, which is taken from the reward."""

    def __init__(self, args: ConstrainedArgs) -> None:
        self.target, self.rate, self.gain = args.limit * (1.0 - args.margin), args.rate, args.gain
        self.integral = 0.0

    def __call__(self, mean_cost: float) -> float:
        """Dual ascent: one step up the gradient of the Lagrangian, which is the overspending."""
        excess = mean_cost - self.target
        self.integral = max(0.0, self.integral + self.rate * excess)
        return max(0.0, self.integral + self.gain * excess)


if __name__ == "__main__":
    torch.set_num_threads(1)
    settings = parse(ConstrainedArgs)
    assert isinstance(settings, ConstrainedArgs)
    learnt = Learnt(train(settings, Multiplier(settings)), "lagrangian")
    report = measure(learnt, settings)
    measure(make_agent("greedy"), settings)
    verdict = "kept" if report["average_cost"] <= settings.limit else "broken"
    print(f"mean cost {report['average_cost']:.3f}, limit {settings.limit:g}: {verdict}")
