"""`costgym run`: play one agent and sum up."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import EnvName, JsonFile, Quiet, SpendingOptions, WorkerOptions, WorldOptions, requests_and_cost
from costgym.cli.output import Progress, console, save_json
from costgym.cli.players import make_player
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import Count, option
from costgym.simulators.errors import ConfigError


def run(
    agent: Annotated[str, option("An agent of `costgym agents`.")],
    world: WorldOptions,
    language: SpendingOptions,
    place: WorkerOptions,
    env: EnvName = None,
    episodes: Annotated[Count, option("Number of episodes.")] = 100,
    seed: Seed = 0,
    usefulness: Annotated[Path | None, option("+btp: classifier of results, a run of `train btp`.", "DIR")] = None,
    experience: Annotated[str | None, option("+btp: explorer and uses per tool, or a file.", "EXPLORER:USES|FILE")] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Play one agent in one environment and print its figures.

    Example: `costgym run --agent react --budget price=20`
    """
    from costgym.envs.base import base_env
    from costgym.experiments.pages.table import print_row
    from costgym.experiments.play.execution.concurrent import batch_of
    from costgym.experiments.play.metrics import summarise
    from costgym.experiments.play.notices import server_notices
    from costgym.experiments.play.rollout import expect_spending, rollout

    if language.spend_limit is not None and language.cache is None:
        advice = "it keeps the replies that were paid for, and the same command with a higher limit continues from them"
        raise ConfigError("--spend-limit", f"expected --cache DIR too: {advice}")
    language.keep_replies()
    model, prices = language.model, language.prices
    with place.open(model, language.batch, language.concurrency) as engine, Progress(f"playing {agent}", quiet) as progress:
        player, played = make_player(agent, env, world, seed, model, prices, usefulness, experience, batch_of(engine))
        spending = language.spending(progress.say) if player.model else None
        if spending is not None:
            progress.state = partial(requests_and_cost, spending)
            simulated, _ = make_player(agent, env, world, seed, "simulated", None, usefulness, experience)
            expect_spending(spending, played, simulated, episodes, seed)

        def update(done: int) -> None:
            progress.update(done, episodes)

        results = rollout(played, player, episodes, seed, update, engine, spending)
    if spending is not None and not results:
        spending.check(0, episodes)
    void = sum(result.void for result in results)
    if void:
        what = "none of the" if void == len(results) else f"{void} of"
        said = [result.void_reason for result in results if result.void_reason]
        why = said[0] if said else "the model's server or another back-end cannot be reached or keeps failing"
        typer.echo(
            f"error: {what} {len(results)} episodes could {'not ' if void < len(results) else ''}be played: {why}", err=True
        )
    if void == len(results):
        raise typer.Exit(1)
    row = summarise(results, world.grading or "strict", seed=seed)
    save_json(json_file, row)
    for notice in server_notices(row):
        typer.echo(f"note: {notice}", err=True)
    if not quiet:
        base = base_env(played)
        print_row(row, console(), base.world_summary(base.world_document()))
    if spending is not None:
        spending.check(len(results), episodes)
