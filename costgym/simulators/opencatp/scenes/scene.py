"""Generated scenes with ground truth: what the vision tools are trained, tabled and tested on.

A scene is one patterned object (its label is pattern and kind) before a landscape, with smaller things around it, in sun or
in rain. What it is made for decides how it is drawn: patterns, rain, rigging and poles are a few pixels fine, so that
noise, blur and low resolution destroy what a reader needs and restoration brings it back; colours follow from shape and
texture, so that a grey image can be coloured again by whoever knows the world.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.opencatp.scenes import drawing, language

SIZE = 60  # px, a multiple of 4
TRAIN_SEED, TABLE_SEED, HELD_OUT_SEED, MEAN_SEED = 1_000, 2_000, 3_000, 4_000

Image = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class SceneObject:
    """An object in a scene; `box` is (left, top, right, bottom) in px."""

    name: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Scene(language.Facts):
    """A generated image and all that is true of it."""

    image: Image  # clean RGB image, uint8, (SIZE, SIZE, 3)
    objects: tuple[SceneObject, ...]  # the main object and the things around it, with boxes

    def object_names(self, german: bool = False) -> str:
        return language.object_list([o.name for o in self.objects], german)


# Where small things stand (x, y): two places in the sky, two beside the main object, two at the lower corners.
_SKY_SLOTS = ((10.0, 9.0), (49.0, 10.0))
_GROUND_SLOTS = ((8.5, 33.0), (51.0, 32.0), (9.5, 50.0), (50.0, 50.0))
_IN_SKY = ("cloud", "bird")


def _pick(rng: np.random.Generator, items: tuple[str, ...]) -> str:
    return items[int(rng.integers(len(items)))]


def make_scene(seed: int, index: int) -> Scene:
    """The scene number `index` of the world `seed`; equal arguments give an equal scene, byte by byte."""
    rng = np.random.default_rng((seed, index))
    kind, texture = _pick(rng, language.KINDS), _pick(rng, language.TEXTURES)
    landscape, weather = _pick(rng, language.PLACES), _pick(rng, language.WEATHERS)
    canvas = drawing.Canvas(SIZE, rng)
    drawing.landscape(canvas, landscape, weather)
    count = int(rng.integers(1, 4))
    chosen = sorted(int(i) for i in rng.permutation(len(language.THINGS))[:count])
    sky, ground = list(rng.permutation(len(_SKY_SLOTS))), list(rng.permutation(len(_GROUND_SLOTS)))
    objects = []
    for name in (language.THINGS[i] for i in chosen):
        x, y = _SKY_SLOTS[sky.pop()] if name in _IN_SKY else _GROUND_SLOTS[ground.pop()]
        x, y = x + float(rng.uniform(-1.5, 1.5)), y + float(rng.uniform(-1.5, 1.5))
        objects.append(SceneObject(name, drawing.thing(canvas, name, x, y, float(rng.uniform(6.0, 7.0)))))
    x, y = 30.0 + float(rng.uniform(-3, 3)), 31.0 + float(rng.uniform(-4, 4))
    main = SceneObject(kind, drawing.main_object(canvas, kind, texture, x, y, float(rng.uniform(13.0, 15.5))))
    first, second = (int(i) for i in rng.permutation(4)[:2])
    things = tuple(o.name for o in objects)
    return Scene(kind, texture, landscape, weather, things, (first, second), canvas.image(), (main, *objects))


def make_scenes(seed: int, indices: Iterable[int]) -> list[Scene]:
    """Several scenes of one world."""
    return [make_scene(seed, i) for i in indices]
