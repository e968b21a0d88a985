"""The shipped networks do their work, and training them is resumable."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from costgym.simulators.errors import DataError, UnknownName
from costgym.simulators.opencatp.backends import measures
from costgym.simulators.opencatp.backends.base import ALL_TOOLS, RESTORERS, run_images, run_texts
from costgym.simulators.opencatp.scenes import degrade
from costgym.simulators.opencatp.scenes import scene as scenes
from costgym.simulators.opencatp.scoring import similarity

pytest.importorskip("torch")

from benchmarks.opencatp import vision_tools as training
from costgym.simulators.opencatp.backends import tiny
from costgym.simulators.opencatp.backends.tiny import TinyBackend
from tests.helpers.training import StopAt
from tests.helpers.vision import REPAIRS, delta_e, psnr, run_chain

WORLD = scenes.make_scenes(scenes.HELD_OUT_SEED, range(20))
CLEAN = np.stack([s.image for s in WORLD])
BACKEND = TinyBackend()


def faulty(name: str) -> np.ndarray:
    return np.stack([degrade.degrade(c, name, scenes.HELD_OUT_SEED, i) for i, c in enumerate(CLEAN)])


def accuracy(images: np.ndarray) -> float:
    labels = run_texts(BACKEND, "image_classification", images)
    return float(np.mean([a == s.label() for a, s in zip(labels, WORLD, strict=True)]))


def image_score(images: np.ndarray) -> float:
    return float((similarity.image_features(images) * similarity.image_features(CLEAN)).sum(1).mean())


@pytest.mark.parametrize(("name", "gain_db"), [("noisy", 4.0), ("blurry", 2.0), ("low-resolutioned", 1.5)])
def test_a_restorer_gains_decibels_on_its_own_degradation(name: str, gain_db: float) -> None:
    before = faulty(name)
    after = run_images(BACKEND, REPAIRS[name], before)
    assert psnr(after, CLEAN).mean() >= psnr(before, CLEAN).mean() + gain_db
    assert image_score(after) > image_score(before) + 0.05


def test_colour_comes_back() -> None:
    before = faulty("grayscale")
    after = run_images(BACKEND, "image_colorization", before)
    assert delta_e(after, CLEAN).mean() <= 0.7 * delta_e(before, CLEAN).mean()
    assert np.abs(measures.lab(after)[..., 0] - measures.lab(before)[..., 0]).mean() < 4.0


def test_readers_read_clean_images() -> None:
    assert accuracy(CLEAN) >= 0.95
    texts = run_texts(BACKEND, "object_detection", CLEAN)
    captions = run_texts(BACKEND, "image_captioning", CLEAN)
    assert np.mean([similarity.text_score(a, s.object_names()) for a, s in zip(texts, WORLD, strict=True)]) >= 0.95
    assert np.mean([similarity.text_score(a, s.caption()) for a, s in zip(captions, WORLD, strict=True)]) >= 0.9


@pytest.mark.parametrize("name", ["noisy", "blurry", "low-resolutioned"])
def test_the_matching_tool_raises_accuracy_by_fifteen_points(name: str) -> None:
    before = faulty(name)
    assert accuracy(run_images(BACKEND, REPAIRS[name], before)) >= accuracy(before) + 0.15


def test_the_order_of_restoration_matters() -> None:
    spoilt = faulty("noisy blurry")
    good = run_chain(BACKEND, ["image_denoising", "image_deblurring"], spoilt)
    bad = run_chain(BACKEND, ["image_deblurring", "image_denoising"], spoilt)
    assert image_score(good) > image_score(bad) + 0.01


def test_language_tools_speak() -> None:
    captions, reports = [s.caption() for s in WORLD], [s.report() for s in WORLD]
    german = run_texts(BACKEND, "machine_translation", captions)
    assert np.mean([a == s.caption(True) for a, s in zip(german, WORLD, strict=True)]) >= 0.95
    assert (
        np.mean([a == s.summary() for a, s in zip(run_texts(BACKEND, "text_summarization", reports), WORLD, strict=True)])
        >= 0.9
    )
    assert (
        np.mean([a == s.sentiment() for a, s in zip(run_texts(BACKEND, "sentiment_analysis", reports), WORLD, strict=True)])
        >= 0.95
    )
    labels = run_texts(BACKEND, "machine_translation", [s.label() for s in WORLD])
    assert np.mean([a == s.label(True) for a, s in zip(labels, WORLD, strict=True)]) >= 0.95


def test_a_whole_report_is_translated_sentence_by_sentence() -> None:
    german = run_texts(BACKEND, "machine_translation", [WORLD[0].report()])
    assert similarity.text_score(german[0], WORLD[0].report(True)) > 0.9
    assert german[0].count(".") == WORLD[0].report().count(".")


def test_the_same_inputs_give_the_same_outputs_whatever_the_batch() -> None:
    spoilt = faulty("noisy")[:10]
    whole = run_images(BACKEND, "image_denoising", spoilt)
    parts = run_images(TinyBackend(batch_size=3), "image_denoising", spoilt)
    assert np.abs(whole.astype(int) - parts).max() <= 1
    assert (whole == run_images(BACKEND, "image_denoising", spoilt)).all()


@pytest.mark.parametrize("size", [(8, 8), (33, 47), (100, 64)])
def test_images_of_any_size_keep_it(size: tuple[int, int]) -> None:
    images = np.random.default_rng(1).integers(0, 256, (2, *size, 3), dtype=np.uint8)
    for tool in RESTORERS:
        assert run_images(BACKEND, tool, images).shape == images.shape
    for tool in ("image_classification", "object_detection", "image_captioning"):
        assert len(run_texts(BACKEND, tool, images)) == 2


def test_empty_batches_stay_empty() -> None:
    none = np.zeros((0, 60, 60, 3), np.uint8)
    assert run_images(BACKEND, "image_denoising", none).shape == none.shape
    assert run_texts(BACKEND, "image_captioning", none) == []
    assert [run_texts(BACKEND, t, []) for t in ("machine_translation", "sentiment_analysis")] == [[], []]
    assert len(run_texts(BACKEND, "machine_translation", ["", "zzz"])) == 2


def test_bad_inputs_and_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="image_denoising"):
        BACKEND.run("image_denoise", CLEAN)
    with pytest.raises(DataError, match="expected images as a uint8 array, got list"):
        BACKEND.run("image_denoising", ["text"])
    with pytest.raises(DataError, match="expected a list of texts"):
        BACKEND.run("machine_translation", CLEAN)
    with pytest.raises(DataError, match="no weights of this tool; name a folder"):
        TinyBackend(tmp_path).run("image_denoising", CLEAN)
    shutil.copy(tiny.WEIGHTS / "image_colorization.safetensors", tmp_path / "image_denoising.safetensors")
    with pytest.raises(DataError, match="weights of another network"):
        TinyBackend(tmp_path).run("image_denoising", CLEAN)
    (tmp_path / "image_denoising.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a safetensors file"):
        TinyBackend(tmp_path).run("image_denoising", CLEAN)


def test_the_shipped_weights_are_small_and_complete() -> None:
    files = sorted(tiny.WEIGHTS.glob("*.safetensors"))
    assert [f.stem for f in files] == sorted(ALL_TOOLS)
    assert sum(f.stat().st_size for f in files) <= 6_000_000


@pytest.mark.slow
def test_building_goes_on_where_it_stopped_and_repeats_itself(tmp_path: Path) -> None:
    names = [name for name in training.VisionSettings.model_fields if name.endswith("_steps")]
    plan = {"seed": 3, "scenes": 60, **dict.fromkeys(names, 2)}
    follower = StopAt()
    first = training.build_tools(tmp_path / "a", **plan)
    again = training.build_tools(tmp_path / "a", callback=follower, **plan)
    assert follower.said == [f"{tool}: already built" for tool in ALL_TOOLS]
    other = training.build_tools(tmp_path / "b", **plan)
    assert [p.read_bytes() for p in first.values()] == [p.read_bytes() for p in other.values()]
    first["object_detection"].write_bytes(b"cut off")
    training.build_tools(tmp_path / "a", **plan)
    assert [p.read_bytes() for p in again.values()] == [p.read_bytes() for p in other.values()]
