"""`costgym agents`: list the agents."""

from __future__ import annotations

import json

import typer

from ..options import JsonFile
from ..output import console


def agents(json_file: JsonFile = None) -> None:
    """The agents there are, by the track of the leaderboard that they play in.

    Example: `costgym agents`
    """
    from rich.table import Table

    from ...agents.registry import agents as all_agents
    from ...experiments.board.tracks import TRACKS, track_of
    from ...experiments.play.files import write_atomically

    screen = console()
    rows = []
    for track in TRACKS.values():
        own = [entry for entry in all_agents() if track_of(entry.env_id) == track.name]
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True, min_width=max((len(entry.name) for entry in own), default=0))
        table.add_column(overflow="fold", ratio=1)
        for entry in own:
            bound = "; a bound, never ranked" if entry.privileged else ""
            table.add_row(entry.name, f"{entry.summary}{bound}")
            rows.append({"name": entry.name, "track": track.name, "env": entry.env_id, "what": entry.summary})
        screen.print(f"{track.title} ({track.views[0]})", style="bold", highlight=False)
        screen.print(table)
        screen.print()
    typer.echo("Trained ones by the folder of their run: sb3:RUN, catp:RUN, ift:RUN, rltf:RUN, deer:RUN, toolplanner:RUN.")
    typer.echo("Trained ones that ship, by name: zoo:ppo and so on (extra `train`); docs/zoo has their cards.")
    typer.echo("One of your own by its file and class: FILE.py:CLASS.")
    if json_file is not None:
        write_atomically(json_file, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
