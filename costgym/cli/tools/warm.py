"""`costgym warm`: compile everything in advance."""

import time
from typing import Any

import typer

from ..options import Quiet
from ..output import console

FORMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("costgym/Marketplace-v0", {}),
    ("costgym/Marketplace-v0", {"concurrent": True}),
    ("costgym/Marketplace-v0", {"scenario": "marketplace-writes"}),
    ("costgym/MarketplaceSession-v0", {}),
)
"""Environments and arguments that need compiled code of their own."""
THREADS = (1, 2)


def warm(quiet: Quiet = False) -> None:
    """Compile the environments and the native batches, and keep the code on disk.

    Environments play in compiled code by default where it is there, and in Python elsewhere. A second call takes seconds.

    Example: `costgym warm`
    """
    from ...envs.registration import make, make_vec

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
        typer.echo("compiled; environments of these forms now play in compiled code by default")
