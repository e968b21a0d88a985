"""What there is, and how fast it is."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..simulators.errors import ConfigError
from .common import JsonFile, Quiet, Seed, console, print_list


def envs(json_file: JsonFile = None) -> None:
    """The environments there are."""
    from .. import ENV_IDS
    from ..envs.registration import describe

    print_list([{"id": name, "what": describe(name)} for name in ENV_IDS], json_file)


def agents(json_file: JsonFile = None) -> None:
    """The agents there are."""
    from ..agents.registry import agents as all_agents

    print_list([{"name": entry.name, "env": entry.env_id, "what": entry.summary} for entry in all_agents()], json_file)


def scenarios(json_file: JsonFile = None) -> None:
    """The scenarios that come with the package."""
    from ..simulators.scenario import load_scenario, scenario_names

    found = [load_scenario(name) for name in scenario_names()]
    print_list([{"name": scenario.name, "description": scenario.description} for scenario in found], json_file)


def bench(
    steps: Annotated[int, typer.Option("--steps", help="Steps of each measurement.")] = 50_000,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Steps per second, beside Gymnasium's CartPole in the same run."""
    from ..experiments.benchmarking.bench import measure, print_bench
    from ..experiments.files import write_atomically

    if steps < 1000:
        raise ConfigError("--steps", f"expected at least 1000, got {steps}")
    report = measure(steps, seed)
    if json_file is not None:
        write_atomically(json_file, json.dumps(report, indent=1) + "\n")
    if not quiet:
        print_bench(report, console())
