"""A usefulness classifier that is a sequence classifier of transformers: reads what BTP's reads, in its order.

Source: BTP (arXiv 2402.15960), Section 2.2; a Longformer over result, query, arguments and documentation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...simulators.errors import DataError, require
from ...simulators.version import __version__
from .usefulness import Observed

FORMAT, MANIFEST = "costgym.usefulness-reader/1", "reader.json"


def in_words(observed: Observed) -> str:
    """Join what the model reads: the result, the query, the arguments and the documentation, in that order."""
    arguments = json.dumps(dict(observed.arguments), ensure_ascii=False, default=str)
    return f"{observed.text}\nquery: {observed.query}\narguments: {arguments}\ntool: {observed.document}"


class LearntReader:
    """Judges results by a sequence classifier with two classes, the second of which is help.

    Args:
        model, tokenizer: A sequence classifier and its tokenizer, of transformers.
        longest: Tokens that are read; what is beyond is cut off.
        documents: Name and description of each tool, by name.
    """

    def __init__(self, model: Any, tokenizer: Any, longest: int, documents: Mapping[str, str]) -> None:
        self._model, self._tokenizer, self._longest = model.eval(), tokenizer, longest
        self.documents = dict(documents)

    def probability(self, query: str, name: str, arguments: Mapping[str, Any], text: str) -> float:
        """Return the probability that a call's result helps with a query."""
        torch = require("torch", "train")
        words = in_words(Observed(text, query, arguments, self.documents.get(name, name)))
        device = next(self._model.parameters()).device
        read = self._tokenizer(words, truncation=True, max_length=self._longest, return_tensors="pt").to(device)
        with torch.no_grad():
            return float(self._model(**read).logits.float().softmax(-1)[0, 1])

    def helpful(self, query: str, name: str, arguments: Mapping[str, Any], text: str) -> bool:
        """See `Usefulness`."""
        return self.probability(query, name, arguments, text) >= 0.5


def load_reader(run: str | Path) -> LearntReader:
    """Return the classifier of a `costgym train btp --model` run.

    Raises:
        DataError: The classifier is missing or damaged, or it is of another format or version.
        MissingExtra: Torch or transformers is not installed.
    """
    require("torch", "train")
    transformers = require("transformers", "train")
    place = Path(run) / MANIFEST
    try:
        document = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(place, f"cannot be read as a classifier ({error}); train it again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(place, f"expected format {FORMAT!r}", "format")
    if str(document.get("version")).split(".")[:2] != __version__.split(".")[:2]:
        raise DataError(
            place, f"was written by costgym {document.get('version')}, this is {__version__}; train again", "version"
        )
    longest, documents = document.get("longest"), document.get("documents")
    if not isinstance(longest, int) or longest < 8 or not isinstance(documents, dict):
        raise DataError(place, "expected the longest text and the tools' documents")
    folder = Path(run) / "model"
    try:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise DataError(folder, f"cannot be read as a model ({error}); train it again") from error
    return LearntReader(model, tokenizer, longest, {str(name): str(text) for name, text in documents.items()})
