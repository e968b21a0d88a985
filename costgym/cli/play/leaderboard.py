"""`costgym leaderboard`: rank agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...simulators.errors import ConfigError
from ..options import (
    Batch,
    BudgetText,
    Cache,
    Data,
    Documents,
    EngineName,
    ExperienceText,
    Grading,
    JsonFile,
    Model,
    Prices,
    Quiet,
    RayAddress,
    ScenarioName,
    Seed,
    SpendLimit,
    Split,
    StoreUrl,
    keep_replies,
)
from ..output import Progress, check_store, console, names_in, print_list, save_run, workers
from ..players import make_spending


def leaderboard(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run; the same folder continues it.")] = Path(
        "leaderboard"
    ),
    suite: Annotated[str, typer.Option("--suite", help="What to run; `list` says which there are.")] = "quick",
    release: Annotated[
        str | None,
        typer.Option("--release", metavar="NAME", help="Play this frozen release, or refuse; the results say so."),
    ] = None,
    scenario: ScenarioName = None,
    data: Data = None,
    agents: Annotated[str | None, typer.Option("--agents", metavar="A,B,...", help="By default the suite's.")] = None,
    budgets: BudgetText = None,
    episodes: Annotated[int | None, typer.Option("--episodes", help="Per agent and budget; by default the suite's.")] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="Episodes of each task, for pass^k; by default the suite's.")
    ] = None,
    split: Split = "test",
    grading: Grading = None,
    documents: Documents = None,
    seed: Seed = 0,
    model: Model = "simulated",
    prices: Prices = None,
    cache: Cache = None,
    spend_limit: SpendLimit = None,
    experience: ExperienceText = None,
    batch: Batch = 1,
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Processes; all processors by default. Results do not depend on it.")
    ] = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    alpha: Annotated[
        str | None, typer.Option("--alpha", metavar="A,B,...", help="Suite opencatp: weights of the score; 0.5 by default.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME|FILE", help="Suite opencatp: prices of the tools; v100 by default.")
    ] = None,
    add: Annotated[
        Path | None, typer.Option("--add", metavar="DIR", help="Add a submission to the run in --out, if replay agrees.")
    ] = None,
    rerun: Annotated[
        Path | None, typer.Option("--rerun", metavar="DIR", help="With --add: what `costgym rerun` found of the submission.")
    ] = None,
    play_zoo: Annotated[
        bool, typer.Option("--play-zoo", help="Play the trained agents that ship (extra `train`) instead of replaying them.")
    ] = False,
    store: StoreUrl = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Rank agents under budgets, track by track: a table, leaderboard.json and pages.

    Example: `costgym leaderboard --suite quick --seed 0`

    Example: `costgym leaderboard --agents react,react+btp --budgets price=10,20,40 --out mine`
    """
    from ...experiments.board.suites import SUITES
    from ...experiments.play.files import write_atomically

    if suite == "list":
        print_list([{"suite": each.name, "what": each.description} for each in SUITES.values()], json_file)
        return
    if rerun is not None and add is None:
        raise ConfigError("--rerun", "expected --add with the submission that was run again")
    if store is not None:
        check_store(store)
    if add is not None:
        from ...experiments.leaderboard import add as add_submission

        with workers(engine, jobs, ray_address, default=None) as place:
            rows = add_submission(out, add, None if data is None else str(data), engine=place, rerun=rerun)
        save_run(store, out)
        again = sum(row["verified"] == "rerun" for row in rows)
        typer.echo(f"{len(rows)} rows added, verified by replay" + (f", {again} of them by a rerun" if rerun else ""))
        return
    from ...experiments.board.submissions.submission import ended
    from ...experiments.leaderboard import Leaderboard, add_shipped, make_run_config, run
    from ...experiments.pages.table import print_table
    from ...experiments.play.experience import ExperienceSettings

    keep_replies(cache, model)
    config = make_run_config(
        suite,
        scenario,
        data,
        names_in(agents),
        budgets,
        episodes,
        split,
        grading or "strict",
        seed,
        model,
        prices=prices,
        profile=profile,
        vary=None if alpha is None else {"alpha": _numbers("--alpha", alpha)},
        experience=None if experience is None else ExperienceSettings.parse(experience),
        seeds=seeds,
        documents=documents,
        play_zoo=play_zoo,
    )
    if batch > 1:
        config = config.model_copy(update={"batch": batch})
    if release is not None:
        from ...experiments.board.releases.release import load_release

        load_release(release).check(config)
        config = config.model_copy(update={"release": release})
    with workers(engine, jobs, ray_address, model, None, batch) as place, Progress("playing", quiet) as progress:
        spending = make_spending(model, prices, spend_limit, progress.say)
        board = run(config, out, progress=progress.update, engine=place, spending=spending)
        if agents is None and add_shipped(out, config, place):
            board = Leaderboard(out, ended(out))
    save_run(store, out)
    if json_file is not None:
        write_atomically(json_file, json.dumps(board.document, indent=1, ensure_ascii=False) + "\n")
    if not quiet:
        print_table(board.document, console())
        typer.echo(f"page: {board.page.resolve()}")


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(value) for value in text.split(",")]
    except ValueError:
        raise ConfigError(option, f"expected numbers, got {text!r}; for example 0.3,0.5,0.7") from None
