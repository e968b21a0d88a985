"""`costgym agents`, `envs` and `scenarios`: list what there is."""

import sys

from costgym.cli.options import JsonFile
from costgym.cli.output import STANDARD_OUTPUT, console, print_list, save_json


def agents(json_file: JsonFile = None) -> None:
    """List the agents by the leaderboard track that they play in, and the parts that the name of a language-model agent may
    add, as in react+btp; `world` has the versions of the world that they play.

    Example: `costgym agents`
    """
    from costgym.agents.base import TEXT
    from costgym.agents.registry import agents as all_agents
    from costgym.agents.registry import parts_of_names, trained_kinds
    from costgym.envs.registration import versions_of
    from costgym.experiments.board.tracks import TRACKS, track_of

    tracks = [track for track in TRACKS.values() if not track.world]
    playing = {track.name: [entry for entry in all_agents() if track_of(entry.env_id) == track.name] for track in tracks}
    env_ids = {entry.env_id for entries in playing.values() for entry in entries} | {track.views[0] for track in tracks}
    worlds = {env_id: versions_of(env_id) for env_id in env_ids}
    rows = [
        {
            "name": entry.name,
            "track": track.name,
            "env": entry.env_id,
            "world": " ".join(map(str, worlds[entry.env_id])),
            "what": entry.summary,
        }
        for track in tracks
        for entry in playing[track.name]
    ]
    shared = {"track": track_of(TEXT), "env": TEXT, "world": " ".join(map(str, versions_of(TEXT)))}
    rows += [{"name": name, **shared, "what": summary} for name, summary in parts_of_names().items()]
    if not sys.stdout.isatty() or json_file == STANDARD_OUTPUT:
        print_list(rows, json_file)
        return
    from rich.table import Table

    save_json(json_file, rows)
    screen = console()
    for track in tracks:
        entries = playing[track.name]
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True, min_width=max((len(entry.name) for entry in entries), default=0))
        table.add_column(overflow="fold", ratio=1)
        for entry in entries:
            bound = "; a bound, never ranked" if entry.privileged else ""
            table.add_row(entry.name, f"{entry.summary}{bound}")
        played = " and ".join(map(str, worlds[track.views[0]]))
        screen.print(f"{track.title} ({track.views[0]}; world {played})", style="bold", highlight=False)
        screen.print(table)
        screen.print()
    for hint in (
        f"A language model's agent takes parts, as in react+btp: {' '.join(parts_of_names())}; docs/agents.md has them.",
        f"Trained agents, by their run: {', '.join(f'{kind}:RUN' for kind in trained_kinds())}.",
        "Trained agents that ship, by name: zoo:ppo and others (extra `train`); docs/train.md has their cards.",
        "Your own agent, by its file and class: FILE.py:CLASS.",
    ):
        screen.print(hint, markup=False, highlight=False)


def envs(json_file: JsonFile = None) -> None:
    """List the environments, with the versions of the world that they play and what they are good for.

    Example: `costgym envs`
    """
    from costgym import ENV_IDS
    from costgym.envs.registration import USES, describe, worlds_of

    rows = [
        {"id": name, "world": " ".join(map(str, worlds_of(name))), "use": USES[name], "what": describe(name)}
        for name in ENV_IDS
    ]
    print_list(rows, json_file)


def scenarios(json_file: JsonFile = None) -> None:
    """List the scenarios that come with the package.

    Example: `costgym scenarios`
    """
    from costgym.simulators.scenario import load_scenario, scenario_names

    loaded = [load_scenario(name) for name in scenario_names()]
    print_list([{"name": scenario.name, "description": scenario.description} for scenario in loaded], json_file)
