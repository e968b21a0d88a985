"""Run `costgym cost` on logs, and time it on a long one.

    python benchmarks/log_costs.py FOLDER_OR_FILE... [--spans 100000]

Each log is priced by the command; a log without tokens of a model is refused in one sentence. Then a log of so many spans of
OpenTelemetry is written, a tenth of which ask a model, and priced.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

CALLS_OF_A_TRACE = 8


def cost(path: Path, *words: str) -> tuple[int, str, float]:
    """Exit status of the command, its last line, and its seconds."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "costgym", "cost", str(path), "--json", "-", "--quiet", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout or done.stderr.strip(), time.perf_counter() - begin


def write_spans(path: Path, spans: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(spans):
            trace, rank = divmod(number, 10 * CALLS_OF_A_TRACE)
            asks = number % 10 == 0
            attributes = {"gen_ai.operation.name": "chat" if asks else "execute_tool", "gen_ai.tool.name": f"tool_{rank % 7}"}
            if asks:
                attributes |= {
                    "gen_ai.request.model": "gpt-5-mini", "gen_ai.usage.input_tokens": 2000 + 100 * rank,
                    "gen_ai.usage.output_tokens": 80, "gen_ai.usage.cache_read.input_tokens": 1900 + 100 * rank if rank else 0,
                }  # fmt: skip
            span = {"trace_id": f"{trace:032x}", "span_id": f"{number:016x}", "start_time": number, "end_time": number + 1}
            file.write(json.dumps({**span, "attributes": attributes}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--spans", type=int, default=100_000)
    options = parser.parse_args()
    for log in [file for path in options.paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]:
        status, text, _ = cost(log)
        if status:
            print(f"{log.name}: {text.splitlines()[-1][:200]}")
            continue
        for row in json.loads(text)["rows"]:
            figures = f"{row['tasks']} traces, {row['usd']:.4f} USD, {row['cached_share']:.0%} cached"
            print(f"{log.name}: {row['model']}, {figures}, left out {row['records']['left_out']}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "spans.jsonl"
        write_spans(path, options.spans)
        for mode in ("repriced", "rescheduled"):
            status, text, seconds = cost(path, "--mode", mode)
            row = json.loads(text)["rows"][0]
            figures = f"{seconds:.1f} s, {row['tasks']:,} traces, {row['usd']:.2f} USD"
            print(f"{options.spans:,} spans {mode}: exit status {status}, {figures}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{usage.ru_utime + usage.ru_stime:.1f} processor seconds in all, at most {usage.ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
