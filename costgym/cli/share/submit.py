"""`costgym submit`: pack, validate and rerun leaderboard submissions."""

from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import JsonFile, Quiet, WorkerOptions
from costgym.cli.output import Progress, save_json
from costgym.cli.verbs import Verbs
from costgym.experiments.board.reruns.configuration import QueueOptions
from costgym.experiments.board.submissions.manifest import About
from costgym.experiments.play.options import Data
from costgym.simulators.bounds import Count, argument, option
from costgym.simulators.errors import ConfigError

submit = Verbs(help="Leaderboard submissions: folders that anyone can verify by replay.")


@submit.command()
def pack(
    run: Annotated[Path, argument("Folder of a finished leaderboard run.")],
    out: Annotated[Path, option("Folder of the submission.", "DIR")],
    about: About,
    agents: Annotated[tuple[str, ...] | None, option("Only these.", "A,B,...")] = None,
    files: Annotated[Path | None, option("Folder with your agent files, for a rerun; they are copied.", "DIR")] = None,
) -> None:
    """Make a submission from a run.

    Example: `costgym submit pack leaderboard --out mine --name ours --contact us@example.org`
    """
    from costgym.experiments.board.submissions.submission import pack as make
    from costgym.experiments.board.submissions.submission import unconfirmable

    typer.echo(str(make(run, out, agents=agents, files=files, **dict(about))))
    for few in unconfirmable(run, out):
        typer.echo(f"note: {few}; a rerun can still refute a claim, and its row then ranks by the rerun", err=True)


@submit.command()
def validate(folder: Annotated[Path, argument("Folder of the submission.")], place: WorkerOptions, data: Data = None) -> None:
    """Check a submission: its schema, its files, every episode by replay, the rows it claims.

    Example: `costgym submit validate mine`
    """
    from costgym.experiments.board.submissions.submission import validate as check
    from costgym.experiments.play.metric_registry import plain

    with place.open() as engine:
        verdict = check(folder, data, engine=engine)
    for problem in verdict.problems[:20]:
        typer.echo(plain(problem), err=True)
    typer.echo(f"{folder}: {verdict.episodes} episodes verified, {len(verdict.problems)} problems")
    if verdict.problems:
        raise typer.Exit(1)


@submit.command()
def rerun(
    waiting: QueueOptions,
    submission: Annotated[Path | None, argument("The submission's folder.")] = None,
    secret_seed: Annotated[Path | None, option("The secret; - reads it from standard input.", "FILE")] = None,
    new_secret: Annotated[Path | None, option("Draw a secret, print the hash to publish, and stop.", "FILE")] = None,
    commitment: Annotated[str | None, option("The hash that was published.", "HASH")] = None,
    code: Annotated[Path | None, option("Folder with your agent files.", "DIR")] = None,
    episodes: Annotated[Count | None, option("Episodes of every row; by default as many as were submitted.")] = None,
    data: Annotated[
        Path | None, option("Plans: an outcome table of `opencatp build-table` that nobody else has.", "FILE")
    ] = None,
    sandbox: Annotated[
        str, option("auto, bubblewrap or none; without one, rows with their own code do not count as rerun.")
    ] = "auto",
    out: Annotated[Path, option("Folder of the rerun; it is verified like any run.", "DIR")] = Path("rerun"),
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Rerun a submission's agents on secret seeds, each in a process without a network and without the world.

    Generated worlds are generated again from the secret. Nothing that reveals the seed or the world is written before the last
    of those processes has ended. In the sandbox they read the interpreter, costgym and the agent's own files, and nothing else;
    they have no network, no child processes, and limits on memory, files and processor time.

    With --queue, every entry that waits in a folder is judged once, on a secret derived from the given one. Verdicts in words
    are kept in a folder of yours, and no file among the entries is trusted. The command may be killed and run again.

    Example: `costgym submit rerun theirs --secret-seed secret.txt --commitment 9f86d081...`
    """
    from costgym.experiments.board.reruns.rerun import new_secret as draw
    from costgym.experiments.board.reruns.rerun import rerun as run_again
    from costgym.experiments.board.reruns.sandbox import choose, why_not
    from costgym.experiments.pages.leaderboard_page import pages_of
    from costgym.experiments.play.metric_registry import plain

    if new_secret is not None:
        typer.echo(draw(new_secret))
        return
    if waiting.queue is not None:
        _judge(waiting, secret_seed, sandbox, json_file, quiet)
        return
    if submission is None or secret_seed is None:
        raise ConfigError("--secret-seed", "expected a submission and a secret; draw one with --new-secret FILE")
    if choose(sandbox) == "none" and sandbox != "none":
        typer.echo(f"warning: no sandbox, rows with their own code will not count as rerun: {why_not()}", err=True)
    with Progress("rerunning", quiet) as progress:
        about = submission, secret_seed, out, commitment, code, episodes, progress.update, data
        rows = run_again(*about, pages=pages_of, sandbox=sandbox, worlds=waiting.worlds)
    for row in rows:
        limits = ", ".join(f"{name} {value}" for name, value in {**row.settings, **row.budget}.items())
        typer.echo(plain(f"{row.claim:9} {row.track} {row.agent} ({limits}): {row.said()}"))
    save_json(json_file, [{**row.document(), "track": row.track, "agent": row.agent, "budget": row.budget} for row in rows])
    if not all(row.agrees for row in rows):
        raise typer.Exit(1)


def _judge(options: QueueOptions, secret: Path | None, sandbox: str, json_file: Path | None, quiet: bool) -> None:
    from costgym.cli.share.site import site
    from costgym.experiments.board.reruns.queue import judge_queue
    from costgym.experiments.board.reruns.sandbox import choose, why_not
    from costgym.experiments.pages.leaderboard_page import pages_of

    if options.queue is None or options.board is None or secret is None:
        raise ConfigError("--queue", "expected --queue FOLDER, --board DIR and --secret-seed FILE")
    if choose(sandbox) == "none":
        typer.echo(f"warning: no sandbox, entries with their own code keep waiting: {why_not()}", err=True)
    where, bounds = (options.queue, options.board, secret), (options.most, options.minutes, sandbox)
    verdicts = judge_queue(*where, *bounds, pages_of, typer.echo, options.worlds, options.verdicts)
    if options.site is not None:
        site(run=[options.board], out=options.site, episodes=20, quiet=quiet)
    save_json(json_file, {name: verdict.model_dump() for name, verdict in verdicts.items()})
    if not all(verdict.accepted for verdict in verdicts.values()):
        raise typer.Exit(1)
