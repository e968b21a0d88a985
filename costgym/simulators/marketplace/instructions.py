"""The instructions of ToolPlanner's five levels: coarse ones keep the user's situation and drop the details of the query.

| level | holds |
| --- | --- |
| statement | the situation alone |
| category, tool, api | the situation and names of categories, providers or APIs; of what is wanted at most its topic |
| hybrid | the whole query, with API and provider of each need |

Source: ToolPlanner (arXiv 2409.14826), Sections 3.1 and 3.2, Tables 14 to 17 and Appendix B.3.2.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from costgym.simulators.tasks import Need
from costgym.simulators.tools import Tool

MOST_SITUATIONS = 2  # sentences about the user's situation; a published statement has one or two clauses, 15 words on average
_DETAILS = re.compile(
    r"\s+(?:of|on|at|in|for|from|to|by|with|about|around|near|nearest to|between|as|after|before|who|that|called|whose)\s"
)
_EMPTY = re.compile(r"^the (?:id|code|name|number|worth|title)$")


def instructions(query: str, statement: str, needs: Sequence[Need], gold: Sequence[Tool]) -> dict[str, str]:
    """Return the query at each level; `statement` is the user's situation, without a request."""
    topics = f"the {_list([topic(need) for need in needs])}"
    categories = [tool.category.replace("_", " ") for tool in gold]
    kinds = "categories" if len(set(categories)) > 1 else "category"
    apis = [tool.title for tool in gold]
    hybrid = query
    for need, tool in zip(needs, gold, strict=True):
        how = f"with {tool.title} of {tool.provider}"
        wished = f"{need.wish} {how}"
        hybrid = hybrid.replace(need.wish, wished, 1) if need.wish in hybrid else f"{hybrid} Find {wished}."
    return {
        "statement": statement,
        "category": f"{statement} Please find the information I need with tools from the {_list(categories)} {kinds}.",
        "tool": f"{statement} Using {_list([tool.provider for tool in gold])}, find {topics}.",
        "api": f"{statement} Using the {_list(apis)} {'APIs' if len(set(apis)) > 1 else 'API'}, find {topics}.",
        "hybrid": hybrid,
    }


def topic(need: Need) -> str:
    """Return what a need is about, without the details: `fare` of "the fare on route RT-51695K"."""
    values = [str(value) for value in (need.arguments or {}).values()]
    cuts = [at for text in (*values, " that ", '"') if (at := need.wish.find(text)) > 0]
    if not cuts:
        return need.wish.removeprefix("the ")
    head = need.wish[: min(cuts)].rstrip() + " "
    details = list(_DETAILS.finditer(head))
    short = head[: details[-1].start()] if details else head.rstrip()
    return (head.rstrip() if _EMPTY.match(short) else short).removeprefix("the ")


def solved_with(tools: Iterable[Tool], uniform: Callable[[], float]) -> Tool:
    """The tool that answers first where tools of one capability are tried in their order, as a solved path would name it.

    Where none works within its time-out, it is the most reliable. Source: ToolPlanner, Section 3.2: names are those of solved
    paths, and tasks without one are removed.
    """
    tried: list[tuple[float, Tool]] = []
    for tool in tools:
        profile = tool.profile
        chance = profile.reliability if profile.latency_at(0) < profile.timeout_s else 0.0
        if uniform() < chance:
            return tool
        tried.append((chance, tool))
    return max(tried, key=lambda attempt: attempt[0])[1]


def _list(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"
