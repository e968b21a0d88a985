"""Learn to play sessions with PPO on the native batch, feed-forward on counted features or recurrent on raw observations.

    python benchmarks/learning/sessions.py train --out runs/sessions --seeds 5
    python benchmarks/learning/sessions.py train --out runs/recurrent --seeds 5 --memory raw
    python benchmarks/learning/sessions.py train --out runs/lagrangian --seeds 5 --lagrangian
    python benchmarks/learning/sessions.py test --out runs/sessions --json benchmarks/results/sessions_ppo.json
    python benchmarks/learning/sessions.py stock --minutes 5 --json benchmarks/results/sessions_stock.json

`train` is `costgym train sessions` for each seed. `test` plays the weights of all seeds on the sessions of `test` beside the
references; `draw` draws the learning curves of all three. `stock` is sb3-contrib's `MaskablePPO` with its `MultiInputPolicy`
and default settings, but for a discount of 0.995, rollouts of 512 steps in 8 environments and rewards divided by 20. Minutes
are of processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION
from costgym.agents.checkpoints import load_weights, newest
from costgym.agents.registry import FunctionAgent
from costgym.agents.sessions.network import SessionNetwork
from costgym.envs.session_features import MEMORIES
from costgym.experiments.play.rollout import play
from costgym.experiments.train.run import read_curve
from costgym.experiments.train.sessions.train import measure, train_sessions

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.papers.presets import over_seeds
from benchmarks.report import write_report

VALID = 100  # sessions
RESULTS = Path(__file__).parents[1] / "results"
REPORTS = {
    "counts": "sessions_ppo.json",
    "raw observations, recurrent": "sessions_recurrent.json",
    "counts, with multipliers": "sessions_lagrangian.json",
}
"""Reports that `test` wrote, by the learner's title in the picture."""
REFERENCES = ("greedy", "bayes-index", "paced", "optimistic", "informed-paced")


def train(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for seed in range(given.seed, given.seed + given.seeds):
        train_sessions(given.out / f"seed-{seed}", seed, memory=given.memory, steps=given.steps, lagrangian=given.lagrangian)


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


def references(sessions: int, split: str = "test", names: tuple[str, ...] = REFERENCES) -> dict[str, np.ndarray]:
    """The shares of the rules on the first sessions of a split."""
    env = costgym.make(SESSION, split=split, disable_env_checker=True)
    numbers = env.unwrapped.numbers[:sessions]  # type: ignore[attr-defined]
    agents = {name: make_agent(name, SESSION) for name in names}
    return {name: np.array([play(env, agent, n, 0).value_share for n in numbers]) for name, agent in agents.items()}


def test(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    found = references(given.sessions)
    rows, curves = [row(name, shares, found["paced"]) for name, shares in found.items()], {}
    learnt = []
    for folder in sorted(given.out.glob("seed-*")):
        policy = SessionNetwork(given.memory)
        load_weights(newest(folder), policy.state_dict())
        learnt.append(measure(policy, "test", given.sessions))
        rows.append(row(f"ppo {folder.name}", learnt[-1], found["paced"]))
        curves[folder.name] = [line for line in read_curve(folder) if "value_share" in line]
    # sessions and seeds both vary: of the mean over seeds, an interval over sessions in pairs, and one over seeds
    mean = np.mean(learnt, axis=0)
    seeds = over_seeds([float(shares.mean()) for shares in learnt])
    print(f"{'':16} over {len(learnt)} seeds {seeds}", flush=True)
    rows.append(row("ppo, mean", mean, found["paced"]) | above("optimistic", mean, found) | {"over_seeds": seeds})
    valid = {name: round(float(shares.mean()), 4) for name, shares in references(VALID, "valid").items()}
    report = {"sessions": given.sessions, "memory": given.memory, "rows": rows, "valid": valid, "curves": curves}
    write_report(report, given.json, ("numpy", "gymnasium", "torch"))


def draw(given: argparse.Namespace) -> None:
    """Draw the learning curves of the three learners beside the references."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(REPORTS), figsize=(10.5, 3.4), sharey=True)
    for axes, (title, file) in zip(panels, REPORTS.items(), strict=True):
        report = json.loads((RESULTS / file).read_text())
        for name, curve in report["curves"].items():
            shares = [each["value_share"] for each in curve]
            axes.plot([each["step"] / 1e6 for each in curve], shares, label=name.replace("-", " "))
        for name, line in zip(REFERENCES[2:], ("--", "-.", ":"), strict=True):
            axes.axhline(report["valid"][name], color="grey", linestyle=line, label=name)
        axes.set(title=title, xlabel="million steps", ylim=(0.0, 0.5))
    panels[0].set_ylabel("share of the value, 100 sessions of valid")
    panels[-1].legend(fontsize=8, ncols=2, loc="lower right")
    figure.tight_layout()
    figure.savefig(given.plot)


def stock(given: argparse.Namespace) -> None:
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)

    def make_env() -> gym.Env[Any, Any]:
        env = costgym.make(SESSION, split="train", disable_env_checker=True, compiled=True)
        return gym.wrappers.TransformReward(env, lambda reward: reward / 20.0)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return time.process_time() - began < 60.0 * given.minutes

    env = make_vec_env(make_env, 8, given.seed)
    model = MaskablePPO("MultiInputPolicy", env, n_steps=512, batch_size=256, gamma=0.995, seed=given.seed, device="cpu")
    began = time.process_time()
    model.learn(10**9, callback=Stop())

    def choose(observation: Any, info: dict[str, Any]) -> int:
        return int(model.predict(observation, action_masks=info["action_mask"], deterministic=True)[0])

    found, world = references(given.sessions), costgym.make(SESSION, split="test", disable_env_checker=True)
    agent, numbers = FunctionAgent(choose, SESSION), world.unwrapped.numbers[: given.sessions]  # type: ignore[attr-defined]
    found["stock PPO"] = np.array([play(world, agent, number, 0).value_share for number in numbers])
    rows = [row(name, shares, found["paced"]) for name, shares in found.items()]
    report = {
        "minutes": given.minutes,
        "steps": model.num_timesteps,
        "sessions": given.sessions,
        "seed": given.seed,
        "rows": rows,
    }
    write_report(report, given.json, ("numpy", "gymnasium", "stable_baselines3", "sb3_contrib", "torch"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "test", "draw", "stock"))
    parser.add_argument("--memory", choices=MEMORIES, default="counts")
    parser.add_argument("--lagrangian", action="store_true", help="multipliers hold mean money and time to the budget")
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--minutes", type=float, default=6.0, help="of stock")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("sessions-ppo"))
    parser.add_argument("--sessions", type=int, default=300, help="of test")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, default=Path("sessions.svg"), help="picture that `draw` makes")
    given = parser.parse_args()
    {"train": train, "test": test, "draw": draw, "stock": stock}[given.what](given)


if __name__ == "__main__":
    main()
