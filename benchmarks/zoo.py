"""Train the agents that ship in `agents/zoo`, pack them with their cards, and record the default leaderboard's rows of them.

    python benchmarks/zoo.py train --runs runs/zoo       # about 20 minutes of processor time; finished runs are kept
    python benchmarks/zoo.py pack --runs runs/zoo
    python benchmarks/zoo.py record --board runs/zoo-board

`forged` needs the folder `worlds` of docs/results/forge.md, `deer-minilm` a link `tooldeer` to DEER's data. The record is
what machines without torch show. It holds for one version of costgym and of its worlds, so after a change of either, `record`
is due again; the tests say so.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costgym.agents.checkpoints import OPTIMIZER, newest
from costgym.agents.zoo.cards import CARD, FOLDER, Card, digest

AGENTS: dict[str, tuple[str, str, str]] = {
    "ppo": (
        "sb3",
        "masked PPO in the default marketplace, trained within 30 credits",
        "costgym train ppo --steps 100000 --budget price=30",
    ),
    "lagrangian": (
        "sb3",
        "the same under a limit of 7 credits on the mean price, held by a Lagrange multiplier",
        "costgym train ppo --steps 400000 --split train-large --budget price=30 --cost-limit 7",
    ),
    "forged": (
        "sb3",
        "masked PPO in eight thousand forged worlds, trained within 20 credits to play in worlds it has never seen",
        "costgym train ppo --scenario worlds/train --steps 400000 --budget price=20",
    ),
    "catp": (
        "catp",
        "CATP: cost-aware plans of OpenCATP's tools, by a small model of its own",
        "costgym train catp --steps 800",
    ),
    "deer": ("deer", "DEER: whether to search and what to call, by a small model of its own", "costgym train deer"),
    "deer-minilm": (
        "deer",
        "DEER on its authors' queries: two maps learnt on MiniLM's vectors of queries and tools",
        "costgym train deer --data tooldeer --model minilm --remembered 2000",
    ),
    "toolplanner": (
        "toolplanner",
        "ToolPlanner's two stages on a small model of its own, fewer steps than by default",
        "costgym train toolplanner --steps 1000 --rank-tasks 1000 --rank-steps 300",
    ),
    "sessions": (
        "sessions",
        "masked PPO on version 1 of sessions at the level medium, the best weights on valid",
        "costgym train ppo --env costgym/MarketplaceSession-v1 --steps 6000000 --seed 0",
    ),
}
"""By folder. `sessions` ships the best weights on valid of `learning/sessions.py learn tools`; `sessions-v0`, of version 0.2,
stays for version 0 of sessions."""
ENTRIES = {
    "recorded": (["zoo:toolplanner"], "Trained, and too slow to be played by default: recorded, and replayed here."),
    "replayed": (
        ["zoo:catp", "zoo:deer", "zoo:lagrangian", "zoo:ppo", "zoo:sessions-v0"],
        "Trained agents that ship: recorded, and replayed here. costgym leaderboard --play-zoo plays them.",
    ),
}
"""Entries of the default leaderboard: their name, which rows show, their agents, and what they are."""
SECONDS = "processor_seconds"
"""File beside a run: what training took."""


def train(runs: Path) -> None:
    for name, (_, _, arguments) in AGENTS.items():
        out = runs / name
        if (out / "metrics.json").is_file():
            continue
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = arguments.replace("costgym", "-m costgym").removeprefix("python ").split()
        subprocess.run([sys.executable, *command, "--out", str(out)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        (runs / f"{name}.{SECONDS}").write_text(f"{seconds:.1f}\n")


def pack(runs: Path) -> None:
    for name, (kind, summary, arguments) in AGENTS.items():
        run, folder = runs / name, FOLDER / name
        if not (run / "metrics.json").is_file():
            print(f"{name}: {run} is no finished run; train first", file=sys.stderr)
            continue
        shutil.rmtree(folder, ignore_errors=True)
        checkpoint = newest(run)
        shutil.copytree(checkpoint, folder / checkpoint.relative_to(run), ignore=shutil.ignore_patterns(OPTIMIZER))
        if (run / "tokenizer").is_dir():
            shutil.copytree(run / "tokenizer", folder / "tokenizer")
        for file in ("config.json", "curve.jsonl", "metrics.json"):
            shutil.copy(run / file, folder / file)
        config = json.loads((folder / "config.json").read_text())
        card = Card(
            summary=summary,
            kind=kind,  # type: ignore[arg-type]
            command=f"{arguments} --out runs/{name}",
            seed=config["settings"]["seed"],
            date=time.strftime("%Y-%m-%d"),
            version=config["version"],
            processor_minutes=round(float((runs / f"{name}.{SECONDS}").read_text()) / 60, 1),
            figures=numbers((run / "metrics.json").read_text()),
            files={str(path.relative_to(folder)): digest(path) for path in sorted(folder.rglob("*")) if path.is_file()},
        )
        (folder / CARD).write_text(card.model_dump_json(indent=1) + "\n")
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{name}: {size / 2**20:.2f} MiB")


def numbers(text: str) -> dict[str, float]:
    document: dict[str, Any] = json.loads(text)
    return {key: round(value, 4) for key, value in document.items() if isinstance(value, int | float)}


def record(board: Path, world: int, names: Sequence[str]) -> None:
    from costgym.experiments.board.run_config import make_run_config
    from costgym.experiments.board.submissions.submission import RECORDED
    from costgym.experiments.board.submissions.submission import pack as pack_submission
    from costgym.experiments.leaderboard import run
    from costgym.experiments.play.execution.engine import Local

    for entry in names:
        agents, about = ENTRIES[entry]
        name = f"{entry} {world}" if world else entry
        shutil.rmtree(RECORDED / name, ignore_errors=True)
        done = run(make_run_config("quick", agents=agents, world=None if world else 0), board / name, engine=Local(1))
        pack_submission(done.folder, RECORDED / name, name, "costgym", description=about, date=time.strftime("%Y-%m-%d"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("train", "pack", "record"))
    parser.add_argument("--runs", type=Path, default=Path("runs/zoo"))
    parser.add_argument("--board", type=Path, default=Path("runs/zoo-board"))
    parser.add_argument("--world", type=int, default=1, help="0 for version 0 of the world, 1 for the suite's own")
    parser.add_argument("--entries", nargs="*", default=list(ENTRIES), choices=list(ENTRIES), help="entries that are recorded")
    args = parser.parse_args()
    if args.stage == "train":
        train(args.runs)
    elif args.stage == "pack":
        pack(args.runs)
    else:
        record(args.board, args.world, args.entries)


if __name__ == "__main__":
    main()
