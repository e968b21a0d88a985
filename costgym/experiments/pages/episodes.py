"""The episodes of a leaderboard as pages: a list to search, and a viewer that shows each call, message and charge.

They lie in the folder `episodes` of the run, work from disk and ask nothing of the network; the same run gives the same bytes.
A page opened from disk may load scripts but not fetch files, so each piece of data is a script that hands JSON to
`costgym.put`. Agents' texts go into it as JSON strings only.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from markupsafe import Markup

from costgym.envs.opencatp.images import SceneImages
from costgym.experiments.board.conditions import condition_label, currency_of, grading_of, grouped
from costgym.experiments.board.rows import columns_of, is_reference, shown_name, track_files, tracks_in_order
from costgym.experiments.board.store.runs import Run, RunEntry, as_written
from costgym.experiments.board.tracks import TRACKS
from costgym.experiments.pages.episode_detail import Detail, details
from costgym.experiments.pages.html import asset, embedded, part, render
from costgym.experiments.play.metric_registry import unit_of
from costgym.experiments.play.results import EpisodeResult, outcome
from costgym.experiments.play.trajectories.replay import readable
from costgym.simulators.files import finished_folder, write_atomically

FOLDER = "episodes"
DETAILED = 20  # episodes of every row that the viewer shows, where nothing else is wanted
PIECE = 20  # episodes whose detail one file holds
MAX_QUERY_CHARS = 300  # of a query that the list shows
DIGITS = 9
SCRIPTS = {"viewer.js": ("viewer.js",), "list.js": ("episodes.js",), "episode.js": ("gantt.js", "episode.js")}
STYLES = ("page.css", "episodes.css")
POLICY = "default-src 'none'; style-src 'self' file: 'unsafe-inline'; script-src 'self' file:; img-src data:"
ALONE = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

Progress = Callable[[int, int], None]


def write_episodes(
    run: Run, folder: Path, data: str | None = None, most: int | None = DETAILED, progress: Progress | None = None
) -> Path:
    """Write the pages of a run's episodes into its folder, in place of older ones, and return the list's page; of every entry
    `most` episodes, by default all, are replayed and can be looked into."""
    counts = [int(entry.row.get("episodes") or 0) for entry in run.entries if entry.file]
    total = sum(count if most is None else min(count, most) for count in counts)
    with finished_folder(folder / FOLDER, replace=True) as draft, as_written(run.folder or Path()):
        (draft / "data").mkdir()
        for name, parts in SCRIPTS.items():
            write_atomically(draft / name, "\n".join(map(asset, parts)) + "\n")
        write_atomically(draft / "style.css", "\n".join(map(asset, STYLES)) + "\n")
        grading = grading_of(run.document.get("rows") or [])
        results = grouped(run.results(), lambda pair: pair[0])
        for entry in run.entries:
            played = sorted((result for _, result in results.get(entry.id, ())), key=lambda result: result.episode)
            _put(draft, entry.id, columns(played, grading))
        queries: dict[str, str] = {}
        images, shown, done = SceneImages(), dict[str, int](), 0
        for entry in run.entries:
            shown[entry.id] = 0
            for piece in _pieces(run, entry, data, most, images):
                _put(draft, f"{entry.id}-{shown[entry.id] // PIECE}", piece)
                shown[entry.id] += len(piece)
                done += len(piece)
                for detail in piece:
                    if detail["query"]:
                        queries.setdefault(f"{entry.row.get('track', '')} {detail['task']}", detail["query"][:MAX_QUERY_CHARS])
                if progress is not None:
                    progress(min(done, total), total)
        for scene, encoded in images.encoded().items():
            _put(draft, scene, encoded)
        _put(draft, "run", about(run, shown))
        _put(draft, "queries", queries)
        title = f"{run.document.get('suite', '')}, seed {run.document.get('seed', '')}"
        write_atomically(draft / "index.html", _page("episodes", f"Episodes: {title}", ("data/run.js", "list.js")))
        write_atomically(draft / "episode.html", _page("episode", f"Episode: {title}", ("data/run.js", "episode.js")))
    return folder / FOLDER / "index.html"


def episode_page(
    title: str, agent: str, budget: Mapping[str, float], currency: str, detail: Detail, images: Mapping[str, Any]
) -> str:
    """The viewer with a single episode in it, as one file."""
    entry = {"id": "episode", "agent": agent, "label": title, "track": "", "budget": dict(budget), "detailed": 1}
    final = detail["final"]
    passed = final["exceeded"] is None and final["strict"]
    shown = {"episode": [detail["episode"]], "task": [detail["task"]], "outcome": ["passed" if passed else "failed"]}
    pieces = {"run": {"currency": unit_of(currency), "entries": [entry]}, "episode": shown, "episode-0": [detail], **images}
    scripts = [asset(name) for name in ("viewer.js", "gantt.js")]
    scripts += [f"costgym.put({json.dumps(key)},{embedded(piece)});" for key, piece in pieces.items()]
    return render(
        "viewer.html",
        page="episode",
        title=title,
        policy=ALONE,
        links=[],
        here="",
        style=Markup("\n".join(map(asset, STYLES))),
        scripts=[],
        code=[Markup(text) for text in (*scripts, asset("episode.js"))],
        body=part("episode.html"),
    )


def _page(page: str, title: str, scripts: Sequence[str]) -> str:
    links = [("../index.html", "Leaderboard"), ("index.html", "Episodes")]
    here = "Episodes" if page == "episodes" else ""
    return render(
        "viewer.html", page=page, title=title, policy=POLICY, links=links, here=here, style="", scripts=scripts, code=[],
        body=part(f"{page}.html"),
    )  # fmt: skip


def _put(folder: Path, key: str, value: object) -> None:
    """Write a piece of data as a script."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    write_atomically(folder / "data" / f"{key}.js", f"costgym.put({json.dumps(key)},{text});\n")


def _pieces(run: Run, entry: RunEntry, data: str | None, most: int | None, images: SceneImages) -> Iterable[list[Detail]]:
    if run.folder is not None and entry.file and most != 0:
        episodes = details(run.folder / entry.file, data, most, images)
        while piece := list(islice(episodes, PIECE)):
            yield piece


def columns(results: Sequence[EpisodeResult], grading: str) -> dict[str, Any]:
    """Return every episode of an entry in short, a list for each figure; episodes are in order of their index."""
    return {
        "episode": [r.episode for r in results],
        "task": [readable(r.task) for r in results],
        "outcome": [outcome(r, grading) for r in results],
        "share": [_short(r.share) for r in results],
        "price": [_short(r.price) for r in results],
        "seconds": [_short(r.seconds) for r in results],
        "tokens": [r.tokens for r in results],
        "calls": [r.attempts for r in results],
        "errors": [sum(r.errors.values()) for r in results],
        "regret": [None if r.regret is None else _short(r.regret) for r in results],
    }


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def about(run: Run, shown: Mapping[str, int]) -> dict[str, Any]:
    """Return what the scripts know of a run: its entries, and how many episodes of each are there in detail."""
    main = columns_of(tracks_in_order(run.document)[0])[0]
    files, several = track_files(run.document), len(run.document.get("tracks") or ()) > 1
    entries = []
    for entry in run.entries:
        row, label = entry.row, condition_label(entry.row, run.document)
        track = str(row.get("track", ""))
        entries.append({
            "id": entry.id,
            "agent": shown_name(row),
            "page": f"../{files.get(track, 'index.html')}",
            "label": label,
            "track": track,
            "where": f"{TRACKS[track].title}, {label}" if several and track in TRACKS else label,
            "budget": dict(row.get("budget") or {}),
            "currency": unit_of(currency_of(run.document, row.get("track"))),
            "reference": is_reference(row),
            "detailed": shown.get(entry.id, 0),
        })  # fmt: skip
    return {"share": "Facts, %" if main.kind == "rate" else "Task score, %", "entries": entries}
