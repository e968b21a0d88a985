"""ToolPlanner's tags (Tables 6 and 27) and paths on MGToolBench: a language model tuned on its instructions, beside retrievers.

    python benchmarks/papers/tags.py --data DIR --model models/smollm2 --steps 60 --out runs/tags --json runs/tags.json
    python benchmarks/papers/tags.py --what paths --data DIR --model models/smollm2 --out runs/paths

It learns from the 15,000 instructions of DIR, without those whose seed is a test task's, and is measured on the 100 test tasks
at each level. For tags it reads an instruction that names categories, tools or APIs and writes the names. For paths it reads an
instruction and a list of APIs and writes those that it would call, in their order; the list of a test task is its own, and in
training other APIs of the same tools and of any stand between. Retrievers find the APIs nearest to the instruction by their
names, by words and, with the extra `minilm`, by MiniLM: for paths among the listed ones. DIR is CC-BY-NC-SA-4.0: nothing that
is trained on it may be shipped. A finished training is kept.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.report import write_report
from costgym.agents.deer.language_model import completion_loss, next_texts
from costgym.agents.deer.settings import DeerSettings
from costgym.agents.networks import load_published, multiplied, padded, published_model, trained_weights
from costgym.agents.toolplanner.tags import tag_score
from costgym.experiments.papers.claims import interval_ends
from costgym.experiments.train.deer.rows import IGNORED, token_row
from costgym.experiments.train.loop import take_step
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import require
from costgym.simulators.retrieval.ranking import Bm25, best_first
from costgym.simulators.retrieval.sentences import has_minilm, sentence_embedding

LEVELS = {"category": "cate", "tool": "tool", "api": "api"}
HYBRID = "hybrid"
RETRIEVED = (1, 3, 5)
Tags = frozenset[str]
Row = dict[str, Any]


def plain(name: str) -> str:
    """Return a name as it is compared."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def prompt(instruction: str, listed: Sequence[str] = ()) -> str:
    """Return what a model reads before it writes tags or, with a list of APIs, a path."""
    return f"Instruction: {instruction}\n" + (f"APIs: {', '.join(listed)}\nPath:" if listed else "Names:")


def records(data: Path, short: str) -> Iterator[tuple[dict[str, str], list[str]]]:
    """The instructions of a level with the names in each, without those that a test task comes from."""
    tested = {task["query"] for task in json.loads((data / "G3_query_100.json").read_text())}
    for line in (data / f"{short}_instruction_5000.json").read_text().splitlines():
        record = json.loads(line)
        if record["original_query"] not in tested:
            names = record["query"].rpartition(":")[2].strip().rstrip(".").split(", ")
            yield record, list(dict.fromkeys(names))


def tag_training(data: Path) -> list[tuple[str, str]]:
    """Return prompts and what is to be written behind each, for tags."""
    return [
        (prompt(record["new_instruction"]), f" {', '.join(names)}")
        for short in LEVELS.values()
        for record, names in records(data, short)
    ]


def path_training(data: Path, seed: int) -> list[tuple[str, str]]:
    """Return the same for paths, at each level and for the whole instruction; a seed's path is that of its APIs."""
    known, paths = apis(data), {record["path"]: names for record, names in records(data, "api")}
    tool_of = {api["api"]: api["tool"] for api in known}
    of_tool: dict[str, list[str]] = {}
    for api in known:
        of_tool.setdefault(api["tool"], []).append(api["api"])
    rows = []
    for key, short in (("original_query", "api"), *(("new_instruction", short) for short in LEVELS.values())):
        for number, (record, _) in enumerate(records(data, short)):
            path = [plain(name) for name in paths.get(record["path"], ())]
            if not path:
                continue
            luck = stable_generator(seed, "listed", key, short, number)
            near = sorted({other for name in path for other in of_tool.get(tool_of.get(name, ""), ())} - set(path))
            drawn = [near[index] for index in luck.permutation(len(near))[: 1 + len(path)]]
            drawn += [known[index]["api"] for index in luck.choice(len(known), 2, replace=False)]
            listed = list(dict.fromkeys([*path, *drawn]))
            shuffled = [listed[index] for index in luck.permutation(len(listed))]
            rows.append((prompt(record[key], shuffled), f" {', '.join(path)}"))
    return rows


def train(pairs: Sequence[tuple[str, str]], folder: Path, settings: DeerSettings) -> Callable[[Sequence[str]], list[Tags]]:
    """Tune adapters on prompts and what follows each, or load them; return what writes names behind other prompts."""
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
        optimizer = torch.optim.AdamW(weights.values(), lr=settings.rate(0), weight_decay=0.01)
        for step in range(settings.steps):
            optimizer.param_groups[0]["lr"] = settings.rate(step)
            chance = stable_generator(settings.seed, "tags", step)
            chosen = chance.choice(len(pairs), settings.batch_size, replace=False).tolist()
            batch = [token_row(tokenizer, *pairs[index]) for index in chosen]
            ids, mask = padded([row.input_ids for row in batch], pad)
            labels, _ = padded([row.labels for row in batch], IGNORED)
            tensors = [tensor.to(model.device) for tensor in (ids, mask, labels)]
            with multiplied(settings, model.device):
                loss, _ = take_step(
                    optimizer, weights, lambda tensors=tensors: [(completion_loss(model, *tensors)[0], {})], 1.0, step
                )
            print(f"step {step + 1} of {settings.steps}: loss {loss:.3f}", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        files.save_file({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, path)
    model.eval()

    def write(prompts: Sequence[str]) -> list[Tags]:
        read = [tokenizer(text)["input_ids"] for text in prompts]
        with multiplied(settings, model.device):
            written = next_texts(model, read, pad, tokenizer.eos_token_id)
        texts = [tokenizer.decode(tokens, skip_special_tokens=True) for tokens in written]
        return [frozenset(plain(name) for name in text.split(",") if plain(name)) for text in texts]

    return write


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
    parser.add_argument("--what", choices=("tags", "paths"), default="tags")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", help="a causal language model; none measures the retrievers alone")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="multiply in bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("runs/tags"))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    settings = {"steps": chosen.steps, "batch_size": chosen.batch_size, "seed": chosen.seed, "bf16": chosen.bf16}
    rows = MEASURED[chosen.what](chosen.data, chosen.out, chosen.model, chosen.tasks, **settings)
    about = {"command": "python benchmarks/papers/tags.py", "what": chosen.what, "steps": chosen.steps, "tasks": chosen.tasks}
    write_report({**about, "rows": rows}, chosen.json)


def tag_rows(data: Path, out: Path, model: str | None, tasks: int, **settings: Any) -> list[Row]:
    """Train a model, if there is one; return precision, recall and F1 of it and of retrievers on each level's first tasks."""
    known, rows = apis(data), []
    write = _trained(tag_training(data), out, model, settings) if model else None
    scorers = retrievers(known)
    for level, instructions, ground in levels(data, tasks):
        lists: dict[str, list[Tags]] = {}
        for name, scores in scorers.items() if level in LEVELS else ():
            ranked = [best_first(scores(text)) for text in instructions]
            for count in RETRIEVED:
                lists[f"{name}@{count}"] = [frozenset(known[index][level] for index in order[:count]) for order in ranked]
        if write is not None and level in LEVELS:
            lists[f"tags, {Path(model or '').name}"] = write([prompt(text) for text in instructions])
        rows += [row(level, name, tags, [_gold(task, level) for task in ground]) for name, tags in lists.items()]
    return rows


def path_rows(data: Path, out: Path, model: str | None, tasks: int, seed: int = 0, **settings: Any) -> list[Row]:
    """The same of the APIs in paths, from those that a test task lists."""
    write = _trained(path_training(data, seed), out, model, {"seed": seed, **settings}) if model else None
    rows = []
    for level, instructions, ground in levels(data, tasks):
        known = [[{part: plain(api[f"{part}_name"]) for part in LEVELS} for api in task["api_list"]] for task in ground]
        listed = [list(dict.fromkeys(api["api"] for api in of_task)) for of_task in known]
        orders = [stable_generator(0, "listed", number).permutation(len(names)) for number, names in enumerate(listed)]
        prompts = [
            prompt(text, [names[index] for index in order])
            for text, names, order in zip(instructions, listed, orders, strict=True)
        ]
        lists: dict[str, list[Tags]] = {"all that are listed": [frozenset(names) for names in listed]}
        for text, of_task in zip(instructions, known, strict=True):
            for name, scores in retrievers(of_task).items():
                for count in RETRIEVED:
                    nearest = frozenset(of_task[index]["api"] for index in best_first(scores(text))[:count])
                    lists.setdefault(f"{name}@{count}", []).append(nearest)
        if write is not None:
            lists[f"paths, {Path(model or '').name}"] = write(prompts)
        rows += [row(level, name, names, [_gold(task, "api") for task in ground]) for name, names in lists.items()]
    return rows


MEASURED: dict[str, Callable[..., list[Row]]] = {"tags": tag_rows, "paths": path_rows}


def _trained(pairs: Sequence[tuple[str, str]], out: Path, model: str | None, settings: dict[str, Any]) -> Any:
    return train(pairs, out, DeerSettings(model=model, warmup_steps=10, learning_rate=5e-4, **settings))


def levels(data: Path, tasks: int) -> Iterator[tuple[str, list[str], list[dict[str, Any]]]]:
    """The first test tasks' instructions, whole and at each level, with what is right."""
    ground = json.loads((data / "G3_query_100_ground.json").read_text())[:tasks]
    yield HYBRID, [task["query"] for task in ground], ground
    for level, short in LEVELS.items():
        queries = json.loads((data / f"G3_query_100_level_{short}.json").read_text())[:tasks]
        yield level, [task["query"] for task in queries], ground


def row(level: str, source: str, names: Sequence[Tags], gold: Sequence[Tags]) -> Row:
    """Precision, recall, F1 with its interval, and the share of tasks whose names are exactly right."""
    hits = np.array([[2.0 * len(n & g), n == g] for n, g in zip(names, gold, strict=True)])
    of = np.array([[len(n) + len(g), 1] for n, g in zip(names, gold, strict=True)])
    ends = interval_ends(["f1", "exact"], hits, of, seed=0)
    figures = tag_score(zip(names, gold, strict=True))._asdict() | {"exact": float(hits[:, 1].mean())}
    return {"level": level, "from": source, **figures, "ci95": ends}


def _gold(task: dict[str, Any], level: str) -> Tags:
    """Return what a test task's instructions name at a level."""
    relevant = {tuple(pair) for pair in task["relevant APIs"]}
    named = [api for api in task["api_list"] if (api["tool_name"], api["api_name"]) in relevant]
    return frozenset(plain(api[f"{level}_name"]) for api in named)


if __name__ == "__main__":
    main()
