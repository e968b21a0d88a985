"""The images and texts of OpenCATP episodes: those that were scored, each made once, and none that is not at hand."""

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

import costgym
from costgym.envs.base import base_env
from costgym.envs.opencatp.images import (
    NO_TORCH,
    OTHER_NETWORKS,
    OTHER_SCENES,
    Artefacts,
    SceneImages,
)
from costgym.simulators.opencatp.backends.tiny import TinyBackend
from costgym.simulators.opencatp.scenes.degrade import degrade
from costgym.simulators.opencatp.scenes.scene import make_scene
from costgym.simulators.opencatp.scoring.evaluation import shipped_outcomes
from tests.helpers.vision import run_chain

TASK, SAMPLE = 204, 61  # noisy and blurred; wants the objects, a caption in German and the image
RESTORE = ["image_denoising", ["input_of_query"], "image_deblurring", ["image_denoising"]]
READ = ["image_captioning", ["image_deblurring"], "machine_translation", ["image_captioning"]]
CHAIN = ("image_denoising", "image_deblurring")


def played(plan: list[Any] | str) -> Any:
    """A world in which a plan was handed in."""
    env = costgym.make("costgym/OpenCATPChat-v0", tasks="all", disable_env_checker=True)
    env.reset(seed=3, options={"task": TASK, "sample": SAMPLE})
    env.step(plan if isinstance(plan, str) else json.dumps(plan))
    return base_env(env)


def shown(images: SceneImages, world: Any) -> Artefacts:
    artefacts = images.of(world)
    assert artefacts is not None
    return artefacts


def pixels(images: SceneImages, artefacts: Artefacts, key: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(images.encoded()[artefacts.scene][key]))))


def test_an_episode_shows_its_input_what_each_tool_made_and_the_truth() -> None:
    pytest.importorskip("torch")
    images, world = SceneImages(), played(RESTORE + READ)
    artefacts = shown(images, world)
    scene, table = make_scene(2000, SAMPLE), shipped_outcomes()
    degraded = degrade(scene.image, world.task.combination, 2000, SAMPLE)
    assert artefacts.note == ""
    assert [(made.title, made.about) for made in artefacts.made] == [
        ("Input", "noisy, blurry"),
        ("image_denoising", "on the input"),
        ("image_deblurring", "on image_denoising"),
        ("image_captioning", "on image_deblurring"),
        ("machine_translation", "on image_captioning"),
    ]
    assert np.array_equal(pixels(images, artefacts, artefacts.made[0].image), degraded)
    assert np.array_equal(
        pixels(images, artefacts, artefacts.made[2].image), run_chain(TinyBackend(), CHAIN, degraded[None])[0]
    )
    route = ("image_captioning", "machine_translation")
    assert [made.text for made in artefacts.made[3:]] == [
        table.text(world.task.combination, SAMPLE, CHAIN, route[:length]) for length in (1, 2)
    ]
    objects, caption, image = artefacts.answers
    assert (objects.title, objects.score, objects.submitted.about) == ("Objects", None, "none was made")
    assert (caption.title, caption.submitted.text) == ("Caption, in German", artefacts.made[4].text)
    assert (caption.truth.text, objects.truth.text) == (scene.caption(german=True), scene.object_names())
    assert image.score is None  # the restored image went on to another tool, so it was not handed in
    assert np.array_equal(pixels(images, artefacts, image.truth.image), scene.image)
    assert caption.score == pytest.approx(3 * world.figures()["score"])
    assert all(one.alt for one in [*artefacts.made, image.truth] if one.image)


def test_the_scores_shown_make_the_score_of_the_episode() -> None:
    pytest.importorskip("torch")
    world = played([*RESTORE, "object_detection", ["input_of_query"]])
    answers = shown(SceneImages(), world).answers
    assert [answer.submitted.about for answer in answers] == ["of object_detection", "none was made", "of image_deblurring"]
    assert sum(answer.score or 0.0 for answer in answers) / 3 == pytest.approx(world.figures()["score"])


def test_an_image_is_made_once_and_has_the_same_bytes_whatever_else_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    ran: list[str] = []
    run = TinyBackend.run
    monkeypatch.setattr(TinyBackend, "run", lambda self, tool, inputs: ran.append(tool) or run(self, tool, inputs))
    images = SceneImages()
    longer = shown(images, played(RESTORE + READ))
    shorter = shown(images, played(RESTORE[:2]))
    assert ran == list(CHAIN)
    alone = SceneImages()
    shown(alone, played(RESTORE[:2]))
    key = shorter.made[-1].image
    assert alone.encoded()[shorter.scene][key] == images.encoded()[longer.scene][key]


def test_of_a_plan_that_is_none_only_the_input_and_the_truth_are_shown() -> None:
    images = SceneImages()
    artefacts = shown(images, played("I would rather not."))
    assert [made.title for made in artefacts.made] == ["Input"]
    assert [answer.score for answer in artefacts.answers] == [None] * 3
    assert sorted(images.encoded()[artefacts.scene]) == ["input", "truth"]


@pytest.mark.parametrize(("name", "value", "note"), [("networks", None, NO_TORCH), ("weights", "others", OTHER_NETWORKS)])
def test_what_cannot_be_made_again_is_not_shown_and_a_note_says_why(name: str, value: Any, note: str) -> None:
    images = SceneImages()
    images.__dict__[name] = value
    artefacts = shown(images, played(RESTORE + READ))
    assert artefacts.note == note
    assert [bool(made.image) for made in artefacts.made] == [True, False, False, False, False]
    assert all(made.text for made in artefacts.made[3:])


def test_a_table_of_other_scenes_has_texts_and_no_images(monkeypatch: pytest.MonkeyPatch) -> None:
    images, world = SceneImages(), played(RESTORE + READ)
    monkeypatch.setitem(world.evaluator.scores.meta, "seed", 2001)
    artefacts = shown(images, world)
    assert (artefacts.scene, artefacts.note, images.encoded()) == ("", OTHER_SCENES, {})
    assert artefacts.made[-1].text and artefacts.answers[1].truth.text


def test_a_world_without_images_shows_none() -> None:
    env = costgym.make("costgym/Marketplace-v0", disable_env_checker=True)
    env.reset(seed=0)
    assert SceneImages().of(base_env(env)) is None
