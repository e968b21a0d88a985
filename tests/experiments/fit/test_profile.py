"""Measured profiles: what is run, what is refused, and what the file says."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from costgym.experiments.fit import profile as profiling
from costgym.experiments.fit.profile import Measurement, Point, measure
from costgym.experiments.fit.profile_settings import ProfileSettings
from costgym.simulators.errors import ConfigError, InfrastructureError, InvalidProfile, UnknownName
from costgym.simulators.opencatp import load_profile
from costgym.simulators.opencatp.backends.meter import Meter, resident_mb
from costgym.simulators.opencatp.profile import profile_names
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.opencatp.tools import TOOLS

SMALL: dict[str, Any] = {
    "image_sizes": ((32, 24), (40, 32), (48, 40), (64, 48)),
    "text_lengths": (20, 40, 60, 80),
}
ONCE = ProfileSettings(repeats=1)


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return measure(ONCE, date="2026-11-20", **SMALL)


@pytest.mark.slow
def test_every_tool_is_measured_at_every_level(measured: Measurement) -> None:
    assert sorted(measured.points) == sorted((tool, level) for tool in TOOLS for level in range(4))
    assert measured.skipped == {}
    assert all(
        point.time_ms > 0.0 and point.cpu_inst_mb >= 0.0 and point.gpu_inst_mb == 0.0 for point in measured.points.values()
    )
    assert all(load.cold_start_s > 0.0 and load.gpu_cons_mb == 0.0 for load in measured.loading.values())


@pytest.mark.slow
def test_a_measured_profile_can_be_named_by_its_file(
    measured: Measurement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "measure", lambda *_, **__: measured)
    made = profiling.profile(tmp_path / "new" / "here.json")
    assert load_profile(tmp_path / "new" / "here.json") == made
    assert (made.name, made.date) == ("here", "2026-11-20")
    assert "untrained weights at full size, float32, one input at a time, median of 1 runs" in made.source
    assert made.hardware.endswith(f"torch {__import__('torch').__version__}")
    assert Evaluator(_NoScores(), tmp_path / "new" / "here.json").profile == made


class _NoScores:
    samples = 100

    def score(self, *_: Any) -> float:
        return 0.0

    def text_score(self, *_: Any) -> float:
        return 0.0


@pytest.mark.slow
def test_what_would_not_fit_is_not_run_and_no_profile_is_made_without_it(
    measured: Measurement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "needs about 900 MB of memory, 800 MB may be used"
    incomplete = without(measured, {("image_denoising", 3): why})
    with pytest.raises(InvalidProfile, match=rf"here is incomplete: image_denoising at level 3: {why}; measure with scale"):
        incomplete.profile()
    monkeypatch.setattr(profiling, "measure", lambda *_, **__: incomplete)
    with pytest.raises(InvalidProfile, match="here is incomplete"):
        profiling.profile(tmp_path / "here.json")
    assert list(tmp_path.iterdir()) == []


def without(complete: Measurement, skipped: dict[tuple[str, int], str]) -> Measurement:
    points = {key: point for key, point in complete.points.items() if key not in skipped}
    return Measurement(complete.name, complete.hardware, complete.date, complete.source, complete.loading, points, skipped)


@pytest.mark.slow
def test_levels_that_were_not_run_are_scaled_only_when_asked_and_the_profile_says_so(measured: Measurement) -> None:
    incomplete = without(measured, {(tool, level): "not asked for" for tool in TOOLS for level in (1, 3)})
    with pytest.raises(InvalidProfile, match="all tools at level 1: not asked for; all tools at level 3: not asked for"):
        incomplete.profile()
    made = incomplete.profile(scale=True)
    first, third = incomplete.points["image_denoising", 0], incomplete.points["image_denoising", 2]
    times = made.tools["image_denoising"].time_ms
    assert times[0] == round(first.time_ms, 6)
    assert times[1] == round(first.time_ms * ((582 * 578) / (490 * 402)), 6)
    assert times[3] == round(third.time_ms * ((1921 * 2624) / (954 * 806)), 6)
    mood = incomplete.points["sentiment_analysis", 0]
    assert made.tools["sentiment_analysis"].time_ms[1] == round(mood.time_ms * (2009 / 149), 6)
    assert "scaled by the input's size from another level, not measured: all tools at level 1" in made.source
    none = without(measured, {("image_denoising", level): "ran out of memory" for level in range(4)})
    with pytest.raises(InvalidProfile, match="image_denoising was measured at no level"):
        none.profile(scale=True)


def test_a_level_that_would_not_fit_into_memory_is_skipped_and_the_reason_is_kept() -> None:
    seen: list[tuple[int, ...]] = []

    class Fake:
        name = "fake"

        def run(self, tool: str, inputs: Any) -> Any:
            seen.append(np.shape(inputs))
            return inputs

    class Scale(Meter):
        def peak_mb(self, run: Any) -> tuple[float, float]:
            run()
            return seen[-1][1] * seen[-1][2] / 100.0, 0.0  # 1 MB for every 100 px

        def seconds(self, run: Any) -> float:
            run()
            return 0.25

    measurement = Measurement("here", "", "", "measured")
    sizes = ((32, 24), (40, 32), (48, 40), (64, 48))
    areas = [width * height for width, height in sizes]
    meter = Scale("cpu", 12.0)
    for tool in ("image_denoising", "object_detection"):
        profiling._levels_of(measurement, tool, Fake(), meter, ProfileSettings(repeats=1), sizes, areas, lambda _: None)
    assert measurement.points == {
        ("image_denoising", 0): Point(250.0, 7.68, 0.0),
        ("object_detection", 0): Point(250.0, 7.68, 0.0),
    }
    assert measurement.skipped["object_detection", 1] == "needs about 13 MB of memory, 12 MB may be used"


def test_out_of_memory_skips_the_level_and_other_errors_are_not_swallowed() -> None:
    class Fake:
        name = "fake"

        def run(self, tool: str, inputs: Any) -> Any:
            if np.shape(inputs)[2] == 48:
                raise RuntimeError("CUDA out of memory" if tool == "image_denoising" else "other trouble")
            return inputs

    measurement, meter = Measurement("here", "", "", "measured"), Meter("cpu", None)
    sizes = ((32, 24), (40, 32), (48, 40), (64, 48))
    areas = [width * height for width, height in sizes]
    profiling._levels_of(measurement, "image_denoising", Fake(), meter, ONCE, sizes, areas, lambda _: None)
    assert measurement.skipped == {("image_denoising", 2): "ran out of memory"}
    with pytest.raises(RuntimeError, match="other trouble"):
        profiling._levels_of(measurement, "image_deblurring", Fake(), meter, ONCE, sizes, areas, lambda _: None)


def test_the_meter_sees_memory_that_a_call_takes_and_gives_back() -> None:
    def take() -> None:
        held = np.ones(64 * 2**20 // 8)
        time.sleep(0.1)  # long enough to be seen on a busy machine
        del held

    cpu_mb, gpu_mb = Meter("cpu", None).peak_mb(take)
    assert 60.0 < cpu_mb < 100.0
    assert gpu_mb == 0.0
    assert resident_mb() > 10.0


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"backend": "best"}, UnknownName, "back-end"),
        ({"levels": ()}, ConfigError, "levels"),
        ({"levels": (0, 4)}, ConfigError, r"expected some of 0\.\.3"),
        ({"repeats": 0}, ConfigError, "repeats"),
        ({"memory_limit": -1.0}, ConfigError, "memory_limit"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        measure(ProfileSettings(**settings))


def test_a_gpu_that_is_not_there_is_named() -> None:
    if __import__("torch").cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(InfrastructureError, match="torch sees no GPU here"):
        measure(ProfileSettings(device="cuda"))


@pytest.mark.slow
def test_untrained_networks_have_the_published_size() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from costgym.simulators.opencatp.backends.untrained import untrained_loaders

    with torch.device("meta"):
        millions = {
            tool: round(sum(p.numel() for p in make().model.parameters()) / 1e6)
            for tool, make in untrained_loaders().items()
            if tool != "image_super_resolution"  # builds a large table of positions
        }
    assert millions == {
        "image_denoising": 26,
        "image_deblurring": 26,
        "image_colorization": 34,
        "image_classification": 87,
        "object_detection": 60,
        "image_captioning": 239,
        "machine_translation": 223,
        "text_summarization": 406,
        "sentiment_analysis": 67,
    }


def test_the_profiles_that_ship_are_whole_and_say_where_they_come_from() -> None:
    assert {"v100", "cpu-tiny", "cpu-published"} <= set(profile_names())
    for name in profile_names():
        made = load_profile(name)
        assert set(made.tools) == set(TOOLS) and made.hardware and made.source and made.date
        assert all(made.price(tool, level) > 0 for tool in TOOLS for level in range(4))
