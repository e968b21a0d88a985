"""`costgym forge`: worlds out of real specifications."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from costgym.cli.options import JsonFile, Quiet, WorkerOptions
from costgym.cli.output import prints, save_json
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import Settings, argument, option
from costgym.simulators.errors import ConfigError

MAX_SHOWN = 8
SOURCES = (
    "Files, folders or archives with OpenAPI documents, MCP tools/list, function schemas, botocore or Google discovery "
    "documents, or Python functions; registry:NAME@VERSION; or 'mcp:COMMAND', which is started and asked."
)


class Recorded(Settings):
    """What a world's tasks are made of where they are one's own: a log, and how it is read, or questions."""

    traces: Annotated[
        Path | None, option("A log with results: its users' words become queries, its results answers.", "LOG")
    ] = None
    no_anonymise: Annotated[bool, option("Keep the personal details of traces.", "", "--no-anonymise")] = False
    where: Annotated[dict[str, str] | None, option("Traces: only records with this value; repeatable.", "FIELD=VALUE")] = None
    queries: Annotated[
        Path | None, option("One's own questions with expected calls, as tasks: YAML, JSON, or JSON one a line.", "FILE")
    ] = None


def forge(
    sources: Annotated[list[str] | None, argument(SOURCES, "SOURCE...")] = None,
    *,
    out: Annotated[Path, option("A YAML file for one world, or a folder for many.", "FILE|FOLDER")],
    workers: WorkerOptions,
    recorded: Recorded,
    worlds: Annotated[Annotated[int, Field(ge=1)] | None, option("Number of worlds, in a folder with splits.")] = None,
    seed: Seed = 0,
    profile: Annotated[
        Path | None, option("Rates, latencies and prices from logged calls, as `calibrate` fits them.", "LOG")
    ] = None,
    own: Annotated[
        bool, option("One's own tools: no resellers, whole descriptions; no price and no failure that no log has.", "", "--own")
    ] = False,
    page: Annotated[Path | None, option("Also write a page of the world: tools, data flow, tasks, prices.", "FILE")] = None,
    cache: Annotated[Path, option("Folder in which archives of packages are kept.", "DIR")] = Path("forge-packages"),
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Make worlds out of API documents: operations become tools, and the data that flows between them becomes tasks.

    Example: `costgym forge my-openapi.yaml --out mine.yaml`
    """
    from costgym.experiments.fit.forge.forge import forge_folder, measured

    single = out.suffix in (".yaml", ".yml")
    if single and worlds is not None:
        raise ConfigError("--worlds", f"several worlds need a folder, and {out} is a file; leave out its ending")
    if not single and worlds is None:
        raise ConfigError("--out", f"expected a name ending in .yaml for one world, or --worlds N for a folder, got {out}")
    if recorded.traces is not None and not single:
        raise ConfigError("--out", f"expected a name ending in .yaml for the world of traces, got {out}")
    if recorded.traces is not None and recorded.queries is None:
        _traces(recorded.traces, recorded, sources or [], out, cache, page, json_file, quiet)
        return
    if not sources:
        raise ConfigError("SOURCE", "expected a document, a folder, an archive, registry:NAME@VERSION or mcp:COMMAND")
    if own and not single:
        raise ConfigError("--own", "makes one world of one's own tools; leave it out, or make one world with --out FILE.yaml")
    if page is not None and not single:
        raise ConfigError("--page", "shows one world; leave it out, or make one world with --out FILE.yaml")
    if recorded.queries is not None:
        for name, is_set in (("--worlds", worlds is not None), ("--page", page is not None), ("--traces", recorded.traces)):
            if is_set:
                raise ConfigError("--queries", f"makes one world of one's own questions; leave out {name}")
    profiles, settings = ((), None) if profile is None else measured(profile)
    if recorded.queries is not None:
        _queries(recorded.queries, sources, out, cache, profiles, settings, json_file, quiet)
        return
    if single:
        report = _one(sources, out, seed, cache, profiles, settings, page, own)
    else:
        with workers.open() as pool:
            steps = forge_folder(sources, out, worlds or 1, seed, pool, cache, profiles, settings)
            report = list(_shown(steps, quiet))[-1]["report"]
    save_json(json_file, report)
    if prints(quiet, json_file):
        _print(report, out, page)


def _traces(
    log: Path, recorded: Recorded, sources: list[str], out: Path, cache: Path, page: Path | None, json_file: Path | None,
    quiet: bool,
) -> None:  # fmt: skip
    from costgym.cli.data.calibrate import print_reading
    from costgym.experiments.fit.forge.anonymise import counted
    from costgym.experiments.fit.forge.traces import forge_traces
    from costgym.simulators.files import make_folder, write_atomically

    made, report = forge_traces(log, sources, out.stem, cache, not recorded.no_anonymise, where=recorded.where)
    make_folder(out.parent)
    made.write(out)
    if page is not None:
        from costgym.experiments.pages.world_pages import calibration_page

        make_folder(page.parent, "--page")
        write_atomically(page, calibration_page(made))
    save_json(json_file, report)
    if not prints(quiet, json_file):
        return
    typer.echo(f"{report['tasks']} tasks with the words of the log's users, {len(made.report['tools'])} tools")
    for reason, count in report["left_out"].items():
        typer.echo(f"left out: {count} episodes, {reason}")
    print_reading(report["records"])
    if not recorded.no_anonymise:
        spoken = counted(report["replaced"])
        typer.echo(f"replaced: {spoken}; a pattern or a list of names may miss some, so read the file before you share it")
    typer.echo(f"scenario: {out}" + (f"\npage: {page}" if page is not None else ""))


def _queries(
    queries: Path, sources: list[str], out: Path, cache: Path, profiles: Any, settings: Any, json_file: Path | None, quiet: bool
) -> None:
    from costgym.experiments.fit.forge.expected import forge_queries
    from costgym.experiments.fit.forge.traces import operations_of
    from costgym.simulators.files import make_folder, write_atomically, yaml_text

    made, report = forge_queries(queries, list(operations_of(sources, cache)), out.stem, profiles, settings)
    make_folder(out.parent)
    write_atomically(out, yaml_text(json.loads(json.dumps(made))))
    save_json(json_file, report)
    if not prints(quiet, json_file):
        return
    typer.echo(f"{report['tasks']} tasks of your own, {report['tools']} tools, {report['calls']} expected calls")
    if report["made_up"]:
        typer.echo(f"made up: the results of {report['made_up']} calls, in the form that their documents describe")
    if report["unstated"]:
        typer.echo(f"not checked: {len(report['unstated'])} arguments that nothing states, first {report['unstated'][0]}")
    typer.echo(f"scenario: {out}")


def _one(
    sources: list[str], out: Path, seed: int, cache: Path, profiles: Any, settings: Any, page: Path | None, own: bool
) -> dict[str, Any]:
    from costgym.experiments.fit.forge.forge import forge as make
    from costgym.simulators.files import make_folder, write_atomically, yaml_text

    made, tally = make(sources, out.stem, seed, cache, profiles, settings, own)
    make_folder(out.parent)
    write_atomically(out, yaml_text(json.loads(json.dumps(made))))
    if page is not None:
        from costgym.experiments.pages.world_pages import world_page

        make_folder(page.parent, "--page")
        write_atomically(page, world_page(made))
    return tally.report()


def _shown(steps: Iterable[dict[str, Any]], quiet: bool) -> Iterable[dict[str, Any]]:
    """Show the progress of steps on standard error."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), disable=quiet, transient=True) as progress:
        bars = {"read": progress.add_task("documents", total=None), "made": progress.add_task("worlds", total=None)}
        for step in steps:
            for name, bar in bars.items():
                if name in step:
                    progress.update(bar, completed=step[name], total=step["of"])
            yield step


def _print(report: dict[str, Any], out: Path, page: Path | None) -> None:
    share = report["used"] / report["operations"] if report["operations"] else 0.0
    others = "; the others:" if report["unused"] else ""
    typer.echo(
        f"{report['documents']} documents, {report['operations']:,} operations: {report['used']:,} can be used ({share:.1%}), "
        f"{report['used'] - report['written']:,} to read and {report['written']:,} to write{others}"
    )
    for reason, count in report["unused"].items():
        typer.echo(f"  {count:>7,}  {reason}")
    for skipped in report["skipped"][:MAX_SHOWN]:
        typer.echo(f"skipped: {skipped['place']}: {skipped['reason']}")
    if len(report["skipped"]) > MAX_SHOWN:
        typer.echo(f"skipped: {len(report['skipped']) - MAX_SHOWN} more; --json FILE lists them")
    if "splits" in report:
        typer.echo(f"digest of the documents: {report['digest']}")
        typer.echo("worlds: " + ", ".join(f"{count:,} in {out / split}" for split, count in report["splits"].items()))
        for reason, count in report["rejected"].items():
            typer.echo(f"composed again: {count}, {reason}")
    else:
        typer.echo(f"scenario: {out}")
    if page is not None:
        typer.echo(f"page: {page}")
