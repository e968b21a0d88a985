"""A world of DEER's own samples: the tools and the decisions of a ToolDEER folder."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from costgym.simulators.decision.samples import CALL, EXACT, NO_SEARCH, DecisionCase
from costgym.simulators.decision.toolsets import RANDOM
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import DataError
from costgym.simulators.marketplace.facts import make_fact
from costgym.simulators.marketplace.loaders.tooldeer import DecisionSample, read_conversations, read_tools, read_unseen
from costgym.simulators.marketplace.tasks import Luck
from costgym.simulators.tasks import Task, TaskSet
from costgym.simulators.tools import Catalog, Tool
from costgym.simulators.world import World

_PLACES = ("", "data/processed", "processed", "baselines/data", "data")
_FILES = {
    "train": "train.json",
    "valid": "valid.json",
    "test": "test.json",
    "toolbench": "tool_bench.json",
    "toolcorpus": "tool_corpus.json",
}


class PluginAnswers:
    """Answers of tools whose real answers are unknown: an invented phrase for each tool and arguments."""

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        written = json.dumps(dict(arguments), sort_keys=True, default=str)
        return json.dumps({"result": make_fact("phrase", stable_integer(0, "plugin", tool.name, written))})

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        return json.dumps({"result": make_fact("phrase", stable_integer(0, "other", tool.name, luck))})


def recorded_world(world: World, seed: int, folder: Path | str) -> World:
    """Read the decisions of a ToolDEER folder under a world's rules, prices and failures; DataError names a bad file.

    Splits are the files that are there: `train`, `valid` and `test`, and `toolbench` and `toolcorpus` for the samples made
    from other data sets' tools. A search about a query that needs none brings tools at random, as many as elsewhere.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(root, "is not a folder; expected one with ToolDEER's valid.json, test.json or train.json")
    paths = {split: path for split, name in _FILES.items() if (path := find_file(root, name)) is not None}
    if not paths:
        raise DataError(root, f"holds none of {', '.join(_FILES.values())}")
    samples = {split: _read(split, path) for split, path in paths.items()}
    sets = [sample.candidates for known in samples.values() for sample in known]
    catalogue = find_file(root, "tool.json")
    tools: dict[str, Tool] = {}
    for tool in chain(*sets, () if catalogue is None else read_tools(catalogue)):
        tools.setdefault(tool.name, tool)
    if not tools:
        raise DataError(root, "names no tool at all")
    size = max(map(len, sets)) or min(5, len(tools))
    tasks: list[Task] = []
    splits: dict[str, range] = {}
    for split, known in samples.items():
        start = len(tasks)
        for index, sample in enumerate(known):
            names = tuple(dict.fromkeys(tool.name for tool in sample.candidates))
            if not names:
                names = tuple(Luck("needless search", split, index, seed=seed).order(list(tools))[:size])
            case = DecisionCase(sample.kind, sample.query, right_tool(sample), names, RANDOM, sample.arguments)
            tasks.append(case.task(f"{split}-{index:05d}", len(tasks)))
        splits[split] = range(start, len(tasks))
    catalog = Catalog(tools.values(), str(root))
    return world.changed(tasks=TaskSet(tasks, splits), judge=EXACT, catalog=catalog, answers=PluginAnswers(), events=None)


def right_tool(sample: DecisionSample) -> str:
    """The name of the candidate that the right call is meant for.

    A call may use another name than its tool's; then the candidate counts whose name is part of the call (the rule by which the
    published code scores), the longest if several are. Where none is, the sample has no right answer and counts as it stands.
    """
    names = [tool.name for tool in sample.candidates]
    if sample.kind != CALL or sample.gold in names:
        return sample.gold
    inside = [name for name in names if name and name in sample.call.split("(", 1)[0]]
    return max(inside, key=len, default=sample.gold)


def find_file(root: Path, name: str) -> Path | None:
    """Return a file of a ToolDEER folder, wherever the repository has it; None where it is not there."""
    return next((path for folder in _PLACES if (path := root / folder / name).is_file()), None)


def _read(split: str, path: Path) -> list[DecisionSample]:
    samples = read_unseen(path) if split.startswith("tool") else read_conversations(path)
    if not samples:
        raise DataError(path, "holds no samples")
    return [replace(sample, candidates=()) if sample.kind == NO_SEARCH else sample for sample in samples]
