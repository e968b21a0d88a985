"""Draw the pictures of the documentation again (`make pictures`): the board's page, the frontier, an episode, curves.

Plays the default leaderboard, or takes the folder of one with ``--board``, and needs chromium. `docs/sessions.svg`
and `docs/smallmodel.svg` come from trainings: `benchmarks/sessions.py` and `benchmarks/learning/smallmodel.py` draw them.
"""

import argparse
import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # tests are part of the checkout, not of the package

import costgym  # noqa: E402
from costgym.experiments.papers.pictures import beside_svg  # noqa: E402
from tests.helpers.browser import chromium, window  # noqa: E402

DOCS = ROOT / "docs"
AGENTS = ("random", "cheapest", "greedy", "bayes-index", "oracle-informed")
BUDGETS = (10, 20, 40)  # credits
EPISODES = 400  # the test tasks


def frontier(picture: Path) -> None:
    """Passes over cost on the test tasks of the default marketplace."""
    results = costgym.Results()
    for budget in BUDGETS:
        env = costgym.make("costgym/Marketplace-v0", split="test", budget=budget)
        for agent in AGENTS:
            results += costgym.rollout(env, agent, episodes=EPISODES, seed=0)
    results.plot.pareto().savefig(picture)


def photograph(driver: Any, address: str, picture: Path, height: int) -> None:
    """The top of a page, 1400 pixels wide."""
    window(driver, 1400, height)
    driver.get(address)
    driver.execute_script("window.scrollTo(0, 0)")
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    picture.write_bytes(base64.b64decode(taken["data"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--board", type=Path, help="folder of a leaderboard that has ended; by default one is played")
    args = parser.parse_args()
    frontier(DOCS / "frontier.png")
    with tempfile.TemporaryDirectory() as folder:
        board = args.board or Path(folder) / "board"
        if args.board is None:
            options = ("--suite", "quick", "--seed", "0", "--out", str(board), "--quiet")
            subprocess.run([sys.executable, "-m", "costgym", "leaderboard", *options], cwd=ROOT, check=True)
        with chromium(Path(folder) / "profile") as driver:
            photograph(driver, (board / "index.html").resolve().as_uri(), DOCS / "leaderboard.png", 900)
    for recorded in sorted((ROOT / "benchmarks/results/reproduce").glob("*.json")):
        if picture := beside_svg(json.loads(recorded.read_text())["effects"]):
            recorded.with_name(f"{recorded.stem}-beside.svg").write_text(picture)
    script = ROOT / "benchmarks" / "plot_limit.py"
    subprocess.run([sys.executable, script, ROOT / "agents/zoo/lagrangian", DOCS / "limit.svg"], check=True)
    subprocess.run([sys.executable, ROOT / "benchmarks" / "plot_throughput.py"], check=True)


if __name__ == "__main__":
    main()
