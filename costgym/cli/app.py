"""The command line: `costgym VERB`. A verb is a module of the folder that is named like its panel in the help."""

import os
import threading
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from costgym.cli.bridge import Verbs
from costgym.cli.data.calibrate import calibrate
from costgym.cli.data.datasets import datasets
from costgym.cli.data.experience import experience
from costgym.cli.data.records import collect, export, verify
from costgym.cli.data.twin import twin
from costgym.cli.learn.baselines import baselines
from costgym.cli.learn.models import models
from costgym.cli.learn.reproduce import reproduce
from costgym.cli.learn.train import app as train
from costgym.cli.output import shown
from costgym.cli.play.judge_agreement import judge_agreement
from costgym.cli.play.leaderboard import leaderboard
from costgym.cli.play.play import play
from costgym.cli.play.rank import rank
from costgym.cli.play.run import run
from costgym.cli.play.show import show
from costgym.cli.share.proxy import proxy
from costgym.cli.share.serve import serve
from costgym.cli.share.site import site
from costgym.cli.share.submit import submit
from costgym.cli.tools.forge import forge
from costgym.cli.tools.lists import agents, envs, scenarios
from costgym.cli.tools.opencatp import opencatp
from costgym.cli.tools.prices import prices
from costgym.cli.tools.selftest import selftest
from costgym.cli.tools.speed import bench, warm
from costgym.simulators import __version__
from costgym.simulators.errors import CostGymError, SpendLimitReached


class Reporting(TyperGroup):
    """All verbs: an error of costgym, or of the file system, is one line on standard error and exit status 2; a run that
    stopped at its spend limit has exit status 3."""

    def invoke(self, ctx: Any) -> Any:
        before, threading.excepthook = threading.excepthook, _report_thread
        try:
            return super().invoke(ctx)
        except CostGymError as error:
            typer.echo(shown(f"error: {error}"), err=True)
            raise typer.Exit(3 if isinstance(error, SpendLimitReached) else 2) from None
        except BrokenPipeError:
            raise  # the reader has closed the pipe
        except UnicodeEncodeError as error:
            half = f"U+{ord(error.object[error.start]):04X}"
            typer.echo(f"error: a text contains a lone surrogate ({half}); write the whole character", err=True)
            raise typer.Exit(2) from None
        except ValueError as error:
            if "null byte" not in str(error):
                raise
            typer.echo("error: the name of a file contains a null byte", err=True)
            raise typer.Exit(2) from None
        except OSError as error:
            place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            typer.echo(shown(f"error: {place}{error.strerror or error}"), err=True)
            raise typer.Exit(2) from None
        finally:
            threading.excepthook = before


def _report_thread(failed: threading.ExceptHookArgs) -> None:
    """A library's own thread that cannot write, such as TensorBoard's, is one line too."""
    if not isinstance(failed.exc_value, OSError):
        threading.__excepthook__(failed)
        return
    typer.echo(f"warning: {failed.exc_value}", err=True)


app = Verbs(name="costgym", cls=Reporting, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)

PANELS: dict[str, dict[str, Any]] = {
    "Play": {"leaderboard": leaderboard, "rank": rank, "run": run, "show": show, "play": play, "judge-agreement": judge_agreement},
    "Data": {
        "collect": collect, "verify": verify, "export": export, "experience": experience, "calibrate": calibrate,
        "datasets": datasets, "twin": twin,
    },
    "Learn": {"baselines": baselines, "reproduce": reproduce, "train": train, "models": models},
    "Share": {"site": site, "serve": serve, "proxy": proxy, "submit": submit},
    "Tools": {
        "envs": envs, "agents": agents, "scenarios": scenarios, "selftest": selftest, "forge": forge,
        "bench": bench, "warm": warm, "opencatp": opencatp, "prices": prices,
    },
}  # fmt: skip
for panel, verbs in PANELS.items():
    for name, verb in verbs.items():
        if isinstance(verb, typer.Typer):
            app.add_typer(verb, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(verb)


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
