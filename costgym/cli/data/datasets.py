"""`costgym datasets`: what a folder holds, and the datasets with names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..options import Data, EngineName, Jobs, JsonFile, Quiet, RayAddress, Seed
from ..output import PlainCommand, Progress, print_list, workers


class DefaultsToList(TyperGroup):
    """Commands of which `list` need not be named: `costgym datasets FOLDER` lists a folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if named else ["list", *args])


datasets = typer.Typer(cls=DefaultsToList, help="List the datasets in a folder, check them, and build those with names.")


@datasets.command("list", cls=PlainCommand)
def list_found(
    folder: Annotated[Path, typer.Argument(help="Folder to search.")] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Replay every episode and compare it with its record.")] = False,
    data: Data = None,
    json_file: JsonFile = None,
) -> None:
    """List the datasets in a folder, and check them. The word `list` may be left out.

    Example: `costgym datasets list . --check`
    """
    from dataclasses import asdict

    from ...experiments.play.trajectories.datasets import check_dataset, list_datasets

    rows = []
    for found in list_datasets(folder):
        row = {name: str(value) for name, value in asdict(found).items()}
        if check:
            problems = check_dataset(found.path, None if data is None else str(data))
            row["holds"] = "yes" if not problems else problems[0]
        rows.append(row)
    if rows:
        print_list(rows, json_file)
    else:
        typer.echo(f"no datasets in {folder}")
    if check and any(row["holds"] != "yes" for row in rows):
        raise typer.Exit(1)


@datasets.command(cls=PlainCommand)
def names(
    flat: Annotated[bool, typer.Option("--flat", help="The variants whose observations are vectors.")] = False,
    json_file: JsonFile = None,
) -> None:
    """List the datasets that `build` makes.

    Example: `costgym datasets names`
    """
    from ...experiments.play.named.catalogue import dataset_names, recipe_of

    rows = [{"dataset": name, "behaviour": recipe_of(name).summary} for name in dataset_names(flat)]
    print_list(rows, json_file)


@datasets.command(cls=PlainCommand)
def build(
    dataset: Annotated[list[str], typer.Argument(help="Names, from `costgym datasets names`.")],
    root: Annotated[Path | None, typer.Option("--root", metavar="DIR", help="Folder of datasets; Minari's by default.")] = None,
    episodes: Annotated[int | None, typer.Option("--episodes", min=1, help="Only so many, for a trial.")] = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Build datasets with names, in Minari's format. The same name and seed give the same bytes.

    Example: `costgym datasets build costgym/marketplace/expert-v0`
    """
    import json
    from dataclasses import asdict

    from ...experiments.play.files import write_atomically
    from ...experiments.play.named.build import build as make_dataset
    from ...experiments.play.named.catalogue import recipe_of
    from ...experiments.play.named.summary import summarise

    for name in dataset:
        recipe_of(name)  # a wrong name stops all before the first is built
    rows = []
    with workers(engine, jobs, ray_address) as place:
        for name in dataset:
            with Progress(name, quiet) as progress:

                def told(_: str, done: int, total: int, bar: Progress = progress) -> None:
                    bar.update(done, total)

                make_dataset(name, root, episodes, seed, place, told)
            figures = asdict(summarise(name, root)).items()
            rows.append({key: f"{value:.3f}" if isinstance(value, float) else str(value) for key, value in figures})
    if not quiet:
        print_list(rows, json_file)
    elif json_file is not None:
        write_atomically(json_file, json.dumps(rows, indent=1) + "\n")
