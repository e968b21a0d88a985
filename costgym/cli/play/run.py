"""`costgym run`: play one agent and sum up."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costgym.cli.options import EnvName, JsonFile, Quiet, SpendingOptions, WorkerOptions, WorldOptions, requests_and_cost
from costgym.cli.output import Progress, console, prints, save_json
from costgym.cli.players import find_player, make_player
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import Count, argument, option
from costgym.simulators.errors import ConfigError

if TYPE_CHECKING:
    from costgym.experiments.play.results import EpisodeResult


def run(
    name: Annotated[str | None, argument("An agent of `costgym agents`.", "AGENT")] = None,
    *,
    agent: Annotated[str | None, option("The agent, if no argument names it.", "AGENT")] = None,
    world: WorldOptions,
    model: SpendingOptions,
    workers: WorkerOptions,
    env: EnvName = None,
    episodes: Annotated[Count, option("Number of episodes.")] = 100,
    seed: Seed = 0,
    usefulness: Annotated[Path | None, option("+btp: classifier of results, a run of `train btp`.", "DIR")] = None,
    experience: Annotated[str | None, option("+btp: explorer and uses per tool, or a file.", "EXPLORER:USES|FILE")] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Play one agent in one environment and print its figures.

    Example: `costgym run react --budget price=20`
    """
    if (name or agent) is None or None not in (name, agent):
        raise ConfigError("AGENT", "expected one agent, such as `costgym run greedy`; `costgym agents` lists them")
    player_name = str(name or agent)
    find_player(player_name, env)

    if model.spend_limit is not None and model.cache is None:
        advice = "it keeps the replies that were paid for, and the same command with a higher limit continues from them"
        raise ConfigError("--spend-limit", f"expected --cache DIR too: {advice}")
    model.keep_replies()
    from costgym.experiments.play.execution.concurrent import batch_of

    with (
        workers.open(model.model, model.batch, model.concurrency) as engine,
        Progress(f"playing {player_name}", quiet) as progress,
    ):
        sit_down = partial(make_player, player_name, env, world, seed, usefulness=usefulness, experience=experience)
        player, played = sit_down(model.model, model.prices, at_hand=batch_of(engine))
        from costgym.experiments.play.rollout import expect_spending, rollout

        spending = model.spending(progress.say) if player.model else None
        if spending is not None:
            progress.state = partial(requests_and_cost, spending)
            simulated, _ = sit_down("simulated")
            expect_spending(spending, played, simulated, episodes, seed)

        def update(done: int) -> None:
            progress.update(done, episodes)

        results = rollout(played, player, episodes, seed, update, engine, spending)
    if spending is not None and not results:
        spending.check(0, episodes)
    if _report_void(results) == len(results):
        raise typer.Exit(1)
    from costgym.experiments.play.metrics import summarise
    from costgym.experiments.play.models.notices import server_notices

    row = summarise(results, world.grading or "strict", seed=seed)
    save_json(json_file, row)
    for notice in server_notices(row):
        typer.echo(f"note: {notice}", err=True)
    if prints(quiet, json_file):
        from costgym.envs.base import base_env
        from costgym.experiments.pages.table import print_row

        base = base_env(played)
        print_row(row, console(), base.world_spec().summary())
    if spending is not None:
        spending.check(len(results), episodes)


def _report_void(results: Sequence["EpisodeResult"]) -> int:
    """Say how many episodes could not be played, and why; return their number."""
    void = sum(result.void for result in results)
    if void:
        which = "none of the" if void == len(results) else f"{void} of"
        negation = "not " if void < len(results) else ""
        reasons = [result.void_reason for result in results if result.void_reason]
        why = reasons[0] if reasons else "the model's server or another back-end cannot be reached or keeps failing"
        typer.echo(f"error: {which} {len(results)} episodes could {negation}be played: {why}", err=True)
    return void
