"""`costgym gate`: does a change make an agent dearer or worse?"""

from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import EnvName, JsonFile, Quiet, WorldOptions
from costgym.cli.output import Progress, prints, save_json
from costgym.cli.players import entry_and_id
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import Count, argument, option
from costgym.simulators.errors import ConfigError


def gate(
    agent: Annotated[str, argument("FILE.py:CLASS, or an agent of `costgym agents`.", "AGENT")],
    *,
    baseline: Annotated[Path | None, option("What the agent cost before the change.", "FILE")] = None,
    write_baseline: Annotated[Path | None, option("Play the agent as it is and write its episodes.", "FILE")] = None,
    max_cost: Annotated[str, option("Largest rise of the cost that passes.", "+5%")] = "+5%",
    max_drop: Annotated[float, option("Largest fall of the successes that passes, in points.")] = 2.0,
    price_as: Annotated[
        str | None,
        option(
            "Model whose prices the tokens have; by default those of the scenario, or gpt-5-mini's where it has none.", "MODEL"
        ),
    ] = None,
    world: WorldOptions,
    env: EnvName = None,
    episodes: Annotated[Count, option("Episodes of a baseline; more for an agent that has chance of its own.")] = 192,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Exit with status 1 if a change makes an agent dearer or worse on the same tasks and luck.

    What is not clear after all episodes passes. Agents of `costgym agents` ask the simulated language model.

    Example: `costgym gate my_agent.py:Agent --baseline baseline.json --max-cost +5% --max-drop 2`
    """
    from dataclasses import asdict

    from costgym.experiments.play.costs import gate as gates

    if (baseline is None) == (write_baseline is None):
        raise ConfigError("--baseline", "expected either --baseline FILE or --write-baseline FILE")
    limit = read_percent("--max-cost", max_cost)
    before = None if baseline is None else gates.read_baseline(baseline)
    entry, env_id = entry_and_id(agent, env if before is None or env is not None else before.env_id, world)
    played, player, currency = gates.contestants(entry, env_id, world.arguments(env_id), price_as)
    with Progress(f"playing {agent}", quiet) as progress:
        if before is None:
            assert write_baseline is not None
            written = gates.write_baseline(write_baseline, played, player, seed, currency, episodes, progress.update)
        else:
            verdict = gates.gate(before, played, player, limit, max_drop, progress.update)
    if before is None:
        if prints(quiet, json_file):
            typer.echo(f"baseline: {len(written.episodes)} episodes of {written.agent}: {write_baseline}")
        return
    save_json(json_file, asdict(verdict))
    if json_file is None or prints(quiet, json_file):
        typer.echo(verdict.sentence)
    if not verdict.passed:
        raise typer.Exit(1)


def read_percent(name: str, text: str) -> float:
    """A share written as +5%, 5% or 0.05."""
    try:
        return float(text.strip().rstrip("%")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        raise ConfigError(name, f"expected a share such as +5%, got {text!r:.40}") from None
