"""Measure the house: lines by folder and feature, style, times to start, folders that are full, and the drawing of its imports.

    python benchmarks/house.py --against v0.2.0 --json benchmarks/results/house.json

Needs a checkout with its history, and the extra `dev`.
"""

import argparse
import ast
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import grimp

ROOT = Path(__file__).resolve().parents[1]
LONG, LONG_FUNCTION, FULL = 110, 60, 16  # characters of a line; lines of a function; modules of a folder
PARTS = ("costgym", "tests", "benchmarks", "examples")
SIZE, TEST_SIZE = 72_000, 46_000  # lines that were aimed at: the package with its examples; tests and benchmarks
FLOORS = ("cli", "experiments", "agents", "envs", "simulators")
FEATURES = {
    "APIs and vision tools in one world": ("one_world",),
    "version 1 of the world in plain English": ("marketplace/english", "simulators/text"),
    "any command as an agent, and what its server needs (rank, doctor)": (
        "serve/command",
        "play/rank",
        "tools/doctor",
        "models/doctor",
    ),
    "calls and usage of many servers": ("models/call_forms", "models/usage", "models/replies", "models/streams"),
    "worlds out of specifications and logs (forge)": ("/forge",),
    "logs of agents (calibrate, logs of every shape)": ("fit/calibration", "play/call_logs"),
    "bills: prompt caches, price tables, cost, gate": ("prompt_cache", "price", "play/costs", "play/gate", "play/cost"),
    "epochs": ("board/epochs",),
    "submissions, reruns, sandbox": ("board/submissions", "board/reruns"),
    "files that may be somebody else's": ("simulators/files",),
    "the rules, interpreted and compiled": ("simulators/rules", "simulators/batch", "envs/vector"),
    "sessions": ("/sessions", "session_"),
    "OpenCATP": ("opencatp", "catp"),
    "reproductions": ("experiments/papers", "lab/papers"),
    "trainers and baselines": ("experiments/train", "experiments/baselines", "lab/baselines", "cli/learn"),
    "pages": ("experiments/pages",),
    "servers and proxy": ("experiments/serve",),
    "checks of the world by itself": ("lab/selftest",),
    "agents and models": ("/agents/",),
    "boards and results": ("experiments/board", "experiments/play", "experiments/leaderboard"),
    "environments": ("/envs/",),
    "worlds and their grading": ("/simulators/",),
    "command line": ("/cli/",),
    "examples": ("examples/",),
}
"""The modules of a feature by a part of their path; a module counts for the first feature that has it."""
COMMANDS = {
    "import costgym": ("-c", "import costgym"),
    "costgym --help": ("-m", "costgym", "--help"),
    "costgym envs": ("-m", "costgym", "envs"),
    "costgym agents": ("-m", "costgym", "agents"),
}


def python_files(root: Path, part: str) -> dict[str, str]:
    """The text of every Python file of a part, by its path."""
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in sorted((root / part).rglob("*.py"))}


def lines_of(files: dict[str, str]) -> dict[str, Any]:
    """Lines of all, by folder and by feature."""
    folders: Counter[str] = Counter()
    features: Counter[str] = Counter()
    for name, text in files.items():
        count = text.count("\n")
        folders["/".join(Path(name).parts[1:3]) if len(Path(name).parts) > 3 else Path(name).parts[0]] += count
        features[next((title for title, marks in FEATURES.items() if any(mark in name for mark in marks)), "all else")] += count
    return {"all": sum(folders.values()), "folders": dict(sorted(folders.items())), "features": dict(features.most_common())}


def style_of(files: dict[str, str]) -> dict[str, Any]:
    """Long lines and functions, the share of comments, and modules of full folders."""
    lines = [line for text in files.values() for line in text.splitlines()]
    functions = [
        node.end_lineno - node.lineno + 1
        for text in files.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    ]
    modules = Counter(str(Path(name).parent) for name in files if Path(name).stem != "__init__")
    return {
        "lines over 110 characters": sum(len(line) > LONG for line in lines),
        "comments, % of lines": round(100 * sum(line.lstrip().startswith("#") for line in lines) / len(lines), 2),
        "functions": len(functions),
        "functions over 60 lines": sum(length > LONG_FUNCTION for length in functions),
        "median lines of a function": statistics.median(functions),
        "median lines of a module": statistics.median(text.count("\n") for text in files.values()),
        "folders over 16 modules": {name: count for name, count in modules.most_common() if count > FULL},
    }


def processor_seconds(arguments: tuple[str, ...], repeats: int = 5) -> float:
    """The least processor seconds of a process of Python."""
    seconds = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return round(min(seconds), 2)


def drawing() -> dict[str, Any]:
    """The floors with the imports between them; circles of modules, whatever imports them and when."""
    graph = grimp.build_graph("costgym", exclude_type_checking_imports=False)
    arrows: Counter[str] = Counter()
    importers: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            importers[imported].add(module)
            ends = [name.split(".")[1] if "." in name else name for name in (module, imported)]
            if ends[0] != ends[1] and set(ends) <= set(FLOORS):
                arrows[" -> ".join(ends)] += 1
    up = [arrow for arrow in arrows if FLOORS.index(arrow.split()[0]) > FLOORS.index(arrow.split()[2])]
    # what is left after modules that import nothing that is left are taken away again and again lies on a circle, or above one
    left = set(graph.modules)
    while free := {module for module in left if not graph.find_modules_directly_imported_by(module) & left}:
        left -= free
    return {"arrows": dict(sorted(arrows.items())), "arrows up": up, "modules on a circle or above one": sorted(left)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REVISION", help="an older state, for its lines and style")
    parser.add_argument("--json", type=Path, help="file of the report")
    args = parser.parse_args()
    report: dict[str, Any] = {"now": measured(ROOT)}
    if args.against:
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(["git", "archive", args.against], cwd=ROOT, check=True, capture_output=True).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
            report[args.against] = measured(Path(folder))
    report["papers"] = {path.name: path.read_text().count("\n") for path in papers()}
    report["processor seconds"] = {name: processor_seconds(arguments) for name, arguments in COMMANDS.items()}
    report["drawing"] = drawing()
    text = json.dumps(report, indent=1, ensure_ascii=False)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    if args.against:
        print("\n".join(growth(report[args.against]["lines"], report["now"]["lines"])))


def growth(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A table of the features by what they have grown, and what all of it is above the sizes that were aimed at."""
    old, new = Counter(before["costgym"]["features"]), Counter(now["costgym"]["features"])
    old["examples"], new["examples"] = before["examples"], now["examples"]
    lines = ["", "| feature | lines before | now | more |", "| --- | --- | --- | --- |"]
    for name in sorted(old | new, key=lambda name: old[name] - new[name]):
        lines.append(f"| {name} | {old[name]:,} | {new[name]:,} | {new[name] - old[name]:+,} |")
    sums = {"package and examples": (old.total(), new.total(), SIZE)}
    sums["tests and benchmarks"] = (*(lines["tests"] + lines["benchmarks"] for lines in (before, now)), TEST_SIZE)
    for name, (was, count, size) in sums.items():
        lines.append(f"| **{name}**: {count - size:+,} lines against {size:,} | {was:,} | {count:,} | {count - was:+,} |")
    return lines


def measured(root: Path) -> dict[str, Any]:
    """Lines of every part of a tree, and the style of the package."""
    # before 0.3 the package's folders lay at the root
    files = {part: python_files(root, part) for part in PARTS}
    if (root / "costgym" / "simulators").is_symlink() or not (root / "costgym" / "simulators").exists():
        for floor in FLOORS[1:]:
            files["costgym"] |= {f"costgym/{name}": text for name, text in python_files(root, floor).items()}
    lines = {
        part: lines_of(files[part]) if part == "costgym" else sum(t.count("\n") for t in files[part].values()) for part in PARTS
    }
    return {"lines": lines, "style": style_of(files["costgym"])}


def papers() -> list[Path]:
    """The five papers' files."""
    return [ROOT / f"costgym/experiments/papers/{name}.py" for name in ("btp", "ecoact", "deer", "toolplanner", "catp")]


if __name__ == "__main__":
    main()
