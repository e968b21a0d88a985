"""The "+Prompt" baseline: the model is told prices and what is left, and nothing is enforced."""

import json
from math import isfinite

from .. import prompts
from ..llm.session import LlmSession
from ..llm.types import ToolAccess


class Prompt(ToolAccess):
    """Tells the model what each call costs and what remains of the budget.

    Source: BTP (arXiv 2402.15960), the "+Prompt" rows.
    """

    suffix = "prompt"

    def reset(self, session: LlmSession) -> None:
        self._session = session

    def system(self) -> str:
        session = self._session
        quotes = session.quotes()
        lines = [prompts.COSTS + json.dumps({f.name: round(quotes.get(f.name, 0.0), 6) for f in session.candidates})]
        remaining = float(session.info.get("budget_remaining_price", float("inf")))
        if isfinite(remaining):
            lines.append(f"{prompts.REMAINING}{remaining:g}. Keep the calls within it and spend as little as you can.")
        return "\n".join(lines)
