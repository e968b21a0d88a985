"""Run the baselines: every method, level and seed is a run of its own, on any engine, and kept in a file when it is over."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from costgym.agents.base import NUMERIC, Agent
from costgym.agents.registry import make_agent
from costgym.envs.registration import class_of, parameters_of
from costgym.experiments.baselines.methods import METHODS, OFFERS, Unit, budget_of, lacks, learning_split, measure, open_env
from costgym.experiments.baselines.settings import BaselineSettings
from costgym.experiments.play.execution.engine import Engine, Local
from costgym.experiments.train.run import require_modules
from costgym.simulators import __version__
from costgym.simulators.errors import ConfigError, DataError, check_known
from costgym.simulators.files import make_folder, write_atomically

RUNS = "runs"
Record = dict[str, Any]


def units(methods: Sequence[str], envs: Sequence[str], levels: Sequence[str] | None, seeds: int) -> list[Unit]:
    """List the runs of a table, cheap ones first, without those of `left_out`; by default each environment has its own
    scenario. Raises ConfigError if a name is given twice, there are no seeds, or an environment has no such method."""
    for name in methods:
        check_known("method", name, METHODS)
    for option, names in (("--methods", methods), ("--envs", envs), ("--levels", levels)):
        if names is None:
            continue
        if not names or len(set(names)) < len(names):
            raise ConfigError(option, "expected at least one name, and every name once")
    if seeds < 1:
        raise ConfigError("--seeds", f"expected at least 1, got {seeds}")
    planned = []
    for env in envs:
        leveled = class_of(env).world_kind == "tools"
        there = [name for name in methods if lacks(env, name) is None]
        if not there:
            why = "; ".join(f"{name}: {lacks(env, name)}" for name in methods)
            raise ConfigError("--envs", f"none of the methods can be run in {env} ({why})")
        for level in (levels or (parameters_of(env)["scenario"],)) if leveled else ("",):
            for name in there:
                # rules learn nothing; chance has them differ from seed to seed only where they draw
                count = 1 if METHODS[name].kind == "rule" and name != "random" else seeds
                planned += [Unit(name, env, level, seed) for seed in range(count)]
    return sorted(planned, key=lambda unit: (METHODS[unit.method].kind != "rule", METHODS[unit.method].kind != "offline"))


def left_out(methods: Sequence[str], envs: Sequence[str]) -> list[str]:
    """Say which methods are not run in which environments, and why: a line for each environment and reason."""
    lines = []
    for env in envs:
        reasons = {name: reason for name in methods if METHODS[name].home in ("", env) and (reason := lacks(env, name))}
        for why in dict.fromkeys(reasons.values()):
            names = ", ".join(name for name, reason in reasons.items() if reason == why)
            lines.append(f"{env} is played without {names}: {why}")
    return lines


def run(
    out: str | Path,
    settings: BaselineSettings | None = None,
    methods: Sequence[str] = tuple(METHODS),
    envs: Sequence[str] = (NUMERIC,),
    levels: Sequence[str] | None = None,
    seeds: int = 5,
    engine: Engine | None = None,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Record]:
    """Run the baselines that a folder does not hold yet, and return the records of all. Each run is a file in `OUT/runs`, so
    that a killed command goes on where it was. Without levels each environment has its default scenario; `say` is told, before
    anything is played, what an environment is played without. Raises UnknownName or ConfigError for a wrong name, number or
    folder, MissingExtra without torch, Stable-Baselines3 or sb3-contrib."""
    chosen = settings or BaselineSettings()
    wanted = units(methods, envs, levels, seeds)
    if any(METHODS[unit.method].kind != "rule" for unit in wanted):
        require_modules("torch", "stable_baselines3", "sb3_contrib")
    if chosen.dataset is not None:
        _check_dataset(chosen.dataset, wanted)
    if say is not None:
        for line in left_out(methods, envs):
            say(line)
    for env, level in dict.fromkeys((unit.env, unit.level) for unit in wanted):
        open_env(env, level, "test").close()
        learning_split(env, level, chosen.train_split)
    folder = Path(out) / RUNS
    make_folder(folder)
    records = {unit: read_record(folder / unit.file, chosen) for unit in wanted if (folder / unit.file).is_file()}
    missing = [unit for unit in wanted if unit not in records]
    if progress is not None:
        progress(len(records), len(wanted))
    for unit, record in zip(missing, (engine or Local()).stream(_play, chosen, missing), strict=True):
        write_atomically(folder / unit.file, json.dumps(record, indent=1) + "\n")
        records[unit] = record
        if progress is not None:
            progress(len(records), len(wanted))
    return [records[unit] for unit in wanted]


def _check_dataset(name: str, wanted: Sequence[Unit]) -> None:
    """Raise ConfigError, UnknownName or DataError unless there is such a dataset and some method that learns from it."""
    offline = [unit.env for unit in wanted if METHODS[unit.method].kind == "offline"]
    if not offline:
        names = ", ".join(method.name for method in METHODS.values() if method.kind == "offline")
        raise ConfigError("--dataset", f"expected a method that learns from recorded episodes among --methods: {names}")
    from costgym.experiments.baselines.recorded import check_dataset

    for env in dict.fromkeys(offline):
        check_dataset(name, env)


def read_record(path: Path, settings: BaselineSettings) -> Record:
    """Read the record of a run; raises ConfigError if it was made with other settings or by another version."""
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
        made_with = record["settings"], record["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(path, f"is not a record of a baseline ({error}); delete it to run it again") from error
    if made_with != (settings.model_dump(), __version__):
        raise ConfigError("--out", f"{path} was made with other settings or by another version; choose another folder")
    return record


def _play(settings: BaselineSettings, unit: Unit) -> Iterator[Record]:
    """Train and measure one method under one seed."""
    budget = budget_of(unit.method, unit.env, settings.cost_limit)
    test = open_env(unit.env, unit.level, "test", budget)
    curve: list[dict[str, float]] = []
    limit = settings.cost_limit or OFFERS[unit.env].cost_limit

    def watch(steps: int, seconds: float, agent: Agent) -> None:
        figures = measure(test, agent, settings.point_episodes, limit=limit)
        curve.append({"steps": steps, "seconds": round(seconds, 2), **figures})

    kind, steps, seconds, seed = METHODS[unit.method].kind, 0, 0.0, None
    split = None if kind == "rule" else learning_split(unit.env, unit.level, settings.train_split)
    if split is None:
        agent, seed = make_agent(OFFERS[unit.env].rules[unit.method], unit.env), unit.seed if unit.method == "random" else None
        watch(0, 0.0, agent)
    elif kind == "offline":
        from costgym.experiments.baselines.offline import learn as learn_offline

        steps, seconds, agent = learn_offline(unit, split, settings.recorded, settings.updates, settings.dataset)
    else:
        from costgym.experiments.baselines.online import learn as learn_online

        every = max(1, settings.steps // settings.points)
        limit_s = math.inf if settings.minutes is None else 60.0 * settings.minutes
        steps, seconds, agent = learn_online(unit, split, settings.steps, limit_s, every, limit, watch, budget)
        if not curve or curve[-1]["steps"] < steps:
            watch(steps, seconds, agent)
    final = measure(test, agent, settings.episodes, seed, limit)
    test.close()
    made = {"version": __version__, "settings": settings.model_dump(), "split": split, "cost_limit": limit}
    yield {**unit._asdict(), **made, "steps": steps, "seconds": round(seconds, 2), "curve": curve, "figures": final}
