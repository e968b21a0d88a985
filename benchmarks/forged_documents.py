"""Measure what `costgym forge` makes of documents, and mix queries of two trees for readers who grade them blind.

python benchmarks/forged_documents.py measure DOCUMENT...             # operations, reasons, tasks that cannot be solved
python benchmarks/forged_documents.py writes benchmarks/documents/shop.yaml  # who loses money, with and without keys
python benchmarks/forged_documents.py sample 50 DOCUMENT... --seed 1 > new.json  # sampled queries of this tree, as JSON
python benchmarks/forged_documents.py mix new.json old.json --out blind  # blind/queries.md and, apart, blind/labels.json
python benchmarks/forged_documents.py score blind GRADES...            # share that a person would write, and agreement

The rubric is benchmarks/documents/rubric.md, which `mix` writes above the queries. `sample` runs in any tree that has
`costgym forge`: give that tree's interpreter and this file's path. A file of grades has a line for each query: its number,
then 1 or 0.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report

TASKS = 200  # of each document that are checked
WRITERS = ("oracle", "oracle-informed", "greedy", "retry", "check-then-retry", "idempotent", "react")
"""The optimum, what is best without its luck, and agents that differ in what they do after a call whose end is ambiguous."""
RUBRIC = Path(__file__).parent / "documents" / "rubric.md"


def luck(*names: object) -> int:
    """The same number for the same names, in any tree."""
    return int.from_bytes(hashlib.sha256(repr(names).encode()).digest()[:8], "big")


def worlds(paths: list[str]) -> list[tuple[str, Any]]:
    """The name of each document, and its world with what was read, or why it gives none."""
    from costgym.experiments.fit.forge.forge import forge
    from costgym.simulators.errors import CostGymError
    from costgym.simulators.scenario import parse_scenario

    made: list[tuple[str, Any]] = []
    for path in paths:
        try:
            document, tally = forge([path], Path(path).stem.replace(".", "-"), 0, Path("forge-packages"))
            made.append((Path(path).name, (parse_scenario(document).build(), tally)))
        except CostGymError as error:
            made.append((Path(path).name, str(error)))
    return made


def measure(paths: list[str]) -> None:
    """Print, for each document, what is used and why other operations are not, and how many of its tasks are at fault."""
    from costgym.experiments.fit.forge.forge import _problem_of_task as problem_of_task

    for name, made in worlds(paths):
        if isinstance(made, str):
            print(f"{name}: {made}")
            continue
        world, tally = made
        tasks = [world.tasks[number] for number in world.tasks.numbers("test")[:TASKS]]
        problems = [problem for task in tasks if (problem := problem_of_task(world, task))]
        contradicting = sum(problem.startswith(("asks for what it states", "the ")) for problem in problems)
        writes = sum(any(need.state for need in task.needs) for task in tasks)
        print(
            f"{name}: {tally.operations} operations, {tally.used} used ({tally.used - tally.written} read, {tally.written} "
            f"write); {len(problems)} of {len(tasks)} tasks at fault, {contradicting} of them contradict themselves; "
            f"{writes} tasks write"
        )
        for reason, count in sorted(tally.unused.items(), key=lambda pair: -pair[1])[:6]:
            print(f"    {count:5} {reason}")


def writes(path: str, worlds: int, episodes: int, budget: float) -> dict[str, Any]:
    """Play agents in worlds of a document, on the same episodes, with the idempotency keys that it declares and without."""
    from costgym import make, rollout
    from costgym.experiments.fit.forge.forge import forge
    from costgym.simulators.scenario import parse_scenario

    report: dict[str, Any] = {"document": Path(path).name, "episodes": worlds * episodes, "budget": {"price": budget}}
    for keys in ("with keys", "without keys"):
        scenarios = []
        for seed in range(worlds):
            document, _ = forge([path], Path(path).stem, seed, Path("forge-packages"))
            for tool in document["source"]["tools"] if keys == "without keys" else ():
                if tool.get("idempotent") == "key":
                    del tool["idempotent"]
            scenarios.append(parse_scenario(document))
        for agent in WRITERS:
            view, results = "MarketplaceChat-v0" if agent == "react" else "Marketplace-v0", []
            for scenario in scenarios:
                env = make(f"costgym/{view}", scenario=scenario, split="test", budget={"price": budget})
                results += rollout(env, agent, episodes=episodes, seed=0)
            report.setdefault(keys, {})[agent] = row = {
                "strict": sum(result.strict for result in results),
                "right_state": sum(bool(result.figures["state_correct"]) for result in results),
                "duplicates": sum(result.figures["duplicates"] for result in results),
                "money_lost_an_episode": round(sum(result.figures["money_lost"] for result in results) / len(results), 2),
                "credits": round(sum(result.price for result in results) / len(results), 1),
            }
            print(f"{keys}: {agent:17}{row}", flush=True)
    return report


def sample(count: int, paths: list[str], seed: int = 0) -> list[dict[str, str]]:
    """Queries drawn evenly over the documents that give a world, as the same draw in any tree: by its command line alone."""
    import costgym

    usable = []
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            out = Path(folder) / f"{Path(path).stem}.yaml"
            if subprocess.run([sys.executable, "-m", "costgym", "forge", path, "--out", out, "--quiet"]).returncode == 0:
                env = costgym.make("costgym/MarketplaceChat-v0", scenario=str(out), split="test")
                usable.append((Path(path).name, env.unwrapped.world))
    sampled = []
    for number in range(count):
        name, world = usable[number % len(usable)]
        numbers = world.tasks.numbers("test")
        task = world.tasks[numbers[luck("sampled query", name, number + 1_000 * seed) % len(numbers)]]
        sampled.append({"document": name, "query": task.query})
    return sampled


def mix(new: Path, old: Path, out: Path) -> None:
    """Write the queries of both trees in one list without their origin, and the labels in a file of their own."""
    both = [{**row, "tree": tree} for tree, path in (("new", new), ("old", old)) for row in json.loads(path.read_text())]
    both.sort(key=lambda row: luck("mixed", row["tree"], row["document"], row["query"]))
    out.mkdir(parents=True, exist_ok=True)
    service = {name: re.sub(r"[-_.\d]+", " ", name.rsplit(".", 1)[0]).strip() for name in {row["document"] for row in both}}
    lines = [f"{number}. [{service[row['document']]}] {row['query']}" for number, row in enumerate(both, 1)]
    rubric = RUBRIC.read_text(encoding="utf-8").rstrip()
    (out / "queries.md").write_text("\n".join([rubric, "", *lines, ""]), encoding="utf-8")
    (out / "labels.json").write_text(json.dumps(both, indent=1) + "\n", encoding="utf-8")


def score(folder: Path, grades: list[Path]) -> None:
    """Print the share of each tree's queries that each reader would write, agreement, Cohen's kappa, and what was refused."""
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    readers = [dict(map(int, line.replace(".", " ").split()[:2]) for line in path.read_text().splitlines() if line.strip())  # type: ignore[misc]
               for path in grades]  # fmt: skip
    for path, graded in zip(grades, readers, strict=True):
        good = Counter(label["tree"] for number, label in enumerate(labels, 1) if graded[number])
        of = Counter(label["tree"] for label in labels)
        print(f"{path.name}: " + ", ".join(f"{tree} {good[tree]} of {of[tree]}" for tree in sorted(of)))
    if len(readers) > 1:
        first, second = readers[:2]
        pairs = [(first[number], second[number]) for number in range(1, len(labels) + 1)]
        agree = sum(a == b for a, b in pairs) / len(pairs)
        shares = [sum(column) / len(pairs) for column in zip(*pairs, strict=True)]
        chance = shares[0] * shares[1] + (1 - shares[0]) * (1 - shares[1])
        print(f"agreement {agree:.0%}, kappa {(agree - chance) / (1 - chance) if chance < 1 else 1:.2f}")
    for number, tree in enumerate(labels, 1):
        marks = "".join(str(graded[number]) for graded in readers)
        print(f"{marks} {tree['tree']} [{tree['document']}] {tree['query']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("measure").add_argument("paths", nargs="+")
    wrote = verbs.add_parser("writes")
    wrote.add_argument("path")
    wrote.add_argument("--worlds", type=int, default=10, help="worlds with other tools' luck")
    wrote.add_argument("--episodes", type=int, default=30, help="of each world")
    wrote.add_argument("--budget", type=float, default=60.0, help="credits")
    wrote.add_argument("--json", type=Path)
    drawn = verbs.add_parser("sample")
    drawn.add_argument("count", type=int)
    drawn.add_argument("paths", nargs="+")
    drawn.add_argument("--seed", type=int, default=0, help="of the draw; another seed draws other queries")
    mixed = verbs.add_parser("mix")
    mixed.add_argument("files", nargs=2, type=Path)
    mixed.add_argument("--out", type=Path, required=True)
    scored = verbs.add_parser("score")
    scored.add_argument("folder", type=Path)
    scored.add_argument("grades", nargs="+", type=Path)
    options = parser.parse_args()
    if options.verb == "measure":
        measure(options.paths)
    elif options.verb == "writes":
        write_report(writes(options.path, options.worlds, options.episodes, options.budget), options.json)
    elif options.verb == "sample":
        json.dump(sample(options.count, options.paths, options.seed), sys.stdout, indent=1)
    elif options.verb == "mix":
        mix(*options.files, options.out)
    else:
        score(options.folder, options.grades)


if __name__ == "__main__":
    main()
