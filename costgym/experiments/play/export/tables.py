"""Export trajectories as tables with one row per step: Parquet files and Hugging Face datasets.

A row has the episode's names and numbers, the observation before the action (a flat column for each array), the action mask,
the action and what followed, and the other entries of `info`, as JSON text if their structure varies. The schema's metadata
contains the header and the arrays' shapes.
"""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from costgym.experiments.play.trajectories.replay import ReplayedEpisode, Step, readable, replayed
from costgym.simulators.errors import ConfigError, CostGymError, require
from costgym.simulators.files import finished_file, finished_folder

ROWS = 2048  # number of steps per row group, which are held in memory at a time
MASK = "action_mask"


def to_parquet(
    path: str | Path,
    out: str | Path,
    next_observation: bool = False,
    data: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Export trajectories to a Parquet file, with the observation after each action too if wanted. Raises ConfigError if the
    file exists or the episodes are of several views, DataError if they do not replay."""
    pa, parquet = require("pyarrow", "data"), require("pyarrow.parquet", "data")
    episodes = replayed(path, data)
    first = next(episodes, None)
    if first is None:
        raise ConfigError("--format", f"{path} contains no episode")
    schema, rows = schema_of(first, next_observation), _rows(first, episodes, next_observation, progress)
    with finished_file(Path(out)) as draft, parquet.ParquetWriter(draft, schema, compression="zstd") as writer:
        while batch := list(islice(rows, ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
    return Path(out)


def to_hf(path: str | Path, out: str | Path, **options: Any) -> Path:
    """Export to a folder for `datasets.load_from_disk`; options and errors are those of `to_parquet`."""
    datasets, parquet = require("datasets", "data"), require("pyarrow.parquet", "data")

    def load(cache: Path) -> Any:
        rows = to_parquet(path, cache / "steps.parquet", **options)
        table = datasets.Dataset.from_parquet(str(rows), cache_dir=str(cache))
        table.info.description = parquet.read_schema(rows).metadata[b"costgym.header"].decode()
        return table

    return save_dataset(load, Path(out))


def save_dataset(load: Callable[[Path], Any], out: Path) -> Path:
    """Write the Hugging Face dataset that `load` makes, given a folder for its cache, to a folder."""
    datasets = require("datasets", "data")
    # the library keys its cache by a fingerprint of the generator, which can be stale; a temporary cache cannot
    with finished_folder(out) as draft, tempfile.TemporaryDirectory(dir=draft, prefix=".cache-") as cache:
        noisy = datasets.is_progress_bar_enabled()
        datasets.disable_progress_bars()
        try:
            load(Path(cache)).save_to_disk(str(draft))
        except datasets.exceptions.DatasetBuildError as error:
            raise _reason(error) from error
        finally:
            if noisy:
                datasets.enable_progress_bars()
        _name_by_content(draft)
    return out


def _reason(error: BaseException) -> BaseException:
    """Why the library could not build a dataset: the disk's error or ours, which it wraps; itself if there is none."""
    reason: BaseException | None = error
    while reason is not None and not isinstance(reason, OSError | CostGymError):
        reason = reason.__cause__ or reason.__context__
    return reason or error


def _name_by_content(dataset: Path) -> None:
    """Replace the library's fingerprint, which depends on where its cache lay, so that equal data have equal bytes."""
    state = dataset / "state.json"
    document = json.loads(state.read_text(encoding="utf-8"))
    content = hashlib.sha256()
    for file in document["_data_files"]:
        content.update((dataset / file["filename"]).read_bytes())
    document["_fingerprint"] = content.hexdigest()[:16]
    state.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _rows(
    first: ReplayedEpisode, others: Iterator[ReplayedEpisode], next_observation: bool, progress: Callable[[int], None] | None
) -> Iterator[dict[str, Any]]:
    yield from rows_of(first, next_observation)
    for count, played in enumerate(others, 2):
        if played.header.env != first.header.env:
            both = f"{first.header.env} and {played.header.env}"
            raise ConfigError("--format", f"a table has one view; these files are of {both}")
        yield from rows_of(played, next_observation)
        if progress is not None:
            progress(count)


def rows_of(played: ReplayedEpisode, next_observation: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of an episode."""
    recorded = played.recorded
    names = ("episode", "agent", "model", "task", "number", "seed")
    same = {name: getattr(recorded, name) for name in names}
    same |= {"options": json.dumps(recorded.options), "passed": played.passed}
    before = played.steps[0]
    for index, step in enumerate(played.steps[1:]):
        row = {**same, "step": index, "reward": step.reward, "terminated": step.terminated, "truncated": step.truncated}
        row["action"] = readable(step.action) if isinstance(step.action, str) else step.action
        row |= _observation("observation", before.observation)
        if next_observation:
            row |= _observation("next_observation", step.observation)
        for name, value in step.info.items():
            row[name] = _cell(before.info[name] if name == MASK else value)
        yield row
        before = step


def _observation(name: str, observation: Any) -> dict[str, Any]:
    if isinstance(observation, dict):
        return {f"{name}_{part}": array.ravel() for part, array in observation.items()}
    return {name: readable(observation) if isinstance(observation, str) else observation}


def _cell(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.ravel()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float):
        return value
    return readable(value) if isinstance(value, str) else json.dumps(value, default=str)


def schema_of(played: ReplayedEpisode, next_observation: bool = False) -> Any:
    """Return the Arrow schema of the rows of an episode and of all episodes with the same header."""
    pa = require("pyarrow", "data")
    first: Step = played.steps[0]
    texts = dict.fromkeys(("agent", "model", "task"), pa.string())
    columns = {"episode": pa.int64(), "step": pa.int32(), **texts, "number": pa.int32(), "seed": pa.int64()}
    columns["options"] = pa.string()
    shapes: dict[str, list[int]] = {}
    for name in ("observation", "next_observation") if next_observation else ("observation",):
        if isinstance(first.observation, dict):
            for part, array in first.observation.items():
                columns[f"{name}_{part}"] = pa.list_(pa.from_numpy_dtype(array.dtype), array.size)
                shapes[f"{name}_{part}"] = list(array.shape)
        else:
            columns[name] = pa.string()
    columns |= {
        "action": pa.string() if isinstance(first.observation, str) else pa.int64(),
        "reward": pa.float64(),
        "terminated": pa.bool_(),
        "truncated": pa.bool_(),
        "passed": pa.bool_(),
    }
    for name, value in first.info.items():
        columns[name] = _type(pa, value)
    about = {"costgym.header": played.header.to_json(), "costgym.shapes": json.dumps(shapes)}
    return pa.schema(list(columns.items()), metadata=about)


def _type(pa: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return pa.list_(pa.from_numpy_dtype(value.dtype), value.size)
    if isinstance(value, bool | np.bool_):
        return pa.bool_()
    if isinstance(value, int | np.integer):
        return pa.int64()
    return pa.float64() if isinstance(value, float | np.floating) else pa.string()
