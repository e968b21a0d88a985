"""The options of `costgym submit epoch`: the terms of an epoch."""

from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from costgym.simulators.bounds import Count, Settings, option

TASKS, WORLDS = 20, 3


def _day(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise ValueError(f"expected a day such as 2026-12-01, got {value!r}") from None


Day = Annotated[date | None, BeforeValidator(_day)]


class EpochOptions(Settings):
    """The terms of an epoch, beside what is played."""

    name: Annotated[str, option("What the epoch is called.")] = "epoch"
    begin: Annotated[Day, option("First day in UTC; by default today.", "DAY")] = None
    end: Annotated[Day, option("Last day in UTC, by default the first. The secret can be published after it.", "DAY")] = None
    tracks: Annotated[tuple[str, ...] | None, option("By default all of the suite that have secret worlds.", "A,B,...")] = None
    tasks: Annotated[Count, option("Tasks of every row in each world.")] = TASKS
    worlds: Annotated[Count, option("Secret worlds of every row, where worlds are generated.")] = WORLDS
    judge: Annotated[Path | None, option("Sign verdicts: your ssh key, whose public part is published.", "FILE")] = None
