"""ToolPlanner's two stages and its feedbacks, on tasks that no learner saw.

    OMP_NUM_THREADS=1 python benchmarks/learning/toolplanner.py --out runs/toolplanner

trains stage 1, stage 2, and stage 2 without each of its feedbacks from the same stage 1 and the same solution trees; then plays
each on the test split, without a budget. Prints the match rate at each instruction level, the pass rate (an answer that says
something, as the paper means it), the share of answers that hold every fact, with 95 % intervals, the calls of an episode, and
the paired differences. `--parts tags,path` also trains both stages without them. A run that is there already is continued, or
only played. The trained models are tiny; arguments, reading of results and the words of answers are not theirs (see
`agents/toolplanner/learnt.py`).
"""

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from costgym.agents.toolplanner.tree import REQUIRES
from costgym.experiments.pages.learning_curves import publish
from costgym.experiments.papers.toolplanner import Followed, follow
from costgym.experiments.play.statistics import intervals
from costgym.experiments.train.run import Callback
from costgym.experiments.train.toolplanner.train import train_toolplanner

LEVELS = ("category", "tool", "api", "hybrid")
FEEDBACKS: dict[str, dict[str, Any]] = {
    "stage 2": {},
    "no following": {"following": False},
    "no completion": {"completion": False},
}
Rows = dict[str, list[Followed]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/toolplanner"))
    parser.add_argument("--scenario", default="marketplace")
    parser.add_argument("--episodes", type=int, default=400, help="test tasks, each played at every level")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", default="", help="tags, path: also train without them")
    parser.add_argument("--only", default=",".join(FEEDBACKS), help="of the second stages")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=JSON", help="another setting")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = {name: json.loads(value) for name, value in (each.split("=", 1) for each in args.set)}
    print(f"# {platform.processor() or platform.machine()}, torch {torch.__version__}, one thread", flush=True)
    names = [name.strip() for name in args.only.split(",")]
    runs: dict[str, Path] = {}
    for name in names:
        run = args.out / name.replace(" ", "-")
        first = runs.get("stage 1")
        train(run, args, {**settings, **FEEDBACKS[name]}, first)
        runs.setdefault("stage 1", run / "sft")
        runs[name] = run
    for part in filter(None, args.parts.split(",")):
        run = args.out / f"no-{part}"
        train(run, args, {**settings, part: False}, None)
        runs[f"no {part}"] = run
    table = [measure(name, run, args) for name, run in runs.items()]
    differences(table)
    if args.json is not None:
        args.json.write_text(json.dumps([{k: v for k, v in row.items() if k != "flags"} for row in table], indent=1) + "\n")


class _Say(Callback):
    def on_message(self, text: str) -> None:
        print(f"#   {text}", flush=True)


def train(run: Path, args: argparse.Namespace, settings: dict[str, Any], first: Path | None) -> None:
    began, cpu = time.monotonic(), time.process_time()
    result = train_toolplanner(run, args.scenario, args.seed, sft=first, callback=_Say(), **settings)
    minutes, own = (time.monotonic() - began) / 60, (time.process_time() - cpu) / 60
    page = publish(run)
    print(f"# {run}: {result.steps} steps, {minutes:.1f} min ({own:.1f} of the CPU); {page}", flush=True)


def measure(name: str, run: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Play one policy on the test tasks at every level; flags are (matched, passed, every fact, judged) of each
    episode."""
    cpu = time.process_time()
    flags: dict[str, np.ndarray[Any, Any]] = {}
    calls = 0
    for level in LEVELS:
        found = follow(f"toolplanner:{run}", level, args.episodes, args.seed, args.scenario)
        calls += sum(each.result.calls for each in found)
        flags[level] = np.array([[f.matched, f.meaningful, f.result.strict, f.result.judged] for f in found], float)
    whole = np.concatenate([flags[level] for level in LEVELS])
    row: dict[str, Any] = {"policy": name, "episodes": len(whole), "flags": whole, "calls": calls / len(whole)}
    for level in LEVELS:
        assert REQUIRES[level]
        row[f"match_{level}"] = float(flags[level][:, 0].mean())
        row[f"pass_{level}"] = float(flags[level][:, 1].mean())
    lows, highs = intervals(whole, np.ones_like(whole), range(len(whole)), args.seed, 2000)
    for column, figure in enumerate(("match", "pass", "strict", "judged")):
        row[figure] = float(whole[:, column].mean())
        row[f"{figure}_ci95"] = [float(lows[column]), float(highs[column])]
    levels = "  ".join(f"{level} {100 * row[f'match_{level}']:5.1f}" for level in LEVELS)
    print(
        f"{name:14} match {_figure(row, 'match')}  ({levels})  pass {_figure(row, 'pass')}  every fact {_figure(row, 'strict')}"
        f"  judged {_figure(row, 'judged')}  {row['calls']:.1f} calls an episode  # {(time.process_time() - cpu) / 60:.1f} min",
        flush=True,
    )
    return row


def _figure(row: dict[str, Any], name: str) -> str:
    low, high = row[f"{name}_ci95"]
    return f"{100 * row[name]:5.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def differences(table: list[dict[str, Any]]) -> None:
    """Paired: the same tasks, levels and worlds."""
    rows = {row["policy"]: row for row in table}
    if "stage 2" not in rows:
        return
    for name in rows:
        if name == "stage 2":
            continue
        gap = rows["stage 2"]["flags"] - rows[name]["flags"]
        lows, highs = intervals(gap, np.ones_like(gap), range(len(gap)), 0, 2000)
        print(
            f"stage 2 less {name:14}: "
            + "  ".join(
                f"{figure} {100 * gap[:, column].mean():+.1f} [{100 * lows[column]:+.1f}, {100 * highs[column]:+.1f}]"
                for column, figure in enumerate(("match", "pass", "every fact"))
            )
        )


if __name__ == "__main__":
    main()
