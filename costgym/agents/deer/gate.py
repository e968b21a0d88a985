"""DEER's decisions as a tool access: whether the request needs a tool at all, and which of those on offer may be of use."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from costgym.agents.deer.deciders import best_threshold
from costgym.agents.llm.session import LlmSession, Refusal, ToolAccess
from costgym.agents.models.base import Function, FunctionCall
from costgym.simulators.decision.samples import NO_SEARCH, Example
from costgym.simulators.decision.toolsets import what_it_does
from costgym.simulators.retrieval.embedding import TextEmbedding
from costgym.simulators.status import Status
from costgym.simulators.tools import Same, ToolText

WORDS = 1024  # length of the vectors that texts are compared in
WHOLE = 0.98  # share of the past queries that shall keep a tool for each of their needs
FITTED_ON = 400  # past queries that it learns from
ANSWER = "No function is needed for this request: answer it from what you know."
NONE_FITS = "No function on offer fits this request: answer as far as you can, or give up."


class Gate:
    """Decides by the words of a query, learnt from labelled queries of the train split.

    Every other query is remembered; on the others it learns two thresholds. A query needs a tool if it is more like the tools
    and the queries that needed one than like those that did not. A tool may be of use as far as the query is like its
    documentation, or like a past query that tools of its kind served; the threshold is the highest that leaves a share `WHOLE`
    of the queries a tool for each need.

    Source: DEER (arXiv 2402.16696), Sections 3.1 and 5: decisions are learnt from examples and made before the tools are read.
    """

    def __init__(self, known: Sequence[Example]) -> None:
        remembered, rest = known[::2], known[1::2]
        documents = {tool.name: what_it_does(tool) for example in known for tool in example.candidates}
        self._kinds = {tool.name: tool.capability for example in known for tool in example.candidates}
        queries = [example.query for example in remembered]
        self._embed = TextEmbedding([*dict.fromkeys(documents.values()), *queries], WORDS)
        past = self._embed(queries).astype(np.float32)
        needed = np.array([needs_tool(example) for example in remembered])
        self._searched, self._answered = past[needed], past[~needed]
        self._tools = self._embed(list(dict.fromkeys(documents.values()))).astype(np.float32)
        self._served: dict[str, list[int]] = {}
        for number, example in enumerate(example for example in remembered if needs_tool(example)):
            for kind in sorted({self._kinds[name] for name in serving(example) if name in self._kinds}):
                self._served.setdefault(kind, []).append(number)
        self._described: dict[str, NDArray[np.float32]] = {}
        leaning = np.array([self.leaning(example.query) for example in rest])
        self.search_at = best_threshold(leaning, np.array([needs_tool(example) for example in rest]))
        self.fits_at = self._lowest([self._weakest(example) for example in rest if needs_tool(example)])

    def leaning(self, query: str) -> float:
        """How much more a query is like what needs a tool than like what does not."""
        vector = self._embed([query])[0].astype(np.float32)
        toward = max((self._tools @ vector).max(initial=0.0), (self._searched @ vector).max(initial=0.0))
        return round(float(toward - (self._answered @ vector).max(initial=0.0)), 5)  # free of the noise of a sum's order

    def fits(self, query: str, tools: Sequence[ToolText]) -> list[float]:
        """How much each tool may be of use."""
        vector = self._embed([query])[0].astype(np.float32)
        past = self._searched @ vector
        return [round(float(max(self._document(tool) @ vector, self._proven(tool, past))), 5) for tool in tools]

    def _document(self, tool: ToolText) -> NDArray[np.float32]:
        if tool.name not in self._described:
            self._described[tool.name] = self._embed([what_it_does(tool)])[0].astype(np.float32)
        return self._described[tool.name]

    def _proven(self, tool: ToolText, past: NDArray[np.float32]) -> float:
        return max((float(past[number]) for number in self._served.get(self._kinds.get(tool.name, ""), ())), default=-1.0)

    def _weakest(self, example: Example) -> float:
        """The threshold at which a query loses the last tool for one of its needs."""
        fits = dict(zip([tool.name for tool in example.candidates], self.fits(example.query, example.candidates), strict=True))
        best = (max((fits[name] for name in need.tools if name in fits), default=1.0) for need in example.task.needs)
        return min(best, default=1.0)

    @staticmethod
    def _lowest(weakest: Sequence[float]) -> float:
        return sorted(weakest)[int((1.0 - WHOLE) * len(weakest))] if weakest else 0.0


def needs_tool(example: Example) -> bool:
    """Whether a query needs a tool."""
    return example.kind != NO_SEARCH and not all(need.given for need in example.task.needs)


def serving(example: Example) -> list[str]:
    """The tools that serve a query's needs."""
    return [name for need in example.task.needs for name in need.tools]


@lru_cache(maxsize=4)  # a gate takes a second to learn, and all episodes in a world have the same examples
def _gate(examples: Same) -> Gate:
    return Gate(examples.value)


class DeerGate(ToolAccess):
    """Hides all tools where none is needed or none fits, and else those that do not fit. Without examples it hides nothing."""

    suffix = "deer"
    wants_examples = FITTED_ON

    def reset(self, session: LlmSession) -> None:
        self._instruction, self._allowed = "", frozenset[str]()
        examples = session.seat.examples
        names = [tool.name for tool in session.tools]
        if len(examples) < 4:
            self._allowed = frozenset(names)
            return
        gate = _gate(Same(examples))
        if gate.leaning(session.query) < gate.search_at:
            self._instruction = ANSWER
            return
        fits = gate.fits(session.query, session.tools)
        self._allowed = frozenset(name for name, fit in zip(names, fits, strict=True) if fit >= gate.fits_at)
        self._instruction = "" if self._allowed else NONE_FITS

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        return [function for function in offered if function.name in self._allowed]

    def system(self) -> str:
        return self._instruction

    def refuse(self, call: FunctionCall) -> Refusal | None:
        if call.name in self._allowed:
            return None
        return Refusal(Status.FORBIDDEN, "this function was found to be of no use for the request")
