"""Building and re-checking the outcome table by executing the tools."""

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.errors import DataError
from costgym.simulators.files import remove, write_atomically
from costgym.simulators.opencatp.backends.base import READERS, RESTORERS, TEXT_TOOLS, Backend, Images, run_images, run_texts
from costgym.simulators.opencatp.scenes import degrade
from costgym.simulators.opencatp.scenes import scene as scenes
from costgym.simulators.opencatp.scoring import similarity
from costgym.simulators.opencatp.scoring.photos import Photos
from costgym.simulators.opencatp.scoring.table import CHAINS, FORMAT, OUTPUTS, SAMPLES, SCALE, WANTED, wanted_texts
from costgym.simulators.opencatp.tools import READER_OF

Progress = Callable[[str], None]
Compare = Callable[[Images], similarity.Features]


def build_table(
    out: Path | str,
    backend: Backend,
    seed: int = scenes.TABLE_SEED,
    samples: int = SAMPLES,
    progress: Progress | None = None,
    photos: Photos | None = None,
) -> Path:
    """Execute every chain and reader on every degraded scene and write the table `out` (.npz), whole or not at all.

    With `photos`, these take the place of the scenes. Nobody has described them, so the wanted texts are what each reader says
    of the photo itself, and words have equal weight in a text's score. A back-end that has features of images or vectors of
    texts scores by these.

    What is done of a killed run lies in `<out>.parts/`, one file per degradation, and is used again if it came from the same
    scenes and weights, whose hash the table's `meta` keeps.
    """
    out, say = Path(out), progress or (lambda _: None)
    parts_folder = out.with_name(out.name + ".parts")
    origin: dict[str, Any] = {"format": FORMAT, "backend": backend.name, "weights": _hash_of(backend)}
    if photos is None:
        world = scenes.make_scenes(seed, range(samples))
        origin |= {"seed": seed, "samples": len(world)}
        clean, wanted, idf = np.stack([s.image for s in world]), [wanted_texts(s) for s in world], similarity.scene_idf()
    else:
        origin |= {"noise_seed": seed, "samples": len(photos.images), "photos": photos.about()}
        clean, wanted, idf = photos.images, _described(backend, photos.images), {}
    compare = getattr(backend, "image_features", similarity.image_features)
    if (sources := getattr(backend, "sources", None)) is not None:
        origin["tools"] = sources()
    parts = []
    for d, name in enumerate(degrade.NAMES):
        part = parts_folder / f"{d}.npz"
        if not _usable(part, origin):
            _write(part, _outcomes(backend, clean, compare, d, seed), origin)
        with np.load(part, allow_pickle=False) as file:
            parts.append({k: file[k] for k in file.files})
        say(f"{d + 1} of {len(degrade.NAMES)}: {name}")
    described = {"chains": [list(c) for c in CHAINS], "outputs": OUTPUTS, "idf": dict(idf)}
    _write(out, _merge(backend, parts, wanted, idf), {**origin, **described})
    remove(parts_folder)
    return out


def _hash_of(backend: Backend) -> str:
    if (packaged := getattr(backend, "weights_hash", None)) is not None:
        return str(packaged())
    from costgym.simulators.opencatp.backends.published import PublishedBackend
    from costgym.simulators.opencatp.backends.tiny import TinyBackend, weights_hash

    if isinstance(backend, TinyBackend):
        return weights_hash(backend.weights)
    if isinstance(backend, PublishedBackend):  # whole models are too large to be hashed: what they are called, and where
        names = {tool: str(name) for tool, name in backend.models.items()}
        described = json.dumps([names, None if backend.root is None else backend.root.name], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()
    return ""


def _usable(part: Path, origin: dict[str, Any]) -> bool:
    try:
        with np.load(part, allow_pickle=False) as file:
            return bool(json.loads(str(file["meta"])) == origin)
    except (OSError, ValueError, KeyError):
        return False


def _write(path: Path, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None:
    store = io.BytesIO()
    np.savez_compressed(store, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]
    write_atomically(path, store.getvalue(), parents=True)


def _lines(texts: list[str]) -> NDArray[np.uint8]:
    for text in texts:
        if "\n" in text:
            raise DataError("tool output", f"expected one line of text, got {text!r}")
    return np.frombuffer("\n".join(texts).encode(), np.uint8)


def degraded(clean: Images, d: int, seed: int) -> Images:
    """The table's scenes under one combination; scene i has the noise of `degrade.degrade(image, d, seed, i)`."""
    return np.stack([degrade.degrade(image, d, seed, i) for i, image in enumerate(clean)])


def _outcomes(backend: Backend, clean: Images, compare: Compare, d: int, seed: int) -> dict[str, NDArray[Any]]:
    """Compute one degradation: image scores (samples, 65), reader texts (3, samples, 65) and the texts."""
    states = _restored(backend, clean, d, seed)
    features = compare(clean)
    image = np.stack([(compare(states[c]) * features).sum(1) for c in CHAINS], 1)
    return {"image": np.rint(np.clip(image, -1, 1) * SCALE).astype(np.int16), **_read(backend, states)}


def _restored(backend: Backend, clean: Images, d: int, seed: int) -> dict[tuple[str, ...], Images]:
    """The scenes under one degradation after every chain; a chain is the one before it and one tool more.

    Published super-resolution doubles the size, so that images of one size are batched together.
    """
    n = len(clean)
    states: dict[tuple[str, ...], Images] = {(): degraded(clean, d, seed)}
    for length in range(1, 5):
        for tool in RESTORERS:
            before = [c for c in CHAINS if len(c) == length - 1 and tool not in c]
            for size in dict.fromkeys(states[c].shape for c in before):
                alike = [c for c in before if states[c].shape == size]
                after = run_images(backend, tool, np.concatenate([states[c] for c in alike]))
                for i, chain in enumerate(alike):
                    states[(*chain, tool)] = after[i * n : (i + 1) * n]
    return states


def _read(backend: Backend, states: dict[tuple[str, ...], Images]) -> dict[str, NDArray[Any]]:
    numbers: dict[str, int] = {}
    reader = np.empty((len(READERS), len(states[()]), len(CHAINS)), np.uint32)
    for k, tool in enumerate(READERS):
        for i, chain in enumerate(CHAINS):
            read = run_texts(backend, tool, states[chain])
            reader[k, :, i] = [numbers.setdefault(text, len(numbers)) for text in read]
    return {"reader": reader, "texts": _lines(list(numbers))}


def _described(backend: Backend, images: Images) -> list[tuple[str, ...]]:
    """The texts of `WANTED` for images that nobody has described: what the readers say of them."""
    texts = []
    for name in WANTED[::2]:
        read = run_texts(backend, READER_OF[name], images)
        texts += [read, run_texts(backend, "machine_translation", read)]
    return list(zip(*texts, strict=True))


def _merge(
    backend: Backend, parts: list[dict[str, NDArray[Any]]], truth: Sequence[tuple[str, ...]], idf: Mapping[str, float]
) -> dict[str, NDArray[Any]]:
    numbers: dict[str, int] = {}
    reader = np.empty((len(READERS), len(parts), len(truth), len(CHAINS)), np.uint32)
    for d, part in enumerate(parts):
        text_numbers = [numbers.setdefault(t, len(numbers)) for t in bytes(part["texts"]).decode().split("\n")]
        reader[:, d] = np.array(text_numbers, np.uint32)[part["reader"]]
    tool = _text_outcomes(backend, numbers)
    wanted = np.array([[numbers.setdefault(t[k], len(numbers)) for t in truth] for k in range(len(WANTED))], np.uint32)
    filled = np.full((len(TEXT_TOOLS), len(numbers)), -1, np.int32)
    for k, name in enumerate(TEXT_TOOLS):
        filled[k, list(tool[name])] = list(tool[name].values())
    texts = list(numbers)
    embed = getattr(backend, "text_vectors", None)
    vectors = None if embed is None else embed(texts)

    def score(text: int, truth: int) -> float:
        if vectors is None:
            return similarity.text_score(texts[text], texts[truth], idf)
        return similarity.vector_score(vectors[text], vectors[truth])

    return {
        "image": np.stack([p["image"] for p in parts]),
        "text": _text_scores(reader, filled, wanted, score),
        "reader": reader,
        "tool": filled,
        "wanted": wanted,
        "texts": _lines(texts),
        **({} if vectors is None else {"vectors": vectors}),
    }


def _text_outcomes(backend: Backend, numbers: dict[str, int]) -> dict[str, dict[int, int]]:
    """Run each text tool on every text that a route without repeats can bring to it; adds the new texts to `numbers`."""
    # texts are numbered and each is given to a tool once: routes share most of theirs
    made: dict[str, dict[int, int]] = {t: {} for t in TEXT_TOOLS}
    first = list(numbers.values())
    reached: dict[tuple[str, ...], list[int]] = {(): first}
    for length in range(1, len(TEXT_TOOLS) + 1):
        for route in permutations(TEXT_TOOLS, length):
            before, tool = reached[route[:-1]], route[-1]
            todo = sorted({n for n in before if n not in made[tool]})
            names = list(numbers)
            for n, text in zip(todo, run_texts(backend, tool, [names[n] for n in todo]), strict=True):
                made[tool][n] = numbers.setdefault(text, len(numbers))
            reached[route] = sorted({made[tool][n] for n in before})
    return made


def _text_scores(
    reader: NDArray[np.uint32], tool: NDArray[np.int32], wanted: NDArray[np.uint32], score: Callable[[int, int], float]
) -> NDArray[np.uint16]:
    translated = tool[TEXT_TOOLS.index("machine_translation")]
    out = np.empty((len(WANTED), *reader.shape[1:]), np.uint16)
    for k, name in enumerate(WANTED):
        read = reader[READERS.index(READER_OF[name.removesuffix("_de")])]
        produced = translated[read] if name.endswith("_de") else read
        for s in range(reader.shape[2]):
            unique, inverse = np.unique(produced[:, s], return_inverse=True)
            scores = [round(score(int(u), int(wanted[k, s])) * SCALE) for u in unique]
            out[k, :, s] = np.array(scores, np.uint16)[inverse.reshape(produced[:, s].shape)]
    return out
