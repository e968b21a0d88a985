"""Play the attacks of a review of 0.2.0.dev on a tree: what does an attacker get?

    python benchmarks/hostile/review.py [--tree FOLDER] [--only NAME] [--json FILE]

Each attack is played by the commands and classes of that tree, which is this one by default, or a checkout of an older commit.
docs/adversaries.md has the answers of both.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
AGENTS = '''
import json
from pathlib import Path
from costgym.agents import Agent, make_agent
from costgym.agents.classic import GreedyAgent
from costgym.simulators.errors import InfrastructureError

try:
    from costgym.experiments.play.trajectories.record import digest
except ImportError:
    from costgym.experiments.trajectories.record import digest

BOOK = json.loads((Path(__file__).parent / "book.json").read_text())


class Book(GreedyAgent):
    """Plays the oracle's actions in the public episodes, which it knows by their first observation, and greedy elsewhere."""

    def __init__(self):
        super().__init__()
        self.met = {}

    def reset(self, seat, observation, info, seed):
        super().reset(seat, observation, info, seed)
        key = digest(observation)
        pages = BOOK.get(key, [[]])
        self.met[key] = self.met.get(key, -1) + 1
        self.page = list(pages[self.met[key] % len(pages)])

    def act(self, observation, info):
        greedy = super().act(observation, info)
        return self.page.pop(0) if self.page else greedy


class Free(Agent):
    """Says that it used no tokens."""

    env_id = "costgym/MarketplaceChat-v0"

    def __init__(self):
        self.inner = make_agent("dfsdt", self.env_id)
        for name in ("handles", "ports"):
            if hasattr(self.inner, name):
                setattr(self, name, getattr(self.inner, name))

    def reset(self, *told):
        self.inner.reset(*told)

    def act(self, observation, info):
        action = json.loads(self.inner.act(observation, info))
        return json.dumps({**action, "usage": {"input_tokens": 0, "output_tokens": 0}})

    def observe(self, *told):
        self.inner.observe(*told)


class Choosy(GreedyAgent):
    """Declares the infrastructure broken once a call has failed."""

    def act(self, observation, info):
        if observation["tools"][:, 14].any():
            raise InfrastructureError("server down")
        return super().act(observation, info)


class Public(GreedyAgent):
    """Crashes in every episode that is not public."""

    def reset(self, seat, observation, info, seed):
        if digest(observation) not in BOOK:
            raise RuntimeError("an unknown episode")
        super().reset(seat, observation, info, seed)


class Nests(Agent):
    def reset(self, *told):
        pass

    def act(self, observation, info):
        import os
        body = b"[" * 200000
        for number in range(3, 32):
            try:
                if "pipe" in os.readlink(f"/proc/self/fd/{number}"):
                    os.write(number, len(body).to_bytes(8, "big") + body)
            except OSError:
                continue
        return 0


class Word(Nests):
    def act(self, observation, info):
        return "finish"


class Long(Nests):
    env_id = "costgym/MarketplaceChat-v0"

    def act(self, observation, info):
        return json.dumps({"name": "think", "arguments": {"x": "x" * 6_000_000}})
'''
COMMON = """
import json, sys, time, os
from pathlib import Path
def imported(*names):
    import importlib
    for name in names:
        module, _, thing = name.rpartition(".")
        try:
            return getattr(importlib.import_module("costgym." + module), thing)
        except (ImportError, AttributeError):
            continue
    raise ImportError(names)
ProcessAgent = imported("experiments.board.reruns.process_agent.ProcessAgent", "experiments.leaderboard.reruns.process_agent.ProcessAgent")
NEW = ".board." in ProcessAgent.__module__
CONFINED = {"sandbox": "bubblewrap"} if NEW else {}
"""  # noqa: E501


class Tree:
    """A checkout whose commands are played in a folder."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        self.new = (root / "experiments/board").is_dir()
        (folder / "code").mkdir()
        (folder / "judge").mkdir()
        self.write("own.py", AGENTS)
        self.write("book.json", "{}")

    def write(self, name: str, text: str) -> None:
        """Write a file of the agents, where they play and where they are run again."""
        for place in (self.folder, self.folder / "code"):
            (place / name).write_text(text)

    def run(self, *arguments: str, limit_s: float = 300) -> tuple[int, str]:
        """A costgym command: its status and its last line."""
        return self._said([sys.executable, "-m", "costgym", *arguments], limit_s)

    def python(self, code: str, limit_s: float = 120) -> str:
        """The last line that a program of this tree prints."""
        return self._said([sys.executable, "-c", COMMON + code], limit_s)[1]

    def _said(self, command: list[str], limit_s: float) -> tuple[int, str]:
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            return 124, f"no answer within {limit_s:g} s"
        lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
        return done.returncode, lines[-1].strip() if lines else ""

    def board(self, out: str, *agents: str, **terms: str) -> list[dict[str, Any]]:
        """Play a leaderboard; returns its rows."""
        words = [word for name, value in terms.items() for word in (f"--{name}", value)]
        if not (self.folder / out).exists():
            status, said = self.run(
                "leaderboard", "--suite", "quick", "--agents", ",".join(agents), *words, "--out", out, "--jobs", "1", "--quiet"
            )
            if status:
                raise RuntimeError(said)
        return self.rows(out)

    def rows(self, out: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / out / "leaderboard.json").read_text())["rows"]
        return found

    def entry(self, name: str, agent: str, **terms: str) -> str:
        """Play an agent of `own.py`, and pack it."""
        self.board(f"{name}-board", f"own.py:{agent}", **terms)
        status, said = self.run("submit", "pack", f"{name}-board", "--out", name, "--name", name, "--contact", "a@example.org")
        return "" if status == 0 else said

    def rerun(self, name: str) -> tuple[int, str]:
        verb = ("submit", "rerun") if self.new else ("rerun",)
        (self.folder / "judge/secret").write_text("5" * 64)
        return self.run(*verb, name, "--secret-seed", "judge/secret", "--code", "code", "--out", f"{name}-again", "--quiet")


TERMS = {"budgets": "price=20", "episodes": "80"}


def passed(row: dict[str, Any]) -> float:
    """The figure that ranks, in percent."""
    return 100 * float(row["pass_rate_under_budget"])


def book(tree: Tree) -> str:
    """C1: the oracle's actions by heart."""
    tree.board("oracle", "oracle", **TERMS)
    [path] = (tree.folder / "oracle/trajectories/numbers").glob("oracle*.jsonl")
    pages: dict[str, list[list[int]]] = {}
    for line in path.read_text().splitlines()[1:]:
        record = json.loads(line)
        pages.setdefault(record["observations"][0], []).append(record["actions"])
    tree.write("book.json", json.dumps(pages))
    tree.board("official", "greedy", "cheapest", "oracle", **TERMS)
    tree.entry("book", "Book", **TERMS)
    said = tree.rerun("book")[1]
    status, problem = tree.run("leaderboard", "--out", "official", "--add", "book", "--rerun", "book-again", "--quiet")
    if status:
        return problem
    ranked = [row for row in tree.rows("official") if row["track"] == "numbers" and row["agent"] != "oracle"]
    mine = next(row for row in ranked if "own.py" in row["agent"])
    theirs = " and ".join(f"{row['agent']} {passed(row):.1f} %" for row in ranked if row is not mine)
    alarms = len(mine.get("alarms") or ())
    first = json.loads((tree.folder / "book-board/leaderboard.json").read_text())["rows"][0]
    return (
        f"rank {1 + ranked.index(mine)} of {len(ranked)} with {passed(mine):.1f} % (claimed {passed(first):.1f} %; {theirs}), "
        f"mark `{mine.get('verified')}`, {alarms} alarms; {said}"
    )


def tokens(tree: Tree) -> str:
    """C2: tokens are reported as none."""
    terms = {"budgets": "price=15", "episodes": "40"}
    [honest] = [row for row in tree.board("dfsdt", "dfsdt", **terms) if row["track"] == "text"]
    problem = tree.entry("free", "Free", **terms)
    [row] = [row for row in tree.board("free-board") if row["track"] == "text"]
    said = tree.run("submit", "validate", "free")[1]
    tree.board("chat", "dfsdt", **terms)
    tree.run("leaderboard", "--out", "chat", "--add", "free", "--quiet")
    rows = [each for each in tree.rows("chat") if each["track"] == "text"]
    mine = next(each for each in rows if "own.py" in each["agent"])
    apart = "" if mine.get("metered", True) else ", ranked apart as unmetered"
    return f"{passed(row):.1f} % at 15 credits, dfsdt {passed(honest):.1f} %{apart}; {problem or said.partition(': ')[2]}"


def infrastructure(tree: Tree) -> str:
    """C3: an agent declares the infrastructure broken."""
    honest = next(row for row in tree.board("greedy", "greedy", **TERMS) if row["track"] == "numbers")
    try:
        rows = tree.board("choosy", "own.py:Choosy", **TERMS)
    except RuntimeError as error:
        return str(error)
    row = next(row for row in rows if row["track"] == "numbers")
    return f"{passed(row):.1f} %, {row.get('void_episodes', 0)} void episodes (greedy {passed(honest):.1f} %)"


def sandbox(tree: Tree) -> str:
    """C4: the process of a rerun: every probe that does no harm."""
    for name in ("inside.py", "attempts.py"):
        shutil.copy(ROOT / "tests/adversaries" / name, tree.folder / "code" / name)
    place = {name: str(tree.folder / "judge" / name) for name in ("secret", "helper")}
    (tree.folder / "judge/secret").write_text("s" * 40)
    told = {**place, "home": str(tree.folder), "package": str(tree.root / "costgym"), "key": "sk-none", "port": 9,
            "abstract": "-", "judge": os.getpid(), "handles": [], "confined": False, "threads": 1, "left_out": []}  # fmt: skip
    (tree.folder / "code/told.json").write_text(json.dumps(told))
    said = tree.python(
        "import socket\n"
        "with socket.socket(socket.AF_UNIX) as helper:\n"
        f"    helper.bind({place['helper']!r}); helper.listen()\n"
        "    with ProcessAgent('inside.py:Probes', 'costgym/Marketplace-v0', Path('code'), **CONFINED) as agent:\n"
        "        print(agent.act({}, {}))"
    )
    found = json.loads(said)
    done = [name for name, answer in found.items() if answer == "done"]
    names = (
        "connects to a Unix socket",
        "makes a hard link to the secret",
        "writes the package that judges it",
        "writes site-packages",
    )
    some = [name for name in names if name in done]
    return f"{len(done)} of {len(found)} probes succeed" + (f", among them: {'; '.join(some or done[:9])}" if done else "")


def frames(tree: Tree) -> str:
    """C5: a frame that cannot be read, and a word where a number is expected."""
    answer = tree.python(
        "with ProcessAgent('own.py:Nests', 'costgym/Marketplace-v0', Path('code'), **CONFINED) as agent:\n"
        "    try:\n"
        "        agent.reset(None, {}, {}, 0)\n"
        "        print('action', repr(agent.act({}, {})))\n"
        "    except BaseException as error:\n"
        "        print(type(error).__name__)"
    )
    try:
        [row] = tree.board("word", "own.py:Word", budgets="price=20", episodes="2")
        word = f"{row.get('crashed_episodes', 0)} of 2 episodes crash"
    except RuntimeError as error:
        word = f"the run ends: {error}"
    return f'200,000 `[`: {answer}; "finish" in numbers: {word}'


def long_text(tree: Tree) -> str:
    """C5: megabytes of text in an action."""
    try:
        rows = tree.board("long", "own.py:Long", budgets="price=20", episodes="1")
    except RuntimeError as error:
        return str(error)
    size = sum(path.stat().st_size for path in (tree.folder / "long").rglob("*.jsonl"))
    return f"{size / 1e6:.2f} MB are stored of 6 MB, {len(rows)} row"


def yaml(tree: Tree) -> str:
    """C6: nested aliases, and a key that is given twice."""
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 10))
    (tree.folder / "aliases.yaml").write_text(f"l0: &l0 [x, x, x]\n{levels}")
    preset = (tree.root / "simulators/presets/marketplace.yaml").read_text()
    (tree.folder / "twice.yaml").write_text(f"{preset}\nfailures: reliable\n")
    said = []
    for name in ("aliases", "twice"):
        begin = time.monotonic()
        answer = tree.python(
            "from costgym.simulators.scenario import load_scenario\n"
            f"try:\n    load_scenario('{name}.yaml'); print('accepted')\n"
            "except Exception as error:\n    print(f'refused: {error!s:.120}')",
            40,
        )
        said.append(f"{name}: {answer} ({time.monotonic() - begin:.0f} s)")
    return "; ".join(said)


def lock(tree: Tree) -> str:
    """C7: a board is verified while somebody writes to it."""
    tree.board("greedy", "greedy", **TERMS)
    with (tree.folder / "greedy/.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        status, said = tree.run("verify", "greedy")
    return f"status {status}: {said[-110:]}"


def outage(tree: Tree) -> str:
    """C8: plans that exist and that the optimum misses."""
    return tree.python(
        f"sys.path.insert(0, {str(tree.root)!r})\n"
        "from tests.helpers.worlds import small_world, tool\n"
        "from costgym.simulators.calls import WorldEvent\n"
        "from costgym.simulators.failures import Bursts, FailureModel\n"
        "from costgym.simulators.ledger import Budget\n"
        "from costgym.simulators.oracle.optimum import optimum\n"
        "events = [WorldEvent(0.0, 'ban', (0,)), WorldEvent(1.0, 'unban', (0,))]\n"
        "failures = FailureModel(usable=1.0, slip=0.0, bursts=Bursts(every_s=2.0, lasts_s=1.0))\n"
        "world = small_world(tool('a'), failures=failures, events=events, copies=40)\n"
        "missed = sum(not optimum(world, number, 0, Budget(calls=1)).feasible for number in range(40))\n"
        "print(f'{missed} of 40 feasible worlds are called infeasible')"
    )


def junk(tree: Tree) -> str:
    """C9: an entry is packed from a run whose episodes are junk, and a board of them is verified."""
    tree.board("greedy", "greedy", **TERMS)
    shutil.copytree(tree.folder / "greedy", tree.folder / "junk")
    path = next((tree.folder / "junk/trajectories").rglob("*.jsonl"))
    path.write_text(path.read_text().splitlines()[0] + "\njunk\n")
    packed, _ = tree.run("submit", "pack", "junk", "--out", "packed-junk", "--name", "junk", "--contact", "a@example.org")
    verified, _ = tree.run("verify", "junk")
    return f"pack: {'accepted' if packed == 0 else 'refused'}; verify: {'accepted' if verified == 0 else 'refused'}"


def crash(tree: Tree) -> str:
    """C9: an agent that crashes in every secret world."""
    if (tree.folder / "book.json").read_text() == "{}":
        book(tree)
    tree.entry("public", "Public", **TERMS)
    _, said = tree.rerun("public")
    how = "with its verdict" if (tree.folder / "public-again/rerun.json").exists() else "without a verdict"
    return f"the rerun ends {how}: {said}"


ATTACKS: dict[str, Callable[[Tree], str]] = {
    "C1, a book of oracle actions": book,
    "C2, no tokens": tokens,
    "C3, broken infrastructure": infrastructure,
    "C4, the process of a rerun": sandbox,
    "C5, frames": frames,
    "C5, megabytes of text": long_text,
    "C6, YAML": yaml,
    "C7, readers without a lock": lock,
    "C8, plans that the optimum misses": outage,
    "C9, junk": junk,
    "C9, a crash in the secret world": crash,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="The attacks of a review.")
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--only", default="", help="attacks whose names have one of these parts, with commas between")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(arguments.tree.resolve(), Path(folder))
        for name, attack in ATTACKS.items():
            if any(part in name for part in arguments.only.split(",")):
                try:
                    found[name] = attack(tree)
                except Exception as error:  # of an old tree: what it says is the answer
                    found[name] = f"{type(error).__name__}: {error}"
                print(f"{name}: {found[name]}", flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
