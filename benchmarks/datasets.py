"""Build the named datasets, check each, and write the table of `docs/reference/datasets.md`.

    OMP_NUM_THREADS=1 python benchmarks/datasets.py --root build/datasets

writes `benchmarks/results/datasets.json` and `.md`. Datasets that are in the folder already are measured again, and keep their
build time. Each dataset is loaded with `minari.load_dataset`, its evaluation environment must be the split `test`, and random
actions and the expert must have the normalised scores 0 and 100 there, by the protocol of the reference scores.
"""

import argparse
import json
import os
import platform
import time
from functools import cache
from pathlib import Path
from typing import Any

import minari
import numpy as np

import costgym
from costgym.experiments.play.named.build import Reference, build, folder_of, measure, references, summarise
from costgym.experiments.play.named.catalogue import FAMILIES, dataset_names, family_of, recipe_of
from costgym.simulators.files import write_atomically

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--root", type=Path, default=Path("build/datasets"))
    args = parser.parse_args()
    os.environ["MINARI_DATASETS_PATH"] = str(args.root.resolve())
    results_file = RESULTS / "datasets.json"
    recorded = json.loads(results_file.read_text()) if results_file.exists() else {"datasets": [], "worlds": []}
    rows: dict[str, dict[str, Any]] = {row["dataset"]: row for row in recorded["datasets"]}
    worlds: dict[str, dict[str, Any]] = {row["world"]: row for row in recorded["worlds"]}
    known = [*dataset_names(), *dataset_names(flat=True)]
    for name in args.names or known:
        seconds = rows.get(name, {}).get("build_s")
        references(recipe_of(name).family.name)  # measured once, and not a part of the build
        if not folder_of(name).exists():
            began = time.process_time()
            build(name)
            seconds = round(time.process_time() - began, 1)
        rows[name] = {**summarise(name), "build_s": seconds, **check(name)}
        print(json.dumps(rows[name]), flush=True)
        worlds |= {family.name: world(family.name) for family in FAMILIES if built(family.name)}
        document = {
            "command": "OMP_NUM_THREADS=1 python benchmarks/datasets.py",
            "machine": f"{platform.machine()}, Python {platform.python_version()}, costgym {costgym.__version__}",
            "worlds": [worlds[family.name] for family in FAMILIES if family.name in worlds],
            "datasets": [rows[dataset] for dataset in known if dataset in rows],
        }
        write_atomically(results_file, json.dumps(document, indent=1) + "\n")
        write_atomically(results_file.with_suffix(".md"), tables(document))


def check(name: str) -> dict[str, Any]:
    """Check the dataset's evaluation environment, and score random actions and the expert there."""
    dataset = minari.load_dataset(name)
    recipe = recipe_of(name)
    train, test = (dataset.recover_environment(eval_env=evaluating).unwrapped for evaluating in (False, True))
    played = {int(about["options"]["task"]) for about in dataset.storage.get_episode_metadata(range(dataset.total_episodes))}
    assert test.split == "test" and not played & set(test.numbers) and played <= set(train.numbers)
    scores = np.array([reached(recipe.family.name, kind).score for kind in ("random", "expert")])
    random, expert = (100 * minari.get_normalized_score(dataset, scores)).tolist()
    assert (round(random, 6), round(expert, 6)) == (0, 100)
    return {"evaluation_split": test.split, "normalised_random": round(random, 6), "normalised_expert": round(expert, 6)}


@cache
def reached(world: str, kind: str) -> Reference:
    """Measure the policy of a kind of dataset in the recovered evaluation environment, without wrappers: agents read dicts."""
    env = minari.load_dataset(built(world)[0]).recover_environment(eval_env=True)
    return measure(env.unwrapped, recipe_of(f"costgym/{world}/{kind}-v0").parts[0].make(), family_of(world).references)


def built(world: str) -> list[str]:
    """The datasets of a world that are in the folder."""
    known = [*dataset_names(), *dataset_names(flat=True)]
    return [name for name in known if f"/{world}/" in name and folder_of(name).exists()]


def world(name: str) -> dict[str, Any]:
    """Measure random actions, the expert and the policies of `medium` and `replay` on the test tasks."""
    policies = {kind: reached(name, kind)._asdict() for kind in ("random", "medium", "expert")}
    return {"world": name, "cost_limit": family_of(name).cost_limit, **policies}


def tables(document: dict[str, Any]) -> str:
    """The tables of the page."""
    lines = [
        "| dataset | episodes | steps | mean return | normalised score | success | mean cost | coverage | MB | flat, MB "
        "| build, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows = {row["dataset"]: row for row in document["datasets"]}
    for name in dataset_names():
        row, flat = rows.get(name), rows.get(name.replace("-v0", "-flat-v0"))
        if row is None:
            continue
        cost = f"{row['mean_cost']:.2f}" if row["mean_cost"] >= 1 else f"{row['mean_cost']:.3f}"
        coverage = f"{row['coverage']:.2f}" if "coverage" in row else ""
        took = "" if row["build_s"] is None else f"{row['build_s']:.0f}"
        lines.append(
            f"| `{name.removeprefix('costgym/')}` | {row['episodes']:,} | {row['steps']:,} | {row['mean_return']:.3f} | "
            f"{row['normalised_score']:.1f} | {row['success']:.3f} | {cost} | {coverage} | {row['size_mb']:.0f} | "
            f"{'' if flat is None else format(flat['size_mb'], '.0f')} | {took} |"
        )
    lines += [
        "",
        "What policies reach on the test tasks, 2,000 episodes each (sessions: 300):",
        "",
        "| world | policy | return | success | mean cost |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for family in document["worlds"]:
        for policy in ("random", "medium", "expert"):
            result = family[policy]
            cost = f"{result['cost']:.2f}" if result["cost"] >= 1 else f"{result['cost']:.3f}"
            limit = "" if family["cost_limit"] is None else f" (limit {family['cost_limit']:g})"
            lines.append(
                f"| `{family['world']}` | {policy} | {result['score']:.3f} | {result['success']:.3f} | {cost}{limit} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
