"""The "+summary" control: the final summary that BTP writes, without its plan."""

from ..llm.types import ToolAccess


class Summary(ToolAccess):
    """Has the final answer written from all executed calls, and changes nothing else.

    BTP's runs end with such a summary, which its plain baselines lack; this shows what the summary alone brings.

    Source: BTP (arXiv 2402.15960), Algorithm 2, last step.
    """

    suffix = "summary"
    summarise = True
