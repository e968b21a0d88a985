"""Cells of an outcome table, executed again."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from costgym.simulators.opencatp.backends.base import Backend, run_texts
from costgym.simulators.opencatp.scenes import degrade
from costgym.simulators.opencatp.scenes import scene as scenes
from costgym.simulators.opencatp.scoring import similarity
from costgym.simulators.opencatp.scoring.table import CHAINS, WANTED, OutcomeTable, wanted_texts
from costgym.simulators.opencatp.tools import READER_OF
from tests.helpers.vision import image_score, run_chain


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A cell whose execution gave something else than the table says."""

    degradation: int
    sample: int
    chain: tuple[str, ...]
    output: str
    stored: float
    executed: float


def spot_check(
    table: OutcomeTable, backend: Backend, cells: Iterable[tuple[int, int, int]], tolerance: float = 0.01
) -> list[Mismatch]:
    """Execute cells (degradation, sample, chain number) again and list every output that differs by more than `tolerance`.

    The tolerance is for other machines, whose sums of floats may differ in the last bit and a pixel by one.
    """
    wrong = []
    for d, sample, number in cells:
        scene, chain = scenes.make_scene(int(table.meta["seed"]), sample), CHAINS[number]
        faulty = degrade.degrade(scene.image, d, int(table.meta["seed"]), sample)
        image = run_chain(backend, chain, faulty[None])
        executed = {"image": image_score(image[0], scene.image)}
        for name, truth in zip(WANTED, wanted_texts(scene), strict=True):
            texts = run_texts(backend, READER_OF[name.removesuffix("_de")], image)
            if name.endswith("_de"):
                texts = run_texts(backend, "machine_translation", texts)
            executed[name] = similarity.text_score(texts[0], truth)
        for name, value in executed.items():
            stored = table.score(d, sample, chain, name)
            if abs(stored - value) > tolerance:
                wrong.append(Mismatch(d, sample, chain, name, stored, value))
    return wrong


def cells_near(table: OutcomeTable, count: int, seed: int) -> Iterable[tuple[int, int, int]]:
    """Some (degradation, sample, chain number) cells, drawn without preference, for spot checks."""
    rng = np.random.default_rng((seed, count))
    for _ in range(count):
        yield int(rng.integers(15)), int(rng.integers(table.samples)), int(rng.integers(len(CHAINS)))
