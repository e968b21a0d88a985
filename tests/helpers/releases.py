"""Freeze a release of the benchmark: `python -m tests.helpers.releases NAME [WORLD]` writes its file, which must not exist."""

import sys

import yaml

from costgym.experiments.board.release import FOLDER, Release, freeze
from costgym.experiments.board.run_config import make_run_config

SUITES = ("quick", "robustness", "opencatp")  # suites of a release: those that need no data of others


def make_release(name: str, world: int) -> Release:
    """A release of the suites as they are now in a version of the world."""
    configs = {suite: make_run_config(suite, seed=0, world=world) for suite in SUITES}
    tracks = {suite: {track.name: freeze(track) for track in config.tracks} for suite, config in configs.items()}
    return Release(name=name, world=world, seed=0, grading="strict", split="test", suites=tracks)


if __name__ == "__main__":
    with (FOLDER / f"{sys.argv[1]}.yaml").open("x", encoding="utf-8") as file:
        yaml.safe_dump(make_release(sys.argv[1], int([*sys.argv, 1][2])).model_dump(), file, sort_keys=False)
