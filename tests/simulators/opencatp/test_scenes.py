"""Generated scenes, what they say, how they are spoilt, and how alike images and texts are."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.errors import DataError, UnknownName
from costgym.simulators.opencatp.backends import measures, vocabulary
from costgym.simulators.opencatp.scenes import degrade, language
from costgym.simulators.opencatp.scenes import scene as scenes
from costgym.simulators.opencatp.scoring import similarity
from tests.helpers.vision import delta_e, image_score, psnr

WORLD = scenes.make_scenes(scenes.HELD_OUT_SEED, range(40))
CLEAN = np.stack([s.image for s in WORLD])
LABELS = [language.label(kind, texture) for kind in language.KINDS for texture in language.TEXTURES]


def digest(images: np.ndarray) -> str:
    return hashlib.sha256(images.tobytes()).hexdigest()


def test_a_scene_is_a_function_of_seed_and_index() -> None:
    again = scenes.make_scene(scenes.HELD_OUT_SEED, 7)
    assert digest(again.image) == digest(WORLD[7].image)
    assert again.caption() == WORLD[7].caption()
    assert digest(scenes.make_scene(scenes.HELD_OUT_SEED + 1, 7).image) != digest(WORLD[7].image)


def test_scenes_are_small_rgb_images_with_everything_said_about_them() -> None:
    for scene in WORLD:
        assert scene.image.shape == (scenes.SIZE, scenes.SIZE, 3)
        assert scene.image.dtype == np.uint8
        assert scene.label() in LABELS
        assert scene.objects[0].name == scene.kind
        assert 1 <= len(scene.things) <= 3
        assert set(scene.object_names().split(", ")) == {scene.kind, *scene.things}
        assert scene.sentiment() == ("positive" if scene.weather == "sunny" else "negative")
        for thing in scene.objects:
            left, top, right, bottom = thing.box
            assert left < right
            assert top < bottom


def test_every_word_of_the_language_has_a_number_and_comes_back() -> None:
    for german in (False, True):
        words = vocabulary.vocabulary(german)
        for scene in WORLD:
            for text in (scene.caption(german), scene.label(german), scene.object_names(german), scene.summary(german)):
                numbers = words.encode(text)
                assert vocabulary.UNKNOWN not in numbers
                assert words.decode(numbers) == text
            assert vocabulary.UNKNOWN not in words.encode(scene.report(german))


def test_a_caption_in_both_languages() -> None:
    facts = language.Facts("kite", "striped", "beach", "rain", ("bird", "boat", "lamp"), (0, 1))
    assert facts.caption() == "a striped kite at the beach in the rain with a boat, a bird and a lamp"
    assert (
        facts.caption(german=True) == "ein gestreifter Drachen am Strand im Regen mit einem Boot, einem Vogel und einer Laterne"
    )


def test_the_fifteen_combinations_are_in_the_papers_order() -> None:
    assert len(degrade.NAMES) == 15
    assert degrade.NAMES[0] == "low-resolutioned noisy blurry grayscale"
    assert degrade.NAMES[7] == "grayscale"
    assert degrade.NAMES[14] == "low-resolutioned"
    assert [n.removesuffix(" grayscale") for n in degrade.NAMES[:7]] == list(degrade.NAMES[8:])
    assert degrade.combination("noisy blurry") == degrade.combination(9) == (degrade.NOISE, degrade.BLUR)


def test_a_flat_image_stays_flat_without_noise() -> None:
    flat = np.full((1, 21, 30, 3), (200, 100, 50), np.uint8)
    assert (degrade.blur(flat) == flat).all()
    assert (degrade.low_resolution(flat) == flat).all()
    assert (degrade.grey(flat) == 124).all()  # 0.299 * 200 + 0.587 * 100 + 0.114 * 50 = 124.2


def test_a_white_dot_is_blurred_to_the_disc() -> None:
    dot = np.zeros((1, 11, 11, 3), np.uint8)
    dot[0, 5, 5] = 255
    assert degrade.blur(dot)[0, 5, :, 0].tolist() == [0, 0, 0, 14, 14, 14, 14, 14, 0, 0, 0]  # 255 * 10 / 178
    assert degrade.blur(dot)[0, 3, :, 0].tolist() == [0, 0, 0, 0, 9, 14, 9, 0, 0, 0, 0]


def test_degradations_are_the_same_bytes_everywhere() -> None:
    ramp = (np.arange(24 * 24 * 3) * 7 % 256).astype(np.uint8).reshape(24, 24, 3)
    got = {name: digest(degrade.degrade(ramp, name, 5, 3))[:12] for name in ("blurry", "low-resolutioned", "grayscale")}
    assert got == {"blurry": "6dd0204a3a79", "low-resolutioned": "f7c72c9ff27d", "grayscale": "e474e7442a2c"}


def test_noise_has_its_strength_and_belongs_to_seed_scene_and_combination() -> None:
    grey = np.full((60, 60, 3), 128, np.uint8)
    noisy = degrade.degrade(grey, "noisy", 1, 2)
    assert abs((noisy.astype(float) - 128).std() - degrade.NOISE_SIGMA) < 1.5
    assert digest(noisy) == digest(degrade.degrade(grey, "noisy", 1, 2))
    others = [degrade.degrade(grey, *key) for key in (("noisy", 1, 3), ("noisy", 2, 2), ("low-resolutioned noisy", 1, 2))]
    assert len({digest(x) for x in (noisy, *others)}) == 4


@given(st.sets(st.sampled_from(degrade.KINDS)), st.integers(8, 33), st.integers(8, 33))
def test_the_order_in_which_degradations_are_named_does_not_matter(kinds: set[str], height: int, width: int) -> None:
    rng = np.random.default_rng((height, width))
    images = rng.integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    field = degrade.noise_field(images.shape, rng)
    forth, back = (degrade.apply(images, sorted(kinds, reverse=r), field) for r in (False, True))
    assert forth.shape == images.shape
    assert (forth == back).all()


def test_bad_images_and_names_are_refused() -> None:
    with pytest.raises(DataError, match=r"uint8 \(n, height, width, 3\)"):
        degrade.apply(CLEAN.astype(float), ("noisy",), CLEAN)
    with pytest.raises(DataError, match=r"got uint8 \(60, 60, 3\)"):
        similarity.image_features(CLEAN[0])
    with pytest.raises(UnknownName, match="nearest: blurry"):
        degrade.combination("blury")
    with pytest.raises(UnknownName):
        degrade.combination(15)
    with pytest.raises(UnknownName, match="foggy"):
        degrade.apply(CLEAN, ("foggy",), CLEAN)


def test_an_image_is_one_to_itself_and_nothing_to_another() -> None:
    features = similarity.image_features(CLEAN)
    gram = features @ features.T
    assert np.allclose(np.diag(gram), 1.0, atol=1e-5)
    others = gram[~np.eye(len(CLEAN), dtype=bool)]
    assert abs(others.mean()) < 0.02 and others.std() < 0.1
    assert image_score(CLEAN[0], CLEAN[0]) == pytest.approx(1.0, abs=1e-6)
    assert image_score(CLEAN[0], CLEAN[1]) == pytest.approx(image_score(CLEAN[1], CLEAN[0]))


def test_the_image_score_sees_every_degradation() -> None:
    features = similarity.image_features(CLEAN)
    for d, name in enumerate(degrade.NAMES):
        spoilt = np.stack([degrade.degrade(c, d, 1, i) for i, c in enumerate(CLEAN)])
        assert (similarity.image_features(spoilt) * features).sum(1).mean() < 0.9, name


def test_text_scores_weigh_words_by_rarity() -> None:
    assert similarity.text_score("a striped kite", "kite striped a") == 1.0
    assert similarity.text_score("a striped kite", "ein karierter Ball") == 0.0
    assert similarity.text_score("", "") == 1.0
    assert similarity.text_score("", "kite") == 0.0
    assert 0.4 < similarity.text_score("striped kite", "dotted kite") < 0.6
    idf = {"the": 0.0, "kite": 1.0, "fish": 1.0}
    assert similarity.text_score("the kite", "the fish", idf) == pytest.approx(0.0, abs=1e-6)


@given(st.lists(st.sampled_from(LABELS), min_size=1, max_size=4), st.lists(st.sampled_from(LABELS), max_size=4))
def test_text_scores_are_symmetric_and_in_range(a: list[str], b: list[str]) -> None:
    forth, back = similarity.text_score(" ".join(a), " ".join(b)), similarity.text_score(" ".join(b), " ".join(a))
    assert forth == pytest.approx(back)
    assert 0.0 <= forth <= 1.0 + 1e-12


def test_colours_go_to_lab_and_back() -> None:
    pure = np.array([[[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [0, 0, 0]]]], np.uint8)
    known = [(53.24, 80.09, 67.20), (87.73, -86.18, 83.18), (32.30, 79.19, -107.86), (100, 0, 0), (0, 0, 0)]
    assert np.allclose(measures.lab(pure)[0, 0], known, atol=0.02)
    assert (measures.srgb(measures.lab(CLEAN)) == CLEAN).all()
    assert delta_e(CLEAN, CLEAN).max() == 0.0
    assert psnr(CLEAN[:1] // 2 * 2, CLEAN[:1] // 2 * 2 + 1)[0] == pytest.approx(48.13, abs=0.01)
