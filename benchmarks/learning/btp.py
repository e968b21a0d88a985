"""BTP's usefulness classifier: how well it judges results of unseen tasks, and what BTP makes of it.

    python benchmarks/learning/btp.py

The second table plays BTP with either judge of results, in collecting experience as well as in the episodes: `PBC` is the pass
rate under the budget.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from costgym.agents.btp.usefulness import load_usefulness
from costgym.agents.registry import make_agent
from costgym.envs.registration import make
from costgym.experiments.play.experience import ExperienceSettings, collect_experience
from costgym.experiments.play.metrics import summarise
from costgym.experiments.play.rollout import rollout
from costgym.experiments.train.usefulness.train import train_btp
from costgym.simulators.scenario import load_scenario


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/btp"), help="folder of the run")
    parser.add_argument("--scenario", default="marketplace")
    parser.add_argument("--episodes", type=int, default=1500, help="episodes to learn from; a third as many are held out")
    parser.add_argument("--agents", default="react+btp,dfsdt+btp")
    parser.add_argument("--play", type=int, default=300, help="episodes of each agent with each judge")
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None, help="also write the rows to a file")
    args = parser.parse_args()
    scenario = load_scenario(args.scenario)
    cpu = time.process_time()
    held_out = max(1, args.episodes // 3)
    figures = train_btp(args.out, scenario, args.seed, episodes=args.episodes, held_out=held_out).metrics
    print(
        f"{int(figures['train_examples'])} results to learn from, {int(figures['examples'])} of unseen tasks to judge", end=""
    )
    print(f" ({figures['helpful_share']:.1%} help); {time.process_time() - cpu:.1f} s of the CPU")
    print(f"{'judge':10} {'accuracy':>9} {'precision':>9} {'recall':>9} {'AUC':>7}")
    for judge, before in (("rules", "rules_"), ("learnt", "")):
        shares = " ".join(f"{figures[before + name]:9.1%}" for name in ("accuracy", "precision", "recall"))
        print(f"{judge:10} {shares} " + (f"{figures['auc']:7.4f}" if not before else f"{'-':>7}"))
    print(f"\n{'agent':12} {'judge':8} {'PBC':>7} {'95 % interval':>16} {'passes':>7} {'cost':>7}", flush=True)
    rows: list[dict[str, Any]] = []
    for judge, chosen in (("rules", None), ("learnt", load_usefulness(args.out))):
        experience = collect_experience(scenario, ExperienceSettings(uses=5.0, seed=args.seed), usefulness=chosen)
        for name in args.agents.split(","):
            agent = make_agent(name, experience=experience, usefulness=chosen)
            env = make(
                agent.env_id,
                scenario=scenario,
                split="test",
                budget={"price": args.budget},
                enforcement="record",
                max_steps=400,
                disable_env_checker=True,
            )
            row = summarise(rollout(env, agent, args.play, args.seed), "strict", seed=args.seed)
            low, high = row["ci95"]["pass_rate_under_budget"]
            interval = f"[{low:.1%}, {high:.1%}]"
            print(
                f"{name:12} {judge:8} {row['pass_rate_under_budget']:7.1%} {interval:>16} {row['pass_rate']:7.1%} "
                f"{row['average_cost']:7.2f}",
                flush=True,
            )
            rows.append({"agent": name, "judge": judge, "pass_rate_under_budget": row["pass_rate_under_budget"],
                         "pass_rate": row["pass_rate"], "average_cost": row["average_cost"]})  # fmt: skip
    if args.json is not None:
        args.json.write_text(json.dumps({"metrics": figures, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
