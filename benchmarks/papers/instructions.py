"""Compare 40 generated instructions of each level with 40 published ones: words, and the names of what has to be called.

    python benchmarks/papers/instructions.py ../shared/data/toolbench_family/mgtoolbench_CC-BY-NC-SA-4.0

Prints a Markdown table. The folder is MGToolBench's; nothing of it is copied.
"""

import argparse
import re
from collections.abc import Sequence
from itertools import islice
from statistics import mean

from costgym.agents.toolplanner.tags import gold_tools
from costgym.simulators.marketplace.loaders.toolbench import load_mgtoolbench
from costgym.simulators.scenario import load_scenario
from costgym.simulators.tasks import LEVELS, Task
from costgym.simulators.tools import Catalog

COUNT = 40


def plain(text: str) -> str:
    """Return words alone, since names are written in several ways."""
    return f" {re.sub(r'[^a-z0-9]+', ' ', text.lower()).strip()} "


def row(tasks: Sequence[Task], catalog: Catalog, level: str) -> list[str]:
    """Mean number of words, its range, and the shares of categories, providers and APIs that are named, in percent."""
    words = [len(task.instructions[level].split()) for task in tasks]
    shares = []
    for names in (lambda tool: tool.category, lambda tool: tool.provider, lambda tool: tool.title):
        contained = [
            plain(name) in plain(task.instructions[level])
            for task in tasks
            for name in dict.fromkeys(map(names, gold_tools(task, catalog)))
        ]
        shares.append(f"{100 * mean(contained):.0f}")
    return [f"{mean(words):.1f} ({min(words)} to {max(words)})", *shares]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    published = load_mgtoolbench(parser.parse_args().folder)
    world = load_scenario("marketplace").build()
    test_tasks = (world.tasks[number] for number in world.tasks.numbers("test"))
    sides = {
        "published": (list(published.tasks)[:COUNT], published.catalog),
        "generated": (list(islice((task for task in test_tasks if task.group == "G3"), COUNT)), world.catalog),
    }
    print("| level | | words | categories named, % | tools named, % | APIs named, % |\n| --- | --- | --- | --- | --- | --- |")
    for level in LEVELS:
        for name, (tasks, catalog) in sides.items():
            print(f"| {level} | {name} | {' | '.join(row(tasks, catalog, level))} |")


if __name__ == "__main__":
    main()
