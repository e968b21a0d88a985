"""Make typical mistakes on the command line, print each message with its processor seconds, then check pipes and help.

python benchmarks/mistakes.py [--help-too | WORDS OF ONE COMMAND]
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from costgym.cli.app import Costgym

MISTAKES = [
    "leaderbord",
    "run graedy",
    "run greedy --budget 20",
    "run greedy --budget prise=20",
    "run greedy --budget price=cheap",
    "run greedy --episodes 0",
    "run greedy --episodes many",
    "run greedy --episode 5",
    "run greedy --scenario marketplace-hrad",
    "run greedy --env Marketplace",
    "run react --env Marketplace-v0",
    "run react+bpt",
    "run react --model gpt-5",
    "run react --model openai:gpt-5",
    "run",
    "show nothing/here",
    "show react --format gif",
    "show react --task 9999",
    "play --task 9999",
    "verify nothing-here",
    "leaderboard --suite fast",
    "leaderboard --agents greddy",
    "export nothing-here --format parquet",
    "train",
    "train pppo",
    "submit validate nothing-here",
    "calibrate nothing.json",
    "forge nothing.yaml --out world.yaml",
    "cost react --prices nothing.json",
    "scenarios --json",
]
COMPLETED = [
    "costgym lead",
    "costgym run chea",
    "costgym run react --bud",
    "costgym leaderboard --agents greedy,zoo:p",
    "costgym show --scenario marketplace-h",
    "costgym run --env Marketplace-",
]
LISTS = ["envs", "agents", "scenarios", "datasets", "models", "--help", "--version", "run -h", "leaderboard -h"]


def run(line: str, folder: Path) -> tuple[float, int, str, str]:
    """Run a command as in a pipe; its processor seconds, exit status, standard output and standard error."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        environment.pop(name, None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "costgym", *line.split()],
        capture_output=True, text=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode, done.stdout, done.stderr


def complete(words: str) -> list[str]:
    """Return the completions that bash offers for a line."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_COSTGYM_COMPLETE": "complete_bash"}
    code = "from costgym.cli.app import app; app(prog_name='costgym')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **asked})
    return done.stdout.split()


def main() -> None:
    wanted = MISTAKES if len(sys.argv) < 2 or sys.argv[1].startswith("--") else [" ".join(sys.argv[1:])]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        print("# Mistakes")
        for line in wanted:
            seconds, status, out, err = run(line, folder)
            said = (err or out).strip()
            print(f"\n$ costgym {line}    [{seconds:.2f} s, exit {status}]\n{said[-600:]}")
            if left := sorted(file.name for file in folder.iterdir()):
                print(f"LEFT BEHIND: {', '.join(left)}")
        print("\n# Lists and help")
        for line in LISTS:
            seconds, status, out, _ = run(line, folder)
            print(f"costgym {line}: {seconds:.2f} s, exit {status}, {len(out.splitlines())} lines, tabs {out.count(chr(9))}")
        print("\n# Completion, and a pipe that closes early")
        for words in COMPLETED:
            print(f"{words}<TAB>: {' '.join(complete(words))}")
        piped = subprocess.run(["bash", "-c", f"{sys.executable} -m costgym agents | head -1"], capture_output=True, text=True)
        print(f"costgym agents | head -1: {piped.stdout.strip()!r}, on standard error {piped.stderr!r}")
        if "--help-too" in sys.argv:
            print("\n# Help of every command, at 80 columns")
            for verb in Costgym.entries:
                _, status, out, _ = run(f"{verb} -h", folder)
                widest = max(map(len, out.splitlines()), default=0)
                wide = "  TOO WIDE" if widest > 80 else ""
                print(f"{verb}: exit {status}, {len(out.splitlines())} lines, widest {widest}{wide}")


if __name__ == "__main__":
    main()
