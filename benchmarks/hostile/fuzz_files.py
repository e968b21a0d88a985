"""Feed random edits, frames, YAML and JSON to everything that reads what others wrote: no crash, no hang, nothing passes.

    python benchmarks/hostile/fuzz_files.py [inputs] [--kinds file,yaml] [--seed 0] [--json FILE]

The inputs are, by turns, edits of a leaderboard's and an entry's files (by bytes and by values), frames of an agent's process,
YAML documents, JSON documents, edited files of every other kind (`tests/helpers/readers.py`), and edited logs of tools and
models in the shapes of all programs that are read. Each must be refused in a sentence within five seconds; what is plain data
without lies may be read. Times are of this process's processor, and memory is the most that it has held.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report
from tests.helpers.fuzzing import KINDS, Ground

LONGEST_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("inputs", type=int, nargs="?", default=50_000)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    wrong, slowest, begin = list[str](), 0.0, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder))
        for number in range(options.inputs):
            kind = options.kinds[number % len(options.kinds)]
            started = time.process_time()
            try:
                outcome = ground.try_one(kind, random.Random(f"{options.seed} {number}"))
            except Exception as error:
                outcome = f"crash: {type(error).__name__}: {error}"
            took = time.process_time() - started
            slowest = max(slowest, took)
            outcomes[f"{kind}: {outcome.partition(':')[0]}"] += 1
            if outcome.startswith(("crash", "passed")) or took > LONGEST_S:
                wrong.append(f"input {number} ({kind}, {took:.1f} s): {outcome}")
                print(wrong[-1], flush=True)
            if (number + 1) % 5000 == 0:
                print(f"{number + 1} inputs, {len(wrong)} wrong, {time.process_time() - begin:.0f} s", flush=True)
    report = {
        "inputs": options.inputs,
        "seed": options.seed,
        "outcomes": dict(sorted(outcomes.items())),
        "wrong": wrong,
        "slowest_s": round(slowest, 2),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "processor_s": round(time.process_time() - begin, 1),
    }
    write_report(report, options.json)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
