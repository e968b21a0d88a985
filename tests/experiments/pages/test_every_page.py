"""Every kind of page that costgym writes, light and dark, wide and on a phone: axe, pictures, the keyboard, no scrolling."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.pages.learning_curves import write_curves
from tests.helpers.browser import accessibility, chromium, complaints, drawn_text, keyboard, visit, window
from tests.helpers.command_line import invoke
from tests.helpers.specifications import CLINIC

LINES = (
    "leaderboard --suite quick --agents react,cheapest,random --budgets price=10,30 --episodes 8 --jobs 1 --out board --quiet",
    "leaderboard --suite opencatp --agents zero-shot,random --alpha 0.5 --episodes 6 --jobs 1 --out plans --quiet",
    "leaderboard --suite deer --agents deer-rule --episodes 6 --jobs 1 --out decisions --quiet",
    "collect --agent react --episodes 2 --out data --quiet",
    "show data/trajectories.jsonl --format html --out episode.html",
    "leaderboard --suite sessions --agents greedy --episodes 2 --jobs 1 --out sessions --quiet",
    "leaderboard --merge board decisions --out joined --quiet",
    "show react react+btp --env costgym/MarketplaceChat-v1 --format html --out two.html",
    "forge clinic.json --out clinic.yaml --page clinic.html",
    "calibrate calls.jsonl --out fitted.yaml --page calibration.html",
)


def calls() -> Iterator[str]:
    """A log of two tools, one of which fails now and then."""
    for number in range(120):
        for tool, latency_s in (("map", 0.5), ("weather", 1.5)):
            call = {
                "tool": tool, "capability": "weather", "started": 20.0 * number, "latency_s": latency_s + number % 7 / 10,
                "status": "server_error" if tool == "map" and number % 4 == 0 else "ok", "price": 1.0, "episode": number,
            }  # fmt: skip
            yield json.dumps(call) + "\n"


def curve() -> Iterator[str]:
    """The learning curve of a run that keeps to a limit."""
    for step in range(0, 1000, 50):
        point = {"step": step, "success": step / 1000, "cost": 30.0 - step / 50, "limit": 20.0, "loss": 1.0, "seconds": 2.0}
        yield json.dumps(point) + "\n"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str]]:
    """The pages with what follows the name in their addresses."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "calls.jsonl").write_text("".join(calls()))
        (folder / "clinic.json").write_text(json.dumps(CLINIC))
        (folder / "trained").mkdir()
        (folder / "trained" / "curve.jsonl").write_text("".join(curve()))
        write_curves(folder / "trained")
        for line in LINES:
            done = invoke(*line.split())
            assert done.exit_code == 0, (line, done.stderr)
    paths = [path for path in sorted(folder.rglob("*.html")) if path.name != "episode.html" or path.parent == folder]
    entry = next(path.stem.rpartition("-")[0] for path in sorted((folder / "board" / "episodes" / "data").glob("*-0.js")))
    return [*((path, "") for path in paths), (folder / "board" / "episodes" / "episode.html", f"#entry={entry}&at=0")]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_pictures_and_the_keyboard_find_nothing_on_any_page(
    pages: list[tuple[Path, str]], dark: bool, width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wrong = []
    for opened in browser(tmp_path_factory):
        window(opened, width=width, height=900, dark=dark)
        for path, address in pages:
            visit(opened, path, address, "document.readyState === 'complete'")
            problems, drawn = accessibility(opened), drawn_text(opened)
            wide = opened.execute_script("return document.documentElement.scrollWidth - innerWidth")
            name = f"{path.parent.name}/{path.name}"
            wrong += [(name, violated) for violated in problems.violated]
            wrong += [(name, "scrolls sideways", wide)] if wide > 0 else []
            wrong += [(name, complaint) for complaint in complaints(opened)]
            wrong += [(name, drawn)] if drawn.text < 4.5 or drawn.axis < 3.0 or drawn.bare else []
            if not dark and width > 1000:  # neither changes what a key does
                wrong += [(name, "by keyboard", problem) for problem in keyboard(opened) if problem]
    print(len(pages), "pages", *wrong, sep="\n")
    assert wrong == []


def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened
