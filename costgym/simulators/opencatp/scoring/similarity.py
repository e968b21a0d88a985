"""Measure how alike two images or two texts are: the scores of the OpenCATP world.

Images: the cosine of centred features, weighted over bands: fine and middle detail, the coarse picture, and colour. Each
band is centred by the mean of generated scenes and the two smooth ones are whitened by their covariance (scenes share few
coarse layouts and colours, so that plain cosines call any two evening skies alike): an image is 1 to itself and near 0 to an
unrelated one, and no band can hide another: noise shows in the fine band, blur and low resolution in both detail bands, grey
in the colour band.

Texts: a soft token F1 in the manner of BERTScore, with the greedy matching and idf weights of that measure, but character
trigrams in the place of contextual embeddings.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.opencatp.scenes import language
from costgym.simulators.opencatp.scenes import scene as scenes
from costgym.simulators.opencatp.scenes.degrade import check_images

Features = NDArray[np.float32]

# (name, weight): the weights are the squared lengths of the bands in the feature vector; they sum to 1.
BANDS = (("fine", 0.4), ("middle", 0.2), ("coarse", 0.1), ("colour", 0.3))
# Ridge of a band's whitening, as a share of its largest variance; detail is nearly white by itself.
_RIDGES = {"coarse": 0.003, "colour": 0.003}
_COMMON_SIZE = scenes.SIZE


def _pool(planes: NDArray[Any], factor: int) -> NDArray[Any]:
    n, h, w = planes.shape
    return np.asarray(planes.reshape(n, h // factor, factor, w // factor, factor).mean((2, 4)))


def _smooth(planes: NDArray[Any]) -> NDArray[Any]:
    """Binomial 5x5, edges repeated."""
    for axis in (1, 2):
        width = [(0, 0), (0, 0), (0, 0)]
        width[axis] = (2, 2)
        p = np.pad(planes, width, mode="edge")
        n = planes.shape[axis]
        parts = [np.take(p, range(k, k + n), axis=axis) for k in range(5)]
        planes = (parts[0] + parts[4] + 4 * (parts[1] + parts[3]) + 6 * parts[2]) / 16
    return planes


def _bands(images: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """The raw bands of images, each (n, length)."""
    rgb = images.astype(np.float32) / 255
    luma = rgb @ np.array([0.299, 0.587, 0.114], np.float32)
    once = _smooth(luma)
    twice = _smooth(_smooth(once))
    chroma = np.stack([rgb[..., 2] - luma, rgb[..., 0] - luma])  # (2, n, h, w)
    coarse = _pool(twice, 4)
    colour = np.concatenate([_pool(c, 4).reshape(len(rgb), -1) for c in chroma], 1)
    bands = (luma - once, once - twice, coarse, colour)
    return [np.asarray(b, np.float32).reshape(len(rgb), -1) for b in bands]


@lru_cache(maxsize=1)
def _reference() -> tuple[tuple[NDArray[np.float32], NDArray[np.float32] | None], ...]:
    """Each band's mean and whitening (length, length) or none, over 400 generated scenes that serve nothing else."""
    images = np.stack([s.image for s in scenes.make_scenes(scenes.MEAN_SEED, range(400))])
    out = []
    for band, (name, _) in zip(_bands(images), BANDS, strict=True):
        mean, ridge = band.mean(0, dtype=np.float64), _RIDGES.get(name)
        whitening = None
        if ridge is not None:
            centred = band - mean
            # whitened, or the few directions in which all scenes differ would decide every score
            variances, axes = np.linalg.eigh(centred.T @ centred / len(centred))
            scale = 1 / np.sqrt(np.maximum(variances, 0) + ridge * variances[-1])
            whitening = np.asarray((axes * scale) @ axes.T, np.float32)
        out.append((mean.astype(np.float32), whitening))
    return tuple(out)


def image_features(images: NDArray[np.uint8]) -> Features:
    """Unit vectors whose dot product is the image score, of (n, height, width, 3) images brought to `scenes.SIZE`."""
    images = check_images(images, "images to score")
    if images.shape[1:3] != (_COMMON_SIZE, _COMMON_SIZE):
        from PIL import Image

        size = (_COMMON_SIZE, _COMMON_SIZE)
        images = np.stack([np.asarray(Image.fromarray(i).resize(size, Image.Resampling.BICUBIC)) for i in images])
    out = []
    for band, (mean, whitening), (_, weight) in zip(_bands(images), _reference(), BANDS, strict=True):
        centred = band - mean if whitening is None else (band - mean) @ whitening
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        out.append(centred / np.maximum(length, 1e-6) * np.float32(math.sqrt(weight)))
    return np.concatenate(out, 1)


# -- texts ------------------------------------------------------------------------------------------------------------


_WORD = re.compile(r"[^\W_]+")


def tokens(text: str) -> list[str]:
    """Words in lower case without punctuation."""
    return _WORD.findall(text.lower())


@lru_cache(maxsize=4096)
def _trigrams(word: str) -> frozenset[str]:
    padded = f"^{word}$"
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


@lru_cache(maxsize=65536)
def word_similarity(a: str, b: str) -> float:
    """1 for the same word; for others the Dice overlap of their character trigrams, 0 where less than half overlaps."""
    if a == b:
        return 1.0
    ta, tb = _trigrams(a), _trigrams(b)
    # trigrams forgive an ending or a typing error; below half, two words only happen to share letters
    overlap = 2 * len(ta & tb) / (len(ta) + len(tb))
    return overlap if overlap >= 0.5 else 0.0


def idf_weights(texts: Iterable[str]) -> dict[str, float]:
    """Inverse document frequency of every word, log((n + 1) / (count + 1)), in [0, log(n + 1)]."""
    documents = [set(tokens(t)) for t in texts]
    counts = Counter(word for d in documents for word in sorted(d))
    return {word: math.log((len(documents) + 1) / (count + 1)) for word, count in sorted(counts.items())}


@lru_cache(maxsize=1)
def scene_idf() -> Mapping[str, float]:
    """The idf weights of the generated language, from its own labels, object lists, captions and summaries."""
    world = scenes.make_scenes(scenes.MEAN_SEED, range(400))
    texts = [f(g) for s in world for g in (False, True) for f in (s.label, s.object_names, s.caption, s.summary)]
    texts += [language.sentiment(w, g) for w in language.WEATHERS for g in (False, True)]
    return idf_weights(texts)


def _covered(words: Sequence[str], others: Sequence[str], idf: Mapping[str, float], default: float) -> float:
    # a small weight for words that are everywhere, so that a text of such words alone can be compared
    weights = [idf.get(w, default) + 1e-9 for w in words]
    # no similarity passes that of the word itself, and most words are there themselves
    best = [1.0 if w in others else max([word_similarity(w, o) for o in others]) for w in words]
    return sum([w * b for w, b in zip(weights, best, strict=True)]) / sum(weights)


def vector_score(vector: NDArray[Any], wanted: NDArray[Any]) -> float:
    """Cosine of two texts' unit vectors in [0, 1]; opposite texts are worth as little as unrelated ones."""
    product = (vector.astype(np.float64) * wanted.astype(np.float64)).sum()  # not by BLAS, whose last digit depends on threads
    return float(min(1.0, max(0.0, product.round(4))))


def text_score(text: str, wanted: str, idf: Mapping[str, float] | None = None, rarest: float | None = None) -> float:
    """Soft token F1 of a text against the wanted one, in [0, 1], in any order; unknown words weigh as the rarest known."""
    a, b = tokens(text), tokens(wanted)
    if not a or not b:
        return float(a == b)
    idf = scene_idf() if idf is None else idf
    default = max(idf.values(), default=1.0) if rarest is None else rarest
    precision, recall = _covered(a, b, idf, default), _covered(b, a, idf, default)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
