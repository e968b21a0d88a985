"""Export trajectories to Minari, Parquet, Hugging Face datasets, chat messages, ATIF, ShareGPT and BTP's experience.

Every export replays the recorded episodes, so it contains full observations while the recording stays small; a recording that
does not replay raises an error. Episodes are streamed, so memory does not grow with their number. The output appears under its
name only when it is complete.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from costgym.experiments.play.trajectories.replay import replayed
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.files import finished_file

Progress = Callable[[int], None]


def export(path: str | Path, format: str, out: str | Path, **options: Any) -> Path:
    """Export trajectories to another format.

    Args:
        out: output file or folder; for minari the dataset's id, such as `costgym/react-v0`.
        options: options of the format. All formats have `data` (folder of a ToolBench scenario) and `progress` (called with
            the number of episodes). minari: `root`. messages: `kind` (sft, dpo), `only` (passed, all), `pairs` (seed, task).
            atif, jsonl, sharegpt: `only` (clean, passed, all). parquet and hf: `next_observation`.

    Raises:
        ConfigError: the format has no such option, or `out` exists.
        DataError: the trajectories cannot be read or do not replay.
    """
    check_known("format", format, FORMATS)
    writer, known = FORMATS[format]
    for name in options:
        if name not in known:
            raise ConfigError(f"--{name.replace('_', '-')}", f"{format} has no such option; it has {', '.join(known)}")
    module, _, function = writer.partition(":")
    write = getattr(import_module(f".{module}", __package__), function)
    return Path(write(path, str(out), **options))


def to_experience(path: str | Path, out: str | Path, data: str | None = None, progress: Progress | None = None) -> Path:
    """Export BTP's experience: for each episode, a JSON line with the query, its tools, and whether each use helped; raises
    ConfigError if the episodes are numeric, so they contain no text from which usefulness can be judged."""
    from costgym.agents.btp.usefulness import RuleBased
    from costgym.experiments.play.experience import remember
    from costgym.experiments.play.export.messages import need_text

    judge = RuleBased()
    with finished_file(Path(out)) as draft, draft.open("w", encoding="utf-8") as store:
        for count, played in enumerate(replayed(path, data), 1):
            need_text(played.header.env, "experience")
            past = remember(played.env.unwrapped, judge, played.header.settings["split"] == "test")
            store.write(past.to_json() + "\n")
            if progress is not None:
                progress(count)
    return Path(out)


_COMMON = ("data", "progress")
FORMATS = {
    "minari": ("minari:to_minari", ("root", *_COMMON)),
    "parquet": ("tables:to_parquet", ("next_observation", *_COMMON)),
    "hf": ("tables:to_hf", ("next_observation", *_COMMON)),
    "messages": ("messages:to_messages", ("kind", "only", "pairs", *_COMMON)),
    "atif": ("interchange:to_atif", ("only", *_COMMON)),
    "jsonl": ("interchange:to_jsonl", ("only", *_COMMON)),
    "sharegpt": ("interchange:to_sharegpt", ("only", *_COMMON)),
    "experience": ("formats:to_experience", _COMMON),
}
"""The function that writes each format, by its module in this folder, and its options."""
