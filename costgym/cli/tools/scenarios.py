"""`costgym scenarios`: list the scenarios."""

from ..options import JsonFile
from ..output import print_list


def scenarios(json_file: JsonFile = None) -> None:
    """List the scenarios that come with the package.

    Example: `costgym scenarios`
    """
    from ...simulators.scenario import load_scenario, scenario_names

    found = [load_scenario(name) for name in scenario_names()]
    print_list([{"name": scenario.name, "description": scenario.description} for scenario in found], json_file)
