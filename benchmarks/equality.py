"""Step the native vector environment beside Gymnasium's SyncVectorEnv over the scalar one, and compare every byte.

    python benchmarks/equality.py --forms default,legal,concurrent --threads 1,2
    python benchmarks/equality.py --scenarios silent
    python benchmarks/equality.py --env compiled --forms default,legal,concurrent

    python benchmarks/equality.py --env writes
    python benchmarks/equality.py --env session,session-compiled --forms default,concurrent --threads 1,2
    python benchmarks/equality.py --env session-1,session-1-compiled --forms default,concurrent --threads 1,2
    python benchmarks/equality.py --env calls

With `--env compiled` single environments that play in compiled code (`compiled=True`) stand in the native one's place. With
`--env calls` the rule book itself is played, interpreted on SimPy's clock and compiled on arrays: calls, writes, waits and
cancelled calls side by side in random worlds of every setting; compared after every action: clock, price, effects, grade.

A comparison is of one form of an environment on one number of threads; its steps are shared between scenarios, autoreset modes,
enforcement modes and budgets. Environments of one kind and numbers of threads that are named together step beside one
interpreted run. Compared after every step: observations, rewards, ends, masks and all of `info` (costs, statuses,
clocks, what is left of each budget), dtypes included. The first difference ends the run with its place. `--json` holds one
report for each comparison; a new one replaces that of the same comparison. `--part 1/6` runs a sixth of the cases, and adds
its counts to those of other parts. Where calls of sessions run side by side, a report counts what actions were taken.
"""

import argparse
import datetime
import itertools
import json
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from costgym.simulators.status import Status

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report
from costgym.envs.native import MarketplaceVectorEnv, SessionVectorEnv, SessionVectorEnvV1
from costgym.envs.sessions.levels import MarketplaceSessionEnvV1
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.simulators.scenario import parse_scenario
from tests.helpers.lockstep import (
    CANCEL,
    FINISH,
    WAIT,
    CompiledLevels,
    CompiledOnes,
    CompiledSessions,
    play,
    run_views,
    session_actions,
)
from tests.helpers.random_worlds import Writer

FORMS: dict[str, dict[str, Any]] = {
    "default": {"max_steps": 10},
    "legal": {"mask": "legal", "max_steps": 10},
    "concurrent": {"concurrent": True},
}
EVENTS = [
    {"at_s": 0.3, "kind": "price_change", "share": 0.6, "factor": 1.7},
    {"at_s": 1.2, "kind": "ban", "share": 0.7},
    {"at_s": 2.5, "kind": "unban"},
]
SCENARIOS: dict[str, list[Any]] = {
    "marketplace": [
        "marketplace",
        "marketplace-2024",
        "marketplace-reliable",
        "storm",
        "faas",
        {"events": [{"at_s": 0.0, "kind": "ban", "share": 0.2}, *EVENTS]},
    ],
}
ENFORCEMENTS = ("refuse", "terminate", "record")
BUDGETS: dict[str, list[dict[str, float] | None]] = {
    "marketplace": [None, {}, {"seconds": 15.0, "calls": 10}],
}
SESSIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "raw": {"memory": "raw", "reward": "value-minus-price"},
    "short": {"queries": 20, "tools": 9, "capabilities": 3, "providers": 2, "drift": 0.2, "price_drift": 0.2, "ttl_s": 60.0},
    "outages": {"queries": 30, "outage_every_s": 40.0, "mask": "legal", "max_steps": 90, "repeat": 0.6},
}
SCENARIOS["session"] = list(SESSIONS)
BUDGETS["session"] = [None, {}, {"price": 60.0, "calls": 30}]
SESSION_FORMS: dict[str, dict[str, Any]] = {"default": {}, "concurrent": {"concurrent": True}}
for _cases in (SCENARIOS, BUDGETS):
    _cases["compiled"] = _cases["marketplace"]
    _cases |= dict.fromkeys(("session-compiled", "session-1", "session-1-compiled"), _cases["session"])
VIEWS: dict[str, dict[str, Any]] = {
    "marketplace": {"max_steps": 48},
    "compiled": {"max_steps": 48, "native_env": CompiledOnes},
    "session": {"native_env": SessionVectorEnv},
    "session-compiled": {"native_env": CompiledSessions},
    "session-1": {"native_env": SessionVectorEnvV1},
    "session-1-compiled": {"native_env": CompiledLevels},
}
SCENARIOS["writes"] = ["marketplace-writes"]
BUDGETS["writes"] = [{}, {"price": 20.0}, {"seconds": 15.0, "calls": 10}]
VIEWS["writes"] = VIEWS["marketplace"]
for _view in ("session", "session-compiled"):
    VIEWS[_view] |= {"scalar_env": MarketplaceSessionEnv, "choose": session_actions}
for _view in ("session-1", "session-1-compiled"):
    VIEWS[_view] |= {"scalar_env": MarketplaceSessionEnvV1, "choose": session_actions}


CALL_STEPS, CALL_EPISODES = 60, 32  # of a random world
RESULTS = Path(__file__).parent / "results"
KEY = ("env", "form", "threads", "scenarios", "envs", "seed")
"""Fields of a report that say which comparison it is of."""
Report = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="marketplace", help=f"{', '.join(VIEWS)}, or calls; several of one kind with commas")
    known = f"with commas between them: {', '.join(FORMS)}; of sessions: {', '.join(SESSION_FORMS)}"
    parser.add_argument("--forms", default="default", help=known)
    parser.add_argument("--threads", default="1", help="numbers of threads of the native environment, with commas between them")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of each comparison")
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenarios", help="names, with commas between them; by default all that are compared")
    parser.add_argument("--part", default="1/1", help="K/N: every N-th case, from the K-th on")
    parser.add_argument("--json", type=Path, help="by default a file of results/, one for sessions and one for the others")
    options = parser.parse_args()
    forms, sessions = options.forms.split(","), options.env.startswith("session")
    of_env = SESSION_FORMS if sessions else FORMS
    named = options.env.split(",")
    if named != ["calls"] and not (set(named) <= set(VIEWS) and len({kind_of(name) for name in named}) == 1):
        parser.error(f"--env: expected one of {', '.join(VIEWS)} or calls, or several of one kind, got {options.env}")
    if not set(forms) <= set(of_env):
        parser.error(f"--forms: expected some of {', '.join(of_env)}, got {options.forms}")
    path = options.json or RESULTS / ("equality_sessions.json" if sessions else "equality.json")
    for form in forms:
        for report in [compare_calls(options)] if options.env == "calls" else compare(options, form):
            keep(report, path)


def kind_of(name: str) -> str:
    """The environment of `VIEWS` that plays the same, interpreted."""
    return "marketplace" if name == "compiled" else name.removesuffix("-compiled")


def counted(taken: Counter[str], generator: Any, observation: Any, mask: Any) -> Any:
    """`session_actions`, with a count of what is done where calls run side by side; a call beside another one is hedged."""
    actions, tools = session_actions(generator, observation, mask), observation["tools"].shape[1]
    kinds = ("recall", "next", "wait", "pause")
    for allowed, action in zip(mask, actions.tolist(), strict=True):
        if not allowed[action]:
            taken["masked"] += 1
        elif action < tools:
            taken["hedged call" if allowed[tools + 2] else "call"] += 1
        else:
            taken[kinds[action - tools] if action < tools + 4 else "cancel"] += 1
    return actions


def compare_calls(options: argparse.Namespace) -> Report:
    """Play random actions in random worlds, interpreted and compiled; raises Difference where they differ."""
    part, parts = map(int, options.part.split("/"))
    taken: Counter[str] = Counter()
    met: Counter[str] = Counter()
    begin, world = time.process_time(), part - 1
    while taken.total() * parts < options.steps:
        random, chance = np.random.default_rng([options.seed, world]), Random(f"{options.seed} {world}")
        scenario = parse_scenario(Writer(chance).scenario())
        built = scenario.build()
        width = max(len(task.candidates) for task in built.tasks)
        actions = random.integers(0, width, (CALL_STEPS, CALL_EPISODES))
        luck = random.random(actions.shape)
        actions = np.where(luck < 0.30, WAIT, np.where(luck < 0.42, CANCEL - actions, np.where(luck < 0.43, FINISH, actions)))
        seeds = [int(seed) for seed in random.integers(2**40, size=CALL_EPISODES)]
        met += play(built, actions.tolist(), seeds, scenario.limits(), scenario.enforcement, taken)
        world += parts
    statuses = {Status(int(key)).label: count for key, count in sorted(met.items(), key=str) if key.isdigit()}
    return {
        "env": "calls", "form": "random worlds", "threads": 1, "scenarios": [], "envs": CALL_EPISODES, "seed": options.seed,
        "differences": 0, "parts": {str(part): parts}, "steps": taken.total(), "cases": (world - part + 1) // parts,
        "last_statuses": statuses, "actions": dict(sorted(taken.items())),
        "cpu_seconds": round(time.process_time() - begin, 1), "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }  # fmt: skip


def compare(options: argparse.Namespace, form: str) -> list[Report]:
    """Compare the cases of one part.

    Args:
        options: of the command line.
        form: of the environment.

    Returns:
        A report for each environment and number of threads, with an equal share of the processor time; single environments know
        no threads.

    Raises:
        Difference: a byte differs; says where.
    """
    part, parts = map(int, options.part.split("/"))
    names, numbers = options.env.split(","), [int(number) for number in options.threads.split(",")]
    made = [(name, number) for name in names for number in (numbers if name == kind_of(name) else [1])]
    scenarios = options.scenarios.split(",") if options.scenarios else SCENARIOS[names[0]]
    cases = list(itertools.product(scenarios, AutoresetMode, ENFORCEMENTS, BUDGETS[names[0]]))
    rounds = -(-options.steps // (len(cases) * options.envs))
    sessions = names[0].startswith("session")
    types = [(VIEWS[name].get("native_env", MarketplaceVectorEnv), number) for name, number in made]
    view = {**VIEWS[names[0]], **(SESSION_FORMS if sessions else FORMS)[form], "threads": made[0][1], "others": types[1:]}
    met: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    if sessions and form == "concurrent":
        view["choose"] = partial(counted, taken)
    begin = time.process_time()
    for number in range(part - 1, len(cases), parts):
        scenario, mode, enforcement, budget = cases[number]
        settings = {
            **view, "enforcement": enforcement, "budget": budget, "cost": ("price", "seconds", "calls", "tokens")[number % 4],
        }  # fmt: skip
        if sessions:
            settings |= SESSIONS[scenario]
        else:
            settings |= {"scenario": scenario, "grading": ("strict", "judge")[number % 2]}
        met.update(run_views(options.envs, rounds, options.seed + number, mode, **settings))
        label = f"{options.env}, {form}, threads {options.threads}, {number + 1}/{len(cases)}"
        print(f"{label}: {scenario} {mode.value} {enforcement} {budget}: equal", flush=True)
    compared = len(range(part - 1, len(cases), parts))
    statuses = {Status(int(key)).label: count for key, count in sorted(met.items(), key=str) if key.isdigit()}
    seen = {
        "scenarios": scenarios,
        "envs": options.envs,
        "seed": options.seed,
        "differences": 0,
        "parts": {str(part): parts},
        "steps": rounds * options.envs * compared,
        "cases": compared,
        "ends": {key: met[key] for key in ("terminated", "truncated", "success")},
        "last_statuses": statuses,
        **({"actions": dict(sorted(taken.items()))} if taken else {}),
        "cpu_seconds": round((time.process_time() - begin) / len(made), 1),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    return [{"env": name, "form": form, "threads": threads, **seen} for name, threads in made]


def keep(report: Report, path: Path) -> None:
    """Write a report into a file, beside those of other comparisons."""
    records = json.loads(path.read_text())["comparisons"] if path.exists() else []
    key_fields = {key: report[key] for key in KEY}
    before = [record for record in records if {key: record[key] for key in KEY} == key_fields]
    others = [record for record in records if {key: record[key] for key in KEY} != key_fields]
    if before and list(report["parts"].values()) != [1]:
        report = added(before[0], report)
    ordered = sorted([*others, report], key=lambda record: [str(record[key]) for key in KEY])
    write_report({"comparisons": ordered}, path, ("numpy", "numba", "gymnasium"))


def added(before: Report, now: Report) -> Report:
    """The report of several parts of the same cases.

    Raises:
        SystemExit: one part is there twice, or the parts are not of one division.
    """
    if set(before["parts"]) & set(now["parts"]):
        raise SystemExit(f"expected other parts of the same comparison, found {before['parts']} and {now['parts']}")
    if set(before["parts"].values()) != set(now["parts"].values()):
        raise SystemExit(f"expected parts of one division, found {before['parts']} and {now['parts']}")
    counts = {key: round(before[key] + now[key], 1) for key in ("steps", "cases", "cpu_seconds")}
    sums = {key: dict(Counter(before[key]) + Counter(now[key])) for key in ("ends", "last_statuses", "actions") if key in now}
    return {**now, **counts, **sums, "parts": {**before["parts"], **now["parts"]}}


if __name__ == "__main__":
    main()
