"""What becomes of an agent that talks nonsense: 400 messages to each text environment of both versions of the world.

    python benchmarks/nonsense.py [MESSAGES]

OpenCATP's text view ends with its first message, so there each message is an episode. After the table come random plans of
`OpenCATP-v1`: whether they are a success, and why not.
"""

import sys
from collections import Counter

import costgym
from costgym.agents.registry import make_agent
from costgym.envs.base import base_env
from costgym.experiments.play.episodes import play

MESSAGE = "The weather is nice today, and I would rather talk about that."
TALKING = ("MarketplaceChat", "MarketplaceSessionChat", "OpenCATPChat")


def talk(env_id: str, messages: int) -> tuple[int, int, float, float, str]:
    """Send messages until the episode ends; how many it took, tokens, money, simulated seconds, and how it ended."""
    env = costgym.make(env_id)
    sent, tokens, money, seconds, end = 0, 0, 0.0, 0.0, "still running"
    for episode in range(messages):
        env.reset(seed=episode)
        for _ in range(messages - sent):
            _, _, terminated, truncated, info = env.step(MESSAGE)
            sent, tokens, money = sent + 1, tokens + info["cost_tokens"], money + info["cost_price"]
            if terminated or truncated:
                break
        account = base_env(env).account()
        seconds += account.now_s
        if terminated or truncated:
            end = f"over its {account.exceeded}" if account.exceeded else "step limit" if truncated else "its one message"
        if "OpenCATP" not in env_id or sent == messages:
            break
    return sent, tokens, money, seconds, end


def main(messages: int) -> None:
    print(f"{'environment':<34} {'messages':>8} {'tokens':>12} {'money':>10} {'seconds':>10}  end")
    for version in ("v0", "v1"):
        for name in TALKING:
            env_id = f"costgym/{name}-{version}"
            sent, tokens, money, seconds, end = talk(env_id, messages)
            print(f"{env_id:<34} {sent:>8} {tokens:>12,} {money:>10.2f} {seconds:>10.1f}  {end}")
    for version in ("v0", "v1"):
        env, agent = costgym.make(f"costgym/OpenCATP-{version}", tasks="all"), make_agent("random", "costgym/OpenCATP-v0")
        ends: Counter[str] = Counter()
        for number in range(messages):
            world = base_env(env)
            play(env, agent, world.instance(number, 0).number, number)
            reason = getattr(world, "failure_reason", "")
            ends["success" if world.succeeded else reason.split(":")[0].split(" 0.")[0]] += 1
        print(f"{messages} random plans of OpenCATP-{version}: {dict(ends.most_common())}; the last: {reason or 'success'}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
