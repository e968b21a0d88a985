"""The mean of the weights of several trainings of DEER's encoder, with different seeds, as one run.

    python benchmarks/papers/averaged.py runs/tuned-0 runs/tuned-1 --data DIR --out runs/mean
    costgym reproduce deer --data DIR --model deer:runs/mean

All start from the same published weights, near which they stay, so that their mean is an encoder again; it takes no longer to
play than one of them. The vectors of the queries that it remembers are computed again. DIR is the ToolDEER folder that they
learnt from.

Source: Wortsman et al. (2022), "Model soups", of all trainings alike.
"""

import argparse
import shutil
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from costgym.agents.checkpoints import load_weights, newest, read_state, save_checkpoint
from costgym.agents.deer.matching import new_matcher
from costgym.agents.deer.settings import DeerConfig
from costgym.agents.networks import trained_weights
from costgym.agents.settings import CONFIG, read_config
from costgym.experiments.train.deer.train import training_examples
from costgym.simulators.decision.samples import NO_SEARCH
from costgym.simulators.threads import torch_threads


def average(runs: list[Path], data: str, out: Path) -> None:
    """Write the run whose encoder is the mean of others'; raises ValueError where they differ in more than the seed."""
    configs = [read_config(run, DeerConfig) for run in runs]
    settings = configs[0].settings
    alike = all(config.settings.model_copy(update={"seed": settings.seed}) == settings for config in configs)
    if not settings.tune_encoder or not alike:
        raise ValueError("expected trainings with --tune-encoder that differ in their seeds alone")
    matcher, embed = new_matcher(settings, configs[0].known)
    weights = trained_weights(matcher)
    total = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for run in runs:
        load_weights(newest(run), weights)
        for name, weight in weights.items():
            total[name] += weight.detach() / len(runs)
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(total[name])
    needed = [example.query for example in training_examples("decision", data, settings)[0] if example.kind != NO_SEARCH]
    matcher.remember(embed(needed[:: -(-len(needed) // configs[0].known)]))
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(runs[0] / CONFIG, out / CONFIG)
    save_checkpoint(out, read_state(newest(runs[0]))["step"], weights, {}, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    with torch_threads(1):
        average(chosen.runs, chosen.data, chosen.out)


if __name__ == "__main__":
    main()
