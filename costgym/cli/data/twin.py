"""`costgym twin`: a simulated model fitted to a real one's recorded episodes."""

import hashlib
import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from costgym.cli.options import EXISTS
from costgym.cli.output import print_table
from costgym.experiments.play.options import Data, Seed
from costgym.simulators.bounds import Count, argument, option
from costgym.simulators.errors import ConfigError

if TYPE_CHECKING:
    from costgym.experiments.fit.twin import Twin
    from costgym.experiments.play.trajectories.format import Header


def twin(
    episodes: Annotated[Path, EXISTS, argument("Recorded episodes of `react`: file, collection, run or submission.")],
    out: Annotated[Path, option("Model file to write; `--model FILE:twin` plays it.", "FILE")] = Path("twin.yaml"),
    data: Data = None,
    hold_out: Annotated[
        bool, option("Fit every second episode only, predict the others and compare.", "", "--hold-out")
    ] = False,
    predict: Annotated[tuple[str, ...], option("Agents whose runs with this model are predicted.", "NAME[,NAME ...]")] = (),
    budgets: Annotated[str | None, option("Budgets; by default those of the episodes.", "RESOURCE=LIMIT,...")] = None,
    failures: Annotated[tuple[str, ...], option("Failure presets of the predicted runs.", "NAME[,NAME ...]")] = (),
    count: Annotated[Count, option("Episodes of a predicted run.", "N", "--episodes")] = 100,
    split: Annotated[str | None, option("Tasks of a predicted run: train or test; those of the episodes by default.")] = None,
    seed: Seed = 0,
    predictions: Annotated[Path, option("File of the predictions.", "FILE")] = Path("predictions.json"),
) -> None:
    """Fit the simulated model's rates to recorded episodes, and predict other runs of that model.

    Predictions are written with their SHA-256, to be kept before the run that tests them.

    Example: `costgym twin runs/react --out twin.yaml --predict react+btp --budgets price=10,40`
    """
    from costgym.experiments.fit import twin as fitting
    from costgym.experiments.play.trajectories.format import read_trajectories
    from costgym.experiments.play.trajectories.replay import trajectory_files
    from costgym.simulators.files import json_text, write_atomically, yaml_text
    from costgym.simulators.ledger import Budget

    if out.suffix not in (".yaml", ".yml"):
        raise ConfigError("--out", f"expected a name ending in .yaml, got {out}")
    files = trajectory_files(episodes)
    if len(files) != 1:
        names = ", ".join(sorted(file.name for file in files)[:6])
        raise ConfigError("EPISODES", f"expected one trajectory file, got {len(files)} ({names}); name one of them")
    (path,) = files
    header, _ = read_trajectories(path)
    if hold_out:
        rows = fitting.held_out(path, data)
        columns = ("figure", "recorded", "predicted", "low", "high", "hit")
        print_table(columns, [[_cell(row[name]) for name in columns] for row in rows], ("figure",))
    rates = fitting.fit(fitting.read_evidence(path, data))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    document = rates.document()
    document["fit"]["episodes_sha256"] = digest
    write_atomically(out, yaml_text(document))
    if not hold_out:
        cells = [
            [name, *map(_cell, (rate.value, rate.low, rate.high)), str(rate.opportunities)]
            for name, rate in rates.rates.items()
        ]
        print_table(("rate", "value", "low", "high", "opportunities"), cells, ("rate",))
    typer.echo(f"Kept at their defaults: {', '.join(rates.defaulted)}. {out} says why.")
    if not predict:
        return
    world = replace(header, settings={**header.settings, **({} if split is None else {"split": split})})
    limits = [header.settings["budget"]] if budgets is None else [budget.as_dict() for budget in Budget.parse(budgets)]
    conditions = itertools.product(predict, limits, failures or (None,))
    made = [_predicted(rates, world, agent, budget, preset, count, seed) for agent, budget, preset in conditions]
    text = json_text({"format": "costgym.predictions/1", "fitted_to_sha256": digest, "interval": fitting.LEVEL, "runs": made})
    write_atomically(predictions, text)
    typer.echo(f"{predictions}: {len(made)} runs predicted, SHA-256 {hashlib.sha256(text.encode()).hexdigest()}")


def _predicted(
    rates: "Twin", world: "Header", agent: str, limits: dict[str, float], failures: str | None, count: int, seed: int
) -> dict[str, Any]:
    """A run as the twin's rates predict it."""
    from costgym.experiments.fit.twin import predict

    figures = predict(rates, world, agent, limits, failures, range(count), seed)
    return {
        "agent": agent, "budget": limits, "failures": failures, "split": world.settings["split"],
        "episodes": count, "seed": seed,
        "figures": {name: dict(zip(("value", "low", "high"), values, strict=True)) for name, values in figures.items()},
    }  # fmt: skip


def _cell(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else value if isinstance(value, str) else f"{value:.4g}"
