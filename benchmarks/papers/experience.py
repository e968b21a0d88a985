"""Play BTP over the number of past uses that it plans from, further than `costgym reproduce btp`: up to 200 a tool.

    python benchmarks/papers/experience.py --episodes 300 --out runs/experience --json benchmarks/results/experience.json

It also says what plans are made from: how much a use of a tool that serves one of the task's needs is expected to help, beside
one of any other tool on offer, how often a plan within 20 leaves a need without a tool, and what a threshold would leave
out. `--remembered all` remembers all branches of the explorer's searches, and not only the answered paths.

Uses that are not shipped or in the cache are collected first, which takes about eight processor minutes for 200 a tool, once.
"""

import argparse
import json
from pathlib import Path

from costgym.agents.base import TEXT
from costgym.agents.btp.experience import Experience
from costgym.agents.btp.plan import BtpSettings, plan_tool_usage
from costgym.envs.base import base_env
from costgym.envs.registration import make
from costgym.experiments.papers.btp import PROTOCOLS, THRESHOLDS, Point, curve_rows, play_point
from costgym.experiments.papers.paper import PUBLISHED, Protocol
from costgym.experiments.papers.playing import BUDGET, enlarged, play_pieces
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import describe_experience, first_uses, past_uses
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.files import write_atomically
from costgym.simulators.scenario import Scenario, load_scenario

USES = (0.0, 1.0, 3.0, 10.0, 20.0, 40.0, 100.0, 200.0)
AGENTS = ("react+btp", "dfsdt+btp", "tot-dfs+btp")


def plans_of(scenario: Scenario, protocol: Protocol, experience: Path, episodes: int, seed: int) -> dict[str, float]:
    """What BTP's plans for the test tasks are made from, and which share of the tools a threshold would leave out of them."""
    env = base_env(make(TEXT, scenario=scenario, split="test", budget={"price": BUDGET}, disable_env_checker=True))
    past, settings = Experience.load(experience), BtpSettings(**protocol.btp)
    serving: list[float] = []
    others: list[float] = []
    left_out = 0
    for index in range(episodes):
        number, world_seed, options = env.instance(index, seed)
        env.reset(seed=world_seed, options={"task": number, **options})
        quotes = env.quotes()
        estimates = dict(zip(quotes, past.estimates(env.query, list(quotes), settings), strict=True))
        values, caps = ([estimates[name][part] for name in quotes] for part in (0, 1))
        plan = dict(zip(quotes, plan_tool_usage(list(quotes.values()), values, caps, BUDGET), strict=True))
        needs = [set(need.tools) & set(quotes) for need in env.task.needs]
        for name in quotes:
            (serving if any(name in need for need in needs) else others).append(estimates[name][0])
        left_out += any(not any(plan[name] for name in need) for need in needs)
    return {
        "value of tools that serve a need": sum(serving) / len(serving),
        "value of others": sum(others) / len(others),
        "tasks with a need without a planned tool": left_out / episodes,
    } | {
        f"{what} below tau = {tau:g}": sum(value < tau for value in values) / len(values)
        for tau in THRESHOLDS
        for what, values in (("tools that serve a need", serving), ("others", others))
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--protocol", choices=("published", "board"), default=PUBLISHED)
    parser.add_argument("--remembered", choices=("path", "all"), default="path")
    parser.add_argument("--uses", type=float, nargs="+", default=USES, help="past uses a tool")
    parser.add_argument("--out", type=Path, required=True, help="folder of the episodes; repeating the command continues")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    protocol = next(protocol for protocol in PROTOCOLS if protocol.name == args.protocol)
    assert protocol.experience is not None
    scenario = protocol.scenario(enlarged(load_scenario("marketplace"), args.episodes))
    most = protocol.experience.model_copy(update={"uses": max(args.uses), "remembered": args.remembered})
    text, tools = past_uses(scenario, most, Local(args.jobs)), len(scenario.build().catalog)
    args.out.mkdir(parents=True, exist_ok=True)
    points = {}
    for at in args.uses:
        path = args.out / f"experience-{at:g}.jsonl"
        write_atomically(path, first_uses(text, at * tools))
        points |= {f"{agent}-{at:g}": Point(agent, "uses", at, str(path)) for agent in AGENTS}
    manifest = {
        "scenario": scenario.digest, "protocol": protocol.name, "episodes": args.episodes, "seed": args.seed,
        "remembered": args.remembered,
    }  # fmt: skip
    shared = scenario.model_dump_json(), protocol, args.episodes, args.seed
    lines = play_pieces(args.out / "episodes", manifest, play_point, shared, points, args.jobs)
    played = {point: [EpisodeResult.from_json(line) for line in lines[name]] for name, point in points.items()}
    rows = curve_rows(played, args.seed)
    for row in rows:
        shares = f"{100 * row['judged_pass_rate_under_budget']:.1f} / {100 * row['pass_rate_under_budget']:.1f}"
        print(f"{row['agent']}, {row['at']:g} uses a tool: PBC {shares} (judge / strict), AC {row['average_cost']:.1f}")
    plans = [plans_of(scenario, protocol, args.out / f"experience-{at:g}.jsonl", args.episodes, args.seed) for at in args.uses]
    for at, plan in zip(args.uses, plans, strict=True):
        print(f"{at:g} uses a tool: " + ", ".join(f"{name} {value:.3f}" for name, value in plan.items()))
    if args.json is not None:
        document = {
            "protocol": protocol.name, "seed": args.seed, "remembered": args.remembered,
            "experience": describe_experience(text), "rows": rows, "plans": dict(zip(map(str, args.uses), plans, strict=True)),
        }  # fmt: skip
        write_atomically(args.json, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
