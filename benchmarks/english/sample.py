"""Print descriptions and queries of both versions of the world, mixed and shuffled, to be graded blind by `rubric.md`.

    python benchmarks/english/sample.py --out texts.txt --labels labels.json
    python benchmarks/english/sample.py --grades grades.json --labels labels.json

`texts.txt` numbers the texts from 1; `labels.json` says which is of which version and must not be shown to a grader. Grades are
a mapping of the numbers of bad texts to the error that was found first, such as ``{"3": "grammar"}``; the second command joins
them with the labels and prints the errors per hundred texts.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from costgym.simulators.scenario import load_scenario

SCENARIOS = ("marketplace", "marketplace", "marketplace", "marketplace-writes")  # three of four texts are of the default world


def sampled(version: int, kind: str, generator: np.random.Generator) -> str:
    """A description of a tool, or a query, of a version of the world."""
    world = load_scenario(SCENARIOS[generator.integers(len(SCENARIOS))]).in_world(version).build()
    if kind == "description":
        tool = world.catalog[int(generator.integers(len(world.catalog)))]
        arguments = [f"    {name}: {schema.get('description', '')}" for name, schema in tool.parameters["properties"].items()]
        return "\n".join([f"{tool.name}: {tool.description}", *arguments])
    numbers = world.tasks.numbers("test")
    return str(world.tasks[numbers[int(generator.integers(len(numbers)))]].query)


def draw(count: int, seed: int) -> list[tuple[str, int, str]]:
    """So many texts with version and kind, as many of each version and kind, without repeats, in random order."""
    generator, texts = np.random.default_rng(seed), dict[str, tuple[int, str]]()
    for index in range(count):
        version, kind = index % 2, ("description", "query")[index // 2 % 2]
        while (text := sampled(version, kind, generator)) in texts:
            pass
        texts[text] = version, kind
    drawn = [(text, version, kind) for text, (version, kind) in texts.items()]
    return [drawn[index] for index in generator.permutation(len(drawn))]


def report(labels: list[dict[str, object]], grades: dict[str, str]) -> str:
    """The errors per hundred texts, by version and kind."""
    lines = ["| version | kind | texts | bad | errors per hundred |", "| --- | --- | --- | --- | --- |"]
    for version in (0, 1):
        for kind in ("description", "query"):
            numbers = [str(n) for n, label in enumerate(labels, 1) if (label["version"], label["kind"]) == (version, kind)]
            bad = [number for number in numbers if number in grades]
            lines.append(f"| {version} | {kind} | {len(numbers)} | {len(bad)} | {100 * len(bad) / max(1, len(numbers)):.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="number of texts, half of each version")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path, help="file for the texts; without it they are printed")
    parser.add_argument(
        "--labels", type=Path, required=True, help="file of the labels, which is written, or read with --grades"
    )
    parser.add_argument("--grades", type=Path, help="file of a grader's grades")
    chosen = parser.parse_args()
    if chosen.grades is not None:
        print(report(json.loads(chosen.labels.read_text()), json.loads(chosen.grades.read_text())))
        return
    drawn = draw(chosen.count, chosen.seed)
    texts = "\n\n".join(f"[{number}] {text}" for number, (text, _, _) in enumerate(drawn, 1)) + "\n"
    chosen.labels.write_text(json.dumps([{"version": version, "kind": kind} for _, version, kind in drawn]) + "\n")
    if chosen.out is None:
        print(texts)
    else:
        chosen.out.write_text(texts)


if __name__ == "__main__":
    main()
