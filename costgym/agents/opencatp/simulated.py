"""A planning language model without weights: it reads the prompt, knows what the words mean, and errs at documented rates."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from costgym.agents.models.base import ACT, PLAN, VOTE, Function, Message, Reply, reply
from costgym.agents.opencatp.planners import CANDIDATE_HEADING, EXAMPLE_HEADING, PRICES_HEADING, STEPS_HEADING
from costgym.agents.opencatp.rules import USUAL_ORDER, chain_items
from costgym.simulators.draws import stable_generator
from costgym.simulators.opencatp.tools import READER_OF, TOOLS
from costgym.simulators.plan import TASK_INPUT

_CALLS_FOR = {
    "of low resolution": "image_super_resolution",
    "noisy": "image_denoising",
    "blurry": "image_deblurring",
    "without colour": "image_colorization",
}
_ASKS_FOR = {"a caption": "caption", "the class": "label", "the names of the objects": "object"}


@dataclass(frozen=True, slots=True)
class PlannerRates:
    """The error rates of a planning model. All are shares of plans or of choices, 0 to 1.

    These are settings of the simulation, no measurement of a real model. They were set on the plain prompt alone, so that its
    quality stands to the informed optimum's about as the paper's zero-shot row stands to its best; the other prompts follow.
    """

    malformed: float = 0.05  # writes something that is not a plan
    misses: float = 0.15  # leaves out a restorer that the words call for
    adds: float = 0.20  # puts in one that they do not call for
    disorders: float = 0.40  # restores in another order than the usual
    unreads: float = 0.06  # forgets a wanted output
    weighs: float = 0.95  # looks at the prices and leaves out what costs more than it thinks a restorer brings
    guess: float = 0.05  # its estimate of what one restorer adds to a plan's worth
    examples_help: float = 0.85  # factor on all errors for each worked example in the prompt
    steps_help: float = 0.6  # factor on all errors when the steps were found first
    choice_slips: float = 0.15  # picks another than the best of the plans it is shown

    @classmethod
    def perfect(cls) -> "PlannerRates":
        """Rates of a model that never errs."""
        return cls(malformed=0.0, misses=0.0, adds=0.0, disorders=0.0, unreads=0.0, weighs=0.0, choice_slips=0.0)


class SimulatedPlanner:
    """Answers planning prompts."""

    name = "simulated"

    def __init__(self, perfect: bool = False) -> None:
        self.rates = PlannerRates.perfect() if perfect else PlannerRates()

    def reset(self, seed: int) -> None:
        """A new situation; all chance comes from `seed`."""
        self._chance = stable_generator(seed, "planning model")

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        """Return a plan as a JSON list; the steps as a JSON list of tools (`PLAN`); or the number of a candidate (`VOTE`)."""
        text = messages[-1].content
        if purpose == VOTE:
            answer = str(self._pick(text))
        else:
            context = "\n".join(message.content for message in messages)
            errors = self.rates.examples_help ** context.count(f"{EXAMPLE_HEADING}:")
            task = text.rsplit(f"{EXAMPLE_HEADING}:", 1)[-1].rsplit("\n\n", 1)[-1]
            if purpose == PLAN:
                answer = json.dumps(
                    [*self._restorers(task, context, errors * self.rates.steps_help), *self._readers(task, errors)]
                )
            else:
                answer = self._plan(task, context, errors)
        return reply(answer, (), messages, functions)

    def _slips(self, rate: float) -> bool:
        return bool(self._chance.random() < rate)

    def _restorers(self, task: str, context: str, errors: float) -> list[str]:
        rates = self.rates
        wanted = [tool for words, tool in _CALLS_FOR.items() if words in task]
        chosen = [tool for tool in USUAL_ORDER if tool in wanted and not self._slips(rates.misses * errors)]
        if self._slips(rates.adds * errors):
            spare = [tool for tool in USUAL_ORDER if tool not in wanted]
            chosen += [spare[int(self._chance.integers(len(spare)))]] if spare else []
        if self._slips(rates.weighs / errors):
            prices = _prices(context)
            chosen = [tool for tool in chosen if prices.get(tool, 0.0) <= rates.guess]
        if len(chosen) > 1 and self._slips(rates.disorders * errors):
            chosen = [chosen[i] for i in self._chance.permutation(len(chosen))]
        return chosen

    def _readers(self, task: str, errors: float) -> list[str]:
        steps = []
        for words, output in _ASKS_FOR.items():
            if words in task and not self._slips(self.rates.unreads * errors):
                steps.append(READER_OF[output])
                if re.search(re.escape(words) + r"[^,]*? in German", task.replace(" and ", ", ")):
                    steps.append("machine_translation")
        return steps

    def _plan(self, task: str, context: str, errors: float) -> str:
        if STEPS_HEADING in context:
            errors *= self.rates.steps_help
            steps = _list(context.rsplit(STEPS_HEADING, 1)[-1])
            restorers = [tool for tool in steps if tool in USUAL_ORDER]
            readers = [tool for tool in steps if tool in TOOLS and tool not in USUAL_ORDER]
        else:
            restorers, readers = self._restorers(task, context, errors), self._readers(task, errors)
        wants_image = "the image as it was before" in task
        if wants_image and not restorers:
            prices = _prices(context)
            restorers = [min(USUAL_ORDER, key=lambda tool: prices.get(tool, 0.0))]
        items = chain_items(restorers, readers, wants_image)
        return self._spoil(items) if self._slips(self.rates.malformed * errors) else json.dumps(items)

    def _spoil(self, items: list[Any]) -> str:
        """Return a plan with an error, of one of the kinds that models make."""
        ways = (
            "First I would clean the image, then read it.",
            json.dumps(items[:-1]),
            json.dumps([*items, "image_sharpening", [TASK_INPUT]]),
            json.dumps(["machine_translation", [TASK_INPUT], *items]),
        )
        return ways[int(self._chance.integers(4))]

    def _pick(self, text: str) -> int:
        """Return the candidate that it thinks is worth most: what its restorers bring, less their price."""
        worth = []
        for line in text.splitlines():
            match = re.match(rf"{CANDIDATE_HEADING} (\d+): (\[.*\]) costs ([0-9.]+) USD", line)
            if match:
                restorers = sum(tool in USUAL_ORDER for tool in _list(match[2])[::2])
                worth.append((self.rates.guess * min(restorers, 2) - float(match[3]), int(match[1])))
        if not worth:
            return 1
        if self._slips(self.rates.choice_slips):
            return worth[int(self._chance.integers(len(worth)))][1]
        return max(worth)[1]


def _prices(context: str) -> dict[str, float]:
    lines = context.split(PRICES_HEADING, 1)[-1].strip().splitlines()
    try:
        document = json.loads(lines[0]) if lines else {}
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _list(text: str) -> list[Any]:
    """Return the first JSON list in a text; empty if there is no list."""
    start = text.find("[")
    try:
        items = json.JSONDecoder().raw_decode(text[start:])[0] if start >= 0 else []
    except (ValueError, RecursionError):
        return []
    return items if isinstance(items, list) else []
