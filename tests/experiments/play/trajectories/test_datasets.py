"""Datasets are found, described and checked by replay."""

import json
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.agents.base import NUMERIC, TEXT
from costgym.agents.registry import make_agent
from costgym.experiments.play.collect import collect
from costgym.experiments.play.export.datasets import check_dataset, list_datasets
from costgym.experiments.play.export.formats import export
from tests.helpers.records import Dice


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("datasets")
    for name in ("minari", "pyarrow", "datasets"):
        pytest.importorskip(name)
    numbers = collect(costgym.make(NUMERIC, scenario="storm"), Dice(NUMERIC), 6, root / "numbers", seed=5)
    texts = collect(costgym.make(TEXT, scenario="marketplace", max_steps=400), make_agent("react"), 6, root / "texts", seed=5)
    export(numbers, "minari", "costgym/dice-v0", root=root / "minari")
    export(numbers, "parquet", root / "steps.parquet")
    export(numbers, "hf", root / "steps")
    export(texts, "messages", root / "chats", only="all")
    export(texts, "messages", root / "chats.jsonl", only="all")
    (root / "notes.txt").write_text("not a dataset")
    (root / ".hidden").mkdir()
    return root


def test_a_folder_lists_its_datasets(folder: Path) -> None:
    steps = {}
    for name in ("numbers", "texts"):
        lines = (folder / name / "trajectories.jsonl").read_text().splitlines()[1:]
        steps[name] = sum(len(json.loads(line)["actions"]) for line in lines)
    rows = [(str(d.path.relative_to(folder)), d.kind, d.env, d.agents, d.episodes, d.steps) for d in list_datasets(folder)]
    assert rows == [
        ("chats", "messages", "", "", 6, None),
        ("minari/costgym/dice-v0", "minari", NUMERIC, "dice", 6, steps["numbers"]),
        ("numbers/trajectories.jsonl", "trajectories", NUMERIC, "dice", 6, steps["numbers"]),
        ("steps", "hf", NUMERIC, "", None, steps["numbers"]),
        ("steps.parquet", "parquet", NUMERIC, "", None, steps["numbers"]),
        ("texts/trajectories.jsonl", "trajectories", TEXT, "react", 6, steps["texts"]),
    ]
    assert all(d.size_mb > 0 for d in list_datasets(folder))


def test_honest_datasets_have_no_problems(folder: Path) -> None:
    assert [check_dataset(dataset.path) for dataset in list_datasets(folder)] == [[]] * 6


@pytest.mark.parametrize(
    ("column", "value"), [("reward", 1.0), ("passed", True), ("cost_sum", 3.0), ("task", "train-00001"), ("at_s", 0.5)]
)
def test_a_changed_cell_of_a_table_is_named(folder: Path, tmp_path: Path, column: str, value: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = parquet.read_table(folder / "steps.parquet")
    rows = table.to_pylist()
    index = next(i for i, row in enumerate(rows) if row["episode"] == 2)
    rows[index][column] = value
    parquet.write_table(pa.Table.from_pylist(rows, schema=table.schema), tmp_path / "steps.parquet")
    problems = check_dataset(tmp_path / "steps.parquet")
    assert problems[0].startswith(f"dice episode 2, step 0: {column}: differs from replay")


def test_what_is_no_dataset_is_refused(folder: Path) -> None:
    with pytest.raises(costgym.DataError, match="is not a dataset"):
        check_dataset(folder / "notes.txt")
    with pytest.raises(costgym.DataError, match="no such folder"):
        list_datasets(folder / "nowhere")
