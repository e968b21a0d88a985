"""A static site from results: ranking, sliders, significance, the papers' tables, agents, and every episode to look into.

The site is a folder that works from disk, asks nothing of the network and needs no server. The same results give the same
bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from ....simulators.errors import ConfigError
from ...files import write_atomically
from ...leaderboard.store.runs import PLANS, Entry, Run
from ...metrics import GRADINGS, EpisodeResult, budget_order
from ..leaderboard_page import PageContext, _template, render
from .data import PIECE, columns, details, put
from .pages import agent_file, agent_page, episode_page, episodes_page, meta, navigation, runs_page, slug, title_of
from .plans import plan_details
from .tables import compare, significance, suite_tables

FORMAT = "costgym.site/1"
MARK = "site.json"
"""A file that says: this folder is a site and may be replaced by a newer one."""
_ASSETS = {
    "site.css": ("page.css", "site.css"),
    "site.js": ("site.js",),
    "board.js": ("site-board.js",),
    "episodes.js": ("site-episodes.js",),
    "episode.js": ("site-episode.js",),
    "gantt.js": ("site-gantt.js",),
}
_BOARD_POLICY = "default-src 'none'; style-src 'self' file: 'unsafe-inline'; script-src 'self' file: 'unsafe-inline'"

Progress = Callable[[int, int], None]


def build(
    runs: Sequence[Run],
    out: str | Path,
    data: str | None = None,
    most: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the site of some runs. It takes the place of an older one at once, when it is whole.

    Args:
        runs: at least one; with several, the first page lists them.
        out: the site's folder: new, empty, or an older site.
        data: folder of a ToolBench scenario, where it lies elsewhere now; its episodes are replayed from it.
        most: episodes of every entry that can be looked into; all by default.
        progress: called with the numbers of finished and of all episodes.

    Returns:
        The first page.

    Raises:
        ConfigError: there is no run, or `out` holds something else.
        DataError: a run's episodes cannot be read.
    """
    if not runs:
        raise ConfigError("--store", "holds no run; `costgym leaderboard --store URL` saves one")
    if most is not None and most < 0:
        raise ConfigError("--episodes", f"expected a number of at least 0, got {most}")
    place = Path(out)
    total = sum(_expected(run, most) for run in runs)
    count = _Count(progress, total)
    with _replacing(place) as draft:
        (draft / "assets").mkdir()
        for name, parts in _ASSETS.items():
            write_atomically(draft / "assets" / name, "\n".join(_template(part) for part in parts) + "\n")
        listed = []
        for run in runs:
            folder = draft if len(runs) == 1 else draft / slug(title_of(run), run.id)
            folder.mkdir(exist_ok=True)
            _write_run(run, folder, "" if len(runs) == 1 else "../", len(runs) > 1, data, most, count)
            listed.append((folder.name, run))
        if len(runs) > 1:
            write_atomically(draft / "index.html", runs_page(listed, "assets"))
        about = {"format": FORMAT, "runs": [run.id for run in runs]}
        write_atomically(draft / MARK, json.dumps(about) + "\n")
    return place / "index.html"


class _Count:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def more(self, episodes: int) -> None:
        self._done += episodes
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


def _expected(run: Run, most: int | None) -> int:
    counts = [int(entry.row.get("episodes") or 0) for entry in run.entries if entry.file]
    return sum(count if most is None else min(count, most) for count in counts)


def _write_run(run: Run, folder: Path, prefix: str, several: bool, data: str | None, most: int | None, count: _Count) -> None:
    assets = f"{prefix}assets"
    (folder / "data").mkdir()
    grading = run.document.get("grading")
    grading = grading if grading in GRADINGS else GRADINGS[0]
    results = _results(run)
    for entry in run.entries:
        put(folder / "data" / f"{entry.id}.js", entry.id, columns(results.get(entry.id, []), grading))
    detailed = {
        entry.id: _write_details(entry, run.folder, run.manifest, folder / "data", data, most, count) for entry in run.entries
    }
    put(folder / "data" / "run.js", "run", meta(run, {entry: shown for entry, (shown, _) in detailed.items()}, grading))
    groups = _by_condition(run.entries)
    seed = int(run.document.get("seed") or 0)
    compared = [{} if "tasks" in group[0].row else compare(group, results, grading, seed) for group in groups]
    bars = {here: navigation(here, prefix, several) for here in ("Ranking", "Episodes", "")}
    write_atomically(folder / "index.html", _board(run, groups, compared, bars["Ranking"], assets))
    write_atomically(folder / "episodes.html", episodes_page(run, bars["Episodes"], assets))
    write_atomically(folder / "episode.html", episode_page(run, bars[""], assets))
    pairs = {key: pair for group in compared for key, pair in group.items()}
    for group in _by_agent(run.entries):
        write_atomically(folder / agent_file(group[0].row), agent_page(run, group, results, pairs, detailed, bars[""], assets))


def _results(run: Run) -> dict[str, list[EpisodeResult]]:
    found: dict[str, list[EpisodeResult]] = {}
    for entry, result in run.results():
        found.setdefault(entry, []).append(result)
    return {entry: sorted(results, key=lambda result: result.episode) for entry, results in found.items()}


def _write_details(
    entry: Entry,
    source: Path | None,
    manifest: Mapping[str, Any],
    folder: Path,
    data: str | None,
    most: int | None,
    count: _Count,
) -> tuple[int, int]:
    """The detail of an entry's episodes, so many a file; returns how many there are, and with how many replay agreed."""
    written = agreed = 0
    found: Iterator[dict[str, Any]] = iter(())
    if source is not None and entry.file == PLANS:
        found = plan_details(source / PLANS, entry.row, manifest, most)
    elif source is not None and entry.file:
        found = details(source / entry.file, data, most)
    while piece := list(islice(found, PIECE)):
        name = f"{entry.id}-{written // PIECE}"
        put(folder / f"{name}.js", name, piece)
        written += len(piece)
        agreed += sum(detail["replayed"] for detail in piece)
        count.more(len(piece))
    return written, agreed


def _place(entry: Entry) -> tuple[Any, ...]:
    """Order of what entries were played under: the tightest budget first."""
    row = entry.row
    return budget_order(row.get("budget") or {}), row.get("alpha", 0.0), row.get("tasks", "") != "sequential"


def _by_condition(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Entries that were played under the same; within one, the best first, as the document has them."""
    return [list(group) for _, group in groupby(sorted(entries, key=_place), key=_place)]


def _by_agent(entries: Iterable[Entry]) -> list[list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(agent_file(entry.row), []).append(entry)
    return [sorted(group, key=_place) for group in groups.values()]


def _board(
    run: Run, groups: Sequence[Sequence[Entry]], compared: Sequence[Mapping[tuple[str, str], Any]], bar: str, assets: str
) -> str:
    """The first page of a run: the leaderboard's own page with the site's sections in it."""
    if run.document.get("suite") == "opencatp":
        from ..learning_curves import curves_section
        from ..opencatp_page import render as render_plans

        linked = render_plans(run.document, curves_section(run.document["rows"])).replace(
            "<body>", f"<body class='plan-board'>{bar}", 1
        )
        return linked.replace("</head>", f"<link rel='stylesheet' href='{assets}/site.css'></head>", 1)
    document = {**run.document, "rows": [{**entry.row, "verified": entry.verified} for entry in run.entries]}
    sections = _SLIDERS + significance(groups, compared) + suite_tables(run, groups)
    around = PageContext(
        policy=_BOARD_POLICY,
        styles=f'\n<link rel="stylesheet" href="{assets}/site.css">',
        bar=f"\n{bar}",
        sections=f"\n{sections}",
        scripts="".join(
            f'\n<script src="{name}"></script>' for name in (f"{assets}/site.js", "data/run.js", f"{assets}/board.js")
        ),
        agent_page=agent_file,
    )
    return render(document, around)


_SLIDERS = (
    '<section aria-labelledby="tighter" id="sliders" hidden><h2 id="tighter">What if the budget were tighter</h2>'
    '<p class="note">Every episode as it was played under the chosen budget, with a pass counted only within the limits '
    "set here. An agent that had known of the tighter limit might have acted otherwise. Intervals are Wilson’s, at 95 %.</p>"
    '<div class="sliders"></div>'
    '<div class="race" role="region" aria-label="Pass rate within the limits set here"></div></section>'
)


@contextmanager
def _replacing(place: Path) -> Iterator[Path]:
    """A draft that takes the place of the folder once the block has ended well."""
    if place.exists():
        if not place.is_dir():
            raise ConfigError("--out", f"{place} is a file; choose a folder")
        if any(place.iterdir()) and not (place / MARK).is_file():
            raise ConfigError("--out", f"{place} holds other files; choose an empty folder or an older site")
    draft, old = (place.with_name(f".{place.name}.{kind}") for kind in ("draft", "old"))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
    except OSError as error:
        raise ConfigError("--out", f"{place} cannot be a folder: {error.strerror}") from error
    try:
        yield draft
        shutil.rmtree(old, ignore_errors=True)
        if place.exists():
            place.rename(old)
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
