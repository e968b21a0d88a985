"""Draw the pictures of the documentation again (`make pictures`): the board's page, two agents, curves.

Plays the default leaderboard, or takes the folder of one with ``--board``, and needs chromium. `docs/sessions.svg`
and `docs/realmodels.svg` are drawn by `benchmarks/result_pictures.py`.
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
CHAT, CHAT_BUDGET, COMPARED = "costgym/MarketplaceChat-v1", 30, ("react", "react+btp")


def two_agents(picture: Path) -> None:
    """The first test task of which exactly one of two chat agents makes a success, within the chat track's middle budget."""
    env = costgym.make(CHAT, split="test", budget=CHAT_BUDGET)
    plain, planned = (costgym.rollout(env, agent, episodes=20, seed=0) for agent in COMPARED)
    successes = [[result.strict and result.within_budget for result in results] for results in (plain, planned)]
    task = next(index for index, (one, other) in enumerate(zip(*successes, strict=True)) if one != other)
    options = ("--env", CHAT, "--task", str(task), "--budget", f"price={CHAT_BUDGET}", "--format", "svg", "--out", str(picture))
    subprocess.run([sys.executable, "-m", "costgym", "show", *COMPARED, *options], cwd=ROOT, check=True)


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
    two_agents(DOCS / "two_agents.svg")
    with tempfile.TemporaryDirectory() as folder:
        board = args.board or Path(folder) / "board"
        if args.board is None:
            options = ("--suite", "quick", "--seed", "0", "--out", str(board), "--quiet")
            subprocess.run([sys.executable, "-m", "costgym", "leaderboard", *options], cwd=ROOT, check=True)
        with chromium(Path(folder) / "profile") as driver:
            photograph(driver, (board / "index.html").resolve().as_uri(), DOCS / "leaderboard.png", 800)
    for recorded in sorted((ROOT / "benchmarks/results/reproduce").glob("*.json")):
        if picture := beside_svg(json.loads(recorded.read_text())["effects"]):
            recorded.with_name(f"{recorded.stem}-beside.svg").write_text(picture)
    script = ROOT / "benchmarks" / "plot_limit.py"
    subprocess.run([sys.executable, script, ROOT / "agents/zoo/lagrangian", DOCS / "limit.svg"], check=True)
    subprocess.run([sys.executable, ROOT / "benchmarks" / "plot_throughput.py"], check=True)


if __name__ == "__main__":
    main()
