"""`costgym bench` and `warm`: measure steps per second, and compile everything in advance."""

import time
from typing import Annotated, Any

import typer

from costgym.cli.options import JsonFile, Quiet
from costgym.cli.output import console, prints, save_json
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import option

FORMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("costgym/Marketplace-v0", {}),
    ("costgym/Marketplace-v0", {"concurrent": True}),
    ("costgym/Marketplace-v0", {"scenario": "marketplace-writes"}),
    ("costgym/MarketplaceSession-v0", {}),
)
"""Environments and arguments that need compiled code of their own."""
THREADS = (1, 2)


def warm(quiet: Quiet = False) -> None:
    """Compile the environments and the native batches, and keep the code on disk for `compiled=True` and `make_vec`.

    A second call takes seconds.

    Example: `costgym warm`
    """
    from costgym.envs.registration import make, make_vec

    for env_id, settings in FORMS:
        began = time.perf_counter()
        env = make(env_id, compiled=True, **settings)
        env.reset(seed=0)
        env.step(0)
        for threads in THREADS:
            envs = make_vec(env_id, 2, threads=threads, **settings)
            envs.reset(seed=0)
            envs.step(envs.action_space.sample())
        if not quiet:
            arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
            console().print(f"{env_id} {arguments} {time.perf_counter() - began:.0f} s", highlight=False)
    if not quiet:
        typer.echo("compiled; environments and native batches of these forms start without a wait")


def bench(
    steps: Annotated[int, option("Steps of each measurement.", ge=1000)] = 50_000,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Measure steps per second, compared with Gymnasium's CartPole.

    Example: `costgym bench`
    """
    from costgym.experiments.bench import measure, print_bench

    report = measure(steps, seed)
    save_json(json_file, report)
    if prints(quiet, json_file):
        print_bench(report, console())
