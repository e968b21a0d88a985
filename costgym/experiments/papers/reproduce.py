"""Reproduce a paper's table: published results, our results of the same systems in this world, and the claims that hold.

Our results are measured with the simulated model, or with deciders without a model. They show whether a system's *effects*
follow, not how good a real model is.
"""

import tempfile
from contextlib import nullcontext
from pathlib import Path

from costgym.agents.toolplanner.learnt import LEARNT
from costgym.experiments.papers import btp, catp, deer, ecoact, toolplanner
from costgym.experiments.papers.paper import Job, Paper, Progress, Tables, published
from costgym.experiments.train.run import check_steps
from costgym.simulators.errors import ConfigError, check_known

PAPERS = {paper.name: paper for paper in (btp.PAPER, ecoact.PAPER, deer.PAPER, toolplanner.PAPER, catp.PAPER)}


def find_paper(name: str) -> Paper:
    """Return a paper by its name.

    Raises:
        UnknownName: no paper has the name.
    """
    check_known("paper", name, PAPERS)
    return PAPERS[name]


def reproduce(
    name: str,
    seed: int = 0,
    episodes: int | None = None,
    jobs: int = 1,
    data: str | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    steps: int | None = None,
    world: int = 0,
    models: tuple[str, ...] | None = None,
) -> Tables:
    """Compute our rows for the table of "btp", "ecoact", "deer", "toolplanner" or "catp", under the paper's own protocol and
    then that of the common board; see `Protocol`. The same seed gives the same rows, whatever the number of jobs (processes).

    `episodes` counts those per agent (and level, or scale), each on a different task; None for `Paper.episodes`. `out` is the
    folder of the runs, which a later call continues; None for a temporary one. `data` is a ToolDEER folder, for "deer" only, on
    which policies are trained and whose samples are played first; `models` are what they are made of: "small", "minilm" (by
    default both, as far as their extras are installed), language models and sentence encoders by id or folder, or finished runs
    as ``deer:RUN``; for "toolplanner" finished runs as ``toolplanner:RUN``, played under the paper's protocol. `steps` are the
    optimiser steps of each trained policy, for "catp", and "deer" with a folder. `world` is its version; DEER's has one.

    Returns ``{"paper": rows, "ours": rows, "effects": rows}``, for "btp", "catp" and "toolplanner" also ``"differences"`` (an
    agent less another one, with paired intervals), for "btp" and "catp" ``"curves"``, for "btp" ``"experience"``. Rows have the
    format of leaderboard rows with their `protocol`; the paper's contain only the metrics that the paper reports. An effect has
    `protocol`, `claim`, `grading` (empty if the claim does not depend on it), `measured`, `follows`, `by_construction`,
    `source`."""
    paper = find_paper(name)
    check_steps("--episodes", episodes)
    if data is not None and name != "deer":
        raise ConfigError("--data", "only deer takes a data folder")
    if steps is not None and name != "catp" and data is None:
        raise ConfigError("--steps", "only catp, and deer with --data, train policies")
    if name == "toolplanner":
        for model in models or ():
            if not model.startswith(LEARNT):
                raise ConfigError("--model", f"expected {LEARNT}RUN of a `costgym train toolplanner` run, got {model!r}")
    elif models is not None and data is None:
        raise ConfigError("--model", "models are trained on a data folder; name one with --data")
    check_steps("--steps", steps)
    if world and name == "deer":
        raise ConfigError("--world", "expected 0 for deer, whose decisions are in version 0 of the world only, got 1")
    count = paper.episodes if episodes is None else episodes
    with nullcontext(out) if out is not None else tempfile.TemporaryDirectory() as folder:
        job = Job(seed, count, jobs, Path(folder), progress, data, steps, world, models)
        return {"paper": published(name), **paper.reproduce(job)}
