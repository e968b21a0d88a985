"""Trajectories in the formats that others read: Minari, Parquet, Hugging Face datasets, chat messages, experience.

Every export replays the recorded episodes, so it holds full observations while the recording stays small, and it refuses a
recording that does not replay. All of them stream: memory does not grow with the number of episodes. What is written appears
under its name only when it is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ....simulators.errors import ConfigError, UnknownName
from ...files import finished_file
from ..replay import replayed

Progress = Callable[[int], None]


def export(path: str | Path, format: str, out: str | Path, **options: Any) -> Path:
    """Write trajectories in another format.

    Args:
        path: a trajectory file, or a folder of them.
        format: one of `FORMATS`.
        out: the file or folder to write; for minari the dataset's id, such as `costgym/react-v0`.
        options: of the format; `data` (folder of a ToolBench scenario) and `progress` (called with the number of episodes)
            are common to all. minari: `storage` (hdf5, arrow, parquet), `root`. messages: `kind` (sft, dpo), `only`
            (passed, all). parquet and hf: `next_observation`.

    Returns:
        What was written.

    Raises:
        UnknownName: there is no such format.
        ConfigError: an option is none of the format's, or `out` exists.
        DataError: the trajectories cannot be read or do not replay.
        MissingExtra: the format's library is not installed.
    """
    if format not in FORMATS:
        raise UnknownName("format", format, FORMATS)
    writer, known = FORMATS[format]
    for name in options:
        if name not in known:
            raise ConfigError(f"--{name.replace('_', '-')}", f"{format} has no such option; it has {', '.join(known)}")
    return writer(path, out, **options)


def to_experience(path: str | Path, out: str | Path, data: str | None = None, progress: Progress | None = None) -> Path:
    """What BTP plans from: for each query, the tools it used and whether each use helped; one JSON line an episode.

    Raises:
        ConfigError: the episodes are numeric: they hold no text that a use could be judged by.
    """
    from ....agents.btp.usefulness import RuleBased
    from ...training.data.experience import remember
    from .messages import need_text

    judge = RuleBased()
    with finished_file(Path(out)) as draft, draft.open("w", encoding="utf-8") as store:
        for count, played in enumerate(replayed(path, data), 1):
            need_text(played.header.env, "experience")
            past = remember(played.env.unwrapped, judge, played.header.settings["split"] == "test")
            store.write(past.to_json() + "\n")
            if progress is not None:
                progress(count)
    return Path(out)


def _minari(path: str | Path, out: str | Path, **options: Any) -> Path:
    from .minari import to_minari

    return to_minari(path, str(out), **options)


def _parquet(path: str | Path, out: str | Path, **options: Any) -> Path:
    from .tables import to_parquet

    return to_parquet(path, out, **options)


def _hf(path: str | Path, out: str | Path, **options: Any) -> Path:
    from .tables import to_hf

    return to_hf(path, out, **options)


def _messages(path: str | Path, out: str | Path, **options: Any) -> Path:
    from .messages import to_messages

    return to_messages(path, out, **options)


_COMMON = ("data", "progress")
FORMATS: dict[str, tuple[Callable[..., Path], tuple[str, ...]]] = {
    "minari": (_minari, ("storage", "root", *_COMMON)),
    "parquet": (_parquet, ("next_observation", *_COMMON)),
    "hf": (_hf, ("next_observation", *_COMMON)),
    "messages": (_messages, ("kind", "only", *_COMMON)),
    "experience": (to_experience, _COMMON),
}
"""For each format, what writes it and the options it takes."""
