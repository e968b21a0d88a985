"""Train the tools of the tiny OpenCATP back-end on generated scenes.

Restoration tools are trained first: denoising, then super-resolution, whose input includes denoised images, then deblurring and
colourisation, whose input includes the output of both. The recognition tools follow; they are trained on clean and restored
images, not on degraded ones, as the published ones are trained on photographs. The language tools are trained last, on
generated text.

    python benchmarks/opencatp/vision_tools.py FOLDER       # FOLDER goes on where it was stopped; then `--weights FOLDER`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from costgym.agents.base import PLANS
from costgym.agents.settings import PolicyConfig, TrainerSettings
from costgym.experiments.train.run import METRICS, Callback, TrainingRun, open_run, require_modules
from costgym.simulators.bounds import Count
from costgym.simulators.errors import require
from costgym.simulators.opencatp.backends.base import ALL_TOOLS, READERS, RESTORERS
from costgym.simulators.opencatp.backends.tiny import TinyBackend, load_network, make_network, pad, save_weights
from costgym.simulators.opencatp.backends.vocabulary import END, PAD, START, vocabulary
from costgym.simulators.opencatp.scenes import degrade, language
from costgym.simulators.opencatp.scenes import scene as scenes
from costgym.simulators.threads import torch_threads

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.helpers.vision import REPAIRS, run_chain

if TYPE_CHECKING:
    import torch

VERSION = "1"
_OWN = {tool: kind for kind, tool in REPAIRS.items()}
_IMAGE_BATCH, _READER_BATCH, _TEXT_BATCH = 24, 48, 96


class VisionSettings(TrainerSettings):
    """Training steps of each tool and number of scenes; the defaults reproduce the shipped weights."""

    scenes: Count = Field(default=9000, description="Training scenes.")
    denoising_steps: Count = Field(default=1200, description="Steps of image denoising.")
    super_resolution_steps: Count = Field(default=1000, description="Steps of super-resolution.")
    deblurring_steps: Count = Field(default=1000, description="Steps of deblurring.")
    colorization_steps: Count = Field(default=900, description="Steps of colourisation.")
    reader_steps: Count = Field(default=600, description="Steps of image classification and of object detection.")
    captioning_steps: Count = Field(default=1200, description="Steps of image captioning.")
    text_steps: Count = Field(default=600, description="Steps of each language tool.")

    def steps(self, tool: str) -> int:
        """Return the number of optimizer steps of a tool."""
        if tool in RESTORERS:
            return int(getattr(self, f"{tool.removeprefix('image_')}_steps"))
        if tool == "image_captioning":
            return self.captioning_steps
        return self.reader_steps if tool in READERS else self.text_steps


class VisionConfig(PolicyConfig):
    """The contents of `config.json` in a run."""

    trainer: Literal["vision_tools"] = "vision_tools"
    env: str = PLANS
    settings: VisionSettings


def build_tools(
    out_dir: Path | str,
    seed: int = 0,
    *,
    tools: Sequence[str] = ALL_TOOLS,
    callback: Callback | None = None,
    **settings: Any,
) -> dict[str, Path]:
    """Train the tools' networks and write `<tool>.safetensors` files.

    An existing file with the same seed and settings is kept, so a killed run resumes at the tool that was being trained.

    Args:
        out_dir: Folder for the weights.
        seed: Seed of scenes, initial weights and batches; the same seed gives the same weights on the same kind of processor.
        tools: Tools to train; recognition tools need the four restoration tools, either in the folder or in this argument.
        callback: Receives the run's steps and messages.
        settings: Fields of `VisionSettings`; the defaults reproduce the shipped weights.

    Returns:
        The weight file of each tool.

    Raises:
        ConfigError: A setting is invalid, or the folder belongs to another run.
        TrainingFailed: A loss is not finite.
        MissingExtra: torch or safetensors is not installed.
    """
    require_modules("torch", "safetensors", extra="vision")
    chosen = VisionSettings(**{"seed": seed, **settings})
    files = [f"{tool}.safetensors" for tool in ALL_TOOLS]
    with open_run(out_dir, VisionConfig(settings=chosen), callback=callback, files=files) as run, torch_threads(2):
        _build(run, chosen, [tool for tool in ALL_TOOLS if tool in tools])
    return {tool: Path(out_dir) / f"{tool}.safetensors" for tool in tools}


def _build(run: TrainingRun, settings: VisionSettings, tools: Sequence[str]) -> None:
    world: _World | None = None
    done = run.done(METRICS)
    metrics = {} if done is None else done.metrics
    for tool in tools:
        path = run.folder / f"{tool}.safetensors"
        # a single entry, because the order of several entries is not fixed
        steps, seed = settings.steps(tool), settings.seed
        origin = {"tool": tool, "version": VERSION, "seed": seed, "steps": steps, "scenes": settings.scenes}
        metadata = {"training": json.dumps(origin)}
        if _metadata(path) == metadata:
            run.say(f"{tool}: already built")
            continue
        if world is None and tool in RESTORERS + READERS:
            run.say(f"rendering {settings.scenes} scenes")
            world = _World(seed, settings.scenes)
        trained = _trained(tool, seed, steps, world, TinyBackend(run.folder), run)
        if trained is None:
            return
        network, metrics[f"{tool}_loss"] = trained
        save_weights(network, path, metadata)
        run.finish(len(metrics), metrics)


def _metadata(path: Path) -> dict[str, str] | None:
    if not path.is_file():
        return None
    try:
        with require("safetensors", "vision").safe_open(str(path), "np") as file:
            return dict(file.metadata() or {})
    except Exception:  # an unreadable file is rebuilt
        return None


class _World:
    """The training scenes and, computed on first use, their restored images."""

    def __init__(self, seed: int, count: int) -> None:
        self.seed = seed
        self.scenes = scenes.make_scenes(scenes.TRAIN_SEED + 10_000 * seed, range(count))
        self.images = np.stack([s.image for s in self.scenes])
        self._restored: NDArray[np.uint8] | None = None

    def restored(self, backend: TinyBackend) -> NDArray[np.uint8]:
        """Return every scene after one degradation and its restoration by the corresponding tool."""
        if self._restored is None:
            rng = np.random.default_rng((self.seed, 5))
            mild = [c for c in degrade.COMBINATIONS if len(c) == 1]
            choice = rng.integers(len(mild), size=len(self.images))
            self._restored = np.empty_like(self.images)
            for i, kinds in enumerate(mild):
                rows = np.flatnonzero(choice == i)
                faulty = degrade.apply(self.images[rows], kinds, degrade.noise_field((*self.images[rows].shape,), rng))
                self._restored[rows] = run_chain(backend, [t for t in RESTORERS if _OWN[t] in kinds], faulty)
        return self._restored


def _trained(
    tool: str, seed: int, steps: int, world: _World | None, built: TinyBackend, run: TrainingRun
) -> tuple[torch.nn.Module, float] | None:
    """Train a tool's network; return it and the running mean of its loss, or None if the callback asks to stop."""
    import torch

    from costgym.experiments.train.loop import own_chance, take_step
    from costgym.experiments.train.run import TrainingStep

    number = ALL_TOOLS.index(tool)
    with own_chance(seed * 100 + number):
        network = make_network(tool)
    if tool in RESTORERS or tool in READERS:
        assert world is not None
        network = network.to(memory_format=torch.channels_last)
    rng = np.random.default_rng((seed, number, 9))
    loss: Callable[[Any], torch.Tensor]
    rate = 2e-3
    if tool in RESTORERS:
        assert world is not None
        helpers = RESTORERS[: min(RESTORERS.index(tool), 2)]
        loss = lambda net: _restoration_loss(net, tool, world, rng, built, helpers)  # noqa: E731
    elif tool in READERS:
        assert world is not None
        if tool != READERS[0]:
            # the other two start from the classifier's features
            network.trunk.load_state_dict(load_network(READERS[0], built.weights).trunk.state_dict())
        restored, reader = world.restored(built), {"image_classification": _label_loss, "object_detection": _centre_loss}
        compute = reader.get(tool, _caption_loss)
        loss = lambda net: compute(net, *_reader_batch(world, restored, rng))  # noqa: E731
        rate = 3e-3
    else:
        compute_text = _sentiment_loss if tool == "sentiment_analysis" else _words_loss
        loss = lambda net: compute_text(net, tool, rng)  # noqa: E731
        rate = 4e-3
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.15)
    network.train()
    weights = dict(network.named_parameters())
    mean = 0.0
    for step in range(steps):
        value, _ = take_step(optimiser, weights, lambda: [(loss(network), {})], 1.0, step)
        schedule.step()
        mean += 0.02 * (value - mean) if step else value
        if run.callback.on_step(TrainingStep(tool, step + 1, step + 1, steps, {"loss": mean})) is True:
            return None
        if (step + 1) % max(1, steps // 10) == 0:
            run.say(f"{tool}: step {step + 1} of {steps}, loss {mean:.4f}")
    return network.eval(), mean


def _fast() -> AbstractContextManager[Any]:
    """Use bfloat16 convolutions if the CPU supports them, which halves the time; weights stay in single precision."""
    import torch

    supported = "avx512_bf16" in _cpu_flags()
    return torch.autocast("cpu", torch.bfloat16) if supported else nullcontext()


@lru_cache(maxsize=1)
def _cpu_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.split() for line in lines if line.startswith("flags")), ()))


# -- restoration ------------------------------------------------------------------------------------------------------


def _restoration_batch(
    tool: str, images: NDArray[np.uint8], rng: np.random.Generator, built: TinyBackend, helpers: Sequence[str]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return a batch of degraded images, and the same images without the degradation that the tool removes."""
    dataset = _OWN[tool]
    # low resolution looks like blur: if it were frequent, deblurring would learn a compromise
    chance = {k: 0.2 if (dataset, k) == (degrade.BLUR, degrade.LOW_RESOLUTION) else 0.45 for k in degrade.KINDS if k != dataset}
    faulty, wanted = [], []
    for _ in range(3):
        kinds = {k for k, p in chance.items() if rng.random() < p} if rng.random() < 0.65 else set()
        if rng.random() < 0.85:
            kinds.add(dataset)
        batch = images[rng.integers(len(images), size=_IMAGE_BATCH // 3)]
        if rng.random() < 0.5:
            batch = batch[:, :, ::-1]
        field = degrade.noise_field(batch.shape, rng)
        x = degrade.apply(batch, sorted(kinds), field)
        if rng.random() < 0.6:
            # output of the earlier tools, also on images without the degradation that they remove
            for helper in helpers:
                if rng.random() < (0.75 if _OWN[helper] in kinds else 0.1):
                    x = run_chain(built, [helper], x)
                    kinds.discard(_OWN[helper])
        left = kinds - {dataset}
        if dataset == degrade.GREY:
            left.discard(degrade.NOISE)  # the colour of noise cannot be inferred; luma is not learnt here
        faulty.append(x)
        wanted.append(degrade.apply(batch, sorted(left), field))
    return np.concatenate(faulty), np.concatenate(wanted)


def _tensor(images: NDArray[np.uint8]) -> torch.Tensor:
    import torch

    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255


def _restoration_loss(
    network: Any, tool: str, world: _World, rng: np.random.Generator, built: TinyBackend, helpers: Sequence[str]
) -> torch.Tensor:
    import torch

    from costgym.simulators.opencatp.backends.networks import LUMA

    faulty, wanted = _restoration_batch(tool, world.images, rng, built, helpers)
    x, y = _tensor(faulty), _tensor(wanted)
    # deblurring divides by small numbers; bfloat16 has too few digits for it
    with nullcontext() if _OWN[tool] == degrade.BLUR else _fast():
        restored = network(x)
    error = restored.float() - y
    if _OWN[tool] == degrade.GREY:
        error = error - (error * torch.tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
    return torch.sqrt(error * error + 1e-5).mean()


# -- reading ----------------------------------------------------------------------------------------------------------


def _reader_batch(
    world: _World, restored: NDArray[np.uint8], rng: np.random.Generator
) -> tuple[torch.Tensor, list[scenes.Scene], bool]:
    """Return a batch of half clean and half restored images, their scenes, and whether they are mirrored."""
    rows = rng.integers(len(world.scenes), size=_READER_BATCH)
    half = _READER_BATCH // 2
    images = np.concatenate([world.images[rows[:half]], restored[rows[half:]]])
    mirrored = bool(rng.random() < 0.5)
    return _tensor(images[:, :, ::-1] if mirrored else images), [world.scenes[r] for r in rows], mirrored


def _label_loss(network: Any, x: torch.Tensor, truth: list[scenes.Scene], mirrored: bool) -> torch.Tensor:
    import torch
    from torch.nn import functional as F

    with _fast():
        kind, texture = network(x)
    kinds = torch.tensor([language.KINDS.index(s.kind) for s in truth])
    textures = torch.tensor([language.TEXTURES.index(s.texture) for s in truth])
    return F.cross_entropy(kind.float(), kinds) + F.cross_entropy(texture.float(), textures)


def _centre_loss(network: Any, x: torch.Tensor, truth: list[scenes.Scene], mirrored: bool) -> torch.Tensor:
    import torch

    with _fast():
        logits, sides = network(x)
    logits, sides = logits.float(), sides.float()
    n, objects, height, width = logits.shape
    heat = torch.zeros(n, objects, height, width)
    rows = torch.arange(height).float()[:, None]
    columns = torch.arange(width).float()[None]
    box_error = torch.zeros(())
    count = 0
    for i, scene in enumerate(truth):
        for thing in scene.objects:
            left, top, right, bottom = thing.box
            if mirrored:
                left, right = scenes.SIZE - right, scenes.SIZE - left
            cx, cy = (left + right) / 2, (top + bottom) / 2
            column, row = min(int(cx / 4), width - 1), min(int(cy / 4), height - 1)
            k = language.OBJECTS.index(thing.name)
            heat[i, k] = torch.maximum(heat[i, k], torch.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 1.5))
            px, py = column * 4 + 2.0, row * 4 + 2.0
            wanted = torch.tensor([px - left, py - top, right - px, bottom - py])
            box_error = box_error + (sides[i, :, row, column] - wanted).abs().mean()
            count += 1
    p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    centre = heat == 1
    focal = torch.where(centre, (1 - p) ** 2 * p.log(), (1 - heat) ** 4 * p**2 * (1 - p).log())
    return -focal.sum() / count + 0.05 * box_error / count


def _caption_loss(network: Any, x: torch.Tensor, truth: list[scenes.Scene], mirrored: bool) -> torch.Tensor:
    return _teacher_forced(network, x, [vocabulary().encode(s.caption()) for s in truth])


def _teacher_forced(network: Any, inputs: torch.Tensor, wanted: list[list[int]]) -> torch.Tensor:
    from torch.nn import functional as F

    words = pad([[START, *w, END] for w in wanted], inputs.device)
    cells, mask, state = network.see(inputs)
    logits, _ = network.decoder(cells, mask, state, words[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD)


# -- language ---------------------------------------------------------------------------------------------------------


def _objects(facts: language.Facts, rng: np.random.Generator, german: bool = False) -> str:
    names = sorted({facts.kind, *facts.things}) if rng.random() < 0.8 else list(facts.things) or [facts.kind]
    return language.object_list(names, german)


def _facts(rng: np.random.Generator) -> language.Facts:
    """Draw the facts of a scene without rendering it."""

    def pick(items: tuple[str, ...]) -> str:
        return items[int(rng.integers(len(items)))]

    things = tuple(language.THINGS[int(i)] for i in rng.permutation(len(language.THINGS))[: int(rng.integers(0, 5))])
    moods = (int(rng.integers(4)), int(rng.integers(4)))
    words = pick(language.KINDS), pick(language.TEXTURES), pick(language.PLACES), pick(language.WEATHERS)
    return language.Facts(*words, things, moods)


def _pair(tool: str, rng: np.random.Generator) -> tuple[str, str]:
    """Return an input text and the expected output of the tool."""
    facts, choice = _facts(rng), rng.random()
    if tool == "machine_translation":
        if choice < 0.45:
            return facts.caption(), facts.caption(True)
        if choice < 0.65:
            state = rng.bit_generator.state
            english = _objects(facts, rng)
            rng.bit_generator.state = state  # the same choice of names in German
            return english, _objects(facts, rng, True)
        if choice < 0.75:
            return facts.label(), facts.label(True)
        if choice < 0.80:
            return facts.summary(), facts.summary(True)
        if choice < 0.83:
            return language.sentiment(facts.weather), language.sentiment(facts.weather, True)
        sentences = zip(facts.report().split(" ."), facts.report(True).split(" ."), strict=True)
        english_sentences, german_sentences = zip(*((e.strip(), g.strip()) for e, g in sentences if e.strip()), strict=True)
        k = int(rng.integers(len(english_sentences)))
        return english_sentences[k], german_sentences[k]
    if choice < 0.5:
        return facts.report(), facts.summary()
    if choice < 0.8:
        return facts.caption(), facts.summary()
    short = facts.label() if choice < 0.87 else _objects(facts, rng) if choice < 0.94 else facts.summary()
    return short, short


def _words_loss(network: Any, tool: str, rng: np.random.Generator) -> torch.Tensor:
    import torch

    pairs = [_pair(tool, rng) for _ in range(_TEXT_BATCH)]
    source = pad([vocabulary().encode(a) for a, _ in pairs], torch.device("cpu"))
    into = vocabulary(german=tool == "machine_translation")
    return _teacher_forced(network, source, [into.encode(b) for _, b in pairs])


def _sentiment_loss(network: Any, tool: str, rng: np.random.Generator) -> torch.Tensor:
    import torch
    from torch.nn import functional as F

    batch = [_facts(rng) for _ in range(_TEXT_BATCH)]
    texts = [f.report() if rng.random() < 0.7 else f.caption() for f in batch]
    wanted = torch.tensor([language.WEATHERS.index(f.weather) for f in batch])
    return F.cross_entropy(network(pad([vocabulary().encode(t) for t in texts], torch.device("cpu"))), wanted)


class _Messages(Callback):
    def on_message(self, text: str) -> None:
        print(text, flush=True)


if __name__ == "__main__":
    print(*build_tools(sys.argv[1], callback=_Messages()).values(), sep="\n")
