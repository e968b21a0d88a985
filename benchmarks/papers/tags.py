"""ToolPlanner's tag extraction on MGToolBench (Tables 6 and 27): a language model tuned on its instructions, beside retrievers.

    python benchmarks/papers/tags.py --data DIR --model models/smollm2 --steps 60 --out runs/tags --json runs/tags.json

The model reads an instruction that names categories, tools or APIs and writes the names. It learns from the 15,000 instructions
of DIR, without those whose seed is a test task's, and is measured on the 100 test tasks at each level. Retrievers find the APIs
nearest to the instruction by their names, by words and, with the extra `minilm`, by MiniLM. DIR is CC-BY-NC-SA-4.0: nothing
that is trained on it may be shipped. A finished training is kept.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.report import write_report
from costgym.agents.deer.language_model import completion_loss, next_texts, published_model
from costgym.agents.deer.settings import DeerSettings
from costgym.agents.networks import load_published, padded, trained_weights
from costgym.agents.toolplanner.tags import tag_score
from costgym.experiments.papers.claims import interval_ends
from costgym.experiments.train.deer.rows import IGNORED, TokenRow, token_row
from costgym.experiments.train.loop import take_step
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import require
from costgym.simulators.retrieval.ranking import Bm25, best_first
from costgym.simulators.retrieval.sentences import has_minilm, sentence_embedding

LEVELS = {"category": "cate", "tool": "tool", "api": "api"}
RETRIEVED = (1, 3, 5)
Tags = frozenset[str]


def plain(name: str) -> str:
    """Return a name as it is compared."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def prompt(instruction: str) -> str:
    return f"Instruction: {instruction}\nNames:"


def training_rows(data: Path, tokenizer: Any) -> list[TokenRow]:
    """Return the instructions with their names, without those that a test task comes from."""
    tested = {task["query"] for task in json.loads((data / "G3_query_100.json").read_text())}
    rows = []
    for short in LEVELS.values():
        for line in (data / f"{short}_instruction_5000.json").read_text().splitlines():
            record = json.loads(line)
            if record["original_query"] not in tested:
                listed = record["query"].rpartition(":")[2].strip().rstrip(".").split(", ")
                names = ", ".join(dict.fromkeys(listed))
                rows.append(token_row(tokenizer, prompt(record["new_instruction"]), f" {names}"))
    return rows


def train(data: Path, folder: Path, settings: DeerSettings) -> Callable[[Sequence[str]], list[Tags]]:
    """Tune adapters on the instructions, or load them; return what extracts tags."""
    torch, transformers = require("torch", "train"), require("transformers", "train")
    files = require("safetensors.torch", "train")
    tokenizer = load_published(transformers.AutoTokenizer, settings.model or "")
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    model = published_model(settings).to("cuda" if torch.cuda.is_available() else "cpu")
    weights, path = trained_weights(model), folder / f"adapters-{settings.steps}-{settings.seed}.safetensors"
    if path.is_file():
        for name, tensor in files.load_file(path).items():
            weights[name].data.copy_(tensor)
    else:
        rows = training_rows(data, tokenizer)
        optimizer = torch.optim.AdamW(weights.values(), lr=settings.rate(0), weight_decay=0.01)
        for step in range(settings.steps):
            optimizer.param_groups[0]["lr"] = settings.rate(step)
            chance = stable_generator(settings.seed, "tags", step)
            batch = [rows[index] for index in chance.choice(len(rows), settings.batch_size, replace=False).tolist()]
            ids, mask = padded([row.input_ids for row in batch], pad)
            labels, _ = padded([row.labels for row in batch], IGNORED)
            tensors = [tensor.to(model.device) for tensor in (ids, mask, labels)]
            loss, _ = take_step(
                optimizer, weights, lambda tensors=tensors: (completion_loss(model, *tensors)[0], {}), 1.0, step
            )
            print(f"step {step + 1} of {settings.steps}: loss {loss:.3f}", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        files.save_file({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, path)
    model.eval()

    def extract(instructions: Sequence[str]) -> list[Tags]:
        read = [tokenizer(prompt(text))["input_ids"] for text in instructions]
        written = next_texts(model, read, pad, tokenizer.eos_token_id)
        texts = [tokenizer.decode(tokens, skip_special_tokens=True) for tokens in written]
        return [frozenset(plain(name) for name in text.split(",") if plain(name)) for text in texts]

    return extract


def apis(data: Path) -> list[dict[str, str]]:
    """Return all APIs by category, tool and name."""
    tools = [line.split("\t") for line in (data / "toolNameStand.txt").read_text().splitlines()]
    category = {tool: name for name, listed in tools for tool in listed.rstrip(".").split(", ")}
    names = [line.split("\t") for line in (data / "APINameStand.txt").read_text().splitlines()]
    return [
        {"category": plain(category.get(tool, "")), "tool": plain(tool), "api": plain(api)}
        for tool, listed in names
        for api in listed.rstrip(".").split(", ")
    ]


def retrievers(known: Sequence[dict[str, str]]) -> dict[str, Callable[[str], Any]]:
    """Return the scores of all APIs for an instruction, by retriever."""
    documents = [" ".join(api.values()).replace("_", " ") for api in known]
    scorers: dict[str, Callable[[str], Any]] = {"bm25": Bm25(documents).scores}
    if has_minilm():
        embed = sentence_embedding()
        vectors = embed(documents)
        scorers["minilm"] = lambda instruction: (vectors @ embed([instruction])[0]).round(5)
    return scorers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", help="a causal language model; none measures the retrievers alone")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("runs/tags"))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    settings = {"steps": chosen.steps, "batch_size": chosen.batch_size, "seed": chosen.seed}
    rows = tag_rows(chosen.data, chosen.out, chosen.model, chosen.tasks, **settings)
    about = {"command": "python benchmarks/papers/tags.py", "steps": chosen.steps, "tasks": chosen.tasks}
    write_report({**about, "rows": rows}, chosen.json)


def tag_rows(data: Path, out: Path, model: str | None, tasks: int, seed: int = 0, **settings: Any) -> list[dict[str, Any]]:
    """Train a model, if there is one; return precision, recall and F1 of it and of retrievers on each level's first tasks."""
    ground = json.loads((data / "G3_query_100_ground.json").read_text())[:tasks]
    known, extract = apis(data), None
    if model:
        extract = train(data, out, DeerSettings(model=model, seed=seed, warmup_steps=10, learning_rate=5e-4, **settings))
    rows = []
    for level, short in LEVELS.items():
        queries = json.loads((data / f"G3_query_100_level_{short}.json").read_text())[:tasks]
        instructions = [task["query"] for task in queries]
        gold = [_gold(task, level) for task in ground]
        lists: dict[str, list[Tags]] = {}
        for name, scores in retrievers(known).items():
            ranked = [best_first(scores(text)) for text in instructions]
            for count in RETRIEVED:
                lists[f"{name}@{count}"] = [frozenset(known[index][level] for index in order[:count]) for order in ranked]
        if extract is not None:
            lists[f"tags, {Path(model or '').name}"] = extract(instructions)
        for name, tags in lists.items():
            score = tag_score(zip(tags, gold, strict=True))
            hits = np.array([[2.0 * len(t & g), len(t) + len(g)] for t, g in zip(tags, gold, strict=True)])
            ends = interval_ends(["f1"], hits[:, :1], hits[:, 1:], seed=seed)["f1"]
            rows.append({"level": level, "from": name, **score._asdict(), "ci95": ends})
    return rows


def _gold(task: dict[str, Any], level: str) -> Tags:
    """Return what a test task's instructions name at a level."""
    relevant = {tuple(pair) for pair in task["relevant APIs"]}
    named = [api for api in task["api_list"] if (api["tool_name"], api["api_name"]) in relevant]
    return frozenset(plain(api[f"{level}_name"]) for api in named)


if __name__ == "__main__":
    main()
