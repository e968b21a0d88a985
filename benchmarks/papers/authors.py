"""Everything about one paper on its authors' data, from nothing, by one command: trained, played and timed.

    python benchmarks/papers/authors.py deer --data ../shared/data --model models/smollm2 --json runs/deer.json
    python benchmarks/papers/authors.py catp --data ../shared/data --model models/smollm2 --larger models/qwen2.5-coder-0.5b

The commands are those of `docs/results/authorsdata.md`; each is printed before it runs, on one processor, and its seconds
after it. `--data` holds the folders of the authors' data, at any depth: `tooldeer_full`, `mgtoolbench_full*`, `opencatp` and
`stabletoolbench`. `--model` is a language model of the size of SmolLM2-135M. `--larger`, of the size of Qwen2.5-Coder-0.5B,
takes half as many steps, about as many as on that page, which has no figures of it on CATP's pools; it is left out by default.
With `--seeds` DEER's encoder and maps are trained with further seeds and on less, and the mean of the encoders is played;
`--model` learns ToolPlanner's Table 5, too, from the small policies' trees and from its own, and all play where every named
tool is listed.
What is trained and played stays in `--out`, from which a later call goes on. The first command that fails ends the call, with
its status.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.report import write_report

COSTGYM = (sys.executable, "-m", "costgym")
ABLATIONS = (
    "context=false", "context=false+size_words=false", "intermediate_feedback=false", "mask=false",
)  # fmt: skip
"""The ablations of Table 4 as changes of CATP's preset `paper`: without context augmentation the size of the image is told in
words, or not at all."""
Command = list[str]


class Inputs(NamedTuple):
    """The data and the models that commands name, by absolute paths."""

    data: Path
    small: Path | None  # folders of language models
    larger: Path | None
    bf16: bool
    seeds: range

    @property
    def models(self) -> tuple[tuple[Path, int], ...]:
        """The language models, each with what its number of steps is divided by."""
        return tuple((model, divisor) for model, divisor in ((self.small, 1), (self.larger, 2)) if model is not None)

    def folder(self, beginning: str) -> Path:
        """Return the first folder of the data, in the order of paths, whose name begins so."""
        found = sorted(path for path in self.data.rglob(f"{beginning}*") if path.is_dir())
        if not found:
            raise SystemExit(f"--data: expected a folder {beginning}* in {self.data}, found none")
        return found[0]

    def script(self, name: str, *options: object) -> Command:
        """Return the call of a script beside this one."""
        return [sys.executable, str(Path(__file__).parent / name), *map(str, options)]

    def model(self, model: Path) -> Command:
        return ["--model", str(model), *self.precision()]

    def precision(self) -> Command:
        return [] if self.bf16 else ["--no-bf16"]


def btp_and_ecoact(inputs: Inputs) -> Iterator[Command]:
    data = inputs.folder("stabletoolbench")
    yield inputs.script("similarity.py", "--data", data, "--json", "similarity.json")


def deer(inputs: Inputs) -> Iterator[Command]:
    data, tuned, others = str(inputs.folder("tooldeer_full")), ["minilm-tuned"], []
    steps = ("--tune-encoder", "--steps", "300", *inputs.precision())
    train = [*COSTGYM, "train", "deer", "--data", data, "--model", "minilm", "--no-check"]
    yield [*train, *steps, "--out", tuned[0]]
    for seed in inputs.seeds[1:]:
        tuned.append(f"minilm-tuned-{seed}")
        others.append(f"minilm-{seed}")
        yield [*train, *steps, "--seed", str(seed), "--out", tuned[-1]]
        yield [*train, "--seed", str(seed), "--out", others[-1]]
    if others:
        yield inputs.script("averaged.py", *tuned, "--data", data, "--out", "minilm-mean")
        others.append("minilm-mean")
        for script in ("unseen", "sizes"):
            options = ("--data", data, "--out", script, "--json", f"{script}.json", *inputs.precision())
            yield inputs.script(f"{script}.py", *options)
    runs = [f"deer:{run}" for run in (*tuned, *others)]
    for model, divisor in inputs.models:
        length = ("--steps", str(500 // divisor), "--batch-size", "8", "--no-check")
        runs.append(f"deer:{model.name}")
        yield [*COSTGYM, "train", "deer", "--data", data, *inputs.model(model), *length, "--out", model.name]
    played = ",".join(("small", "minilm", *runs))
    yield [*COSTGYM, "reproduce", "deer", "--data", data, "--model", played, "--out", "played", "--json", "deer.json"]


def toolplanner(inputs: Inputs) -> Iterator[Command]:
    data = inputs.folder("mgtoolbench_full")
    if inputs.small is not None:
        for what in ("tags", "paths"):
            options = ("--what", what, "--data", data, "--steps", 60, "--out", what, "--json", f"{what}.json")
            yield inputs.script("tags.py", *options, *inputs.model(inputs.small))
    yield inputs.script("feedback.py", "--out", "feedback", "--json", "feedback.json")
    for model, divisor in inputs.models:
        size = ("--steps", 150 // divisor, "--rank-steps", 60 // divisor, "--batch-size", 8 // divisor)
        kept = ("--out", "feedback", "--json", f"{model.name}.json")
        yield inputs.script("feedback.py", "--seeds", 0, "--episodes", 20 // divisor, *size, *kept, *inputs.model(model))
    if len(inputs.seeds) > 1:
        yield from more_of_table_5(inputs)
    if inputs.small is not None:
        runs = ",".join(f"toolplanner:feedback/{inputs.small.name}{stage}-0" for stage in ("-stage-1", ""))
        played = ("--episodes", "60", "--jobs", "1", "--out", "played", "--json", "toolplanner.json")
        yield [*COSTGYM, "reproduce", "toolplanner", "--model", runs, *played]


def more_of_table_5(inputs: Inputs) -> Iterator[Command]:
    """Table 5 on more tasks, under both protocols, and on the published model over the seeds."""
    board, kept = ("--protocol", "board"), ("--out", "feedback", "--json")
    for protocol, name in (((), "retrieved"), (board, "listed")):
        yield inputs.script("feedback.py", *protocol, "--episodes", 100, *kept, f"{name}.json")
    if inputs.small is not None:
        seeds = ("--seeds", ",".join(map(str, inputs.seeds)), "--ablated", *inputs.model(inputs.small))
        for change, name in (((), "ablated"), (("--own-trees", 200), "own-trees"), (board, "board")):
            yield inputs.script("feedback.py", *seeds, *change, *kept, f"{inputs.small.name}-{name}.json")


def catp(inputs: Inputs) -> Iterator[Command]:
    yield inputs.script("presets.py", "--presets", "default,paper,code", "--out", "presets", "--json", "presets.json")
    ablations = ",".join(("paper", *(f"paper+{change}" for change in ABLATIONS)))
    options = ("--tasks", "sequential", "--presets", ablations, "--than", "paper")
    yield inputs.script("presets.py", *options, "--out", "presets", "--json", "ablations.json")
    pools = ("--data", str(inputs.folder("opencatp")), "--out", "pools")
    yield inputs.script("pools.py", *pools, "--seeds", 5, "--json", "pools.json")
    for model, divisor in inputs.models:
        size = ("--seeds", 1 if model == inputs.larger else 3, "--steps", 100 // divisor)
        yield inputs.script("pools.py", *pools, *size, "--json", f"pools-{model.name}.json", *inputs.model(model))


def vision(inputs: Inputs) -> Iterator[Command]:
    tools = str(Path("..") / "opencatp" / "packaged_tools.py")
    text = () if inputs.small is None else ("--model", inputs.small)
    yield inputs.script(tools, *text, "--photos", "photos", "--sheet", "sheet.png", "--json", "tools.json")
    table = ("--backend", "packaged", "--images", "photos", "--pixels", "48", "--out", "photos.npz")
    yield [*COSTGYM, "opencatp", "build-table", *table]
    length = ("--tasks", "sequential", "--steps", "1200", "--out", "catp")
    yield [*COSTGYM, "train", "catp", "--outcomes", "photos.npz", *length]
    agents = ("--agents", "catp:catp,greedy,do-nothing,oracle")
    yield [*COSTGYM, "leaderboard", "--suite", "opencatp", "--data", "photos.npz", *agents, "--out", "board"]


PARTS = {
    "btp": btp_and_ecoact,
    "ecoact": btp_and_ecoact,
    "deer": deer,
    "toolplanner": toolplanner,
    "catp": catp,
    "vision": vision,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", choices=PARTS, help="vision: CATP's tools, on photos")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds those of the authors' data")
    parser.add_argument("--model", type=Path, help="folder of a language model; without one its rows are left out")
    parser.add_argument("--larger", type=Path, help="folder of a larger one")
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="multiply in bfloat16")
    parser.add_argument("--seeds", type=int, default=1, help="of DEER's encoder, and of Table 5 on --model; by default one")
    parser.add_argument("--out", type=Path, help="folder of the runs; by default runs/PAPER")
    parser.add_argument("--json", type=Path, help="file of the commands and their seconds")
    args = parser.parse_args()
    out = (args.out or Path("runs") / args.paper).absolute()
    small, larger = (None if model is None else model.absolute() for model in (args.model, args.larger))
    inputs = Inputs(args.data.absolute(), small, larger, args.bf16, range(args.seeds))
    report = None if args.json is None else args.json.absolute()
    out.mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    # matrices of this size gain little from a second processor, on which another paper can run
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    took: list[dict[str, Any]] = []
    status = 0
    for command in PARTS[args.paper](inputs):
        began = time.monotonic()
        print(f"$ {shlex.join(command)}", flush=True)
        status = subprocess.run(command, cwd=out, env=surroundings).returncode
        took.append({"command": shlex.join(command), "status": status, "seconds": round(time.monotonic() - began, 1)})
        print(f"# status {status} after {took[-1]['seconds']:g} s", flush=True)
        if status:
            break
    total = round(sum(one["seconds"] for one in took), 1)
    write_report({"paper": args.paper, "seconds": total, "commands": took}, report)
    return status


if __name__ == "__main__":
    sys.exit(main())
