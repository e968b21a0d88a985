"""Collecting, verifying and exporting hold memory flat, however many steps there are.

    python benchmarks/streaming.py [steps] [stage,stage,...] [--json FILE]

Writes a trajectory file of about that many steps by playing a cheap agent in the numeric view, then verifies and exports it.
Every stage runs in a process of its own; its peak resident memory is compared with that of the same stage over a tenth of the
steps.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STAGES = ("collect", "verify", "parquet", "hf", "minari")
EPISODES_PER_STEP = 1 / 16
"""Random play in the storm takes about 16 steps an episode."""


def collect(folder: Path, episodes: int) -> None:
    import costgym
    from costgym.agents.registry import make_agent
    from costgym.experiments.play.collect import collect as record_episodes

    agent = make_agent("random")
    env = costgym.make(agent.env_id, scenario="storm", split="train", max_steps=400, disable_env_checker=True)
    record_episodes(env, agent, episodes, folder)


def run_stage(stage: str, folder: Path, episodes: int) -> None:
    from costgym.experiments.board.verify import verify
    from costgym.experiments.play.export.formats import export

    path = folder / "trajectories.jsonl"
    if stage == "collect":
        collect(folder, episodes)
    elif stage == "verify":
        verdict = verify(path)
        assert verdict.verified and verdict.episodes == episodes, verdict.problems[:3]
    elif stage == "minari":
        export(path, "minari", "bench/streaming-v0", root=folder / "minari")
    else:
        export(path, stage, folder / f"steps.{stage}")


def measure(stage: str, folder: Path, episodes: int) -> dict[str, float]:
    begin = time.monotonic()
    command = [sys.executable, __file__, "--stage", stage, str(folder), str(episodes)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return {"peak_mb": float(done.stdout.split()[-1]), "seconds": time.monotonic() - begin}


def steps_in(path: Path) -> int:
    with path.open() as lines:
        return sum(len(json.loads(line).get("actions", ())) for line in lines)


def main() -> None:
    if "--stage" in sys.argv:
        stage, folder, episodes = sys.argv[2:5]
        run_stage(stage, Path(folder), int(episodes))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    out = Path(arguments.pop()) if "--json" in sys.argv else None
    steps = int(arguments[0]) if arguments else 1_000_000
    stages = arguments[1].split(",") if len(arguments) > 1 else STAGES
    report: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        small, large = Path(place, "small"), Path(place, "large")
        many = int(steps * EPISODES_PER_STEP)
        for stage in stages:
            tenth, whole = measure(stage, small, many // 10), measure(stage, large, many)
            report[stage] = {"tenth_mb": tenth["peak_mb"], "whole_mb": whole["peak_mb"], "seconds": whole["seconds"]}
            print(f"{stage:8} {tenth['peak_mb']:7.0f} MB for a tenth, {whole['peak_mb']:7.0f} MB for all, "
                  f"{whole['seconds']:7.1f} s", flush=True)  # fmt: skip
        counted = steps_in(large / "trajectories.jsonl")
    print(f"{many} episodes, {counted} steps")
    if out is not None:
        out.write_text(json.dumps({"episodes": many, "steps": counted, "stages": report}, indent=1) + "\n")


if __name__ == "__main__":
    main()
