"""Planning in a session with honest forks: which rule should play from here on?

    python examples/session_planning.py --episodes 50

`env.unwrapped.fork(seed=n)` keeps what has happened and draws everything that an agent cannot know again: what the tools are
really like, from the belief that adverts and calls so far allow, the queries to come, and all luck. So a rollout in such a fork
is a sample of what the agent may expect, and a search over forks knows no more than the agent.

Every `--every` queries the planner lets each of its rules play the rest of the session in the same few drawn futures, and
follows the one that earned most. The rules are the index of `tuned` with other degrees of optimism.
"""

import argparse
import time

import numpy as np

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION_1
from costgym.agents.sessions.planning import Planner
from costgym.experiments.play.episodes import play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", default="valid")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--futures", type=int, default=8)
    parser.add_argument("--every", type=int, default=20)
    options = parser.parse_args()
    env = costgym.make(SESSION_1, split=options.split, disable_env_checker=True)
    planner = Planner(env.unwrapped, futures=options.futures, every=options.every)
    numbers, began = env.unwrapped.numbers[: options.episodes], time.process_time()
    planned = np.array([play(env, planner, number, 0).value_share for number in numbers])
    print(f"planner: {time.process_time() - began:.0f} processor seconds")
    for name in ("paced", "tuned"):
        shares = np.array([play(env, make_agent(name, SESSION_1), number, 0).value_share for number in numbers])
        above = planned - shares
        half = 1.96 * above.std(ddof=1) / len(above) ** 0.5
        print(f"planner {planned.mean():.3f}  {name} {shares.mean():.3f}  above {above.mean():.3f} ± {half:.3f}")


if __name__ == "__main__":
    main()
