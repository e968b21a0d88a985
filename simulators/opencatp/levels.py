"""Size levels: the four sizes of input for which the tools were measured."""

from typing import Any

from ..errors import DataError

# Source: OpenCATP-LLM, commit a06e1f2, src/config.py (centres of clusters over the data set's inputs).
IMAGE_SIZES = ((490, 402), (582, 578), (954, 806), (1921, 2624))
IMAGE_AREAS_PX = tuple(width * height for width, height in IMAGE_SIZES)
TEXT_LENGTHS = (149, 2009, 4464, 7003)
LEVELS = 4


def size_level(width: Any = None, height: Any = None, *, text_length: Any = None) -> int:
    """The level 0..3 with the nearest centre, by area for an image and by characters for a text; of two, the larger level.

    Args:
        width, height: Size of an image, px.
        text_length: Length of a text, characters. Give either this or width and height.

    Raises:
        DataError: Neither or both are given, or a size is not a whole number above zero (a text may be empty).

    >>> size_level(width=954, height=806), size_level(text_length=100)
    (2, 0)
    """
    if text_length is not None:
        if width is not None or height is not None:
            raise DataError("size_level", "give either text_length or width and height, not both")
        return _nearest(_whole("text_length", text_length, at_least=0), TEXT_LENGTHS)
    if width is None or height is None:
        raise DataError("size_level", f"expected width and height or text_length, got width={width!r}, height={height!r}")
    return _nearest(_whole("width", width, at_least=1) * _whole("height", height, at_least=1), IMAGE_AREAS_PX)


def _whole(name: str, value: Any, at_least: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = at_least - 1
    if number != value or isinstance(value, bool) or number < at_least:
        raise DataError("size_level", f"{name}: expected a whole number of at least {at_least}, got {value!r}")
    return number


def _nearest(size: int, centres: tuple[int, ...]) -> int:
    return min(range(len(centres)), key=lambda level: (abs(centres[level] - size), -level))
