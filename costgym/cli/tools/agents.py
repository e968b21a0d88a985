"""`costgym agents`: list the agents."""

from __future__ import annotations

from ..options import JsonFile
from ..output import print_list


def agents(json_file: JsonFile = None) -> None:
    """List the agents.

    Example: `costgym agents`
    """
    from ...agents.registry import agents as all_agents

    print_list([{"name": entry.name, "env": entry.env_id, "what": entry.summary} for entry in all_agents()], json_file)
