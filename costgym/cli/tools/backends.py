"""Options of the commands that execute the vision tools."""

from __future__ import annotations

from typing import Annotated

import typer

BackendName = Annotated[str, typer.Option("--backend", help="tiny (networks of our own), or published (the paper's models).")]
Download = Annotated[bool, typer.Option("--download", help="published: let transformers fetch weights that are not at hand.")]
Device = Annotated[str, typer.Option("--device", help="cpu or cuda.")]
