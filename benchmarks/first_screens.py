"""Compare the first screen of every board's pages with what the terminal says, and photograph pages.

    python benchmarks/first_screens.py compare                    # every suite, a few episodes a row
    python benchmarks/first_screens.py compare --board FOLDER     # boards that were played before
    python benchmarks/first_screens.py pictures FOLDER --out OUT  # light and dark, wide and on a phone, at every budget

A track's page is right if the sentence on it is the one that the terminal prints, if it lies within the first screen, and if
card, marked row and end of the frontier are the agent that the sentence names. Needs chromium and the extra dev.
"""

import argparse
import base64
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # tests are part of the checkout, not of the package

from costgym.experiments.board.rows import track_files, tracks_in_order  # noqa: E402
from costgym.experiments.board.suites import SUITES  # noqa: E402
from costgym.experiments.pages.answers import answer_first  # noqa: E402
from costgym.experiments.pages.table import print_table  # noqa: E402
from tests.helpers.browser import chromium, complaints, visit, wait, window  # noqa: E402

EPISODES = 4  # a row, where the script plays
HEIGHT = 900  # pixels of a screen
WIDTHS = (1400, 390)
READY = "!document.getElementById('controls').hidden"
SEEN = """
const shown = document.querySelector(".cards:not([hidden])"), sentence = shown.querySelector(".sentence");
const inside = (box) => box.top >= 0 && box.bottom <= innerHeight;
const bottom = (mark) => parseFloat(mark.style.bottom), best = document.querySelector("#plot > i.chosen");
const row = document.querySelector("#board tr.chosen .name");
const points = document.getElementById("front").getAttribute("points").split(" ");
const front = points.map((xy) => 100 - parseFloat(xy.split(",")[1]));
return {
  sentence: sentence.textContent, inside: inside(sentence.getBoundingClientRect()),
  card: shown.querySelector(".best .who")?.firstChild ? [...shown.querySelector(".best .who").childNodes].filter((n) =>
    !(n.classList?.contains("badge"))).map((n) => n.textContent).join("").trim() : null,
  row: row?.textContent ?? null,
  top: best === null || Math.abs(Math.max(...front) - bottom(best)) < 0.02,
};
"""


def boards(folder: Path, data: Path | None) -> Iterator[Path]:
    """Play every suite at a small size; ToolBench's needs data."""
    for suite in SUITES:
        if suite == "toolbench" and data is None:
            print("toolbench: left out, since --data names no folder", file=sys.stderr)
            continue
        out = folder / suite
        line = ("leaderboard", "--suite", suite, "--episodes", str(EPISODES), "--out", str(out), "--jobs", "1", "--quiet")
        given = ("--data", str(data)) if suite == "toolbench" else ()
        subprocess.run([sys.executable, "-m", "costgym", *line, "--detail", "0", *given], cwd=ROOT, check=True)
        yield out


def compare(driver: Any, board: Path) -> list[str]:
    """List what is wrong on the first screens of a board, and print a line for each track and width."""
    document = json.loads((board / "leaderboard.json").read_text())
    screen, files, wrong = io.StringIO(), track_files(document), []
    print_table(document, Console(file=screen, width=10_000))
    for track in tracks_in_order(document):
        first, page = answer_first(track), files[str(track.get("track", ""))]
        printed = [line for line in screen.getvalue().splitlines() if first is not None and line == first.sentence]
        for width in WIDTHS:
            window(driver, width, HEIGHT)
            visit(driver, board / page, "", READY)
            seen = driver.execute_script(SEEN)
            leader = None if first is None or first.leader is None else str(seen["sentence"]).partition(": ")[2]
            checks = {
                "sentence": first is None or [seen["sentence"]] == printed[:1],
                "on screen": seen["inside"],
                "card": leader is None or leader.startswith(f"{seen['card']}"),
                "row": seen["row"] == seen["card"],
                "frontier": seen["top"],
                "console": not complaints(driver),
            }
            failed = [name for name, passed in checks.items() if not passed]
            verdict = f"WRONG {', '.join(failed)}" if failed else "equal"
            print(f"{board.name:14} {page:16} {width:5}  {verdict}  {seen['sentence']}", flush=True)
            wrong += [f"{board.name}/{page} at {width}: {name}" for name in failed]
    return wrong


def pictures(driver: Any, board: Path, out: Path) -> None:
    """Photograph every page on first load, the first at every budget, and an episode."""
    out.mkdir(parents=True, exist_ok=True)
    document = json.loads((board / "leaderboard.json").read_text())
    pages = [(page, "", READY) for page in track_files(document).values()]
    budgets = len({str(row.get("budget")) for row in tracks_in_order(document)[0]["rows"]})
    pages += [("index.html", f"#condition={number}", READY) for number in range(budgets)]
    pieces = sorted((board / "episodes" / "data").glob("*-0.js"))
    entries = [piece.stem.removesuffix("-0") for piece in pieces[:1]]
    pages += [("episodes/episode.html", f"#entry={entry}&at=0", "document.body.dataset.ready") for entry in entries]
    for page, address, ready in pages:
        for width in WIDTHS:
            for dark in (False, True):
                window(driver, width, HEIGHT, dark)
                visit(driver, board / page, address, ready)
                wait(driver, "document.fonts.status === 'loaded'")
                name = "-".join([page.replace("/", "-").removesuffix(".html"), *filter(None, [address[1:].partition("&")[0]])])
                taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
                picture = out / f"{name.replace('=', '-')}-{width}-{'dark' if dark else 'light'}.png"
                picture.write_bytes(base64.b64decode(taken["data"]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    comparing = commands.add_parser("compare")
    comparing.add_argument("--board", type=Path, nargs="+", help="folders of boards; by default every suite is played")
    comparing.add_argument("--data", type=Path, help="folder of ToolBench's data, for the suite toolbench")
    drawing = commands.add_parser("pictures")
    drawing.add_argument("board", type=Path)
    drawing.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, chromium(Path(folder) / "profile") as driver:
        if args.command == "pictures":
            pictures(driver, args.board.resolve(), args.out)
            return
        found = args.board or boards(Path(folder), args.data and args.data.resolve())
        wrong = [problem for board in found for problem in compare(driver, board.resolve())]
        print(*(wrong or ["every first screen says what the terminal says"]), sep="\n")
        sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
