"""OpenCATP as text: a whole plan in one message, which is then executed and scored."""

import json
from typing import Any

from costgym.envs.actions import count_tokens, read_usage
from costgym.envs.actions.spaces import CallText, UnicodeText
from costgym.envs.base import takes
from costgym.envs.opencatp.base import OpenCATPBase, OpenCATPSettings
from costgym.simulators.calls import Usage
from costgym.simulators.errors import CostGymError, InvalidPlan
from costgym.simulators.opencatp.tools import IMAGE, SIGNATURES, TOOLS
from costgym.simulators.opencatp.world import PlanEpisode, PlayedPlan
from costgym.simulators.plan import TASK_INPUT, Plan
from costgym.simulators.pricing.prompt_cache import USUAL, ModelPrices
from costgym.simulators.quality import INVALID_PLAN_REWARD

MAX_ACTION_CHARS, MAX_OBSERVATION_CHARS = 100_000, 20_000
MAX_PROBLEM_CHARS = 240


class PlanText(CallText):
    """The space of texts whose samples are plans, with some nonsense between."""

    def _call(self) -> Any:
        """A plan of one to four tools, each after the task's input or an earlier tool whose output it can read."""
        plan: list[Any] = []
        made = {TASK_INPUT: IMAGE}
        for _ in range(1 + int(self._luck() * 4)):
            open_tools = [tool for tool in TOOLS if tool not in made and SIGNATURES[tool].takes in made.values()]
            tool = open_tools[int(self._luck() * len(open_tools))]
            before = [name for name, gives in made.items() if gives == SIGNATURES[tool].takes]
            plan += [tool, [before[int(self._luck() * len(before))]]]
            made[tool] = SIGNATURES[tool].gives
        return plan


class OpenCATPChatEnv(OpenCATPBase[str, str]):
    """Give a plan of vision tools in one message, and pay for the tools in it.

    ## Description

    The tasks of `OpenCATP-v0`, in words. The agent reads what is wanted and what each tool costs at the size of the image, and
    answers with a whole plan, as the paper asks its prompted planners. The plan is executed: independent tools run side by
    side, each tool costs money by time and memory, and the outputs are scored. An episode is one step.

    Other than in `OpenCATP-v0`, a plan may leave out what is wanted: what is missing scores 0 and costs nothing.

    ## Action space

    A string of at most 100,000 characters: JSON. A plan alternates a tool and the list of what it depends on, which are
    `"input_of_query"` or earlier tools.

    | action | effect |
    | --- | --- |
    | `["image_denoising", ["input_of_query"]]` | The plan alone. |
    | `{"plan": [...], "usage": {...}}` | The plan, and the tokens that a model used to write it. |
    | `{"plan": null, "problem": "..."}` | No plan, and the reason. |

    `usage` is `{"input_tokens": ..., "output_tokens": ..., "cached_tokens": ...}`; without it the environment counts a token
    for each four characters of the query and the action. In any other text the first JSON list is read. What is not a plan, or
    a plan of tools that read what they cannot, is invalid; no action raises an error.

    ## Observation space

    A string. After `reset` it is the task, the size level, and price (USD) and seconds of a run of each tool. After the step
    it is JSON: `{"score": ..., "price": ..., "seconds": ..., "quality_of_plan": ...}`, or, where there was no valid plan,
    `{"error": "invalid_plan", "message": ...}`.

    ## Rewards

    The Quality of Plan: alpha × score - (1 - alpha) × price / `max_price` (0.567 USD). An invalid plan brings the published
    penalty of -0.5; it has no score and no price.

    ## Starting state

    The task and the sample are drawn uniformly from the split; `reset(options={...})` names them instead: `task` (a number in
    the old numbering), `sample` and `level`. There is no other chance.

    ## Episode end

    * Termination: the first action.
    * Truncation: never.

    A step after the end changes nothing and is rewarded with 0.

    ## Version history

    * v0: first version.

    ## References

    * CATP-LLM (arXiv 2411.16313), sections 3 and 5: the tasks, and planners that are asked for whole plans.
    """

    may_give_nothing = False
    token_prices: ModelPrices | None = None  # of the model that writes; None where its tokens are free

    @takes(OpenCATPSettings)
    def __init__(self, settings: OpenCATPSettings) -> None:
        self._configure(settings)
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARS)
        self.action_space = PlanText(MAX_ACTION_CHARS) if self.worlds[-1] else UnicodeText(MAX_ACTION_CHARS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._begin(seed, options)
        self._plan: Plan | None = None
        self._problem = ""
        self._price, self._seconds, self._usage, self._token_price = 0.0, 0.0, Usage(0, 0), 0.0
        return self.query, self._info()

    @property
    def query(self) -> str:
        """The task, and the price of a run of each tool at this sample's size level."""
        profile, level = self.profile, self.size_level
        costs = {
            tool: {"price": round(profile.price(tool, level), 6), "seconds": round(profile.seconds(tool, level), 4)}
            for tool in TOOLS
        }
        return f"{self.task.description}\nSize level {level} of 0 to 3. Tools: {json.dumps(costs)}"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        task = self.task
        if self._over:
            return "", 0.0, True, False, self._info()
        self._over = True
        plan, self._problem, usage = read_plan_action(action)
        if usage is None:
            spoken = count_tokens(action) if isinstance(action, str) else 0
            usage = Usage(count_tokens(self.query), spoken)
        self._usage = usage
        self._token_price = 0.0 if self.token_prices is None else self.token_prices.price(usage)
        if plan is not None:
            try:
                outcome = self.evaluator.evaluate(plan, task, self.sample, self.size_level)
            except InvalidPlan as error:
                self._problem = str(error)[:MAX_PROBLEM_CHARS]
            else:
                self._plan, self._valid = plan, True
                self._price, self._seconds = outcome.price, outcome.seconds
                within = self._check_budget()
                # an executed plan may score other than the table says; what it is charged stays the same
                charged = outcome.quality - self.alpha * outcome.score
                self._score = self.evaluator.score(plan, task, self.sample) if within else 0.0
                self._return = outcome.quality if self._score == outcome.score else charged + self.alpha * self._score
        if self._plan is None:
            self._return = INVALID_PLAN_REWARD
        if self.token_prices is not None:
            self._check_budget()
            self._return -= (1.0 - self.alpha) * self._token_price / self.max_price
        if self._plan is None:
            answer: dict[str, Any] = {"error": "invalid_plan", "message": self._problem}
        else:
            figures = {"score": self._score, "price": self._price, "seconds": self._seconds, "quality_of_plan": self._return}
            answer = {name: round(value, 6) for name, value in figures.items()}
        return json.dumps(answer), self._return, True, False, self._info()

    def _used(self) -> tuple[float, float, int, int]:
        tools = 0 if self._plan is None else len(self._plan.nodes)
        return self._price + self._token_price, self._seconds, self._usage.input_tokens + self._usage.output_tokens, tools

    def plan(self) -> Plan | None:
        """The plan that was given, or None."""
        self._playing()
        return self._plan

    def action_text(self, action: str) -> str:
        plan, problem, _ = read_plan_action(action)
        if plan is None:
            return f"no plan: {problem}"
        return "\n".join(f"{step.tool} after {', '.join(step.deps)}" for step in plan.steps)

    def account(self) -> PlanEpisode:
        """The present episode, in which each tool starts at the end of its dependencies."""
        plan = self._plan
        refused = (self._problem or "no plan was given") if self._over and plan is None else None
        price, _, tokens, _ = self._used()
        usage = self._usage if self._over and self.token_prices is not None else None
        steps = () if plan is None else plan.steps
        return self._played(PlayedPlan(steps, tokens, refused, usage=usage, token_price=self._token_price), price)


class OpenCATPChatEnvV1(OpenCATPChatEnv):
    """Give a plan of vision tools in one message, and pay for the tools in it, in the world of version 1.

    ## Rewards

    As in `OpenCATPChat-v0`, and less by the price of the tokens: what those of claude-sonnet-5 cost in November 2026. Those of
    an invalid plan are billed likewise.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `failure_reason` | str | Why the episode was no success, such as `over the budget: price 0.745 of 0.3`; else empty. |

    ## Version history

    * v1: plays version 1 of the world, and its action space samples plans that can be read.
    * v0: first version; plays version 0 of the world, in which recordings up to 0.2 were made.
    """

    worlds = (1,)
    token_prices = USUAL


def read_plan(text: str) -> tuple[Plan | None, str]:
    """Parse the first JSON list in a text as a plan; return (plan, "") or (None, problem). Nothing in it is executed."""
    start = text.find("[")
    if start < 0:
        return None, f"expected a JSON list, got {text[:60]!r}"
    try:
        return _plan_of(json.JSONDecoder().raw_decode(text[start:])[0])
    except (ValueError, RecursionError) as error:
        return None, f"expected a JSON list, got {text[start : start + 60]!r} ({error})"[:MAX_PROBLEM_CHARS]


def read_plan_action(action: Any) -> tuple[Plan | None, str, Usage | None]:
    """Parse an action into a plan or a problem, and the token usage that it reports."""
    if not isinstance(action, str):
        return None, f"expected text, got {type(action).__name__}", None
    try:
        document = json.loads(action)
    except (ValueError, RecursionError):
        return *read_plan(action), None
    if not isinstance(document, dict):
        return *_plan_of(document), None
    usage, items = read_usage(document.get("usage")), document.get("plan")
    if items is None:
        problem = document.get("problem")
        return None, problem[:MAX_PROBLEM_CHARS] if isinstance(problem, str) and problem else "no plan was given", usage
    return *_plan_of(items), usage


def _plan_of(items: Any) -> tuple[Plan | None, str]:
    try:
        plan = Plan.from_list(items)
        plan.check_types(SIGNATURES)
        return plan, ""
    except (CostGymError, TypeError, ValueError) as error:
        return None, str(error)[:MAX_PROBLEM_CHARS]
