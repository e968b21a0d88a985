"""The command line: `costgym VERB`. A verb is a module of the folder that is named like its heading in the help."""

import os
import threading
from typing import Annotated, Any, ClassVar

import typer

from costgym.cli.verbs import Entry, LazyGroup, Verbs
from costgym.simulators import __version__
from costgym.simulators.errors import CostGymError, SpendLimitReached

UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # of Typer's parser, which it does not export


class Costgym(LazyGroup):
    """All verbs: an error of costgym, of the file system or in a command line is one line on standard error and exit status 2;
    a run that stopped at its spend limit has exit status 3."""

    entries: ClassVar = {
        "leaderboard": Entry("Play", "Rank agents under budgets.", "costgym.cli.play.leaderboard:leaderboard"),
        "rank": Entry("Play", "Rank any command beside our agents, metered.", "costgym.cli.play.rank:rank"),
        "run": Entry("Play", "Play one agent in one environment and print its figures.", "costgym.cli.play.run:run"),
        "show": Entry("Play", "Show an episode: its calls over time, messages, costs and grade.", "costgym.cli.play.show:show"),
        "play": Entry("Play", "Play an episode yourself.", "costgym.cli.play.play:play"),
        "cost": Entry("Play", "Forecast what agents cost with models.", "costgym.cli.play.cost:cost"),
        "gate": Entry("Play", "Does a change make an agent dearer or worse?", "costgym.cli.play.gate:gate"),
        "judge-agreement": Entry(
            "Play", "Measure a model that judges answers.", "costgym.cli.play.judge_agreement:judge_agreement"
        ),
        "collect": Entry("Data", "Record an agent's episodes.", "costgym.cli.data.records:collect"),
        "verify": Entry("Data", "Replay recorded episodes and compare every figure.", "costgym.cli.data.records:verify"),
        "export": Entry("Data", "Write recorded trajectories in another format.", "costgym.cli.data.records:export"),
        "experience": Entry("Data", "Record the past uses that BTP plans from.", "costgym.cli.data.experience:experience"),
        "calibrate": Entry("Data", "Fit a scenario to logged calls.", "costgym.cli.data.calibrate:calibrate"),
        "datasets": Entry("Data", "List and check datasets, and build the named ones.", "costgym.cli.data.datasets:datasets"),
        "twin": Entry("Data", "Fit the simulated model to recorded episodes.", "costgym.cli.data.twin:twin"),
        "baselines": Entry("Learn", "Train and measure the baselines.", "costgym.cli.learn.baselines:baselines"),
        "reproduce": Entry("Learn", "Reproduce a paper's table.", "costgym.cli.learn.reproduce:reproduce"),
        "train": Entry("Learn", "Train a policy.", "costgym.cli.learn.train:app"),
        "models": Entry("Learn", "Published language models, from Python packages.", "costgym.cli.learn.models:models"),
        "serve": Entry("Share", "Serve sessions over OpenEnv's messages and over MCP.", "costgym.cli.share.serve:serve"),
        "proxy": Entry("Share", "Run real tools under the world's luck.", "costgym.cli.share.proxy:proxy"),
        "submit": Entry("Share", "Leaderboard submissions, verified by replay.", "costgym.cli.share.submit:submit"),
        "doctor": Entry("Tools", "Ask a model server which settings it needs.", "costgym.cli.tools.doctor:doctor"),
        "envs": Entry("Tools", "List the environments.", "costgym.cli.tools.lists:envs"),
        "agents": Entry("Tools", "List the agents by their leaderboard track.", "costgym.cli.tools.lists:agents"),
        "scenarios": Entry("Tools", "List the scenarios that come with the package.", "costgym.cli.tools.lists:scenarios"),
        "forge": Entry("Tools", "Make worlds out of API documents.", "costgym.cli.tools.forge:forge"),
        "bench": Entry("Tools", "Measure steps per second.", "costgym.cli.tools.speed:bench"),
        "warm": Entry("Tools", "Compile everything in advance.", "costgym.cli.tools.speed:warm"),
        "opencatp": Entry("Tools", "Execute and measure the vision tools of OpenCATP.", "costgym.cli.tools.opencatp:opencatp"),
        "prices": Entry("Tools", "Price tables of language models' tokens.", "costgym.cli.tools.prices:prices"),
    }

    def invoke(self, ctx: Any) -> Any:
        before, threading.excepthook = threading.excepthook, _report_thread
        try:
            return super().invoke(ctx)
        except UsageError as error:
            at: Any = error
            text = str(at.format_message()).rstrip(".").replace(". Did you mean", "; did you mean")
            help_of = at.ctx.command_path if at.ctx else ctx.command_path
            _fail(f"{text[:1].lower()}{text[1:]}{' See' if text.endswith('?') else '; see'} `{help_of} --help`")
        except CostGymError as error:
            _fail(str(error), 3 if isinstance(error, SpendLimitReached) else 2)
        except BrokenPipeError:
            raise  # the reader has closed the pipe
        except UnicodeEncodeError as error:
            half = f"U+{ord(error.object[error.start]):04X}"
            _fail(f"a text contains a lone surrogate ({half}); write the whole character")
        except ValueError as error:
            if "null byte" not in str(error):
                raise
            _fail("the name of a file contains a null byte")
        except OSError as error:
            name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            _fail(f"{name}{error.strerror or error}")
        finally:
            threading.excepthook = before


def _fail(problem: str, status: int = 2) -> None:
    from costgym.cli.output import harmless

    typer.echo(harmless(f"error: {problem}"), err=True)
    raise typer.Exit(status) from None


def _report_thread(failed: threading.ExceptHookArgs) -> None:
    """A library's own thread that cannot write, such as TensorBoard's, is one line too."""
    if not isinstance(failed.exc_value, OSError):
        threading.__excepthook__(failed)
        return
    typer.echo(f"warning: {failed.exc_value}", err=True)


app = Verbs(
    name="costgym",
    cls=Costgym,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
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
