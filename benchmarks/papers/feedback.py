"""ToolPlanner's Table 5 on small models: trained with both kinds of feedback, without each of them, and without both.

    python benchmarks/papers/feedback.py --seeds 0,1,2,3,4 --out runs/feedback --json benchmarks/results/feedback.json

Of each seed the four share one first stage, which is the row without both, and one set of solution trees. They are played under
the published protocol, beside plain tree search with the same limits, or with `--protocol board` where they are trained: among
16 listed tools, with every one that an instruction names, of which they choose tags. Differences from both kinds are paired by
seed, with Student's intervals over the seeds, at each level and in the mean over the levels; each two agents are compared by
task, too, in the mean over the seeds, with intervals over the tasks. Runs and episodes are kept: a call that was stopped, or
one with more seeds, goes on.

    python benchmarks/papers/feedback.py --model models/smollm2 --seeds 0 --out runs/feedback --json runs/smollm2.json

With `--model` a published model learns both stages, in fewer steps, from the same demonstrations and the trees that the small
policy has grown; the two stages are the rows, beside the small policy's, and with `--ablated` stage 2 without each part. Its
learning rate is the one of `tags.py`. With `--own-trees` its own stage 1 grows the trees that it learns from.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.papers.presets import over_seeds
from benchmarks.report import write_report
from costgym.agents.toolplanner.settings import LearntSettings
from costgym.agents.toolplanner.tags import gold_tools
from costgym.agents.toolplanner.tree import REQUIRES, names
from costgym.envs.base import base_env
from costgym.experiments.papers.claims import interval_ends
from costgym.experiments.papers.paper import PUBLISHED, Job, Protocol, Row
from costgym.experiments.papers.playing import enlarged, text_env
from costgym.experiments.papers.toolplanner import (
    PROTOCOLS,
    REFERENCE,
    at_level,
    flags_of,
    follow_all,
    instruction_rows,
    of_group,
)
from costgym.experiments.train.run import METRICS
from costgym.experiments.train.toolplanner.data import demonstrations
from costgym.experiments.train.toolplanner.train import STAGE_ONE, train_toolplanner
from costgym.simulators.scenario import load_scenario
from costgym.simulators.tasks import LEVELS
from costgym.simulators.threads import torch_threads

LENGTHS: dict[str, Any] = {"tasks": 1500, "steps": 600, "rank_tasks": 1000, "rank_steps": 200}
PARTS: dict[str, dict[str, Any]] = {
    "both": {},
    "without-completion": {"completion": False},
    "without-following": {"following": False},
}
MODEL_SETTINGS: dict[str, Any] = {"learning_rate": 5e-4, "warmup_steps": 10}
Key = tuple[str, str]
Flags = dict[str, list[float]]
BASE, NEITHER = "dfsdt", "without-both"
FIGURES = {"match_rate": "Match", "meaningful_rate": "Pass", "win_rate": "Win"}
LEVELS_AND_ALL = (*((level, (level,)) for level in LEVELS), ("all", LEVELS))
"""Levels whose mean is shown, by name; at level statement no instruction names what to match."""


def train(seed: int, lengths: dict[str, Any], settings: dict[str, Any] | None, ablated: bool) -> list[str]:
    """Train the small policies of a seed, or with settings both stages of a published model from the trees of the small one, or
    from its own if they tell of how many tasks, each without a part too if `ablated`, or find them in their folders; return
    their agents' names."""
    shown = cache(partial(demonstrations, load_scenario("marketplace"), LearntSettings(seed=seed, **lengths)))
    whole, prefix, shared = "both", "", {**lengths, "device": "cpu", "shown": shown}
    small, trained = [], []
    if settings is not None:
        train_toolplanner(f"both-{seed}", seed=seed, **shared)
        small.append(f"both-{seed}")
        whole = learner_of(settings)
        prefix = f"{whole}-"
        shared |= {**MODEL_SETTINGS, **settings, "save_every": 10}
        if "rank_tasks" not in settings:
            shared["trees"] = Path(f"both-{seed}") / STAGE_ONE
    first = own = Path(f"{whole}-{seed}") / STAGE_ONE
    if settings is not None:
        known = Path(f"{Path(settings['model']).name}-{seed}") / STAGE_ONE
        first = known if (known / METRICS).is_file() else own  # whoever grew the trees, stage 1 is the same once it is trained
    for name, change in PARTS.items() if ablated else [("both", PARTS["both"])]:
        run = f"{whole}-{seed}" if name == "both" else f"{prefix}{name}-{seed}"
        train_toolplanner(run, seed=seed, sft=None if name == "both" and first == own else first, **{**shared, **change})
        trained.append(run)
    alone = f"{NEITHER if settings is None else f'{prefix}stage-1'}-{seed}"
    linked(alone, first)
    return [f"toolplanner:{run}" for run in (*small, alone, *trained)]


def learner_of(settings: dict[str, Any] | None) -> str:
    """Return the name of the policies that learn, of which their runs' names are made."""
    if settings is None:
        return "small"
    return Path(settings["model"]).name + ("-own" if "rank_tasks" in settings else "")


def linked(name: str, run: Path) -> None:
    """Let a run be found under another name."""
    if not Path(name).exists():
        Path(name).symlink_to(run)


def play(
    seed: int, agents: list[str], protocol: Protocol, episodes: int, jobs: int, folder: str
) -> tuple[dict[Key, Row], dict[Key, Flags]]:
    """Play the agents of a seed, with their episodes in a folder; return their rows, and what each task gave, by agent and
    level."""
    world = protocol.scenario(enlarged(load_scenario("marketplace"), 4 * episodes))
    played = follow_all([BASE, *agents], world, protocol, Job(seed, episodes, jobs, Path(folder)))
    rows = {(named(row["agent"], seed), row["level"]): row for row in instruction_rows(played, seed)}
    flags = {
        (named(agent, seed), level): flags_of(followed, played[REFERENCE, level, 1], level)
        for (agent, level, luck), followed in played.items()
        if not luck
    }
    return rows, flags


def within_reach(protocol: Protocol, episodes: int) -> dict[str, float]:
    """Return, at each level that names something, of how many tasks in a hundred every name is among the tools on offer; no
    policy that keeps to those can match more."""
    world = protocol.scenario(enlarged(load_scenario("marketplace"), 4 * episodes))
    shares = {}
    for level in filter(REQUIRES.__getitem__, LEVELS):
        view = base_env(text_env(at_level(world, level), level=level))
        assert view.world is not None
        wanted, offered = [], []
        for number in of_group(view.world, view.numbers, episodes):
            view.reset(seed=0, options={"task": number})
            wanted.append(names(gold_tools(view.task, view.world.catalog), REQUIRES[level]))
            offered.append(names(view.candidates, REQUIRES[level]))
        shares[level] = round(100 * float(np.mean([one <= all_ for one, all_ in zip(wanted, offered, strict=True)])), 2)
    return shares


def named(agent: str, seed: int) -> str:
    """Return the name of an agent in the report."""
    return agent.removeprefix("toolplanner:").removesuffix(f"-{seed}")


def compared(by_seed: Sequence[dict[Key, Flags]]) -> Iterator[Row]:
    """Compare each two agents on the same tasks, at each level and in a task's mean over the levels, both in its mean over the
    seeds, with intervals over the tasks."""
    for than, agent in combinations(dict.fromkeys(name for name, _ in by_seed[0]), 2):
        for name, levels in LEVELS_AND_ALL:
            row: Row = {"agent": agent, "than": than, "level": name}
            for key, title in FIGURES.items():
                known = [(flags, level) for flags in by_seed for level in levels if key in flags[agent, level]]
                if known:
                    gained = [100 * (np.array(flags[agent, level][key]) - flags[than, level][key]) for flags, level in known]
                    by_task = np.mean(gained, axis=0)
                    ends = interval_ends([title], by_task[:, None])[title]
                    row[title] = {"mean": round(float(by_task.mean()), 4), "ci95": [round(end, 4) for end in ends]}
            yield row


def measured(tables: Sequence[dict[Key, Row]], episodes: int, whole: str) -> Iterator[Row]:
    """Return the figures of each agent over the seeds, of each a table, and their differences from those of the whole one."""
    for agent in dict.fromkeys(agent for agent, _ in tables[0]):
        for name, levels in LEVELS_AND_ALL:
            row: Row = {"agent": agent, "level": name, "episodes": episodes, "seeds": len(tables)}
            for key, title in FIGURES.items():
                if known := [level for level in levels if key in tables[0][agent, level]]:
                    values, of_whole = (
                        [100 * float(np.mean([table[which, level][key] for level in known])) for table in tables]
                        for which in (agent, whole)
                    )
                    row[title] = over_seeds(values)
                    if agent != whole:
                        row[f"{title} less {whole}"] = over_seeds([a - b for a, b in zip(values, of_whole, strict=True)])
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/feedback"))
    parser.add_argument("--episodes", type=int, default=20, help="tasks at each of the five instruction levels")
    parser.add_argument("--protocol", choices=[protocol.name for protocol in PROTOCOLS], default=PUBLISHED)
    parser.add_argument("--model", help="folder of a published model, which learns both stages")
    parser.add_argument("--steps", type=int, help="of stage 1; by default 600, of the published model's 150")
    parser.add_argument("--rank-steps", type=int, help="of stage 2; by default 200, of the published model's 60")
    parser.add_argument("--batch-size", type=int, default=8, help="texts of a step of its stage 1; stage 2 takes 3 pairs for 4")
    parser.add_argument(
        "--own-trees", type=int, metavar="TASKS", help="tasks whose trees it grows itself, in place of the small policy"
    )
    parser.add_argument(
        "--ablated", action=argparse.BooleanOptionalAction, help="train without a part, too; by default the small policies"
    )
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="multiply in bfloat16")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    report = chosen.json and chosen.json.absolute()
    settings, lengths = None, dict(LENGTHS)
    if chosen.model is None:
        lengths.update(steps=chosen.steps or lengths["steps"], rank_steps=chosen.rank_steps or lengths["rank_steps"])
    else:
        settings = {"model": str(Path(chosen.model).absolute()), "bf16": chosen.bf16}
        settings.update(steps=chosen.steps or 150, rank_steps=chosen.rank_steps or 60)
        settings.update(batch_size=chosen.batch_size, rank_batch_size=max(1, chosen.batch_size * 3 // 4))
        if chosen.own_trees:
            settings.update(rank_tasks=chosen.own_trees)
    chosen.out.mkdir(parents=True, exist_ok=True)
    os.chdir(chosen.out)  # an agent's name holds its run, and names files
    seeds = [int(seed) for seed in chosen.seeds.split(",")]
    ablated = settings is None if chosen.ablated is None else chosen.ablated
    learner = learner_of(settings)
    whole = "both" if settings is None else learner
    protocol = next(protocol for protocol in PROTOCOLS if protocol.name == chosen.protocol)
    # a folder of episodes has one set of agents and one protocol
    parts = ("played", learner, "ablated" * ablated, chosen.protocol * (chosen.protocol != PUBLISHED), str(chosen.episodes))
    folder = "-".join(filter(None, parts))
    with torch_threads(1):
        played = [
            play(seed, train(seed, lengths, settings, ablated), protocol, chosen.episodes, chosen.jobs, f"{folder}-{seed}")
            for seed in seeds
        ]
    rows = list(measured([table for table, _ in played], chosen.episodes, whole))
    lengths |= {**MODEL_SETTINGS, **settings, "model": Path(chosen.model).name} if settings else {}
    by_task = list(compared([flags for _, flags in played]))
    about = {"command": "python benchmarks/papers/feedback.py", "protocol": chosen.protocol, **lengths}
    about["match_within_reach"] = within_reach(protocol, chosen.episodes)
    write_report({**about, "rows": rows, "compared": by_task}, report)


if __name__ == "__main__":
    main()
