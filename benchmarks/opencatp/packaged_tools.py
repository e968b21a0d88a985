"""The ten tools of the packaged back-end on twelve photos that installed packages ship (extra `packaged`, and scikit-image).

    python benchmarks/opencatp/packaged_tools.py --model models/smollm2 --json tools.json --sheet sheet.png

Every restorer gets the degradation that it is for, every reader the clean photo, and every text tool the caption. Images are
scored by EfficientNet's features before and after, texts by MiniLM: what readers say against what the photo shows, what text
tools write against the caption. Loading takes nothing where the scores had loaded the same model before. `--sheet` draws what
was made, to be looked at.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.report import write_report
from costgym.simulators.opencatp.backends.base import READERS, RESTORERS, TEXT_TOOLS, Images, run_texts
from costgym.simulators.opencatp.backends.meter import Meter
from costgym.simulators.opencatp.backends.packaged import PackagedBackend
from costgym.simulators.opencatp.scenes.degrade import degrade
from costgym.simulators.opencatp.scoring.photos import Photos, read_photos
from costgym.simulators.opencatp.scoring.similarity import vector_score
from costgym.simulators.opencatp.tools import size_level
from costgym.simulators.threads import torch_threads
from tests.helpers.vision import REPAIRS

PHOTOS = {
    "skimage/data/astronaut.png": "an astronaut in a space suit",
    "skimage/data/camera.png": "a man with a camera",
    "skimage/data/chelsea.png": "a cat",
    "skimage/data/coffee.png": "a cup of coffee",
    "skimage/data/coins.png": "coins",
    "skimage/data/hubble_deep_field.jpg": "galaxies",
    "skimage/data/motorcycle_left.png": "a motorcycle",
    "skimage/data/retina.jpg": "the retina of an eye",
    "skimage/data/rocket.jpg": "a rocket at its start",
    "sklearn/datasets/images/china.jpg": "a temple",
    "sklearn/datasets/images/flower.jpg": "a flower",
    "matplotlib/mpl-data/sample_data/grace_hopper.jpg": "a woman in military uniform",
}  # what each shows, in words of ours
REPAIRED = {tool: kind for kind, tool in REPAIRS.items()}
Figures = dict[str, Any]


def gather(folder: Path) -> Photos:
    """Copy the photos into a folder and read them; they are not imported with their packages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PHOTOS:
        package, _, rest = name.partition("/")
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit(f"needs {package}, whose photos are used")
        shutil.copy(Path(spec.submodule_search_locations[0]) / rest, folder)
    return read_photos(folder, 96)


def timed(meter: Meter, backend: PackagedBackend, tool: str, inputs: Sequence[Any]) -> tuple[list[Any], Figures]:
    """Run a tool on one input after the other; what it made, and processor seconds and memory."""
    meter.rest()
    before = meter.held_mb()[0]
    cold = meter.seconds(lambda: backend.load(tool))
    held = meter.held_mb()[0] - before
    made: list[Any] = []
    peak = meter.peak_mb(lambda: backend.run(tool, inputs[0]))[0]  # the warm-up too
    seconds = [meter.seconds(lambda one=one: made.append(backend.run(tool, one)[0])) for one in inputs]
    return made, {"cold_start_s": cold, "constant_mb": held, "instant_mb": peak, "seconds": median(seconds)}


def by_level(levels: Sequence[int], scores: Sequence[float]) -> dict[str, float]:
    return {str(level): fmean(s for at, s in zip(levels, scores, strict=True) if at == level) for level in sorted(set(levels))}


def restored(
    backend: PackagedBackend, meter: Meter, clean: Images, levels: Sequence[int]
) -> tuple[dict[str, Figures], list[Images]]:
    """Each restorer on its own degradation: figures, and rows of images."""
    wanted, figures, rows = backend.image_features(clean), {}, [clean]
    for tool in RESTORERS:
        worse = np.stack([degrade(image, REPAIRED[tool], 0, number) for number, image in enumerate(clean)])
        made, cost = timed(meter, backend, tool, [image[None] for image in worse])
        better = np.stack(made)
        scores = [(backend.image_features(images) * wanted).sum(1).tolist() for images in (worse, better)]
        figures[tool] = {**cost, "before": by_level(levels, scores[0]), "after": by_level(levels, scores[1]),
                         "mean_before": fmean(scores[0]), "mean_after": fmean(scores[1])}  # fmt: skip
        rows += [worse, better]
    return figures, rows


def written(backend: PackagedBackend, meter: Meter, photos: Photos, levels: Sequence[int]) -> dict[str, Figures]:
    """Each reader on the clean photos, and each text tool on their captions."""
    figures: dict[str, Figures] = {}
    captions = run_texts(backend, "image_captioning", photos.images)
    shown = {Path(name).name: words for name, words in PHOTOS.items()}
    for tool in (*READERS, *TEXT_TOOLS):
        inputs: list[Any] = [image[None] for image in photos.images] if tool in READERS else [[text] for text in captions]
        made, cost = timed(meter, backend, tool, inputs)
        against = backend.text_vectors([shown[name] for name in photos.names] if tool in READERS else captions)
        scores = [vector_score(*pair) for pair in zip(backend.text_vectors(made), against, strict=True)]
        figures[tool] = {**cost, "after": by_level(levels, scores), "mean_after": fmean(scores), "made": made}
    return figures


def sheet(rows: Sequence[Images], photos: Photos, texts: dict[str, Figures], path: Path) -> None:
    """A column a photo: clean, then each degradation with what its restorer made of it; below, the texts."""
    side = photos.images.shape[1]
    image = Image.new("RGB", (side * len(photos.images), side * len(rows) + 90), "white")
    draw = ImageDraw.Draw(image)
    for column in range(len(photos.images)):
        for number, row in enumerate(rows):
            image.paste(Image.fromarray(row[column]), (column * side, number * side))
        for number, tool in enumerate((*READERS, *TEXT_TOOLS)):
            draw.text((column * side, side * len(rows) + 15 * number), str(texts[tool]["made"][column])[:15], "black")
    image.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a language model, which is the text tools")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sheet", type=Path)
    parser.add_argument("--photos", type=Path, help="folder that the photos are copied into, and stay")
    args = parser.parse_args()
    backend, meter = PackagedBackend(batch_size=1, model=args.model), Meter("cpu", None, processor_time=True)
    with tempfile.TemporaryDirectory() as folder, torch_threads(1):
        photos = gather(args.photos or Path(folder))
        levels = [size_level(width, height) for width, height in photos.sizes]
        images, rows = restored(backend, meter, photos.images, levels)
        texts = written(backend, meter, photos, levels)
    if args.sheet is not None:
        sheet(rows, photos, texts, args.sheet)
    about = {"photos": photos.names, "levels": levels, "pixels": photos.images.shape[1], "sources": backend.sources()}
    write_report({**about, "tools": {**images, **texts}}, args.json, ("torch", "transformers"))


if __name__ == "__main__":
    main()
