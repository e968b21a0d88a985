"""The ten tools of OpenCATP: their inputs and outputs, what may come before them, and their official token numbers.

The planning language numbers fifteen tools; five of them occur in no task and have no part in the world here. They keep their
numbers, so that official token sequences can be read.

Source: OpenCATP-LLM (Apache-2.0), commit a06e1f2, src/config.py: tool and dependency tokens, input and output kinds.
"""

from typing import Any

from costgym.simulators.errors import DataError
from costgym.simulators.plan import TASK_INPUT, Signature

IMAGE, TEXT = "image", "text"

IMAGE_TOOLS = ("image_colorization", "image_deblurring", "image_denoising", "image_super_resolution")
READER_TOOLS = ("image_classification", "object_detection", "image_captioning")
TEXT_TOOLS = ("sentiment_analysis", "text_summarization", "machine_translation")

# In the order of the official token numbers.
ALL_TOKEN_TOOLS = (
    "image_classification",
    "image_colorization",
    "object_detection",
    "image_deblurring",
    "image_denoising",
    "image_super_resolution",
    "image_captioning",
    "text_to_image",
    "visual_question_answering",
    "sentiment_analysis",
    "question_answering",
    "text_summarization",
    "text_generation",
    "machine_translation",
    "mask_filling",
)
TOOLS = tuple(tool for tool in ALL_TOKEN_TOOLS if tool in {*IMAGE_TOOLS, *READER_TOOLS, *TEXT_TOOLS})

SIGNATURES: dict[str, Signature] = {
    tool: Signature(takes=TEXT if tool in TEXT_TOOLS else IMAGE, gives=IMAGE if tool in IMAGE_TOOLS else TEXT) for tool in TOOLS
}

# The kind of each reader's text. A text tool keeps the kind of its source: a translated caption is a caption.
OUTPUT_OF_READER = {"image_captioning": "caption", "image_classification": "label", "object_detection": "object"}
READER_OF = {output: reader for reader, output in OUTPUT_OF_READER.items()}

# Other names under which plans write a tool.
ALIASES = {"colorization": "image_colorization", "fill_mask": "mask_filling", "text_to_image_generation": "text_to_image"}

SOP, EOP, SOD, EOD = 80000, 80001, 90000, 90001
TOOL_TOKEN = {tool: 80002 + number for number, tool in enumerate(ALL_TOKEN_TOOLS)}
DEPENDENCY_TOKEN = {tool: 90002 + number for number, tool in enumerate(ALL_TOKEN_TOOLS)} | {TASK_INPUT: 90017}


def predecessors(tool: str) -> tuple[str, ...]:
    """The nodes that a tool may depend on where the task gives an image: tools that make what it takes, or the task's input."""
    takes = SIGNATURES[tool].takes
    earlier = tuple(other for other in TOOLS if other != tool and SIGNATURES[other].gives == takes)
    return (*((TASK_INPUT,) if takes == IMAGE else ()), *earlier)


# Source: OpenCATP-LLM, commit a06e1f2, src/config.py (centres of clusters over the data set's inputs).
IMAGE_SIZES = ((490, 402), (582, 578), (954, 806), (1921, 2624))
IMAGE_AREAS_PX = tuple(width * height for width, height in IMAGE_SIZES)
TEXT_LENGTHS = (149, 2009, 4464, 7003)
LEVELS = 4


def size_level(width: Any = None, height: Any = None, *, text_length: Any = None) -> int:
    """The level 0..3 with the nearest centre, by area for an image and by characters for a text; a tie goes to the larger.

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
