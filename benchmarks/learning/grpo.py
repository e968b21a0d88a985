"""GRPO on the CPU: a tiny model made from a config, taught by gold episodes, then optimised for some steps.

    OMP_NUM_THREADS=1 python benchmarks/learning/grpo.py --out runs/grpo --steps 20

Prints reward, its spread within groups and the success rate of every step. With `--model ID` the same trains a published model
with LoRA on the default marketplace, on a GPU where there is one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from costgym.experiments.train.grpo.train import train_grpo
from costgym.experiments.train.grpo.world import GrpoWorld
from costgym.experiments.train.run import read_curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/grpo"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", help="a published model by id, or a folder")
    given = parser.parse_args()
    torch.set_num_threads(1)
    world = GrpoWorld.tiny(seed=given.seed) if given.model is None else GrpoWorld("marketplace", tasks=200)
    began, used = time.monotonic(), time.process_time()
    train_grpo(given.out, world, given.seed, steps=given.steps, model=given.model)
    curve = read_curve(given.out)
    for line in curve:
        print("  ".join(f"{name} {value:.4g}" for name, value in line.items()))
    varied = sum(line["reward_std"] > 0 for line in curve)
    print(f"reward differs within a group in {varied} of {len(curve)} steps")
    print(f"{time.monotonic() - began:.0f} s, {time.process_time() - used:.0f} s of processor time")


if __name__ == "__main__":
    main()
