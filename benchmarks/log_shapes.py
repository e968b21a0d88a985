"""Read each log of a folder, and print what was read: calls and successes of each tool, what was skipped, questions.

python benchmarks/log_shapes.py FOLDER [--json FILE]
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report
from costgym.experiments.play.call_logs.log import read_log
from costgym.simulators.errors import CostGymError
from costgym.simulators.status import Status


def read(path: Path) -> dict[str, Any]:
    """Describe what a log holds, or return the sentence that refuses it."""
    try:
        log = read_log(path)
    except CostGymError as error:
        return {"refused": str(error)}
    calls, works = (Counter(call.tool for call in log.calls if call.status in wanted) for wanted in (Status, (Status.OK,)))
    rates = {tool: {"calls": count, "success": round(works[tool] / count, 3)} for tool, count in sorted(calls.items())}
    return {"tools": rates, "records": dict(log.records), "queries": len(log.queries)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logs = {path.name: read(path) for path in sorted(options.folder.iterdir())}
    for name, row in logs.items():
        print(f"{name}: {row}")
    write_report({"logs": logs}, options.json)


if __name__ == "__main__":
    main()
