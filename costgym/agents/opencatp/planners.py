"""Language models as planners, prompted in four ways.

*Zero-shot* asks for the plan. *Few-shot* shows worked examples first. *HuggingGPT* asks for the steps, then for the plan that
joins them. *HYDRA* has several plans made and the model choose among them, told what each costs. All see the same tools and
prices.

Sources: CATP-LLM, section 5 (the baselines and that they are given cost information); Shen et al. 2023 (HuggingGPT: task
planning before execution); Ke et al. 2024 (HYDRA: a planner whose proposals a second agent chooses from). The wording is our
own.
"""

import json
from collections.abc import Sequence
from operator import add

from costgym.agents.models.base import ACT, PLAN, SYSTEM, USER, VOTE, LanguageModel, Message, Reply
from costgym.agents.opencatp.base import Proposal, Situation
from costgym.envs.opencatp.chat import read_plan
from costgym.simulators.calls import Usage
from costgym.simulators.opencatp.plan_space import PlanValues
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, train_samples
from costgym.simulators.opencatp.tasks import OpenCATPTask, tasks
from costgym.simulators.opencatp.tools import SIGNATURES, TOOLS
from costgym.simulators.plan import TASK_INPUT, Plan

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
    lines = (
        "You plan which tools to run on an image. The tools:",
        *(f"- {tool}: {DOES[tool]} ({SIGNATURES[tool].takes} to {SIGNATURES[tool].gives})" for tool in TOOLS),
        PRICES_HEADING,
        json.dumps({tool: round(evaluator.profile.price(tool, level), 6) for tool in TOOLS}),
        "Write a plan as a JSON list that alternates a tool and the list of what it depends on: earlier tools, or "
        f'"{TASK_INPUT}" for the given image. Use a tool at most once. Outputs that no tool reads are the answer. '
        f"A plan is worth {evaluator.alpha:g} times its score (0 to 1) less {1 - evaluator.alpha:g} times its price over "
        f"{evaluator.max_price:.4f} USD; leave out what costs more than it brings.",
    )
    return "\n".join(lines)


def task_text(task: OpenCATPTask, level: int) -> str:
    """Return the task as the user says it."""
    return f"{task.description} The image is of size level {level} of 0 to 3."


EXAMPLES = 3
CANDIDATES = 3


class PromptPlanner:
    """A language model asked for a plan in a `style`: ``zero-shot``, ``few-shot``, ``hugginggpt`` or ``hydra``."""

    def __init__(self, style: str, model: LanguageModel) -> None:
        self.name, self._model = style, model
        self.model = model.name
        self._examples: dict[tuple[int, str], str] = {}

    def propose(self, situation: Situation) -> Proposal:
        self._usage, self._replies = Usage(0, 0), dict[str, int]()
        self._model.reset(situation.seed)
        messages = [Message(SYSTEM, system_text(situation.evaluator, situation.level))]
        request = task_text(situation.task, situation.level)
        if self.name in ("few-shot", "hydra"):
            request = f"{self._worked_examples(situation)}\n\n{request}"
        if self.name == "hydra":
            plan, problem = self._choose(situation, messages, request)
        else:
            if self.name == "hugginggpt":
                steps = self._ask([*messages, Message(USER, f"Name the steps as a JSON list of tools.\n\n{request}")], PLAN)
                messages.append(Message(USER, f"{STEPS_HEADING} {steps}"))
            plan, problem = read_plan(self._ask([*messages, Message(USER, request)], ACT))
        return Proposal(plan, problem, self._usage, self._replies)

    def _ask(self, messages: Sequence[Message], purpose: str) -> str:
        answer: Reply = self._model.complete(messages, (), purpose)
        self._usage = Usage(*map(add, self._usage[:3], answer.usage[:3]))  # the tokens; a plan has no seconds
        answer.count_in(self._replies)
        return "" if answer.outcome else answer.message.content

    def _choose(self, situation: Situation, messages: list[Message], request: str) -> tuple[Plan | None, str]:
        plans, problem = [], ""
        for _ in range(CANDIDATES):
            plan, why = read_plan(self._ask([*messages, Message(USER, request)], ACT))
            if plan is None:
                problem = why
            elif plan not in plans:
                plans.append(plan)
        if len(plans) < 2:
            return (plans[0], "") if plans else (None, problem)
        profile, level = situation.evaluator.profile, situation.level
        shown = "\n".join(
            f"{CANDIDATE_HEADING} {number}: {json.dumps(plan.to_list())} costs {profile.plan_price(plan, level):.4f} USD"
            for number, plan in enumerate(plans, 1)
        )
        reply = self._ask([*messages, Message(USER, f"{request}\n{shown}\nAnswer with the number of the best.")], VOTE)
        number = int(reply) if reply.strip().isdecimal() and len(reply) < 4 else 1
        return plans[min(max(number, 1), len(plans)) - 1], ""

    def _worked_examples(self, situation: Situation) -> str:
        """Tasks of the train split with the plan that proved best on the train samples; the same for all tasks of a kind."""
        level, kind = key = situation.level, situation.task.kind
        if key not in self._examples:
            values, samples = PlanValues(situation.evaluator), train_samples(situation.evaluator)
            known, shown = tasks(kind, "train"), []
            for task in (known[len(known) * index // EXAMPLES] for index in range(EXAMPLES)):
                plan = values.expected_optimum(task, level, samples, complete=True)
                shown.append(f"{EXAMPLE_HEADING}: {task_text(task, level)}\nPlan: {json.dumps(plan.to_list())}")
            self._examples[key] = "\n".join(shown)
        return self._examples[key]
