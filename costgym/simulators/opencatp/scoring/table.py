"""The outcome table: what every chain of executed tools is worth, looked up in microseconds and without torch.

For 15 degradations x 100 scenes x 65 image chains (every order of every subset of the four restorers) the table holds the
score of the image, and the texts that the three readers gave on it, executed for real. Text tools depend on their text
alone, so each text is stored once, with the text that each text tool makes of it: any route reader -> text tools (none
twice) can be followed. Outcomes are shared by the size levels; what a level changes is price and time.

In the `.npz` (no pickles): `meta` (JSON: format, version, seed, weights hash, names, idf), `image` (15, 100, 65) int16 in
1/20000, `text` (6, 15, 100, 65) uint16 in 1/20000 for the outputs `OUTPUTS[1:]`, `reader` (3, 15, 100, 65) uint32 text
numbers, `tool` (3, texts) int32 text numbers or -1, `wanted` (6, 100) text numbers, `texts` the UTF-8 texts, one a line, and,
where a sentence encoder scores texts, `vectors` (texts, size) float16 with its unit vectors.
"""

import hashlib
import itertools
import json
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import DataError, UnknownName, check_known
from costgym.simulators.files import load_arrays
from costgym.simulators.opencatp.backends.base import READERS, RESTORERS, TEXT_TOOLS
from costgym.simulators.opencatp.scenes import degrade
from costgym.simulators.opencatp.scoring import similarity

FORMAT = "costgym.outcomes/1"
TABLE = Path(__file__).parent / "outcomes.npz"
CHAINS: tuple[tuple[str, ...], ...] = tuple(c for n in range(5) for c in itertools.permutations(RESTORERS, n))
WANTED = ("label", "label_de", "object", "object_de", "caption", "caption_de")
OUTPUTS = ("image", *WANTED)
SAMPLES = 100
SCALE = 20000.0

_CHAIN_NUMBER = {c: i for i, c in enumerate(CHAINS)}


def chain_number(chain: Sequence[str]) -> int:
    """Return the position of a chain of restorers in `CHAINS`."""
    number = _CHAIN_NUMBER.get(tuple(chain))
    if number is not None:
        return number
    for tool in chain:
        check_known("image tool", tool, RESTORERS)
    raise DataError("image chain", f"expected every tool at most once, got {' > '.join(chain)}")


MAX_TABLE_BYTES = 64 * 2**20  # that of 100 samples has 3 MB


class OutcomeTable:
    """Scores and texts of executed tool chains; see the module's text for what is in it.

    Attributes:
        scores: (7, 15, 100, 65) float32 by output (`OUTPUTS`), degradation, sample and chain (`CHAINS`). A German text is its
            reader's after machine translation, scored against the German truth; an English one is its reader's alone.
        numbers: (samples,) the scene of each sample; other than 0, 1, 2, ... where the table was `arranged`.
        meta: Origin of the table: `version`, `seed`, `weights` (hash), `backend`.
    """

    def __init__(self, arrays: dict[str, NDArray[Any]], source: object = "outcome table") -> None:
        cells = (15, -1, 65)
        expected = {"image": cells, "text": (6, *cells), "reader": (3, *cells), "tool": (3, -1), "wanted": (6, -1)}
        missing = sorted({*expected, "meta", "texts"} - arrays.keys())
        if missing:
            raise DataError(source, f"no outcome table: {', '.join(missing)} missing; run `costgym opencatp build-table`")
        for name, shape in expected.items():
            got = arrays[name].shape
            if len(got) != len(shape) or any(a not in (-1, b) for a, b in zip(shape, got, strict=True)):
                raise DataError(source, f"expected shape {shape} (-1: any), got {got}", name)
        self.meta: dict[str, Any] = json.loads(str(arrays["meta"]))
        if self.meta.get("format") != FORMAT:
            raise DataError(source, f"expected format {FORMAT}, got {self.meta.get('format')!r}; build the table again")
        self.texts = bytes(arrays["texts"]).decode().split("\n")
        scores = np.concatenate([arrays["image"][None].astype(np.float32), arrays["text"].astype(np.float32)])
        self.scores: NDArray[np.float32] = (scores / SCALE).astype(np.float32)
        self.samples = self.scores.shape[2]
        self.numbers = np.arange(self.samples)
        self._reader, self._tool, self._wanted = arrays["reader"], arrays["tool"], arrays["wanted"]
        self._vectors = arrays.get("vectors")
        if self._vectors is not None and self._vectors.shape[:-1] != (len(self.texts),):
            raise DataError(source, f"expected a vector for each of {len(self.texts)} texts", "vectors")
        photos = self.meta.get("photos")
        self._levels = None if photos is None else np.array(photos["levels"])
        self._idf: dict[str, float] = self.meta["idf"]
        self._rarest = max(self._idf.values(), default=1.0)
        self._output = {name: i for i, name in enumerate(OUTPUTS)}
        self._pairs: dict[tuple[int, int], float] = {}

    @cached_property
    def digest(self) -> str:
        """Hash of all that a score can depend on; names the table in recorded runs."""
        state = hashlib.sha256(json.dumps(self.meta, sort_keys=True).encode())
        vectors = () if self._vectors is None else (self._vectors,)
        for array in (self.scores, self._reader, self._tool, self._wanted, *vectors):
            # type and shape too: the same bytes in another shape are another table
            state.update(f"{array.dtype}{array.shape}".encode())
            state.update(np.ascontiguousarray(array).tobytes())
        state.update("\n".join(self.texts).encode())
        return state.hexdigest()[:16]

    @classmethod
    def load(cls, path: Path | str | None = None) -> "OutcomeTable":
        """Read a table, by default the shipped one; raises DataError where it is missing or not an outcome table."""
        path = Path(path or TABLE)
        if not path.is_file():
            raise DataError(path, "no such outcome table; run `costgym opencatp build-table` or name another file")
        return cls(load_arrays(path, MAX_TABLE_BYTES), path)

    @property
    def levels(self) -> tuple[int, ...] | None:
        """The size level of each sample, where the images have a size of their own; None for scenes."""
        return None if self._levels is None else tuple(self._levels[self.numbers].tolist())

    def head(self, samples: int) -> "OutcomeTable":
        """The table of the first samples alone."""
        return self._with(np.arange(samples))

    def arranged(self, seed: int) -> "OutcomeTable":
        """The table with its samples in an order that a seed draws; the same table for 0."""
        return self._with(stable_generator(seed, "arrangement").permutation(self.samples)) if seed else self

    def _with(self, samples: NDArray[np.int64]) -> "OutcomeTable":
        part = copy(self)
        part.__dict__.pop("digest", None)
        part.samples, part._pairs = len(samples), {}
        part.numbers = self.numbers[samples]
        part.scores, part._reader = self.scores[:, :, samples], self._reader[:, :, samples]
        part._wanted = self._wanted[:, samples]
        return part

    def score(self, degradation: int | str, sample: int, chain: Sequence[str], output: str) -> float:
        """Return the score of an output after a chain of restorers.

        Args:
            degradation: D_0..D_14, by number or by the words of `degrade.NAMES`.
            sample: 0..99; `evaluation.split_samples` divides them.
            chain: Restorers in the order in which they run, none twice; empty for the input itself.
            output: One of `OUTPUTS`.

        Returns:
            A similarity; 1 is the wanted output itself. Text scores are in [0, 1], image scores in [-1, 1].

        Raises:
            UnknownName: An output, degradation, sample or tool that is none.
            DataError: A tool is in the chain twice.
        """
        number = self._output.get(output)
        if number is None:
            raise UnknownName("output", output, OUTPUTS)
        return float(self.scores[number, self._degradation(degradation), self._sample(sample), chain_number(chain)])

    def text(self, degradation: int | str, sample: int, chain: Sequence[str], route: Sequence[str]) -> str:
        """The text that a reader and the text tools after it gave; `route` is the reader and then text tools, none twice."""
        return self.texts[self._follow(degradation, sample, chain, route)]

    def text_score(self, degradation: int | str, sample: int, chain: Sequence[str], route: Sequence[str], wanted: str) -> float:
        """Score of any route's text against any wanted text (one of `WANTED`), in [0, 1]."""
        truth = self._truth(sample, wanted)
        text = self._follow(degradation, sample, chain, route)
        known = self._pairs.get((text, truth))
        if known is None:
            if self._vectors is None:
                score = similarity.text_score(self.texts[text], self.texts[truth], self._idf, self._rarest)
            else:
                score = similarity.vector_score(self._vectors[text], self._vectors[truth])
            known = self._pairs[text, truth] = round(score * SCALE) / SCALE
        return known

    def rewritten(self, tool: str, text: str) -> str | None:
        """The text that a text tool makes of another one of this table; None where it was not executed on it."""
        check_known("text tool", tool, TEXT_TOOLS)
        number = self._numbers.get(text)
        made = -1 if number is None else int(self._tool[TEXT_TOOLS.index(tool), number])
        return None if made < 0 else self.texts[made]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.texts)}

    def wanted(self, sample: int, wanted: str) -> str:
        """The true text of a sample, one of `WANTED`."""
        return self.texts[self._truth(sample, wanted)]

    def _truth(self, sample: int, wanted: str) -> int:
        check_known("wanted text", wanted, WANTED)
        return int(self._wanted[WANTED.index(wanted), self._sample(sample)])

    def _degradation(self, degradation: int | str) -> int:
        if isinstance(degradation, int) and 0 <= degradation < len(degrade.NAMES):
            return degradation
        return degrade.COMBINATIONS.index(degrade.combination(degradation))

    def _sample(self, sample: int) -> int:
        if not 0 <= sample < self.samples:
            raise UnknownName("sample", str(sample), (f"0..{self.samples - 1}",))
        return sample

    def _follow(self, degradation: int | str, sample: int, chain: Sequence[str], route: Sequence[str]) -> int:
        if not route or route[0] not in READERS:
            raise UnknownName("image reader", route[0] if route else "", READERS)
        cell = self._degradation(degradation), self._sample(sample), chain_number(chain)
        number = int(self._reader[READERS.index(route[0])][cell])
        for tool in route[1:]:
            check_known("text tool", tool, TEXT_TOOLS)
            number = int(self._tool[TEXT_TOOLS.index(tool), number])
            if number < 0:
                raise DataError("text route", f"expected every text tool at most once, got {' > '.join(route)}")
        return number


def wanted_texts(scene: Any) -> tuple[str, ...]:
    """The true texts of a scene in the order of `WANTED`."""
    return tuple(f(g) for f in (scene.label, scene.object_names, scene.caption) for g in (False, True))
