"""How DEER's tuned encoder does with less training data, and with fewer layers.

    python benchmarks/papers/sizes.py --data DIR --json benchmarks/results/deer_sizes.json

DIR is a ToolDEER folder. Each training changes one thing: it has every second or every fourth query of each tool, or the first
three layers of MiniLM or the first one, and as many steps as the whole. They are played on `valid` alone. P_DC, in percent;
differences from the whole are paired by sample, and intervals are a bootstrap's. An encoder with fewer layers also draws the
candidates that it learns from. Finished trainings are kept.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.papers.unseen import over_samples, right_calls, write_part
from benchmarks.report import write_report
from costgym.agents.deer import examples
from costgym.agents.deer.learnt import load_decider
from costgym.envs.decision import DecisionAwareEnv
from costgym.experiments.papers.paper import Row
from costgym.experiments.train.deer.train import train_deer
from costgym.simulators.decision.recorded import find_file
from costgym.simulators.decision.samples import NO_SEARCH
from costgym.simulators.retrieval.sentences import MINILM, SentenceEmbedding
from costgym.simulators.threads import torch_threads

LAYERS = 6
SIZES = {"all": (1, LAYERS), "queries-2": (2, LAYERS), "queries-4": (4, LAYERS), "layers-3": (1, 3), "layers-1": (1, 1)}
"""For each training, by name: it learns from one query in so many, on so many layers. The first is the whole one."""


def shortened(layers: int, folder: Path) -> str:
    """Write MiniLM with its first layers alone; return its name."""
    if layers == LAYERS:
        return MINILM
    network = SentenceEmbedding(MINILM).network
    shutil.copytree(network.name_or_path, folder, dirs_exist_ok=True)
    network.encoder.layer = network.encoder.layer[:layers]
    network.config.num_hidden_layers = layers
    network.save_pretrained(folder)
    return str(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="multiply in bfloat16")
    parser.add_argument("--out", type=Path, default=Path("runs/sizes"))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    tools = find_file(chosen.data, "tool.json")
    if tools is None:
        parser.error(f"--data: expected ToolDEER's folder with tool.json, found none in {chosen.data}")
    world = DecisionAwareEnv(data=str(chosen.data), split="valid").world
    samples = [example for example in examples(world, "valid") if example.kind != NO_SEARCH]
    right: dict[str, NDArray[np.float64]] = {}
    rows: list[Row] = []
    for name, (every, layers) in SIZES.items():
        data, run = chosen.data, chosen.out / name
        if every > 1:
            data = chosen.out / f"one query in {every}"
            write_part("queries", tools, data, every)
        model = shortened(layers, chosen.out / f"minilm-{layers}")
        length: dict[str, Any] = {"steps": chosen.steps, "bf16": chosen.bf16, "check": False}
        with torch_threads(1):
            train_deer(run, data=str(data), model=model, tune_encoder=True, **length)
            right[name] = np.array(right_calls(load_decider(run), samples))
        row: Row = {"queries": f"1/{every}", "layers": layers, "steps": chosen.steps, "number": len(samples)}
        row |= {"P_DC": over_samples(right[name]), "less the whole": over_samples(right[name] - right["all"])}
        rows.append(row)
        print(row, file=sys.stderr)
    write_report({"command": "python benchmarks/papers/sizes.py", "rows": rows}, chosen.json)


if __name__ == "__main__":
    main()
