"""Prompts about planning: the tools, what they cost at this size, the task, and how to write a plan."""

import json
from collections.abc import Sequence

from ...simulators.opencatp.scoring.evaluation import Evaluator
from ...simulators.opencatp.tasks import OpenCATPTask
from ...simulators.opencatp.tools import SIGNATURES, TOOLS
from ...simulators.plan import TASK_INPUT, Plan

PRICES_HEADING = "Price of one run at this input's size, USD:"
EXAMPLE_HEADING = "Example"
CANDIDATE_HEADING = "Candidate"
STEPS_HEADING = "Steps found so far:"

DOES = {
    "image_classification": "names the class of what an image shows",
    "image_colorization": "gives a grey image its colours back",
    "object_detection": "names the objects in an image",
    "image_deblurring": "makes a blurry image sharp",
    "image_denoising": "takes the noise out of an image",
    "image_super_resolution": "makes a coarse image fine",
    "image_captioning": "says in a sentence what an image shows",
    "sentiment_analysis": "says whether a text is glad or sad",
    "text_summarization": "shortens a text",
    "machine_translation": "puts an English text into German",
}


def system_text(evaluator: Evaluator, level: int) -> str:
    """Return the tools, their prices and the form of a plan."""
    lines = ["You plan which tools to run on an image. The tools:"]
    for tool in TOOLS:
        lines.append(f"- {tool}: {DOES[tool]} ({SIGNATURES[tool].takes} to {SIGNATURES[tool].gives})")
    lines.append(PRICES_HEADING)
    lines.append(json.dumps({tool: round(evaluator.profile.price(tool, level), 6) for tool in TOOLS}))
    lines.append(
        "Write a plan as a JSON list that alternates a tool and the list of what it depends on: earlier tools, or "
        f'"{TASK_INPUT}" for the given image. Use a tool at most once. Outputs that no tool reads are the answer. '
        f"A plan is worth {evaluator.alpha:g} times its score (0 to 1) less {1 - evaluator.alpha:g} times its price over "
        f"{evaluator.max_price:.4f} USD; leave out what costs more than it brings."
    )
    return "\n".join(lines)


def task_text(task: OpenCATPTask, level: int) -> str:
    """Return the task as the user says it."""
    return f"{task.description} The image is of size level {level} of 0 to 3."


def example_text(task: OpenCATPTask, level: int, plan: Plan) -> str:
    """Return a worked example."""
    return f"{EXAMPLE_HEADING}: {task_text(task, level)}\nPlan: {json.dumps(plan.to_list())}"


def candidates_text(plans: Sequence[Plan], prices: Sequence[float]) -> str:
    """Return the plans to choose from, with what they cost."""
    return "\n".join(
        f"{CANDIDATE_HEADING} {number}: {json.dumps(plan.to_list())} costs {price:.4f} USD"
        for number, (plan, price) in enumerate(zip(plans, prices, strict=True), 1)
    )
