"""Learn to play sessions with PPO of Stable-Baselines3 on the native batch, with our network and with the stock one.

    python benchmarks/learning/sessions.py train --out runs/sessions --seeds 5
    python benchmarks/learning/sessions.py test --out runs/sessions --json sessions_ppo.json
    python benchmarks/learning/sessions.py stock --minutes 5 --json sessions_stock.json
    python benchmarks/learning/sessions.py stock --env costgym/MarketplaceSession-v1 --minutes 1 --seeds 5

`train` is `costgym train ppo --env costgym/MarketplaceSession-v0` for each seed. `test` plays the weights of all seeds on the
sessions of `test` beside the references. `stock` is sb3-contrib's `MaskablePPO` with its `MultiInputPolicy` and default
settings, but for a discount of 0.995, rollouts of 512 steps in 8 environments and rewards divided by 20. Minutes are of
processor time.
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION
from costgym.agents.checkpoints import save_checkpoint
from costgym.agents.registry import FunctionAgent
from costgym.agents.sessions.learnt import SessionConfig
from costgym.agents.sessions.network import SessionNetwork
from costgym.agents.settings import CONFIG
from costgym.experiments.play.episodes import play
from costgym.experiments.train.sb3.train import train_ppo

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.papers.presets import over_seeds
from benchmarks.report import write_report

REFERENCES = ("greedy", "bayes-index", "paced", "optimistic", "tuned", "informed-paced")


def train(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for seed in range(given.seed, given.seed + given.seeds):
        train_ppo(given.out / f"seed-{seed}", seed=seed, env=SESSION, steps=given.steps)


def row(name: str, shares: np.ndarray, paced: np.ndarray) -> dict[str, Any]:
    """The mean share of the value and what it is above `paced` in pairs, with half-widths of 95 % intervals."""
    ahead = shares - paced
    half, half_ahead = (1.96 * float(each.std(ddof=1)) / len(each) ** 0.5 for each in (shares, ahead))
    print(f"{name:16} {shares.mean():.4f} ± {half:.4f}   above paced {ahead.mean():+.4f} ± {half_ahead:.4f}", flush=True)
    figures = {"value_share": float(shares.mean()), "half": half, "above_paced": float(ahead.mean()), "half_above": half_ahead}
    return {"agent": name, **{key: round(value, 4) for key, value in figures.items()}}


def above(name: str, shares: np.ndarray, found: dict[str, np.ndarray]) -> dict[str, float]:
    """The mean difference of the shares from a reference's, in pairs, and the half-width of its 95 % interval."""
    ahead = shares - found[name]
    half = 1.96 * float(ahead.std(ddof=1)) / len(ahead) ** 0.5
    print(f"{'':16} above {name} {ahead.mean():+.4f} ± {half:.4f}", flush=True)
    return {f"above_{name}": round(float(ahead.mean()), 4), f"half_{name}": round(half, 4)}


def references(
    sessions: int, split: str = "test", names: tuple[str, ...] = REFERENCES, env_id: str = SESSION
) -> dict[str, np.ndarray]:
    """The shares of the rules on the first sessions of a split."""
    env = costgym.make(env_id, split=split, disable_env_checker=True)
    numbers = env.unwrapped.numbers[:sessions]  # type: ignore[attr-defined]
    agents = {name: make_agent(name, SESSION) for name in names}
    return {name: np.array([play(env, agent, n, 0).value_share for n in numbers]) for name, agent in agents.items()}


def measure(network: SessionNetwork, split: str, sessions: int) -> np.ndarray:
    """The shares of a network on the first sessions of a split."""
    with TemporaryDirectory() as folder:
        save_checkpoint(Path(folder), 1, network.state_dict(), {}, {})
        (Path(folder) / CONFIG).write_text(SessionConfig(settings={}, network=network.describe()).model_dump_json())
        return references(sessions, split, (f"sessions:{folder}",))[f"sessions:{folder}"]


def test(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    found = references(given.sessions)
    rows = [row(name, shares, found["paced"]) for name, shares in found.items()]
    learnt = list(
        references(given.sessions, names=tuple(f"sessions:{run}" for run in sorted(given.out.glob("seed-*")))).items()
    )
    rows += [row(f"ppo {Path(name).name}", shares, found["paced"]) for name, shares in learnt]
    # sessions and seeds both vary: of the mean over seeds, an interval over sessions in pairs, and one over seeds
    mean = np.mean([shares for _, shares in learnt], axis=0)
    seeds = over_seeds([float(shares.mean()) for _, shares in learnt])
    print(f"{'':16} over {len(learnt)} seeds {seeds}", flush=True)
    rows.append(row("ppo, mean", mean, found["paced"]) | above("optimistic", mean, found) | {"over_seeds": seeds})
    write_report({"sessions": given.sessions, "rows": rows}, given.json, ("numpy", "gymnasium", "torch"))


def stock(given: argparse.Namespace) -> None:
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)

    def make_env() -> gym.Env[Any, Any]:
        env = costgym.make(given.env, split="train", disable_env_checker=True, compiled=True)
        return gym.wrappers.TransformReward(env, lambda reward: reward / 20.0)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return time.process_time() - began < 60.0 * given.minutes

    found = references(given.sessions, env_id=given.env)
    world: Any = costgym.make(given.env, split="test", disable_env_checker=True)
    steps = []
    for seed in range(given.seed, given.seed + given.seeds):
        env = make_vec_env(make_env, 8, seed)
        model = MaskablePPO("MultiInputPolicy", env, n_steps=512, batch_size=256, gamma=0.995, seed=seed, device="cpu")
        began = time.process_time()
        model.learn(10**9, callback=Stop())
        steps.append(model.num_timesteps)

        def choose(observation: Any, info: dict[str, Any], model: Any = model) -> int:
            return int(model.predict(observation, action_masks=info["action_mask"], deterministic=True)[0])

        agent = FunctionAgent(choose, SESSION)
        numbers = world.unwrapped.numbers[: given.sessions]
        found[f"stock PPO {seed}"] = np.array([play(world, agent, number, 0).value_share for number in numbers])
    rows = [row(name, shares, found["paced"]) for name, shares in found.items()]
    report = {"env": given.env, "minutes": given.minutes, "steps": steps, "sessions": given.sessions, "rows": rows}
    write_report(report, given.json, ("numpy", "gymnasium", "stable_baselines3", "sb3_contrib", "torch"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "test", "stock"))
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--minutes", type=float, default=6.0, help="of stock")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--env", default=SESSION, help="of stock")
    parser.add_argument("--out", type=Path, default=Path("sessions-ppo"))
    parser.add_argument("--sessions", type=int, default=300, help="of test")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    {"train": train, "test": test, "stock": stock}[args.what](args)


if __name__ == "__main__":
    main()
