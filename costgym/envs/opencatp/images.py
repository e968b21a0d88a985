"""Show what an OpenCATP episode was about: its input, what each tool made of it, the outputs, and the truth.

The texts are those of the outcome table. Of images the table holds the scores alone, so they are made again from the scenes
and with the networks that it was built from; where one of them is not at hand, a note says which.
"""

import base64
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from costgym.envs.base import BaseEnv
from costgym.envs.rendering.choice import Picture
from costgym.simulators.errors import MissingExtra, require
from costgym.simulators.opencatp.backends.base import RESTORERS, run_images
from costgym.simulators.opencatp.backends.tiny import TinyBackend, weights_hash
from costgym.simulators.opencatp.scenes.degrade import degrade
from costgym.simulators.opencatp.scenes.scene import Scene, make_scene
from costgym.simulators.opencatp.scoring.table import WANTED, OutcomeTable, wanted_texts
from costgym.simulators.opencatp.tasks import OpenCATPTask, Output
from costgym.simulators.plan import TASK_INPUT, Plan
from costgym.simulators.status import Status
from costgym.simulators.threads import torch_threads

INPUT, TRUTH = "input", "truth"
NO_TORCH = "What the restoring tools made is not shown: making it again needs costgym[vision], which is not installed here."
OTHER_NETWORKS = "What the restoring tools made is not shown: the outcome table was built with other networks than those here."
OTHER_SCENES = "No image is shown: the outcome table was built from other scenes than those that are generated here."
_OUTPUTS = {"image": "Image", "caption": "Caption", "label": "Class", "object": "Objects"}

Pixels = NDArray[np.uint8]  # (height, width, 3)


class Artefact(NamedTuple):
    """An image or a text of an episode."""

    title: str  # what it is, such as a tool's name
    about: str
    image: str = ""  # key of the image among those of its scene; empty for a text, and where the image cannot be made
    alt: str = ""
    text: str = ""  # the text; empty for an image


class Answer(NamedTuple):
    """A wanted output: its score, what was handed in for it, and what is true. The score is None where nothing was."""

    title: str
    score: float | None
    submitted: Artefact
    truth: Artefact


class Artefacts(NamedTuple):
    """All images and texts of an episode: the input, what each tool made, and last the true image where texts are wanted."""

    scene: str  # name of the scene whose images are shown; empty if none is
    note: str  # what cannot be shown and why; empty if all is
    made: tuple[Artefact, ...]
    answers: tuple[Answer, ...]  # the wanted outputs


class SceneImages:
    """Makes the images of episodes, each once: one scene after one chain of tools is one image, whoever played it."""

    def __init__(self) -> None:
        self._images: dict[str, dict[str, Pixels]] = {}
        self.scene = lru_cache(maxsize=None)(make_scene)

    def of(self, world: BaseEnv[Any, Any]) -> Artefacts | None:
        """Return what the present episode of a world shows; None for a world without images."""
        table = world.outcome_table()
        return None if table is None else _Episode(self, world, table).artefacts()

    def pictures(self, world: BaseEnv[Any, Any]) -> list[Picture]:
        """The input and what each tool made of it, as pictures."""
        shown = self.of(world)
        if shown is None:
            return []
        made = [artefact for artefact in shown.made if artefact.title != "Truth"]
        return [
            Picture(one.title, one.about, self.image(shown.scene, one.image), one.text or ("" if one.image else shown.note))
            for one in made
        ]

    def encoded(self) -> dict[str, dict[str, str]]:
        """Return all images made so far as PNG in base64, by the name of their scene and their key, in order of both."""
        return {
            scene: {key: _png(image) for key, image in sorted(images.items())} for scene, images in sorted(self._images.items())
        }

    def keep(self, scene: str, key: str, image: Pixels) -> str:
        """Keep an image under its scene and key; return the key."""
        self._images.setdefault(scene, {}).setdefault(key, image)
        return key

    def image(self, scene: str, key: str) -> Pixels | None:
        return self._images.get(scene, {}).get(key)

    @cached_property
    def networks(self) -> TinyBackend | None:
        """The shipped networks, or None where PyTorch is not installed."""
        try:
            for module in ("torch", "safetensors.torch"):
                require(module, "vision")
        except MissingExtra:
            return None
        return TinyBackend()

    @cached_property
    def weights(self) -> str:
        """The hash of the shipped networks' weights."""
        return weights_hash()


class _Episode:
    """The episode that a world stands in, with the table that tells what its tools made."""

    def __init__(self, images: SceneImages, world: Any, table: OutcomeTable) -> None:
        self._images, self._world, self._table = images, world, table
        self._task: OpenCATPTask = world.task
        self._sample, self._seed = world.sample, int(table.meta.get("seed", -1))
        self._number = int(table.numbers[self._sample])  # of the scene that the sample is
        self._name = f"scene-{self._seed}-{self._task.combination}-{self._number}"
        self._note = ""

    def artefacts(self) -> Artefacts:
        world, ran = self._world, any(call.status is Status.OK for call in self._world.account().calls)
        plan = world.plan() if ran else None  # of an invalid plan no tool ran
        scene = self._scene()
        made = {TASK_INPUT: self._input(scene)}
        for tool, names in ({} if plan is None else plan.chains()).items():
            made[tool] = self._made(scene, tool, names)
        wanted = [(want, None) for want in self._task.wants] if plan is None else world.evaluator.answers(plan, self._task)
        answers = tuple(self._answer(scene, plan, want, None if tool is None else made[tool]) for want, tool in wanted)
        clean = [] if self._task.wanted_images else [self._truth(scene)]  # beside texts that are about it
        return Artefacts(self._name if scene else "", self._note, (*made.values(), *clean), answers)

    def _scene(self) -> Scene | None:
        """Return the scene that the table's sample is; None where it is not generated here."""
        if self._seed >= 0:
            scene = self._images.scene(self._seed, self._number)
            if wanted_texts(scene) == tuple(self._table.wanted(self._sample, name) for name in WANTED):
                return scene
        self._note = OTHER_SCENES
        return None

    def _input(self, scene: Scene | None) -> Artefact:
        spoilt = ", ".join(name.replace("-resolutioned", " resolution") for name in self._task.degradations)
        key = "" if scene is None else self._restored(scene, ())
        return Artefact("Input", spoilt, key, f"The input: {spoilt}")

    def _truth(self, scene: Scene | None) -> Artefact:
        about = "the image as it was"
        if scene is None:
            return Artefact("Truth", about, alt="The truth")
        return Artefact("Truth", about, self._images.keep(self._name, TRUTH, scene.image), f"The truth: {scene.caption()}")

    def _made(self, scene: Scene | None, tool: str, names: Sequence[str]) -> Artefact:
        """Describe what a tool made; `names` is the chain of tools that led to it, itself the last."""
        chain = tuple(name for name in names if name in RESTORERS)
        about = f"on {names[-2] if len(names) > 1 else 'the input'}"
        if len(chain) < len(names):
            text = self._table.text(self._task.combination, self._sample, chain, names[len(chain) :])
            return Artefact(tool, about, text=text or "(nothing)")
        key = "" if scene is None else self._restored(scene, chain)
        return Artefact(tool, about, key, f"The image after {', then '.join(chain)}")

    def _restored(self, scene: Scene, chain: tuple[str, ...]) -> str:
        """Make the image after a chain of restorers; returns its key, empty where it cannot be made."""
        key, images = " ".join((INPUT, *chain)), self._images
        if images.image(self._name, key) is not None:
            return key
        if not chain:
            return images.keep(self._name, key, degrade(scene.image, self._task.combination, self._seed, self._number))
        before = images.image(self._name, self._restored(scene, chain[:-1]))
        if self._table.meta.get("backend") != TinyBackend.name or self._table.meta.get("weights") != images.weights:
            self._note = OTHER_NETWORKS
        elif images.networks is None:
            self._note = NO_TORCH
        elif before is not None:
            with torch_threads(1):  # several would wait for each other longer than they work
                return images.keep(self._name, key, run_images(images.networks, chain[-1], before[None])[0])
        return ""

    def _answer(self, scene: Scene | None, plan: Plan | None, want: Output, made: Artefact | None) -> Answer:
        title = _OUTPUTS[want.kind] + (", in German" if want.german else "")
        text = "" if want.is_image else self._table.wanted(self._sample, want.name)
        truth = self._truth(scene) if want.is_image else Artefact("Truth", "", text=text)
        if made is None or plan is None:
            return Answer(title, None, Artefact("Output", "none was made"), truth)
        score = self._world.evaluator.score(plan, replace(self._task, wants=(want,)), self._sample)
        return Answer(title, round(float(score), 6), made._replace(title="Output", about=f"of {made.title}"), truth)


def _png(image: Pixels) -> str:
    out = BytesIO()
    Image.fromarray(image).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode("ascii")
