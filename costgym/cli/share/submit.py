"""`costgym submit`: pack, validate and sign entries of a leaderboard, and judge them in epochs."""

from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import EXISTS, JsonFile, Quiet, WorkerOptions
from costgym.cli.output import prints, save_json
from costgym.cli.verbs import Verbs
from costgym.experiments.board.epochs.options import EpochOptions
from costgym.experiments.board.run_options import RunOptions
from costgym.experiments.board.submissions.manifest import About
from costgym.experiments.play.options import Data
from costgym.simulators.bounds import Count, argument, option
from costgym.simulators.errors import ConfigError

submit = Verbs(help="Leaderboard submissions: folders that anyone can verify by replay.")


@submit.command()
def pack(
    run: Annotated[Path, EXISTS, argument("Folder of a finished leaderboard run.")],
    out: Annotated[Path, option("Folder of the submission.", "DIR")],
    about: About,
    agents: Annotated[tuple[str, ...] | None, option("Only these.", "A,B,...")] = None,
    files: Annotated[Path | None, option("Folder with your agent files, for a rerun; they are copied.", "DIR")] = None,
) -> None:
    """Make a submission from a run.

    Example: `costgym submit pack leaderboard --out mine --name ours --contact us@example.org`
    """
    from costgym.experiments.board.submissions.submission import pack as make

    typer.echo(str(make(run, out, agents=agents, files=files, **dict(about))))


@submit.command()
def validate(
    folder: Annotated[Path, EXISTS, argument("Folder of the submission.")], workers: WorkerOptions, data: Data = None
) -> None:
    """Check a submission: its schema, its files, every episode by replay, the rows it claims.

    Example: `costgym submit validate mine`
    """
    from costgym.experiments.board.submissions.submission import validate as check
    from costgym.experiments.play.metric_registry import plain

    with workers.open() as engine:
        verdict = check(folder, data, engine=engine)
    for problem in verdict.problems[:20]:
        typer.echo(plain(problem), err=True)
    typer.echo(f"{folder}: {verdict.episodes} episodes verified, {len(verdict.problems)} problems")
    if verdict.problems:
        raise typer.Exit(1)


@submit.command()
def sign(
    folder: Annotated[Path, EXISTS, argument("Folder of the submission.")],
    epoch: Annotated[Path, option("The epoch's public file, epoch.json.", "FILE")],
    key: Annotated[Path, option("Your ssh key; its public part is registered with the epoch's judge.", "FILE")],
) -> None:
    """Sign a submission for an epoch, by `ssh-keygen`; a change of any byte needs another signature.

    Example: `costgym submit sign mine --epoch epoch.json --key ~/.ssh/id_ed25519`
    """
    from costgym.experiments.board.epochs.judging import sign_entry

    typer.echo(str(sign_entry(folder, epoch, key)))


@submit.command()
def epoch(
    out: Annotated[Path, option("Folder of the epoch; keep it, since it holds the secret.", "DIR")],
    options: RunOptions,
    terms: EpochOptions,
    keys: Annotated[
        Path | None, option("Who may enter: a line for each, as in a .pub file. For an epoch that exists: who else.", "FILE")
    ] = None,
    reveal: Annotated[
        Path | None, option("Publish the secret, and all that was played, on this board of `submit rerun`.", "BOARD")
    ] = None,
) -> None:
    """Begin an epoch, in which all entries are played on the same secret tasks, worlds and seeds, or publish its secret.

    epoch.json in the folder is public, and holds the hash of epoch.secret.

    Example: `costgym submit epoch --out spring --name spring --begin 2026-12-01 --end 2026-12-31 --keys keys.txt`

    Example: `costgym submit epoch --out spring --reveal board`
    """
    from costgym.experiments.board.epochs.epoch import PUBLIC, create, register
    from costgym.experiments.board.epochs.judging import reveal as publish
    from costgym.experiments.pages.leaderboard_page import pages_of
    from costgym.experiments.play.execution.engine import Local, default_jobs

    if reveal is not None:
        publish(out, reveal, pages_of, Local(default_jobs()))
        typer.echo(f"{reveal}: the secret is published; `costgym verify {reveal}` replays everything")
    elif (out / PUBLIC).exists():
        if keys is None:
            raise ConfigError("--out", f"{out} holds an epoch; give --keys to register others, or --reveal to end it")
        typer.echo(f"{len(register(out, keys).identities)} identities are registered")
    else:
        made = create(out, options, keys, terms)
        typer.echo(f"{out / PUBLIC}: {', '.join(track.name for track in made.run.tracks)}; SHA-256 {made.secret_sha256}")


@submit.command()
def rerun(
    entries: Annotated[list[Path], argument("Folders of submissions, or folders of such folders.", "ENTRY...")],
    epoch: Annotated[Path, option("The epoch's folder, with its secret.", "DIR")],
    workers: WorkerOptions,
    out: Annotated[Path, option("The epoch's board: verdicts, table and pages.", "DIR")] = Path("board"),
    key: Annotated[Path | None, option("Your ssh key, for an epoch whose verdicts are signed.", "FILE")] = None,
    minutes: Annotated[Count, option("Minutes for an entry; what is left then of its own code's episodes fails.")] = 120,
    sandbox: Annotated[str, option("auto, bubblewrap or none; without one, entries with their own code wait.")] = "auto",
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Play submissions' agents in the secret worlds of an epoch, and rank them by what was played there.

    Agents' own code runs in a sandbox: it reads the interpreter, costgym and its own files, and nothing else; it has no
    network, no child processes, and limits on memory, files and time. The command may be killed and run again: an entry that
    has its verdict in the chain is not played twice.

    Example: `costgym submit rerun entries --epoch spring --out board`
    """
    from costgym.experiments.board.epochs.judging import judge
    from costgym.experiments.board.reruns.sandbox import choose, why_not
    from costgym.experiments.pages.leaderboard_page import pages_of

    if choose(sandbox) == "none":
        typer.echo(f"warning: no sandbox, entries with their own code wait: {why_not() or '--sandbox none'}", err=True)
    say = typer.echo if prints(quiet, json_file) else lambda text: None
    with workers.open() as engine:
        verdicts = judge(entries, epoch, out, key, minutes, sandbox, pages_of, say, engine)
    save_json(json_file, [verdict.model_dump(mode="json") for verdict in verdicts])
    if not all(verdict.accepted for verdict in verdicts):
        raise typer.Exit(1)
