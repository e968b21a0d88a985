"""Read MGToolBench: the same tasks at ToolPlanner's five instruction levels, in one file per level."""

from dataclasses import replace
from pathlib import Path

from ...errors import DataError
from ...failures import PRESETS, FailureModel
from ...tasks import TaskSet
from ..market import Marketplace
from .documents import ApiDocument, Key, Library
from .reading import JsonRecord, need_folder, read_records
from .toolbench import build, read_queries

LEVEL_FILES = {"statement": "_cut", "category": "_level_cate", "tool": "_level_tool", "api": "_level_api", "hybrid": "_ground"}
"""Endings of the five files' names."""


def load_mgtoolbench(
    folder: Path | str, *, seed: int = 0, tools: Path | str | None = None, failures: FailureModel | None = None
) -> Marketplace:
    """Read a marketplace from MGToolBench's root, or the folder with ``*_ground.json`` itself; tasks have all five levels.

    Raises DataError where a file is missing or malformed, or a task lacks one of the levels; names it.
    """
    root = need_folder(Path(folder), "data folder")
    grounds = [
        path for place in (root, root / "test_sample", root / "data" / "test_sample") for path in place.glob("*_ground.json")
    ]
    if not grounds:
        raise DataError(root, "holds no MGToolBench tasks; expected *_ground.json, here or in test_sample/")
    ground = sorted(grounds)[0]
    prefix = ground.name.removesuffix("_ground.json")
    documents: dict[Key, ApiDocument] = {}
    queries = read_queries(ground, "G3", documents)
    levels = {level: _read_level(ground.parent / f"{prefix}{ending}.json") for level, ending in LEVEL_FILES.items()}
    for level, texts in levels.items():
        missing = next((query.id for query in queries if query.id not in texts), None)
        if missing is not None:
            path = ground.parent / f"{prefix}{LEVEL_FILES[level]}.json"
            raise DataError(path, f"task {missing} of {ground.name} is not in this file")
    library = Library(None if tools is None else need_folder(Path(tools), "tool documents"), None)
    complete = {key: library.complete(documents[key]) for key in sorted({k for query in queries for k in query.offered})}
    market = build(queries, complete, seed, failures or PRESETS["rapidapi-2024"])
    tasks = [
        replace(task, instructions={level: texts[query.id] for level, texts in levels.items()})
        for task, query in zip(market.tasks, queries, strict=True)
    ]
    splits = {name: market.tasks.numbers(name) for name in market.tasks.splits}
    return Marketplace(market.catalog, TaskSet(tasks, splits), market.answers)


def _read_level(path: Path) -> dict[str, str]:
    texts = {}
    for number, value in enumerate(read_records(path), 1):
        record = JsonRecord(value, path, f"record {number}")
        texts[record.identifier("query_id")] = record.text("query")
    return texts
