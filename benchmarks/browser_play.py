"""Play an episode in Chromium and compare its record with Python's, byte by byte: size, seconds to the first move, bytes.

    python benchmarks/browser_play.py PYODIDE [--task 3] [--pictures DIR]

PYODIDE is the folder of a Pyodide release with NumPy and Pydantic. Needs Chromium, its driver and the extra `dev`.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from costgym.envs.registration import make
from costgym.experiments.pages.play_page import write_play_page
from costgym.experiments.play.game.browser import BrowserGame
from costgym.experiments.play.trajectories.format import Header
from tests.helpers.browser import accessibility, chromium, complaints, wait, window

ENV = "costgym/MarketplaceChat-v1"
MOVES = [
    {"tool": 6, "arguments": {"dish": "beetroot salad"}},
    {"tool": 10, "arguments": {"recipe_id": "R-83985"}},
    {"tool": 5, "arguments": {"dish": "beetroot salad", "country": "Serbia"}},
    {"wait": 2.5},
    {"answer": "I found no author, and the price is 7.20 (“Jürgen”)."},
]
"""Moves in task 3; a tool by its number."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on the loopback address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def play_in_python(header: Header, task: int) -> str:
    """The record of the moves, played here."""
    game = BrowserGame(header.to_json(), task)
    tools = json.loads(game.state())["tools"]
    for move in MOVES:
        wish = {**move, "tool": tools[int(str(move["tool"])) - 1]["name"]} if "tool" in move else move
        game.move(json.dumps(wish))
    return game.record()


def play_in_page(driver: Any) -> str:
    """Make the moves as a person does, by the page's forms."""
    script = "return document.querySelectorAll('#log h3').length"
    for move in MOVES:
        before = driver.execute_script(script)
        if "tool" in move:
            driver.execute_script(
                "const item = document.querySelectorAll('#tools li')[arguments[0] - 1];"
                "item.querySelector('details').open = true;"
                "for (const [name, text] of Object.entries(arguments[1])) item.querySelector(`[name=${name}]`).value = text;"
                "item.querySelector('form').requestSubmit();",
                move["tool"],
                move["arguments"],
            )
            wait(driver, f"document.querySelectorAll('#log h3').length > {before}", 60)
        elif "wait" in move:
            seconds = driver.execute_script("return document.querySelector('#left').textContent")
            driver.execute_script(
                "document.getElementById('seconds').value = arguments[0]; document.getElementById('wait').requestSubmit();",
                move["wait"],
            )
            wait(driver, f"document.querySelector('#left').textContent !== {json.dumps(seconds)}", 60)
        else:
            driver.execute_script(
                "document.getElementById('text').value = arguments[0]; document.getElementById('answer').requestSubmit();",
                move["answer"],
            )
    wait(driver, "!document.getElementById('result').hidden", 120)
    return str(
        driver.execute_async_script(
            "const done = arguments[0]; fetch(document.getElementById('record').href).then((r) => r.text()).then(done);"
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pyodide", type=Path)
    parser.add_argument("--task", type=int, default=3)
    parser.add_argument("--pictures", type=Path)
    chosen = parser.parse_args()
    header = Header.of(make(ENV, disable_env_checker=True, split="test"), ENV)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "page"
        size = write_play_page(folder, header, None, 0, "costgym play", chosen.pyodide)
        ours = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
        print(f"page: {size / 1e6:.1f} MB, of which {ours / 1e6:.2f} MB are not Pyodide's")
        with served(folder) as address, chromium(Path(scratch) / "profile") as driver:
            for visit in ("first", "second"):
                began = time.monotonic()
                driver.get(f"{address}?task={chosen.task}")
                wait(driver, "document.documentElement.dataset.ready", 180)
                print(f"{visit} visit: {time.monotonic() - began:.1f} s until a move can be made")
            _picture(driver, chosen.pictures, "begin")
            recorded = play_in_page(driver)
            _picture(driver, chosen.pictures, "end")
            print("axe:", accessibility(driver).violated or "no finding")
            print("console:", complaints(driver) or "nothing")
    expected = play_in_python(header, chosen.task)
    print(f"record: {len(recorded.encode()):,} bytes, {'equal to' if recorded == expected else 'DIFFERENT FROM'} Python's")


def _picture(driver: Any, folder: Path | None, name: str) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for width, height, dark in ((1400, 1000, False), (1400, 1000, True), (390, 844, False)):
        window(driver, width, height, dark)
        driver.save_screenshot(str(folder / f"{name}-{width}{'-dark' if dark else ''}.png"))
    window(driver, 1400, 1000)


if __name__ == "__main__":
    main()
