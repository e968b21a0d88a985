"""How much DEER's tuned encoder loses on unseen tools: trained on half of the authors' tools, or on half of the queries.

    python benchmarks/papers/unseen.py --data DIR --steps 300 --json benchmarks/results/unseen.json

DIR is a ToolDEER folder. One training leaves out half of the tools with all their queries, the other half of each tool's
queries, so that both learn from about as many samples. They are played on the same samples of `valid` about the tools that the
first has not seen, on those about the tools that both have seen, and on the other three sets. P_DC, in percent; intervals are a
bootstrap's, over samples. Finished trainings are kept.

    python benchmarks/papers/unseen.py --data DIR --steps 150,300,750 --of tools --sets valid

With one half, and `valid` alone, the number of steps is chosen for tools that are not seen, without a look at the other sets.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.report import write_report
from costgym.agents.deer import examples
from costgym.agents.deer.deciders import TrainedDecider
from costgym.agents.deer.learnt import load_decider
from costgym.envs.decision import DecisionAwareEnv
from costgym.experiments.papers.claims import interval_ends
from costgym.experiments.papers.deer import SETS
from costgym.experiments.papers.paper import Row
from costgym.experiments.play.decisions import evaluate_together
from costgym.experiments.train.deer.train import train_deer
from costgym.simulators.decision.recorded import find_file
from costgym.simulators.decision.samples import NO_SEARCH, Example
from costgym.simulators.marketplace.loaders.tooldeer import read_queries
from costgym.simulators.tasks import normalise
from costgym.simulators.threads import torch_threads

HALVES = ("tools", "queries")
"""A training set holds half of the tools, or half of the queries."""


def write_part(of: str, tools: Path, folder: Path, every: int = 2) -> list[str]:
    """Write the authors' folder with the first tool and then one in so many, or with so few queries of each tool; return the
    names of its tools."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("valid", "test"):  # whose queries are not learnt
        shutil.copyfile(tools.with_name(f"{name}.json"), folder / f"{name}.json")
    records = json.loads(tools.read_text(encoding="utf-8"))
    if of == "tools":
        records = sorted(records, key=lambda record: str(record["api_name"]))[::every]
    else:
        records = [{**record, "example": record["example"][::every]} for record in records]
    (folder / tools.name).write_text(json.dumps(records), encoding="utf-8")
    return [record["api_name"] for record in records]


def right_calls(decider: TrainedDecider, samples: list[Example]) -> list[float]:
    """Play samples that need a tool; return 100 for each whose call was right, otherwise 0."""
    return [100.0 * bool(record.right_call) for record in evaluate_together(decider, samples)]


def over_samples(values: NDArray[np.float64]) -> Row:
    """Return the mean of a figure over the samples, (n,), with a bootstrap's interval."""
    ends = interval_ends(["mean"], values[:, None])["mean"]
    return {"mean": round(float(values.mean()), 2), "ci95": [round(end, 2) for end in ends]}


def played(of: str, steps: int, out: Path, bf16: bool, parts: dict[str, list[Example]]) -> dict[str, list[float]]:
    """Train on a half, or find the training; return what is right of each part."""
    run = out / f"{of}-{steps}"
    with torch_threads(1):
        train_deer(run, data=str(out / f"half of {of}"), model="minilm", tune_encoder=True, steps=steps, bf16=bf16, check=False)
        decider = load_decider(run)
        return {part: right_calls(decider, samples) for part, samples in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", default="300", help="lengths of training, with commas between")
    parser.add_argument("--of", default=",".join(HALVES), help="what is halved, with commas between")
    parser.add_argument("--sets", default=",".join(SETS), help="sets to play, `valid` among them")
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="multiply in bfloat16")
    parser.add_argument("--out", type=Path, default=Path("runs/unseen"))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    halves, wanted = chosen.of.split(","), chosen.sets.split(",")
    if "valid" not in wanted:
        parser.error(f"--sets: expected valid among them, got {chosen.sets}")
    tools = find_file(chosen.data, "tool.json")
    if tools is None:
        parser.error(f"--data: expected ToolDEER's folder with tool.json, found none in {chosen.data}")
    asked_of = {normalise(query.query): query.tool for query in read_queries(tools)}
    world = DecisionAwareEnv(data=str(chosen.data), split="valid").world
    sets = {name: [e for e in examples(world, name) if e.kind != NO_SEARCH] for name in wanted}
    names = {of: write_part(of, tools, chosen.out / f"half of {of}") for of in HALVES}
    seen = set(names["tools"])
    known = sets.pop("valid")
    parts = {
        "valid, tools that both have seen": [e for e in known if asked_of[normalise(e.query)] in seen],
        "valid, tools that half of the tools leave out": [e for e in known if asked_of[normalise(e.query)] not in seen],
        **sets,
    }
    rows: list[Row] = []
    for steps in map(int, chosen.steps.split(",")):
        right = {of: played(of, steps, chosen.out, chosen.bf16, parts) for of in halves}
        for part, samples in parts.items():
            figures = {f"half of {of}": np.array(right[of][part]) for of in halves}
            if len(halves) == 2:
                figures["tools less queries"] = figures["half of tools"] - figures["half of queries"]
            row: Row = {"steps": steps, "samples": part, "number": len(samples)}
            rows.append(row | {name: over_samples(values) for name, values in figures.items()})
    write_report({"command": "python benchmarks/papers/unseen.py", "rows": rows}, chosen.json)


if __name__ == "__main__":
    main()
