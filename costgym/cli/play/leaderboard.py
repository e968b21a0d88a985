"""`costgym leaderboard`: rank agents."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from costgym.cli.options import JsonFile, JudgedOptions, ManyWorkerOptions, Quiet, StoreUrl, requests_and_cost
from costgym.cli.output import Progress, console, print_list, prints, save_json, save_run
from costgym.experiments.board.run_options import RunOptions
from costgym.simulators.bounds import Number, Settings, argument, option
from costgym.simulators.errors import ConfigError, check_known

if TYPE_CHECKING:
    from costgym.experiments.board.run_config import RunConfig
    from costgym.experiments.leaderboard import Leaderboard

FORMATS = ("table", "tsv", "json", "markdown")


class ReportOptions(Settings):
    """The options about what is shown of a board."""

    heading: ClassVar[str] = "Table and pages"
    format: Annotated[str, option("table; or tsv, json or markdown, for a pipe.")] = "table"
    wide: Annotated[bool, option("All columns, however narrow the terminal is.", "", "--wide")] = False
    detail: Annotated[Number, option("Episodes of each row that the pages open.")] = 20


def leaderboard(
    options: RunOptions,
    model: JudgedOptions,
    workers: ManyWorkerOptions,
    shown: ReportOptions,
    out: Annotated[Path, option("Folder of the run; the same folder continues it.", "DIR")] = Path("leaderboard"),
    release: Annotated[str | None, option("Play under this frozen release's terms or refuse; results name it.", "NAME")] = None,
    add: Annotated[Path | None, option("Add a submission to the run in --out, if replay agrees.", "DIR")] = None,
    merge: Annotated[list[Path] | None, option("Join finished runs into the empty folder --out: --merge A B.", "DIR")] = None,
    others: Annotated[list[Path] | None, argument("Further folders to join, after --merge.", "DIR...")] = None,
    store: StoreUrl = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Rank agents under budgets, track by track: a table, leaderboard.json and pages.

    Example: `costgym leaderboard --suite quick --seed 0`

    Example: `costgym leaderboard --agents react,react+btp --budgets price=10,20,40 --out mine`
    """
    from costgym.agents.registry import read_agent_name
    from costgym.experiments.board.suites import SUITES

    check_known("format", shown.format, FORMATS)
    if options.suite == "list":
        print_list([{"suite": suite.name, "what": suite.description} for suite in SUITES.values()], json_file)
        return
    check_known("suite", options.suite, SUITES)
    for name in options.agents or ():
        read_agent_name(name)  # before the modules that play are imported
    if store is not None:
        from costgym.experiments.board.store.store import Store

        Store(store).close()  # a wrong URL is reported before any episode is played
    if others and not merge:
        raise ConfigError("DIR", "expected --merge before the folders to join: costgym leaderboard --merge A B --out joined")
    if merge is not None:
        from costgym.experiments.leaderboard import merge as join

        with Progress("reading episodes", quiet) as progress:
            board = join([*merge, *(others or ())], out, shown.detail, progress.update)
        _report(board, shown, json_file, quiet)
        return
    if add is not None:
        from costgym.experiments.leaderboard import add as add_submission

        with workers.open() as engine:
            data = None if options.data is None else str(options.data)
            rows = add_submission(out, add, data, engine=engine)
        save_run(store, out)
        typer.echo(f"{len(rows)} rows added, verified by replay")
        return
    model.keep_replies(model.judge)
    board = _play(_config(options, release, model.batch), options, model, workers, out, shown.wide, quiet)
    if shown.detail:
        from costgym.experiments.leaderboard import show_episodes

        data = None if options.data is None else str(options.data)
        with Progress("reading episodes", quiet) as progress:
            show_episodes(out, shown.detail, data, progress.update)
    save_run(store, out)
    for notice in board.notices:
        typer.echo(f"note: {notice}", err=True)
    _report(board, shown, json_file, quiet)


def _config(options: RunOptions, release: str | None, batch: int) -> "RunConfig":
    """Return the options to play with: those given, under the terms of a release where one is named."""
    from costgym.experiments.leaderboard import make_run_config

    batched = {"batch": batch} if batch > 1 else {}
    if release is None:
        return make_run_config(options).model_copy(update=batched)
    from costgym.experiments.board.release import load_release

    terms = load_release(release)
    if options.world is None:
        options = options.model_copy(update={"world": terms.world})
    config = make_run_config(options).model_copy(update=batched)
    terms.check(config)
    return config.model_copy(update={"release": release})


def _play(
    config: "RunConfig",
    options: RunOptions,
    model: JudgedOptions,
    workers: ManyWorkerOptions,
    out: Path,
    wide: bool,
    quiet: bool,
) -> "Leaderboard":
    from costgym.experiments.leaderboard import JudgeOptions, run

    with workers.open(options.model, model.batch, model.concurrency) as engine, Progress("playing", quiet) as progress:
        spending = model.spending(progress.say, model.judge)
        if spending is not None:
            progress.state = partial(requests_and_cost, spending)
        judge = None
        if model.judge is not None:
            judge = JudgeOptions(model.judge, model.judge_prices, model.spend_limit, model.concurrency)
        return run(
            config,
            out,
            progress=_with_first_track(config.only_first.episodes, out, progress, wide),
            engine=engine,
            spending=spending,
            judge=judge,
            recorded=options.agents is None,
        )


def _report(board: "Leaderboard", shown: ReportOptions, json_file: Path | None, quiet: bool) -> None:
    from costgym.experiments.pages.table import print_table, text_of

    save_json(json_file, board.document)
    if prints(quiet, json_file):
        if shown.format == "table":
            print_table(board.document, console(), shown.wide)
        else:
            typer.echo(text_of(board.document, shown.format, shown.wide), nl=False)
        typer.echo(f"page: {board.page.resolve()}", err=shown.format != "table")


def _with_first_track(wanted: int, out: Path, progress: Progress, wide: bool) -> Callable[[int, int], None]:
    """The bar's update; on a terminal, the rows of the first track, of `wanted` episodes, stand above the bar while the other
    tracks are played."""
    from costgym.experiments.board.tracks import TRACKS
    from costgym.experiments.leaderboard import first_track
    from costgym.experiments.pages.table import print_table

    waiting = progress.screen is not None

    def update(done: int, total: int) -> None:
        nonlocal waiting
        progress.update(done, total)
        if waiting and wanted <= done < total:
            waiting = False
            if (document := first_track(out)) is not None:
                progress.screen.print(f"\n{TRACKS[document['tracks'][0]['name']].title}, while the other tracks are played")
                print_table(document, progress.screen, wide)

    return update
