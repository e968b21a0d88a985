"""Time that MaskablePPO takes to a fixed score: on eight scalar environments, and on the native batch.

    OMP_NUM_THREADS=1 python benchmarks/training.py --json benchmarks/results/training.json

Both learn with the same network, rollout size, minibatches, epochs and learning rate from the same seeds; only the environments
differ. The score is the mean return of the last hundred training episodes; the time is this process's CPU time, on one thread.
"""

import argparse
import datetime
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from costgym.envs.marketplace import MarketplaceEnv
from costgym.experiments.train.sb3.vec_env import NativeVecEnv

ROLLOUT = 4096
SCENARIO = {
    "source": {"kind": "marketplace", "tools": 40, "providers": 8, "categories": 3, "train": 6, "test": 3, "candidates": 5},
    "failures": "reliable",
    "max_price": 1000.0,
}
"""Small enough that the score is reached in a minute."""


class UntilScore(BaseCallback):  # type: ignore[misc]
    """Stops once the mean return of the last hundred episodes reaches a score."""

    def __init__(self, score: float) -> None:
        super().__init__()
        self.score, self.reached = score, False

    def _on_step(self) -> bool:
        return not self.reached

    def _on_rollout_end(self) -> None:
        buffer = self.model.ep_info_buffer
        self.reached = len(buffer) == 100 and statistics.fmean(entry["r"] for entry in buffer) >= self.score


def learn(make: Callable[[], Any], envs: int, score: float, seed: int, limit: int) -> dict[str, Any]:
    env = make()
    model = MaskablePPO(
        "MultiInputPolicy", env, n_steps=ROLLOUT // envs, batch_size=512, n_epochs=4, learning_rate=1e-3, gamma=1.0,
        ent_coef=0.01, seed=seed, device="cpu",
    )  # fmt: skip
    until = UntilScore(score)
    begin, wall = time.process_time(), time.perf_counter()
    model.learn(limit, callback=until)
    return {
        "envs": envs,
        "seed": seed,
        "reached": until.reached,
        "steps": model.num_timesteps,
        "cpu_seconds": round(time.process_time() - begin, 2),
        "wall_seconds": round(time.perf_counter() - wall, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--score", type=float, default=0.25)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--envs", type=int, default=128, help="of the native batch")
    parser.add_argument("--limit", type=int, default=400_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = {"scenario": SCENARIO, "max_steps": 16}
    warm = NativeVecEnv(1, **settings)  # compile before the clock starts
    warm.reset()
    warm.step(np.zeros(1, np.int64))
    makers: dict[str, tuple[Callable[[], Any], int]] = {
        "DummyVecEnv": (lambda: DummyVecEnv([lambda: Monitor(MarketplaceEnv(**settings))] * 8), 8),
        "native": (lambda: NativeVecEnv(options.envs, **settings), options.envs),
    }
    runs = []
    for seed in range(options.seeds):
        for name, (make, envs) in makers.items():
            runs.append({"on": name, **learn(make, envs, options.score, seed, options.limit)})
            print(runs[-1], flush=True)
    report = {
        "scenario": SCENARIO,
        "score": options.score,
        "runs": runs,
        "speedup": round(
            statistics.median(run["cpu_seconds"] for run in runs if run["on"] == "DummyVecEnv")
            / statistics.median(run["cpu_seconds"] for run in runs if run["on"] == "native"),
            2,
        ),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    print(json.dumps({key: report[key] for key in ("score", "speedup")}))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
