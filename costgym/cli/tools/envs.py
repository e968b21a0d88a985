"""`costgym envs`: list the environments."""

from ..options import JsonFile
from ..output import print_list


def envs(json_file: JsonFile = None) -> None:
    """List the environments.

    Example: `costgym envs`
    """
    from ... import ENV_IDS
    from ...envs.registration import describe

    print_list([{"id": name, "what": describe(name)} for name in ENV_IDS], json_file)
