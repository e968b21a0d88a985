"""Entries that wait in a leaderboard's queue, honest ones and hostile ones, as tiny as they can be."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.leaderboard import run

OWN = """
from costgym.agents.classic import GreedyAgent

class Mine(GreedyAgent):
    pass

class Exits(GreedyAgent):
    def act(self, observation, info):
        import os
        os._exit(7)
"""
GUARD = """
import os
if not os.environ["HOME"].rpartition("/")[2].startswith("costgym-agent-"):
    raise SystemExit("run outside the sandbox")
"""
TERMS: dict[str, Any] = {"budgets": "price=10", "episodes": 1}


def _edit(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(entry: Path) -> None:
        path = next(entry.rglob(name))
        before = path.read_text()
        assert old in before, old
        path.write_text(before.replace(old, new, 1))

    return change


def _nested(entry: Path) -> None:
    (entry / "manifest.json").write_text("[" * 200_000)


def _deep(entry: Path) -> None:
    (entry / "/".join("d" * 20)).mkdir(parents=True)


def _large(entry: Path) -> None:
    with (entry / "large").open("wb") as store:
        store.truncate(3 * 2**30)  # a hole: it takes no room here


def _broken_code(entry: Path) -> None:
    (entry / "code/own.py").write_text("import os\nos.environ['x'] = '\\x1b[2J'\nraise ValueError('\\x1b[2Jgone')\n")


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda entry: (entry / "manifest.json").unlink(), "there is no such file"),
    "no JSON": (_nested, "is not valid JSON"),
    "an edited figure": (_edit("*.jsonl", '"share":', '"share":0.0,"share":'), "digest: the file is not the one"),
    "an edited claim": (_edit("manifest.json", '"average_cost":', '"average_cost": 0.0, "x":'), "x: "),
    "another seed": (_edit("manifest.json", '"seed": 0', '"seed": 1'), "was not played like the leaderboard"),
    "another version": (_edit("manifest.json", '"version": "', '"version": "9'), "was not played like the leaderboard"),
    "a bound": (_edit("manifest.json", '"agent": "greedy"', '"agent": "oracle"'), "the run has no such agent"),
    "a path outside": (_edit("manifest.json", '"path": "', '"path": "../'), "files.0.path"),
    "a link": (lambda entry: (entry / "link").symlink_to("/etc/passwd"), "neither a file nor a folder"),
    "a hard link": (lambda entry: os.link(entry / "manifest.json", entry / "second"), "not a plain file"),
    "a pipe": (lambda entry: os.mkfifo(entry / "pipe"), "neither a file nor a folder"),
    "deep folders": (_deep, "nested folders"),
    "a large file": (_large, "is larger than"),
    "junk": (lambda entry: (entry / "junk.sh").write_text("#!"), "is unexpected"),
    "code that raises": (_broken_code, "ValueError"),
    "a name from another world": (_edit("manifest.json", '"name": "', '"name": "<b>'), "name: String should match"),
}
"""How an honest entry becomes a hostile one, and what its verdict must say."""


def fill(folder: Path, count: int, own_code: bool = True) -> dict[str, str]:
    """Make a leaderboard `board` and entries in `queue`; every third entry is hostile.

    Args:
        folder: where both are made.
        count: number of entries.
        own_code: some entries have agents of their own, which only a sandbox may run.

    Returns:
        For every entry by its name, what its verdict must contain; "" for an honest one.
    """
    (folder / "code").mkdir(parents=True)
    (folder / "code/own.py").write_text(OWN)
    here = Path.cwd()
    os.chdir(folder / "code")
    try:
        run(make_run_config(agents=["cheapest"], **TERMS), folder / "board")
        names = ["greedy", "random", *(["own.py:Mine", "own.py:Exits"] if own_code else [])]
        runs = [run(make_run_config(agents=[name], **TERMS), folder / f"played {i}").folder for i, name in enumerate(names[:3])]
        (folder / "code/own.py").write_text(GUARD + OWN)
        packed = [
            pack(each, folder / f"packed {i}", "X", "a@example.org", files=folder / "code") for i, each in enumerate(runs)
        ]
    finally:
        os.chdir(here)
    if own_code:  # its episodes were those of the honest class; in the rerun every process of it exits
        packed.append(Path(shutil.copytree(packed[2], folder / "packed 3")))
        source = (packed[3] / "code/own.py").read_text()
        (packed[3] / "code/own.py").write_text(source.replace("class Mine", "class Kept").replace("class Exits", "class Mine"))
    wanted: dict[str, str] = {}
    kinds = [kind for kind in HOSTILE if own_code or "code" not in kind]
    for number in range(count):
        hostile = kinds[(number // 3) % len(kinds)] if number % 3 == 2 else ""
        base = packed[2] if hostile == "code that raises" else packed[number % len(packed)]
        if hostile == "a bound":
            base = packed[0]
        entry = Path(shutil.copytree(base, folder / "queue" / f"{number:02} {hostile or 'honest'}"))
        manifest = json.loads((entry / "manifest.json").read_text())
        manifest["name"] = f"Entry {number:02}"
        (entry / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        if hostile:
            HOSTILE[hostile][0](entry)
        wanted[entry.name] = HOSTILE[hostile][1] if hostile else ""
    return wanted
