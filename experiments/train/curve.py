"""The learning curve of a training run: `curve.jsonl`, one JSON object per line with the step and its values."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from ...simulators.errors import DataError
from ..play.files import iter_lines, keep_lines, writing

CURVE = "curve.jsonl"
MAX_CURVE_BYTES = 256 * 2**20

Line = dict[str, float]
"""`step`, and further values by name."""


class Curve:
    """Writes the learning curve of a run."""

    def __init__(self, run: Path) -> None:
        self._path = run / CURVE

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        """Append a line for a step."""
        with writing(self._path), self._path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"step": step, **figures}) + "\n")

    def cut(self, step: int) -> None:
        """Delete lines after a step, which a killed run wrote after its last checkpoint, and lines that cannot be read."""
        if self._path.exists():
            keep_lines(self._path, sum(1 for _ in self._until(step)))

    def _until(self, step: int) -> Iterator[None]:
        for line in iter_lines(self._path):
            try:
                if json.loads(line)["step"] > step:
                    return
            except (ValueError, KeyError, TypeError, RecursionError):
                return
            yield


def read_curve(run: str | Path) -> list[Line]:
    """Read a run's learning curve, without an incomplete last line and values that are not finite; raises DataError if it is
    missing, too large, or a line has no step."""
    path = Path(run) / CURVE
    if not path.is_file():
        raise DataError(path, "there is no learning curve; expected the folder of a `costgym train` run")
    if path.stat().st_size > MAX_CURVE_BYTES:
        raise DataError(path, f"is larger than {MAX_CURVE_BYTES} bytes")
    lines = []
    for number, text in enumerate(iter_lines(path), 1):
        try:
            document: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(path, f"is not JSON ({error})", f"line {number}") from None
        if not isinstance(document, dict) or not _finite(document.get("step")):
            raise DataError(path, f"expected an object with a step, got {text[:60]}", f"line {number}")
        lines.append({str(name): float(value) for name, value in document.items() if _finite(value)})
    return lines


def _finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
