"""Play version 1 of the world beside version 0, and write what moved: docs/results/world1.md.

    python benchmarks/world1.py board --boards DIR0 DIR1     # quick boards of seed 0, played with --world 0 and without
    python benchmarks/world1.py papers --episodes 100        # btp, ecoact, toolplanner and catp, each in both versions
    python benchmarks/world1.py page                         # the page from both reports

The first two write `benchmarks/results/world1_board.json` and `world1_papers.json`; without `--boards` the boards are played.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from costgym.experiments.leaderboard import make_run_config
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.papers.reproduce import reproduce

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report

RESULTS = Path(__file__).parent / "results"
BOARD, PAPERS = RESULTS / "world1_board.json", RESULTS / "world1_papers.json"
PAGE = Path(__file__).parents[1] / "docs/results/world1.md"
SHOWN = 30.0  # the budget of the page's table, credits; all others stand in the report
ALIKE = ("numbers", "writes", "decisions", "sessions")  # tracks that are equal in both versions
FIGURES = ("pass_rate_under_budget", "average_cost", "cost_per_success", "average_tokens", "token_cost", "quality_of_plan")
MINUS = "\N{MINUS SIGN}"


# -- the board ---------------------------------------------------------------------------------------------------------------


def play_board(world: int) -> tuple[Path, float]:
    """Play the default board in a version of the world; its folder and the seconds of processor time that it took."""
    folder, before = Path(tempfile.mkdtemp(prefix="world1-")), time.process_time()
    run_leaderboard(make_run_config("quick", world=None if world else 0), folder)
    return folder, time.process_time() - before


def episodes_of(folder: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """A board's episodes by track, agent, condition and index, without what names the version."""
    results = {}
    for line in (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines():
        episode = json.loads(line)
        key = (episode["env"].rpartition("-v")[0], episode["agent"], json.dumps([episode["budget"], episode.get("settings")]))
        results[*key, str(episode["episode"])] = {name: value for name, value in episode.items() if name != "env"}
    return results


def board(folders: Iterable[Path], seconds: Iterable[float]) -> dict[str, Any]:
    """What two boards have in common, and the rows of tracks that moved."""
    old, new = folders
    documents = [json.loads((folder / "leaderboard.json").read_text(encoding="utf-8")) for folder in (old, new)]
    rows = [{(row["track"], row["agent"], key_of(row)): row for row in document["rows"]} for document in documents]
    before, after = (episodes_of(folder) for folder in (old, new))
    equal: dict[str, list[int]] = {}
    for key, episode in before.items():
        count = equal.setdefault(key[0], [0, 0])
        count[1] += 1
        count[0] += episode == after.get(key)
    moved = [
        {
            "track": track,
            "agent": agent,
            "condition": condition,
            **{figure: [rows[0][track, agent, condition].get(figure), row.get(figure)] for figure in FIGURES},
        }
        for (track, agent, condition), row in rows[1].items()
        if track not in ALIKE and (track, agent, condition) in rows[0]
    ]
    return {"episodes_equal": equal, "moved": moved, "processor_seconds": list(seconds)}


def key_of(row: Mapping[str, Any]) -> str:
    settings = {name: value for name, value in row.items() if name in ("alpha", "tasks")}
    return json.dumps([row["budget"], settings])


# -- the papers --------------------------------------------------------------------------------------------------------------


def papers(names: Iterable[str], episodes: int | None, steps: int | None, jobs: int) -> dict[str, Any]:
    """The effects that each paper claims, measured in both versions; papers of an earlier report stay."""
    played = json.loads(PAPERS.read_text(encoding="utf-8"))["papers"] if PAPERS.is_file() else {}
    for name in names:
        settings = {"steps": steps} if name == "catp" else {}
        tables = [reproduce(name, episodes=episodes, jobs=jobs, world=world, **settings) for world in (0, 1)]
        effects = []
        for one, other in zip(*(table["effects"] for table in tables), strict=True):
            about = {field: one[field] for field in ("protocol", "claim", "grading")}
            effects.append(about | {field: [one[field], other[field]] for field in ("measured", "follows")})
        played[name] = {"episodes": episodes, "steps": settings.get("steps"), "effects": effects}
        alike = sum(row["follows"][0] == row["follows"][1] for row in effects)
        print(f"{name}: {alike} of {len(effects)} alike", flush=True)
    return {"papers": played}


# -- the page ----------------------------------------------------------------------------------------------------------------


def page() -> str:
    """The page, from the reports that are there."""
    parts = [INTRODUCTION, ENGLISH]
    if BOARD.is_file():
        parts.append(board_part(json.loads(BOARD.read_text(encoding="utf-8"))))
    if PAPERS.is_file():
        parts.append(paper_part(json.loads(PAPERS.read_text(encoding="utf-8"))))
    return "\n".join([*parts, STAYING])


def board_part(report: Mapping[str, Any]) -> str:
    equal = report["episodes_equal"]
    alike = ", ".join(f"{name.removeprefix('costgym/')} {same:,} of {count:,}" for name, (same, count) in equal.items())
    figures = (
        ("pass_rate_under_budget", 100.0, 1),
        ("average_cost", 1.0, 1),
        ("token_cost", 1.0, 1),
    )
    lines = []
    for row in report["moved"]:
        shown = row["track"] == "text" and not row["agent"].startswith(("cot@5", "plan-act", "tot-dfs"))
        if shown and json.loads(row["condition"])[0] == {"price": SHOWN}:
            texts = [" → ".join(number(value, factor, digits) for value in row[figure]) for figure, factor, digits in figures]
            lines.append(f"| `{row['agent']}` | {' | '.join(texts)} |")
    return BOARD_TEXT.format(alike=alike, rows="\n".join(lines))


def paper_part(report: Mapping[str, Any]) -> str:
    counts, lines = [], []
    for paper, played in report["papers"].items():
        moved = [row for row in played["effects"] if row["follows"][0] != row["follows"][1]]
        claims = len(played["effects"])
        follow = [sum(bool(row["follows"][world]) for row in played["effects"]) for world in (0, 1)]
        size = f"{played['episodes']}" if played["episodes"] else "as usual"
        size += f", {played['steps']} steps" if played["steps"] else ""
        counts.append(f"| {paper} | {size} | {claims} | {claims - len(moved)} | {follow[0]} → {follow[1]} |")
        for row in (row for row in moved if row["protocol"] == "published"):
            claim = row["claim"] if row["follows"][0] else f"{row['claim']} (in version 1 alone)"
            measured = " → ".join(str(value).replace("|", "\\|") for value in row["measured"])
            measured = re.sub(r"\[([^],]+), ([^]]+)\]", r"(\1 to \2)", measured).replace("-", MINUS)
            measured = "a curve" if " at 0," in measured else measured.replace(" points", "")
            lines.append(f"| {paper} | {claim} | {measured} |")
    return PAPER_TEXT.format(counts="\n".join(counts), rows="\n".join(lines))


def number(value: float | None, factor: float = 1.0, digits: int = 1) -> str:
    return "–" if value is None else f"{factor * value:,.{digits}f}".replace("-", MINUS)


INTRODUCTION = """# Version 1 of the world, beside version 0

[Version 1](../environments/versions.md) changes what agents read and pay. What agents of numbers see is equal to the last
bit, over 1,000,960 steps in five scenarios,[^steps] so only agents of text and plans move.
"""
ENGLISH = """## The English

Two readers, each a language model, graded a hundred descriptions and queries, half of each version, mixed and without labels.
They agree on 96 of 100. Errors per hundred fall from 92 and 88 (first and second reader) to 8 and 4 in descriptions of tools,
and from 72 and 76 to 16 and 12 in queries.[^english]
"""
BOARD_TEXT = """## The default board

Equal episodes: {alike}. Chat agents within 30 credits, with a
simulated model:[^board]

| agent | success %, 0 → 1 | cost | tokens' part of it |
| --- | --- | --- | --- |
{rows}

Tokens are billed at the prices of claude-sonnet-5 with its cache of prompts, not at those of gpt-4o-2024-05-13 without one;
results of tools have 20 to 20,000 tokens and not some twenty; a request beyond the model's window is refused. So what saves
tokens is worth less: `react+ecoact` pays more for tokens than `react`, where it paid less in version 0.
"""
PAPER_TEXT = """## The papers' claims

Tokens are free in both versions, but for EcoAct, which prices them itself. DEER's decisions have version 0 alone.[^papers]

| paper | episodes | claims | alike | follow, 0 → 1 |
| --- | --- | --- | --- | --- |
{counts}

Those of the published protocols that follow in version 0 alone, or in version 1 alone where it is said:

| paper | claim | measured, 0 → 1 (Match, facts: points) |
| --- | --- | --- |
{rows}

EcoAct saves descriptions, and in version 1 results are most of a request. ToolPlanner's `api` instructions name what a tool
does in the words of the tools' names, so plain tree search finds them.
"""
STAYING = """## What stays in version 0

`zoo:toolplanner` learnt from version 0's texts: within 30 credits it succeeds in 1.9 % of the board's episodes, in version 0
in 15.6 %, so commands play it there unless `--env` says otherwise. Recorded rows of small real models stay a board of version
0, and so do the tracks of decisions and sessions. `costgym leaderboard --world 0` plays every suite as before.

[^steps]: Measured: `python benchmarks/worlds.py steps`; x86-64; 2026-11-27; printed, not stored.

[^english]: Measured: `python benchmarks/english/sample.py --seed 4711`, graded by `benchmarks/english/rubric.md`; two
    language models as readers; 2026-11-27; [all texts with both grades](../../benchmarks/results/english_texts.txt).

[^board]: Measured: `python benchmarks/world1.py board`; x86-64; 2026-11-28; [all budgets and
    tracks](../../benchmarks/results/world1_board.json).

[^papers]: Measured: `python benchmarks/world1.py papers --episodes 100`; x86-64; 2026-11-27; [all
    claims](../../benchmarks/results/world1_papers.json). """


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("board", "papers", "page"))
    parser.add_argument("--boards", type=Path, nargs=2, help="folders of boards that were played in versions 0 and 1")
    parser.add_argument(
        "--seconds", type=float, nargs=2, default=(None, None), help="what those boards took, processor seconds"
    )
    parser.add_argument("--papers", nargs="*", default=["btp", "ecoact", "toolplanner", "catp"])
    parser.add_argument("--episodes", type=int, help="of each agent in the papers; by default the papers' own numbers")
    parser.add_argument("--steps", type=int, help="optimiser steps of CATP's policies; by default the usual number")
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.part == "board":
        played = (
            [play_board(world) for world in (0, 1)]
            if chosen.boards is None
            else list(zip(chosen.boards, chosen.seconds, strict=True))
        )
        write_report(board([folder for folder, _ in played], [seconds for _, seconds in played]), BOARD)
    elif chosen.part == "papers":
        write_report(papers(chosen.papers, chosen.episodes, chosen.steps, chosen.jobs), PAPERS)
    else:
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
