"""Scorers of images and texts for outcome tables: ours, and measures over published models through transformers.

A scorer turns images into unit vectors whose dot product is the score of one against the other, and compares texts. Ours needs
no weights (`similarity`). Of others the name says the measure and the model, such as ``vit:google/vit-base-patch16-224``,
``clip:FOLDER`` or ``bertscore:microsoft/deberta-xlarge-mnli``.

Sources: CATP-LLM, appendix B.3 (cosine of ViT features for images, BERTScore for texts); Zhang et al. 2020 (BERTScore: greedy
matching of contextual embeddings, F1, here without idf and without rescaling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, UnknownName, require
from . import similarity

OURS = "ours"
IMAGE_MEASURES, TEXT_MEASURES = ("vit", "clip"), ("bertscore",)
_BATCH = 16


class ImageScorer(Protocol):
    """Scores images against others."""

    name: str

    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Unit vectors of images (n, height, width, 3); the score is their dot product.  # (n, length)"""
        ...


class TextScorer(Protocol):
    """Scores texts against a wanted one."""

    name: str

    def scores(self, texts: Sequence[str], wanted: str) -> list[float]:
        """Score of each text, 0 to 1."""
        ...


class OwnImages:
    """The cosine of our own features."""

    name = OURS

    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return similarity.image_features(images)


class OwnTexts:
    """The soft token F1 of ours.

    Args:
        idf: weights of words; None for those of the generated language.
    """

    name = OURS

    def __init__(self, idf: Mapping[str, float] | None = None) -> None:
        self.idf = similarity.scene_idf() if idf is None else idf

    def scores(self, texts: Sequence[str], wanted: str) -> list[float]:
        return [similarity.text_score(text, wanted, self.idf) for text in texts]


class ModelImages:
    """The cosine of a published model's image features: those of CLIP's projection, or all last hidden states of a ViT."""

    def __init__(self, measure: str, model: str, download: bool = False, device: str = "cpu") -> None:
        self.name, self._clip, self._device = f"{measure}:{model}", measure == "clip", device
        kind = "CLIPModel" if self._clip else "ViTModel"
        processor = "CLIPImageProcessorPil" if self._clip else "ViTImageProcessorPil"
        self._model, self._processor = _load(kind, model, download), _load(processor, model, download)
        self._model.eval().to(device)

    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        torch = require("torch", "vision")
        parts = []
        with torch.inference_mode():
            for start in range(0, len(images), _BATCH):
                inputs = self._processor(images=list(images[start : start + _BATCH]), return_tensors="pt").to(self._device)
                if self._clip:
                    found = self._model.get_image_features(**inputs)
                    found = getattr(found, "pooler_output", found)
                else:
                    found = self._model(**inputs).last_hidden_state.flatten(1)
                parts.append(torch.nn.functional.normalize(found.float(), dim=-1).cpu().numpy())
        return np.concatenate(parts)


class BertScore:
    """BERTScore's F1 over the last hidden states of a published encoder."""

    def __init__(self, model: str, download: bool = False, device: str = "cpu") -> None:
        self.name, self._device = f"bertscore:{model}", device
        self._model, self._tokenizer = _load("AutoModel", model, download), _load("AutoTokenizer", model, download)
        self._model.eval().to(device)
        self._known: dict[str, Any] = {}

    def scores(self, texts: Sequence[str], wanted: str) -> list[float]:
        truth = self._embedded(wanted)
        return [self._f1(self._embedded(text), truth) for text in texts]

    def _f1(self, text: Any, truth: Any) -> float:
        if not len(text) or not len(truth):
            return float(len(text) == len(truth))
        alike = text @ truth.T
        # greedy matching: each token with the one most like it, from either side
        precision, recall = float(alike.max(axis=1).mean()), float(alike.max(axis=0).mean())
        both = precision + recall
        return min(1.0, max(0.0, 2 * precision * recall / both)) if both > 0 else 0.0

    def _embedded(self, text: str) -> NDArray[np.float32]:
        """Unit vectors of a text's tokens, without those that only mark its ends.  # (tokens, width)"""
        found: NDArray[np.float32] | None = self._known.get(text)
        if found is None:
            torch = require("torch", "vision")
            inputs = self._tokenizer(text, return_tensors="pt", return_special_tokens_mask=True, truncation=True)
            own = ~inputs.pop("special_tokens_mask")[0].bool()
            if not own.any():
                return np.zeros((0, 1), np.float32)
            with torch.inference_mode():
                hidden = self._model(**inputs.to(self._device)).last_hidden_state[0].float().cpu()
            found = self._known[text] = torch.nn.functional.normalize(hidden[own], dim=-1).numpy()
        return found


def image_scorer(name: str = OURS, download: bool = False, device: str = "cpu") -> ImageScorer:
    """Make an image scorer by its name: `ours`, ``vit:MODEL`` or ``clip:MODEL``, where a model is an id or a folder.

    Raises:
        UnknownName: there is no such measure.
        DataError: the model's weights are not at hand.
        MissingExtra: torch or transformers is not installed.
    """
    measure, _, model = name.partition(":")
    if name == OURS:
        return OwnImages()
    if measure not in IMAGE_MEASURES or not model:
        raise UnknownName("image scorer", name, (OURS, *(f"{each}:MODEL" for each in IMAGE_MEASURES)))
    return ModelImages(measure, model, download, device)


def text_scorer(name: str = OURS, download: bool = False, device: str = "cpu") -> TextScorer:
    """Make a text scorer by its name: `ours` or ``bertscore:MODEL``; the rest is as for `image_scorer`."""
    measure, _, model = name.partition(":")
    if name == OURS:
        return OwnTexts()
    if measure not in TEXT_MEASURES or not model:
        raise UnknownName("text scorer", name, (OURS, *(f"{each}:MODEL" for each in TEXT_MEASURES)))
    return BertScore(model, download, device)


def _load(kind: str, model: str, download: bool) -> Any:
    transformers = require("transformers", "vision")
    try:
        return getattr(transformers, kind).from_pretrained(model, local_files_only=not download)
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(model, f"no weights of this scorer at hand ({reason}); name a folder, or allow the download") from error
