"""Build a static site from results: ranking, significance, agents, and every episode in detail.

The site is a folder that works from disk, asks nothing of the network and needs no server. The same results give the same
bytes.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from markupsafe import Markup

from costgym.experiments.board.conditions import PASS_RATE, condition_places, grouped, ranking_metric, row_key, seeds_of
from costgym.experiments.board.rows import track_files
from costgym.experiments.board.store.runs import Run, RunEntry, as_written
from costgym.experiments.pages.html import asset
from costgym.experiments.pages.leaderboard_page import CSV, PageContext, csv_of, page_of
from costgym.experiments.pages.opencatp_images import SceneImages
from costgym.experiments.pages.site.data import PIECE, columns, details, put
from costgym.experiments.pages.site.pages import (
    Pairs,
    Results,
    agent_file,
    agent_page,
    compare,
    episode_page,
    episodes_page,
    meta,
    navigation,
    runs_page,
    significance,
    slug,
    title_of,
)
from costgym.experiments.play.metrics import GRADINGS
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.errors import ConfigError
from costgym.simulators.files import finished_folder, json_text, write_atomically

FORMAT = "costgym.site/1"
MARK = "site.json"  # a file that says: this folder is a site and may be replaced by a newer one
_ASSETS = {
    "site.css": ("page.css", "site.css"),
    "site.js": ("site.js",),
    "episodes.js": ("site-episodes.js",),
    "episode.js": ("site-episode.js",),
    "gantt.js": ("site-gantt.js",),
}
_BOARD_POLICY = "default-src 'none'; style-src 'self' file: 'unsafe-inline'; script-src 'self' file: 'unsafe-inline'"

MAX_QUERY_CHARS = 300  # of a query that the list of episodes shows

Progress = Callable[[int, int], None]
Count = Callable[[int], None]  # called with the number of episodes that were written


def build(
    runs: Sequence[Run], out: str | Path, data: str | None = None, most: int | None = None, progress: Progress | None = None
) -> Path:
    """Write the site of one or more runs, in place of an older one, and return its first page; of every entry `most` episodes,
    by default all, can be looked into. Raises ConfigError if there is no run, or `out` holds something else."""
    if not runs:
        raise ConfigError("--store", "holds no run; `costgym leaderboard --store URL` saves one")
    if most is not None and most < 0:
        raise ConfigError("--episodes", f"expected a number of at least 0, got {most}")
    place = Path(out)
    total = sum(_expected(run, most) for run in runs)
    done = 0

    def count(episodes: int) -> None:
        nonlocal done
        done = min(done + episodes, total)
        if progress is not None:
            progress(done, total)

    if place.exists() and not place.is_dir():
        raise ConfigError("--out", f"{place} is a file; choose a folder")
    if place.exists() and any(place.iterdir()) and not (place / MARK).is_file():
        raise ConfigError("--out", f"{place} holds other files; choose an empty folder or an older site")
    with finished_folder(place, replace=True) as draft:
        (draft / "assets").mkdir()
        for name, parts in _ASSETS.items():
            write_atomically(draft / "assets" / name, "\n".join(asset(each) for each in parts) + "\n")
        listed = []
        for run in runs:
            folder = draft if len(runs) == 1 else draft / slug(title_of(run), run.id)
            folder.mkdir(exist_ok=True)
            with as_written(run.folder or Path()):
                _write_run(run, folder, len(runs) > 1, data, most, count)
            listed.append((folder.name, run))
        if len(runs) > 1:
            write_atomically(draft / "index.html", runs_page(listed, "assets"))
        about = {"format": FORMAT, "runs": [run.id for run in runs]}
        write_atomically(draft / MARK, json.dumps(about) + "\n")
    return place / "index.html"


def _expected(run: Run, most: int | None) -> int:
    counts = [int(entry.row.get("episodes") or 0) for entry in run.entries if entry.file]
    return sum(count if most is None else min(count, most) for count in counts)


def _write_run(run: Run, folder: Path, several: bool, data: str | None, most: int | None, count: Count) -> None:
    assets = "../assets" if several else "assets"
    (folder / "data").mkdir()
    grading = run.document.get("grading")
    grading = grading if grading in GRADINGS else GRADINGS[0]
    results = _results(run)
    for entry in run.entries:
        put(folder / "data" / f"{entry.id}.js", entry.id, columns(results.get(entry.id, []), grading))
    queries: dict[str, str] = {}
    images = SceneImages()
    detailed = {
        entry.id: _write_details(entry, run.folder, folder / "data", data, most, count, queries, images)
        for entry in run.entries
    }
    scenes = images.encoded()
    for scene, encoded in scenes.items():
        put(folder / "data" / f"{scene}.js", scene, encoded)
    put(folder / "data" / "run.js", "run", meta(run, {entry: shown for entry, (shown, _) in detailed.items()}, grading))
    put(folder / "data" / "queries.js", "queries", queries)
    compared = [(group, _compared(run, group, results, grading)) for group in _by_condition(run)]
    bars = {here: navigation(here, several) for here in ("Ranking", "Episodes", "")}
    for track, file in track_files(run.document).items():
        played = [(group, pairs) for group, pairs in compared if group[0].row.get("track", "") == track]
        write_atomically(folder / file, _board(run, track, played, bars["Ranking"], assets))
    write_atomically(folder / CSV, csv_of(run.document))
    write_atomically(folder / "leaderboard.json", json_text(run.document))
    write_atomically(folder / "episodes.html", episodes_page(run, bars["Episodes"], assets))
    write_atomically(folder / "episode.html", episode_page(run, bars[""], assets, images=bool(scenes)))
    whole = {key: pair for _, pairs in compared for key, pair in pairs.items()}
    for file, own in grouped(chain(*(group for group, _ in compared)), lambda entry: agent_file(entry.row)).items():
        write_atomically(folder / file, agent_page(run, own, results, whole, detailed, bars[""], assets))


def _compared(run: Run, group: Sequence[RunEntry], results: Results, grading: str) -> Pairs:
    """Compare entries that are ranked by a pass, episode by episode; plans have none."""
    document, track = run.document, group[0].row.get("track")
    if ranking_metric(document, "strict", track) != PASS_RATE:
        return {}
    return compare(group, results, grading, int(document.get("seed") or 0), seeds_of(document, track))


def _results(run: Run) -> dict[str, list[EpisodeResult]]:
    found = grouped(run.results(), lambda pair: pair[0])
    return {entry: sorted((r for _, r in pairs), key=lambda result: result.episode) for entry, pairs in found.items()}


def _write_details(
    entry: RunEntry,
    source: Path | None,
    folder: Path,
    data: str | None,
    most: int | None,
    count: Count,
    queries: dict[str, str],
    images: SceneImages,
) -> tuple[int, int]:
    """The detail of an entry's episodes, so many a file; returns how many there are, and with how many replay agreed. Adds the
    tasks' requests to `queries`, by track and task, and what OpenCATP's tools made to `images`."""
    written = agreed = 0
    found: Iterator[dict[str, Any]] = iter(())
    if source is not None and entry.file:
        found = details(source / entry.file, data, most, images)
    while piece := list(islice(found, PIECE)):
        name = f"{entry.id}-{written // PIECE}"
        put(folder / f"{name}.js", name, piece)
        written += len(piece)
        agreed += sum(detail["replayed"] for detail in piece)
        for detail in piece:
            if detail["query"]:
                queries.setdefault(f"{entry.row.get('track', '')} {detail['task']}", detail["query"][:MAX_QUERY_CHARS])
        count(len(piece))
    return written, agreed


def _by_condition(run: Run) -> list[list[RunEntry]]:
    """Group entries by their condition; within one, the best first, as the document has them."""
    places = condition_places(run.document)

    def place(entry: RunEntry) -> int:
        return places.get(row_key(entry.row, run.document), len(places))

    return [list(group) for _, group in groupby(sorted(run.entries, key=place), key=place)]


def _board(run: Run, track: str, conditions: Sequence[tuple[Sequence[RunEntry], Pairs]], bar: Markup, assets: str) -> str:
    """Render the page of a run's track: the leaderboard's own page with the site's sections in it."""
    rows = [{**entry.row, "verified": (entry.row.get("verified") or entry.verified) or None} for entry in run.entries]
    document = {**run.document, "rows": rows}
    context = PageContext(
        policy=_BOARD_POLICY,
        styles=(f"{assets}/site.css",),
        bar=bar,
        sections=significance(run, conditions),
        agent_page=agent_file,
    )
    return page_of(document, context, track)
