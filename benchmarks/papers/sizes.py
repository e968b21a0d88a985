"""How DEER's tuned encoder does with less training data, and with fewer layers.

    python benchmarks/papers/sizes.py --data DIR --json benchmarks/results/deer_sizes.json

DIR is a ToolDEER folder. Each training changes one thing: it has every second or every fourth query of each tool, or the first
three layers of MiniLM or the first one, and as many steps as the whole. They are played on `valid` alone. P_DC, in percent;
differences from the whole are paired by sample, and intervals are a bootstrap's. An encoder with fewer layers also draws the
candidates that it learns from. Finished trainings are kept.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.papers.unseen import right_calls
from benchmarks.report import write_report
from costgym.agents.deer import examples
from costgym.agents.deer.learnt import load_decider
from costgym.envs.decision import DecisionAwareEnv
from costgym.experiments.papers.claims import interval_ends
from costgym.experiments.train.deer.train import train_deer
from costgym.simulators.decision.recorded import find_file
from costgym.simulators.decision.samples import NO_SEARCH
from costgym.simulators.retrieval.sentences import MINILM, SentenceEmbedding
from costgym.simulators.threads import torch_threads

LAYERS = 6
SIZES = {"all": (1, LAYERS), "queries-2": (2, LAYERS), "queries-4": (4, LAYERS), "layers-3": (1, 3), "layers-1": (1, 1)}
"""For each training, by name: it learns from one query in so many, on so many layers. The first is the whole one."""


def thinned(tools: Path, every: int, folder: Path) -> Path:
    """Write the authors' folder with some queries of each tool, the first and then one in so many; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("valid", "test"):  # whose queries are not learnt
        shutil.copyfile(tools.with_name(f"{name}.json"), folder / f"{name}.json")
    records = json.loads(tools.read_text(encoding="utf-8"))
    fewer = [{**record, "example": record["example"][::every]} for record in records]
    (folder / tools.name).write_text(json.dumps(fewer), encoding="utf-8")
    return folder


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
    rows: list[dict[str, Any]] = []
    whole: np.ndarray | None = None
    for name, (every, layers) in SIZES.items():
        data = chosen.data if every == 1 else thinned(tools, every, chosen.out / f"one query in {every}")
        model = shortened(layers, chosen.out / f"minilm-{layers}")
        length: dict[str, Any] = {"steps": chosen.steps, "bf16": chosen.bf16, "check": False}
        with torch_threads(1):
            train_deer(chosen.out / name, data=str(data), model=model, tune_encoder=True, **length)
            right = np.array(right_calls(load_decider(chosen.out / name), samples))
        whole = right if whole is None else whole
        row: dict[str, Any] = {"queries": f"1/{every}", "layers": layers, "steps": chosen.steps, "number": len(samples)}
        for title, values in {"P_DC": right, "less the whole": right - whole}.items():
            ends = interval_ends([title], values[:, None])[title]
            row[title] = {"mean": round(float(values.mean()), 2), "ci95": [round(end, 2) for end in ends]}
        rows.append(row)
        print(row, file=sys.stderr)
    write_report({"command": "python benchmarks/papers/sizes.py", "rows": rows}, chosen.json)


if __name__ == "__main__":
    main()
