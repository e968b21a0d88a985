"""The command line."""

from __future__ import annotations

import typer

from ..simulators.errors import CostGymError
from . import calibration, datasets, listing, playing, serving, showing, site, train, vision
from .reproduce import reproduce

app = typer.Typer(
    name="costgym",
    help="A simulated tool world, priced and failing like real APIs, for cost-aware agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (
    playing.leaderboard,
    playing.run,
    showing.show,
    site.site,
    datasets.collect,
    datasets.verify,
    datasets.export,
    datasets.datasets,
    reproduce,
    serving.serve,
    calibration.calibrate,
    vision.profile,
    vision.build_tools,
    vision.build_table,
    listing.envs,
    listing.agents,
    listing.scenarios,
    listing.bench,
):
    app.command()(verb)
app.add_typer(train.app, name="train")
app.add_typer(datasets.submit, name="submit")


def main() -> None:
    """Entry point: an error of ours is one line on standard error and exit status 2."""
    try:
        app()
    except CostGymError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None
