"""Play the references of the marketplace on the same episodes, and compare each with `oracle-informed` in pairs.

    python benchmarks/references.py --episodes 400 --seeds 3 --json benchmarks/results/references.json

Every agent plays the first test tasks under each seed, so that all meet the same luck. The gap is the mean of
`oracle-informed`'s Quality of Plan minus the agent's, with a 95 % interval over episodes.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import costgym
from costgym.agents import make_agent
from costgym.experiments.play.episodes import play

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report

ENV = "costgym/Marketplace-v0"
AGENTS = ("do-nothing", "random", "cheapest", "greedy", "bayes-index", "zoo:ppo")


def played(name: str, scenario: str, seeds: int, episodes: int) -> tuple[list[float], list[bool]]:
    """Quality of Plan and success of every episode."""
    env = costgym.make(ENV, scenario=scenario, split="test", disable_env_checker=True)
    world, agent = env.unwrapped, make_agent(name, ENV)
    quality, passed = [], []
    for seed in range(seeds):
        for number in world.numbers[:episodes]:  # type: ignore[attr-defined]
            play(env, agent, number, seed)
            quality.append(world.quality())  # type: ignore[attr-defined]
            passed.append(bool(world.succeeded))  # type: ignore[attr-defined]
    return quality, passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", default="marketplace,marketplace-hard,storm,faas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=400, help="test tasks under each seed")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for scenario in args.scenarios.split(","):
        informed, passed = played("oracle-informed", scenario, args.seeds, args.episodes)
        rows.append({"scenario": scenario, "agent": "oracle-informed", "pass": np.mean(passed), "return": np.mean(informed)})
        for name in AGENTS:
            quality, passed = played(name, scenario, args.seeds, args.episodes)
            gap = np.array(informed) - np.array(quality)
            half = 1.96 * float(gap.std()) / len(gap) ** 0.5
            row = {"scenario": scenario, "agent": name, "pass": np.mean(passed), "return": np.mean(quality)}
            rows.append({**row, "gap": float(gap.mean()), "gap_half": half})
            print(
                f"{scenario:18} {name:12} {np.mean(passed):.3f} {np.mean(quality):.4f} {gap.mean():+.4f} ± {half:.4f}",
                flush=True,
            )
    report = [{key: value if isinstance(value, str) else float(value) for key, value in row.items()} for row in rows]
    write_report({"episodes": args.seeds * args.episodes, "rows": report}, args.json, ("numpy", "gymnasium"))


if __name__ == "__main__":
    main()
