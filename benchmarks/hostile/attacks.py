"""What a submitter gains by the manifest, by voids, by tokens and by trying again: on 0.2.0, and in an epoch.

    python benchmarks/hostile/attacks.py [B2 B3 B4 B6]

Run with the interpreter of either version: 0.2.0 has reruns of single entries, this one has epochs. The lines are the same.

* B2: the failures of a claim are declared void.
* B3: own code sends its judge's model a request that breaks the server, once it is losing.
* B4: own code says that all of its prompt was cached, and that the model took no time.
* B6: one entry is handed in six times, with another description each time.
"""

import contextlib
import hashlib
import hmac
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from costgym.agents.models.base import Message, Reply
from costgym.agents.toolplanner.simulated import SimulatedToolPlanner
from costgym.experiments.board.reruns.process_agent import Meter
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.replay import digest_of
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.leaderboard import run
from costgym.simulators.calls import Usage
from costgym.simulators.errors import InfrastructureError

try:
    from costgym.experiments.board.epochs.epoch import create
    from costgym.experiments.board.epochs.judging import judge
    from costgym.experiments.board.epochs.options import EpochOptions
    from costgym.experiments.board.epochs.playing import own_code
    from costgym.experiments.board.reruns.process_agent import Limits
    from costgym.experiments.board.run_options import RunOptions
except ImportError:
    EPOCHS = False
else:
    EPOCHS = True

PASS = "pass_rate_under_budget"
TERMS: dict[str, Any] = {"budgets": "price=10", "episodes": 80}
OWN = """
from costgym.agents import make_agent
from costgym.agents.base import TEXT, Agent
from costgym.agents.models.base import Message


class Honest(Agent):
    env_id = TEXT

    def __init__(self):
        self.inner = make_agent("react", TEXT)
        self.handles = self.inner.handles

    def reset(self, seat, observation, info, seed):
        self.inner.reset(seat, observation, info, seed)

    def act(self, observation, info):
        return self.inner.act(observation, info)

    def observe(self, observation, reward, terminated, truncated, info):
        self.inner.observe(observation, reward, terminated, truncated, info)
        if "error" in observation:
            self.fails()

    def fails(self):
        pass


class Voids(Honest):
    def fails(self):
        self.handles[0].complete([Message("user", "break")], [])
"""


def entry(folder: Path, name: str, agent: str = "greedy", **about: str) -> Path:
    played = folder / "played"
    if not played.exists():
        run(make_run_config("quick", agents=[agent], **TERMS), played)
    return pack(played, folder / name, name, "a@example.org", **about)


def edit(packed: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((packed / "manifest.json").read_text())
    change(document)
    (packed / "manifest.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def declare_void(packed: Path) -> None:
    """Declare the failures of every row void, in all that a manifest says of them."""
    failed = {result.episode for result in validate(packed).results if not (result.strict and result.within_budget)}

    def declare(document: dict[str, Any]) -> None:
        [file] = document["files"]
        path = packed / file["path"]
        header, *lines = path.read_text().splitlines()
        kept = [line for line in lines if json.loads(line)["episode"] not in failed]
        path.write_text("".join(f"{line}\n" for line in [header, *kept]))
        file.update(void={str(index): "server down" for index in sorted(failed)}, digest=digest_of(path))

    edit(packed, declare)
    rows = [{name: value for name, value in row.items() if name != "by_episode"} for row in validate(packed).rows]
    edit(packed, lambda document: document.update(rows=rows))


def figures(folder: Path, entries: list[Path], secrets: list[str]) -> list[float]:
    """The figure that ranks each entry; in 0.2.0 each has a secret of its own."""
    if EPOCHS:
        terms = EpochOptions(tracks=("numbers",), tasks=20, worlds=3)
        create(folder / "epoch", RunOptions(budgets=TERMS["budgets"]), terms=terms)
        return [verdict.rows[0][PASS] for verdict in judge(entries, folder / "epoch", folder / "board")]
    from costgym.experiments.board.reruns.rerun import rerun

    found = []
    for number, (packed, secret) in enumerate(zip(entries, secrets, strict=True)):
        (folder / f"secret {number}").write_text(secret)
        [row] = rerun(packed, folder / f"secret {number}", folder / f"again {number}", sandbox="none")
        found.append(row.on_board({})[PASS])
    return found


def manifest_voids(folder: Path) -> str:
    made = [entry(folder, name) for name in ("Honest", "Void")]
    declare_void(made[1])
    honest, void = figures(folder, made, ["s" * 40] * 2)
    return f"{100 * honest:.1f} % -> {100 * void:.1f} %"


def breaks_the_model(folder: Path) -> str:
    (folder / "own.py").write_text(OWN)
    complete = SimulatedToolPlanner.complete

    def answer(self: Any, messages: Any, *arguments: Any) -> Any:
        if messages[-1].content == "break":
            raise InfrastructureError("HTTP 500")
        return complete(self, messages, *arguments)

    config, said = make_run_config("quick", agents=["react"], budgets="price=30", episodes=24), []
    with patch.object(SimulatedToolPlanner, "complete", answer):
        for name in ("Honest", "Voids"):
            track = config.tracks[0].model_copy(update={"agents": (f"own.py:{name}",)})
            whole = config.model_copy(update={"tracks": (track,)})
            row = next(whole.rows())
            if EPOCHS:
                outputs = own_code(whole, row, folder, "none", Limits())
            else:
                from costgym.experiments.board.reruns.rerun import _play

                outputs = _play(whole, row, None, folder, "none")
            results = [output.result for output in outputs if not output.result.void]
            passed = sum(result.strict and result.within_budget for result in results)
            said.append(f"{100 * passed / len(results):.1f} % ({24 - len(results)} of 24 void)")
    return " -> ".join(said)


def tokens(folder: Path) -> str:
    del folder
    meter = Meter()
    meter.add(Reply(Message("assistant", "text"), Usage(40_000, 500, 0, 30.0)))
    usage = {"input_tokens": 40_000, "output_tokens": 500, "cached_tokens": 40_000, "seconds": 0}
    paid = json.loads(meter.charge(json.dumps({"name": "x", "usage": usage})))["usage"]
    return f"of 40,000 read and 30 s: {paid['cached_tokens']:,} cached and {paid.get('seconds', 0):g} s believed"


def tries(folder: Path) -> str:
    made = [entry(folder, f"{n}", "random", description=f"try {n}") for n in range(6)]
    root = "the maintainer's secret, the same for all"
    secrets = [hmac.new(root.encode(), (each / "manifest.json").read_bytes(), hashlib.sha256).hexdigest() for each in made]
    found = figures(folder, made, secrets)
    ranks = sum(found) / 6 if EPOCHS else max(found)
    return f"six tries {100 * min(found):.1f} to {100 * max(found):.1f} %, of which {100 * ranks:.1f} % can rank"


def main() -> None:
    print("epochs" if EPOCHS else "0.2.0", sys.version.split()[0])
    attacks = {"B2": manifest_voids, "B3": breaks_the_model, "B4": tokens, "B6": tries}
    for name, play in attacks.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            print(f"{name}: {play(Path(folder))}", flush=True)


if __name__ == "__main__":
    main()
