"""Everything that needs a GPU, in at most ten minutes, as one JSON file.

    python benchmarks/gpu.py --json benchmarks/results/gpu.json                      # on a machine with a GPU
    python benchmarks/gpu.py --only authors --data ../shared/data --model models/smollm2 --json runs/authors.json
    python benchmarks/gpu.py --device cpu --small --json cpu.json                    # the same steps, small, without one

Sections: `machine`; `trainers` (every trainer takes steps on the device, and its checkpoint plays); `backbones` (CATP with LoRA
on published models, the folders that `--model` names: steps per second, memory, quality); `backends` (both back-ends run every
tool; the tiny one's scores are those of the shipped table); `profiles` (both, written beside the JSON, ready to ship as
`simulators/opencatp/profile_NAME.json`); `throughput` (inputs per second of every tool, and CATP's training steps per second);
`kernels` (the batch of environments on the device); `authors` (real models on the authors' data, in the folders that `--data`
holds: DEER's four sets, ToolPlanner's tags, OpenCATP's plan pools, and a policy of SFT and GRPO ranked on a board before and
after). What fails is reported in its place and makes the exit status 1; what does
not fit into the time is skipped and says so.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

MINUTES = 10.0
TRAINERS = ("ppo", "lagrangian", "dqn", "catp", "ift", "rltf", "deer", "toolplanner", "grpo", "sft")
Check = Callable[[], Any]


class Setting(NamedTuple):
    """What all checks share: the device, whether sizes are small, and a folder for what they write."""

    device: str
    small: bool
    folder: Path
    models: tuple[Path, ...] = ()  # folders of published causal models
    data: Path | None = None  # the folder of the authors' data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="few steps and small inputs, for a test of the script itself")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="no check is begun after this time")
    parser.add_argument(
        "--model", type=Path, action="append", default=[], help="a published model to train CATP on; repeatable"
    )
    parser.add_argument("--data", type=Path, help="the folder that holds those of ToolDEER, MGToolBench and OpenCATP")
    parser.add_argument("--only", default="", help="sections to run, with commas between; all by default")
    parser.add_argument("--json", type=Path, required=True, help="file of the report; profiles are written beside it")
    args = parser.parse_args()
    here = Path(__file__).resolve().parent
    # `datasets.py` is a library's name too
    sys.path[:] = [str(here.parent), *(path for path in sys.path if Path(path).resolve() != here)]
    if args.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # trainers take a GPU where there is one
    import torch

    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no GPU here; run with --device cpu --small to test the script")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    began, report = time.monotonic(), {"machine": machine(args.device)}
    chosen = [name for name in args.only.split(",") if name] or list(SECTIONS)
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(args.device, args.small, Path(folder), tuple(path.resolve() for path in args.model), args.data)
        for name in chosen:
            report[name] = {}
            for title, check in SECTIONS[name](setting).items():
                over = time.monotonic() - began > 60 * args.minutes
                report[name][title] = {"skipped": f"the {args.minutes:g} minutes were over"} if over else result_of(check)
                print(f"{name}, {title}: {json.dumps(report[name][title])[:200]}", flush=True)
        for profile in sorted(Path(folder).glob("profile_*.json")):
            (args.json.parent / profile.name).write_text(profile.read_text())
    report["machine"]["seconds"] = round(time.monotonic() - began, 1)
    args.json.write_text(json.dumps(report, indent=1) + "\n")
    failed = [f"{name}, {title}" for name in chosen for title, check in report[name].items() if "failed" in check]
    print(f"failed: {'; '.join(failed)}" if failed else "nothing failed", flush=True)
    return 1 if failed else 0


def machine(device: str) -> dict[str, Any]:
    import torch

    from costgym import __version__

    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "costgym": __version__,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "date": datetime.date.today().isoformat(),
    }


class Skipped(Exception):
    """A check that has nothing to run on here; the text says why."""


def result_of(check: Check) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        figures = check()
    except Skipped as reason:
        return {"skipped": str(reason)}
    except Exception as error:  # a check that fails must not hide those after it
        last = traceback.format_exc().strip().splitlines()[-4:]
        return {"failed": f"{type(error).__name__}: {error}"[:500], "at": last, "seconds": seconds_since(began)}
    return {**figures, "seconds": seconds_since(began)}


def seconds_since(began: float) -> float:
    return round(time.perf_counter() - began, 2)


def synchronise(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


# -- trainers ------------------------------------------------------------------------------------------------------------------


def trainers(setting: Setting) -> dict[str, Check]:
    return {name: lambda name=name: trained(name, setting) for name in TRAINERS}  # type: ignore[misc]


def trained(name: str, setting: Setting) -> dict[str, Any]:
    """Train for a few steps; the loss is finite and the checkpoint is read again."""
    import torch

    from costgym.agents.checkpoints import newest

    if setting.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    out = setting.folder / name
    result = _train(name, out, setting)
    figures: dict[str, Any] = {"steps": result.steps, "finished": result.finished}
    if setting.device == "cuda":
        used = torch.cuda.max_memory_allocated() / 2**20
        figures["gpu_mb"] = round(used, 1)
        if used <= 0.0:
            raise AssertionError("no memory of the GPU was used: the trainer did not run on it")
    if name not in ("grpo", "toolplanner"):
        assert newest(out).is_dir()
    if name in ("catp", "ift", "rltf"):
        from costgym.agents.catp import CatpPlanner
        from costgym.simulators.opencatp import task
        from costgym.simulators.opencatp.scoring.evaluation import Evaluator

        plans = CatpPlanner(out, device=setting.device).plans([(task(24), level) for level in range(4)], Evaluator())
        figures["plans"] = sum(plan is not None for plan in plans)
        assert figures["plans"] == 4
    return figures


def _train(name: str, out: Path, setting: Setting) -> Any:
    """Call a trainer with a size that takes seconds."""
    from costgym.simulators.scenario import Scenario

    short = 2 if setting.small else 20
    narrow = {"hidden_size": 16, "heads": 2, "layers": 1} if setting.small else {}
    source = {"kind": "marketplace", "tools": 240, "providers": 60, "categories": 10, "train": 40, "test": 40}
    world = Scenario.model_validate({"name": "small", "source": source, "failures": "reliable"})
    if name in ("ppo", "lagrangian", "dqn"):
        from costgym.experiments.train.sb3 import train as sb3

        settings: dict[str, Any] = {"n_envs": 8, "batch_size": 32}
        if name == "dqn":
            return sb3.train_dqn(out, world, steps=64 * short, buffer_size=500, learning_starts=16, **settings)
        limits = {"price": 5.0} if name == "lagrangian" else None
        return sb3.train_ppo(out, world, steps=64 * short, lagrangian=limits, n_steps=8, n_epochs=1, **settings)
    if name in ("catp", "ift", "rltf"):
        from costgym.experiments.train.catp import train as catp

        settings = {"tasks": "nonsequential", "composed": 0, "walks": 2, "supervised_steps": max(1, short // 2), **narrow}
        return getattr(catp, f"train_{name}")(out, steps=short, device=setting.device, batch_size=16, **settings)
    if name == "deer":
        from costgym.experiments.train.deer.train import train_deer

        counts = {"train": (20, 30, 40), "valid": (4, 6, 8), "test": (4, 6, 8)}
        settings = {
            "counts": counts,
            "retrieval_steps": short,
            "batch_size": 8,
            **({"hidden_size": 16} if setting.small else {}),
        }
        return train_deer(out, steps=short, **settings)
    if name == "toolplanner":
        from costgym.experiments.train.toolplanner.train import train_toolplanner

        # as many steps as a model this small needs for a first path that can be ranked
        settings = {"tasks": 6, "worlds": 1, "levels": ("statement", "category"), "vocabulary": 400, "batch_size": 3}
        settings |= {"hidden_size": 16, "heads": 2, "layers": 1, "learning_rate": 0.02, "beta": 1.0, "temperature": 1.0}
        settings |= {"rank_tasks": 6, "rank_steps": 2 * short, "rank_batch_size": 3}
        return train_toolplanner(out, world, steps=40, device=setting.device, **settings)
    if name == "sft":
        from costgym.experiments.train.sft.train import train_sft

        settings = {"batch_size": 2, "held_out": 2, "max_length": 4096, "warmup_steps": 1, "bf16": setting.device == "cuda"}
        return train_sft(out, world, steps=short, model=str(_tiny_model(setting.folder)), **settings)
    from costgym.experiments.train.grpo.train import train_grpo
    from costgym.experiments.train.grpo.world import GrpoWorld

    settings = {"num_generations": 2, "max_completion_length": 64, "hidden_size": 32, "layers": 1, "vocabulary": 512}
    settings |= {"warm_start_steps": short, "warm_start_batch_size": 2, "warm_start_variants": 2}
    return train_grpo(out, GrpoWorld(world, tasks=1, rounds=4), steps=1 if setting.small else 3, **settings)


def _tiny_model(folder: Path) -> Path:
    """The model that the check of GRPO began from, with the template of fetched models."""
    import transformers

    from costgym.agents.models.chat_template import CHAT_TEMPLATE

    begun, tiny = folder / "grpo" / "warm-start", folder / "tiny-model"
    if not begun.is_dir():
        raise Skipped("it tunes the model that grpo makes, and grpo did not run")
    tokenizer = transformers.AutoTokenizer.from_pretrained(begun)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(tiny)
    transformers.AutoModelForCausalLM.from_pretrained(begun).save_pretrained(tiny)
    return tiny


# -- backbones -----------------------------------------------------------------------------------------------------------------


def backbones(setting: Setting) -> dict[str, Check]:
    checks: dict[str, Check] = {path.name: lambda path=path: adapted(path, setting) for path in setting.models}  # type: ignore[misc]
    return checks or {"none": lambda: adapted(None, setting)}


def adapted(model: Path | None, setting: Setting) -> dict[str, Any]:
    """Train CATP on a published causal model with the default settings; a small run takes the model that GRPO's check made."""
    import torch

    if model is None and not setting.small:
        raise Skipped("no folder of a published causal model was given with --model")
    model = model or _tiny_model(setting.folder)
    steps, settings = (
        (3, {"batch_size": 2, "walks": 1, "near": 1, "spread": 0}) if setting.small else (400, {"warmup_steps": 40})
    )
    if setting.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    result, speed = timed_catp(setting, f"backbone-{model.name}", steps=steps, tasks="sequential", model=str(model), **settings)
    if setting.device == "cuda":
        speed["gpu_mb"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return {"steps": result.steps, **speed, **{name: round(value, 4) for name, value in result.metrics.items()}}


# -- back-ends -----------------------------------------------------------------------------------------------------------------


def backends(setting: Setting) -> dict[str, Check]:
    return {"tiny": lambda: tiny_scores(setting), "published": lambda: published_runs(setting)}


def tiny_scores(setting: Setting) -> dict[str, Any]:
    """Chains executed with the tiny back-end: scores as in the shipped table."""
    import tempfile

    import numpy as np

    from costgym.simulators.opencatp.backends.tiny import TinyBackend
    from costgym.simulators.opencatp.scoring.table import OutcomeTable
    from costgym.simulators.opencatp.scoring.table_build import build_table

    samples = 2 if setting.small else 10
    with tempfile.TemporaryDirectory() as folder:
        made = OutcomeTable.load(build_table(Path(folder) / "table.npz", TinyBackend(device=setting.device), samples=samples))
    differences = np.abs(made.scores - OutcomeTable.load().scores[:, :, :samples])
    # half precision is not used; sums of floats may differ in the last bit, and then a pixel by one, or a word
    far = float((differences > 0.01).mean())
    assert far <= 0.05, f"{far:.1%} of {differences.size} scores are not those of the table"
    return {
        "scores": differences.size,
        "equal": int((differences < 1e-9).sum()),
        "largest_difference": float(differences.max()),
    }


def published_runs(setting: Setting) -> dict[str, Any]:
    """Every published architecture, with random weights, runs on the device."""
    import numpy as np

    from costgym.simulators.opencatp.backends.base import ALL_TOOLS, RESTORERS, TEXT_TOOLS
    from costgym.simulators.opencatp.backends.published import PublishedBackend
    from costgym.simulators.opencatp.backends.untrained import untrained_loaders

    # a large machine's memory is not needed: one model at a time
    figures, images = {}, np.zeros((1, 64, 64, 3), np.uint8)
    light = ("image_classification", "sentiment_analysis", "image_colorization")
    for tool in light if setting.small else ALL_TOOLS:
        backend = PublishedBackend(device=setting.device, loaders=untrained_loaders(), batch_size=1)
        out = backend.run(tool, ["a short text"] if tool in TEXT_TOOLS else images)
        if tool in RESTORERS:
            assert isinstance(out, np.ndarray) and out.shape[1] in (64, 128)
        figures[tool] = round(backend.load(tool).size_mb, 1)
    return {"megabytes": figures}


# -- profiles and throughput ---------------------------------------------------------------------------------------------------


def profiles(setting: Setting) -> dict[str, Check]:
    return {backend: lambda backend=backend: profiled(backend, setting) for backend in ("tiny", "published")}  # type: ignore[misc]


def profiled(backend: str, setting: Setting) -> dict[str, Any]:
    """Measure a profile and write it; of the small published one only two tools' loading would fit, so it is skipped."""
    from costgym.experiments.fit.profile import measure, profile
    from costgym.experiments.fit.profile_settings import ProfileSettings
    from costgym.simulators.opencatp.tools import LEVELS

    if setting.small:
        if backend == "published":
            raise Skipped("the published architectures are too large for a small run; leave --small out")
        small = ProfileSettings(name="small", backend=backend, device=setting.device, levels=(0,), repeats=1)
        measured = measure(small, image_sizes=[(48, 40)] * LEVELS, text_lengths=[60] * LEVELS)
        return {"tools": len(measured.loading), "ms": {tool: round(p.time_ms, 3) for (tool, _), p in measured.points.items()}}
    name = f"{setting.device}-{backend}"
    out = setting.folder / f"profile_{name}.json"
    whole = ProfileSettings(
        name=name, backend=backend, device=setting.device, scale=True, processor_time=setting.device == "cpu"
    )
    made = profile(out, whole, date=datetime.date.today().isoformat())
    times = {tool: [round(ms, 2) for ms in cost.time_ms] for tool, cost in made.tools.items()}
    return {"file": out.name, "hardware": made.hardware, "source": made.source, "ms": times}


def throughput(setting: Setting) -> dict[str, Check]:
    return {"tiny": lambda: inputs_per_second(setting), "catp": lambda: steps_per_second(setting)}


def inputs_per_second(setting: Setting) -> dict[str, Any]:
    """Inputs per second of each tiny tool, in batches of 128."""
    import numpy as np

    from costgym.simulators.opencatp.backends.base import ALL_TOOLS, TEXT_TOOLS
    from costgym.simulators.opencatp.backends.tiny import TinyBackend
    from costgym.simulators.opencatp.scenes import scene as scenes

    count, repeats = (4, 1) if setting.small else (128, 5)
    world = scenes.make_scenes(scenes.HELD_OUT_SEED, range(count))
    images, texts = np.stack([scene.image for scene in world]), [scene.report() for scene in world]
    backend, rates = TinyBackend(device=setting.device), {}
    for tool in ALL_TOOLS:
        inputs: Any = texts if tool in TEXT_TOOLS else images
        backend.run(tool, inputs)
        synchronise(setting.device)
        began = time.perf_counter()
        for _ in range(repeats):
            backend.run(tool, inputs)
        synchronise(setting.device)
        rates[tool] = round(repeats * count / (time.perf_counter() - began), 1)
    return {"inputs_per_second": rates}


def steps_per_second(setting: Setting) -> dict[str, Any]:
    """Optimiser steps per second of CATP with its default policy, once plans are collected."""
    steps, settings = (3, {"hidden_size": 16}) if setting.small else (60, {})
    return timed_catp(setting, "speed", steps=steps, tasks="nonsequential", composed=0, walks=2, **settings)[1]


def timed_catp(setting: Setting, name: str, **settings: Any) -> tuple[Any, dict[str, Any]]:
    """Train CATP; return the result, and the optimiser steps per second."""
    from costgym.experiments.train.catp.train import train_catp
    from costgym.experiments.train.run import Callback, TrainingStep

    at: list[float] = []

    class Clock(Callback):
        def on_step(self, step: TrainingStep) -> None:
            at.append(time.perf_counter())

    result = train_catp(setting.folder / name, device=setting.device, callback=Clock(), **settings)
    return result, {"steps_per_second": round((len(at) - 2) / max(1e-9, at[-2] - at[0]), 2)}


# -- kernels -------------------------------------------------------------------------------------------------------------------


NATIVE = ("Marketplace-v0", "MarketplaceSession-v1")


def kernels(setting: Setting) -> dict[str, Check]:
    return {name: lambda name=name: stepped(f"costgym/{name}", setting) for name in NATIVE}  # type: ignore[misc]


def stepped(env_id: str, setting: Setting) -> dict[str, Any]:
    """Play the same actions on the device and on the CPU, which must not differ in a bit, and count steps per second."""
    from benchmarks import device as benchmark

    if setting.device == "cpu":
        raise Skipped("its kernels compile for minutes on a CPU; `benchmarks/device.py --device cpu` runs them interpreted")
    count, steps, seconds = (64, 640, 0.01) if setting.small else (4096, 2_000_000, 5.0)
    compared: dict[str, Any] = benchmark.compare_device(env_id, setting.device, envs=count, steps=steps)
    assert not compared["differences"], f"{compared['differences']} steps differ, first at {compared['first']}"
    speed = benchmark.measure_device(env_id, setting.device, envs=count if setting.small else 1 << 17, seconds=seconds)
    return {"compared_steps": compared["steps"], **speed}


# -- real models on the authors' data ------------------------------------------------------------------------------------------

DEER_DATA, TAG_DATA, CATP_DATA = "tooldeer_full", "mgtoolbench_full_CC-BY-NC-SA-4.0", "opencatp"
POOLS = {"sequential": "seq_plan_pool.json", "nonsequential": "nonseq_plan_pool.json"}


def authors(setting: Setting) -> dict[str, Check]:
    """Every check for every model, the small ones first. Nothing that is trained here ships."""
    checks: dict[str, Callable[[Path | None, Setting], dict[str, Any]]] = {"DEER": decided, "tags": tagged, "pools": pooled}
    return {
        f"{path.name if path else 'none'}, {name}": lambda path=path, check=check: check(path, setting)  # type: ignore[misc]
        for path in setting.models or (None,)
        for name, check in {**checks, "board": ranked}.items()
    }


def _authors(setting: Setting, name: str) -> Path:
    """The folder of some authors' data."""
    if setting.data is None or not (setting.data / name).is_dir():
        raise Skipped(f"--data names no folder that holds {name}")
    return setting.data / name


def _published(model: Path | None, setting: Setting) -> str:
    """The folder of a model; a small run without one takes the model that GRPO's check made."""
    import torch

    if model is None and not setting.small:
        raise Skipped("no folder of a published causal model was given with --model")
    torch.set_float32_matmul_precision("high")  # which a CPU takes no notice of
    return str(model or _tiny_model(setting.folder))


def decided(model: Path | None, setting: Setting) -> dict[str, Any]:
    """DEER with LoRA on samples of Algorithm 1: P_DC in each of the authors' four sets, and the claims."""
    from costgym.experiments.papers import deer
    from costgym.experiments.papers.paper import Job

    data, name = _authors(setting, DEER_DATA), _published(model, setting)
    steps, samples = (2, 6) if setting.small else (600, 0)
    rows = deer.authors_rows(Job(0, samples, 1, setting.folder, data=str(data), steps=steps, models=(name,)))
    figures = ("p_ds", "p_dc")
    by_set = {
        f"{row['agent']}, {row['split']}": {
            rate: [round(row[rate], 4), *(round(end, 4) for end in row["ci95"][rate])] for rate in figures if rate in row
        }
        for row in rows
    }
    claims = deer.check_authors_claims(rows)
    return {"steps": steps, "rates": by_set, "claims": len(claims), "follow": sum(claim["follows"] for claim in claims)}


def tagged(model: Path | None, setting: Setting) -> dict[str, Any]:
    """ToolPlanner's tags and paths from MGToolBench's instructions."""
    from benchmarks.papers.tags import MEASURED

    data, name = _authors(setting, TAG_DATA), _published(model, setting)
    steps, tasks, batch = (2, 2, 2) if setting.small else (300, 100, 8)
    figures: dict[str, Any] = {"steps": steps}
    for what, measure in MEASURED.items():
        folder = setting.folder / f"{what}-{Path(name).name}"
        rows = measure(data, folder, name, tasks, steps=steps, batch_size=batch)
        figures[what] = [row for row in rows if row["from"].startswith(what)]
    return figures


def pooled(model: Path | None, setting: Setting) -> dict[str, Any]:
    """CATP's preset of the paper on a pretrained backbone, which learns from the official pools: held-out choices and plans."""
    from costgym.agents.catp.settings import CatpSettings
    from costgym.experiments.train.catp.train import train_catp

    data, name = _authors(setting, CATP_DATA), _published(model, setting)
    figures: dict[str, Any] = {}
    for kind, pool in POOLS.items():
        settings = {**CatpSettings.preset("paper", kind), "model": name, "tasks": kind}
        settings |= {"steps": 2, "batch_size": 2, "warmup_steps": 1} if setting.small else {"steps": 300, "warmup_steps": 30}
        out = setting.folder / f"pool-{kind}-{Path(name).name}"
        result = train_catp(out, pool=(data / pool,), device=setting.device, **settings)
        figures[kind] = {"steps": result.steps} | {metric: round(value, 4) for metric, value in result.metrics.items()}
    return figures


def ranked(model: Path | None, setting: Setting) -> dict[str, Any]:
    """A model of TRL, tuned on solved episodes and then by GRPO within 20 credits, ranked on a board as it was and as it is."""
    from costgym.experiments.board.run_config import make_run_config
    from costgym.experiments.board.run_log import read_episodes
    from costgym.experiments.leaderboard import run as run_leaderboard
    from costgym.experiments.play.metrics import summarise
    from costgym.experiments.train.grpo.train import train_grpo
    from costgym.experiments.train.grpo.world import GrpoWorld
    from costgym.experiments.train.sft.train import train_sft

    name = _published(model, setting)
    out, budget, small = setting.folder / f"board-{Path(name).name}", {"price": 20.0}, setting.small
    gpu = {"bf16": setting.device == "cuda"}
    taught = {"steps": 2, "batch_size": 1, "held_out": 2, "max_length": 4096, "warmup_steps": 1} if small else {"steps": 240}
    train_sft(out / "sft", "marketplace", budget=budget, model=name, **taught, **gpu)
    world = GrpoWorld("marketplace", split="train", tasks=2 if small else 64, rounds=4 if small else 16, budget=budget)
    few = {"num_generations": 2, "max_completion_length": 64} if small else {}
    tuned = {"model": str(out / "sft" / "model"), "warm_start_steps": 0, **few, **gpu}
    train_grpo(out / "grpo", world, steps=1 if small else 20, **tuned)
    rows = {}
    for stage, trained in {"SFT": out / "sft" / "model", "GRPO": out / "grpo" / "model"}.items():
        board, episodes = out / f"board-{stage}", 1 if small else 100
        options = {"model": f"local:{trained}", "budgets": "price=20", "documents": "short", "episodes": episodes}
        run_leaderboard(make_run_config(agents=["react"], **options), board)
        row = summarise(read_episodes(board))
        rows[stage] = {figure: row[figure] for figure in ("pass_rate_under_budget", "average_cost", "agent_error_rate", "ci95")}
    return rows


SECTIONS: dict[str, Callable[[Setting], dict[str, Check]]] = {
    "trainers": trainers,
    "backbones": backbones,
    "backends": backends,
    "profiles": profiles,
    "throughput": throughput,
    "kernels": kernels,
    "authors": authors,
}

if __name__ == "__main__":
    sys.exit(main())
