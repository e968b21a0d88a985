"""Plan first, then act, then answer: the model names all calls at once and is then shown one function at a time."""

import json
import re

from .. import prompts
from ..llm.session import LlmSession
from ..llm.types import Play, SearchResult
from ..models.base import FINISH, PLAN, USER, Message
from .settings import LimitedSearch

PLAN_TRIES = 2
STEP_TRIES = 2
"""Most replies per step: a tool that must be registered first needs a second one."""


class PlanThenAct(LimitedSearch):
    """Plans once, then takes the plan's steps in order; the plan is never revised.

    The context stays short, but nothing replaces a function that fails.

    Args:
        settings: `depth` limits the steps.
    """

    name = "plan-act"

    def play(self, session: LlmSession) -> Play[SearchResult]:
        history = [session.request, Message(USER, prompts.PLAN)]
        steps: list[str] | None = None
        for _ in range(PLAN_TRIES):
            if session.exhausted():
                return SearchResult(None)
            said = yield from session.ask(history, PLAN)
            history.append(said.message)
            steps = read_plan(said.message.content)
            if steps is not None:
                break
            history.append(Message(USER, prompts.NO_PLAN))
        for name in (steps or [])[: self.settings.depth]:
            if session.exhausted():
                return SearchResult(None)
            for _ in range(STEP_TRIES):
                offered = session.offered()
                shown = [function for function in offered if function.name == name]
                said = yield from session.ask(history, functions=[*shown, FINISH] if shown else offered)
                turn = yield from session.perform(said)
                if turn.ending is not None:
                    return turn.ending
                history += turn.messages
                if not turn.registered:  # the world saw the step
                    break
        if session.summarises:
            return SearchResult(None)
        return (yield from session.summarise(history))


def read_plan(text: str) -> list[str] | None:
    """Return the function names in a plan, or None if the text has no plan."""
    found = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        document = json.loads(found.group()) if found else None
    except (ValueError, RecursionError):
        return None
    names = document.get("plan") if isinstance(document, dict) else None
    if not isinstance(names, list):
        return None
    return [name for name in names if isinstance(name, str)]
