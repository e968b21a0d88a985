"""Every kind of page that costgym writes, light and dark, wide and on a phone: no violation by axe, no scrolling sideways."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import accessibility, chromium, complaints, visit, window
from tests.helpers.command_line import invoke

LINES = (
    "leaderboard --suite quick --agents react,cheapest,random --budgets price=10,30 --episodes 8 --jobs 1 --out board --quiet",
    "leaderboard --suite opencatp --agents zero-shot,random --alpha 0.5 --episodes 6 --jobs 1 --out plans --quiet",
    "leaderboard --suite deer --agents deer-rule --episodes 6 --jobs 1 --out decisions --quiet",
    "collect --agent react --episodes 2 --out data --quiet",
    "show data/trajectories.jsonl --format html --out episode.html",
    "leaderboard --merge board decisions --out joined --quiet",
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


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str]]:
    """The pages with what follows the name in their addresses."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "calls.jsonl").write_text("".join(calls()))
        for line in LINES:
            done = invoke(*line.split())
            assert done.exit_code == 0, (line, done.stderr)
    paths = [path for path in sorted(folder.rglob("*.html")) if path.name != "episode.html" or path.parent == folder]
    entry = next(path.stem.rpartition("-")[0] for path in sorted((folder / "board" / "episodes" / "data").glob("*-0.js")))
    return [*((path, "") for path in paths), (folder / "board" / "episodes" / "episode.html", f"#entry={entry}&at=0")]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_violation_on_any_page(
    pages: list[tuple[Path, str]], dark: bool, width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wrong = []
    for opened in browser(tmp_path_factory):
        window(opened, width=width, height=900, dark=dark)
        for path, address in pages:
            visit(opened, path, address, "document.readyState === 'complete'")
            found = accessibility(opened)
            wide = opened.execute_script("return document.documentElement.scrollWidth - innerWidth")
            name = f"{path.parent.name}/{path.name}"
            wrong += [(name, violated) for violated in found.violated]
            wrong += [(name, "scrolls sideways", wide)] if wide > 0 else []
            wrong += [(name, complaint) for complaint in complaints(opened)]
    print(len(pages), "pages")
    assert wrong == []


def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened
