"""`costgym datasets`: list and check the datasets in a folder, and build the named datasets."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import JsonFile, Quiet, WorkerOptions
from costgym.cli.output import Progress, print_list, prints, save_json
from costgym.cli.verbs import Verbs, defaulting_to
from costgym.experiments.play.options import Data, Seed
from costgym.simulators.bounds import Count, argument, option

datasets = Verbs(cls=defaulting_to("list"), help="List the datasets in a folder, check them, and build the named ones.")


@datasets.command("list")
def list_found(
    folder: Annotated[Path, argument("Folder to search.")] = Path(),
    check: Annotated[bool, option("Replay every episode and compare it with its record.", "", "--check")] = False,
    data: Data = None,
    json_file: JsonFile = None,
) -> None:
    """List the datasets in a folder, and check them. The word `list` may be left out.

    Example: `costgym datasets list . --check`
    """
    from costgym.experiments.play.export.datasets import check_dataset, list_datasets

    rows = []
    for dataset in list_datasets(folder):
        row = {name: str(value) for name, value in asdict(dataset).items()}
        if check:
            problems = check_dataset(dataset.path, data)
            row["holds"] = "yes" if not problems else problems[0]
        rows.append(row)
    if rows:
        print_list(rows, json_file)
    else:
        typer.echo(f"no datasets in {folder}")
    if check and any(row["holds"] != "yes" for row in rows):
        raise typer.Exit(1)


@datasets.command()
def names(
    flat: Annotated[bool, option("The variants whose observations are vectors.", "", "--flat")] = False,
    json_file: JsonFile = None,
) -> None:
    """List the datasets that `build` makes.

    Example: `costgym datasets names`
    """
    from costgym.experiments.play.named.catalogue import dataset_names, recipe_of

    rows = [{"dataset": name, "behaviour": recipe_of(name).summary} for name in dataset_names(flat)]
    print_list(rows, json_file)


@datasets.command()
def build(
    dataset: Annotated[list[str], argument("Names, from `costgym datasets names`.")],
    workers: WorkerOptions,
    root: Annotated[Path | None, option("Folder of datasets; Minari's by default.", "DIR")] = None,
    episodes: Annotated[Count | None, option("Only this many, for a trial.")] = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Build named datasets in Minari's format. The same name and seed give the same bytes.

    Example: `costgym datasets build costgym/marketplace/expert-v0`
    """
    from costgym.experiments.play.named.build import build as make_dataset
    from costgym.experiments.play.named.build import summarise
    from costgym.experiments.play.named.catalogue import recipe_of

    for name in dataset:
        recipe_of(name)  # refuses a wrong name before the first dataset is built
    rows = []
    with workers.open() as engine:
        for name in dataset:
            with Progress(name, quiet) as progress:

                def report(_: str, done: int, total: int, bar: Progress = progress) -> None:
                    bar.update(done, total)

                make_dataset(name, root, episodes, seed, engine, report)
            figures = summarise(name, root).items()
            rows.append({key: f"{value:.3f}" if isinstance(value, float) else str(value) for key, value in figures})
    if prints(quiet, json_file):
        print_list(rows, json_file)
    else:
        save_json(json_file, rows)
