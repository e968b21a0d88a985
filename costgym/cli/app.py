"""The command line: `costgym VERB`. A verb is a module of the folder that is named like its panel in the help."""

from __future__ import annotations

import os
import threading
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..simulators.errors import CostGymError, SpendLimitReached
from ..simulators.version import __version__
from .data.calibrate import calibrate
from .data.collect import collect
from .data.datasets import datasets
from .data.experience import experience
from .data.export import export
from .data.verify import verify
from .learn.baselines import baselines
from .learn.reproduce import reproduce
from .learn.train import app as train
from .output import PlainCommand
from .play.leaderboard import leaderboard
from .play.run import run
from .play.show import show
from .share.chaos import chaos
from .share.proxy import proxy
from .share.rerun import rerun
from .share.serve import serve
from .share.site import site
from .share.submit import submit
from .tools.agents import agents
from .tools.bench import bench
from .tools.build_table import build_table
from .tools.build_tools import build_tools
from .tools.envs import envs
from .tools.prices import prices
from .tools.profile import profile
from .tools.retrieval import retrieval
from .tools.scenarios import scenarios
from .tools.selftest import selftest


class Verbs(TyperGroup):
    """All verbs: an error of costgym, or of the file system, is one line on standard error and exit status 2.

    A run that stopped at its spend limit has exit status 3.
    """

    def invoke(self, ctx: Any) -> Any:
        before, threading.excepthook = threading.excepthook, _report_thread
        try:
            return super().invoke(ctx)
        except CostGymError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(3 if isinstance(error, SpendLimitReached) else 2) from None
        except BrokenPipeError:
            raise  # whoever read has had enough
        except UnicodeEncodeError as error:
            typer.echo(
                f"error: a text holds half a character (U+{ord(error.object[error.start]):04X}); write it whole", err=True
            )
            raise typer.Exit(2) from None
        except OSError as error:
            place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            typer.echo(f"error: {place}{error.strerror or error}", err=True)
            raise typer.Exit(2) from None
        finally:
            threading.excepthook = before


def _report_thread(failed: threading.ExceptHookArgs) -> None:
    """A library's own thread that cannot write, such as TensorBoard's, is one line too."""
    if not isinstance(failed.exc_value, OSError):
        threading.__excepthook__(failed)
        return
    typer.echo(f"warning: {failed.exc_value}", err=True)


app = typer.Typer(name="costgym", cls=Verbs, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)

PANELS = {
    "Play": (leaderboard, run, show),
    "Data": (collect, verify, export, experience, calibrate),
    "Learn": (baselines, reproduce),
    "Share": (site, serve, proxy, rerun),
    "Tools": (envs, agents, scenarios, retrieval, selftest, bench, profile, build_tools, build_table),
}
for panel, verbs in PANELS.items():
    for verb in verbs:
        app.command(cls=PlainCommand, rich_help_panel=panel)(verb)
app.add_typer(datasets, name="datasets", rich_help_panel="Data")
app.add_typer(train, name="train", rich_help_panel="Learn")
app.add_typer(chaos, name="chaos", rich_help_panel="Share")
app.add_typer(submit, name="submit", rich_help_panel="Share")
app.add_typer(prices, name="prices", rich_help_panel="Tools")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"costgym {__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A simulated tool world, priced and failing like real APIs, for cost-aware agents."""


def main() -> None:
    """Entry point of the command `costgym`."""
    app()
