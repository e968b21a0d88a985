"""Find the datasets in a folder and check them by replay."""

import json
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import gymnasium as gym

from costgym.envs.registration import class_of
from costgym.experiments.play.export.tables import rows_of
from costgym.experiments.play.trajectories.format import Header, Trajectory, check_header, parse_header, read_trajectories
from costgym.experiments.play.trajectories.replay import is_trajectory_file, replay_recorded
from costgym.experiments.play.trajectories.verify import verify_file
from costgym.simulators.errors import CostGymError, DataError, require
from costgym.simulators.files import plain_files, read_text
from costgym.simulators.files.plain import MAX_OWN_NAMES

KINDS = ("trajectories", "minari", "parquet", "hf", "messages")  # hf: rows of steps; messages: of conversations


@dataclass(frozen=True, slots=True)
class Dataset:
    """Description of a dataset; texts are "" and numbers None where only reading it all would tell."""

    path: Path
    kind: str
    env: str
    scenario: str
    agents: str
    episodes: int | None
    steps: int | None
    size_mb: float  # size on disk, MB


def list_datasets(folder: str | Path) -> list[Dataset]:
    """List the trajectory files, Minari datasets, Parquet files and Hugging Face datasets in a folder, sorted by path."""
    root = Path(folder)
    if not root.exists():
        raise DataError(root, "there is no such folder")
    try:
        return [dataset for path in _walk(root) if (dataset := describe(path)) is not None]
    except RecursionError:
        raise DataError(root, "its folders are nested too deeply") from None


def _walk(folder: Path) -> Iterator[Path]:
    """Yield a path and what is below it, without hidden entries, links, special files, and what is in datasets that are
    folders."""
    yield folder
    if folder.is_dir() and kind_of(folder) is None:
        entries = sorted(islice(folder.iterdir(), MAX_OWN_NAMES + 1))
        if len(entries) > MAX_OWN_NAMES:
            raise DataError(folder, f"holds more than {MAX_OWN_NAMES:,} files")
        for entry in entries:
            mode = entry.lstat().st_mode
            if not entry.name.startswith(".") and (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                yield from _walk(entry)


def kind_of(path: Path) -> str | None:
    """Return the kind of the dataset in a file or folder, or None."""
    if path.is_dir():
        if (path / "data" / "metadata.json").is_file():
            return "minari"
        return "hf" if (path / "dataset_info.json").is_file() and (path / "state.json").is_file() else None
    if path.suffix == ".jsonl":
        return "trajectories" if is_trajectory_file(path) else None
    return "parquet" if path.suffix == ".parquet" else None


def describe(path: Path) -> Dataset | None:
    """Describe the dataset at a path, or return None if it is not a dataset of this package."""
    kind = kind_of(path)
    if kind is None:
        return None
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else plain_files(path))) / 1e6
    if kind == "minari":
        about = json.loads(read_text(path / "data" / "metadata.json", follow=False))
        spec = json.loads(about.get("env_spec", "{}"))
        scenario = spec.get("kwargs", {}).get("scenario", class_of(spec["id"]).world_kind if "id" in spec else "")
        name = scenario.get("name", "") if isinstance(scenario, dict) else str(scenario)
        agents = about.get("algorithm_name", "")
        return Dataset(path, kind, spec.get("id", ""), name, agents, about["total_episodes"], about["total_steps"], size)
    if kind == "trajectories":
        header, agents, episodes, steps = _count(path)
        return Dataset(path, kind, header.env, header.scenario.get("name", ""), agents, episodes, steps, size)
    header_text, rows = _table(path, kind)
    if header_text is None:
        return None
    try:
        header = parse_header(header_text, path)
    except DataError:
        return Dataset(path, "messages", "", "", "", rows, None, size)
    return Dataset(path, kind, header.env, header.scenario.get("name", ""), "", None, rows, size)


def _count(path: Path) -> tuple[Header, str, int, int]:
    header, recordings = read_trajectories(path)
    agents: dict[str, None] = {}
    episodes = steps = 0
    for recorded in recordings:
        agents[recorded.agent] = None
        episodes += 1
        steps += len(recorded.actions)
    return header, ", ".join(agents), episodes, steps


def _table(path: Path, kind: str) -> tuple[str | None, int]:
    """Return the header stored in a table, if any, and the table's number of rows."""
    if kind == "parquet":
        parquet = require("pyarrow.parquet", "data")
        try:
            about = parquet.ParquetFile(path)
        except (OSError, ValueError):
            return None, 0
        header = (about.schema_arrow.metadata or {}).get(b"costgym.header")
        return (None if header is None else header.decode()), about.metadata.num_rows
    about = json.loads(read_text(path / "dataset_info.json", follow=False))
    return about.get("description") or None, len(require("datasets", "data").load_from_disk(str(path)))


def check_dataset(path: str | Path, data: str | None = None) -> list[str]:
    """Replay every episode of a dataset and return the problems found, as text; raises DataError for other paths."""
    root = Path(path)
    kind = kind_of(root)
    if kind is None:
        raise DataError(root, f"is not a dataset; expected one of {', '.join(KINDS)}")
    try:
        if root.is_dir():
            plain_files(root)  # libraries open what is in it, and follow links
        if kind == "trajectories":
            return list(verify_file(root, data).problems)
        if kind == "minari":
            from costgym.experiments.play.export.minari import check_minari

            return check_minari(root)
        return list(_check_table(root, kind, data))
    except (CostGymError, gym.error.Error, OSError, ValueError, TypeError) as error:
        return [str(error)]


def _check_table(path: Path, kind: str, data: str | None) -> Iterator[str]:
    text, _ = _table(path, kind)
    if text is None:
        raise DataError(path, "has no header, so it was not written by this package")
    try:
        header = parse_header(text, path)
    except DataError:
        yield from _check_messages(path)
        return
    if problems := check_header(header):
        yield problems[0]
        return
    env = header.make(data)
    for episode_key, rows in groupby(_rows(path, kind), key=lambda row: (row["agent"], row["episode"])):
        episode_rows = list(rows)
        played = replay_recorded(header, env, _as_trajectory(episode_rows))
        played = replace(played, recorded=replace(played.recorded, task=played.episode.task.id))
        whole = any(name.startswith("next_observation") for name in episode_rows[0])
        for row, wanted in zip(episode_rows, rows_of(played, whole), strict=True):
            wrong = [name for name, value in wanted.items() if not _same(row.get(name), value)]
            if wrong:
                yield f"{episode_key[0]} episode {episode_key[1]}, step {row['step']}: {wrong[0]}: differs from replay"
                break


def _as_trajectory(rows: list[dict[str, Any]]) -> Trajectory:
    """Build the trajectory to replay from an episode's rows."""
    same = {name: rows[0][name] for name in ("agent", "model", "episode", "task", "number", "seed")}
    played = {"options": json.loads(rows[0]["options"]), "actions": [row["action"] for row in rows]}
    unknown: dict[str, Any] = {"rewards": [], "observations": [], "calls": [], "charges": [], "final": {}}
    return Trajectory(**same, **played, **unknown, truncated=bool(rows[-1]["truncated"]))


def _rows(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    if kind == "parquet":
        for batch in require("pyarrow.parquet", "data").ParquetFile(path).iter_batches(2048):
            yield from batch.to_pylist()
    else:
        yield from require("datasets", "data").load_from_disk(str(path))


def _same(got: Any, wanted: Any) -> bool:
    wanted = wanted.tolist() if hasattr(wanted, "tolist") else wanted
    return bool(got == wanted)


def _check_messages(path: Path) -> Iterable[str]:
    for number, row in enumerate(require("datasets", "data").load_from_disk(str(path))):
        for column in ("messages", "prompt", "chosen", "rejected"):
            for message in row.get(column) or ():
                if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
                    yield f"row {number}, {column}: a message has no role or content"
