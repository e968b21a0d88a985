"""Play episodes with a language model that talks nonsense: no exception, no unpaid reply, no unpaid call.

    python benchmarks/hostile/fuzz_replies.py --replies 100000 --json benchmarks/results/fuzz_replies.json

Replies come as messages, as chat servers' documents and as open models' text: broken JSON, wrong types, unknown tools, huge
strings, unicode, nested calls. Agents of every kind play them in turn. The first episode that is not paid in full, or raises,
ends the run with its number; `tests/helpers/nonsense.py` holds replies and checks.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report
from tests.helpers.nonsense import AGENTS, Table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table, replies, number, begin = Table(options.seed), 0, 0, time.perf_counter()
    while replies < options.replies:
        try:
            replies += table.play(number)
        except Exception:
            print(f"episode {number}, agent {AGENTS[number % len(AGENTS)]}, after {replies} replies", flush=True)
            raise
        number += 1
        if number % 1000 == 0:
            print(f"{number} episodes, {replies} replies", flush=True)
    report = {
        "replies": replies,
        "by_form": dict(sorted(table.model.kinds.items())),
        "episodes": number,
        "agents": list(AGENTS),
        "calls_by_status": {key: count for key, count in sorted(table.met.items()) if key != "episode"},
        "exceptions": 0,
        "unpaid_replies": 0,
        "unpaid_calls": 0,
        "seed": options.seed,
        "seconds": round(time.perf_counter() - begin, 1),
    }
    write_report(report, options.json)


if __name__ == "__main__":
    main()
