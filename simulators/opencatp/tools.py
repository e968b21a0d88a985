"""The ten tools of OpenCATP: their inputs and outputs, what may come before them, and their official token numbers.

The planning language numbers fifteen tools; five of them occur in no task and have no part in the world here. They keep their
numbers, so that official token sequences can be read.

Source: OpenCATP-LLM (Apache-2.0), commit a06e1f2, src/config.py: tool and dependency tokens, input and output kinds.
"""

from ..plan import TASK_INPUT, Signature

IMAGE, TEXT = "image", "text"

IMAGE_TOOLS = ("image_colorization", "image_deblurring", "image_denoising", "image_super_resolution")
READER_TOOLS = ("image_classification", "object_detection", "image_captioning")
TEXT_TOOLS = ("sentiment_analysis", "text_summarization", "machine_translation")

# In the order of the official token numbers.
TOOLS = (
    "image_classification",
    "image_colorization",
    "object_detection",
    "image_deblurring",
    "image_denoising",
    "image_super_resolution",
    "image_captioning",
    "sentiment_analysis",
    "text_summarization",
    "machine_translation",
)

SIGNATURES: dict[str, Signature] = {
    tool: Signature(
        takes=TEXT if tool in TEXT_TOOLS else IMAGE,
        gives=IMAGE if tool in IMAGE_TOOLS else TEXT,
    )
    for tool in TOOLS
}

# The kind of each reader's text. A text tool keeps the kind of its source: a translated caption is a caption.
OUTPUT_OF_READER = {"image_captioning": "caption", "image_classification": "label", "object_detection": "object"}

# Other names under which plans write a tool.
ALIASES = {
    "colorization": "image_colorization",
    "fill_mask": "mask_filling",
    "text_to_image_generation": "text_to_image",
}

SOP, EOP, SOD, EOD = 80000, 80001, 90000, 90001
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
TOOL_TOKEN = {tool: 80002 + number for number, tool in enumerate(ALL_TOKEN_TOOLS)}
DEPENDENCY_TOKEN = {tool: 90002 + number for number, tool in enumerate(ALL_TOKEN_TOOLS)} | {TASK_INPUT: 90017}


def predecessors(tool: str) -> tuple[str, ...]:
    """The nodes that a tool may depend on where the task gives an image: tools that make what it takes, or the task's input."""
    takes = SIGNATURES[tool].takes
    earlier = tuple(other for other in TOOLS if other != tool and SIGNATURES[other].gives == takes)
    return (*((TASK_INPUT,) if takes == IMAGE else ()), *earlier)
