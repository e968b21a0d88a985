"""DEER trained on the processor, beside the untrained deciders: six accuracies on seen and on unseen tools.

    python benchmarks/learning/deer.py                                  # the mixture
    python benchmarks/learning/deer.py --samplings mixture,random,inter,intra --seeds 0,1 --json results.json
    python benchmarks/learning/deer.py --samplings nearest --seeds 0,1,2,3,4  # candidates that a word rule confuses
    python benchmarks/learning/deer.py --samplings "" --changes no_search=200,seen=100,candidates=10,clusters=90  # Figure 6

Runs are kept under --out and gone on with when the script is called again. Every policy is measured on the same samples: the
split `valid` (seen tools, the paper's mixture of candidates) and `test` (unseen tools, random candidates), as DEER's own data
are; and on both with the candidates that are most alike ("near"). `mean` is that of P_DC on both; the mixture's lead over a
single strategy has an interval of a bootstrap over the samples, on which both were asked alike. It says nothing of the chance
of another seed: that is why there are several, and Student's intervals over them.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from costgym.agents.deer.learnt import load_decider
from costgym.envs.decision import DecisionAwareEnv
from costgym.experiments.papers.deer import NEAR, PROTOCOLS, decision_row, decision_rows
from costgym.experiments.play.decisions import ACCURACIES, evaluate_together
from costgym.experiments.train.deer.train import train_deer
from costgym.experiments.train.run import read_curve
from costgym.simulators.decision.samples import COUNTS, examples
from costgym.simulators.errors import require

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.papers.presets import over_seeds

GOALS = {"seen_p_ds": 0.95, "seen_p_dc": 0.85, "unseen_p_dc": 0.80}
SPLITS = {"seen": "valid", "unseen": "test"}
NEAREST = next(dict(protocol.source) for protocol in PROTOCOLS if protocol.name == NEAR)
RESAMPLES = 10000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/deer"), help="folder of the runs")
    parser.add_argument("--samplings", default="mixture", help="some of random, inter, intra, mixture, with commas between")
    parser.add_argument("--steps", type=int, default=None, help="steps of deciding of each run")
    parser.add_argument(
        "--changes", default="", help="numbers of Figure 6 to train the mixture with, one at a time, NAME=NUMBER"
    )
    parser.add_argument("--seeds", default="0", help="of weights, samples and their order, with commas between")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--untrained", action=argparse.BooleanOptionalAction, default=True, help="also the untrained deciders")
    parser.add_argument("--json", type=Path, default=None, help="also write the rows to a file")
    args = parser.parse_args()
    require("torch", "train").set_num_threads(args.threads)
    print(f"{'decider':22} {'tools':12} {'seed':>4} " + " ".join(f"{name:>11}" for name in ACCURACIES), flush=True)
    rows: list[dict[str, Any]] = []
    if args.untrained:
        for row in (*decision_rows(), *({**row, "near": ", near"} for row in decision_rows(samples=NEAREST))):
            kind = ("seen" if row["split"] == "valid" else "unseen") + row.get("near", "")
            _print(row["agent"], kind, "-", [row.get(name) for name in ACCURACIES])
            rows.append({"decider": row["agent"], "tools": kind, **{name: row.get(name) for name in ACCURACIES}})
    samplings, seeds = list(filter(None, args.samplings.split(","))), [int(seed) for seed in args.seeds.split(",")]
    settings = {} if args.steps is None else {"steps": args.steps}
    right: dict[tuple[str, int], dict[str, np.ndarray[Any, Any]]] = {}
    for seed in seeds:
        for sampling in samplings:
            run = args.out / f"{sampling}-{seed}"
            rows += _train(run, sampling, seed, settings)
            if len(samplings) > 1:
                right[sampling, seed] = rightness(run)
        for change in filter(None, args.changes.split(",")):
            rows += _changed(args.out / f"{change.replace('=', '-')}-{seed}", change, seed, settings)
    spread = []
    for sampling in samplings if len(seeds) > 1 else ():
        for kind in dict.fromkeys(row["tools"] for row in rows):
            chosen = [row for row in rows if "seed" in row and (row["decider"], row["tools"]) == (f"trained, {sampling}", kind)]
            figures = {name: over_seeds([row[name] for row in chosen]) for name in ACCURACIES}
            spread.append({"decider": f"trained, {sampling}", "tools": kind, "seeds": len(chosen), **figures})
            print(json.dumps(spread[-1]), flush=True)
    leads = []
    if "mixture" in samplings:
        for other in (name for name in samplings if name != "mixture"):
            gaps = [_differences(right["mixture", seed], right[other, seed]) for seed in seeds]
            for seed, differences in zip(seeds, gaps, strict=True):
                leads.append({"than": other, "seed": seed, **lead(differences)})
            if len(seeds) > 1:
                together = {kind: np.mean([differences[kind] for differences in gaps], axis=0) for kind in SPLITS}
                leads.append({"than": other, "seeds": seeds, **lead(together)})
    for margin in leads:
        low, high = margin["ci95"]
        which = f"seed {margin['seed']}" if "seed" in margin else f"seeds {args.seeds}"
        better = "better" if low > 0 else "worse" if high < 0 else "no difference seen"
        print(
            f"# mean, mixture less {margin['than']}, {which}: {100 * margin['lead']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            f" (seen {100 * margin['seen']:+.1f}, unseen {100 * margin['unseen']:+.1f}): {better}"
        )
    if args.json is not None:
        args.json.write_text(
            json.dumps({"rows": rows, "over_seeds": spread, "mixture_less_single_strategy": leads}, indent=1) + "\n"
        )


def _train(run: Path, sampling: str, seed: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Trains (or goes on with) a run; returns its two rows."""
    began, cpu = time.monotonic(), time.process_time()
    result = train_deer(run, seed=seed, sampling=sampling, **settings)
    minutes, cpu_minutes = (time.monotonic() - began) / 60, (time.process_time() - cpu) / 60
    retrieval = sum("retrieval_accuracy" in line for line in read_curve(run))
    rows = []
    for kind in SPLITS:
        accuracies = {name: result.metrics[f"{kind}_{name}"] for name in ACCURACIES}
        _print(f"trained, {sampling}", kind, seed, list(accuracies.values()))
        training = {"seed": seed, "steps": result.steps, "of_retrieval": retrieval}
        rows.append({"decider": f"trained, {sampling}", "tools": kind, **training, **accuracies})
    decider = load_decider(run)
    world = DecisionAwareEnv(scenario="decision", split="valid", samples=NEAREST).world
    for kind, split in SPLITS.items():
        row = decision_row("", None, split, evaluate_together(decider, examples(world, split)))
        _print(f"trained, {sampling}", f"{kind}, near", seed, [row[name] for name in ACCURACIES])
        rows.append({"decider": f"trained, {sampling}", "tools": f"{kind}, near", "seed": seed})
        rows[-1] |= {name: row[name] for name in ACCURACIES}
    mean = (result.metrics["seen_p_dc"] + result.metrics["unseen_p_dc"]) / 2
    print(
        f"# {result.steps} steps, {retrieval} of them of retrieval; {minutes:.1f} min ({cpu_minutes:.1f} of the CPU), ", end=""
    )
    print(f"loss {result.metrics['loss']:.3f}; mean {mean:.1%}", flush=True)
    if sampling == "mixture":
        for name, goal in GOALS.items():
            met = "yes" if result.metrics[name] >= goal else "NO"
            print(f"# {name} {result.metrics[name]:.1%}, wanted {goal:.0%}: {met}", flush=True)
    return rows


def _changed(run: Path, change: str, seed: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Train the mixture with another number of NoSearch samples, tools, candidates or clusters; return its two rows. It is
    measured on the usual samples, unless they have other candidates."""
    name, number = change.split("=")
    none, misfits, calls = COUNTS["train"]
    counts = {**COUNTS, "train": (int(number) if name == "no_search" else none, misfits, calls)}

    def changed(**options: Any) -> DecisionAwareEnv:
        if name != "no_search" and (options["split"] == "train" or name == "candidates"):
            options["samples"] = {**(options["samples"] or {}), name: int(number)}
        return DecisionAwareEnv(**options)

    with patch("costgym.experiments.train.deer.train.DecisionAwareEnv", changed):
        result = train_deer(run, seed=seed, counts=counts, **settings)
    rows = []
    for kind in SPLITS:
        accuracies = {figure: result.metrics[f"{kind}_{figure}"] for figure in ACCURACIES}
        _print(change, kind, seed, list(accuracies.values()))
        rows.append({"decider": f"trained, mixture, {change}", "tools": kind, "seed": seed, **accuracies})
    return rows


def rightness(run: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Judge each call decision of a policy, on seen and on unseen tools: 1 or 0 for each sample that needs a tool."""
    decider = load_decider(run)
    env = DecisionAwareEnv(scenario="decision", split="valid")
    rights = {}
    for kind, split in SPLITS.items():
        records = evaluate_together(decider, examples(env.world, split))
        rights[kind] = np.array([record.right_call for record in records if record.right_call is not None], np.float64)
    return rights


def _differences(a: dict[str, np.ndarray[Any, Any]], b: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    return {kind: a[kind] - b[kind] for kind in SPLITS}


def lead(differences: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    """Return how much better the mean of P_DC on seen and on unseen tools is, with its interval; both sets are
    resampled."""
    luck = np.random.default_rng(0)
    drawn = [
        difference[luck.integers(0, len(difference), (RESAMPLES, len(difference)))].mean(1)
        for difference in differences.values()
    ]
    low, high = np.percentile(np.mean(drawn, axis=0), (2.5, 97.5))
    shares = {kind: float(values.mean()) for kind, values in differences.items()}
    return {**shares, "lead": sum(shares.values()) / len(shares), "ci95": [float(low), float(high)]}


def _print(name: str, kind: str, seed: object, shares: list[float | None]) -> None:
    columns = " ".join("          -" if share is None else f"{share:11.1%}" for share in shares)
    print(f"{name:22} {kind:12} {seed!s:>4} {columns}", flush=True)


if __name__ == "__main__":
    main()
