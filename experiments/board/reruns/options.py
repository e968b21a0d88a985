"""The options of `costgym submit rerun --queue`."""

from pathlib import Path
from typing import Annotated

from ....simulators.bounds import Count, Settings, option
from .configuration import WORLDS


class QueueOptions(Settings):
    """The options of `costgym submit rerun --queue`."""

    queue: Annotated[Path | None, option("Judge every waiting entry of a folder instead; needs --board.", "FOLDER")] = None
    board: Annotated[Path | None, option("With --queue: the leaderboard that accepted entries are added to.", "DIR")] = None
    verdicts: Annotated[
        Path | None, option("With --queue: where verdicts are kept, outside of it; by default FOLDER.verdicts.", "DIR")
    ] = None
    site: Annotated[Path | None, option("With --queue: build the leaderboard's site here in the end.", "DIR")] = None
    most: Annotated[Count, option("With --queue: entries that are judged at most; others wait for the next run.")] = 100
    worlds: Annotated[Count, option("Secret worlds that every row is played in, where worlds are generated.")] = WORLDS
    minutes: Annotated[Count, option("With --queue: minutes after which an entry is refused.")] = 120
